//! What a thread remembers of its last questions, forked by a signal handler at every instruction of a question.
//!
//! The question is run step by step (the processor's trap flag). At one step the handler forks, and asks once in the
//! child: the child's thread has its place among the readers then, and goes on with the interrupted question, about an
//! object of its parent's. Then the child opens, and makes version after version with an object of its own, up to the
//! numbers that the parent's versions had. What it is told must be its own.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hsakmt::Context;
use hsakmt_core::error::Error;
use hsakmt_core::flags::MemFlags;
use hsakmt_core::info::PointerType;
use hsakmt_core::node::NodeId;
use hsakmt_tests::embedded::open;

/// The parent's object says this.
const PARENTS: usize = 0x5050;

/// More versions than the parent has made.
const VERSIONS: usize = 24;

const SIZE: usize = 1 << 20;

/// Steps made, and at which one to fork.
static STEP: AtomicUsize = AtomicUsize::new(0);
static FORK_AT: AtomicUsize = AtomicUsize::new(0);
/// What the question is about, and in which version.
static ASKED: AtomicUsize = AtomicUsize::new(0);
static GENERATION: AtomicUsize = AtomicUsize::new(0);
static IS_CHILD: AtomicBool = AtomicBool::new(false);

fn word(context: Context, address: usize) -> Result<Option<usize>, Error> {
    context.query_pointer(address, |info| (info.kind != PointerType::Unknown).then_some(info.user_data))
}

extern "C" fn step(_: i32) {
    if STEP.fetch_add(1, Ordering::Relaxed) + 1 == FORK_AT.load(Ordering::Relaxed) {
        // SAFETY: the child runs this thread alone, and ends in `child`.
        if unsafe { libc::fork() } == 0 {
            IS_CHILD.store(true, Ordering::Relaxed);
            let told = word(Context::primary(), ASKED.load(Ordering::Relaxed));
            if told != Err(Error::NotOpened) {
                // SAFETY: ends this child at once.
                unsafe { libc::_exit(2) };
            }
        }
    }
}

/// The rest of a child's life: 0 if it was told nothing but what is its own.
fn child() -> i32 {
    let asked = ASKED.load(Ordering::Relaxed);
    let context = open();
    let [own, other] = [(); 2].map(|()| context.allocate(NodeId(1), SIZE, MemFlags::NON_PAGED).unwrap());
    for version in 0..VERSIONS {
        context.set_user_data(own, version).unwrap();
        // So often that the thread does not think it useless to remember.
        if (0..200).any(|_| word(context, other) != Ok(Some(0))) {
            return 3;
        }
        if context.generation() == GENERATION.load(Ordering::Relaxed) || version + 1 == VERSIONS {
            let told = if own == asked { Some(version) } else { None };
            if word(context, asked) != Ok(told) {
                return 4;
            }
        }
    }
    0
}

/// The question, in single steps, forked at one of them: how many there are. By a thread that has a place and remembers
/// nothing.
fn question(context: Context, address: usize, fork_at: usize) -> usize {
    assert_eq!(word(context, 1), Ok(None));
    STEP.store(0, Ordering::Relaxed);
    FORK_AT.store(fork_at, Ordering::Relaxed);
    // SAFETY: sets the trap flag; the handler of SIGTRAP is installed, and the stack is left as it was.
    unsafe { core::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    let told = word(context, address);
    // SAFETY: clears the trap flag; the stack is left as it was.
    unsafe { core::arch::asm!("pushfq", "and qword ptr [rsp], 0xfffffffffffffeff", "popfq") };
    if IS_CHILD.load(Ordering::Relaxed) {
        let code = std::panic::catch_unwind(child).unwrap_or(5);
        // SAFETY: ends this child at once.
        unsafe { libc::_exit(code) };
    }
    assert_eq!(told, Ok(Some(PARENTS)), "the parent notices nothing");
    STEP.load(Ordering::Relaxed)
}

#[test]
fn a_child_forked_at_any_instruction_of_a_question_is_told_its_own() {
    // SAFETY: the handler touches atomics, forks, and asks the library.
    let before = unsafe { libc::signal(libc::SIGTRAP, step as *const () as libc::sighandler_t) };
    assert_ne!(before, libc::SIG_ERR);
    let context = open();
    let asked = context.allocate(NodeId(1), SIZE, MemFlags::NON_PAGED).unwrap();
    // The child, which has fewer behind it when it begins, comes to this version's number.
    (0..8).for_each(|_| context.set_user_data(asked, PARENTS).unwrap());
    ASKED.store(asked, Ordering::Relaxed);
    GENERATION.store(context.generation(), Ordering::Relaxed);
    let ask = |fork_at| std::thread::spawn(move || question(context, asked, fork_at)).join().unwrap();
    let steps = ask(usize::MAX);
    assert!(steps > 50, "{steps} steps are no question");
    for at in 1..=steps {
        ask(at);
        let mut status = -1;
        // SAFETY: waits for this process's only child; `status` is a valid place for the result.
        unsafe { libc::waitpid(-1, &raw mut status, 0) };
        let ended = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
        assert_eq!(ended, Some(0), "forked at step {at} of {steps}");
    }
    println!("{steps} steps");
}
