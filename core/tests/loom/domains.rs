//! Domains that models need besides the two: one that knows when its writer is alone, as the C interface's does, and
//! mutants that leave something out.

use std::num::NonZeroUsize;

use crossbeam_epoch::{Guard, LocalHandle};
use hsakmt_core::epoch::crossbeam::{self, Crossbeam};
use hsakmt_core::epoch::slots::{Barrier, Claim, Entered, Fences, Periods, Slots};
use hsakmt_core::epoch::{Domain, Grace};
use hsakmt_core::internals::{Crowd, Emptied, Stay};
use hsakmt_core::primitive::{Ordering, fence};

/// Slots whose writer takes everything back at once when there is no reader.
#[derive(Debug)]
pub(crate) struct Lonely(Slots<2, Fences>);

impl Lonely {
    pub(crate) fn new() -> Lonely {
        Lonely(Slots::new(Fences))
    }
}

// SAFETY: every method is `Slots`' own.
unsafe impl Domain for Lonely {
    type Local<'d> = Claim<'d, 2, Fences>;
    type Guard<'l> = Entered<'l, 2, Fences>;
    type Grace<'d> = LonelyPeriods<'d>;

    fn join(&self) -> Option<Self::Local<'_>> {
        self.0.join()
    }

    fn enter<'l>(local: &'l mut Self::Local<'_>) -> Self::Guard<'l> {
        Slots::enter(local)
    }

    fn refresh(guard: &mut Self::Guard<'_>) {
        Slots::refresh(guard);
    }

    unsafe fn grace(&self) -> LonelyPeriods<'_> {
        // SAFETY: by contract.
        LonelyPeriods { domain: self, periods: unsafe { self.0.grace() } }
    }
}

#[derive(Debug)]
pub(crate) struct LonelyPeriods<'d> {
    domain: &'d Lonely,
    periods: Periods<'d, 2, Fences>,
}

impl Grace for LonelyPeriods<'_> {
    fn begin(&mut self) -> usize {
        self.periods.begin()
    }

    fn passed(&mut self, period: usize) -> bool {
        self.periods.passed(period)
    }

    fn alone(&mut self) -> bool {
        // The writer's thread reads nothing: no claim has this number.
        self.domain.0.alone(NonZeroUsize::MIN)
    }
}

/// Readers that are counted.
#[derive(Debug)]
pub(crate) struct Crowded(Crowd);

impl Crowded {
    pub(crate) fn new() -> Crowded {
        Crowded(Crowd::new())
    }
}

/// A reader of [`Crowded`], by the number it enters under.
#[derive(Debug)]
pub(crate) struct Counted<'d>(&'d Crowd, usize);

// SAFETY: `crowd`'s essay: readers enter before they load the root, and `begin` passes a full fence.
unsafe impl Domain for Crowded {
    type Local<'d> = Counted<'d>;
    type Guard<'l> = Stay<'l>;
    type Grace<'d> = CrowdedPeriods<'d>;

    fn join(&self) -> Option<Counted<'_>> {
        Some(Counted(&self.0, 1))
    }

    fn enter<'l>(local: &'l mut Counted<'_>) -> Stay<'l> {
        local.0.enter(local.1)
    }

    fn refresh(_: &mut Stay<'_>) {}

    unsafe fn grace(&self) -> CrowdedPeriods<'_> {
        CrowdedPeriods { crowd: &self.0, emptied: Emptied::default(), begun: 0 }
    }
}

#[derive(Debug)]
pub(crate) struct CrowdedPeriods<'d> {
    crowd: &'d Crowd,
    emptied: Emptied,
    begun: usize,
}

impl Grace for CrowdedPeriods<'_> {
    fn begin(&mut self) -> usize {
        fence(Ordering::SeqCst);
        self.emptied.reset();
        self.begun += 1;
        self.begun
    }

    fn passed(&mut self, _: usize) -> bool {
        self.emptied.look(self.crowd)
    }
}

/// MUTANT: only the writer's half is a fence.
#[derive(Debug)]
pub(crate) struct HeavyOnly;

// SAFETY: none; that is the point.
unsafe impl Barrier for HeavyOnly {
    fn light(&self) {}

    fn heavy(&self) -> bool {
        fence(Ordering::SeqCst);
        true
    }
}

/// MUTANT: only the reader's half is a fence.
#[derive(Debug)]
pub(crate) struct LightOnly;

// SAFETY: none; that is the point.
unsafe impl Barrier for LightOnly {
    fn light(&self) {
        fence(Ordering::SeqCst);
    }

    fn heavy(&self) -> bool {
        true
    }
}

/// MUTANT: periods pass as soon as they are begun.
#[derive(Debug)]
pub(crate) struct Hasty<D>(pub(crate) D);

// SAFETY: none; that is the point.
unsafe impl<D: Domain> Domain for Hasty<D> {
    type Local<'d>
        = D::Local<'d>
    where
        D: 'd;
    type Guard<'l>
        = D::Guard<'l>
    where
        D: 'l;
    type Grace<'d>
        = HastyPeriods<D::Grace<'d>>
    where
        D: 'd;

    fn join(&self) -> Option<Self::Local<'_>> {
        self.0.join()
    }

    fn enter<'l>(local: &'l mut Self::Local<'_>) -> Self::Guard<'l> {
        D::enter(local)
    }

    fn refresh(guard: &mut Self::Guard<'_>) {
        D::refresh(guard);
    }

    unsafe fn grace(&self) -> Self::Grace<'_> {
        // SAFETY: by contract.
        HastyPeriods(unsafe { self.0.grace() })
    }
}

#[derive(Debug)]
pub(crate) struct HastyPeriods<G>(G);

impl<G: Grace> Grace for HastyPeriods<G> {
    fn begin(&mut self) -> usize {
        self.0.begin()
    }

    fn passed(&mut self, _: usize) -> bool {
        true
    }
}

/// MUTANT: crossbeam's own `repin`, at each question, and no fence after it.
#[derive(Debug)]
pub(crate) struct PlainRepin(Crossbeam);

impl PlainRepin {
    pub(crate) fn new() -> PlainRepin {
        PlainRepin(Crossbeam::new())
    }
}

// SAFETY: none; that is the point.
unsafe impl Domain for PlainRepin {
    type Local<'d> = LocalHandle;
    type Guard<'l> = Guard;
    type Grace<'d> = crossbeam::Periods<'d>;

    fn join(&self) -> Option<LocalHandle> {
        Some(self.0.collector().register())
    }

    fn enter(local: &mut LocalHandle) -> Guard {
        local.pin()
    }

    fn refresh(guard: &mut Guard) {
        guard.repin();
    }

    unsafe fn grace(&self) -> crossbeam::Periods<'_> {
        // SAFETY: by contract.
        unsafe { self.0.grace() }
    }
}
