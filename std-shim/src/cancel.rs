//! Holds pthread_cancel(3) off while this library is on the stack.
//!
//! Cancellation unwinds the thread from inside open(2), read(2), nanosleep(2) and their like, through every frame above.
//! A frame of Rust that catches it aborts the process, and one that does not would leave a lock taken. So a C entry that
//! may come to such a call holds cancellation off until it returns; a request that came meanwhile takes effect at the
//! caller's next cancellation point.

use core::ffi::c_int;

/// `PTHREAD_CANCEL_DISABLE` of Linux's C libraries.
const DISABLE: c_int = 1;

// It may unwind: a thread of the asynchronous type that was cancelled meanwhile ends inside of the call that lets it.
unsafe extern "C-unwind" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// Runs `work` with cancellation off. `work` does not unwind.
///
/// Letting the thread be cancelled again may end it here, by a forced unwind. So neither this function nor a caller that it
/// is inlined into has anything to drop or to catch.
#[inline(always)]
pub(crate) fn without<T: Copy>(work: impl FnOnce() -> T) -> T {
    let mut before = DISABLE;
    // SAFETY: a state that exists, and a place for the old one.
    unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
    let done = work();
    // SAFETY: the state that was there. A forced unwind goes through frames without anything to drop: `T` is `Copy`, and
    // `work` has been used up.
    unsafe { pthread_setcancelstate(before, core::ptr::null_mut()) };
    done
}

/// Cancellation is off for the thread that made it until it is dropped. Values of one thread nest.
#[derive(Debug)]
pub(crate) struct CancelOff {
    before: c_int,
}

impl CancelOff {
    /// Wait-free, no system call.
    #[inline]
    pub(crate) fn hold() -> CancelOff {
        let mut before = DISABLE;
        // SAFETY: a state that exists, and a place for the old one. It fails for other states only.
        unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
        CancelOff { before }
    }
}

impl Drop for CancelOff {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the state that was there; the old one is of no interest.
        unsafe { pthread_setcancelstate(self.before, core::ptr::null_mut()) };
    }
}
