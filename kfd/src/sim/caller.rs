//! What the simulated kernel needs of whoever calls it: [`Caller`]. Behind the supervisor it is another process, in
//! the embedded machine this one.

use std::os::fd::OwnedFd;

use hsakmt_core::driver::Errno;

use super::memfd::DeviceFile;

/// The calling process, seen from the kernel.
pub trait Caller {
    /// Reads the caller's memory; `EFAULT` unless all of it is there.
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Errno>;

    /// Writes the caller's memory; `EFAULT` unless all of it is there and writable.
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Errno>;

    /// Whether every page of the range can be read. `size` is at least 1 and does not wrap.
    fn readable(&mut self, address: u64, size: u64) -> bool;

    /// Whether every page of the range belongs to some ordinary mapping, readable or not.
    fn mapped(&mut self, address: u64, size: u64) -> bool;

    /// Which of the simulated files the caller's descriptor is.
    fn file(&mut self, fd: i32) -> Option<DeviceFile>;

    /// Whether the caller has a file open as `fd`, simulated or not.
    fn is_open(&mut self, fd: i32) -> bool {
        self.file(fd).is_some()
    }

    /// Gives the caller a descriptor of `file`, closed on exec.
    fn install(&mut self, file: OwnedFd) -> Result<i32, Errno>;

    /// Another descriptor of the caller's open file; `EBADF` if it has none with this number.
    fn duplicate(&mut self, _: i32) -> Result<OwnedFd, Errno> {
        Err(Errno(libc::EBADF))
    }

    /// Whether the caller's thread traces a process (ptrace); `ESRCH` if there is no such process.
    fn traces(&mut self, _: u32) -> Result<bool, Errno> {
        Err(Errno(libc::ESRCH))
    }
}
