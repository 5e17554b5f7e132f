//! One reader's slot: a word that says where its reader is, and who owns it.
//!
//! The word is 0 while the reader is outside. Inside, it is `epoch | group | 1`, packed as [`Word`] says. A reader that is
//! inside of one group and enters another (a signal handler's query) goes to the group [`Word::EVERY`], with the epoch it
//! has: each writer then sees it.

use core::marker::PhantomData;
use core::num::NonZeroUsize;

use super::Barrier;
use crate::primitive::{AtomicUsize, Ordering, const_fn};

/// What a slot's owner keeps beside it.
pub trait Kept: Sync {
    /// The content of a slot that has had no owner. All bits are 0 where a fork wipes slots.
    const EMPTY: Self;
}

impl Kept for () {
    const EMPTY: () = ();
}

/// One reader's slot. Two cache lines apart, since cores fetch lines in pairs; small machines have no lines to share.
#[derive(Debug)]
#[repr(C)]
#[cfg_attr(target_pointer_width = "64", repr(align(128)))]
pub struct Slot<K = ()> {
    /// See [`Word`].
    pub(super) active: AtomicUsize,
    /// 0 while free, else the owner's number.
    pub(super) owner: AtomicUsize,
    kept: K,
}

impl<K> Slot<K> {
    const_fn! {
        /// A free one.
        pub const fn free(kept: K) -> Slot<K> {
            Slot { active: AtomicUsize::new(0), owner: AtomicUsize::new(0), kept }
        }
    }

    /// Whether `owner` has it. A fork may have wiped it, and another thread claimed it since.
    #[inline(always)]
    pub fn is_owned_by(&self, owner: NonZeroUsize) -> bool {
        // Relaxed: a thread asks about its own store.
        self.owner.load(Ordering::Relaxed) == owner.get()
    }

    /// The owner's number; `None` while it is free.
    pub fn owner(&self) -> Option<NonZeroUsize> {
        NonZeroUsize::new(self.owner.load(Ordering::Acquire))
    }

    /// Takes it for `owner` if it is free. A slot that is not free is only read: its line stays its owner's.
    pub(super) fn take(&self, owner: NonZeroUsize) -> bool {
        // Acquire: pairs with the Release store of `Slots::release`, so that the owner before has left.
        let take = || self.owner.compare_exchange(0, owner.get(), Ordering::Acquire, Ordering::Relaxed);
        self.owner.load(Ordering::Relaxed) == 0 && take().is_ok()
    }

    /// What its owner keeps here.
    #[inline(always)]
    pub fn kept(&self) -> &K {
        &self.kept
    }
}

/// How `active` is packed for a barrier `B`: from bit 0 up one bit that is set, [`Barrier::GROUP_BITS`] of the group, the
/// epoch. Epochs and periods count in units of [`Word::EPOCH`], so that packing is one OR.
pub(super) struct Word<B>(PhantomData<B>);

impl<B: Barrier> Word<B> {
    /// One epoch.
    pub(super) const EPOCH: usize = 2 << B::GROUP_BITS;
    const GROUP: usize = ((1 << B::GROUP_BITS) - 1) << 1;
    /// The group of a reader that is in several.
    const EVERY: usize = Self::GROUP >> 1;

    #[inline(always)]
    const fn inside(epoch: usize, group: usize) -> usize {
        epoch | (group << 1) | 1
    }

    /// A word as `active`, its reader now in `group` too. The epoch stays: the older one protects no less.
    #[inline(always)]
    const fn also_in(active: usize, group: usize) -> usize {
        if active & Self::GROUP == group << 1 { active } else { active | Self::GROUP }
    }

    /// Whether a reader with this word may hold what a writer of `group` retired before it began `period`.
    ///
    /// Epochs are compared around the end of their numbers, which 32 bits reach: the older of two is less than half of
    /// them behind, since a writer begins few periods while one of its own has not passed.
    #[inline(always)]
    pub(super) const fn holds(active: usize, group: usize, period: usize) -> bool {
        let behind = (active & !(Self::GROUP | 1)).wrapping_sub(period).cast_signed() < 0;
        Self::is_inside(active, group) && behind
    }

    /// Whether a reader with this word is inside `group`.
    #[inline(always)]
    pub(super) const fn is_inside(active: usize, group: usize) -> bool {
        let its_group = (active & Self::GROUP) >> 1;
        active != 0 && (its_group == group || its_group == Self::EVERY)
    }
}

/// A reader's stay inside; dropping it leaves.
#[derive(Debug)]
pub struct Inside<'d, K = ()> {
    pub(super) slot: &'d Slot<K>,
    /// What the slot's word was: not 0 for an inner stay.
    pub(super) before: usize,
}

impl<'d, K> Inside<'d, K> {
    /// Marks the slot as inside `group`, for a writer that sees it. The caller's barrier comes next.
    #[inline(always)]
    pub(super) fn mark<B: Barrier>(slot: &'d Slot<K>, group: usize, epoch: &AtomicUsize) -> Inside<'d, K> {
        let before = slot.active.load(Ordering::Relaxed);
        if before == 0 {
            slot.stamp::<B>(group, epoch);
        } else {
            slot.mark_inner::<B>(before, group);
        }
        Inside { slot, before }
    }
}

impl<K> Slot<K> {
    #[inline(always)]
    pub(super) fn stamp<B: Barrier>(&self, group: usize, epoch: &AtomicUsize) {
        let epoch = epoch.load(Ordering::Acquire);
        self.active.store(Word::<B>::inside(epoch, group), Ordering::Release);
    }

    /// Rare: a signal handler's entry.
    #[cold]
    fn mark_inner<B: Barrier>(&self, before: usize, group: usize) {
        let now = Word::<B>::also_in(before, group);
        if now != before {
            self.active.store(now, Ordering::Release);
        }
    }
}

/// A stay inside of a reader that was outside before; dropping it leaves.
#[derive(Debug)]
pub struct Outermost<'d, K = ()> {
    slot: &'d Slot<K>,
}

impl<'d, K> Outermost<'d, K> {
    /// As [`Inside::mark`]; `None` if the reader is inside already.
    #[inline(always)]
    pub(super) fn mark<B: Barrier>(slot: &'d Slot<K>, group: usize, epoch: &AtomicUsize) -> Option<Outermost<'d, K>> {
        // Relaxed: a thread asks about its own store.
        if slot.active.load(Ordering::Relaxed) != 0 {
            return None;
        }
        slot.stamp::<B>(group, epoch);
        Some(Outermost { slot })
    }
}

impl<K> Drop for Outermost<'_, K> {
    #[inline(always)]
    fn drop(&mut self) {
        // Release: what was read inside was read before. Pairs with the writer's load in `Periods::passed`.
        self.slot.active.store(0, Ordering::Release);
    }
}

impl<K> Drop for Inside<'_, K> {
    #[inline(always)]
    fn drop(&mut self) {
        self.slot.active.store(self.before, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::Fences;
    use super::*;

    struct Grouped;

    // SAFETY: no thread is behind it.
    unsafe impl Barrier for Grouped {
        const GROUP_BITS: u32 = 7;

        fn light(&self) {}

        fn heavy(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_word_holds_what_its_group_retired_after_it_entered() {
        const LAST: usize = usize::MAX & !(Word::<Grouped>::EPOCH - 1);
        for (epoch, period) in
            [(0, 1), (5, 6)].map(|(epoch, period)| (epoch << 8, period << 8)).into_iter().chain([(LAST, 0)])
        {
            let active = Word::<Grouped>::inside(epoch, 3);
            assert!(Word::<Grouped>::holds(active, 3, period));
            assert!(!Word::<Grouped>::holds(active, 4, period), "another group's");
            assert!(!Word::<Grouped>::holds(Word::<Grouped>::inside(period, 3), 3, period), "entered after");
            let both = Word::<Grouped>::also_in(active, 4);
            assert!([3, 4, 5].iter().all(|group| Word::<Grouped>::holds(both, *group, period)));
            assert_eq!(Word::<Grouped>::also_in(active, 3), active);
        }
        assert!(!Word::<Grouped>::holds(0, 3, 1));
        assert!(Word::<Fences>::holds(Word::<Fences>::inside(2, 0), 0, 4));
    }

    #[test]
    fn an_inner_stay_in_another_group_is_seen_by_both_and_ends_as_it_began() {
        let (slot, epoch) = (Slot::free(()), AtomicUsize::new(9 << 8));
        let outer = Inside::mark::<Grouped>(&slot, 1, &epoch);
        let alone = slot.active.load(Ordering::Relaxed);
        let inner = Inside::mark::<Grouped>(&slot, 2, &epoch);
        let both = slot.active.load(Ordering::Relaxed);
        assert!(Word::<Grouped>::holds(both, 1, 10 << 8) && Word::<Grouped>::holds(both, 2, 10 << 8));
        drop(inner);
        assert_eq!(slot.active.load(Ordering::Relaxed), alone);
        drop(outer);
        assert_eq!(slot.active.load(Ordering::Relaxed), 0);
    }
}
