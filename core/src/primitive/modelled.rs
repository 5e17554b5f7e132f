//! Loom's atomics, with orders that a model can weaken, and [`Watch`], which notices when memory is read and written
//! with nothing in between that puts one before the other.

#![allow(missing_docs, reason = "the names and meanings are core's")]

use core::cell::Cell;

use loom::sync::atomic as modelled;
pub use loom::{hint::spin_loop, sync::atomic::Ordering};

/// What a mutant leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Acquire on loads.
    Acquire,
    /// Release on stores.
    Release,
    /// Any order on what reads and writes at once.
    Both,
    /// Fences.
    Fences,
}

std::thread_local! {
    /// All threads of a model run on the thread that called it.
    static MISSING: Cell<Option<Missing>> = const { Cell::new(None) };
}

/// From here on the models of this thread lack something.
pub fn mutate(missing: Missing) {
    MISSING.set(Some(missing));
}

fn order(order: Ordering, kind: Missing) -> Ordering {
    if MISSING.get() == Some(kind) { Ordering::Relaxed } else { order }
}

/// As core's.
pub fn fence(order: Ordering) {
    if MISSING.get() != Some(Missing::Fences) {
        modelled::fence(order);
    }
}

/// As core's.
#[derive(Debug)]
pub struct AtomicUsize(modelled::AtomicUsize);

impl AtomicUsize {
    pub fn new(value: usize) -> AtomicUsize {
        AtomicUsize(modelled::AtomicUsize::new(value))
    }

    #[track_caller]
    pub fn load(&self, at: Ordering) -> usize {
        self.0.load(order(at, Missing::Acquire))
    }

    #[track_caller]
    pub fn store(&self, value: usize, at: Ordering) {
        self.0.store(value, order(at, Missing::Release));
    }

    #[track_caller]
    pub fn swap(&self, value: usize, at: Ordering) -> usize {
        self.0.swap(value, order(at, Missing::Both))
    }

    #[track_caller]
    pub fn fetch_add(&self, value: usize, at: Ordering) -> usize {
        self.0.fetch_add(value, order(at, Missing::Both))
    }

    #[track_caller]
    pub fn fetch_sub(&self, value: usize, at: Ordering) -> usize {
        self.0.fetch_sub(value, order(at, Missing::Both))
    }

    #[track_caller]
    pub fn fetch_max(&self, value: usize, at: Ordering) -> usize {
        self.0.fetch_max(value, order(at, Missing::Both))
    }

    #[track_caller]
    pub fn compare_exchange(&self, old: usize, new: usize, at: Ordering, else_at: Ordering) -> Result<usize, usize> {
        self.0.compare_exchange(old, new, order(at, Missing::Both), else_at)
    }
}

/// As core's.
#[derive(Debug)]
pub struct AtomicPtr<T>(modelled::AtomicPtr<T>);

impl<T> AtomicPtr<T> {
    pub fn new(value: *mut T) -> AtomicPtr<T> {
        AtomicPtr(modelled::AtomicPtr::new(value))
    }

    #[track_caller]
    pub fn load(&self, at: Ordering) -> *mut T {
        self.0.load(order(at, Missing::Acquire))
    }

    #[track_caller]
    pub fn store(&self, value: *mut T, at: Ordering) {
        self.0.store(value, order(at, Missing::Release));
    }
}

/// Stands beside memory and is told of each access. Loom panics when two of them, one a write, are not ordered, in
/// whichever order they happened to come.
#[derive(Debug)]
pub struct Watch(loom::cell::UnsafeCell<()>);

// SAFETY: there is nothing inside to share but loom's own record, and all threads of a model run on one thread of the
// system.
unsafe impl Sync for Watch {}

impl Default for Watch {
    fn default() -> Watch {
        Watch::new()
    }
}

impl Watch {
    pub fn new() -> Watch {
        Watch(loom::cell::UnsafeCell::new(()))
    }

    #[track_caller]
    pub fn read(&self) {
        self.0.with(|_| ());
    }

    #[track_caller]
    pub fn write(&self) {
        self.0.with_mut(|_| ());
    }
}
