//! The debugger's ioctl: one number, many operations, of which each has a method here.

use std::os::fd::{AsFd, AsRawFd};

use hsakmt_core::driver::Errno;

use super::{Arrays, Device, Transport, restart_ioctl};
use crate::opcode::{self, Command};
use crate::uapi::*;

impl<T: Transport> Device<T> {
    /// One debugger operation. Returns what the system call returns: for suspending and resuming, how many queues.
    ///
    /// # Safety
    /// What the operation reads and writes through addresses in `args` is in `arrays`, or may be used as it wants.
    #[doc(alias = "AMDKFD_IOC_DBG_TRAP")]
    pub unsafe fn dbg_trap(&self, args: &mut DbgTrapArgs, arrays: &Arrays<'_>) -> Result<u32, Errno> {
        restart_ioctl(Command::DbgTrap, || {
            // SAFETY: the kernel stays within the struct and what the caller promises.
            unsafe { self.transport.update_counted::<{ opcode::DBG_TRAP }, _>(args, arrays) }
        })
    }

    /// Attaches this process to itself as a debugger, and fills in what its runtime has told.
    #[doc(alias = "KFD_IOC_DBG_TRAP_ENABLE")]
    pub fn debug_enable(&self, info: &mut RuntimeInfo) -> Result<(), Errno> {
        let info = Arrays::written(std::slice::from_mut(info));
        let enable = DbgTrapEnableArgs {
            exception_mask: 0,
            rinfo_ptr: info.first(),
            rinfo_size: size_of::<RuntimeInfo>() as u32,
            dbg_fd: self.as_fd().as_raw_fd() as u32,
        };
        // SAFETY: the kernel writes at most `rinfo_size` bytes, which the array has.
        unsafe { self.dbg_trap(&mut own(KFD_IOC_DBG_TRAP_ENABLE, overlay(&enable)), &info) }.map(|_| ())
    }

    /// Takes that back.
    #[doc(alias = "KFD_IOC_DBG_TRAP_DISABLE")]
    pub fn debug_disable(&self) -> Result<(), Errno> {
        let enable = DbgTrapEnableArgs { dbg_fd: self.as_fd().as_raw_fd() as u32, ..Default::default() };
        // SAFETY: this operation uses no address.
        unsafe { self.dbg_trap(&mut own(KFD_IOC_DBG_TRAP_DISABLE, overlay(&enable)), &Arrays::NONE) }.map(|_| ())
    }

    /// The GPUs as a debugger sees them: fills `out` from the front, says how many there are.
    #[doc(alias = "KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT")]
    pub fn debug_devices(&self, out: &mut [DbgDeviceInfoEntry]) -> Result<usize, Errno> {
        let num_devices = u32::try_from(out.len()).unwrap_or(u32::MAX);
        let devices = Arrays::written(out);
        let snapshot = DbgTrapDeviceSnapshotArgs {
            exception_mask: 0,
            snapshot_buf_ptr: devices.first(),
            num_devices,
            entry_size: size_of::<DbgDeviceInfoEntry>() as u32,
        };
        let mut args = own(KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT, overlay(&snapshot));
        // SAFETY: the kernel writes at most `num_devices` entries of this size, which the array has.
        unsafe { self.dbg_trap(&mut args, &devices) }?;
        Ok(args.device_snapshot().num_devices as usize)
    }

    /// The queues of this process as a debugger sees them: fills `out` from the front, says how many there are. Takes the
    /// exceptions in `clear` off them.
    #[doc(alias = "KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT")]
    pub fn debug_queues(&self, clear: u64, out: &mut [QueueSnapshotEntry]) -> Result<usize, Errno> {
        let num_queues = u32::try_from(out.len()).unwrap_or(u32::MAX);
        let queues = Arrays::written(out);
        let snapshot = DbgTrapQueueSnapshotArgs {
            exception_mask: clear,
            snapshot_buf_ptr: queues.first(),
            num_queues,
            entry_size: size_of::<QueueSnapshotEntry>() as u32,
        };
        let mut args = own(KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT, overlay(&snapshot));
        // SAFETY: the kernel writes at most `num_queues` entries of this size, which the array has.
        unsafe { self.dbg_trap(&mut args, &queues) }?;
        Ok(args.queue_snapshot().num_queues as usize)
    }

    /// Stops queues of this process; how many. A number that was not stopped is marked in `queues`.
    #[doc(alias = "KFD_IOC_DBG_TRAP_SUSPEND_QUEUES")]
    pub fn debug_suspend(&self, clear: u64, queues: &mut [u32]) -> Result<usize, Errno> {
        let num_queues = u32::try_from(queues.len()).map_err(|_| Errno::INVAL)?;
        let ids = Arrays::written(queues);
        let suspend = DbgTrapSuspendQueuesArgs {
            exception_mask: clear,
            queue_array_ptr: ids.first(),
            num_queues,
            grace_period: 0,
        };
        let mut args = own(KFD_IOC_DBG_TRAP_SUSPEND_QUEUES, overlay(&suspend));
        // SAFETY: the kernel reads and writes `num_queues` words, which the array has.
        unsafe { self.dbg_trap(&mut args, &ids) }.map(|count| count as usize)
    }
}

/// An operation on this process.
fn own(op: u32, payload: [u64; 3]) -> DbgTrapArgs {
    DbgTrapArgs { pid: std::process::id(), op, payload }
}
