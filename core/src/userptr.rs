//! The second index: registered host memory, whose intervals may overlap, nest and share a base.
//!
//! Sorted by (address, size). Beside each child a branch keeps the greatest end of any interval below it, so that a *stab*
//! ("which interval holds this address?") finds its answer, or that there is none, in one descent down the boundary and
//! at most one more: O(log n), however intervals overlap.
//!
//! The order among several that hold an address, which callers rely on: if any *starts at* it, the smallest of these;
//! else the greatest start, and of those the greatest size.

use crate::nodes::{Nodes, RetiredNodes};
use crate::pool::{Chain, Pool};
use crate::record::Record;
use crate::tree::node::{Branch, ChildPtr, Intervals, Key};
use crate::tree::search::{FANOUT, rank_lt};
use crate::tree::{LAST_KEY, Order, View, below};

/// By (userptr, size).
#[derive(Clone, Copy, Debug)]
pub(crate) enum ByUserptr {}

impl Order for ByUserptr {
    type Beside = Intervals;

    fn branches(nodes: &mut Nodes) -> &mut Pool<Branch<Intervals>> {
        &mut nodes.intervals
    }

    fn retired(retired: &mut RetiredNodes) -> &mut Chain<Branch<Intervals>> {
        &mut retired.intervals
    }

    fn key(record: &Record) -> Key {
        Key { address: record.cpu, size: record.size }
    }

    fn end(record: &Record) -> usize {
        // One past the last byte; the manager registers nothing that wraps.
        record.cpu.saturating_add(record.size)
    }
}

impl<'s> View<'s, ByUserptr> {
    /// As [`View::stab`], faster where intervals do not overlap. Wait-free: at most three nodes per level, and mostly one.
    #[inline(always)]
    pub(crate) fn stab_first(self, address: usize) -> Option<&'s Record> {
        self.last_up_to(address.min(LAST_KEY)).or_else(|| self.stab(address))
    }

    /// The interval with the greatest key at or below `address`, if it is the answer by itself: it holds `address`, and starts
    /// below it or alone at it.
    #[inline(always)]
    fn last_up_to(self, address: usize) -> Option<&'s Record> {
        let (branch, last) = self.lowest_up_to(address)?;
        // Of those that start at `address` the smallest is the answer. The one before may be in another node.
        let alone = branch.keys[last] != address || (last > 0 && branch.keys[below(last)] != address);
        (alone && branch.beside.max_ends[last] > address).then(|| self.record(branch.children[last]))
    }

    /// The interval that holds `address`, by the order above. Wait-free: at most two nodes per level.
    ///
    /// Goes down the boundary: the last child that has a key below `address`. Everything left of it is below `address` whole;
    /// the first key right of it may be `address` itself.
    #[inline]
    #[cold]
    pub(crate) fn stab(self, address: usize) -> Option<&'s Record> {
        let (mut node, height) = self.top()?;
        let address = address.min(LAST_KEY);
        let mut starts_here = None;
        let mut holds = None;
        for level in (0..=height).rev() {
            let branch = self.branch(node);
            let below = rank_lt(&branch.keys, address);
            if branch.keys.get(below) == Some(&address) {
                starts_here = Some((branch.children[below & (FANOUT - 1)], level));
            }
            let Some(boundary) = below.checked_sub(1) else { break };
            // At the bottom the boundary is an interval like those left of it.
            let candidates = if level == 0 { below } else { boundary };
            if let Some(left) = last_beyond(&branch.beside.max_ends, candidates, address) {
                holds = Some((branch.children[left & (FANOUT - 1)], level));
            }
            if branch.beside.max_ends[boundary & (FANOUT - 1)] <= address {
                break;
            }
            node = branch.children[boundary & (FANOUT - 1)];
        }
        self.answer(starts_here, holds, address)
    }

    /// The smallest interval that starts at `address`, else the last one below a node that ends beyond it.
    #[inline]
    fn answer(
        self,
        starts_here: Option<(ChildPtr, usize)>,
        holds: Option<(ChildPtr, usize)>,
        address: usize,
    ) -> Option<&'s Record> {
        if let Some((node, levels)) = starts_here {
            return Some(self.first(node, levels));
        }
        let (mut node, levels) = holds?;
        for _ in 0..levels {
            let branch = self.branch(node);
            node = *branch.children.get(last_beyond(&branch.beside.max_ends, FANOUT, address)?)?;
        }
        Some(self.record(node))
    }

    /// The smallest interval that starts at `address`.
    pub(crate) fn smallest_at(self, address: usize) -> Option<&'s Record> {
        self.ceil(address).filter(|record| record.cpu == address)
    }

    /// The only interval that starts at `address`; `None` when there are several.
    pub(crate) fn only_at(self, address: usize) -> Option<&'s Record> {
        let smallest = self.smallest_at(address)?;
        // Keys of equal address stand together, so the greatest is the last at or below `address`.
        let greatest = self.floor(address)?;
        (smallest.start == greatest.start).then_some(smallest)
    }

    /// The greatest end of the intervals that start at or below `address`; 0 for none. Wait-free: one node per level.
    pub(crate) fn max_end_up_to(self, address: usize) -> usize {
        let address = address.min(LAST_KEY);
        let Some((mut node, height)) = self.top() else { return 0 };
        let mut greatest = 0;
        for level in (0..=height).rev() {
            let branch = self.branch(node);
            let up_to = rank_lt(&branch.keys, address.saturating_add(1));
            let whole = if level == 0 { up_to } else { up_to.saturating_sub(1) };
            greatest = branch.beside.max_ends.iter().take(whole).fold(greatest, |greatest, end| greatest.max(*end));
            let Some(boundary) = up_to.checked_sub(1) else { break };
            node = branch.children[boundary & (FANOUT - 1)];
        }
        greatest
    }
}

/// The last of the first `count` children that ends beyond `address`. Unused ends are 0.
#[inline(always)]
fn last_beyond(ends: &[usize; FANOUT], count: usize, address: usize) -> Option<usize> {
    ends.iter().take(count).rposition(|end| *end > address)
}
