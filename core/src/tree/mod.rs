//! A persistent B+ tree: an edit copies the path from root to leaf and shares the rest, so that every root ever
//! published stays a complete, immutable map.
//!
//! [`Root`] is one word, a node pointer with the height in its low bits. [`View`] is a root borrowed from a live
//! version: the read side, all of it safe to call. [`edit`] is the write side. Heights are bounded by [`MAX_HEIGHT`],
//! so every loop below ends after that many steps.
//!
//! Two indexes are made of it, and differ in their [`Order`] only: objects by address, which never overlap, and
//! userptrs by (address, size), which may ([`crate::userptr`]).

pub(crate) mod edit;
pub(crate) mod node;
pub(crate) mod search;
#[cfg(all(test, not(loom)))]
pub(crate) mod shape;
pub(crate) mod size;

use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use crate::pool::{Chain, Pool};
use crate::record::Record;
use edit::{Limbo, Nodes};
use node::{Beside, Branch, Key, Leaf, NodePtr};
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
    fn limbo(limbo: &mut Limbo) -> &mut Chain<Branch<Self::Beside>>;

    /// A record's key here.
    fn key(record: &Record) -> Key;

    /// Where its interval ends, for an index whose intervals may overlap; else 0.
    fn end(record: &Record) -> usize;
}

/// By `start`: the address index.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ByAddress {}

impl Order for ByAddress {
    type Beside = ();

    fn branches(nodes: &mut Nodes) -> &mut Pool<Branch<()>> {
        &mut nodes.branches
    }

    fn limbo(limbo: &mut Limbo) -> &mut Chain<Branch<()>> {
        &mut limbo.branches
    }

    fn key(record: &Record) -> Key {
        Key { address: record.start, size: 0 }
    }

    fn end(_: &Record) -> usize {
        0
    }
}

/// A tree in one word: null when empty, else the top node, its height in the low bits that alignment leaves free.
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
const _: () = assert!(MAX_HEIGHT <= HEIGHT_BITS);
const _: () = assert!(align_of::<Leaf>() > HEIGHT_BITS && align_of::<Branch<()>>() > HEIGHT_BITS);

impl<O: Order> Root<O> {
    pub(crate) const EMPTY: Root<O> = Root { tagged: ptr::null_mut(), order: PhantomData };

    pub(crate) fn new(node: NodePtr, height: usize) -> Root<O> {
        Root { tagged: node.raw().as_ptr().map_addr(|address| address | (height & HEIGHT_BITS)), order: PhantomData }
    }

    /// The top node and its height (0: a leaf).
    #[inline(always)]
    pub(crate) fn top(self) -> Option<(NodePtr, usize)> {
        let height = self.tagged.addr() & HEIGHT_BITS;
        let node = NonNull::new(self.tagged.map_addr(|address| address & !HEIGHT_BITS))?;
        Some((NodePtr::from_raw(node), height))
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
    pub(crate) fn top(self) -> Option<(NodePtr, usize)> {
        self.root.top()
    }

    /// The leaf behind a pointer found at height 0 of this view.
    #[inline(always)]
    pub(crate) fn leaf(self, node: NodePtr) -> &'s Leaf {
        #[cfg(loom)]
        crate::pool::reading(node.leaf().as_ptr());
        #[cfg(all(test, not(loom)))]
        size::visited::one();
        // SAFETY: nodes of a live version are initialised and never written again (`new`'s contract); at height 0 they
        // are leaves (`Root::new` and `edit` keep heights and kinds in step).
        unsafe { node.leaf().as_ref() }
    }

    /// The branch behind a pointer found above height 0 of this view.
    #[inline(always)]
    pub(crate) fn branch(self, node: NodePtr) -> &'s Branch<O::Beside> {
        #[cfg(all(test, not(loom)))]
        size::visited::one();
        // SAFETY: as in `leaf`; above height 0 nodes are branches, of the index that the view is of.
        unsafe { node.branch().as_ref() }
    }

    /// The record with the greatest key address at most `address`. Wait-free: one node per level.
    #[inline(always)]
    pub(crate) fn floor(self, address: usize) -> Option<&'s Record> {
        let address = address.min(LAST_KEY);
        let (mut node, height) = self.top()?;
        if address < self.least(node) {
            return None;
        }
        // From here on every rank is at least 1: a child's first key is exactly its key in the branch above.
        for _ in 0..height {
            let branch = self.branch(node);
            node = branch.children[below(rank_le(&branch.keys, address))];
        }
        let leaf = self.leaf(node);
        Some(&leaf.records[below(rank_le(&leaf.keys, address))])
    }

    /// The first key of a node of any kind.
    #[inline(always)]
    fn least(self, node: NodePtr) -> usize {
        // SAFETY: leaves and branches are `repr(C)` and both begin with their keys; the node is alive (`new`'s contract).
        unsafe { node.raw().cast::<usize>().read() }
    }

    /// The first record whose key address is at least `address`. Wait-free: two nodes per level.
    pub(crate) fn ceil(self, address: usize) -> Option<&'s Record> {
        let address = address.min(LAST_KEY);
        let (mut node, height) = self.top()?;
        // The subtree right of the path, lowest wins: its first record follows everything on the path.
        let mut right = None;
        for level in (0..height).rev() {
            let branch = self.branch(node);
            let below = rank_lt(&branch.keys, address);
            right = branch.child(below.max(1)).map(|child| (child.node, level)).or(right);
            node = *branch.children.get(below.saturating_sub(1))?;
        }
        let leaf = self.leaf(node);
        leaf.used()
            .get(rank_lt(&leaf.keys, address))
            .or_else(|| right.and_then(|(node, level)| self.first(node, level)))
    }

    /// The first record below a node.
    #[inline]
    pub(crate) fn first(self, mut node: NodePtr, height: usize) -> Option<&'s Record> {
        for _ in 0..height {
            node = *self.branch(node).children.first()?;
        }
        self.leaf(node).records.first()
    }

    /// The record with exactly this key.
    pub(crate) fn exact(self, key: Key) -> Option<&'s Record> {
        let (mut node, height) = self.top()?;
        for _ in 0..height {
            let branch = self.branch(node);
            node = branch.child(branch.position(key))?.node;
        }
        let leaf = self.leaf(node);
        leaf.used().get(leaf.position(key, O::key)).filter(|record| O::key(record) == key)
    }
}
