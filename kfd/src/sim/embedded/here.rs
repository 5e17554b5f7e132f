//! This process as the simulated kernel's caller: [`Here`].
//!
//! The arrays that an ioctl's argument points to are not read from real addresses but from a small pocket at a made-up
//! one, so that no verb needs an unchecked pointer. Only what a verb is *about* - a userptr, a shared range, a
//! descriptor - is looked up in this process, and by asking the kernel.

use std::os::fd::{IntoRawFd, OwnedFd};

use hsakmt_core::driver::Errno;

use super::super::caller::Caller;
use super::super::maps::Maps;
use super::super::memfd::DeviceFile;
use super::super::probe;
use super::EmbeddedDriver;
use super::space::AddressSpace;

/// Where the pocket is: below every address that can be mapped.
const POCKET: u64 = 0x1000;

/// The calling process.
#[derive(Debug)]
pub(super) struct Here<'a> {
    driver: &'a EmbeddedDriver,
    nonce: u64,
    pocket: Vec<u8>,
}

impl<'a> Here<'a> {
    /// With an empty pocket.
    pub(super) fn new(driver: &'a EmbeddedDriver) -> Here<'a> {
        Here { driver, nonce: driver.nonce, pocket: Vec::new() }
    }

    /// With these bytes in the pocket.
    pub(super) fn with(driver: &'a EmbeddedDriver, pocket: Vec<u8>) -> Here<'a> {
        Here { pocket, ..Here::new(driver) }
    }

    /// The address to put into an argument.
    pub(super) fn address(&self) -> u64 {
        POCKET
    }

    /// What is in the pocket now.
    pub(super) fn pocket(&self) -> &[u8] {
        &self.pocket
    }

    fn range(&self, address: u64, size: usize) -> Result<std::ops::Range<usize>, Errno> {
        let start = address.checked_sub(POCKET).and_then(|start| usize::try_from(start).ok());
        let start = start.ok_or(Errno(libc::EFAULT))?;
        Ok(start..start.saturating_add(size))
    }
}

/// Which of the machine `nonce`'s files a descriptor of this process is.
pub(super) fn device_file(fd: i32, nonce: u64) -> Option<DeviceFile> {
    let link = std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    DeviceFile::from_link(link.to_str()?, nonce)
}

impl Caller for Here<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Errno> {
        let range = self.range(address, bytes.len())?;
        bytes.copy_from_slice(self.pocket.get(range).ok_or(Errno(libc::EFAULT))?);
        Ok(())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Errno> {
        if bytes.is_empty() {
            return Ok(());
        }
        let range = self.range(address, bytes.len())?;
        self.pocket.get_mut(range).ok_or(Errno(libc::EFAULT))?.copy_from_slice(bytes);
        Ok(())
    }

    fn readable(&mut self, address: u64, size: u64) -> bool {
        match &self.driver.space {
            AddressSpace::Host(_) => {
                let pid = rustix::process::getpid().as_raw_nonzero().get();
                probe::readable(pid, address, size, Maps::of_this_process)
            }
            AddressSpace::Virtual(_) => true,
        }
    }

    fn mapped(&mut self, address: u64, size: u64) -> bool {
        match &self.driver.space {
            AddressSpace::Host(_) => {
                let end = address.saturating_add(size);
                Maps::of_this_process().covers(address, end, |map| !map.device)
            }
            AddressSpace::Virtual(_) => true,
        }
    }

    fn file(&mut self, fd: i32) -> Option<DeviceFile> {
        device_file(fd, self.nonce)
    }

    fn install(&mut self, file: OwnedFd) -> Result<i32, Errno> {
        Ok(file.into_raw_fd())
    }
}
