//! A domain of fixed reader slots: no allocator, no destructor, no loop on the reader's side.
//!
//! Entering is one plain store of the current epoch to the reader's own line, leaving is another. The writer pays for
//! making that store visible in time: a heavy [`Barrier`] per grace period, not a fence per read.
//!
//! # Why it works
//! A reader stores its slot (S), then loads the root (L). The writer stores the root (P), passes the heavy barrier,
//! stores the next epoch `p` (E), and later looks at the slots. The barrier pair says: either S is visible to the
//! writer's looks, or L sees P.
//!
//! * L saw an older root: so S is visible. Its epoch is below `p`, for a reader that had loaded `p` or more (Acquire,
//!   from E, Release) would have seen P. The writer finds it and waits, until it finds the slot left or entered anew
//!   (Release stores, read by Acquire: all the reader's loads come before whatever the writer does next).
//! * L saw the new root: it holds nothing of the old one, and whatever its slot says can only make the writer wait.
//!
//! A session stores its slot once and loads the root many times; the proof is about each of these loads. It stores anew
//! when the epoch has moved, so that the writer need not wait for it.
//!
//! Registries may share slots ([`Barrier::GROUP_BITS`]): a slot then also says whose root its reader loads, and the writer
//! of another registry ignores it. The epoch is common, so a reader of two registries has one epoch for both.
//!
//! | line | order | pairs with | protects |
//! |---|---|---|---|
//! | `enter`: epoch load | Acquire | `begin`: epoch add, AcqRel | a reader of epoch `p` sees what was published before `p` |
//! | `enter`, `leave`: slot store | Release | `passed`: slot load, Acquire | reads before reuse |
//! | `enter`: light barrier | - | `begin`: heavy barrier | slot store against root load |
//! | `claim`, `release`: owner | Acquire / Release | each other | one owner per slot |
//! | `claim`: fence after the owner | SeqCst | `alone`: fence before it looks | a claim against a root stored before |

use core::marker::PhantomData;
use core::num::NonZeroUsize;

use super::{Domain, Grace, NEVER};
use crate::primitive::{AtomicUsize, Ordering, const_fn, fence};

mod slot;

pub use super::barrier::{Barrier, Fences, SingleCore};
#[doc(hidden)]
pub use slot::{Inside, Kept, Outermost, Slot};

use slot::Word;

#[cfg(not(loom))]
const fn all_free<K: Kept, const N: usize>() -> [Slot<K>; N] {
    [const { Slot::free(K::EMPTY) }; N]
}

#[cfg(loom)]
fn all_free<K: Kept, const N: usize>() -> [Slot<K>; N] {
    core::array::from_fn(|_| Slot::free(K::EMPTY))
}

/// As many slots as [`Slots::alone`] looks at.
const ALONE_LIMIT: usize = 4;

/// Readers tracked by `N` slots. All zero when new, so that a `static` one costs no space in the file, and one that a
/// fork wiped is new.
#[derive(Debug)]
#[repr(C)]
pub struct Slots<const N: usize, B, K = ()> {
    /// Counts grace periods, in units of `Word::EPOCH`.
    epoch: AtomicUsize,
    /// High-water mark: the writer scans slots 0..used.
    used: AtomicUsize,
    barrier: B,
    slots: [Slot<K>; N],
}

impl<const N: usize, B: Barrier, K: Kept> Slots<N, B, K> {
    const_fn! {
        /// A domain without readers; fit for a `static`.
        pub const fn new(barrier: B) -> Slots<N, B, K> {
            Slots { epoch: AtomicUsize::new(0), used: AtomicUsize::new(0), barrier, slots: all_free() }
        }
    }

    /// The barrier.
    pub fn barrier(&self) -> &B {
        &self.barrier
    }
}

/// Slots by hand, for the C interface: a thread there has no value to keep a [`Claim`] in. Not part of the public
/// interface; each caller upholds by its own means what `Claim` upholds by its type.
#[doc(hidden)]
impl<const N: usize, B: Barrier, K: Kept> Slots<N, B, K> {
    /// Claims the first free slot for `owner`; `None` when all are taken. Lock-free, O(N).
    ///
    /// # Safety
    /// `owner` is no other living claim's number, and only its owner gives the slot back ([`Slots::release`]).
    #[cold]
    pub unsafe fn claim(&self, owner: NonZeroUsize) -> Option<&Slot<K>> {
        let (position, slot) = self.slots.iter().enumerate().find(|(_, slot)| slot.take(owner))?;
        self.used.fetch_max(position + 1, Ordering::AcqRel);
        // Pairs with the fence in `alone`: the writer sees this claim, or this reader sees what it published.
        fence(Ordering::SeqCst);
        Some(slot)
    }

    /// Gives a slot back, if `owner` still has it.
    ///
    /// # Safety
    /// Called by the owner, which is outside and does not enter the slot again, or for an owner that is no more.
    pub unsafe fn release(&self, slot: &Slot<K>, owner: NonZeroUsize) {
        if slot.is_owned_by(owner) {
            slot.active.store(0, Ordering::Release);
            slot.owner.store(0, Ordering::Release);
        }
    }

    /// The slots that have ever been claimed, for a caller that looks for owners that are no more.
    pub fn used(&self) -> &[Slot<K>] {
        let used = self.used.load(Ordering::Acquire);
        self.slots.get(..used).unwrap_or(&self.slots)
    }

    /// A slot whose reader is inside `group`.
    pub fn any_inside(&self, group: usize) -> Option<&Slot<K>> {
        self.used().iter().find(|slot| Word::<B>::is_inside(slot.active.load(Ordering::Acquire), group))
    }

    /// [`Domain::join`] under a number of the caller's choice, as a reader of `group`.
    ///
    /// # Safety
    /// As for [`Slots::claim`]. `group` is the group of the registry whose root is loaded under the claim, below
    /// 2^[`Barrier::GROUP_BITS`] - 1, and 0 where there are no groups.
    pub unsafe fn join_as(&self, owner: NonZeroUsize, group: usize) -> Option<Claim<'_, N, B, K>> {
        // SAFETY: by contract; the claim's drop gives it back.
        let slot = unsafe { self.claim(owner) }?;
        Some(Claim { domain: self, slot, owner, group, one_thread: PhantomData })
    }

    /// Whether every slot is free or `me`'s, and `me` is outside. A slot claimed later finds the newest root, so
    /// everything retired before may be reused. Checks the first few slots only: with more readers the fast path is not
    /// worth trying.
    pub fn alone(&self, me: NonZeroUsize) -> bool {
        // Pairs with the fence in `claim`.
        fence(Ordering::SeqCst);
        let used = self.used.load(Ordering::Acquire);
        used <= ALONE_LIMIT
            && self.slots.iter().take(used).all(|slot| {
                let owner = slot.owner.load(Ordering::Acquire);
                owner == 0 || (owner == me.get() && slot.active.load(Ordering::Acquire) == 0)
            })
    }

    /// Goes inside `group`. Wait-free: a load, a compare and a store. Stays of one slot nest, last in first out: an inner
    /// one keeps the older epoch, which protects no less.
    ///
    /// # Safety
    /// Only the thread that claimed `slot`, one of this domain's, calls this (or its signal handlers), and guards of one
    /// slot are dropped in the reverse order of their making. `group` as for [`Slots::join_as`].
    #[inline(always)]
    pub unsafe fn enter_slot<'d>(&'d self, slot: &'d Slot<K>, group: usize) -> Inside<'d, K> {
        let inside = Inside::mark::<B>(slot, group, &self.epoch);
        // A handler's entry too: it may have interrupted this thread between its store and its barrier.
        self.barrier.light();
        inside
    }

    /// As [`Slots::enter_slot`], for a reader that is outside, with the reader's half of the barrier given by a caller that knows
    /// which it is. `None` in a signal handler that has interrupted a stay. Wait-free: a load, a compare and a store.
    ///
    /// # Safety
    /// As for [`Slots::enter_slot`], and `light` does what [`Barrier::light`] must.
    #[inline(always)]
    pub unsafe fn enter_outermost_with<'d>(
        &'d self,
        slot: &'d Slot<K>,
        group: usize,
        light: impl FnOnce(),
    ) -> Option<Outermost<'d, K>> {
        let outermost = Outermost::mark::<B>(slot, group, &self.epoch)?;
        light();
        Some(outermost)
    }

    /// The writer's side for the registry of `group`.
    ///
    /// # Safety
    /// As for [`Domain::grace`]; `group` as for [`Slots::join_as`].
    pub unsafe fn periods(&self, group: usize) -> Periods<'_, N, B, K> {
        Periods { domain: self, group }
    }
}

/// A reader's claim on a slot; one thread at a time.
#[derive(Debug)]
pub struct Claim<'d, const N: usize, B: Barrier, K: Kept = ()> {
    domain: &'d Slots<N, B, K>,
    slot: &'d Slot<K>,
    owner: NonZeroUsize,
    group: usize,
    /// Not `Sync`.
    one_thread: PhantomData<core::cell::Cell<()>>,
}

#[doc(hidden)]
impl<const N: usize, B: Barrier, K: Kept> Claim<'_, N, B, K> {
    /// Its number.
    #[inline(always)]
    pub fn owner(&self) -> NonZeroUsize {
        self.owner
    }

    /// Whether the slot is still its own. See [`Slot::is_owned_by`].
    #[inline(always)]
    pub fn is_held(&self) -> bool {
        self.slot.is_owned_by(self.owner)
    }
}

impl<const N: usize, B: Barrier, K: Kept> Drop for Claim<'_, N, B, K> {
    fn drop(&mut self) {
        // SAFETY: the claim is the owner, and guards borrow it: none is left, or it was leaked and holds nothing any more.
        unsafe { self.domain.release(self.slot, self.owner) };
    }
}

/// A reader inside by its [`Claim`].
#[derive(Debug)]
pub struct Entered<'l, const N: usize, B: Barrier, K: Kept = ()> {
    domain: &'l Slots<N, B, K>,
    inside: Inside<'l, K>,
    group: usize,
    /// The epoch at its last stamp, or an older one.
    seen: usize,
}

impl<const N: usize, B: Barrier, K: Kept> Entered<'_, N, B, K> {
    /// [`Slot::is_owned_by`] of the slot.
    #[doc(hidden)]
    #[inline(always)]
    pub fn is_owned_by(&self, owner: NonZeroUsize) -> bool {
        self.inside.slot.is_owned_by(owner)
    }

    /// The epoch was `now`; the stamp's may be newer.
    #[cold]
    fn stamp_again(&mut self, now: usize) {
        self.seen = now;
        if self.inside.before == 0 {
            self.inside.slot.stamp::<B>(self.group, &self.domain.epoch);
            self.domain.barrier.light();
        }
    }
}

// SAFETY: the module's essay is the proof; `enter` stores the slot and passes the light barrier before its caller loads
// any root, also those after a `refresh`, which stores a newer epoch or nothing; `begin` passes the heavy barrier after
// the writer stored the root. `Grace::alone` keeps its default: never.
unsafe impl<const N: usize, B: Barrier, K: Kept> Domain for Slots<N, B, K> {
    type Local<'d>
        = Claim<'d, N, B, K>
    where
        Self: 'd;
    type Guard<'l>
        = Entered<'l, N, B, K>
    where
        Self: 'l;
    type Grace<'d>
        = Periods<'d, N, B, K>
    where
        Self: 'd;

    fn join(&self) -> Option<Claim<'_, N, B, K>> {
        let owner = NonZeroUsize::new(core::ptr::from_ref(self).addr())?;
        // SAFETY: claims of one number differ by the slots they hold, which nothing takes away from them here; there is
        // one registry, and group 0.
        unsafe { self.join_as(owner, 0) }
    }

    #[inline(always)]
    fn enter<'l>(local: &'l mut Claim<'_, N, B, K>) -> Entered<'l, N, B, K> {
        let Claim { domain, slot, group, .. } = *local;
        let seen = domain.epoch.load(Ordering::Relaxed);
        // SAFETY: the claim is not `Sync` and borrowed mutably by the guard: one thread, one guard at a time.
        Entered { domain, inside: unsafe { domain.enter_slot(slot, group) }, group, seen }
    }

    /// Stays where it is while the epoch does: a reader inside holds all it has loaded since it entered.
    #[inline(always)]
    fn refresh(guard: &mut Entered<'_, N, B, K>) {
        // Relaxed: only a reason to stamp.
        let now = guard.domain.epoch.load(Ordering::Relaxed);
        if now != guard.seen {
            guard.stamp_again(now);
        }
    }

    unsafe fn grace(&self) -> Periods<'_, N, B, K> {
        Periods { domain: self, group: 0 }
    }
}

/// The writer's side.
#[derive(Debug)]
pub struct Periods<'d, const N: usize, B: Barrier, K: Kept = ()> {
    domain: &'d Slots<N, B, K>,
    group: usize,
}

impl<const N: usize, B: Barrier, K: Kept> Grace for Periods<'_, N, B, K> {
    const BATCH: usize = B::BATCH;
    const KEEP_PUBLISHES: usize = B::KEEP_PUBLISHES;

    fn pause(&mut self, attempt: usize) -> bool {
        core::hint::spin_loop();
        attempt < B::PATIENCE
    }

    fn begin(&mut self) -> usize {
        if !self.domain.barrier.heavy() {
            return NEVER;
        }
        // Several writers may share a domain: each has its own period. An even number, so never `NEVER`.
        self.domain.epoch.fetch_add(Word::<B>::EPOCH, Ordering::AcqRel).wrapping_add(Word::<B>::EPOCH)
    }

    fn passed(&mut self, period: usize) -> bool {
        period != NEVER
            && self.domain.used().iter().all(|slot| {
                let active = slot.active.load(Ordering::Acquire);
                !Word::<B>::holds(active, self.group, period)
            })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Around where an epoch's uppermost bits change, and where it begins anew.
    #[test]
    fn periods_pass_for_those_who_left_also_when_epochs_wrap() {
        for turn in [0, usize::MAX >> 2, usize::MAX >> 1, usize::MAX - (usize::MAX >> 2), usize::MAX] {
            let turn = turn & !1;
            let domain: Slots<2, Fences> = Slots::new(Fences);
            domain.epoch.store(turn.wrapping_sub(4), Ordering::Relaxed);
            let (mut old, mut new) = (domain.join().unwrap(), domain.join().unwrap());
            // SAFETY: no period is begun before the one before it has passed.
            let mut periods = unsafe { domain.grace() };
            for _ in 0..5 {
                let mut inside = Slots::enter(&mut old);
                let first = periods.begin();
                assert_ne!(first, NEVER);
                let later = Slots::enter(&mut new);
                assert!(!periods.passed(first), "{turn:#x}: {inside:?} is from before {first:#x}");
                Slots::refresh(&mut inside);
                assert!(periods.passed(first), "{turn:#x}: {inside:?} and {later:?} are from after {first:#x}");
                let second = periods.begin();
                assert!(periods.passed(first) && !periods.passed(second), "{turn:#x}: {inside:?}, {second:#x}");
                drop((inside, later));
                assert!(periods.passed(second));
            }
        }
    }
}
