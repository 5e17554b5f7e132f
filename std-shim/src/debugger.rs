//! The debugger's calls: a process that debugs itself, and the raw operation.

use std::sync::Arc;

use hsakmt_core::error::{Error, Result};
use hsakmt_kfd::uapi::{DbgDeviceInfoEntry, EC_QUEUE_NEW, QueueSnapshotEntry, RuntimeInfo};

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
}
