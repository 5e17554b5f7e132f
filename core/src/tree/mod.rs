//! A persistent B+ tree: an edit copies the path from root to record and shares the rest, so that every root ever
//! published stays a complete, immutable map.
//!
//! [`Root`] is one word, a node pointer with the height in its low bits. [`View`] is a root borrowed from a live
//! version: the read side, all of it safe to call. [`edit`] is the write side. Heights are bounded by [`MAX_HEIGHT`],
//! so every loop below ends after that many steps.
//!
//! Two indexes are made of it, and differ in their [`Order`] only: userptrs by (address, size), which may overlap
//! ([`crate::userptr`]), and, where memory is scarce, objects by address, which never do ([`crate::index`]).

pub(crate) mod edit;
pub(crate) mod node;
pub(crate) mod search;
#[cfg(all(test, not(loom)))]
pub(crate) mod shape;
pub(crate) mod size;

use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use crate::nodes::{Nodes, RetiredNodes};
use crate::pool::{Chain, Pool};
use crate::record::Record;
use node::{Beside, Branch, Child, ChildPtr, Key};
use search::{rank_le, rank_lt};

/// More than any tree that fits in memory needs: nodes are at least half full but for the two edges.
pub(crate) const MAX_HEIGHT: usize = 15;

/// The greatest address a key can have; beyond it is the mark of unused keys.
pub(crate) const LAST_KEY: usize = search::UNUSED - 1;

/// What an index is sorted by.
pub(crate) trait Order {
    /// What its branches know beside keys and children.
    type Beside: Beside;

    /// Where its branches come from.
    fn branches(nodes: &mut Nodes) -> &mut Pool<Branch<Self::Beside>>;

    /// Where they go when the newest version does not use them.
    fn retired(retired: &mut RetiredNodes) -> &mut Chain<Branch<Self::Beside>>;

    /// A record's key here.
    fn key(record: &Record) -> Key;

    /// Where its interval ends, for an index whose intervals may overlap; else 0.
    fn end(record: &Record) -> usize;

    /// A record as the branch above it knows it.
    fn child(record: NonNull<Record>) -> Child {
        // SAFETY: callers give records of the newest version or of the edit under way, which the writer alone could reuse.
        let known = unsafe { record.as_ref() };
        Child { node: ChildPtr::from_record(record), key: Self::key(known), end: Self::end(known) }
    }
}

/// By `start`: the address index.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ByAddress {}

impl Order for ByAddress {
    type Beside = ();

    fn branches(nodes: &mut Nodes) -> &mut Pool<Branch<()>> {
        &mut nodes.branches
    }

    fn retired(retired: &mut RetiredNodes) -> &mut Chain<Branch<()>> {
        &mut retired.branches
    }

    fn key(record: &Record) -> Key {
        Key { address: record.start, size: 0 }
    }

    fn end(_: &Record) -> usize {
        0
    }
}

/// A tree in one word: null when empty, else the top node, its height in the low bits that alignment leaves free. Height 0
/// is a node whose children are records.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Root<O> {
    tagged: *mut u8,
    order: PhantomData<O>,
}

impl<O> Clone for Root<O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O> Copy for Root<O> {}

/// Low bits of a node pointer that hold the height.
const HEIGHT_BITS: usize = 15;

/// Set in every root of a tree, where alignment leaves room for it: [`crate::index`] tells a tree by it.
pub(crate) const TREE_BIT: usize = if usize::BITS < 64 { 0 } else { 32 };

const TAGS: usize = HEIGHT_BITS | TREE_BIT;
const _: () = assert!(MAX_HEIGHT <= HEIGHT_BITS && align_of::<Branch<()>>() > TAGS);

impl<O: Order> Root<O> {
    pub(crate) const EMPTY: Root<O> = Root { tagged: ptr::null_mut(), order: PhantomData };

    pub(crate) fn new(node: ChildPtr, height: usize) -> Root<O> {
        Root::from_raw(node.raw().as_ptr().map_addr(|address| address | (height & HEIGHT_BITS) | TREE_BIT))
    }

    /// The word of a root, back from where it was kept.
    #[inline(always)]
    pub(crate) fn from_raw(tagged: *mut u8) -> Root<O> {
        Root { tagged, order: PhantomData }
    }

    pub(crate) fn raw(self) -> *mut u8 {
        self.tagged
    }

    /// The top node and its height.
    #[inline(always)]
    pub(crate) fn top(self) -> Option<(ChildPtr, usize)> {
        let node = NonNull::new(self.tagged.map_addr(|address| address & !TAGS))?;
        Some((ChildPtr::from_raw(node), self.height()))
    }

    pub(crate) fn height(self) -> usize {
        self.tagged.addr() & HEIGHT_BITS
    }
}

/// The position before a rank of at least 1.
#[inline(always)]
pub(crate) fn below(rank: usize) -> usize {
    // The mask changes no right position; it tells the compiler that the index is within bounds.
    rank.wrapping_sub(1) & (search::FANOUT - 1)
}

/// A tree of a version that is being kept alive for `'s`.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct View<'s, O> {
    root: Root<O>,
    version: PhantomData<&'s Record>,
}

impl<O> Clone for View<'_, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O> Copy for View<'_, O> {}

impl<'s, O: Order> View<'s, O> {
    /// # Safety
    /// `root` belongs to a version that is not retired, or whose grace period has not passed, for all of `'s`.
    #[inline(always)]
    pub(crate) unsafe fn new(root: Root<O>) -> View<'s, O> {
        View { root, version: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn top(self) -> Option<(ChildPtr, usize)> {
        self.root.top()
    }

    /// The record behind a pointer of a branch at height 0 of this view.
    #[inline(always)]
    pub(crate) fn record(self, node: ChildPtr) -> &'s Record {
        #[cfg(loom)]
        crate::pool::reading(node.record().as_ptr());
        // SAFETY: records of a live version are initialised and never written again (`new`'s contract); below height 0
        // children are records (`Root::new` and `edit` keep heights and kinds in step).
        unsafe { node.record().as_ref() }
    }

    /// The branch behind a pointer of this view, above the records.
    #[inline(always)]
    pub(crate) fn branch(self, node: ChildPtr) -> &'s Branch<O::Beside> {
        #[cfg(all(test, not(loom)))]
        size::visited::one();
        #[cfg(loom)]
        crate::pool::reading(node.branch::<O::Beside>().as_ptr());
        // SAFETY: as in `record`; from height 0 on nodes are branches, of the index that the view is of.
        unsafe { node.branch().as_ref() }
    }

    /// The record with the greatest key address at most `address`. Wait-free: one node per level.
    #[inline(always)]
    pub(crate) fn floor(self, address: usize) -> Option<&'s Record> {
        let (branch, last) = self.lowest_up_to(address.min(LAST_KEY))?;
        Some(self.record(branch.children[last]))
    }

    /// The lowest branch on the way to the greatest key address at most `address`, and that key's position in it.
    #[inline(always)]
    pub(crate) fn lowest_up_to(self, address: usize) -> Option<(&'s Branch<O::Beside>, usize)> {
        let (mut node, height) = self.top()?;
        let mut branch = self.branch(node);
        if address < branch.keys[0] {
            return None;
        }
        // From here on every rank is at least 1: a child's first key is exactly its key in the branch above.
        for _ in 0..height {
            node = branch.children[below(rank_le(&branch.keys, address))];
            branch = self.branch(node);
        }
        Some((branch, below(rank_le(&branch.keys, address))))
    }

    /// The first record whose key address is at least `address`. Wait-free: two nodes per level.
    pub(crate) fn ceil(self, address: usize) -> Option<&'s Record> {
        let address = address.min(LAST_KEY);
        let (mut node, height) = self.top()?;
        // The subtree right of the path, lowest wins: its first record follows everything on the path.
        let mut right = None;
        for level in (0..=height).rev() {
            let branch = self.branch(node);
            let below = rank_lt(&branch.keys, address);
            // At the bottom the child right of the path is the record itself; above it, one that a key of the path hides.
            let next = if level == 0 { below } else { below.max(1) };
            right = branch.child(next).map(|child| (child.node, level)).or(right);
            node = *branch.children.get(below.saturating_sub(1))?;
        }
        right.map(|(node, level)| self.first(node, level))
    }

    /// The first record below a node that has as many levels of branches, itself included.
    #[inline]
    pub(crate) fn first(self, mut node: ChildPtr, levels: usize) -> &'s Record {
        for _ in 0..levels {
            node = self.branch(node).children[0];
        }
        self.record(node)
    }

    /// The record with exactly this key.
    pub(crate) fn exact(self, key: Key) -> Option<&'s Record> {
        let (mut node, height) = self.top()?;
        for _ in 0..height {
            let branch = self.branch(node);
            node = branch.child(branch.position(key))?.node;
        }
        let branch = self.branch(node);
        branch.child(branch.position(key)).filter(|child| child.key == key).map(|child| self.record(child.node))
    }
}
