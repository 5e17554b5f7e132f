//! A domain of fixed reader slots: no allocator, no destructor, no loop on the reader's side.
//!
//! Entering is one plain store of the current epoch to the reader's own line, leaving is another. The price of making
//! that store visible in time is the writer's: a heavy [`Barrier`] per grace period, not a fence per read.
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
//! when the epoch has moved, for the writer's sake alone.
//!
//! | line | order | pairs with | protects |
//! |---|---|---|---|
//! | `enter`: epoch load | Acquire | `begin`: epoch add, AcqRel | a reader of epoch `p` sees what was published before `p` |
//! | `enter`, `leave`: slot store | Release | `passed`: slot load, Acquire | reads before reuse |
//! | `enter`: light barrier | - | `begin`: heavy barrier | slot store against root load |
//! | `claim`, `release`: owner | AcqRel / Release | each other | one thread per slot |
//! | `claim`: fence after the owner | SeqCst | `alone`: fence before looking | a claim against a root stored before |

use core::marker::PhantomData;
use core::sync::atomic::compiler_fence;

use super::{Domain, Grace, NEVER, PATIENCE};
use crate::primitive::{AtomicUsize, Ordering, const_fn, fence};
use crate::{list, registry};

/// The two halves of an asymmetric fence.
///
/// # Safety
/// A store before [`Barrier::light`] on one thread and a store before [`Barrier::heavy`] on another: at least one of the
/// two threads sees the other's store in its loads after its barrier.
pub unsafe trait Barrier: Sync {
    /// See [`Grace::BATCH`].
    const BATCH: usize = registry::BATCH;

    /// See [`Grace::KEEP_PUBLISHES`].
    const KEEP_PUBLISHES: usize = list::KEEP_PUBLISHES;

    /// How often a writer at its cap looks again, where nothing better than spinning is known.
    const PATIENCE: usize = PATIENCE;

    /// The reader's half, on every entry.
    fn light(&self);
    /// The writer's half, once per grace period. `false` when it could not be had: then the period never passes.
    fn heavy(&self) -> bool;
}

/// Both halves are full fences: right everywhere, and what a reader pays without help from the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fences;

// SAFETY: two sequentially consistent fences order the stores before them against the loads after them.
unsafe impl Barrier for Fences {
    #[inline(always)]
    fn light(&self) {
        fence(Ordering::SeqCst);
    }

    fn heavy(&self) -> bool {
        fence(Ordering::SeqCst);
        true
    }
}

/// For one core: readers are interrupt handlers of the core that writes, which see its stores in program order.
#[derive(Clone, Copy, Debug)]
pub struct SingleCore(());

impl SingleCore {
    /// # Safety
    /// All readers and the writer run on one core.
    pub const unsafe fn new() -> SingleCore {
        SingleCore(())
    }
}

// SAFETY: on one core (`new`'s contract) every store is seen by whatever runs next; only the compiler could reorder.
unsafe impl Barrier for SingleCore {
    // A period costs nothing, so what was replaced comes back with the next write.
    const BATCH: usize = 1;
    // There are no C callers; what a guard protects is kept by periods alone.
    const KEEP_PUBLISHES: usize = 0;
    // A reader that was interrupted does not go on while the writer spins.
    const PATIENCE: usize = 0;

    #[inline(always)]
    fn light(&self) {
        compiler_fence(Ordering::SeqCst);
    }

    fn heavy(&self) -> bool {
        compiler_fence(Ordering::SeqCst);
        true
    }
}

/// One reader's line. Two lines apart, since cores fetch lines in pairs; small machines have no lines to share.
#[derive(Debug)]
#[cfg_attr(target_pointer_width = "64", repr(align(128)))]
pub struct Slot {
    /// 0 while outside, else `2 * epoch + 1` of the epoch it entered in, whose uppermost bit is lost.
    active: AtomicUsize,
    /// 0 while free, else whoever claimed it.
    owner: AtomicUsize,
}

impl Slot {
    const_fn! {
        /// A free one. In a static of its own it is nobody's: what a thread without a slot may point to.
        pub const fn free() -> Slot {
            Slot { active: AtomicUsize::new(0), owner: AtomicUsize::new(0) }
        }
    }

    /// Whether `owner` claimed it and it has not been taken away since (a fork wipes it).
    #[inline(always)]
    pub fn is_owned_by(&self, owner: usize) -> bool {
        // Relaxed: a thread asks about its own store.
        self.owner.load(Ordering::Relaxed) == owner
    }
}

#[cfg(not(loom))]
const fn all_free<const N: usize>() -> [Slot; N] {
    [const { Slot::free() }; N]
}

#[cfg(loom)]
fn all_free<const N: usize>() -> [Slot; N] {
    core::array::from_fn(|_| Slot::free())
}

/// As many slots as [`Slots::alone`] looks at.
const FEW: usize = 4;

/// Readers tracked by `N` slots. All zero when new, so that a `static` one costs no space in the file, and one that a
/// fork wiped is new.
#[derive(Debug)]
#[repr(C)]
pub struct Slots<const N: usize, B> {
    /// Counts grace periods.
    epoch: AtomicUsize,
    /// Slots ever claimed are below this: as far as the writer looks.
    used: AtomicUsize,
    barrier: B,
    slots: [Slot; N],
}

impl<const N: usize, B: Barrier> Slots<N, B> {
    const_fn! {
        /// A domain without readers; fit for a `static`.
        pub const fn new(barrier: B) -> Slots<N, B> {
            Slots { epoch: AtomicUsize::new(0), used: AtomicUsize::new(0), barrier, slots: all_free() }
        }
    }

    /// The barrier.
    pub fn barrier(&self) -> &B {
        &self.barrier
    }

    /// Claims a slot for `owner` (not 0), which must be one thread's own number; `None` when all are taken.
    #[cold]
    pub fn claim(&self, owner: usize) -> Option<&Slot> {
        let free = |slot: &&Slot| slot.owner.compare_exchange(0, owner, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let (position, slot) = self.slots.iter().enumerate().find(|(_, slot)| free(slot))?;
        self.used.fetch_max(position + 1, Ordering::AcqRel);
        // Pairs with the fence in `alone`: the writer sees this claim, or this reader sees what it published.
        fence(Ordering::SeqCst);
        Some(slot)
    }

    /// [`Domain::join`] under a number of the caller's choice. Where slots are taken away (a fork wipes them) and claimed
    /// anew, no two claims may have the same: it is how the older one knows that its slot is another's.
    pub fn join_as(&self, owner: usize) -> Option<Claim<'_, N, B>> {
        let slot = self.claim(owner)?;
        Some(Claim { domain: self, slot, owner, one_thread: PhantomData })
    }

    /// Whether every slot is free or `me`'s, and `me` is outside. Whoever claims one later finds the newest root, so
    /// everything retired before may be reused. Looks at the first few slots only: who has more readers has none to
    /// spare.
    pub fn alone(&self, me: usize) -> bool {
        // Pairs with the fence in `claim`.
        fence(Ordering::SeqCst);
        let used = self.used.load(Ordering::Acquire);
        used <= FEW
            && self.slots.iter().take(used).all(|slot| {
                let owner = slot.owner.load(Ordering::Acquire);
                owner == 0 || (owner == me && slot.active.load(Ordering::Acquire) == 0)
            })
    }

    /// Gives a slot back, if `owner` still has it.
    pub fn release(&self, slot: &Slot, owner: usize) {
        if slot.is_owned_by(owner) {
            slot.active.store(0, Ordering::Release);
            slot.owner.store(0, Ordering::Release);
        }
    }

    /// Goes inside. Wait-free: a load, a compare and a store. Entries of one slot nest, last in first out: an inner one
    /// keeps the older epoch, which protects no less.
    ///
    /// # Safety
    /// Only the thread that claimed `slot` may be here (or its signal handlers), and guards of one slot are dropped in
    /// the reverse order of their making.
    #[inline(always)]
    pub unsafe fn enter_slot<'d>(&'d self, slot: &'d Slot) -> Inside<'d> {
        // SAFETY: by contract.
        unsafe { self.enter_slot_with(slot, || self.barrier.light()) }
    }

    /// The same with the reader's half of the barrier given, by a caller who knows which it is.
    ///
    /// # Safety
    /// As for [`Slots::enter_slot`], and `light` does what [`Barrier::light`] must.
    #[inline(always)]
    pub unsafe fn enter_slot_with<'d>(&'d self, slot: &'d Slot, light: impl FnOnce()) -> Inside<'d> {
        let before = slot.active.load(Ordering::Relaxed);
        if before == 0 {
            self.stamp(slot);
        } else {
            nested();
        }
        // A handler's too: it may have interrupted this thread between its store and its barrier.
        light();
        Inside { slot, before }
    }

    #[inline(always)]
    fn stamp(&self, slot: &Slot) {
        let epoch = self.epoch.load(Ordering::Acquire);
        slot.active.store(epoch.wrapping_mul(2) | 1, Ordering::Release);
    }
}

/// Tells the compiler that this is rare: a signal handler's entry.
#[cold]
fn nested() {}

/// Being inside; dropping it leaves.
#[derive(Debug)]
pub struct Inside<'d> {
    slot: &'d Slot,
    before: usize,
}

impl Drop for Inside<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.slot.active.store(self.before, Ordering::Release);
    }
}

/// A reader's claim on a slot; one thread at a time.
#[derive(Debug)]
pub struct Claim<'d, const N: usize, B: Barrier> {
    domain: &'d Slots<N, B>,
    slot: &'d Slot,
    owner: usize,
    /// Not `Sync`.
    one_thread: PhantomData<core::cell::Cell<()>>,
}

impl<const N: usize, B: Barrier> Claim<'_, N, B> {
    /// Whose it is.
    #[inline(always)]
    pub fn owner(&self) -> usize {
        self.owner
    }

    /// Whether the slot is still its own. See [`Slot::is_owned_by`].
    #[inline(always)]
    pub fn is_held(&self) -> bool {
        self.slot.is_owned_by(self.owner)
    }
}

impl<const N: usize, B: Barrier> Drop for Claim<'_, N, B> {
    fn drop(&mut self) {
        self.domain.release(self.slot, self.owner);
    }
}

/// Being inside by a [`Claim`].
#[derive(Debug)]
pub struct Entered<'l, const N: usize, B: Barrier> {
    domain: &'l Slots<N, B>,
    inside: Inside<'l>,
    /// The epoch at its last stamp, or an older one.
    seen: usize,
}

impl<const N: usize, B: Barrier> Entered<'_, N, B> {
    /// [`Slot::is_owned_by`] of the slot.
    #[inline(always)]
    pub fn is_owned_by(&self, owner: usize) -> bool {
        self.inside.slot.is_owned_by(owner)
    }

    /// The epoch was `now`; the stamp's may be newer.
    #[cold]
    fn stamp_again(&mut self, now: usize) {
        self.seen = now;
        if self.inside.before == 0 {
            self.domain.stamp(self.inside.slot);
            self.domain.barrier.light();
        }
    }
}

// SAFETY: the module's essay is the proof; `enter` stores the slot and passes the light barrier before its caller loads
// any root, also those after a `refresh`, which stores a newer epoch or nothing; `begin` passes the heavy barrier after
// the writer stored the root.
unsafe impl<const N: usize, B: Barrier> Domain for Slots<N, B> {
    type Local<'d>
        = Claim<'d, N, B>
    where
        Self: 'd;
    type Guard<'l>
        = Entered<'l, N, B>
    where
        Self: 'l;
    type Grace<'d>
        = Periods<'d, N, B>
    where
        Self: 'd;

    fn join(&self) -> Option<Claim<'_, N, B>> {
        // Any number but 0 will do: this claim is told from others by the slot it holds.
        let owner = core::ptr::from_ref(self).addr();
        self.join_as(owner)
    }

    #[inline(always)]
    fn enter<'l>(local: &'l mut Claim<'_, N, B>) -> Entered<'l, N, B> {
        let Claim { domain, slot, .. } = *local;
        let seen = domain.epoch.load(Ordering::Relaxed);
        // SAFETY: the claim is not `Sync` and borrowed mutably by the guard: one thread, one guard at a time.
        Entered { domain, inside: unsafe { domain.enter_slot(slot) }, seen }
    }

    /// Stays where it is while the epoch does: whoever stays inside holds all it has loaded since it entered.
    #[inline(always)]
    fn refresh(guard: &mut Entered<'_, N, B>) {
        // Relaxed: only a reason to stamp.
        let now = guard.domain.epoch.load(Ordering::Relaxed);
        if now != guard.seen {
            guard.stamp_again(now);
        }
    }

    fn grace(&self) -> Periods<'_, N, B> {
        Periods { domain: self }
    }
}

/// The writer's side.
#[derive(Debug)]
pub struct Periods<'d, const N: usize, B: Barrier> {
    domain: &'d Slots<N, B>,
}

impl<const N: usize, B: Barrier> Grace for Periods<'_, N, B> {
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
        // Several writers may share a domain: each has its own period. One bit less than a word, as slots keep it; so it is
        // never `NEVER`.
        self.domain.epoch.fetch_add(1, Ordering::AcqRel).wrapping_add(1) & (usize::MAX >> 1)
    }

    fn passed(&mut self, period: usize) -> bool {
        if period == NEVER {
            return false;
        }
        let used = self.domain.used.load(Ordering::Acquire);
        self.domain.slots.iter().take(used).all(|slot| {
            let active = slot.active.load(Ordering::Acquire);
            // Epochs are compared around the end of their numbers, which 32 bits reach: the older of two is less than half
            // of them behind. A writer begins no period while one of its own waits, so no reader falls so far behind.
            active == 0 || (active & !1).wrapping_sub(period.wrapping_mul(2)).cast_signed() >= 0
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
            let domain: Slots<2, Fences> = Slots::new(Fences);
            domain.epoch.store(turn.wrapping_sub(2), Ordering::Relaxed);
            let (mut old, mut new) = (domain.join().unwrap(), domain.join().unwrap());
            let mut periods = domain.grace();
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
