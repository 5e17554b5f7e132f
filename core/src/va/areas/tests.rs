//! Blocks stay half full and memory stays within [`bytes_for`], with small blocks and with the constant that ships.

use std::boxed::Box;
use std::collections::BTreeSet;
use std::vec::Vec;

use super::*;
use crate::pool::Heap;
use crate::region::{Blocks, GRAIN, Region};

/// Most areas at a time.
const MOST: usize = 1000;

/// Distance of two places; an area takes one byte less.
const STEP: usize = 16;

fn area(place: usize) -> Area {
    Area { start: (place + 1) * STEP, last: (place + 2) * STEP - 2 }
}

/// Areas at places, in a memory that holds `MOST` of them by [`bytes_for`], beside a set of the same places.
struct Pair<const BLOCK: usize> {
    areas: Areas<BLOCK>,
    places: BTreeSet<usize>,
    memory: Blocks,
    checked: bool,
}

impl<const BLOCK: usize> Pair<BLOCK> {
    fn insert(&mut self, place: usize) {
        if self.places.len() < MOST && self.places.insert(place) {
            self.areas.reserve(&mut self.memory).expect("bytes_for covers as many");
            let gap = self.areas.gap_at(area(place).start);
            self.areas.insert(gap, area(place)).unwrap();
            self.check();
        }
    }

    fn remove(&mut self, place: usize) {
        if self.places.remove(&place) {
            let front = self.places.range(..place).next_back().map(|place| area(*place).last);
            assert_eq!(self.areas.remove(area(place).start), Some(front));
            self.check();
        }
        assert_eq!(self.areas.remove(area(place).start), None);
    }

    fn check(&self) {
        let lengths: Vec<usize> = self.areas.row().iter().map(|block| block.areas.len()).collect();
        let least = if lengths.len() > 1 { BLOCK / 2 } else { 1 };
        assert!(lengths.iter().all(|len| (least..=BLOCK).contains(len)), "{lengths:?}");
        assert_eq!(lengths.iter().sum::<usize>(), self.places.len());
        if self.checked {
            assert!(self.areas.iter().copied().eq(self.places.iter().map(|place| area(*place))));
            let mut front = 0;
            for block in self.areas.row() {
                let mut widest = 0;
                for area in block.areas.iter() {
                    widest = widest.max(area.start - front);
                    front = area.last;
                }
                assert_eq!(block.widest, widest);
            }
        }
    }
}

/// Runs `steps` where no block is given in vain: the memory has [`bytes_for`] and not a grain more.
fn within_bytes_for<const BLOCK: usize, const BYTES: usize>(checked: bool, steps: impl FnOnce(&mut Pair<BLOCK>)) {
    assert_eq!(BYTES, Areas::<BLOCK>::bytes_for(MOST, GRAIN));
    let region: &'static Region<BYTES> = Box::leak(Box::new(Region::new()));
    let memory = region.blocks().unwrap();
    let mut pair = Pair { areas: Areas::new(), places: BTreeSet::new(), memory, checked };
    steps(&mut pair);
    pair.areas.free(&mut pair.memory);
    assert_eq!(pair.memory.left(), BYTES, "all of it came back");
}

/// Fills in several orders, and thins full blocks out so that as little as possible stays in as many as possible.
fn fill_and_thin<const BLOCK: usize>(pair: &mut Pair<BLOCK>) {
    let fillings: [fn(usize) -> usize; 4] = [
        |n| 2 * n,
        |n| 2 * (MOST - 1 - n),
        |n| 2 * (n * 367 % MOST),
        |n| if n % 2 == 0 { n } else { 2 * MOST - 1 - n },
    ];
    for fill in fillings {
        for keep in [BLOCK / 2, BLOCK / 2 + 1, BLOCK - 1, BLOCK, BLOCK + 1, MOST] {
            (0..MOST).for_each(|n| pair.insert(fill(n)));
            // Between the areas that stay, others come: splits beside thin blocks.
            (0..MOST).filter(|n| n % keep.max(2) != 0).for_each(|n| pair.remove(fill(n)));
            (0..MOST).for_each(|n| pair.insert(2 * n + 1));
            (0..MOST).rev().for_each(|n| pair.remove(2 * n + 1));
            (0..MOST).for_each(|n| pair.remove(fill(n)));
        }
    }
}

/// Comes and goes at random, mostly coming, mostly going, in turns.
fn churn<const BLOCK: usize>(pair: &mut Pair<BLOCK>) {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for step in 0..12_000 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let place = (random >> 8) as usize % (MOST * 3 / 2);
        let comes = random % 8 < if step / 3000 % 2 == 0 { 6 } else { 2 };
        if comes { pair.insert(place) } else { pair.remove(place) }
    }
}

const SMALL: usize = Areas::<4>::bytes_for(MOST, GRAIN);
const SHIPPED: usize = Areas::<BLOCK>::bytes_for(MOST, GRAIN);

#[test]
fn small_blocks_stay_half_full_in_their_bytes() {
    within_bytes_for::<4, SMALL>(false, fill_and_thin);
    within_bytes_for::<4, SMALL>(true, churn);
}

#[test]
fn blocks_as_shipped_stay_half_full_in_their_bytes() {
    within_bytes_for::<BLOCK, SHIPPED>(false, fill_and_thin);
    within_bytes_for::<BLOCK, SHIPPED>(true, churn);
}

#[test]
fn bytes_are_linear() {
    let empty = 2 * BLOCK * size_of::<Area>();
    for areas in (0..1000).chain((1000..200_000).step_by(317)) {
        let bytes = Areas::<BLOCK>::bytes_for(areas, GRAIN);
        assert!(bytes <= 2 * empty + areas * size_of::<Area>() * 5 / 2, "{bytes} for {areas}");
    }
}

#[test]
fn without_memory_nothing_changes() {
    let mut areas = Areas::<4>::new();
    let gap = areas.gap_at(STEP);
    assert_eq!(areas.insert(gap, area(0)), Err(NoRoom), "no room was made");
    areas.reserve(&mut Heap).unwrap();
    areas.insert(gap, area(0)).unwrap();
    for place in 1..4 {
        areas.insert(areas.end(), area(place)).unwrap();
    }
    assert_eq!(areas.insert(areas.end(), area(4)), Err(NoRoom), "the block is full, and there is no other");
    assert_eq!(areas.iter().count(), 4);
    areas.free(&mut Heap);
}
