//! The supervised threads: who they are, their descriptors, their memory.
//!
//! A thread is known by an open `/proc/TID`: as long as that directory answers, the number means the thread it was
//! opened for, so a reused number is never mistaken for its predecessor. Memory is read and written with
//! `process_vm_readv` and `process_vm_writev`, which respect the pages' protection.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use hsakmt_core::driver::Errno;
use rustix::fs::{Mode, OFlags};
use rustix::process::PidfdGetfdFlags;

use super::super::machine::PAGE;
use super::super::maps::Maps;
use super::super::probe;

const FAULT: Errno = Errno(libc::EFAULT);
/// The kernel's ERESTARTSYS: no program sees it, since a thread with a signal gets EINTR instead or makes its call anew.
const RESTART: Errno = Errno(512);

/// More threads than this are forgotten together and learned anew.
const REMEMBERED: usize = 4096;

/// One thread.
#[derive(Debug)]
pub(crate) struct Task {
    directory: OwnedFd,
    pub(super) tid: u32,
    /// Its process.
    pub(crate) process: u32,
}

/// The threads seen so far.
#[derive(Debug, Default)]
pub(crate) struct Tasks(HashMap<u32, Task>);

impl Tasks {
    /// What a descriptor of a thread stopped in a call says. That the thread's directory answers at all is the proof
    /// that its number still means the same, so this is also the cheap way to find a thread.
    pub(crate) fn descriptor(&mut self, tid: u32, fd: i32) -> Option<String> {
        if let Some(link) = self.known(tid).and_then(|task| task.descriptor(fd)) {
            return Some(link);
        }
        self.get(tid).ok()?.descriptor(fd)
    }

    /// A thread found a moment ago, for the same stopped call.
    pub(crate) fn known(&self, tid: u32) -> Option<&Task> {
        self.0.get(&tid)
    }

    /// The thread with this number, which must be stopped in a call.
    pub(crate) fn get(&mut self, tid: u32) -> io::Result<&Task> {
        let known = self.0.get(&tid).is_some_and(Task::exists);
        if !known {
            if self.0.len() >= REMEMBERED {
                self.0.clear();
            }
            self.0.insert(tid, Task::open(tid)?);
        }
        self.0.get(&tid).ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))
    }
}

impl Task {
    fn open(tid: u32) -> io::Result<Task> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(format!("/proc/{tid}"), flags, Mode::empty())?;
        let status = read_file(&directory, "status")?;
        let process = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
        let process = process.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
        Ok(Task { directory, tid, process })
    }

    fn exists(&self) -> bool {
        rustix::fs::readlinkat(&self.directory, "cwd", [0u8; 0].to_vec()).is_ok()
    }

    fn link(&self, name: &str) -> Option<String> {
        rustix::fs::readlinkat(&self.directory, name, Vec::with_capacity(128)).ok()?.into_string().ok()
    }

    /// What a descriptor's link says.
    pub(crate) fn descriptor(&self, fd: i32) -> Option<String> {
        self.link(&format!("fd/{fd}"))
    }

    /// The current directory.
    pub(crate) fn directory(&self) -> Option<String> {
        self.link("cwd")
    }

    /// The process's mappings.
    pub(crate) fn maps(&self) -> Maps {
        Maps::parse(&read_file(&self.directory, "maps").unwrap_or_default())
    }

    /// What interrupts a sleeping call: a signal that the thread must handle, or that stops it. (One that would end it has done
    /// so.) A signal that is surely this thread's lets the kernel begin the call anew, if the handler wants that.
    pub(crate) fn interruption(&self) -> Option<Errno> {
        let status = read_file(&self.directory, "status").unwrap_or_default();
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok()).unwrap_or(0)
        };
        let stops = [libc::SIGSTOP, libc::SIGTSTP].iter().fold(0, |all, signal| all | 1 << (signal - 1));
        let awaited = (number("SigCgt:") | stops & !number("SigIgn:")) & !number("SigBlk:");
        let (own, shared) = (number("SigPnd:") & awaited, number("ShdPnd:") & awaited);
        match (own, shared) {
            (0, 0) => None,
            (0, _) if number("Threads:") != 1 => Some(Errno(libc::EINTR)),
            _ => Some(RESTART),
        }
    }

    /// Another descriptor of a file that it has open.
    pub(crate) fn duplicate(&self, fd: i32) -> Result<OwnedFd, Errno> {
        let process = rustix::process::Pid::from_raw(self.process as i32).ok_or(Errno(libc::ESRCH))?;
        let process = rustix::process::pidfd_open(process, rustix::process::PidfdFlags::empty());
        let file = process.and_then(|process| rustix::process::pidfd_getfd(process, fd, PidfdGetfdFlags::empty()));
        file.map_err(|error| Errno(error.raw_os_error()))
    }

    /// Reads memory, all or `EFAULT`.
    pub(crate) fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), Errno> {
        if self.read_some(address, bytes) == bytes.len() { Ok(()) } else { Err(FAULT) }
    }

    /// Reads as much as is there.
    pub(crate) fn read_some(&self, address: u64, bytes: &mut [u8]) -> usize {
        let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes.len() };
        // SAFETY: the kernel writes at most `iov_len` bytes into `bytes`, which is borrowed for as long; the remote
        // address is looked up in the other process and never dereferenced here.
        let count = unsafe { libc::process_vm_readv(self.tid as i32, &raw const local, 1, &raw const remote, 1, 0) };
        usize::try_from(count).unwrap_or(0)
    }

    /// Writes memory, all or `EFAULT`.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Errno> {
        let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes.len() };
        // SAFETY: the kernel only reads `bytes`, at most `iov_len` of them; the remote address is looked up in the
        // other process and never dereferenced here.
        let count = unsafe { libc::process_vm_writev(self.tid as i32, &raw const local, 1, &raw const remote, 1, 0) };
        if usize::try_from(count) == Ok(bytes.len()) { Ok(()) } else { Err(FAULT) }
    }

    /// Whether every page of the range can be read. Small ranges are tried page by page, large ones looked up.
    pub(crate) fn readable(&self, address: u64, size: u64) -> bool {
        probe::readable(self.tid as i32, address, size, || self.maps())
    }

    /// A zero-terminated string, at most a page of it.
    pub(crate) fn string(&self, address: u64) -> Option<String> {
        let mut text = Vec::new();
        let mut at = address;
        while text.len() < PAGE as usize {
            let mut piece = [0u8; 256];
            let room = (PAGE - at % PAGE).min(256) as usize;
            let count = self.read_some(at, piece.get_mut(..room)?);
            let piece = piece.get(..count)?;
            if let Some(end) = piece.iter().position(|byte| *byte == 0) {
                text.extend_from_slice(piece.get(..end)?);
                return String::from_utf8(text).ok();
            }
            if count == 0 {
                return None;
            }
            text.extend_from_slice(piece);
            at = at.checked_add(count as u64)?;
        }
        None
    }
}

/// A process as a whole: alive or not, and still the same program or not.
#[derive(Debug)]
pub(crate) struct Alive {
    /// Becomes readable when the process ends.
    pub(crate) pidfd: OwnedFd,
    memory: std::fs::File,
}

impl Alive {
    pub(crate) fn open(process: u32) -> io::Result<Alive> {
        let pid = rustix::process::Pid::from_raw(process as i32).ok_or(io::ErrorKind::InvalidInput)?;
        let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
        Ok(Alive { pidfd, memory: std::fs::File::open(format!("/proc/{process}/mem"))? })
    }

    /// Whether the address space is still the one it was: `/proc/PID/mem` stays with the address space it was opened
    /// for, and reads nothing once exec has replaced it.
    pub(crate) fn same_program(&self) -> bool {
        use std::os::unix::fs::FileExt;
        !matches!(self.memory.read_at(&mut [0u8], 0), Ok(0))
    }
}

/// The thread that traces a process: 0 if none does, `None` if there is no such process.
pub(crate) fn tracer(process: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("TracerPid:")?.trim().parse().ok())
}

fn read_file(directory: impl AsFd, name: &str) -> io::Result<String> {
    use std::io::Read;
    let fd = rustix::fs::openat(directory, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = String::new();
    std::fs::File::from(fd).read_to_string(&mut text)?;
    Ok(text)
}
