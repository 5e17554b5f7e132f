//! The debugger: a process that debugs itself. What is given out is from malloc, for the caller to free.

use core::ffi::c_void;

use hsakmt_core::error::Error;
use hsakmt_kfd::uapi::{DbgDeviceInfoEntry, QueueSnapshotEntry, RuntimeInfo};

use super::argument::{Out, heap_copy};
use super::{opened, twins};
use crate::ctypes::CBool;

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
