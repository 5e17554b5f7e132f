//! The default domain, on crossbeam-epoch.
//!
//! A grace period is one deferred closure that names itself as completed: two words, no destructor of anyone else's.
//! crossbeam runs it when every participant pinned at the time has unpinned, or repinned, twice. Opening a session
//! (`pin`) is lock-free, not wait-free: every 128th pin collects, which may run the closures of others.
//!
//! A held session repins only when a writer has asked since it last did (`asked`): else each question costs one load.
//! And then it fences, which crossbeam's own `repin` does not. Without the fence the root may be loaded before the global
//! epoch is read, or while this thread's own advance of that epoch is still on its way to memory (a pin that collects
//! may advance): the root is then older than the epoch that protects it, and is reused while it is read. `tests/loom`
//! has both, and finds the plain `repin` wanting.
//!
//! | line | order | pairs with | protects |
//! |---|---|---|---|
//! | `refresh`: fence after `repin` | SeqCst | crossbeam's fences in `pin`, `push_bag`, `try_advance` | epoch store against root load |
//! | `passed`: the closure's max | AcqRel | `passed`: load, Acquire | reads before reuse |
//! | `asked` | Relaxed | itself | nothing: seen late, a period passes late |

use alloc::sync::Arc;

use crossbeam_epoch::{Collector, Guard, LocalHandle};

use super::{Domain, Grace};
use crate::primitive::{AtomicUsize, Ordering, fence};

/// Readers tracked by a crossbeam-epoch collector of our own.
#[derive(Debug)]
pub struct Crossbeam {
    collector: Collector,
    asked: Asked,
}

/// How often writers have asked readers to repin. On lines of its own: every question of every session reads it.
#[derive(Debug)]
#[repr(align(128))]
struct Asked(AtomicUsize);

impl Asked {
    fn ask(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Crossbeam {
    /// An empty domain. Allocates.
    pub fn new() -> Crossbeam {
        Crossbeam { collector: Collector::new(), asked: Asked(AtomicUsize::new(0)) }
    }

    /// The collector, for a model that lacks something.
    #[cfg(loom)]
    #[doc(hidden)]
    pub fn collector(&self) -> &Collector {
        &self.collector
    }
}

impl Default for Crossbeam {
    fn default() -> Self {
        Crossbeam::new()
    }
}

/// A reader's participant.
#[derive(Debug)]
pub struct Local<'d> {
    handle: LocalHandle,
    asked: &'d Asked,
}

/// A reader inside.
#[derive(Debug)]
pub struct Pinned<'d> {
    guard: Guard,
    asked: &'d Asked,
    /// What `asked` said before the last pin or repin.
    answered: usize,
}

/// The writer's participant and what it has seen completed.
#[derive(Debug)]
pub struct Periods<'d> {
    handle: LocalHandle,
    asked: &'d Asked,
    begun: usize,
    /// The latest period that has passed. Stored by whichever thread runs the closure (Release), read by the writer
    /// (Acquire): what readers of older versions did happens before the writer reuses their memory.
    passed: Arc<AtomicUsize>,
}

// SAFETY: crossbeam-epoch runs a deferred closure only after every participant that was pinned when it was deferred has
// unpinned or repinned. A pin, and a repin here, issues a SeqCst fence before the reader's next load, so that one that
// comes later loads a root at least as new as any stored before; a guard that is not repinned stays what it was.
unsafe impl Domain for Crossbeam {
    type Local<'d> = Local<'d>;
    type Guard<'l> = Pinned<'l>;
    type Grace<'d> = Periods<'d>;

    fn join(&self) -> Option<Local<'_>> {
        Some(Local { handle: self.collector.register(), asked: &self.asked })
    }

    #[inline]
    fn enter<'l>(local: &'l mut Local<'_>) -> Pinned<'l> {
        let answered = local.asked.0.load(Ordering::Relaxed);
        Pinned { guard: local.handle.pin(), asked: local.asked, answered }
    }

    #[inline(always)]
    fn refresh(pinned: &mut Pinned<'_>) {
        let asked = pinned.asked.0.load(Ordering::Relaxed);
        if asked != pinned.answered {
            repin(pinned, asked);
        }
    }

    unsafe fn grace(&self) -> Periods<'_> {
        Periods {
            handle: self.collector.register(),
            asked: &self.asked,
            begun: 0,
            passed: Arc::new(AtomicUsize::new(0)),
        }
    }
}

/// A few times per grace period. Wait-free too.
#[cold]
fn repin(pinned: &mut Pinned<'_>, asked: usize) {
    pinned.answered = asked;
    pinned.guard.repin();
    fence(Ordering::SeqCst);
}

impl Grace for Periods<'_> {
    fn begin(&mut self) -> usize {
        self.begun += 1;
        let (period, passed) = (self.begun, Arc::clone(&self.passed));
        let guard = self.handle.pin();
        guard.defer(move || {
            passed.fetch_max(period, Ordering::AcqRel);
        });
        // Moves the closure out of the participant's own bag, and tries to advance.
        guard.flush();
        self.asked.ask();
        period
    }

    fn passed(&mut self, period: usize) -> bool {
        if self.passed.load(Ordering::Acquire) >= period {
            return true;
        }
        // The collector advances at most one epoch per attempt, and for that needs every session in the newest one; a
        // period takes two or three attempts.
        self.handle.pin().flush();
        self.asked.ask();
        self.passed.load(Ordering::Acquire) >= period
    }
}
