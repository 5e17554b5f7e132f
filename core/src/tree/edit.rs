//! The write side of the tree: old root + change -> new root, sharing all but one path.
//!
//! Nothing here can fail half way: [`Nodes::reserve`] first makes sure that the pools hold what the edits may need at
//! worst, then an edit only takes from them. Nodes that the new version no longer uses are retired, not freed: they
//! go into a [`Limbo`] that waits for its grace period.
//!
//! Edits recurse, once per level. What a level needs only after its child is done stands in functions of its own, which are
//! not inlined: a frame of the recursion is then some hundred bytes, and a caller may have little stack.
//!
//! A full node splits in halves, or, at the outer edges, so that ascending and descending insertion leaves full nodes
//! behind. A node that shrank is joined with a neighbour when both fit in one ([`join`]).

mod join;

use core::ptr::NonNull;

use super::node::{Beside, Branch, Child, Key, Leaf, NodePtr, Reach};
use super::search::FANOUT;
use super::size::{LEAVES_PER_EDIT, branches_to_join, leaves_to_join, worst};
use super::{MAX_HEIGHT, Order, Root};
use crate::error::{Error, Result};
use crate::pool::{Chain, Memory, Pool};
use crate::record::Record;

/// Tree nodes at hand.
pub(crate) struct Nodes {
    pub(crate) leaves: Pool<Leaf>,
    pub(crate) branches: Pool<Branch<()>>,
    pub(crate) reaching: Pool<Branch<Reach>>,
}

/// Tree nodes that the newest version does not use, but an older one may.
pub(crate) struct Limbo {
    pub(crate) leaves: Chain<Leaf>,
    pub(crate) branches: Chain<Branch<()>>,
    pub(crate) reaching: Chain<Branch<Reach>>,
}

impl Limbo {
    pub(crate) const fn new() -> Limbo {
        Limbo { leaves: Chain::new(), branches: Chain::new(), reaching: Chain::new() }
    }

    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.leaves.bytes() + self.branches.bytes() + self.reaching.bytes()
    }
}

impl Nodes {
    pub(crate) const fn new() -> Nodes {
        Nodes { leaves: Pool::new(), branches: Pool::new(), reaching: Pool::new() }
    }

    /// Makes `edits` edits impossible to fail: of address trees at most `height` high, and of the userptr tree, whose
    /// height is `userptrs`.
    pub(crate) fn reserve(
        &mut self,
        edits: usize,
        height: usize,
        userptrs: usize,
        memory: &mut impl Memory,
    ) -> Result<()> {
        self.leaves.reserve(edits.saturating_mul(LEAVES_PER_EDIT), memory)?;
        self.branches.reserve(worst(edits, height), memory)?;
        self.reaching.reserve(worst(edits, userptrs), memory)
    }

    /// The same for one replacement or removal, which takes one node per level, and gives back as many: what an insertion
    /// leaves over is enough.
    pub(crate) fn reserve_in_place(&mut self, height: usize, userptrs: usize, memory: &mut impl Memory) -> Result<()> {
        self.leaves.reserve(2, memory)?;
        self.branches.reserve(height, memory)?;
        self.reaching.reserve(userptrs, memory)
    }

    /// Room for all that a removal joins, too. Without it a removal works, and leaves more nodes behind.
    pub(crate) fn reserve_to_join(&mut self, height: usize, userptrs: usize, memory: &mut impl Memory) -> Result<()> {
        self.leaves.reserve(leaves_to_join(height, userptrs), memory)?;
        self.branches.reserve(branches_to_join(height), memory)?;
        self.reaching.reserve(branches_to_join(userptrs), memory)
    }

    /// Whether [`Nodes::reserve_to_join`] has nothing to do.
    pub(crate) fn hold_to_join(&self, height: usize, userptrs: usize) -> bool {
        self.leaves.available() >= leaves_to_join(height, userptrs)
            && self.branches.available() >= branches_to_join(height)
            && self.reaching.available() >= branches_to_join(userptrs)
    }

    /// Whether [`Nodes::reserve`] has nothing to do.
    #[inline]
    pub(crate) fn hold(&self, edits: usize, height: usize, userptrs: usize) -> bool {
        self.leaves.available() >= edits.saturating_mul(LEAVES_PER_EDIT)
            && self.branches.available() >= worst(edits, height)
            && self.reaching.available() >= worst(edits, userptrs)
    }
}

/// One edit of one tree.
pub(crate) struct Edit<'w> {
    pub(crate) nodes: &'w mut Nodes,
    pub(crate) limbo: &'w mut Limbo,
}

/// A subtree after an insertion: itself, and what split off to its right.
type Grown = (Child, Option<Child>);

/// Whether a subtree is at the left or right edge of its tree.
#[derive(Clone, Copy)]
struct Edge {
    left: bool,
    right: bool,
}

impl Edit<'_> {
    /// `root` with `record`, whose key is not in it. Needs [`Nodes::reserve`].
    pub(crate) fn insert<O: Order>(&mut self, root: Root<O>, record: &Record) -> Result<Root<O>> {
        let Some((node, height)) = root.top() else {
            return Ok(Root::new(self.new_leaf::<O>([record].into_iter())?.node, 0));
        };
        if height >= MAX_HEIGHT {
            return Err(Error::NoMemory);
        }
        match self.insert_at::<O>(node, height, record, Edge { left: true, right: true })? {
            (whole, None) => Ok(Root::new(whole.node, height)),
            (left, Some(right)) => Ok(Root::new(self.new_branch::<O>([left, right].into_iter())?.node, height + 1)),
        }
    }

    /// `root` with the record of the same key replaced.
    pub(crate) fn replace<O: Order>(&mut self, root: Root<O>, record: &Record) -> Result<Root<O>> {
        let (node, height) = root.top().ok_or(Error::Failed)?;
        Ok(Root::new(self.replace_at::<O>(node, height, record)?, height))
    }

    /// `root` without the record at `key`.
    pub(crate) fn remove<O: Order>(&mut self, root: Root<O>, key: Key) -> Result<Root<O>> {
        let (node, height) = root.top().ok_or(Error::Failed)?;
        // One leaf is kept for the other tree.
        let joins = self.nodes.leaves.available() > leaves_to_join(height, 0) - 1
            && O::branches(self.nodes).available() >= branches_to_join(height);
        let Some(top) = self.remove_at::<O>(node, height, key, joins)? else { return Ok(Root::EMPTY) };
        let (mut node, mut height) = (top.node, height);
        while height > 0 {
            let branch = branch_of::<O::Beside>(node);
            let (Some(only), None) = (branch.child(0), branch.child(1)) else { break };
            // A top with one child is of no use.
            self.retire_branch::<O>(node);
            (node, height) = (only.node, height - 1);
        }
        Ok(Root::new(node, height))
    }

    fn insert_at<O: Order>(&mut self, node: NodePtr, height: usize, record: &Record, edge: Edge) -> Result<Grown> {
        if height == 0 {
            return self.insert_leaf::<O>(node, record, edge);
        }
        let old = branch_of::<O::Beside>(node);
        let position = old.position(O::key(record));
        let child = old.child(position).ok_or(Error::Failed)?;
        let below = Edge { left: edge.left && position == 0, right: edge.right && position + 1 == old.len() };
        let grown = self.insert_at::<O>(child.node, height - 1, record, below)?;
        self.insert_above::<O>(node, position, grown, edge)
    }

    /// The branch `node` after an insertion below its child at `position`.
    #[inline(never)]
    fn insert_above<O: Order>(&mut self, node: NodePtr, position: usize, grown: Grown, edge: Edge) -> Result<Grown> {
        let old = branch_of::<O::Beside>(node);
        let (child, split) = grown;
        let before = old.used().take(position);
        let after = old.used().skip(position + 1);
        let children = before.chain([child]).chain(split).chain(after);
        self.retire_branch::<O>(node);
        let total = old.len() + usize::from(split.is_some());
        if total <= FANOUT {
            return Ok((self.new_branch::<O>(children)?, None));
        }
        let cut = cut(position + 1, total, edge);
        let left = self.new_branch::<O>(children.clone().take(cut))?;
        let right = self.new_branch::<O>(children.skip(cut))?;
        Ok((left, Some(right)))
    }

    #[inline(never)]
    fn insert_leaf<O: Order>(&mut self, node: NodePtr, record: &Record, edge: Edge) -> Result<Grown> {
        let old = leaf_of(node);
        let position = old.position(O::key(record), O::key);
        let before = old.used().iter().take(position);
        let after = old.used().iter().skip(position);
        let records = before.chain([record]).chain(after);
        let total = old.len() + 1;
        let grown = if total <= FANOUT {
            (self.new_leaf::<O>(records)?, None)
        } else {
            let cut = cut(position, total, edge);
            let left = self.new_leaf::<O>(records.clone().take(cut))?;
            (left, Some(self.new_leaf::<O>(records.skip(cut))?))
        };
        self.retire_leaf(node);
        Ok(grown)
    }

    fn replace_at<O: Order>(&mut self, node: NodePtr, height: usize, record: &Record) -> Result<NodePtr> {
        let key = O::key(record);
        if height == 0 {
            let old = leaf_of(node);
            let position = found::<O>(old, key)?;
            let mut leaf = Fresh(self.nodes.leaves.copy(old).ok_or(Error::NoMemory)?);
            if let Some(slot) = leaf.get().records.get_mut(position) {
                *slot = *record;
            }
            self.retire_leaf(node);
            return Ok(NodePtr::from_leaf(leaf.0));
        }
        // Neither keys nor ends change, so what the branch knows of the child stays true.
        let old = branch_of::<O::Beside>(node);
        let position = old.position(key);
        let child = old.children.get(position).ok_or(Error::Failed)?;
        let child = self.replace_at::<O>(*child, height - 1, record)?;
        let mut branch = Fresh(O::branches(self.nodes).copy(old).ok_or(Error::NoMemory)?);
        if let Some(slot) = branch.get().children.get_mut(position) {
            *slot = child;
        }
        self.retire_branch::<O>(node);
        Ok(NodePtr::from_branch(branch.0))
    }

    /// The subtree without `key`; `None` when nothing is left of it. `joins`: there are nodes for [`Edit::combine`].
    fn remove_at<O: Order>(&mut self, node: NodePtr, height: usize, key: Key, joins: bool) -> Result<Option<Child>> {
        if height == 0 {
            return self.remove_from_leaf::<O>(node, key);
        }
        let old = branch_of::<O::Beside>(node);
        let position = old.position(key);
        let child = old.child(position).ok_or(Error::Failed)?;
        let child = self.remove_at::<O>(child.node, height - 1, key, joins)?;
        let place = match child {
            None => (position, None, position + 1),
            Some(child) => self.join::<O>(old, position, child, height - 1, joins)?,
        };
        self.remove_above::<O>(node, place)
    }

    #[inline(never)]
    fn remove_from_leaf<O: Order>(&mut self, node: NodePtr, key: Key) -> Result<Option<Child>> {
        let old = leaf_of(node);
        let position = found::<O>(old, key)?;
        let rest = old.used().iter().take(position).chain(old.used().iter().skip(position + 1));
        let left = if old.len() > 1 { Some(self.new_leaf::<O>(rest)?) } else { None };
        self.retire_leaf(node);
        Ok(left)
    }

    /// The branch `node` with one child, or none, in place of those from one position to before another.
    #[inline(never)]
    fn remove_above<O: Order>(&mut self, node: NodePtr, place: join::Place) -> Result<Option<Child>> {
        let old = branch_of::<O::Beside>(node);
        let (from, joined, to) = place;
        let children = old.used().take(from).chain(joined).chain(old.used().skip(to));
        let rest = old.len() - (to - from) + usize::from(joined.is_some());
        let left = if rest > 0 { Some(self.new_branch::<O>(children)?) } else { None };
        self.retire_branch::<O>(node);
        Ok(left)
    }

    fn new_leaf<'a, O: Order>(&mut self, records: impl Iterator<Item = &'a Record>) -> Result<Child> {
        let mut leaf = Fresh(self.nodes.leaves.make(Leaf::EMPTY).ok_or(Error::NoMemory)?);
        leaf.get().fill(records, O::key);
        Ok(summary_of_leaf::<O>(leaf.0))
    }

    fn new_branch<O: Order>(&mut self, children: impl Iterator<Item = Child>) -> Result<Child> {
        let mut branch = Fresh(O::branches(self.nodes).make(Branch::EMPTY).ok_or(Error::NoMemory)?);
        branch.get().fill(children);
        Ok(summary_of_branch(branch.0))
    }

    fn retire_leaf(&mut self, node: NodePtr) {
        // SAFETY: the node came from the leaf pool, is in no chain (it was part of the old version until now, or made by
        // this edit), and the edit retires each node that it replaces once.
        unsafe { self.limbo.leaves.push(node.leaf()) };
    }

    fn retire_branch<O: Order>(&mut self, node: NodePtr) {
        // SAFETY: as in `retire_leaf`, for the pool of this order's branches.
        unsafe { O::limbo(self.limbo).push(node.branch()) };
    }
}

/// Where to cut `total` entries when the new one is at `position`: in halves, or at the new one if that is the tree's
/// very first or last.
fn cut(position: usize, total: usize, edge: Edge) -> usize {
    if edge.right && position + 1 == total {
        FANOUT
    } else if edge.left && position == 0 {
        1
    } else {
        total / 2
    }
}

/// Where in a leaf the record of exactly this key is.
fn found<O: Order>(leaf: &Leaf, key: Key) -> Result<usize> {
    let position = leaf.position(key, O::key);
    // No key is that of an unused place.
    let there = leaf.keys.get(position) == Some(&key.address);
    let record = leaf.records.get(position).filter(|record| there && O::key(record) == key);
    record.map(|_| position).ok_or(Error::Failed)
}

/// A node made by the edit under way: the writer's alone.
struct Fresh<T>(NonNull<T>);

impl<T> Fresh<T> {
    fn get(&mut self) -> &mut T {
        // SAFETY: made by this edit and not yet part of any version: nobody else has the pointer in use.
        unsafe { self.0.as_mut() }
    }
}

/// A leaf of the old version, or of this edit.
fn leaf_of<'a>(node: NodePtr) -> &'a Leaf {
    // SAFETY: nodes of the newest version and of this edit are initialised; the writer, the only one that could
    // change or reuse them, holds no `&mut` to one while it looks at it. The borrow never leaves this module.
    unsafe { node.leaf().as_ref() }
}

/// A branch of the old version, or of this edit.
fn branch_of<'a, B>(node: NodePtr) -> &'a Branch<B> {
    // SAFETY: as in `leaf_of`.
    unsafe { node.branch().as_ref() }
}

fn summary_of_leaf<O: Order>(leaf: NonNull<Leaf>) -> Child {
    let node = NodePtr::from_leaf(leaf);
    let used = leaf_of(node).used();
    let end = used.iter().map(O::end).max().unwrap_or(0);
    Child { node, key: used.first().map_or(Key { address: 0, size: 0 }, O::key), end }
}

fn summary_of_branch<B: Beside>(branch: NonNull<Branch<B>>) -> Child {
    let node = NodePtr::from_branch(branch);
    let used = branch_of::<B>(node);
    let end = used.used().map(|child| child.end).max().unwrap_or(0);
    Child { node, key: used.child(0).map_or(Key { address: 0, size: 0 }, |child| child.key), end }
}
