//! A thread's place among the readers, as the C interface needs it: one word of plain thread-local storage, everything else
//! in the reader slot that it points to. No destructor, no lock, no allocation, also in a thread's first query.
//!
//! The first query of a thread claims a slot (`claim`) and notes its own number there. After that a query finds the slot
//! through the word, checks that it is still its own, and enters. A signal handler may come between any two steps.
//!
//! | a slot comes back | how |
//! |---|---|
//! | when its thread has ended | the next claim or grace period asks the kernel whether the thread exists (`free_abandoned`) |
//! | at a fork | the child's slots are wiped; its thread finds that the slot is not its own and claims again |
//!
//! A pthread key would tell when a thread ends, but pthread_setspecific(3) calls malloc for the 33rd key and those after
//! it, and a process has 1,024 of them.
//!
//! A Rust reader ([`Threads::join`]) has a slot by number, not by thread. After a fork the child's copy of the reader knows by
//! the number that the slot is another's by now: it neither enters nor leaves nor gives it back, and answers "not opened".
//!
//! Where the kernel has no membarrier each entry needs a fence. Threads claim their slots under another number then
//! (`owner`): the owner check of the plain entry fails, and the slow path issues the fence.
//!
//! When all slots are taken a query is counted instead (`Crowd`): it waits for nothing, and costs about ten times as much.

use std::num::NonZeroUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering, compiler_fence};
use std::time::Duration;

use hsakmt_core::epoch::slots::{self, Slots};
use hsakmt_core::epoch::{Domain, Grace};
use hsakmt_core::internals::{Emptied, Inside, Kept, Outermost, Slot, Stay};

use crate::cancel::CancelOff;
use crate::shared::{Membarrier, SHARED, SLOTS};
use crate::tls;

/// What a thread keeps in its slot.
#[derive(Debug)]
pub struct Own {
    /// The kernel's number of the thread that claimed the slot; 0 before that, and in a slot of a Rust reader.
    thread: AtomicU32,
}

impl Kept for Own {
    const EMPTY: Own = Own { thread: AtomicU32::new(0) };
}

/// A reader slot of this process.
pub(crate) type ThreadSlot = Slot<Own>;

/// The domain of a context: all contexts' readers share `SHARED`'s slots, and each context is a group of its own. Only
/// the contexts of `SHARED` have one.
#[derive(Debug)]
pub struct Threads(());

impl Threads {
    /// For a registry in [`SHARED`].
    pub(crate) const fn new() -> Threads {
        Threads(())
    }

    /// The group of this context: its index.
    fn group(&self) -> usize {
        SHARED.index_of(std::ptr::from_ref(self).addr())
    }
}

// SAFETY: every method is `Slots`' own, on one and the same static domain and with the group of the registry that this
// value stands in, or does nothing at all: for a slot that a fork has wiped, and then `is_inside` says so. A period passes
// when it has for the slots and for the crowd. `alone` is true with a few slots claimed only, and a crowd enters when all
// are.
unsafe impl Domain for Threads {
    type Local<'d> = slots::Claim<'static, SLOTS, Membarrier, Own>;
    type Guard<'l> = Entered<'l>;
    type Grace<'d> = Periods;

    fn join(&self) -> Option<Self::Local<'_>> {
        // A fork must never find a slot that it does not wipe.
        SHARED.prepare();
        // SAFETY: no other claim has the number; the group is that of the registry.
        unsafe { SHARED.slots.join_as(reader_number(), self.group()) }
    }

    #[inline(always)]
    fn enter<'l>(claim: &'l mut Self::Local<'_>) -> Entered<'l> {
        let owner = claim.owner();
        Entered { slot: if claim.is_held() { Some(Slots::enter(claim)) } else { None }, owner }
    }

    #[inline(always)]
    fn refresh(guard: &mut Entered<'_>) {
        match &mut guard.slot {
            Some(slot) if slot.is_owned_by(guard.owner) => Slots::refresh(slot),
            _ => guard.forget(),
        }
    }

    #[inline(always)]
    fn is_inside(guard: &Entered<'_>) -> bool {
        guard.slot.is_some()
    }

    unsafe fn grace(&self) -> Periods {
        let group = self.group();
        // SAFETY: by contract; the group is that of the registry.
        Periods { slots: unsafe { SHARED.slots.periods(group) }, emptied: Emptied::default(), group }
    }
}

/// A stay inside by a claim of this process; a forked child's copy is inside of nothing.
#[derive(Debug)]
pub struct Entered<'l> {
    slot: Option<slots::Entered<'l, SLOTS, Membarrier, Own>>,
    owner: NonZeroUsize,
}

impl Entered<'_> {
    /// Leaves the slot to its present owner.
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

/// A Rust reader's number: odd, so no thread's (an address). Counted outside of the wiped memory: a child's differ from
/// those it inherited.
fn reader_number() -> NonZeroUsize {
    /// Relaxed: it only has to differ.
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    NonZeroUsize::MIN | NEXT.fetch_add(2, Ordering::Relaxed)
}

/// The writer's side of one context.
#[derive(Debug)]
pub struct Periods {
    slots: slots::Periods<'static, SLOTS, Membarrier, Own>,
    emptied: Emptied,
    group: usize,
}

/// Pauses of a millisecond for readers that do not move.
const PAUSES: usize = 2_000;

impl Grace for Periods {
    fn begin(&mut self) -> usize {
        free_abandoned(SHARED.slots.used());
        let period = self.slots.begin();
        self.emptied.reset();
        period
    }

    fn passed(&mut self, period: usize) -> bool {
        self.slots.passed(period) && self.emptied.look(&SHARED.crowd)
    }

    fn pause(&mut self, attempt: usize) -> bool {
        // Sleep and log are cancellation points, and an entry that is prompt may come here.
        let _held = CancelOff::hold();
        // A reader that was preempted inside needs the processor more than this writer.
        std::thread::sleep(Duration::from_millis(1));
        if attempt + 1 < PAUSES {
            return true;
        }
        log::error!(
            "context {}: memory that was replaced waits for {}, inside for more than {} ms; changes end with NO_MEMORY \
             until it moves",
            self.group,
            Held(SHARED.slots.any_inside(self.group)),
            PAUSES
        );
        false
    }

    fn alone(&mut self) -> bool {
        SHARED.slots.alone(owner(me()))
    }
}

/// The reader that a writer waits for, in words.
struct Held<'s>(Option<&'s ThreadSlot>);

impl std::fmt::Display for Held<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.map(|slot| slot.kept().thread.load(Ordering::Relaxed)) {
            Some(0) => f.write_str("a session"),
            Some(thread) => write!(f, "a query of thread {thread}"),
            None => f.write_str("a reader"),
        }
    }
}

/// The calling thread's word: where its slot is.
#[derive(Clone, Copy)]
pub(crate) struct Mine<'t>(&'t tls::Word);

impl<'t> Mine<'t> {
    /// # Safety
    /// `'t` ends with the caller's call.
    #[inline(always)]
    pub(crate) unsafe fn of_this_thread() -> Mine<'t> {
        // SAFETY: by contract; every use of the word is here.
        Mine(unsafe { tls::word() })
    }

    /// The thread's number: where its word is, which no other living thread has.
    #[inline(always)]
    fn number(self) -> NonZeroUsize {
        std::ptr::NonNull::from(self.0).addr()
    }

    /// Its slot, or [`tls::UNCLAIMED`].
    #[inline(always)]
    fn slot(self) -> &'static ThreadSlot {
        // SAFETY: the word points to `UNCLAIMED` or one of `SHARED`'s slots (`keep`), which are static.
        unsafe { &*self.0.load(Ordering::Relaxed) }
    }

    /// Takes the calling thread inside `group`, if it has a slot, is outside, and the kernel runs barriers. Wait-free: three
    /// compares, a load and a store.
    #[inline(always)]
    pub(crate) fn enter(self, group: usize) -> Option<Outermost<'static, Own>> {
        let slot = self.slot();
        if !slot.is_owned_by(self.number()) {
            return None;
        }
        // SAFETY: the slot was claimed under this thread's own number, so no other thread is here; stays of a thread live
        // within one call each, and a signal handler's call ends before the call it interrupted. The number is the plain one
        // (`owner`): the kernel runs the writers' barrier on this thread.
        unsafe { SHARED.slots.enter_outermost_with(slot, group, || compiler_fence(SeqCst)) }
    }

    /// As [`Mine::enter`] for a thread's first query, its first after a fork, one in a signal handler that interrupted another,
    /// and each without membarrier; `None` when all slots are taken.
    #[cold]
    #[inline(never)]
    pub(crate) fn enter_slowly(self, group: usize) -> Option<Inside<'static, Own>> {
        let slot = self.claim()?;
        // SAFETY: as in `enter`, but that the barrier is the domain's own.
        Some(unsafe { SHARED.slots.enter_slot(slot, group) })
    }

    /// Takes the calling thread inside all groups without a slot. Lock-free.
    pub(crate) fn enter_crowd(self) -> Crowded {
        let process = SHARED.process.load(Ordering::Relaxed);
        Crowded { stay: Some(SHARED.crowd.enter(self.number().get())), process }
    }

    /// The thread's slot; claimed if it has none, or lost it in a fork.
    fn claim(self) -> Option<&'static ThreadSlot> {
        /// Relaxed: only a hint. Slow entries that do not search for a slot, since a search has just found none.
        static FULL: AtomicUsize = AtomicUsize::new(0);
        /// What [`FULL`] begins at.
        const FULL_FOR: usize = 64;
        let owner = owner(self.number());
        let before = self.slot();
        if before.is_owned_by(owner) {
            // Without membarrier; or a signal handler's work, just now.
            return Some(before);
        }
        let full = FULL.load(Ordering::Relaxed);
        if full > 0 && SHARED.slots.used().len() == SLOTS {
            FULL.store(full - 1, Ordering::Relaxed);
            return None;
        }
        let used = SHARED.slots.used();
        if used.iter().all(|slot| slot.owner().is_some()) {
            free_abandoned(used);
        }
        // SAFETY: the number is this thread's alone while it lives, and it has no slot, or one that `keep` gives back.
        let Some(slot) = (unsafe { SHARED.slots.claim(owner) }) else {
            FULL.store(FULL_FOR, Ordering::Relaxed);
            return None;
        };
        slot.kept().thread.store(kernel_thread(), Ordering::Release);
        Some(self.keep(before, slot))
    }

    /// Makes `slot`, claimed just now, the thread's in place of the one it had `before`. Unless a signal handler has done so
    /// in the meantime: then `slot` goes back, since no thread points to it.
    fn keep(self, before: &'static ThreadSlot, slot: &'static ThreadSlot) -> &'static ThreadSlot {
        let pointer = |slot: &'static ThreadSlot| std::ptr::from_ref(slot).cast_mut();
        let kept = self.0.compare_exchange(pointer(before), pointer(slot), Ordering::Relaxed, Ordering::Relaxed);
        let mine = self.slot();
        // A handler's may be the same one: in a child that it forked.
        if kept.is_err() && !std::ptr::eq(mine, slot) {
            give_back(slot, owner(self.number()));
        }
        mine
    }
}

/// A stay inside without a slot.
pub(crate) struct Crowded {
    stay: Option<Stay<'static>>,
    /// The process that entered.
    process: u32,
}

impl Drop for Crowded {
    fn drop(&mut self) {
        if SHARED.process.load(Ordering::Relaxed) != self.process {
            // A signal handler has forked and this is the child, whose counters were wiped.
            std::mem::forget(self.stay.take());
        }
    }
}

/// The calling thread's number: the address of its word, which no other living thread has.
pub(crate) fn me() -> NonZeroUsize {
    // SAFETY: used in this call.
    unsafe { Mine::of_this_thread() }.number()
}

/// The number under which the thread `me` claims its slot: its own, or, if the kernel runs no barriers, one that is no
/// thread's and no reader's. So the owner of a slot says which entry is right.
fn owner(me: NonZeroUsize) -> NonZeroUsize {
    if SHARED.slots.barrier().is_registered() { me } else { me | FENCED }
}

/// A thread's number is a multiple of 8.
const FENCED: usize = 2;

/// The kernel's number of the calling thread.
fn kernel_thread() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()
}

/// Gives back a slot that `owner` has and no thread will enter again.
fn give_back(slot: &ThreadSlot, owner: NonZeroUsize) {
    // Before the slot is free: the number must not meet the next owner.
    slot.kept().thread.store(0, Ordering::Release);
    // SAFETY: the caller's promise.
    unsafe { SHARED.slots.release(slot, owner) };
}

/// Slots that one call of [`free_abandoned`] asks the kernel about.
const ASKED: usize = 8;

/// Gives back slots of threads that have ended: looks at some of `used`, others in the next call. One thread at a time
/// does this, the others go on without. Wait-free; a system call for each slot.
#[cold]
#[inline(never)]
fn free_abandoned(used: &'static [ThreadSlot]) {
    /// Relaxed: where to go on; any place is right.
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    // Acquire, Release: slots are freed by one thread at a time, so that no slot is freed for an owner before the present
    // one.
    if used.is_empty() || SHARED.freeing.swap(1, Ordering::Acquire) != 0 {
        return;
    }
    let start = NEXT.fetch_add(ASKED, Ordering::Relaxed) % used.len();
    for slot in used.iter().cycle().skip(start).take(ASKED.min(used.len())) {
        let Some(owner) = slot.owner() else { continue };
        // Acquire: pairs with the store in `claim`. 0 while the owner is between its claim and that store.
        let thread = slot.kept().thread.load(Ordering::Acquire);
        if thread != 0 && has_ended(thread) {
            give_back(slot, owner);
        }
    }
    SHARED.freeing.store(0, Ordering::Release);
}

/// Whether this process has no such thread any more. Any other error is taken for a thread that lives. The process is the one
/// that [`Shared::prepare`](crate::shared::Shared::prepare) noted: a child that shares this memory has another number.
fn has_ended(thread: u32) -> bool {
    let process = SHARED.process.load(Ordering::Relaxed);
    // SAFETY: signal 0 is sent to no thread; the call only looks whether it could be.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, 0) };
    sent == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

#[cfg(test)]
mod tests;
