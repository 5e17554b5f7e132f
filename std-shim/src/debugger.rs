//! The debugger's calls: a process that debugs itself, and the raw operation.

use std::sync::Arc;

use hsakmt_core::driver::Errno;
use hsakmt_core::error::{Error, Result};
use hsakmt_core::node::NodeId;
use hsakmt_kfd::device::Arrays;
use hsakmt_kfd::uapi::{
    DbgDeviceInfoEntry, DbgTrapArgs, EC_QUEUE_NEW, KFD_IOC_DBG_TRAP_ENABLE, KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT,
    KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT, KFD_IOC_DBG_TRAP_QUERY_EXCEPTION_INFO, KFD_IOC_DBG_TRAP_RESUME_QUEUES,
    KFD_IOC_DBG_TRAP_SUSPEND_QUEUES, QueueSnapshotEntry, RuntimeInfo,
};

use crate::connection::Connection;
use crate::context::Context;

/// The first minor version of the kernel's interface with DBG_TRAP.
const MINOR_DEBUG: u32 = 13;

/// `KFD_EC_MASK(EC_QUEUE_NEW)`
const QUEUE_NEW: u64 = 1 << (EC_QUEUE_NEW - 1);

/// Room for `count` entries, all zero.
fn room<T: Default + Clone>(count: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    list.try_reserve_exact(count).map_err(|_| Error::NoMemory)?;
    list.resize(count, T::default());
    Ok(list)
}

impl Context {
    fn debugged(self) -> Result<Arc<Connection>> {
        let connection = self.connection()?;
        if connection.kfd_minor < MINOR_DEBUG { Err(Error::NotSupported) } else { Ok(connection) }
    }

    /// Whether the kernel has a debugger's interface. Waits for a lock that is held for an instant.
    ///
    /// # Errors
    /// [`Error::NotOpened`], [`Error::NotSupported`].
    pub fn debug_support(self) -> Result<()> {
        self.debugged().map(|_| ())
    }

    /// Attaches this process to itself as a debugger; what its runtime has told. Blocking.
    ///
    /// # Errors
    /// [`Error::NotOpened`]; [`Error::NotSupported`] on an older kernel; [`Error::Failed`].
    #[doc(alias = "hsaKmtDbgEnable")]
    pub fn debug_enable(self) -> Result<RuntimeInfo> {
        let mut info = RuntimeInfo::default();
        self.debugged()?.device().debug_enable(&mut info).map_err(|_| Error::Failed)?;
        Ok(info)
    }

    /// Takes that back. Blocking.
    ///
    /// # Errors
    /// As [`Context::debug_enable`].
    #[doc(alias = "hsaKmtDbgDisable")]
    pub fn debug_disable(self) -> Result<()> {
        self.debugged()?.device().debug_disable().map_err(|_| Error::Failed)
    }

    /// The GPUs as a debugger sees them. Blocking.
    ///
    /// # Errors
    /// As [`Context::debug_enable`]; [`Error::NoMemory`].
    #[doc(alias = "hsaKmtDbgGetDeviceData")]
    pub fn debug_devices(self) -> Result<Vec<DbgDeviceInfoEntry>> {
        let connection = self.debugged()?;
        let device = connection.device();
        let count = device.debug_devices(&mut []).map_err(|_| Error::Failed)?;
        let mut list = room(count)?;
        let count = device.debug_devices(&mut list).map_err(|_| Error::Failed)?;
        list.truncate(count);
        Ok(list)
    }

    /// The queues of this process as a debugger sees them, after they were stopped. Blocking.
    ///
    /// # Errors
    /// As [`Context::debug_devices`]; [`Error::Failed`] also if there is no queue.
    #[doc(alias = "hsaKmtDbgGetQueueData")]
    pub fn debug_stopped_queues(self) -> Result<Vec<QueueSnapshotEntry>> {
        let connection = self.debugged()?;
        let device = connection.device();
        let count = device.debug_queues(QUEUE_NEW, &mut []).map_err(|_| Error::Failed)?;
        if count == 0 {
            return Err(Error::Failed);
        }
        let mut list: Vec<QueueSnapshotEntry> = room(count)?;
        let mut ids: Vec<u32> = room(count)?;
        let count = device.debug_queues(QUEUE_NEW, &mut list).map_err(|_| Error::Failed)?;
        list.truncate(count);
        ids.truncate(count);
        ids.iter_mut().zip(&list).for_each(|(id, queue)| *id = queue.queue_id);
        device.debug_suspend(QUEUE_NEW, &mut ids).map_err(|_| Error::Failed)?;
        let count = device.debug_queues(QUEUE_NEW, &mut list).map_err(|_| Error::Failed)?;
        list.truncate(count);
        Ok(list)
    }

    /// Changes waves of a node's GPU by the deprecated debugger, which no supported kernel has. `content` is as the kernel had
    /// it. Blocking.
    ///
    /// # Errors
    /// [`Error::NotOpened`], [`Error::InvalidNode`], [`Error::Failed`].
    #[doc(alias = "hsaKmtDbgWavefrontControl")]
    pub(crate) fn debug_wave_control(self, node: NodeId, content: &[u32]) -> Result<()> {
        let connection = self.connection()?;
        connection.device().wave_control(self.gpu_of(node)?, content).map_err(|_| Error::Failed)
    }

    /// Watches addresses on a node's GPU by the deprecated debugger. As [`Context::debug_wave_control`].
    #[doc(alias = "hsaKmtDbgAddressWatch")]
    pub(crate) fn debug_address_watch(self, node: NodeId, content: &[u32]) -> Result<()> {
        let connection = self.connection()?;
        connection.device().address_watch(self.gpu_of(node)?, content).map_err(|_| Error::Failed)
    }

    /// One operation of the kernel's debugger interface, of any process; what the system call returned, which is how many
    /// queues for some. Blocking.
    ///
    /// # Errors
    /// [`Error::NotOpened`]. What the kernel refuses is [`Err`] inside.
    ///
    /// # Safety
    /// What the operation reads and writes through addresses in `args` may be used as it wants.
    #[doc(alias = "hsaKmtDebugTrapIoctl")]
    pub(crate) unsafe fn debug_trap(self, args: &mut DbgTrapArgs) -> Result<Result<u32, Errno>> {
        let connection = self.connection()?;
        let (address, bytes) = memory_of(args);
        // SAFETY: by contract.
        let memory = unsafe { Arrays::memory(address, bytes) };
        // SAFETY: by contract.
        Ok(unsafe { connection.device().dbg_trap(args, &memory) })
    }

    /// The kernel's numbers of queues.
    ///
    /// # Errors
    /// [`Error::NotOpened`]; [`Error::NoMemory`] for an empty list, and for a queue that does not exist.
    pub(crate) fn queue_numbers(self, queues: &[u64]) -> Result<Vec<u32>> {
        if queues.is_empty() {
            return Err(Error::NoMemory);
        }
        let mut numbers = room(queues.len())?;
        self.manage_queues(|_, known| {
            for (number, id) in numbers.iter_mut().zip(queues) {
                *number = known.number(*id).map_err(|_| Error::NoMemory)?;
            }
            Ok(())
        })?;
        Ok(numbers)
    }
}

/// The memory that an operation points to: where, and bytes.
fn memory_of(args: &DbgTrapArgs) -> (usize, usize) {
    let entries =
        |address: u64, count: u32, size: u32| (address as usize, (count as usize).saturating_mul(size as usize));
    match args.op {
        KFD_IOC_DBG_TRAP_ENABLE => entries(args.enable().rinfo_ptr, 1, args.enable().rinfo_size),
        KFD_IOC_DBG_TRAP_SUSPEND_QUEUES => {
            entries(args.suspend_queues().queue_array_ptr, args.suspend_queues().num_queues, 4)
        }
        KFD_IOC_DBG_TRAP_RESUME_QUEUES => {
            entries(args.resume_queues().queue_array_ptr, args.resume_queues().num_queues, 4)
        }
        KFD_IOC_DBG_TRAP_QUERY_EXCEPTION_INFO => {
            entries(args.query_exception_info().info_ptr, 1, args.query_exception_info().info_size)
        }
        KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT => {
            let snapshot = args.queue_snapshot();
            entries(snapshot.snapshot_buf_ptr, snapshot.num_queues, snapshot.entry_size)
        }
        KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT => {
            let snapshot = args.device_snapshot();
            entries(snapshot.snapshot_buf_ptr, snapshot.num_devices, snapshot.entry_size)
        }
        _ => (0, 0),
    }
}
