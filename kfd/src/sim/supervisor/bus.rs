//! A supervised process's memory, as the simulated GPU reaches it: the GPUs' files, its openings of `/dev/kfd`, and its
//! own pages.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use hsakmt_core::driver::Errno;

use super::super::machine::bus::{Bus, Place, RESTING};
use super::task::Task;

const FAULT: Errno = Errno(libc::EFAULT);

/// One process's memory.
pub(crate) struct ProcessBus<'a> {
    pub(crate) renders: &'a [OwnedFd],
    /// Each opening is a file of its own; the process may have mapped any of them.
    pub(crate) kfds: Vec<BorrowedFd<'a>>,
    /// `None`: its memory cannot be reached.
    pub(crate) task: Option<&'a Task>,
}

fn read_all(file: BorrowedFd<'_>, offset: u64, bytes: &mut [u8]) -> Result<(), Errno> {
    let (mut rest, mut at) = (bytes, offset);
    while !rest.is_empty() {
        match rustix::io::pread(file, &mut *rest, at) {
            Ok(0) | Err(_) => return Err(FAULT),
            Ok(count) => (rest, at) = (rest.split_at_mut(count).1, at + count as u64),
        }
    }
    Ok(())
}

fn write_all(file: BorrowedFd<'_>, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
    let (mut rest, mut at) = (bytes, offset);
    while !rest.is_empty() {
        match rustix::io::pwrite(file, rest, at) {
            Ok(0) | Err(_) => return Err(FAULT),
            Ok(count) => (rest, at) = (rest.split_at(count).1, at + count as u64),
        }
    }
    Ok(())
}

impl Bus for ProcessBus<'_> {
    fn read(&mut self, place: Place, bytes: &mut [u8]) -> Result<(), Errno> {
        match place {
            Place::Device { gpu, offset } => read_all(self.renders.get(gpu).ok_or(FAULT)?.as_fd(), offset, bytes),
            Place::Host(address) => self.task.ok_or(FAULT)?.read(address, bytes),
            Place::Kfd(offset) => {
                bytes.fill(RESTING);
                for kfd in &self.kfds {
                    read_all(*kfd, offset, bytes)?;
                    if bytes.iter().any(|byte| *byte != RESTING) {
                        break;
                    }
                }
                Ok(())
            }
        }
    }

    fn write(&mut self, place: Place, bytes: &[u8]) -> Result<(), Errno> {
        match place {
            Place::Device { gpu, offset } => write_all(self.renders.get(gpu).ok_or(FAULT)?.as_fd(), offset, bytes),
            Place::Host(address) => self.task.ok_or(FAULT)?.write(address, bytes),
            Place::Kfd(offset) => self.kfds.iter().try_for_each(|kfd| write_all(*kfd, offset, bytes)),
        }
    }
}
