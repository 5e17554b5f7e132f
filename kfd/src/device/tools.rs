//! The ioctls of tools: management events, streamed performance counters, sampled program counters, the deprecated debugger.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use hsakmt_core::driver::{Errno, HostRange};
use hsakmt_core::node::GpuId;

use super::{Arrays, Device, Transport};
use crate::opcode;
use crate::uapi::*;

/// What a new counter buffer says of the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpmCopied {
    /// Bytes in it.
    pub bytes: u32,
    /// Whether some were lost.
    pub lost: u32,
    /// Milliseconds left of the timeout.
    pub timeout: u32,
}

impl<T: Transport> Device<T> {
    /// Opens the stream of management events of a GPU: a descriptor, closed on exec.
    #[doc(alias = "AMDKFD_IOC_SMI_EVENTS")]
    pub fn smi_events(&self, gpu: GpuId) -> Result<OwnedFd, Errno> {
        let mut args = SmiEventsArgs { gpuid: gpu.0, anon_fd: u32::MAX };
        // SAFETY: the struct holds numbers only.
        unsafe { self.update::<{ opcode::SMI_EVENTS }, _>(&mut args) }?;
        let fd = RawFd::try_from(args.anon_fd).map_err(|_| Errno(libc::EBADF))?;
        // SAFETY: KFD has installed this descriptor for this call, and nothing else knows it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Takes (`KFD_IOCTL_SPM_OP_ACQUIRE`) or gives back (`KFD_IOCTL_SPM_OP_RELEASE`) the counter stream of a GPU.
    #[doc(alias = "AMDKFD_IOC_RLC_SPM")]
    fn spm(&self, gpu: GpuId, op: u32) -> Result<(), Errno> {
        let mut args = SpmArgs { gpu_id: gpu.0, op, ..Default::default() };
        // SAFETY: the struct holds numbers only.
        unsafe { self.update::<{ opcode::RLC_SPM }, _>(&mut args) }
    }

    /// Takes the counter stream of a GPU for this process.
    #[doc(alias = "KFD_IOCTL_SPM_OP_ACQUIRE")]
    pub fn spm_acquire(&self, gpu: GpuId) -> Result<(), Errno> {
        self.spm(gpu, KFD_IOCTL_SPM_OP_ACQUIRE)
    }

    /// Gives the counter stream of a GPU back.
    #[doc(alias = "KFD_IOCTL_SPM_OP_RELEASE")]
    pub fn spm_release(&self, gpu: GpuId) -> Result<(), Errno> {
        self.spm(gpu, KFD_IOCTL_SPM_OP_RELEASE)
    }

    /// Says where counters go from now on, at address 0 nowhere. Waits up to `timeout` milliseconds for the buffer before to
    /// fill. What it says of that one is there on errors too.
    #[doc(alias = "KFD_IOCTL_SPM_OP_SET_DEST_BUF")]
    pub fn spm_set_buffer(&self, gpu: GpuId, buffer: HostRange<'_>, timeout: u32) -> (SpmCopied, Result<(), Errno>) {
        let mut args = SpmArgs {
            dest_buf: buffer.address() as u64,
            buf_size: u32::try_from(buffer.size()).unwrap_or(u32::MAX),
            op: KFD_IOCTL_SPM_OP_SET_DEST_BUF,
            timeout,
            gpu_id: gpu.0,
            ..Default::default()
        };
        // SAFETY: the kernel writes counters into the `HostRange`, which devices may use by its maker's promise.
        let result = unsafe { self.update::<{ opcode::RLC_SPM }, _>(&mut args) };
        (SpmCopied { bytes: args.bytes_copied, lost: args.has_data_loss, timeout: args.timeout }, result)
    }

    /// The ways of sampling program counters that a GPU has: fills `out` from the front. How many there are comes with errors
    /// too; `ENOSPC` if `out` is too short.
    #[doc(alias = "KFD_IOCTL_PCS_OP_QUERY_CAPABILITIES")]
    pub fn pc_sampling_capabilities(&self, gpu: GpuId, out: &mut [PcSampleInfo]) -> (u32, Result<(), Errno>) {
        let (none, num_sample_info) = (out.is_empty(), u32::try_from(out.len()).unwrap_or(u32::MAX));
        let ways = Arrays::written(out);
        let mut args = PcSampleArgs {
            sample_info_ptr: if none { 0 } else { ways.first() },
            num_sample_info,
            op: KFD_IOCTL_PCS_OP_QUERY_CAPABILITIES,
            gpu_id: gpu.0,
            ..Default::default()
        };
        // SAFETY: the kernel writes at most `num_sample_info` structs, which the array has.
        let result = unsafe { self.update_with::<{ opcode::PC_SAMPLE }, _>(&mut args, &ways) };
        (args.num_sample_info, result)
    }

    /// Makes a session that samples as `info` says; its number.
    #[doc(alias = "KFD_IOCTL_PCS_OP_CREATE")]
    pub fn pc_sampling_create(&self, gpu: GpuId, info: &mut PcSampleInfo) -> Result<u32, Errno> {
        let info = Arrays::written(std::slice::from_mut(info));
        let mut args = PcSampleArgs {
            sample_info_ptr: info.first(),
            num_sample_info: 1,
            op: KFD_IOCTL_PCS_OP_CREATE,
            gpu_id: gpu.0,
            ..Default::default()
        };
        // SAFETY: the kernel uses one struct, which the array has.
        unsafe { self.update_with::<{ opcode::PC_SAMPLE }, _>(&mut args, &info) }?;
        Ok(args.trace_id)
    }

    /// Starts, stops or ends a session: `KFD_IOCTL_PCS_OP_START`, `.._STOP`, `.._DESTROY`; `EINVAL` for another `op`.
    #[doc(alias = "AMDKFD_IOC_PC_SAMPLE")]
    pub fn pc_sampling_change(&self, gpu: GpuId, session: u32, op: u32) -> Result<(), Errno> {
        if !matches!(op, KFD_IOCTL_PCS_OP_START | KFD_IOCTL_PCS_OP_STOP | KFD_IOCTL_PCS_OP_DESTROY) {
            return Err(Errno::INVAL);
        }
        let mut args = PcSampleArgs { op, gpu_id: gpu.0, trace_id: session, ..Default::default() };
        // SAFETY: the struct holds numbers only; these operations use no array.
        unsafe { self.update::<{ opcode::PC_SAMPLE }, _>(&mut args) }
    }

    /// Asks for the deprecated debugger of a GPU; kernels answer `EPERM`.
    #[doc(alias = "AMDKFD_IOC_DBG_REGISTER_DEPRECATED")]
    pub fn debugger_register(&self, gpu: GpuId) -> Result<(), Errno> {
        // SAFETY: the struct holds numbers only.
        unsafe { self.set::<{ opcode::DBG_REGISTER_DEPRECATED }, _>(DbgRegisterArgs { gpu_id: gpu.0, pad: 0 }) }
    }

    /// Gives the deprecated debugger of a GPU up; kernels answer `EPERM`.
    #[doc(alias = "AMDKFD_IOC_DBG_UNREGISTER_DEPRECATED")]
    pub fn debugger_unregister(&self, gpu: GpuId) -> Result<(), Errno> {
        // SAFETY: the struct holds numbers only.
        unsafe { self.set::<{ opcode::DBG_UNREGISTER_DEPRECATED }, _>(DbgUnregisterArgs { gpu_id: gpu.0, pad: 0 }) }
    }

    /// Asks the deprecated debugger to watch addresses; `content` is what follows the struct. Kernels answer `EPERM`.
    #[doc(alias = "AMDKFD_IOC_DBG_ADDRESS_WATCH_DEPRECATED")]
    pub fn address_watch(&self, gpu: GpuId, content: &[u32]) -> Result<(), Errno> {
        let buf_size_in_bytes = with_header(content);
        let content = Arrays::read(content);
        let mut args = DbgAddressWatchArgs { content_ptr: content.first(), gpu_id: gpu.0, buf_size_in_bytes };
        // SAFETY: a kernel that still has the debugger reads the content, which is in the array.
        unsafe { self.update_with::<{ opcode::DBG_ADDRESS_WATCH_DEPRECATED }, _>(&mut args, &content) }
    }

    /// Asks the deprecated debugger to change waves; `content` is what follows the struct. Kernels answer `EPERM`.
    #[doc(alias = "AMDKFD_IOC_DBG_WAVE_CONTROL_DEPRECATED")]
    pub fn wave_control(&self, gpu: GpuId, content: &[u32]) -> Result<(), Errno> {
        let buf_size_in_bytes = with_header(content);
        let content = Arrays::read(content);
        let mut args = DbgWaveControlArgs { content_ptr: content.first(), gpu_id: gpu.0, buf_size_in_bytes };
        // SAFETY: as in `address_watch`.
        unsafe { self.update_with::<{ opcode::DBG_WAVE_CONTROL_DEPRECATED }, _>(&mut args, &content) }
    }
}

/// Bytes of content with those of the struct before it, which both calls have alike.
fn with_header(content: &[u32]) -> u32 {
    u32::try_from(size_of_val(content) + size_of::<DbgAddressWatchArgs>()).unwrap_or(u32::MAX)
}
