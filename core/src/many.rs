//! Many queries at once, for callers who bring more than one address.
//!
//! A query of a large registry waits for memory, one node after the other. Sixteen queries do not depend on each other, so
//! [`Snapshot::query_many`] takes them down the page index side by side, a level at a time, and the processor waits for their
//! nodes together. Same answers, same bounds: wait-free, no store but to the caller's array. Where SVM has no page index the
//! queries are made one by one.

use crate::index::HAS_PAGES;
use crate::info::PointerInfo;
use crate::lookup::Descent;
use crate::snapshot::Snapshot;

/// Queries side by side.
const LANES: usize = 16;

impl<'g> Snapshot<'g> {
    /// The allocation that contains each of `addresses`, in order; as many as fit in `out`. Wait-free.
    pub fn query_many(&self, addresses: &[usize], out: &mut [PointerInfo<'g>]) {
        for (addresses, out) in addresses.chunks(LANES).zip(out.chunks_mut(LANES)) {
            self.query_lanes(addresses, out);
        }
    }

    fn query_lanes(&self, addresses: &[usize], out: &mut [PointerInfo<'g>]) {
        let mut lanes = [Descent::top(self); LANES];
        let mut under_way = true;
        while HAS_PAGES && under_way {
            under_way = false;
            for (lane, address) in lanes.iter_mut().zip(addresses).filter(|(lane, _)| lane.is_under_way()) {
                *lane = lane.step(*address);
                prefetch(lane.next_read(*address));
                under_way = true;
            }
        }
        for ((lane, address), out) in lanes.into_iter().zip(addresses).zip(out) {
            let reached = lane.end();
            let found = reached.plain(*address);
            let found = found.or_else(|| self.find_by_rule(reached, *address, |found| found));
            *out = found.unwrap_or(PointerInfo::UNKNOWN);
        }
    }
}

/// Asks for the line that holds what `place` points to; on a machine that has no such thing, does nothing.
#[inline(always)]
fn prefetch<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch of any address whatever changes nothing and cannot fault.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
