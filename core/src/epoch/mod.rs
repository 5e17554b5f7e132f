//! Reclamation: when may the writer reuse what it retired? A [`Domain`] knows which readers may still look at it.
//!
//! Readers *enter* before they load the root and *leave* when they are done with everything they found. The writer
//! publishes, then asks for a grace period ([`Grace::begin`]); once that has *passed*, every reader that could have
//! loaded an older root has left. Nothing is freed per node and nothing is ever freed by a reader.
//!
//! | domain | entering | the writer pays | for |
//! |---|---|---|---|
//! | [`Crossbeam`](crossbeam::Crossbeam) (default, needs `alloc`) | lock-free to open, wait-free to repin | an epoch of crossbeam-epoch | Rust sessions |
//! | [`Slots`](slots::Slots) | wait-free: one plain store to the reader's own line | a barrier on all threads | the C interface, no allocator |

mod barrier;
#[cfg(feature = "alloc")]
pub mod crossbeam;
mod crowd;
pub mod slots;

#[doc(hidden)]
pub use crowd::{Crowd, Emptied, Stay};

/// Keeps track of readers.
///
/// # Safety
/// - Once [`Grace::passed`] is true for a period, no reader that entered before the period began is still inside; and a
///   reader that enters later sees every store made before it began.
/// - When [`Grace::alone`] is true, no reader is inside, the calling thread included; and a reader that enters later sees
///   every store made before the call.
/// - A reader whose guard is not inside ([`Domain::is_inside`]) does not count.
pub unsafe trait Domain: Sync {
    /// A reader's place in the domain, one per thread.
    type Local<'d>
    where
        Self: 'd;
    /// Proof of being inside.
    type Guard<'l>
    where
        Self: 'l;
    /// The writer's side.
    type Grace<'d>: Grace
    where
        Self: 'd;

    /// Takes a place; `None` when there is none left.
    fn join(&self) -> Option<Self::Local<'_>>;

    /// Goes inside.
    fn enter<'l>(local: &'l mut Self::Local<'_>) -> Self::Guard<'l>;

    /// Leaves and enters again if a writer waits for that, so that a long-held guard does not hold memory back. Wait-free.
    fn refresh(guard: &mut Self::Guard<'_>);

    /// Whether the guard protects anything. Only a forked child's copy of its parent's guard may not: what it was inside
    /// of is gone. Then nothing may be loaded under it. Asked after [`Domain::enter`] or [`Domain::refresh`].
    #[inline(always)]
    fn is_inside(guard: &Self::Guard<'_>) -> bool {
        let _ = guard;
        true
    }

    /// The writer's side. Several writers may share a domain.
    ///
    /// # Safety
    /// Fewer than 256 periods are begun by this value while an earlier one of it has not passed. Periods have numbers of a
    /// word's size: begun without end, they would come round to that of a reader that stays inside.
    unsafe fn grace(&self) -> Self::Grace<'_>;
}

/// How often a writer looks again where nothing better than spinning is known.
const PATIENCE: usize = if cfg!(loom) { 8 } else { 10_000 };

/// The name of a period that could not be started, and so never passes.
pub const NEVER: usize = usize::MAX;

/// The writer's side of a domain.
pub trait Grace {
    /// Publishes per grace period. Where a period interrupts every core, it should be many; what they replaced waits.
    const BATCH: usize = crate::registry::BATCH;

    /// Publishes that a node list without holders keeps its bytes for, for callers who keep pointers past their guard.
    const KEEP_PUBLISHES: usize = crate::list::KEEP_PUBLISHES;

    /// Starts a grace period and names it. Names grow, and may begin anew at 0. [`NEVER`] when one could not be started: ask again later.
    fn begin(&mut self) -> usize;

    /// Whether the period has passed. Never waits.
    fn passed(&mut self, period: usize) -> bool;

    /// Lets time pass while a writer at its limit waits for readers; `attempt` counts from 0. Returns whether it may try
    /// again.
    fn pause(&mut self, attempt: usize) -> bool {
        crate::primitive::spin_loop();
        attempt < PATIENCE
    }

    /// Whether no reader is inside and the calling thread is the only one that could be: then everything retired before
    /// this call may be reused at once. A domain that cannot tell answers false.
    fn alone(&mut self) -> bool {
        false
    }
}
