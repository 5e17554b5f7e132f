//! The one place that readers touch: all contexts' roots and all threads' slots, in memory that a fork wipes.
//!
//! In a forked child this memory is zero, and zero *means* "not open": no root, no lock held, no slot taken, whatever
//! the parent's threads were doing at that instant. So a query needs no fork check: the null root is it. Everything
//! else of a context (its manager, driver, counts) lies outside and is abandoned by the child, never freed.
//!
//! What must hold for that: every byte of `Shared` is zero when new. `tests` below check it.

use std::sync::atomic::{AtomicU32, Ordering, compiler_fence, fence};

use hsakmt_core::epoch::slots::{Barrier, Slots};
use hsakmt_core::internals::Crowd;
use hsakmt_core::registry::Registry;
use rustix::thread::{MembarrierCommand, MembarrierQuery, membarrier, membarrier_query};

use crate::lock::Lock;
use crate::thread::{Own, Threads};

/// Contexts a process can have: the primary and the secondary ones.
pub(crate) const CONTEXTS: usize = 64;

/// Threads with a slot of their own. Further ones are counted ([`crate::thread`]).
pub const SLOTS: usize = if cfg!(test) { 8 } else { 2048 };

/// A context's part of the wiped memory. Two cache lines: what readers read, what writers write.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Shelf {
    pub(crate) registry: Registry<Threads>,
    /// Taken by whoever writes, for the thread [`crate::thread::me`].
    pub(crate) lock: Lock,
    /// 1 once this process (not its parent) has put a state beside the shelf.
    pub(crate) live: AtomicU32,
    /// Not 0 while a secondary context has this shelf: a number of its own. Taken by whoever opens it, and given back by
    /// whoever really closes it, under the lock; so a caller that is late never ends the context that came after.
    pub(crate) taken: AtomicU32,
}

/// All of the wiped memory.
#[derive(Debug)]
#[repr(C, align(4096))]
pub(crate) struct Shared {
    pub(crate) shelves: [Shelf; CONTEXTS],
    pub(crate) slots: Slots<SLOTS, Membarrier, Own>,
    /// Readers that found no slot.
    pub(crate) crowd: Crowd,
    /// 1 while a thread gives slots of ended threads back.
    pub(crate) freeing: AtomicU32,
    /// The number of this process, from the first [`Shared::prepare`] on.
    pub(crate) process: AtomicU32,
    /// 1 once this process has closed what a parent had open; `parting` is taken to do it.
    pub(crate) parted: AtomicU32,
    pub(crate) parting: Lock,
    /// Taken to read or change the topology snapshots ([`crate::snapshots`]).
    pub(crate) snapshots: Lock,
    /// 1 once the kernel wipes this memory at fork.
    wiping: AtomicU32,
}

pub(crate) static SHARED: Shared = Shared {
    shelves: [const {
        Shelf {
            registry: Registry::with_domain(Threads::new()),
            lock: Lock::new(),
            live: AtomicU32::new(0),
            taken: AtomicU32::new(0),
        }
    }; CONTEXTS],
    slots: Slots::new(Membarrier { registered: AtomicU32::new(0) }),
    crowd: Crowd::new(),
    freeing: AtomicU32::new(0),
    process: AtomicU32::new(0),
    parted: AtomicU32::new(0),
    parting: Lock::new(),
    snapshots: Lock::new(),
    wiping: AtomicU32::new(0),
};

// Each context is a group of the slots, and one more number means all of them.
const _: () = assert!(CONTEXTS < (1 << Membarrier::GROUP_BITS) - 1);

impl Shared {
    /// Which context has the shelf that `address` lies in.
    pub(crate) fn index_of(&self, address: usize) -> usize {
        (address - self.shelves.as_ptr().addr()) / size_of::<Shelf>()
    }

    /// Whether [`Shared::prepare`] has run in this process. Without it no context has ever been open here.
    pub(crate) fn is_prepared(&self) -> bool {
        self.wiping.load(Ordering::Acquire) != 0
    }

    /// Asks the kernel to wipe this memory at fork and to run its barrier on request. Called before any lock or slot in
    /// it is taken, by any thread; cheap to repeat, and harmless when two do it at once.
    pub(crate) fn prepare(&'static self) {
        if self.wiping.load(Ordering::Acquire) == 0 {
            self.slots.barrier().register();
            self.process.store(std::process::id(), Ordering::Relaxed);
            let start = std::ptr::from_ref(self).cast_mut().cast();
            // SAFETY: the range is this static, whole pages by its alignment. The advice changes nothing here; what it
            // does in a child is this module's design.
            let wiped = unsafe { libc::madvise(start, size_of::<Shared>(), libc::MADV_WIPEONFORK) } == 0;
            if !wiped {
                // SAFETY: the handler is a function of this library, which is never unloaded (linked `nodelete`).
                unsafe { libc::pthread_atfork(None, None, Some(wipe)) };
            }
            self.wiping.store(1, Ordering::Release);
        }
    }
}

/// What the kernel does at fork, for a kernel that cannot.
extern "C" fn wipe() {
    let start = (&raw const SHARED).cast_mut().cast::<u8>();
    // SAFETY: runs in a forked child before anything else of this library, with one thread; zero is the fresh state of
    // all of it (this module's rule), and all of it is interior mutable.
    unsafe { start.write_bytes(0, size_of::<Shared>()) };
}

/// The kernel's membarrier where it has one, else fences.
#[derive(Debug)]
pub struct Membarrier {
    /// 0 until some thread has asked the kernel, then [`PROMISED`] or [`REFUSED`], for as long as the process lives.
    registered: AtomicU32,
}

const PROMISED: u32 = 1;
const REFUSED: u32 = 2;

impl Membarrier {
    /// Whether the kernel has promised; it does by the first [`Shared::prepare`] of a process, or never.
    pub(crate) fn is_registered(&self) -> bool {
        self.registered.load(Ordering::Acquire) == PROMISED
    }

    fn register(&self) {
        if self.registered.load(Ordering::Relaxed) != 0 {
            return;
        }
        let wanted = MembarrierQuery::PRIVATE_EXPEDITED | MembarrierQuery::REGISTER_PRIVATE_EXPEDITED;
        let offered = membarrier_query().contains(wanted);
        self.decide(offered && membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok());
    }

    /// The first answer counts, and every thread waits for one before it has a slot or a lock: seccomp
    /// filters can differ per thread, and readers and writers must use one result.
    fn decide(&self, promised: bool) {
        let answer = if promised { PROMISED } else { REFUSED };
        let _ = self.registered.compare_exchange(0, answer, Ordering::Release, Ordering::Relaxed);
    }
}

// SAFETY: promised, `heavy` runs a full barrier on every thread of the process (membarrier(2), PRIVATE_EXPEDITED), so
// the reader's half need only keep the compiler from reordering; refused, both halves are SeqCst fences. All threads go
// by one answer (`decide`), which they have before they come here (`Shared::prepare`). `false` when the kernel refuses
// what it promised.
unsafe impl Barrier for Membarrier {
    const GROUP_BITS: u32 = 7;

    #[inline(always)]
    fn light(&self) {
        if self.registered.load(Ordering::Relaxed) == PROMISED {
            compiler_fence(Ordering::SeqCst);
        } else {
            light_without_membarrier();
        }
    }

    fn heavy(&self) -> bool {
        if self.is_registered() {
            return membarrier(MembarrierCommand::PrivateExpedited).is_ok();
        }
        fence(Ordering::SeqCst);
        true
    }
}

/// What a read pays on a kernel without membarrier.
#[cold]
#[inline(never)]
fn light_without_membarrier() {
    fence(Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_fresh() {
        fn bytes<T>(value: &T) -> Vec<u8> {
            let start = std::ptr::from_ref(value).cast::<u8>();
            // SAFETY: reads the bytes of a live value; the types checked here have no padding that matters to equality
            // with zero, since they are made by const constructors into zeroed storage of their own.
            (0..size_of::<T>()).map(|at| unsafe { start.wrapping_add(at).read_volatile() }).collect()
        }
        static LOCK: Lock = Lock::new();
        static REGISTRY: Registry<Threads> = Registry::with_domain(Threads::new());
        static DOMAIN: Slots<2, Membarrier, Own> = Slots::new(Membarrier { registered: AtomicU32::new(0) });
        static CROWD: Crowd = Crowd::new();
        assert!(bytes(&LOCK).iter().all(|byte| *byte == 0));
        assert!(bytes(&REGISTRY).iter().all(|byte| *byte == 0));
        assert!(bytes(&CROWD).iter().all(|byte| *byte == 0));
        assert!(bytes(&DOMAIN).iter().all(|byte| *byte == 0));
    }

    #[test]
    fn the_kernels_first_answer_counts() {
        for (first, later) in [(true, false), (false, true)] {
            let membarrier = Membarrier { registered: AtomicU32::new(0) };
            membarrier.decide(first);
            membarrier.decide(later);
            assert_eq!(membarrier.is_registered(), first);
        }
    }

    #[test]
    fn each_registry_is_in_the_group_of_its_context() {
        for (index, shelf) in SHARED.shelves.iter().enumerate() {
            assert_eq!(SHARED.index_of(std::ptr::from_ref(shelf.registry.domain()).addr()), index);
        }
    }

    #[test]
    fn whole_pages() {
        assert_eq!(size_of::<Shared>() % 4096, 0);
        assert_eq!((&raw const SHARED).addr() % 4096, 0);
    }
}
