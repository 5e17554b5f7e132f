//! Reserving SVM up front: which part of the address space becomes the reserved range.
//!
//! In: what the GPUs can address. Out: the largest free range below 2^40 by the C library's rule. Sizes go from the whole
//! down by halves; each is tried at every huge page from the front as long as half of it fits. The driver says what is in
//! use, so the search skips it. What never happens: more than a few hundred driver calls, or a range below
//! [`RESERVE_LEAST`].

use super::Manager;
use crate::address::Bounds;
use crate::driver::{Driver, Errno};
use crate::epoch::Domain;
use crate::pool::Memory;
use crate::va::HUGE_PAGE;

/// The highest address of a reserved range: what the oldest GPUs can address.
const RESERVE_LIMIT: u64 = (1 << 40) - 1;

/// The smallest range worth having; where addresses are short, whatever the GPU has.
pub(super) const RESERVE_LEAST: u64 = if usize::BITS < 64 { HUGE_PAGE as u64 } else { 4 << 30 };

/// Places tried for one size. With nine sizes between 2^40 and 2^32 this bounds the driver calls of a search.
const TRIES_PER_SIZE: u32 = 64;

impl<V: Driver, D: Domain, M: Memory> Manager<'_, V, D, M> {
    /// Reserves as much of `bounds` as there is. `None` when no free range is large enough.
    pub(super) fn reserve_range(&mut self, bounds: Bounds) -> Option<Bounds> {
        let base = bounds.base as u64;
        let limit = (bounds.limit as u64).min(RESERVE_LIMIT);
        let whole = limit.checked_sub(base)?.checked_add(1).filter(|whole| *whole >= RESERVE_LEAST)?;
        let halves = core::iter::successors(Some(whole), |size| Some(size.div_ceil(2)));
        // The C library stops at the last half; a gap of the least size is room too.
        let mut sizes = halves.take_while(|size| *size > RESERVE_LEAST).chain([RESERVE_LEAST]);
        sizes.find_map(|size| self.reserve_size(size, base, limit))
    }

    /// Reserves `size` bytes between `base` and `limit`, or down to half of them where the limit cuts the rest off.
    fn reserve_size(&mut self, size: u64, base: u64, limit: u64) -> Option<Bounds> {
        let page = self.page();
        let mut address = base;
        for _ in 0..TRIES_PER_SIZE {
            let room = (limit + 1).checked_sub(address)?.min(size);
            if room < size.div_ceil(2).max(RESERVE_LEAST) {
                return None;
            }
            let start = usize::try_from(address).ok()?;
            let room = page.floor(usize::try_from(room).ok()?);
            let wanted = Bounds::new(start, start + (room - 1));
            match self.reserve_whole(wanted) {
                Ok(()) => return Some(wanted),
                // Too much at any address.
                Err(Errno::NOMEM) => return None,
                Err(_) => {}
            }
            let used = self.driver.last_used(wanted).map_or(address, |used| used as u64);
            address = base + (used - base + 1).next_multiple_of(HUGE_PAGE as u64);
        }
        None
    }
}
