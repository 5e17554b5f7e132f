//! The owned areas of a space, in address order.
//!
//! In: areas that do not overlap. Out: neighbours, by binary search. Areas stand in blocks of `BLOCK` entries, as in the
//! leaves of a B+tree with one level of branches: a full block splits in halves, and a block that falls below half takes
//! an entry from a neighbour or becomes one with it. An edit therefore moves about a block's worth of entries, and the
//! memory is linear in the most areas there ever were ([`bytes_for`]). Each block knows the widest gap in front of one
//! of its areas, so that a search passes over blocks that are full. What never happens: an allocation while an area is
//! added ([`Areas::reserve`] made room) or taken, an empty block in use, a block given back before [`Areas::free`].

use super::{Area, NoRoom};
use crate::array::Array;
use crate::pool::Memory;

/// Areas per block. An edit reads and moves up to three blocks (64-bit: 1 KiB each), a search looks at one header per
/// block, and an empty space needs two blocks: 64 is the square root of 4,096 areas, where both costs are equal.
pub(crate) const BLOCK: usize = 64;

/// Areas in a row.
#[derive(Debug)]
struct Block {
    areas: Array<Area>,
    /// No gap in front of one of them is wider.
    widest: usize,
}

/// Sorted by start, disjoint.
#[derive(Debug)]
pub(super) struct Areas<const BLOCK: usize> {
    /// The first `used` hold areas, each at least half a block unless it is the only one. The others are empty: room for
    /// the next split.
    blocks: Array<Block>,
    used: usize,
}

/// A gap: in front of the area at this place, or behind all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    block: usize,
    index: usize,
}

/// Bytes for `areas` at a time, whatever order they come and go in, in whole `grains`.
#[cfg(all(target_has_atomic = "ptr", not(loom)))]
pub(crate) const fn bytes_for(areas: usize, grain: usize) -> usize {
    Areas::<BLOCK>::bytes_for(areas, grain)
}

impl<const BLOCK: usize> Areas<BLOCK> {
    const HALF: usize = BLOCK / 2;

    pub(super) const fn new() -> Self {
        const { assert!(BLOCK >= 2 && BLOCK.is_power_of_two(), "a row has room for a power of two") };
        Areas { blocks: Array::new(), used: 0 }
    }

    /// Makes room for one more: the next [`Areas::insert`] cannot fail.
    pub(super) fn reserve(&mut self, memory: &mut impl Memory) -> Result<(), NoRoom> {
        if self.used < self.blocks.len() {
            return Ok(());
        }
        self.blocks.reserve(1, memory).map_err(|_| NoRoom)?;
        let mut areas = Array::new();
        areas.reserve(BLOCK, memory).map_err(|_| NoRoom)?;
        self.blocks.push(Block { areas, widest: 0 }).map_err(|lost| {
            lost.areas.free(memory);
            NoRoom
        })
    }

    /// Bytes for `areas` at a time.
    ///
    /// Proof. While more than one block is in use, each holds at least `HALF` areas, so at most `areas / HALF` are in use,
    /// or one. [`Areas::reserve`] adds a block only when all are in use, so there is never more than one beyond the most
    /// that were in use. Blocks are not given back, so nothing else is ever cut from their memory. The row of blocks grows
    /// by doubling and does not shrink: each of its sizes is taken once.
    #[cfg(all(target_has_atomic = "ptr", not(loom)))]
    const fn bytes_for(areas: usize, grain: usize) -> usize {
        let in_use = areas / Self::HALF;
        let blocks = 1 + if in_use > 1 { in_use } else { 1 };
        let (mut rows, mut last, mut len) = (0, 0, 1);
        while len < 2 * blocks {
            let row = crate::array::bytes_for::<Block>(len, grain);
            // The smallest rows have one size.
            rows += if row == last { 0 } else { row };
            (last, len) = (row, 2 * len);
        }
        rows + blocks * crate::array::bytes_for::<Area>(BLOCK, grain)
    }

    /// Ends all of it.
    pub(super) fn free(mut self, memory: &mut impl Memory) {
        while let Some(block) = self.blocks.pop() {
            block.areas.free(memory);
        }
        self.blocks.free(memory);
    }

    /// The blocks in use.
    fn row(&self) -> &[Block] {
        self.blocks.get(..self.used).unwrap_or_default()
    }

    /// The gap that `address` lies in, or the one behind the area that it lies in.
    pub(super) fn gap_at(&self, address: usize) -> Gap {
        let begins = |block: &Block| block.areas.first().is_some_and(|area| area.start <= address);
        let block = self.row().partition_point(begins).saturating_sub(1);
        let index = self.row().get(block).map_or(0, |block| block.areas.partition_point(|area| area.start <= address));
        Gap { block, index }
    }

    /// The area in front of a gap.
    pub(super) fn before(&self, gap: Gap) -> Option<&Area> {
        match gap.index.checked_sub(1) {
            Some(index) => self.row().get(gap.block)?.areas.get(index),
            None => self.row().get(gap.block.checked_sub(1)?)?.areas.last(),
        }
    }

    /// The area behind a gap.
    pub(super) fn after(&self, gap: Gap) -> Option<&Area> {
        let own = self.row().get(gap.block).and_then(|block| block.areas.get(gap.index));
        own.or_else(|| self.row().get(gap.block + 1)?.areas.first())
    }

    /// The first gap from `first` on that is at least `total` wide and that `fits` likes; it is told the area in front
    /// and the area behind. `None`: none but the last, behind all.
    pub(super) fn search(&self, first: Gap, total: usize, fits: impl Fn(Option<&Area>, &Area) -> bool) -> Option<Gap> {
        let mut gap = first;
        for (number, block) in self.row().iter().enumerate().skip(first.block) {
            if number > first.block {
                gap = Gap { block: number, index: 0 };
                if block.widest < total {
                    continue;
                }
            }
            let mut front = self.before(gap);
            for area in block.areas.iter().skip(gap.index) {
                if fits(front, area) {
                    return Some(gap);
                }
                front = Some(area);
                gap.index += 1;
            }
        }
        None
    }

    /// The gap behind all areas.
    pub(super) fn end(&self) -> Gap {
        let block = self.used.saturating_sub(1);
        Gap { block, index: self.row().get(block).map_or(0, |block| block.areas.len()) }
    }

    /// Adds an area in a gap that holds it. [`Areas::reserve`] made room.
    pub(super) fn insert(&mut self, gap: Gap, area: Area) -> Result<(), NoRoom> {
        let full = self.row().get(gap.block).is_none_or(|block| block.areas.len() >= BLOCK);
        let (block, index) = if full { self.split(gap)? } else { (gap.block, gap.index) };
        let areas = &mut self.blocks.get_mut(block).ok_or(NoRoom)?.areas;
        areas.insert(index, area).map_err(|_| NoRoom)?;
        (gap.block..=block + 1).for_each(|block| self.measure(block));
        Ok(())
    }

    /// Makes room where there is no block, or a full one: its upper half becomes the next. Where the gap then is.
    fn split(&mut self, gap: Gap) -> Result<(usize, usize), NoRoom> {
        if self.used >= self.blocks.len() {
            return Err(NoRoom);
        }
        let mut upper = self.blocks.pop().ok_or(NoRoom)?;
        let mut at = gap.block;
        if let Some(lower) = self.blocks.get_mut(gap.block).filter(|block| !block.areas.is_empty()) {
            // Both have the same capacity.
            lower.areas.iter().skip(Self::HALF).all(|area| upper.areas.push(*area).is_ok());
            while lower.areas.len() > Self::HALF {
                lower.areas.pop();
            }
            at += 1;
        }
        // The row has room: a block was taken out of it.
        self.blocks.insert(at, upper).map_err(|_| NoRoom)?;
        self.used += 1;
        Ok(match gap.index.checked_sub(Self::HALF) {
            Some(index) if index > 0 => (at, index),
            _ => (gap.block, gap.index),
        })
    }

    /// Takes the area that starts at `start` out. The end of the one in front of it, if there is one.
    pub(super) fn remove(&mut self, start: usize) -> Option<Option<usize>> {
        let behind = self.gap_at(start);
        let own = Gap { block: behind.block, index: behind.index.checked_sub(1)? };
        let front = self.before(own).map(|area| area.last);
        let block = self.blocks.get_mut(own.block)?;
        if block.areas.get(own.index)?.start != start {
            return None;
        }
        block.areas.remove(own.index);
        if block.areas.len() < Self::HALF {
            self.refill(own.block);
        }
        (own.block.saturating_sub(1)..=own.block + 1).for_each(|block| self.measure(block));
        Some(front)
    }

    /// Mends a block that fell below half: joins it with a neighbour where one block holds both, else takes an entry.
    fn refill(&mut self, block: usize) {
        if self.used <= 1 {
            // The only block may hold any number but none.
            self.used = self.row().iter().filter(|block| !block.areas.is_empty()).count();
            return;
        }
        let lower = block.saturating_sub(1);
        let Ok([low, high]) = self.blocks.get_disjoint_mut([lower, lower + 1]) else { return };
        if low.areas.len() + high.areas.len() > BLOCK {
            let moved = if lower == block { high.areas.remove(0) } else { low.areas.pop() };
            let (to, position) = if lower == block { (low, Self::HALF - 1) } else { (high, 0) };
            if let Some(area) = moved {
                // It has room, being below half.
                let _ = to.areas.insert(position, area);
            }
            return;
        }
        high.areas.iter().all(|area| low.areas.push(*area).is_ok());
        while high.areas.pop().is_some() {}
        if let Some(empty) = self.blocks.remove(lower + 1) {
            // The row has room: it was just taken out.
            let _ = self.blocks.push(empty);
            self.used -= 1;
        }
    }

    /// The first area, to move its start forward.
    pub(super) fn first_mut(&mut self) -> Option<&mut Area> {
        self.blocks.first_mut()?.areas.first_mut()
    }

    /// Finds a block's widest gap again.
    fn measure(&mut self, block: usize) {
        let mut front = self.before(Gap { block, index: 0 }).map_or(0, |area| area.last);
        let Some(block) = self.blocks.get_mut(block) else { return };
        block.widest = 0;
        for area in block.areas.iter() {
            block.widest = block.widest.max(area.start.saturating_sub(front));
            front = area.last;
        }
    }

    #[cfg(all(test, feature = "alloc"))]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Area> {
        self.row().iter().flat_map(|block| block.areas.iter())
    }
}

#[cfg(all(test, feature = "alloc"))]
mod tests;
