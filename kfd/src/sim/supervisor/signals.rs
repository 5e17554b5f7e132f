//! Signals for the supervisor itself: they are the program's business, so they are taken off the normal way and
//! passed on.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::process::{Pid, Signal, kill_process};

/// What is passed on when somebody sends it to the supervisor.
const PASSED_ON: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// The signals that wait to be passed on.
#[derive(Debug)]
pub(crate) struct Signals(OwnedFd);

impl Signals {
    /// From now on those signals do not end this process.
    pub(crate) fn take() -> io::Result<Signals> {
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
        use std::os::fd::AsFd;
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
                && let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(signal))
            {
                let _ = kill_process(pid, signal);
            }
        }
        let _ = self.0.as_raw_fd();
    }
}
