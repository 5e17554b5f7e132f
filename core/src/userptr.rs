//! The second index: registered host memory, whose intervals may overlap, nest and share a base.
//!
//! Sorted by (address, size). Beside each child a branch keeps how far any interval below it reaches, so that a
//! *stab* ("which interval holds this address?") finds its answer, or that there is none, in one descent down the
//! boundary and at most one more: O(log n) whatever overlaps what.
//!
//! The order among several that hold an address, which callers rely on: if any *starts at* it, the smallest of these;
//! else the greatest start, and of those the greatest size.

use crate::pool::{Chain, Pool};
use crate::record::Record;
use crate::tree::edit::{Limbo, Nodes};
use crate::tree::node::{Branch, Key, NodePtr, Reach};
use crate::tree::search::{FANOUT, rank_lt};
use crate::tree::{LAST_KEY, Order, View};

/// By (userptr, size).
#[derive(Clone, Copy, Debug)]
pub(crate) enum ByUserptr {}

impl Order for ByUserptr {
    type Beside = Reach;

    fn branches(nodes: &mut Nodes) -> &mut Pool<Branch<Reach>> {
        &mut nodes.reaching
    }

    fn limbo(limbo: &mut Limbo) -> &mut Chain<Branch<Reach>> {
        &mut limbo.reaching
    }

    fn key(record: &Record) -> Key {
        Key { address: record.cpu, size: record.size }
    }

    fn end(record: &Record) -> usize {
        end(record)
    }
}

/// One past the last byte; the manager registers nothing that wraps.
#[inline(always)]
fn end(record: &Record) -> usize {
    record.cpu.saturating_add(record.size)
}

impl<'s> View<'s, ByUserptr> {
    /// The interval that holds `address`, by the order above. Wait-free: at most two nodes per level, twice.
    #[inline(always)]
    pub(crate) fn stab(self, address: usize) -> Option<&'s Record> {
        let (node, height) = self.top()?;
        self.stab_below(node, height, address.min(LAST_KEY))
    }

    /// Down the boundary: the last child that has a key below `address`. Everything left of it is below `address`
    /// whole; the first key right of it may be `address` itself.
    #[inline]
    fn stab_below(self, mut node: NodePtr, height: usize, address: usize) -> Option<&'s Record> {
        let mut starts_here = None;
        let mut reaches = None;
        let mut level = height;
        while level > 0 {
            level -= 1;
            let branch = self.branch(node);
            let below = rank_lt(&branch.keys, address);
            if branch.keys.get(below) == Some(&address) {
                starts_here = Some((branch.children[below & (FANOUT - 1)], level));
            }
            let Some(boundary) = below.checked_sub(1) else { return self.answer(starts_here, reaches, address) };
            if let Some(left) = rightmost(&branch.beside.ends, boundary, address) {
                reaches = Some((branch.children[left & (FANOUT - 1)], level));
            }
            if branch.beside.ends[boundary & (FANOUT - 1)] <= address {
                return self.answer(starts_here, reaches, address);
            }
            node = branch.children[boundary & (FANOUT - 1)];
        }
        let leaf = self.leaf(node);
        let below = rank_lt(&leaf.keys, address);
        if leaf.keys.get(below) == Some(&address) {
            return leaf.records.get(below);
        }
        if starts_here.is_none()
            && let Some(found) = leaf.records.iter().take(below).rev().find(|record| end(record) > address)
        {
            return Some(found);
        }
        self.answer(starts_here, reaches, address)
    }

    /// The two ways left: the smallest interval that starts at `address` right of the boundary, else the last one left
    /// of it that reaches over `address`, which the ends promised.
    #[inline]
    fn answer(
        self,
        starts_here: Option<(NodePtr, usize)>,
        reaches: Option<(NodePtr, usize)>,
        address: usize,
    ) -> Option<&'s Record> {
        if let Some((node, height)) = starts_here {
            return self.first(node, height);
        }
        let (mut node, height) = reaches?;
        for _ in 0..height {
            let branch = self.branch(node);
            node = *branch.children.get(rightmost(&branch.beside.ends, FANOUT, address)?)?;
        }
        self.leaf(node).used().iter().rev().find(|record| end(record) > address)
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
}

/// The last of the first `count` children that reaches beyond `address`. Unused ends are 0.
#[inline(always)]
fn rightmost(ends: &[usize; FANOUT], count: usize, address: usize) -> Option<usize> {
    ends.iter().take(count).rposition(|end| *end > address)
}
