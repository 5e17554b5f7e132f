//! A stopped call's thread, as the simulated kernel sees its caller.
//!
//! What was read is trusted only if the call still waits afterwards, and nothing is written unless it still waits:
//! a killed thread's number may already be somebody else's.

use std::os::fd::{AsFd, OwnedFd};

use hsakmt_core::driver::Errno;

use super::super::caller::Caller;
use super::super::memfd::DeviceFile;
use super::listener::Listener;
use super::task::Task;

/// The thread of a stopped call.
#[derive(Clone, Copy)]
pub(crate) struct Stopped<'a> {
    pub(crate) task: &'a Task,
    pub(crate) listener: &'a Listener,
    pub(crate) call: u64,
    pub(crate) nonce: u64,
}

impl Stopped<'_> {
    fn waits(&self) -> Result<(), Errno> {
        if self.listener.is_valid(self.call) { Ok(()) } else { Err(Errno(libc::ESRCH)) }
    }

    pub(crate) fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), Errno> {
        self.task.read(address, bytes)?;
        self.waits()
    }

    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.waits()?;
        if bytes.is_empty() { Ok(()) } else { self.task.write(address, bytes) }
    }

    /// A path.
    pub(crate) fn string(&self, address: u64) -> Option<String> {
        let text = self.task.string(address)?;
        self.waits().ok().map(|()| text)
    }

    /// Which simulated file a descriptor is.
    pub(crate) fn device(&self, fd: i32) -> Option<DeviceFile> {
        DeviceFile::from_link(&self.task.descriptor(fd)?, self.nonce)
    }
}

impl Caller for Stopped<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Errno> {
        Stopped::read(self, address, bytes)
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Errno> {
        Stopped::write(self, address, bytes)
    }

    fn readable(&mut self, address: u64, size: u64) -> bool {
        self.task.readable(address, size)
    }

    fn mapped(&mut self, address: u64, size: u64) -> bool {
        self.task.maps().covers(address, address.saturating_add(size), |map| !map.device)
    }

    fn file(&mut self, fd: i32) -> Option<DeviceFile> {
        self.device(fd)
    }

    fn is_open(&mut self, fd: i32) -> bool {
        self.task.descriptor(fd).is_some()
    }

    fn install(&mut self, file: OwnedFd) -> Result<i32, Errno> {
        self.listener.install(self.call, file.as_fd(), true).map(|fd| fd as i32)
    }

    fn duplicate(&mut self, fd: i32) -> Result<OwnedFd, Errno> {
        let file = self.task.duplicate(fd)?;
        self.waits().map(|()| file)
    }

    fn traces(&mut self, pid: u32) -> Result<bool, Errno> {
        let tracer = super::task::tracer(pid).ok_or(Errno(libc::ESRCH))?;
        self.waits().map(|()| tracer == self.task.tid)
    }
}
