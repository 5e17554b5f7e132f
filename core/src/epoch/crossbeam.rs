//! The default domain, on crossbeam-epoch.
//!
//! A grace period is one deferred closure that names itself as completed: two words, no destructor of anyone else's.
//! crossbeam runs it when every participant pinned at the time has unpinned. Opening a session (`pin`) is lock-free,
//! not wait-free: every 128th pin collects, which may run the closures of others; a held session only repins, which
//! is two plain stores and a fence.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_epoch::{Collector, Guard, LocalHandle};

use super::{Domain, Grace};

/// Readers tracked by a crossbeam-epoch collector of our own.
#[derive(Debug)]
pub struct Crossbeam {
    collector: Collector,
}

impl Crossbeam {
    /// An empty domain. Allocates.
    pub fn new() -> Crossbeam {
        Crossbeam { collector: Collector::new() }
    }
}

impl Default for Crossbeam {
    fn default() -> Self {
        Crossbeam::new()
    }
}

/// A reader's participant.
#[derive(Debug)]
pub struct Local(LocalHandle);

/// The writer's participant and what it has seen completed.
#[derive(Debug)]
pub struct Periods {
    local: LocalHandle,
    begun: usize,
    /// The latest period that has passed. Stored by whichever thread runs the closure (Release), read by the writer
    /// (Acquire): what readers of older versions did happens before the writer reuses their memory.
    passed: Arc<AtomicUsize>,
}

// SAFETY: crossbeam-epoch runs a deferred closure only after every participant that was pinned when it was deferred has
// unpinned, and a pin issues a SeqCst fence before the reader's next load, so that one that pins later loads a root at
// least as new as any stored before.
unsafe impl Domain for Crossbeam {
    type Local<'d> = Local;
    type Guard<'l> = Guard;
    type Grace<'d> = Periods;

    fn join(&self) -> Option<Local> {
        Some(Local(self.collector.register()))
    }

    #[inline]
    fn enter(local: &mut Local) -> Guard {
        local.0.pin()
    }

    #[inline]
    fn refresh(guard: &mut Guard) {
        guard.repin();
    }

    fn grace(&self) -> Periods {
        Periods { local: self.collector.register(), begun: 0, passed: Arc::new(AtomicUsize::new(0)) }
    }
}

impl Grace for Periods {
    fn begin(&mut self) -> usize {
        self.begun += 1;
        let (period, passed) = (self.begun, Arc::clone(&self.passed));
        let guard = self.local.pin();
        guard.defer(move || {
            passed.fetch_max(period, Ordering::AcqRel);
        });
        // Moves the closure out of the participant's own bag, and tries to advance.
        guard.flush();
        period
    }

    fn passed(&mut self, period: usize) -> bool {
        if self.passed.load(Ordering::Acquire) >= period {
            return true;
        }
        // The collector advances at most one epoch per attempt; a period needs two or three.
        self.local.pin().flush();
        self.passed.load(Ordering::Acquire) >= period
    }
}
