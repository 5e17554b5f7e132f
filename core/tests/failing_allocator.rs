//! The global allocator fails at the k-th allocation of a verb, for k = 1, 2, ... until the verb succeeds, over a long run
//! of the memory manager: each failure is [`Error::NoMemory`] and leaves everything as it was.
//!
//! All of the library's allocations are fallible, for it takes memory through [`Memory`] alone. crossbeam-epoch is not
//! the library: it allocates by itself, where failing means aborting (`Registry::new`, each `reader()`, each grace
//! period). So the run is on reader slots, which never allocate; the last test counts both.

#[path = "../examples/firmware/device.rs"]
mod device;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::NonNull;

use device::{Device, NODES};
use hsakmt_core::address::PageSize;
use hsakmt_core::driver::HostRange;
use hsakmt_core::epoch::Domain;
use hsakmt_core::epoch::slots::{Fences, Slots};
use hsakmt_core::error::{Error, Result};
use hsakmt_core::flags::MemFlags;
use hsakmt_core::manager::{Manager, Opened, Options};
use hsakmt_core::node::NodeId;
use hsakmt_core::pool::{Heap, Memory};
use hsakmt_core::registry::Registry;

std::thread_local! {
    /// Allocations of this thread until they fail; negative: never.
    static LEFT: Cell<i64> = const { Cell::new(-1) };
    /// Whether only that one fails, not those after it.
    static ONCE: Cell<bool> = const { Cell::new(false) };
    static FAILED: Cell<usize> = const { Cell::new(0) };
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
    static TAKEN: Cell<usize> = const { Cell::new(0) };
}

struct Countdown;

// SAFETY: all of it is the system allocator's, save for null, which says that there is no memory.
unsafe impl GlobalAlloc for Countdown {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get() + 1);
        let left = LEFT.get();
        if left > 0 {
            LEFT.set(left - 1);
        } else if left == 0 {
            FAILED.set(FAILED.get() + 1);
            if ONCE.get() {
                LEFT.set(-1);
            }
            return std::ptr::null_mut();
        }
        // SAFETY: this method's contract is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: every block is the system allocator's.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Countdown = Countdown;

/// Does `work` while the allocations after the first `k` fail. Whether one did, and what came of it.
fn failing<T>(k: usize, once: bool, work: impl FnOnce() -> T) -> (bool, T) {
    FAILED.set(0);
    ONCE.set(once);
    LEFT.set(k as i64);
    let outcome = work();
    LEFT.set(-1);
    (FAILED.get() > 0, outcome)
}

/// [`Heap`], counted.
struct Counted;

// SAFETY: it gives what `Heap` gives.
unsafe impl Memory for Counted {
    fn slots_per_block(&self, _: usize) -> usize {
        // Pools grow all the time.
        1
    }

    fn take(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        TAKEN.set(TAKEN.get() + 1);
        Heap.take(layout)
    }

    unsafe fn give(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: this method's contract is `Heap`'s.
        unsafe { Heap.give(block, layout) }
    }
}

type TestManager<'r, D> = Manager<'r, Device, D, Counted>;

/// Everything that a caller could tell from before.
fn state<D: Domain>(m: &mut TestManager<'_, D>) -> (Vec<String>, usize) {
    let all = m.writer().snapshot().iter().map(|info| format!("{info:?}")).collect();
    (all, m.driver().buffers())
}

/// Where device memory is asked for.
const FIRST: usize = 0x2_0000_0000;

/// Verbs at one place.
const PER_PLACE: usize = 9;

/// Verbs of a run; no place comes twice.
const VERBS: usize = 400 * PER_PLACE;

/// Host memory that is not there.
fn range(address: usize, size: usize) -> HostRange<'static> {
    // SAFETY: the made-up device reads and writes no memory.
    unsafe { HostRange::new(address, size) }
}

/// The `n`-th verb of the run: what exists is at known places.
fn verb<D: Domain>(m: &mut TestManager<'_, D>, n: usize) -> Result<()> {
    let place = n / PER_PLACE;
    let (address, host) = (FIRST + place * 0x10_0000, 0x5555_0000_0000 + place * 0x3000 + 7);
    let lists = [&[NodeId(1)][..], &[NodeId(2)], &[NodeId(1), NodeId(2)], &[NodeId(2), NodeId(1)]];
    match n % PER_PLACE {
        0 => m.allocate(NodeId(1), 0x4000, 0, MemFlags::NON_PAGED | MemFlags::FIXED_ADDRESS, address).map(drop),
        1 => m.map_nodes(address, 0x4000, lists[n % 4]).map(drop),
        2 => m.register_to_nodes(range(host, 0x1234), lists[place % 4]),
        3 => m.set_user_data(address, n),
        4 => m.map(host, 0x1234).map(drop),
        5 => m.unmap(address),
        6 if !place.is_multiple_of(3) => m.free(address),
        7 => m.unmap(host),
        8 if !place.is_multiple_of(4) => m.deregister(host),
        _ => m.set_user_data(host, n),
    }
}

fn start<'r, D: Domain>(registry: &'r Registry<D>) -> Result<TestManager<'r, D>> {
    let writer = registry.writer(PageSize::FOUR_KIB, Counted)?;
    let mut manager = Manager::new(Device::new(), writer, Opened::default())?;
    manager.set_up(&NODES, &Options::default())?;
    Ok(manager)
}

/// All verbs, each with its first allocation failing, then its second, ...; how many failed. A session that is held all
/// the time keeps what was replaced, so that nearly every verb needs memory.
fn run(once: bool, held: bool) -> usize {
    let registry = Registry::with_domain(Slots::<2, Fences>::new(Fences));
    let mut refused = 0;
    let mut m = (0..)
        .find_map(|k| {
            let (_, started) = failing(k, once, || start(&registry));
            refused += usize::from(started.is_err());
            started.map_err(|error| assert_eq!(error, Error::NoMemory)).ok()
        })
        .expect("with enough memory it starts");
    let mut reader = registry.readers().reader().expect("two places");
    let session = held.then(|| reader.session());
    for n in 0..VERBS {
        for k in 0.. {
            let before = state(&mut m);
            let (failed, outcome) = failing(k, once, || verb(&mut m, n));
            match outcome {
                Ok(()) => break,
                Err(error) if failed => {
                    assert_eq!(error, Error::NoMemory, "verb {n}, allocation {k}");
                    assert_eq!(before, state(&mut m), "verb {n}, allocation {k}");
                    refused += 1;
                }
                Err(error) => panic!("verb {n} with all its memory: {error:?}"),
            }
        }
    }
    drop(session);
    // Ending everything needs no memory at all.
    failing(0, false, || m.tear_down());
    assert_eq!(m.driver().buffers(), 0);
    refused
}

#[test]
fn a_verb_without_memory_changes_nothing() {
    let refused = run(false, true);
    assert!(refused > VERBS / 2, "only {refused} verbs were refused");
    run(false, false);
}

#[test]
fn a_verb_that_misses_one_block_changes_nothing_or_does_without() {
    run(true, true);
    run(true, false);
}

/// Allocations beside those through [`Memory`] while `work` runs.
fn beside<T>(work: impl FnOnce() -> T) -> usize {
    let before = (ALLOCATED.get(), TAKEN.get());
    let _kept = work();
    ALLOCATED.get() - before.0 - (TAKEN.get() - before.1)
}

#[test]
fn only_crossbeam_allocates_by_itself() {
    let registry = Registry::with_domain(Slots::<2, Fences>::new(Fences));
    let mut m = start(&registry).unwrap();
    let own = beside(|| {
        let mut reader = registry.readers().reader().unwrap();
        (0..VERBS).try_for_each(|n| verb(&mut m, n)).unwrap();
        reader.query_pointer(FIRST, |info| info.map(drop)).unwrap();
    });
    assert_eq!(own, 0, "reader slots");
    let mut made = None;
    assert!(beside(|| made = Some(Registry::new())) > 0, "a crossbeam registry");
    let registry = made.unwrap();
    assert!(beside(|| registry.readers().reader()) > 0, "a crossbeam reader");
}
