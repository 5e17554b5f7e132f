//! The owned areas of a space, in address order.
//!
//! In: areas that do not overlap. Out: neighbours, by binary search. They stand in blocks of bounded size, so that
//! adding or taking one moves a block's worth of entries, however many there are. What never happens: an allocation
//! while an area is added ([`Areas::reserve`] made room) or taken, and an empty block.

use alloc::vec::Vec;

use super::{Area, NoRoom};

/// Areas per block.
const BLOCK: usize = if cfg!(test) { 4 } else { 256 };

/// Sorted by start, disjoint.
#[derive(Debug)]
pub(super) struct Areas {
    blocks: Vec<Vec<Area>>,
    /// Taken up when a block is full.
    spare: Vec<Area>,
}

/// A gap: in front of the area at this place, or behind all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    block: usize,
    index: usize,
}

impl Areas {
    pub(super) const fn new() -> Areas {
        Areas { blocks: Vec::new(), spare: Vec::new() }
    }

    /// Makes room for one more: the next [`Areas::insert`] cannot fail.
    pub(super) fn reserve(&mut self) -> Result<(), NoRoom> {
        self.blocks.try_reserve(1).map_err(|_| NoRoom)?;
        self.spare.try_reserve_exact(BLOCK).map_err(|_| NoRoom)
    }

    /// The gap that `address` lies in, or the one behind the area that it lies in.
    pub(super) fn gap_at(&self, address: usize) -> Gap {
        let starts_later = |block: &Vec<Area>| block.first().is_none_or(|area| area.start > address);
        let block = self.blocks.partition_point(|block| !starts_later(block)).saturating_sub(1);
        let index = self.blocks.get(block).map_or(0, |block| block.partition_point(|area| area.start <= address));
        Gap { block, index }
    }

    /// The area in front of a gap.
    pub(super) fn before(&self, gap: Gap) -> Option<&Area> {
        match gap.index.checked_sub(1) {
            Some(index) => self.blocks.get(gap.block)?.get(index),
            None => self.blocks.get(gap.block.checked_sub(1)?)?.last(),
        }
    }

    /// The areas behind a gap, each with the gap in front of it.
    pub(super) fn behind(&self, gap: Gap) -> impl Iterator<Item = (Gap, &Area)> {
        self.blocks.iter().enumerate().skip(gap.block).flat_map(move |(block, areas)| {
            let first = if block == gap.block { gap.index } else { 0 };
            areas.iter().enumerate().skip(first).map(move |(index, area)| (Gap { block, index }, area))
        })
    }

    /// The gap behind all areas.
    pub(super) fn end(&self) -> Gap {
        let block = self.blocks.len().saturating_sub(1);
        Gap { block, index: self.blocks.get(block).map_or(0, Vec::len) }
    }

    /// Adds an area in a gap that holds it.
    pub(super) fn insert(&mut self, gap: Gap, area: Area) -> Result<(), NoRoom> {
        self.reserve()?;
        let Some(block) = self.blocks.get_mut(gap.block) else {
            let mut first = core::mem::take(&mut self.spare);
            first.push(area);
            self.blocks.push(first);
            return Ok(());
        };
        if block.len() < BLOCK {
            block.insert(gap.index, area);
            return Ok(());
        }
        let mut upper = core::mem::take(&mut self.spare);
        upper.extend(block.drain(BLOCK / 2..));
        let (half, index) = match gap.index.checked_sub(BLOCK / 2) {
            Some(index) if index > 0 => (&mut upper, index),
            _ => (block, gap.index),
        };
        half.insert(index, area);
        self.blocks.insert(gap.block + 1, upper);
        Ok(())
    }

    /// Takes the area that starts at `start` out. The end of the one in front of it, if there is one.
    pub(super) fn remove(&mut self, start: usize) -> Option<Option<usize>> {
        let behind = self.gap_at(start);
        let own = Gap { block: behind.block, index: behind.index.checked_sub(1)? };
        let block = self.blocks.get(own.block)?;
        if block.get(own.index)?.start != start {
            return None;
        }
        let front = self.before(own).map(|area| area.last);
        let block = self.blocks.get_mut(own.block)?;
        block.remove(own.index);
        if block.is_empty() {
            self.blocks.remove(own.block);
        }
        Some(front)
    }

    /// The first area, to move its start forward.
    pub(super) fn first_mut(&mut self) -> Option<&mut Area> {
        self.blocks.first_mut()?.first_mut()
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Area> {
        self.blocks.iter().flatten()
    }
}
