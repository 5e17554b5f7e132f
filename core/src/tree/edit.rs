//! The write side of the tree: old root + change -> new root, sharing all but one path.
//!
//! Nothing here can fail half way: [`Needs`](crate::nodes::Needs) first makes sure that the pools hold what the edits may
//! need at worst, then an edit only takes from them. Nodes that the new version no longer uses are retired, not freed.
//!
//! Edits recurse, once per level. What a level needs only after its child is done stands in functions of its own, which are
//! not inlined: a frame of the recursion is then some hundred bytes, and a caller may have little stack.
//!
//! A full node splits in halves, or, at the outer edges, so that ascending and descending insertion leaves full nodes
//! behind. A node that shrank is joined with a neighbour when both fit in one ([`join`]).

mod join;

use core::ptr::NonNull;

use super::node::{Beside, Branch, Child, ChildPtr, Key};
use super::search::FANOUT;
use super::size::branches_to_join;
use super::{MAX_HEIGHT, Order, Root};
use crate::error::{Error, Result};
use crate::nodes::{Nodes, RetiredNodes};
use crate::record::Record;

/// One edit of one tree.
pub(crate) struct Edit<'w> {
    pub(crate) nodes: &'w mut Nodes,
    pub(crate) retired: &'w mut RetiredNodes,
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
    /// `root` with `record`, whose key is not in it.
    pub(crate) fn insert<O: Order>(&mut self, root: Root<O>, record: NonNull<Record>) -> Result<Root<O>> {
        let new = O::child(record);
        let Some((node, height)) = root.top() else {
            return Ok(Root::new(self.new_branch::<O>([new].into_iter())?.node, 0));
        };
        if height >= MAX_HEIGHT {
            return Err(Error::NoMemory);
        }
        match self.insert_at::<O>(node, height, &new, Edge { left: true, right: true })? {
            (whole, None) => Ok(Root::new(whole.node, height)),
            (left, Some(right)) => Ok(Root::new(self.new_branch::<O>([left, right].into_iter())?.node, height + 1)),
        }
    }

    /// `root` with `record` in place of the record of the same key.
    pub(crate) fn replace<O: Order>(&mut self, root: Root<O>, record: NonNull<Record>) -> Result<Root<O>> {
        let (node, height) = root.top().ok_or(Error::Failed)?;
        Ok(Root::new(self.replace_at::<O>(node, height, &O::child(record))?, height))
    }

    /// `root` without the record at `key`.
    pub(crate) fn remove<O: Order>(&mut self, root: Root<O>, key: Key) -> Result<Root<O>> {
        let (node, height) = root.top().ok_or(Error::Failed)?;
        let joins = O::branches(self.nodes).available() > height + branches_to_join(height);
        let Some(top) = self.remove_at::<O>(node, height, key, joins)? else { return Ok(Root::EMPTY) };
        let (mut node, mut height) = (top.node, height);
        while height > 0 {
            let branch = branch_of::<O::Beside>(node);
            let (Some(only), None) = (branch.child(0), branch.child(1)) else { break };
            // A top with one child is of no use.
            self.retire::<O>(node);
            (node, height) = (only.node, height - 1);
        }
        Ok(Root::new(node, height))
    }

    fn insert_at<O: Order>(&mut self, node: ChildPtr, height: usize, new: &Child, edge: Edge) -> Result<Grown> {
        let old = branch_of::<O::Beside>(node);
        if height == 0 {
            let position = old.rank_below(new.key);
            return self.insert_above::<O>(node, position..position, (*new, None), edge);
        }
        let position = old.position(new.key);
        let child = old.child(position).ok_or(Error::Failed)?;
        let below = Edge { left: edge.left && position == 0, right: edge.right && position + 1 == old.len() };
        let grown = self.insert_at::<O>(child.node, height - 1, new, below)?;
        self.insert_above::<O>(node, position..position + 1, grown, edge)
    }

    /// The branch `node` with one child or two in place of those at `replaced`.
    #[inline(never)]
    fn insert_above<O: Order>(
        &mut self,
        node: ChildPtr,
        replaced: core::ops::Range<usize>,
        grown: Grown,
        edge: Edge,
    ) -> Result<Grown> {
        let old = branch_of::<O::Beside>(node);
        let (child, split) = grown;
        let before = old.used().take(replaced.start);
        let after = old.used().skip(replaced.end);
        let children = before.chain([child]).chain(split).chain(after);
        self.retire::<O>(node);
        let total = old.len() + 1 + usize::from(split.is_some()) - replaced.len();
        if total <= FANOUT {
            return Ok((self.new_branch::<O>(children)?, None));
        }
        // The child that made the branch too large: the new record, or what split off.
        let cut = cut(replaced.end, total, edge);
        let left = self.new_branch::<O>(children.clone().take(cut))?;
        let right = self.new_branch::<O>(children.skip(cut))?;
        Ok((left, Some(right)))
    }

    fn replace_at<O: Order>(&mut self, node: ChildPtr, height: usize, new: &Child) -> Result<ChildPtr> {
        // Neither keys nor ends change, so what the branch knows of the child stays true.
        let old = branch_of::<O::Beside>(node);
        let position = old.position(new.key);
        let known = old.child(position).ok_or(Error::Failed)?;
        let child = match height {
            0 if known.key == new.key => new.node,
            0 => return Err(Error::Failed),
            _ => self.replace_at::<O>(known.node, height - 1, new)?,
        };
        let mut branch = Fresh(O::branches(self.nodes).copy(old).ok_or(Error::NoMemory)?);
        if let Some(slot) = branch.get().children.get_mut(position) {
            *slot = child;
        }
        self.retire::<O>(node);
        Ok(ChildPtr::from_branch(branch.0))
    }

    /// The subtree without `key`; `None` when nothing is left of it. `joins`: there are nodes for [`Edit::combine`].
    fn remove_at<O: Order>(&mut self, node: ChildPtr, height: usize, key: Key, joins: bool) -> Result<Option<Child>> {
        let old = branch_of::<O::Beside>(node);
        let position = old.position(key);
        let child = old.child(position).ok_or(Error::Failed)?;
        let child = match height {
            0 if child.key == key => None,
            0 => return Err(Error::Failed),
            _ => self.remove_at::<O>(child.node, height - 1, key, joins)?,
        };
        let place = match child {
            None => (position, None, position + 1),
            Some(child) => self.join::<O>(old, position, child, height - 1, joins)?,
        };
        self.remove_above::<O>(node, place)
    }

    /// The branch `node` with one child, or none, in place of those from one position to before another.
    #[inline(never)]
    fn remove_above<O: Order>(&mut self, node: ChildPtr, place: join::Place) -> Result<Option<Child>> {
        let old = branch_of::<O::Beside>(node);
        let (from, joined, to) = place;
        let children = old.used().take(from).chain(joined).chain(old.used().skip(to));
        let rest = old.len() - (to - from) + usize::from(joined.is_some());
        let left = if rest > 0 { Some(self.new_branch::<O>(children)?) } else { None };
        self.retire::<O>(node);
        Ok(left)
    }

    fn new_branch<O: Order>(&mut self, children: impl Iterator<Item = Child>) -> Result<Child> {
        let mut branch = Fresh(O::branches(self.nodes).make(Branch::EMPTY).ok_or(Error::NoMemory)?);
        branch.get().fill(children);
        Ok(summary(branch.0))
    }

    fn retire<O: Order>(&mut self, node: ChildPtr) {
        // SAFETY: the node came from the pool of this order's branches, is in no chain (it was part of the old version until
        // now, or made by this edit), and the edit retires each node that it replaces once.
        unsafe { O::retired(self.retired).push(node.branch()) };
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

/// A node made by the edit under way: the writer's alone.
struct Fresh<T>(NonNull<T>);

impl<T> Fresh<T> {
    fn get(&mut self) -> &mut T {
        // SAFETY: made by this edit and not yet part of any version: nobody else has the pointer in use.
        unsafe { self.0.as_mut() }
    }
}

/// A branch of the old version, or of this edit.
fn branch_of<'a, B>(node: ChildPtr) -> &'a Branch<B> {
    // SAFETY: nodes of the newest version and of this edit are initialised; the writer, the only one that could
    // change or reuse them, holds no `&mut` to one while it looks at it. The borrow never leaves this module.
    unsafe { node.branch().as_ref() }
}

/// A branch as its parent knows it.
fn summary<B: Beside>(branch: NonNull<Branch<B>>) -> Child {
    let node = ChildPtr::from_branch(branch);
    let used = branch_of::<B>(node);
    let end = used.used().map(|child| child.end).max().unwrap_or(0);
    Child { node, key: used.child(0).map_or(Key { address: 0, size: 0 }, |child| child.key), end }
}
