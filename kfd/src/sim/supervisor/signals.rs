//! Signals for the supervisor itself: they are the program's business, so they are taken off the normal way and
//! passed on. And the dead: the supervisor adopts every orphan under it, so that they stay its descendants (whose
//! memory it may read), and reaps them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_child_subreaper, wait};

/// What is passed on when somebody sends it to the supervisor; the last only says that somebody died.
const PASSED_ON: [i32; 5] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGCHLD];

/// The signals that wait to be passed on.
#[derive(Debug)]
pub(crate) struct Signals(OwnedFd);

impl Signals {
    /// From now on those signals do not end this process.
    pub(crate) fn take() -> io::Result<Signals> {
        set_child_subreaper(Some(rustix::process::getpid()))?;
        let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset(3) initialises the set its pointer leads to.
        unsafe { libc::sigemptyset(set.as_mut_ptr()) };
        for signal in PASSED_ON {
            // SAFETY: the set was initialised above, and the signal numbers are the system's.
            unsafe { libc::sigaddset(set.as_mut_ptr(), signal) };
        }
        // SAFETY: sigprocmask(2) reads one initialised set; the old mask is not asked for.
        unsafe { libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()) };
        // SAFETY: signalfd(2) reads one initialised set and makes a new descriptor.
        let fd = unsafe { libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and nobody else has it.
        Ok(Signals(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Passes on what was sent to this process alone; what came from the terminal reached the program by itself.
    pub(crate) fn pass_on(&self, to: u32) {
        const SIZE: usize = size_of::<libc::signalfd_siginfo>();
        let mut info = [0u8; SIZE];
        while rustix::io::read(&self.0, &mut info) == Ok(SIZE) {
            let word = |at: usize| info.get(at..at + 4).and_then(|it| it.try_into().ok()).map_or(0, i32::from_ne_bytes);
            let (signal, code) = (word(0), word(8));
            let pid = Pid::from_raw(to as i32);
            if code <= 0
                && signal != libc::SIGCHLD
                && let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(signal))
            {
                let _ = kill_process(pid, signal);
            }
        }
    }

    /// Buries the dead; the status of `child`, if it is among them. With `to_the_last` it waits for everyone.
    pub(crate) fn reap(&self, child: u32, to_the_last: bool) -> Option<ExitStatus> {
        let options = if to_the_last { WaitOptions::empty() } else { WaitOptions::NOHANG };
        let mut found = None;
        loop {
            match wait(options) {
                Ok(Some((pid, status))) if pid.as_raw_pid() == child as i32 => {
                    found = Some(ExitStatus::from_raw(status.as_raw()));
                }
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) | Err(_) => return found,
            }
        }
    }
}
