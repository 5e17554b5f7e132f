//! Memory that runs out: every verb when the registry's pools cannot grow.

use core::alloc::Layout;
use core::ptr::NonNull;
use std::cell::Cell;

use super::*;
use crate::error::Error;
use crate::pool::{Heap, Memory};

std::thread_local! {
    /// Whether this thread's [`Scarce`] has anything left.
    static EMPTY: Cell<bool> = const { Cell::new(false) };
}

/// The global allocator, until it is told to give nothing.
pub(super) struct Scarce;

// SAFETY: it gives what `Heap` gives, or nothing, and takes back only what it gave.
unsafe impl Memory for Scarce {
    fn take(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        if EMPTY.get() { None } else { Heap.take(layout) }
    }

    unsafe fn give(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: this method's contract is `Heap`'s: the block came from it with this layout.
        unsafe { Heap.give(block, layout) }
    }
}

/// Does `work` while there is nothing left.
pub(super) fn dry<T>(work: impl FnOnce() -> T) -> T {
    EMPTY.set(true);
    let outcome = work();
    EMPTY.set(false);
    outcome
}

/// Repeats a verb with empty pools until one is refused: that one must say so and change nothing. With memory again it
/// works.
fn runs_dry(mut m: TestManager, mut verb: impl FnMut(&mut TestManager, usize) -> Result<()>) {
    for round in 0..3000 {
        let before = state(&m);
        EMPTY.set(true);
        let done = verb(&mut m, round);
        EMPTY.set(false);
        if done.is_err() {
            assert_eq!(done, Err(Error::NoMemory));
            assert_same(&before, &state(&m), "out of memory");
            check(&m);
            assert_eq!(verb(&mut m, round), Ok(()));
            check(&m);
            return;
        }
        m.driver.log.clear();
    }
    panic!("the pools never ran dry");
}

#[test]
fn making_objects() {
    for bench in [Bench::new(), Bench::reserved()] {
        for flags in [VRAM, MemFlags::HOST_ACCESS, VRAM | MemFlags::NO_ADDRESS, VRAM | MemFlags::ONLY_ADDRESS] {
            runs_dry(bench.start(), |m, _| m.allocate(G1, P, 0, flags, 0).map(drop));
        }
        runs_dry(bench.start(), |m, round| m.register(range(A + round * P, P)));
    }
    runs_dry(Bench::apu(true).start(), |m, _| m.allocate(CPU, P, 0, MemFlags::empty(), 0).map(drop));
    runs_dry(Bench::apu(true).start(), |m, _| m.allocate(CPU, P, 0, VRAM, 0).map(drop));
}

/// `round` as a list of nodes nobody has asked for before.
fn fresh_list(round: usize) -> Vec<NodeId> {
    (0..12).map(|bit| if round >> bit & 1 == 0 { G1 } else { G2 }).collect()
}

#[test]
fn node_lists() {
    let mut m = Bench::new().start();
    let objects: Vec<usize> = (0..600).map(|_| vram(&mut m, G1, P)).collect();
    runs_dry(m, |m, round| m.map_nodes(objects[round], P, &fresh_list(round)).map(drop));
    runs_dry(Bench::new().start(), |m, round| m.register_to_nodes(range(A + round * P, P), &fresh_list(round)));
}

#[test]
fn set_up() {
    let bench = Bench::new();
    let mut m = bench.open();
    EMPTY.set(true);
    let done = bench.set_up(&mut m);
    EMPTY.set(false);
    if done.is_err() {
        assert_eq!(done, Err(Error::NoMemory));
        assert!(m.driver.kernel.reserved.is_empty() && !m.is_set_up());
    }
    assert_eq!(bench.set_up(&mut m), Ok(()));
    check(&m);
}

#[test]
fn the_last_close_needs_no_memory() {
    let bench = Bench::new();
    let mut m = furnished(&bench);
    for _ in 0..200 {
        vram(&mut m, G1, P);
    }
    EMPTY.set(true);
    m.tear_down();
    EMPTY.set(false);
    assert!(m.driver.kernel.bos.is_empty() && m.driver.kernel.reserved.is_empty());
    assert!(records(&m).is_empty());
}
