//! The debugger: a process that debugs itself. What is given out is from malloc, for the caller to free.

use core::ffi::c_void;
use core::ptr::with_exposed_provenance_mut;

use hsakmt_core::error::Error;
use hsakmt_core::node;
use hsakmt_kfd::uapi::{
    DbgDeviceInfoEntry, DbgTrapArgs, KFD_IOC_DBG_TRAP_RESUME_QUEUES, KFD_IOC_DBG_TRAP_SUSPEND_QUEUES,
    QueueSnapshotEntry, RuntimeInfo,
};

use super::argument::{In, InOut, Out, heap_copy};
use super::convert::halves;
use super::{entry, opened, twins};
use crate::context::Context;
use crate::ctypes::{CBool, CEnum, HsaDbgWaveMessage};

/// Addresses that the deprecated debugger can watch at once.
const MOST_WATCHED: u32 = 100;

twins! {
    /// Attaches this process to itself.
    fn hsaKmtDbgEnable, hsaKmtDbgEnableCtx(context, runtime_info: Out<*mut c_void>, data_size: Out<u32>) {
        let context = opened(context)?;
        let (mut place, mut size) = (runtime_info.required()?, data_size.required()?);
        let info = context.debug_enable()?;
        size.set(size_of::<RuntimeInfo>() as u32);
        place.set(heap_copy(&[info]).ok_or(Error::NoMemory)?);
        Ok(())
    }

    /// Takes that back.
    fn hsaKmtDbgDisable, hsaKmtDbgDisableCtx(context) {
        context.debug_disable()
    }

    /// The GPUs as a debugger sees them.
    fn hsaKmtDbgGetDeviceData, hsaKmtDbgGetDeviceDataCtx(
        context,
        data: Out<*mut c_void>,
        n_entries: Out<u32>,
        entry_size: Out<u32>,
    ) {
        let context = opened(context)?;
        let (mut place, mut count, mut size) = (data.required()?, n_entries.required()?, entry_size.required()?);
        let devices = context.debug_devices()?;
        size.set(size_of::<DbgDeviceInfoEntry>() as u32);
        count.set(devices.len() as u32);
        place.set(heap_copy(&devices).ok_or(Error::NoMemory)?);
        Ok(())
    }

    /// This process's queues as a debugger sees them. They are stopped first: without that the original fails, and so does
    /// this.
    fn hsaKmtDbgGetQueueData, hsaKmtDbgGetQueueDataCtx(
        context,
        data: Out<*mut c_void>,
        n_entries: Out<u32>,
        entry_size: Out<u32>,
        suspend_queues: CBool,
    ) {
        let context = opened(context)?;
        let (mut place, mut count, mut size) = (data.required()?, n_entries.required()?, entry_size.required()?);
        if suspend_queues == 0 {
            context.debug_support()?;
            return Err(Error::Failed);
        }
        let queues = context.debug_stopped_queues()?;
        size.set(size_of::<QueueSnapshotEntry>() as u32);
        count.set(queues.len() as u32);
        place.set(heap_copy(&queues).ok_or(Error::NoMemory)?);
        Ok(())
    }
}

entry! {
    /// Changes waves by the deprecated debugger.
    fn hsaKmtDbgWavefrontControl(
        NodeId: u32,
        Operand: CEnum,
        Mode: CEnum,
        TrapId: u32,
        DbgWaveMsgRing: In<HsaDbgWaveMessage>,
    ) {
        let context = opened(Context::primary())?;
        let HsaDbgWaveMessage { MemoryVA, DbgWaveMsg } = DbgWaveMsgRing.required()?;
        let ([a, b], [c, d]) = (halves(DbgWaveMsg), halves(MemoryVA));
        context.debug_wave_control(node::NodeId(NodeId), &[Operand, Mode, TrapId, a, b, c, d])
    }

    /// Watches addresses by the deprecated debugger.
    fn hsaKmtDbgAddressWatch(
        NodeId: u32,
        NumWatchPoints: u32,
        WatchMode: In<CEnum>,
        WatchAddress: In<u64>,
        WatchMask: In<u64>,
        WatchEvent: In<u64>,
    ) {
        let (context, node) = (opened(Context::primary())?, node::NodeId(NodeId));
        if NumWatchPoints > MOST_WATCHED {
            context.gpu_of(node)?;
            return Err(Error::InvalidParameter);
        }
        let count = NumWatchPoints as usize;
        // Without a first mask there is one for all.
        let masks = if WatchMask.required()? > 0 { count } else { 1 };
        let words = [WatchAddress.copy(count)?, WatchMask.copy(masks)?, WatchEvent.copy(count)?];
        let words = words.iter().flatten().flat_map(|word| halves(*word));
        let content: Vec<u32> = [NumWatchPoints].into_iter().chain(WatchMode.copy(count)?).chain(words).collect();
        context.debug_address_watch(node, &content)
    }

    /// One operation of the kernel's debugger interface. Queues that are named by their ids are put into the operation's own
    /// list, as the kernel's numbers.
    fn hsaKmtDebugTrapIoctl(arg: InOut<DbgTrapArgs>, Queues: In<u64>, DebugReturn: Out<i64>) {
        let context = opened(Context::primary())?;
        let mut args = arg.get().ok_or(Error::InvalidParameter)?;
        let suspends = args.op == KFD_IOC_DBG_TRAP_SUSPEND_QUEUES;
        let (list, count) = if suspends {
            (args.suspend_queues().queue_array_ptr, args.suspend_queues().num_queues)
        } else {
            (args.resume_queues().queue_array_ptr, args.resume_queues().num_queues)
        };
        if !Queues.is_missing() {
            let numbers = context.queue_numbers(&Queues.copy(count as usize)?)?;
            let list = with_exposed_provenance_mut::<u32>(list as usize);
            Out::inside(list).required()?.fill(numbers.into_iter());
        }
        // SAFETY: the caller's promise by calling (`argument`): what it points to is the kernel's to use.
        let answer = unsafe { context.debug_trap(&mut args) }?;
        let returned = answer.map_or(-1, i64::from);
        arg.out().required()?.set(args);
        DebugReturn.optional().iter_mut().for_each(|place| place.set(returned));
        let counts = suspends || args.op == KFD_IOC_DBG_TRAP_RESUME_QUEUES;
        let most = if counts { i64::from(count) } else { 0 };
        if (0..=most).contains(&returned) { Ok(()) } else { Err(Error::Failed) }
    }
}
