//! What a removal joins, so that a tree that shrinks gives its nodes back.
//!
//! In: a node that holds less than before, and its parent's other children. Out: the node, or one in place of it and a
//! neighbour if both fit in one. Where two branches became one, two of their children meet that were apart: if these hold
//! few they are joined as well, and so on below. What never happens: two neighbours with fewer than [`PAIR`] entries,
//! unless there were no nodes to join with. `tree::size` rests on it.

use super::{Edit, Fresh, branch_of, summary};
use crate::error::Result;
use crate::tree::Order;
use crate::tree::node::{Beside, Branch, Child, ChildPtr};
use crate::tree::search::FANOUT;
use crate::tree::size::PAIR;

/// Which children of a branch a removal replaces, from one position to before another, and by what.
pub(super) type Place = (usize, Option<Child>, usize);

impl Edit<'_> {
    /// Joins a child that shrank with the neighbour to its right or left if both fit in one node. The child is fresh:
    /// the neighbour's entries move into it. Returns which children of `parent` the result replaces.
    #[inline(never)]
    pub(super) fn join<O: Order>(
        &mut self,
        parent: &Branch<O::Beside>,
        at: usize,
        child: Child,
        height: usize,
        joins: bool,
    ) -> Result<Place> {
        let len = |node: Child| branch_of::<O::Beside>(node.node).len();
        let left = at.checked_sub(1).and_then(|before| parent.child(before));
        if let Some(right) = parent.child(at + 1).filter(|right| len(child) + len(*right) <= FANOUT) {
            let child = self.merge::<O>(child, right, child, height, joins)?;
            // Two nodes that met in it may have become one: it may hold no more than before.
            return match left.filter(|left| len(*left) + len(child) < PAIR) {
                Some(left) => Ok((at - 1, Some(self.merge::<O>(left, child, child, height, joins)?), at + 2)),
                None => Ok((at, Some(child), at + 2)),
            };
        }
        match left.filter(|left| len(child) + len(*left) <= FANOUT) {
            Some(left) => Ok((at - 1, Some(self.merge::<O>(left, child, child, height, joins)?), at + 1)),
            None => Ok((at, Some(child), at + 1)),
        }
    }

    /// `left` and `right` in one node, written over `fresh`, which is one of them; the other is retired.
    fn merge<O: Order>(
        &mut self,
        left: Child,
        right: Child,
        fresh: Child,
        height: usize,
        joins: bool,
    ) -> Result<Child> {
        let other = if left.node == fresh.node { right.node } else { left.node };
        let (a, b) = (branch_of::<O::Beside>(left.node), branch_of::<O::Beside>(right.node));
        let met = if joins && height > 0 { self.met::<O>(a, b, height)? } else { None };
        let joined = merge_branches::<O>(left.node, met, right.node, fresh.node);
        self.retire::<O>(other);
        Ok(joined)
    }

    /// The last child of `a` and the first of `b` in one node, if they hold few.
    fn met<O: Order>(&mut self, a: &Branch<O::Beside>, b: &Branch<O::Beside>, height: usize) -> Result<Option<Child>> {
        let (last, first) = (a.len().checked_sub(1).and_then(|last| a.child(last)), b.child(0));
        let Some((last, first)) = last.zip(first) else { return Ok(None) };
        let len = |node: Child| branch_of::<O::Beside>(node.node).len();
        if len(last) + len(first) >= PAIR {
            return Ok(None);
        }
        self.combine::<O>(last, first, height - 1).map(Some)
    }

    /// `left` and `right` in a new node, and so on below where they met.
    fn combine<O: Order>(&mut self, left: Child, right: Child, height: usize) -> Result<Child> {
        let (a, b) = (branch_of::<O::Beside>(left.node), branch_of::<O::Beside>(right.node));
        let met = if height > 0 { self.met::<O>(a, b, height)? } else { None };
        let branch = self.new_branch::<O>(side_by_side(a, met, b))?;
        self.retire::<O>(left.node);
        self.retire::<O>(right.node);
        Ok(branch)
    }
}

/// The children of both, written over `fresh`, which is one of them. Out of line: the copy is off the stack before anything
/// is called.
#[inline(never)]
fn merge_branches<O: Order>(left: ChildPtr, met: Option<Child>, right: ChildPtr, fresh: ChildPtr) -> Child {
    let old = *branch_of::<O::Beside>(fresh);
    let (a, b) = if left == fresh { (&old, branch_of(right)) } else { (branch_of(left), &old) };
    let mut branch = Fresh(fresh.branch::<O::Beside>());
    branch.get().fill(side_by_side(a, met, b));
    summary(branch.0)
}

/// The children of `a`, then those of `b`; `met` in place of the last and the first.
fn side_by_side<B: Beside>(a: &Branch<B>, met: Option<Child>, b: &Branch<B>) -> impl Iterator<Item = Child> {
    let gone = usize::from(met.is_some());
    a.used().take(a.len() - gone).chain(met).chain(b.used().skip(gone))
}
