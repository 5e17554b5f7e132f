//! A thread's place among the readers, as the C interface needs it: found in plain thread-local storage, no destructor,
//! no lock, no allocation.
//!
//! The first query of a thread claims a slot (one compare-and-swap per slot tried, and a pthread key that gives it back
//! when the thread ends): the one exception to "a query allocates and waits for nothing". A thread-local here must not
//! have a destructor: a shared object with one cannot be closed, and calls made late in a thread's life would die. The
//! key's destructor tolerates later calls: they claim again.
//!
//! After a fork the child's slots are wiped and the check "is it still mine" fails, so the child's thread claims anew. A
//! Rust reader does not: each has a number of its own, by which the child's copy of it knows that the slot is another's
//! by now, neither enters nor leaves nor gives it back, and answers "not opened".
//!
//! Where the kernel has no membarrier each entry needs a fence. Threads claim their slots under another number then
//! (`owner`): the plain entry finds a slot that is not its own and leaves the question to the slow one, which fences.
//!
//! With all slots taken a query takes the writer's lock instead: slow, never wrong, but not for a signal handler that may
//! have interrupted a verb of its own thread.

use std::ffi::c_void;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, compiler_fence};
use std::time::Duration;

use hsakmt_core::epoch::slots::{self, Inside, Slot};
use hsakmt_core::epoch::{Domain, Grace};
use hsakmt_core::recent::Recent;

use crate::shared::{Membarrier, SHARED, SLOTS};

/// What a thread has here.
pub(crate) struct Mine {
    /// Its slot, or one that is nobody's: a static's place always. Only this thread and its signal handlers come here, so
    /// Relaxed is enough.
    slot: AtomicPtr<Slot>,
    /// What it asked the primary context for.
    pub(crate) recent: Recent,
}

thread_local! {
    static MINE: Mine = const { Mine { slot: AtomicPtr::new((&raw const NOBODYS).cast_mut()), recent: Recent::new() } };
}

/// Owned by no thread: what a thread without a slot points to.
static NOBODYS: Slot = Slot::free();

/// The domain of all contexts: `SHARED`'s slots.
#[derive(Clone, Copy, Debug)]
pub struct Threads;

// SAFETY: every method is `Slots`' own, on one and the same static domain, or does nothing at all: for a slot that a fork
// has wiped, and then `is_inside` says so.
unsafe impl Domain for Threads {
    type Local<'d> = slots::Claim<'static, SLOTS, Membarrier>;
    type Guard<'l> = Entered<'l>;
    type Grace<'d> = Periods;

    fn join(&self) -> Option<Self::Local<'_>> {
        // A fork must never find a slot that it does not wipe.
        SHARED.prepare();
        SHARED.slots.join_as(number())
    }

    #[inline(always)]
    fn enter<'l>(claim: &'l mut Self::Local<'_>) -> Entered<'l> {
        let owner = claim.owner();
        Entered { slot: if claim.is_held() { Some(slots::Slots::enter(claim)) } else { None }, owner }
    }

    #[inline(always)]
    fn refresh(guard: &mut Entered<'_>) {
        match &mut guard.slot {
            Some(slot) if slot.is_owned_by(guard.owner) => slots::Slots::refresh(slot),
            _ => guard.forget(),
        }
    }

    #[inline(always)]
    fn is_inside(guard: &Entered<'_>) -> bool {
        guard.slot.is_some()
    }

    fn grace(&self) -> Periods {
        Periods(SHARED.slots.grace())
    }
}

/// Being inside by a claim of this process; a forked child's copy is inside of nothing.
#[derive(Debug)]
pub struct Entered<'l> {
    slot: Option<slots::Entered<'l, SLOTS, Membarrier>>,
    owner: usize,
}

impl Entered<'_> {
    /// Leaves the slot to whoever has it now.
    #[cold]
    fn forget(&mut self) {
        std::mem::forget(self.slot.take());
    }
}

impl Drop for Entered<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.slot.as_ref().is_some_and(|slot| !slot.is_owned_by(self.owner)) {
            self.forget();
        }
    }
}

/// A claim's own: odd, so no thread's (an address) and not 0. Counted outside of the wiped memory: a child's are others
/// than those it inherited.
fn number() -> usize {
    /// Relaxed: it only has to differ.
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    NEXT.fetch_add(2, Ordering::Relaxed)
}

/// The writer's side: `SHARED`'s slots, and who the calling thread is.
#[derive(Debug)]
pub struct Periods(slots::Periods<'static, SLOTS, Membarrier>);

impl Grace for Periods {
    fn begin(&mut self) -> usize {
        self.0.begin()
    }

    fn passed(&mut self, period: usize) -> bool {
        self.0.passed(period)
    }

    fn pause(&mut self, attempt: usize) -> bool {
        // A reader that was preempted inside needs the processor more than this writer: about two seconds in all.
        std::thread::sleep(Duration::from_millis(1));
        attempt < 2_000
    }

    fn alone(&mut self) -> bool {
        SHARED.slots.alone(owner(me()))
    }
}

/// What the calling thread has. A reference, since a closure given to `with` would become a function of its own.
///
/// # Safety
/// `'t` ends with the caller's call: with the thread the thread-local is gone.
#[inline(always)]
pub(crate) unsafe fn mine<'t>() -> &'t Mine {
    let mine = MINE.with(std::ptr::from_ref);
    // SAFETY: the thread-local has no destructor: it is there while its thread runs, which by contract is long enough.
    unsafe { &*mine }
}

impl Mine {
    #[inline(always)]
    fn slot(&self) -> &'static Slot {
        // SAFETY: `slot` is only ever set to `NOBODYS` or to one of `SHARED`'s, both of which are statics. (A pointer, since
        // the oldest Rust that builds this takes no reference to such a static into a constant.)
        unsafe { &*self.slot.load(Ordering::Relaxed) }
    }

    /// Takes the calling thread inside the domain, if it has a slot and the kernel runs barriers. Wait-free: two compares, a
    /// load and a store.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Option<Inside<'static>> {
        let slot = self.slot();
        // SAFETY: the slot was claimed under this thread's own number, the address of its thread-local, so no other thread
        // is here; `Inside` values of a thread live within one call each, and a signal handler's call ends before the call
        // it interrupted. The number is the plain one (`owner`): the kernel runs the writers' barrier on this thread.
        slot.is_owned_by(self.number())
            .then(|| unsafe { SHARED.slots.enter_slot_with(slot, || compiler_fence(SeqCst)) })
    }

    /// The same for a thread's first, its first after a fork, and all without membarrier; `None` when all slots are taken.
    #[cold]
    #[inline(never)]
    pub(crate) fn enter_slowly(&self) -> Option<Inside<'static>> {
        let slot = claim(self.number())?;
        // SAFETY: as in `enter`, but that the barrier is the one that there is.
        Some(unsafe { SHARED.slots.enter_slot(slot) })
    }

    fn number(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Makes `slot`, claimed for `me` just now, the thread's in place of the one it had `before`. Unless a signal handler
    /// has done the same in the meantime: then `slot` goes back, for one that no thread points to would never.
    fn keep(&self, before: &'static Slot, slot: &'static Slot, me: usize) -> &'static Slot {
        let pointer = |slot: &'static Slot| std::ptr::from_ref(slot).cast_mut();
        let kept = self.slot.compare_exchange(pointer(before), pointer(slot), Ordering::Relaxed, Ordering::Relaxed);
        let mine = self.slot();
        // A handler's may be the same one: in a child that it forked.
        if kept.is_err() && !std::ptr::eq(mine, slot) {
            SHARED.slots.release(slot, owner(me));
        }
        mine
    }
}

/// The calling thread's number: the address of its thread-local, which no other living thread has.
pub(crate) fn me() -> usize {
    MINE.with(Mine::number)
}

/// Under what number the thread `me` claims its slot: its own, or, if the kernel runs no barriers, another that is no
/// thread's and no reader's. So the owner of a slot says which entry is right.
fn owner(me: usize) -> usize {
    if SHARED.slots.barrier().is_registered() { me } else { me | FENCED }
}

/// A thread's number is the address of words.
const FENCED: usize = 2;

/// The thread's slot; claimed if it has none, or lost it in a fork.
fn claim(me: usize) -> Option<&'static Slot> {
    // A fork must never find a slot that it does not wipe.
    SHARED.prepare();
    let owner = owner(me);
    let slot = MINE.with(|mine| {
        let before = mine.slot();
        if before.is_owned_by(owner) {
            // Without membarrier; or a signal handler's work, just now.
            return Some(before);
        }
        // Perhaps another process: what its parent knew is not about its own objects. Before there is a slot: a handler that
        // finds one asks at once.
        mine.recent.forget();
        Some(mine.keep(before, SHARED.slots.claim(owner)?, me))
    })?;
    if let Some(key) = exit_key() {
        // SAFETY: the key was made below and is never deleted; the value is not dereferenced as what it points to.
        unsafe { libc::pthread_setspecific(key, std::ptr::without_provenance_mut::<c_void>(me)) };
    }
    Some(slot)
}

/// The key whose destructor gives a thread's slot back. No `Once`: a fork in the middle of one would leave the child
/// waiting for a thread it does not have. Two threads may each make a key; the first to say so wins.
fn exit_key() -> Option<libc::pthread_key_t> {
    /// The key plus 1; 0 is none. Relaxed: a key is a number, nothing lies behind it.
    static KEY: AtomicU64 = AtomicU64::new(0);
    if let Some(known) = KEY.load(Ordering::Relaxed).checked_sub(1) {
        return libc::pthread_key_t::try_from(known).ok();
    }
    let mut key = 0;
    // SAFETY: `key` is a valid place for the result; the destructor is a function of this library, which is never
    // unloaded (linked `nodelete`).
    if unsafe { libc::pthread_key_create(&raw mut key, Some(leave)) } != 0 {
        return None;
    }
    match KEY.compare_exchange(0, u64::from(key) + 1, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => Some(key),
        Err(first) => {
            // SAFETY: made above, and no thread has set a value for it.
            unsafe { libc::pthread_key_delete(key) };
            libc::pthread_key_t::try_from(first - 1).ok()
        }
    }
}

/// Runs when a thread that claimed a slot ends.
extern "C" fn leave(me: *mut c_void) {
    let me = me.addr();
    MINE.with(|mine| {
        let slot = mine.slot();
        mine.slot.store((&raw const NOBODYS).cast_mut(), Ordering::Relaxed);
        SHARED.slots.release(slot, owner(me));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread's first query, with a signal handler that asks right after its claim: whichever of the two slots is the
    /// thread's, the other is free.
    #[test]
    fn a_handler_in_the_middle_of_a_claim_costs_no_slot() {
        let claims = || {
            MINE.with(|mine| {
                let before = mine.slot();
                SHARED.prepare();
                let owner = owner(me());
                let slot = SHARED.slots.claim(owner)?;
                if mine.enter_slowly().is_none() {
                    SHARED.slots.release(slot, owner);
                    return None;
                }
                let handlers = mine.slot();
                let kept = mine.keep(before, slot, me());
                assert!(std::ptr::eq(kept, mine.slot()) && kept.is_owned_by(owner));
                let other = if std::ptr::eq(kept, slot) { handlers } else { slot };
                assert!(!std::ptr::eq(kept, other) && !other.is_owned_by(owner));
                // And a claim that begins after the handler's takes no other.
                assert!(claim(me()).is_some_and(|again| std::ptr::eq(again, kept)));
                Some(())
            })
        };
        // The other test has all slots for a moment.
        while std::thread::spawn(claims).join().unwrap().is_none() {}
    }

    #[test]
    fn slots_come_back_when_threads_end_and_run_out_aloud() {
        for _ in 0..10 {
            std::thread::scope(|scope| {
                let enter = || MINE.with(|mine| mine.enter_slowly().is_some());
                let inside: Vec<_> = (0..4).map(|_| scope.spawn(enter)).collect();
                assert!(inside.into_iter().all(|thread| thread.join().unwrap()));
            });
        }
        let barrier = std::sync::Barrier::new(SLOTS + 4);
        let got = std::thread::scope(|scope| {
            let hold = || {
                let got = MINE.with(|mine| mine.enter_slowly().is_some());
                barrier.wait();
                got
            };
            let threads: Vec<_> = (0..SLOTS + 4).map(|_| scope.spawn(hold)).collect();
            threads.into_iter().filter(|_| true).map(|thread| thread.join().unwrap()).filter(|got| *got).count()
        });
        assert!(got <= SLOTS && got > 0, "{got}");
    }
}
