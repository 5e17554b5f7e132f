//! The supervisor's end of seccomp user notification: receive a stopped call, answer it.
//!
//! Comes in: the listener's descriptor. Goes out: one [`Call`] at a time, and exactly one answer for each. All of the
//! kernel's interface to this is here; the structs are the kernel's own (`linux/seccomp.h`) as libc declares them.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use hsakmt_core::driver::Errno;

/// One stopped system call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// What answers refer to.
    pub(crate) id: u64,
    /// The thread that stopped.
    pub(crate) tid: u32,
    /// The system call's number.
    pub(crate) number: i64,
    /// Its arguments.
    pub(crate) arguments: [u64; 6],
}

/// The notification descriptor.
#[derive(Debug)]
pub(crate) struct Listener(OwnedFd);

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Listener {
    pub(crate) fn new(fd: OwnedFd) -> Listener {
        Listener(fd)
    }

    /// The next stopped call; `None` if it went away before it could be received.
    pub(crate) fn receive(&self) -> io::Result<Option<Call>> {
        let data = libc::seccomp_data { nr: 0, arch: 0, instruction_pointer: 0, args: [0; 6] };
        let mut notification = libc::seccomp_notif { id: 0, pid: 0, flags: 0, data };
        // SAFETY: NOTIF_RECV fills one zeroed seccomp_notif, which is what the pointer leads to.
        let result =
            unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV as _, &raw mut notification) };
        if result != 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::ENOENT | libc::EINTR) => Ok(None),
                _ => Err(error),
            };
        }
        Ok(Some(Call {
            id: notification.id,
            tid: notification.pid,
            number: notification.data.nr.into(),
            arguments: notification.data.args,
        }))
    }

    /// Whether the stopped thread still waits: if so, what was read under its number was its own.
    pub(crate) fn is_valid(&self, id: u64) -> bool {
        // SAFETY: NOTIF_ID_VALID reads one u64, which is what the pointer leads to.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID as _, &raw const id) };
        result == 0
    }

    fn send(&self, id: u64, value: i64, error: i32, flags: u32) {
        let response = libc::seccomp_notif_resp { id, val: value, error, flags };
        // SAFETY: NOTIF_SEND reads one seccomp_notif_resp, which is what the pointer leads to.
        let result =
            unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND as _, &raw const response) };
        // ENOENT: the thread was killed meanwhile. Nobody is left to tell.
        if result != 0 {
            log::debug!("answer {id}: {}", io::Error::last_os_error());
        }
    }

    /// The call returns this.
    pub(crate) fn answer(&self, id: u64, result: Result<i64, Errno>) {
        match result {
            Ok(value) => self.send(id, value, 0, 0),
            Err(error) => self.send(id, 0, -error.0, 0),
        }
    }

    /// The kernel runs the call as if nobody had asked.
    pub(crate) fn go_on(&self, id: u64) {
        self.send(id, 0, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32);
    }

    fn add(&self, id: u64, file: BorrowedFd<'_>, flags: u32, close_on_exec: bool) -> Result<i64, Errno> {
        let request = libc::seccomp_notif_addfd {
            id,
            flags,
            srcfd: file.as_raw_fd() as u32,
            newfd: 0,
            newfd_flags: if close_on_exec { libc::O_CLOEXEC as u32 } else { 0 },
        };
        // SAFETY: NOTIF_ADDFD reads one seccomp_notif_addfd, which is what the pointer leads to.
        let fd = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD as _, &raw const request) };
        if fd >= 0 {
            return Ok(fd.into());
        }
        Err(Errno(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)))
    }

    /// Gives the caller a descriptor; the call still waits for its answer.
    pub(crate) fn install(&self, id: u64, file: BorrowedFd<'_>, close_on_exec: bool) -> Result<i64, Errno> {
        self.add(id, file, 0, close_on_exec)
    }

    /// The call returns a new descriptor of `file`, in one step: a killed caller never keeps a descriptor that it was
    /// not told of.
    pub(crate) fn answer_with(&self, id: u64, file: BorrowedFd<'_>, close_on_exec: bool) {
        match self.add(id, file, libc::SECCOMP_ADDFD_FLAG_SEND as u32, close_on_exec) {
            Ok(_) => {}
            // A kernel before 5.14 cannot do both in one step.
            Err(Errno::INVAL) => self.answer(id, self.add(id, file, 0, close_on_exec)),
            // EMFILE and the like are the caller's; ENOENT says that it is gone.
            Err(error) => self.answer(id, Err(error)),
        }
    }
}
