//! This process as the simulated kernel's caller: [`Here`].
//!
//! The arrays that an ioctl's struct points to are those that the caller lends with it. What a verb is *about* - a userptr, a
//! shared range, a descriptor - is looked up in this process, by asking the kernel.

use std::os::fd::{IntoRawFd, OwnedFd};

use hsakmt_core::driver::Errno;
use rustix::process::{PidfdFlags, PidfdGetfdFlags};

use super::super::caller::Caller;
use super::super::maps::Maps;
use super::super::memfd::DeviceFile;
use super::super::probe;
use super::Space;
use crate::device::Arrays;

/// The calling process.
#[derive(Debug)]
pub(super) struct Here<'a> {
    space: Space,
    nonce: u64,
    arrays: &'a Arrays<'a>,
}

impl<'a> Here<'a> {
    pub(super) fn new(space: Space, nonce: u64, arrays: &'a Arrays<'a>) -> Here<'a> {
        Here { space, nonce, arrays }
    }
}

/// Which of the machine `nonce`'s files a descriptor of this process is.
pub(super) fn device_file(fd: i32, nonce: u64) -> Option<DeviceFile> {
    let link = std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    DeviceFile::from_link(link.to_str()?, nonce)
}

impl Caller for Here<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Errno> {
        self.arrays.copy_from(address, bytes)
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Errno> {
        if bytes.is_empty() { Ok(()) } else { self.arrays.copy_to(address, bytes) }
    }

    fn readable(&mut self, address: u64, size: u64) -> bool {
        match self.space {
            Space::Host => {
                let pid = rustix::process::getpid().as_raw_nonzero().get();
                probe::readable(pid, address, size, Maps::of_this_process)
            }
            Space::Virtual => true,
        }
    }

    fn mapped(&mut self, address: u64, size: u64) -> bool {
        match self.space {
            Space::Host => {
                let end = address.saturating_add(size);
                Maps::of_this_process().covers(address, end, |map| !map.device)
            }
            Space::Virtual => true,
        }
    }

    fn file(&mut self, fd: i32) -> Option<DeviceFile> {
        device_file(fd, self.nonce)
    }

    fn install(&mut self, file: OwnedFd) -> Result<i32, Errno> {
        Ok(file.into_raw_fd())
    }

    fn duplicate(&mut self, fd: i32) -> Result<OwnedFd, Errno> {
        let own = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty());
        let file = own.and_then(|own| rustix::process::pidfd_getfd(own, fd, PidfdGetfdFlags::empty()));
        file.map_err(|error| Errno(error.raw_os_error()))
    }
}
