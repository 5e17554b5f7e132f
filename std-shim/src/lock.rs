//! The lock that writers take: it knows whose it is at every instant.
//!
//! In: a thread's number. Out: a [`Held`], or the news that this thread has it already. What never happens: a thread that
//! waits for itself, a system call without a second thread, a lock that a forked child finds taken (it lies in memory that
//! a fork wipes, and zero is free).
//!
//! Why not [`std::sync::Mutex`] and the owner's number beside it: between the two stores a signal handler of the owner
//! finds the mutex taken and nobody named, and waits for the thread it interrupted. Here the owner's number *is* the lock:
//! one compare-exchange takes it and says whose it is, one swap gives it back.
//!
//! | word | value |
//! |---|---|
//! | `owner` | 0 free; else the owner's number, which is even, plus [`SLEEPERS`] if some thread may sleep |
//! | `turn` | 0 until somebody sleeps; then odd, counted up by give-backs that wake; what sleepers sleep on |
//!
//! No wake is lost: a thread reads `turn` *before* it leaves `SLEEPERS` in `owner`. Whoever gives the lock back after that
//! sees the mark and counts `turn` up, so the thread either does not fall asleep or is woken. Only one is woken; it takes
//! the lock with the mark on, so that it wakes the next. A sleeper whose signal handler forks does not sleep on in the
//! child: there `turn` is 0, and nobody sleeps on 0.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use rustix::thread::futex;

/// In `owner`: a give-back must wake somebody.
const SLEEPERS: usize = 1;

/// How often a waiting thread looks before it sleeps: longer than a verb without a system call takes.
const LOOKS: u32 = if cfg!(test) { 2 } else { 100 };

/// A lock. All zero is free.
#[derive(Debug)]
pub(crate) struct Lock {
    owner: AtomicUsize,
    turn: AtomicU32,
}

/// The lock, taken.
pub(crate) struct Held {
    lock: &'static Lock,
}

impl Drop for Held {
    #[inline(always)]
    fn drop(&mut self) {
        // Release: pairs with `claim` of the next owner, which sees all that this one wrote. Acquire: pairs with the mark
        // in `wait`, whose thread has read `turn` before `wake` counts it up.
        if self.lock.owner.swap(0, Ordering::AcqRel) & SLEEPERS != 0 {
            self.lock.wake();
        }
    }
}

impl Lock {
    /// Free.
    pub(crate) const fn new() -> Lock {
        Lock { owner: AtomicUsize::new(0), turn: AtomicU32::new(0) }
    }

    /// Takes it for the thread `me` (an even number, not 0); `None` when that thread has it already, or when `may_wait`
    /// says no. `may_wait` is asked once, if the lock is another thread's. Blocking.
    #[inline(always)]
    pub(crate) fn take(&'static self, me: usize, may_wait: impl FnOnce() -> bool) -> Option<Held> {
        if !self.claim(me) && (self.is_owned_by(me) || !may_wait() || !self.wait(me)) {
            return None;
        }
        Some(Held { lock: self })
    }

    /// Whether the thread `me` has it. Relaxed: a thread asks about its own store.
    #[inline(always)]
    pub(crate) fn is_owned_by(&self, me: usize) -> bool {
        self.owner.load(Ordering::Relaxed) & !SLEEPERS == me
    }

    /// Takes it if it is free.
    #[inline(always)]
    fn claim(&self, me: usize) -> bool {
        // Acquire: pairs with the swap in `Held::drop`.
        self.owner.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Looks for a while, then sleeps until it is free and taken. Always true. A signal handler that runs in here may take
    /// the lock and give it back: to the thread it interrupted it is one more that was faster.
    #[cold]
    #[inline(never)]
    fn wait(&self, me: usize) -> bool {
        for _ in 0..LOOKS {
            if self.owner.load(Ordering::Relaxed) == 0 && self.claim(me) {
                return true;
            }
            spin_loop();
        }
        loop {
            let turn = self.turn.fetch_or(1, Ordering::Relaxed) | 1;
            // From here on with the mark: others may sleep.
            if self.claim(me | SLEEPERS) {
                return true;
            }
            // Release: keeps the read of `turn` before the mark; pairs with the swap in `Held::drop`.
            let mark = |owner: usize| (owner != 0).then_some(owner | SLEEPERS);
            if self.owner.fetch_update(Ordering::Release, Ordering::Relaxed, mark).is_ok() {
                // An error is a signal, or a turn that has passed: either way look again.
                let _ = futex::wait(&self.turn, futex::Flags::PRIVATE, turn, None);
            }
        }
    }

    /// Ends one thread's sleep.
    #[cold]
    #[inline(never)]
    fn wake(&self) {
        self.turn.fetch_add(2, Ordering::Relaxed);
        let _ = futex::wake(&self.turn, futex::Flags::PRIVATE, 1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn one_at_a_time_and_nobody_sleeps_for_ever() {
        static LOCK: Lock = Lock::new();
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let thread = |me: usize| {
            for turn in 0..20_000 {
                let held = LOCK.take(me, || true).unwrap();
                assert!(LOCK.is_owned_by(me));
                let count = COUNT.load(Ordering::Relaxed);
                if turn % 64 == 0 {
                    // Long enough that the others fall asleep.
                    std::thread::yield_now();
                }
                COUNT.store(count + 1, Ordering::Relaxed);
                drop(held);
            }
        };
        std::thread::scope(|scope| (1..=6).for_each(|number| drop(scope.spawn(move || thread(number * 2)))));
        assert_eq!(COUNT.load(Ordering::Relaxed), 120_000);
        assert!(LOCK.turn.load(Ordering::Relaxed) > 0, "nobody slept: the test is no test");
        assert_eq!(LOCK.owner.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn its_owner_is_told_and_others_may_decline_to_wait() {
        static LOCK: Lock = Lock::new();
        let held = LOCK.take(2, || true);
        assert!(held.is_some() && LOCK.take(2, || true).is_none());
        assert!(LOCK.take(4, || false).is_none());
        LOCK.owner.fetch_or(SLEEPERS, Ordering::Relaxed);
        assert!(LOCK.take(2, || true).is_none(), "also while others wait");
        drop(held);
        assert!(LOCK.take(4, || false).is_some());
    }
}
