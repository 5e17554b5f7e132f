//! The topologies that the process goes by: the snapshot that stands, and the one that each context was set up with. And each
//! open context's connection ([`crate::connection`]).
//!
//! In: a snapshot or a connection. Out: a counted reference to one. All under one lock, which is held for as long as a count
//! takes and never while another lock is waited for. It lies in the memory that a fork wipes; the pointers do not, so a
//! forked child keeps its parent's snapshots. What never happens: a thread-local with a destructor (C entries come here), a snapshot that is
//! freed under the lock, or a pointer that is not null and not counted.
//!
//! | atomic | store | load | what holds |
//! |---|---|---|---|
//! | `SLOTS`, `CONNECTIONS` | under the lock, or by the only thread of a child: Relaxed | under the lock: Relaxed | the lock orders them |
//! | `VERSION` | after a slot, under the lock: Release | [`version`]: Acquire | who reads a new version and then takes the lock sees the new slot |

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use hsakmt_core::error::{Error, Result};
use hsakmt_kfd::topology::Topology;

use crate::connection::Connection;
use crate::lock::Held;
use crate::shared::{CONTEXTS, SHARED};
use crate::thread;

/// The snapshot that stands, then one slot for each context. Null, or from [`Arc::into_raw`]: the slot counts.
static SLOTS: [AtomicPtr<Topology>; CONTEXTS + 1] = [const { AtomicPtr::new(ptr::null_mut()) }; CONTEXTS + 1];

/// The connection of each context. Null, or from [`Arc::into_raw`]: the slot counts.
static CONNECTIONS: [AtomicPtr<Connection>; CONTEXTS] = [const { AtomicPtr::new(ptr::null_mut()) }; CONTEXTS];

/// How often the snapshot that stands was replaced.
static VERSION: AtomicUsize = AtomicUsize::new(0);

/// The slot of the snapshot that stands.
const CURRENT: usize = 0;

/// The table, locked.
pub(crate) struct Table {
    _held: Held,
}

/// Runs `work` on the locked table. What it returns is dropped after the lock is given back, a replaced snapshot too.
/// [`Error::Failed`] for a signal handler or an allocator hook that interrupted just this.
pub(crate) fn with<T>(work: impl FnOnce(&mut Table) -> T) -> Result<T> {
    // A fork must never find a lock taken that it does not wipe.
    SHARED.prepare();
    // No other lock is taken while this one is held.
    let held = SHARED.snapshots.take(thread::me().get(), || true).ok_or(Error::Failed)?;
    Ok(work(&mut Table { _held: held }))
}

/// Counts replacements of the snapshot that stands. Wait-free.
pub(crate) fn version() -> usize {
    VERSION.load(Ordering::Acquire)
}

impl Table {
    /// The snapshot that stands.
    pub(crate) fn current(&self) -> Option<Arc<Topology>> {
        self.get(CURRENT)
    }

    /// What the context `index` was set up with.
    pub(crate) fn set_up_with(&self, index: usize) -> Option<Arc<Topology>> {
        self.get(index + 1)
    }

    /// Replaces the snapshot that stands; the one that stood, for the caller to drop.
    pub(crate) fn set_current(&mut self, topology: Option<Arc<Topology>>) -> Option<Arc<Topology>> {
        let old = self.replace(CURRENT, topology);
        VERSION.fetch_add(1, Ordering::Release);
        old
    }

    /// Notes what the context `index` was set up with; the one before, for the caller to drop.
    pub(crate) fn note_set_up(&mut self, index: usize, topology: Option<Arc<Topology>>) -> Option<Arc<Topology>> {
        self.replace(index + 1, topology)
    }

    /// The connection of the context `index`, while it is open.
    pub(crate) fn connection(&self, index: usize) -> Option<Arc<Connection>> {
        self.counted(CONNECTIONS.get(index)?)
    }

    /// Replaces the connection of the context `index`; the one before, for the caller to drop, or to forget in a child of the
    /// process that made it.
    pub(crate) fn set_connection(
        &mut self,
        index: usize,
        connection: Option<Arc<Connection>>,
    ) -> Option<Arc<Connection>> {
        self.exchange(CONNECTIONS.get(index)?, connection)
    }

    fn get(&self, slot: usize) -> Option<Arc<Topology>> {
        self.counted(SLOTS.get(slot)?)
    }

    fn replace(&mut self, slot: usize, topology: Option<Arc<Topology>>) -> Option<Arc<Topology>> {
        self.exchange(SLOTS.get(slot)?, topology)
    }

    /// `slot` is one of this module's.
    fn counted<T>(&self, slot: &'static AtomicPtr<T>) -> Option<Arc<T>> {
        let pointer = slot.load(Ordering::Relaxed);
        if pointer.is_null() {
            return None;
        }
        // SAFETY: not null, so it came from `Arc::into_raw` and the slot counts; the lock is held, so the slot stays.
        unsafe { Arc::increment_strong_count(pointer) };
        // SAFETY: the count that was added a line ago is this value's.
        Some(unsafe { Arc::from_raw(pointer) })
    }

    /// `slot` is one of this module's.
    fn exchange<T>(&mut self, slot: &'static AtomicPtr<T>, value: Option<Arc<T>>) -> Option<Arc<T>> {
        let new = value.map_or(ptr::null_mut(), |value| Arc::into_raw(value).cast_mut());
        let old = slot.load(Ordering::Relaxed);
        slot.store(new, Ordering::Relaxed);
        // SAFETY: if not null it came from `Arc::into_raw`; the slot's count passes to this value. The lock is held, so no
        // other thread took it out.
        (!old.is_null()).then(|| unsafe { Arc::from_raw(old) })
    }
}
