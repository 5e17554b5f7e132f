//! Readers without a slot: counted, for threads that come when all slots are taken.
//!
//! A reader adds 1 to a counter, loads the root, and takes 1 off when it is done. It waits for nothing, and any number of
//! readers share a counter. An entry costs two atomic read-modify-writes on a line that other readers write as well: some
//! ten times a slot's, and the reason that slots come first.
//!
//! # Why it works
//! A reader adds (A), then loads the root (L). The writer stores the root (P), passes a heavy barrier, and later looks
//! until it has seen each counter at 0 once ([`Emptied`]). A and L have a full fence between them, so either A is visible
//! to the writer's looks, or L sees P.
//!
//! * L saw an older root: so A is visible, and the counter is not 0 until the reader has taken its 1 off (Release, read by
//!   Acquire: all of the reader's loads come before whatever the writer does next).
//! * L saw the new root: it holds nothing of the old one.
//!
//! Counters need not be 0 at one instant, since each reader stays with its own. There are several so that threads that
//! come and go without a pause seldom keep one above 0.
//!
//! | line | order | pairs with | protects |
//! |---|---|---|---|
//! | `enter`: add, then fence | SeqCst | the writer's heavy barrier | the count against the root load |
//! | `Stay`: subtract | Release | `Emptied::look`: load, Acquire | reads before reuse |

use crate::primitive::{AtomicUsize, Ordering, fence};

/// Counters; a thread uses the one that its number hashes to.
const COUNTERS: usize = if cfg!(loom) { 2 } else { 64 };

/// One counter, on lines of its own.
#[derive(Debug)]
#[cfg_attr(target_pointer_width = "64", repr(align(128)))]
struct Counter(AtomicUsize);

/// Readers that are counted. All zero when new.
#[derive(Debug)]
pub struct Crowd {
    counters: [Counter; COUNTERS],
}

impl Crowd {
    /// Without readers; fit for a `static`.
    #[cfg(not(loom))]
    pub const fn new() -> Crowd {
        Crowd { counters: [const { Counter(AtomicUsize::new(0)) }; COUNTERS] }
    }

    /// Without readers.
    #[cfg(loom)]
    pub fn new() -> Crowd {
        Crowd { counters: core::array::from_fn(|_| Counter(AtomicUsize::new(0))) }
    }

    /// Goes inside. Lock-free.
    pub fn enter(&self, number: usize) -> Stay<'_> {
        let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as usize) >> (usize::BITS - COUNTERS.ilog2());
        let counter = &self.counters[spread % COUNTERS].0;
        counter.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Stay { counter }
    }
}

impl Default for Crowd {
    fn default() -> Crowd {
        Crowd::new()
    }
}

/// A reader's stay inside; dropping it leaves.
#[derive(Debug)]
pub struct Stay<'d> {
    counter: &'d AtomicUsize,
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        self.counter.fetch_sub(1, Ordering::Release);
    }
}

/// Which counters a writer has seen at 0 since its period began.
#[derive(Debug, Default)]
pub struct Emptied(u64);

impl Emptied {
    /// Starts over: for a new period, after its heavy barrier.
    pub fn reset(&mut self) {
        self.0 = 0;
    }

    /// Looks at the counters not yet seen at 0. Returns whether each has been: then no reader that entered before the
    /// period is still inside.
    pub fn look(&mut self, crowd: &Crowd) -> bool {
        for (position, counter) in crowd.counters.iter().enumerate() {
            let bit = 1 << position;
            if self.0 & bit == 0 && counter.0.load(Ordering::Acquire) == 0 {
                self.0 |= bit;
            }
        }
        self.0.count_ones() as usize == COUNTERS
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_period_passes_when_each_counter_was_empty_once() {
        let (crowd, mut emptied) = (Crowd::new(), Emptied::default());
        let (one, other) = (crowd.enter(1), crowd.enter(2));
        assert!(!core::ptr::eq(one.counter, other.counter), "the test needs two counters");
        let again = crowd.enter(1);
        emptied.reset();
        assert!(!emptied.look(&crowd));
        drop(one);
        assert!(!emptied.look(&crowd), "the counter has another reader");
        drop(again);
        assert!(!emptied.look(&crowd));
        // A reader that comes where the writer has looked is a later one.
        let later = crowd.enter(1);
        drop(other);
        assert!(emptied.look(&crowd));
        emptied.reset();
        assert!(!emptied.look(&crowd));
        drop(later);
        assert!(emptied.look(&crowd));
    }
}
