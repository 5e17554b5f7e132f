//! What a reader pays on entry and the writer per grace period, so that one sees the other's store.

use core::sync::atomic::compiler_fence;

use super::PATIENCE;
use crate::primitive::{Ordering, fence};
use crate::{list, registry};

/// The two halves of an asymmetric fence.
///
/// # Safety
/// A store before [`Barrier::light`] on one thread and a store before [`Barrier::heavy`] on another: at least one of the
/// two threads sees the other's store in its loads after its barrier.
pub unsafe trait Barrier: Sync {
    /// See [`Grace::BATCH`](super::Grace::BATCH).
    const BATCH: usize = registry::BATCH;

    /// See [`Grace::KEEP_PUBLISHES`](super::Grace::KEEP_PUBLISHES).
    const KEEP_PUBLISHES: usize = list::KEEP_PUBLISHES;

    /// How often a writer at its limit looks again, where nothing better than spinning is known.
    const PATIENCE: usize = PATIENCE;

    /// Bits of a slot that name the group its reader is in. 0 unless several registries share the slots: then each is
    /// a group, and its writer ignores the readers of other groups.
    const GROUP_BITS: u32 = 0;

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
