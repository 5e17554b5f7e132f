//! Management events, streamed performance counters, sampled program counters, and the deprecated debugger.

use std::os::fd::IntoRawFd;

use hsakmt_core::error::Error;
use hsakmt_core::node;
use hsakmt_kfd::uapi::PcSampleInfo;

use super::argument::{Address, InOut, Out};
use super::{opened, twins};
use crate::ctypes::{CBool, HsaPcSamplingInfo};

twins! {
    /// Opens the stream of management events of a GPU.
    fn hsaKmtOpenSMI, hsaKmtOpenSMICtx(context, NodeId: u32, fd: Out<i32>) {
        let context = opened(context)?;
        let mut place = fd.required()?;
        place.set(context.open_smi(node::NodeId(NodeId))?.into_raw_fd());
        Ok(())
    }

    /// Takes a GPU's counter stream.
    fn hsaKmtSPMAcquire, hsaKmtSPMAcquireCtx(context, PreferredNode: u32) {
        context.spm_acquire(node::NodeId(PreferredNode))
    }

    /// Gives a GPU's counter stream back.
    fn hsaKmtSPMRelease, hsaKmtSPMReleaseCtx(context, PreferredNode: u32) {
        context.spm_release(node::NodeId(PreferredNode))
    }

    /// Says where counters go, and what the buffer before has.
    fn hsaKmtSPMSetDestBuffer, hsaKmtSPMSetDestBufferCtx(
        context,
        PreferredNode: u32,
        SizeInBytes: u32,
        timeout: InOut<u32>,
        SizeCopied: Out<u32>,
        DestMemoryAddress: Address,
        isSPMDataLoss: Out<CBool>,
    ) {
        let context = opened(context)?;
        let wait = timeout.get().ok_or(Error::InvalidParameter)?;
        let (mut left, mut bytes) = (timeout.out().required()?, SizeCopied.required()?);
        let mut lost = isSPMDataLoss.required()?;
        let buffer = DestMemoryAddress.range(SizeInBytes.into());
        let (copied, result) = context.spm_set_buffer(node::NodeId(PreferredNode), buffer, wait)?;
        left.set(copied.timeout);
        bytes.set(copied.bytes);
        lost.set(CBool::from(copied.lost != 0));
        result
    }

    /// Whether the kernel samples program counters.
    fn hsaKmtPcSamplingSupport, hsaKmtPcSamplingSupportCtx(context) {
        context.pc_sampling_support()
    }

    /// The ways of sampling that a GPU has.
    fn hsaKmtPcSamplingQueryCapabilities, hsaKmtPcSamplingQueryCapabilitiesCtx(
        context,
        NodeId: u32,
        sample_info: Out<HsaPcSamplingInfo>,
        sample_info_sz: u32,
        sz_needed: Out<u32>,
    ) {
        let mut needed = sz_needed.required()?;
        let context = opened(context)?;
        let mut place = sample_info.optional();
        let mut ways: Vec<PcSampleInfo> = Vec::new();
        let room = if place.is_some() { sample_info_sz as usize } else { 0 };
        // More than any GPU has.
        ways.resize(room.min(MOST_WAYS), PcSampleInfo::default());
        let (count, result) = context.pc_sampling_capabilities(node::NodeId(NodeId), &mut ways)?;
        needed.set(count);
        if let Some(place) = place.as_mut().filter(|_| result.is_ok()) {
            place.fill(ways.iter().take(count as usize).map(sampling));
        }
        result
    }

    /// Makes a sampling session.
    fn hsaKmtPcSamplingCreate, hsaKmtPcSamplingCreateCtx(
        context,
        node_id: u32,
        sample_info: InOut<HsaPcSamplingInfo>,
        traceId: Out<u32>,
    ) {
        let wanted = sample_info.get().ok_or(Error::InvalidParameter)?;
        let mut place = traceId.required()?;
        let context = opened(context)?;
        place.set(0);
        let mut info = PcSampleInfo {
            interval: wanted.value,
            interval_min: wanted.value_min,
            interval_max: wanted.value_max,
            flags: wanted.flags,
            method: wanted.method,
            kind: wanted.units,
        };
        let made = context.pc_sampling_create(node::NodeId(node_id), &mut info);
        // If a session samples otherwise the kernel says how.
        sample_info.out().required()?.set(sampling(&info));
        place.set(made?);
        Ok(())
    }

    /// Ends a sampling session.
    fn hsaKmtPcSamplingDestroy, hsaKmtPcSamplingDestroyCtx(context, NodeId: u32, traceId: u32) {
        context.pc_sampling_destroy(node::NodeId(NodeId), traceId)
    }

    /// Starts a sampling session.
    fn hsaKmtPcSamplingStart, hsaKmtPcSamplingStartCtx(context, NodeId: u32, traceId: u32) {
        context.pc_sampling_start(node::NodeId(NodeId), traceId)
    }

    /// Stops a sampling session.
    fn hsaKmtPcSamplingStop, hsaKmtPcSamplingStopCtx(context, NodeId: u32, traceId: u32) {
        context.pc_sampling_stop(node::NodeId(NodeId), traceId)
    }

    /// Asks for the deprecated debugger.
    fn hsaKmtDbgRegister, hsaKmtDbgRegisterCtx(context, NodeId: u32) {
        context.debugger_register(node::NodeId(NodeId))
    }

    /// Gives the deprecated debugger up.
    fn hsaKmtDbgUnregister, hsaKmtDbgUnregisterCtx(context, NodeId: u32) {
        context.debugger_unregister(node::NodeId(NodeId))
    }
}

/// More ways of sampling than any GPU has.
const MOST_WAYS: usize = 64;

fn sampling(info: &PcSampleInfo) -> HsaPcSamplingInfo {
    HsaPcSamplingInfo {
        value: info.interval,
        value_min: info.interval_min,
        value_max: info.interval_max,
        flags: info.flags,
        method: info.method,
        units: info.kind,
    }
}
