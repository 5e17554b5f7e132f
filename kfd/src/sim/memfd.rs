//! The files behind the simulated devices: sparse memfds, recognised again by their name.
//!
//! `/proc/PID/fd/N` of a memfd reads `/memfd:NAME (deleted)`, whatever `dup`, `fork`, `exec` or a socket did to the
//! descriptor. The name says which simulated machine ([`World`](super::machine::World) nonce) and which device, so
//! two supervisors never take each other's files for their own. mmap of such a file is the kernel's own: what one
//! process writes into a buffer, another finds at the same offset.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FallocateFlags, FlockOperation, MemfdFlags, Mode, OFlags};
use rustix::io;

use super::machine::PAGE;
use super::machine::bus::RESTING;
use super::machine::event::{EVENT_PAGE_AT, EVENT_PAGE_BYTES};
use super::machine::memory::{DOORBELL_BYTES, doorbells_at};

/// One of the simulated files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceFile {
    /// `/dev/kfd`, opened for the n-th time.
    Kfd(u64),
    /// The render node of the n-th GPU.
    Render(usize),
    /// The primary node of the n-th GPU.
    Card(usize),
    /// A dmabuf of this memory.
    Dmabuf(u64),
}

impl fmt::Display for DeviceFile {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceFile::Kfd(open) => write!(to, "kfd.{open}"),
            DeviceFile::Render(gpu) => write!(to, "render.{gpu}"),
            DeviceFile::Card(gpu) => write!(to, "card.{gpu}"),
            DeviceFile::Dmabuf(memory) => write!(to, "dmabuf.{memory}"),
        }
    }
}

impl DeviceFile {
    /// What a descriptor's link says, if it is a file of the machine `nonce`.
    pub fn from_link(link: &str, nonce: u64) -> Option<DeviceFile> {
        let name = link.strip_prefix("/memfd:kfd-sim.")?.strip_suffix(" (deleted)")?;
        let (machine, device) = name.split_once('.')?;
        if machine.parse() != Ok(nonce) {
            return None;
        }
        let (kind, number) = device.split_once('.')?;
        let number: u64 = number.parse().ok()?;
        match kind {
            "kfd" => Some(DeviceFile::Kfd(number)),
            "render" => Some(DeviceFile::Render(usize::try_from(number).ok()?)),
            "card" => Some(DeviceFile::Card(usize::try_from(number).ok()?)),
            "dmabuf" => Some(DeviceFile::Dmabuf(number)),
            _ => None,
        }
    }
}

/// Room for every buffer a GPU will ever have: offsets are not used twice.
pub const DEVICE_BYTES: u64 = 1 << 61;

/// A new, empty file of that name and size. It takes memory only where it is written.
pub fn create(nonce: u64, file: DeviceFile, size: u64) -> io::Result<OwnedFd> {
    let fd = rustix::fs::memfd_create(format!("kfd-sim.{nonce}.{file}"), MemfdFlags::CLOEXEC)?;
    rustix::fs::ftruncate(&fd, size)?;
    Ok(fd)
}

/// Lets the doorbells and the event page of a new `/dev/kfd` file rest.
pub fn write_resting(file: impl AsFd, gpus: usize) -> io::Result<()> {
    let page = [RESTING; PAGE as usize];
    let write = |start: u64, size: u64| {
        (0..size / PAGE).try_for_each(|index| rustix::io::pwrite(&file, &page, start + index * PAGE).map(drop))
    };
    (0..gpus).try_for_each(|gpu| write(doorbells_at(gpu), DOORBELL_BYTES))?;
    write(EVENT_PAGE_AT, EVENT_PAGE_BYTES)
}

/// A second, independent opening of the same file.
pub fn reopen(file: impl AsFd) -> io::Result<OwnedFd> {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

/// Gives the pages of a freed piece of a device's file back to the host.
pub fn drop_pages(file: impl AsFd, offset: u64, size: u64) {
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    if let Err(error) = rustix::fs::fallocate(file, hole, offset, size) {
        log::warn!("freed memory is kept: {error}");
    }
}

/// Tells whether anyone still has a file open or mapped: the opening that was given away holds a shared lock, and an
/// exclusive one can be had only when its last copy is gone, wherever it went.
#[derive(Debug)]
pub struct Watch(OwnedFd);

impl Watch {
    /// Marks `file` (an opening about to be given away) and watches it.
    pub fn new(file: &OwnedFd) -> io::Result<Watch> {
        let watch = reopen(file)?;
        rustix::fs::flock(file, FlockOperation::LockShared)?;
        Ok(Watch(watch))
    }

    /// The file that is watched.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Whether the opening still exists.
    pub fn alive(&self) -> bool {
        match rustix::fs::flock(&self.0, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
                false
            }
            Err(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_file_is_recognised_by_its_link() {
        let fd = create(7, DeviceFile::Render(3), 4096).unwrap();
        let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap();
        let link = link.to_str().unwrap();
        assert_eq!(DeviceFile::from_link(link, 7), Some(DeviceFile::Render(3)));
        assert_eq!(DeviceFile::from_link(link, 8), None);
        assert_eq!(DeviceFile::from_link("/dev/null", 7), None);
    }

    #[test]
    fn a_watch_sees_the_last_copy_go() {
        let fd = create(7, DeviceFile::Dmabuf(1), 4096).unwrap();
        let watch = Watch::new(&fd).unwrap();
        let copy = fd.try_clone().unwrap();
        drop(fd);
        assert!(watch.alive());
        drop(copy);
        assert!(!watch.alive());
    }
}
