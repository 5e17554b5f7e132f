//! Watching one thread: its allocations are counted, and a system call ends it.
//!
//! The filter has one instruction and no exceptions: whatever the thread asks of the kernel, it gets SIGSYS instead, in
//! whose handler it notes the call and goes round for ever. So does a reader that is done: ending a thread needs system
//! calls. The main thread, which has no filter, looks at what was noted and ends the process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::convert::Infallible;
use std::ffi::c_void;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use super::PUBLISHES;
use super::writers::{Scene, Written};

/// The system allocator, each call counted for its thread.
struct Counting;

thread_local! {
    /// Calls of the allocator by this thread.
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

fn count() {
    CALLS.set(CALLS.get() + 1);
}

// SAFETY: every method is the system allocator's own, under the same contract; counting touches a plain thread-local
// that needs no memory and no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: by this method's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count();
        // SAFETY: by this method's contract.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: by this method's contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: by this method's contract.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What the reader notes. The Release store of `DONE`, or of the call, comes last; the main thread loads it by Acquire.
static DONE: AtomicBool = AtomicBool::new(false);
static WRONG: AtomicUsize = AtomicUsize::new(0);
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
/// The system call that was made, plus 1; 0 is none.
static CALLED: AtomicI64 = AtomicI64::new(0);

/// From here on this thread may make no system call, and calls of the allocator count.
pub(crate) fn from_here_on() {
    forbid_system_calls();
    CALLS.set(0);
}

fn forbid_system_calls() {
    let handler: extern "C" fn(i32, *const libc::siginfo_t, *const c_void) = on_system_call;
    // SAFETY: all zeros is an empty action: no handler, no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    (action.sa_sigaction, action.sa_flags) = (handler as usize, libc::SA_SIGINFO);
    // SAFETY: the action is whole, and its handler has the signature that SA_SIGINFO asks for.
    let handled = unsafe { libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut()) };
    assert_eq!(handled, 0);
    // SAFETY: PR_SET_NO_NEW_PRIVS takes three zero arguments and touches no memory (prctl(2)).
    let privileges = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(privileges, 0);
    let code = (libc::BPF_RET | libc::BPF_K) as u16;
    let mut trap = libc::sock_filter { code, jt: 0, jf: 0, k: libc::SECCOMP_RET_TRAP };
    let program = libc::sock_fprog { len: 1, filter: &raw mut trap };
    // SAFETY: seccomp(2) reads the one instruction, and writes nothing. No flags: the filter is this thread's alone.
    let filtered = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) };
    assert_eq!(filtered, 0);
}

/// Runs in place of a system call.
extern "C" fn on_system_call(_signal: i32, info: *const libc::siginfo_t, _context: *const c_void) {
    /// `si_syscall` in a `siginfo_t` of SIGSYS, in 32-bit words: after number, error, code, padding and an address.
    const SYSTEM_CALL: usize = 6;
    // SAFETY: the kernel gives a whole `siginfo_t`, 32 words, to a handler that was set with SA_SIGINFO.
    let number = unsafe { info.cast::<[i32; 32]>().read() }[SYSTEM_CALL];
    CALLED.store(i64::from(number) + 1, Ordering::Release);
    loop {
        spin_loop();
    }
}

/// The reader's end: notes what it found, and stays where no system call is needed.
pub(crate) fn done(wrong: usize) -> ! {
    ALLOCATED.store(CALLS.get(), Ordering::Relaxed);
    WRONG.store(wrong, Ordering::Relaxed);
    DONE.store(true, Ordering::Release);
    loop {
        spin_loop();
    }
}

/// Neither thread ends of itself: one that panics takes the process with it.
struct EndOfAll;

impl Drop for EndOfAll {
    fn drop(&mut self) {
        std::process::exit(2);
    }
}

/// Runs a writer and one reader, which calls [`from_here_on`] when it is ready and ends in
/// [`done`]. Ends the process: 0 if nothing was found.
pub(crate) fn one_reader(written: &impl Written, scene: &Scene, read: impl FnOnce(&Scene) -> Infallible + Send) -> ! {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _panicked = EndOfAll;
            written.write(scene);
        });
        scope.spawn(|| {
            let _panicked = EndOfAll;
            read(scene)
        });
        let before = written.publishes();
        let called = loop {
            let called = CALLED.load(Ordering::Acquire);
            if called != 0 || DONE.load(Ordering::Acquire) {
                break called;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let publishes = written.publishes() - before;
        if called != 0 {
            println!("system call {}", called - 1);
            std::process::exit(1);
        }
        let (wrong, allocated) = (WRONG.load(Ordering::Relaxed), ALLOCATED.load(Ordering::Relaxed));
        println!("wrong answers: {wrong}, allocated or freed {allocated} times, beside {publishes} publishes");
        std::process::exit(i32::from(wrong > 0 || allocated > 0 || publishes < PUBLISHES))
    })
}
