//! The owned areas of a space, in address order.
//!
//! In: areas that do not overlap. Out: neighbours, by binary search. They stand in blocks of bounded size, so that
//! adding or taking one moves a block's worth of entries, however many there are; and each block knows the widest gap
//! in front of one of its areas, so that a search passes over blocks that are full. What never happens: an allocation
//! while an area is added ([`Areas::reserve`] made room) or taken, and an empty block.

use super::{Area, NoRoom};
use crate::array::Array;
use crate::pool::Memory;

/// Areas per block.
const BLOCK: usize = if cfg!(test) || usize::BITS < 64 { 4 } else { 256 };

/// Some areas in a row; never none.
#[derive(Debug)]
struct Block {
    areas: Array<Area>,
    /// No gap in front of one of them is wider.
    widest: usize,
}

/// Sorted by start, disjoint.
#[derive(Debug)]
pub(super) struct Areas {
    blocks: Array<Block>,
    /// Taken up when a block is full; what an emptied block leaves.
    spare: Array<Area>,
}

/// A gap: in front of the area at this place, or behind all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    block: usize,
    index: usize,
}

/// Bytes for `areas` at a time, and for every row of blocks on the way there, in whole `grains`. At worst all blocks but
/// one have a single area, and that one had to be full to make the last.
#[cfg(all(target_has_atomic = "ptr", not(loom)))]
pub(crate) const fn bytes_for(areas: usize, grain: usize) -> usize {
    let blocks = 1 + if areas <= BLOCK { 1 } else { areas - BLOCK + 2 };
    let (mut rows, mut len) = (0, 1);
    while len < 2 * blocks {
        rows += crate::array::bytes_for::<Block>(len, grain);
        len *= 2;
    }
    rows + blocks * crate::array::bytes_for::<Area>(BLOCK, grain)
}

impl Areas {
    pub(super) const fn new() -> Areas {
        Areas { blocks: Array::new(), spare: Array::new() }
    }

    /// Makes room for one more: the next [`Areas::insert`] cannot fail.
    pub(super) fn reserve(&mut self, memory: &mut impl Memory) -> Result<(), NoRoom> {
        self.blocks.reserve(1, memory).map_err(|_| NoRoom)?;
        self.spare.reserve(BLOCK, memory).map_err(|_| NoRoom)
    }

    /// Ends all of it.
    pub(super) fn free(mut self, memory: &mut impl Memory) {
        while let Some(block) = self.blocks.pop() {
            block.areas.free(memory);
        }
        self.blocks.free(memory);
        self.spare.free(memory);
    }

    /// The gap that `address` lies in, or the one behind the area that it lies in.
    pub(super) fn gap_at(&self, address: usize) -> Gap {
        let begins = |block: &Block| block.areas.first().is_some_and(|area| area.start <= address);
        let block = self.blocks.partition_point(begins).saturating_sub(1);
        let index = self.blocks.get(block).map_or(0, |block| block.areas.partition_point(|area| area.start <= address));
        Gap { block, index }
    }

    /// The area in front of a gap.
    pub(super) fn before(&self, gap: Gap) -> Option<&Area> {
        match gap.index.checked_sub(1) {
            Some(index) => self.blocks.get(gap.block)?.areas.get(index),
            None => self.blocks.get(gap.block.checked_sub(1)?)?.areas.last(),
        }
    }

    /// The area behind a gap.
    pub(super) fn after(&self, gap: Gap) -> Option<&Area> {
        let own = self.blocks.get(gap.block).and_then(|block| block.areas.get(gap.index));
        own.or_else(|| self.blocks.get(gap.block + 1)?.areas.first())
    }

    /// The first gap from `first` on that is at least `total` wide and that `fits` likes; it is told the area in front
    /// and the area behind. `None`: none but the last, behind all.
    pub(super) fn search(&self, first: Gap, total: usize, fits: impl Fn(Option<&Area>, &Area) -> bool) -> Option<Gap> {
        let mut gap = first;
        for (number, block) in self.blocks.iter().enumerate().skip(first.block) {
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
        let block = self.blocks.len().saturating_sub(1);
        Gap { block, index: self.blocks.get(block).map_or(0, |block| block.areas.len()) }
    }

    /// Adds an area in a gap that holds it. [`Areas::reserve`] made room.
    pub(super) fn insert(&mut self, gap: Gap, area: Area) -> Result<(), NoRoom> {
        let full = self.blocks.get(gap.block).is_none_or(|block| block.areas.len() >= BLOCK);
        let (block, index) = if full { self.split(gap)? } else { (gap.block, gap.index) };
        let areas = &mut self.blocks.get_mut(block).ok_or(NoRoom)?.areas;
        areas.insert(index, area).map_err(|_| NoRoom)?;
        self.measure(gap.block);
        self.measure(gap.block + 1);
        Ok(())
    }

    /// Makes room where there is no block, or a full one: its upper half becomes the next. Where the gap then is.
    fn split(&mut self, gap: Gap) -> Result<(usize, usize), NoRoom> {
        let mut upper = Block { areas: core::mem::replace(&mut self.spare, Array::new()), widest: 0 };
        let mut at = gap.block;
        if let Some(lower) = self.blocks.get_mut(gap.block) {
            // Both have the same capacity.
            lower.areas.iter().skip(BLOCK / 2).all(|area| upper.areas.push(*area).is_ok());
            while lower.areas.len() > BLOCK / 2 {
                lower.areas.pop();
            }
            at += 1;
        }
        if let Err(lost) = self.blocks.insert(at, upper) {
            self.spare = lost.areas;
            return Err(NoRoom);
        }
        Ok(match gap.index.checked_sub(BLOCK / 2) {
            Some(index) if index > 0 => (at, index),
            _ => (gap.block, gap.index),
        })
    }

    /// Takes the area that starts at `start` out. The end of the one in front of it, if there is one.
    pub(super) fn remove(&mut self, start: usize, memory: &mut impl Memory) -> Option<Option<usize>> {
        let behind = self.gap_at(start);
        let own = Gap { block: behind.block, index: behind.index.checked_sub(1)? };
        let front = self.before(own).map(|area| area.last);
        let block = self.blocks.get_mut(own.block)?;
        if block.areas.get(own.index)?.start != start {
            return None;
        }
        block.areas.remove(own.index);
        if block.areas.is_empty()
            && let Some(empty) = self.blocks.remove(own.block)
        {
            core::mem::replace(&mut self.spare, empty.areas).free(memory);
        }
        self.measure(own.block);
        self.measure(own.block + 1);
        Some(front)
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
        self.blocks.iter().flat_map(|block| block.areas.iter())
    }
}
