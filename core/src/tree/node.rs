//! The two kinds of tree nodes, immutable once published.
//!
//! A [`Leaf`] holds records, a [`Branch`] children. Both keep their keys in front, packed: a search touches two lines
//! of keys and then exactly the line it wants. A branch's keys are the exact minima of its children. What an index
//! needs to know beside them is its own ([`Beside`]): nothing for addresses; for userptrs, whose intervals overlap, the
//! second half of the keys and how far any interval below the child reaches.

use core::ptr::NonNull;

use super::search::{FANOUT, UNUSED, count, rank_le, rank_lt};
use crate::record::Record;

/// A key: an address, then a size among equal addresses (0 throughout the address index).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) address: usize,
    pub(crate) size: usize,
}

/// Records, sorted by key.
/// The keys come first in both kinds of node: [`super::View`] reads a top node's first key before it knows which it is.
#[derive(Clone, Copy)]
#[repr(C)]
#[cfg_attr(target_pointer_width = "64", repr(align(64)))]
#[cfg_attr(not(target_pointer_width = "64"), repr(align(16)))]
pub(crate) struct Leaf {
    pub(crate) keys: [usize; FANOUT],
    pub(crate) records: [Record; FANOUT],
}

/// Children, sorted by their smallest key. Unused children are dangling and never followed.
#[derive(Clone, Copy)]
#[repr(C)]
#[cfg_attr(target_pointer_width = "64", repr(align(64)))]
#[cfg_attr(not(target_pointer_width = "64"), repr(align(16)))]
pub(crate) struct Branch<B> {
    pub(crate) keys: [usize; FANOUT],
    pub(crate) children: [NodePtr; FANOUT],
    pub(crate) beside: B,
}

/// What a branch knows of each child beside the address of its first key.
pub(crate) trait Beside: Copy {
    const EMPTY: Self;

    /// The size in the child's smallest key, and the greatest end below it.
    fn get(&self, position: usize) -> (usize, usize);

    fn set(&mut self, position: usize, size: usize, end: usize);
}

impl Beside for () {
    const EMPTY: Self = ();

    fn get(&self, _: usize) -> (usize, usize) {
        (0, 0)
    }

    fn set(&mut self, _: usize, _: usize, _: usize) {}
}

/// Beside the children of the userptr index.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Reach {
    pub(crate) sizes: [usize; FANOUT],
    pub(crate) ends: [usize; FANOUT],
}

impl Beside for Reach {
    const EMPTY: Self = Reach { sizes: [0; FANOUT], ends: [0; FANOUT] };

    fn get(&self, position: usize) -> (usize, usize) {
        let of = |list: &[usize; FANOUT]| list.get(position).copied().unwrap_or(0);
        (of(&self.sizes), of(&self.ends))
    }

    fn set(&mut self, position: usize, size: usize, end: usize) {
        if let (Some(known_size), Some(known_end)) = (self.sizes.get_mut(position), self.ends.get_mut(position)) {
            (*known_size, *known_end) = (size, end);
        }
    }
}

const _: () = assert!(core::mem::offset_of!(Leaf, keys) == 0);
const _: () = assert!(core::mem::offset_of!(Branch<()>, keys) == 0 && core::mem::offset_of!(Branch<Reach>, keys) == 0);

/// A leaf or a branch; the height above it tells which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct NodePtr(NonNull<u8>);

impl NodePtr {
    pub(crate) const DANGLING: NodePtr = NodePtr(NonNull::dangling());

    pub(crate) fn from_leaf(leaf: NonNull<Leaf>) -> NodePtr {
        NodePtr(leaf.cast())
    }

    pub(crate) fn from_branch<B>(branch: NonNull<Branch<B>>) -> NodePtr {
        NodePtr(branch.cast())
    }

    #[inline(always)]
    pub(crate) fn leaf(self) -> NonNull<Leaf> {
        self.0.cast()
    }

    #[inline(always)]
    pub(crate) fn branch<B>(self) -> NonNull<Branch<B>> {
        self.0.cast()
    }

    pub(crate) fn raw(self) -> NonNull<u8> {
        self.0
    }

    pub(crate) fn from_raw(raw: NonNull<u8>) -> NodePtr {
        NodePtr(raw)
    }
}

impl Leaf {
    pub(crate) const EMPTY: Leaf = Leaf { keys: [UNUSED; FANOUT], records: [Record::NONE; FANOUT] };

    #[inline]
    pub(crate) fn len(&self) -> usize {
        count(&self.keys)
    }

    /// The records in use.
    #[inline]
    pub(crate) fn used(&self) -> &[Record] {
        self.records.get(..self.len()).unwrap_or(&[])
    }

    /// Where `key` is, or would be. `of` gives a record's key.
    pub(crate) fn position(&self, key: Key, of: impl Fn(&Record) -> Key) -> usize {
        let below = rank_lt(&self.keys, key.address);
        let here = self.keys.iter().zip(&self.records).skip(below);
        let smaller = here.take_while(|(address, record)| **address == key.address && of(record) < key).count();
        below + smaller
    }

    /// Copies `records`, with their keys, to the front; at most [`FANOUT`].
    pub(crate) fn fill<'a>(&mut self, records: impl Iterator<Item = &'a Record>, key: impl Fn(&Record) -> Key) {
        self.keys = [UNUSED; FANOUT];
        for ((slot, known), record) in self.records.iter_mut().zip(&mut self.keys).zip(records) {
            *slot = *record;
            *known = key(record).address;
        }
    }
}

impl<B: Beside> Branch<B> {
    pub(crate) const EMPTY: Branch<B> =
        Branch { keys: [UNUSED; FANOUT], children: [NodePtr::DANGLING; FANOUT], beside: B::EMPTY };

    #[inline]
    pub(crate) fn len(&self) -> usize {
        count(&self.keys)
    }

    /// What the branch knows of the child at `position`.
    pub(crate) fn child(&self, position: usize) -> Option<Child> {
        let address = self.keys.get(position).copied().filter(|address| *address != UNUSED)?;
        let (size, end) = self.beside.get(position);
        Some(Child { node: *self.children.get(position)?, key: Key { address, size }, end })
    }

    /// All children in use.
    pub(crate) fn used(&self) -> impl Iterator<Item = Child> + Clone {
        (0..FANOUT).map_while(|position| self.child(position))
    }

    /// The child whose subtree `key` belongs to.
    pub(crate) fn position(&self, key: Key) -> usize {
        if size_of::<B>() == 0 {
            // No two keys share an address.
            return rank_le(&self.keys, key.address).saturating_sub(1);
        }
        let below = rank_lt(&self.keys, key.address);
        let here = self.keys.iter().enumerate().skip(below);
        let equal =
            here.take_while(|(at, address)| **address == key.address && self.beside.get(*at).0 <= key.size).count();
        (below + equal).saturating_sub(1)
    }

    /// Copies `children` to the front; at most [`FANOUT`].
    pub(crate) fn fill(&mut self, children: impl Iterator<Item = Child>) {
        *self = Branch::EMPTY;
        for (position, child) in children.take(FANOUT).enumerate() {
            self.set(position, child);
        }
    }

    pub(crate) fn set(&mut self, position: usize, child: Child) {
        if let (Some(key), Some(node)) = (self.keys.get_mut(position), self.children.get_mut(position)) {
            (*key, *node) = (child.key.address, child.node);
        }
        self.beside.set(position, child.key.size, child.end);
    }
}

/// A child as its branch sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Child {
    pub(crate) node: NodePtr,
    /// The smallest key below it.
    pub(crate) key: Key,
    /// The greatest end of any interval below it.
    pub(crate) end: usize,
}
