//! The node of a B+ tree, immutable once published: a [`Branch`] holds children, sorted by their smallest key.
//!
//! At the bottom of a tree the children are records, above it branches. The keys stand in front, packed: a search reads
//! two lines of keys and then the one child it wants. Keys of a branch are the exact minima of its children. The userptr
//! index, whose intervals overlap, keeps more beside each child ([`Beside`]): the second half of the key and the greatest
//! end of any interval below it.

use core::ptr::NonNull;

use super::search::{FANOUT, UNUSED, count, rank_le, rank_lt};
use crate::pool::Pooled;
use crate::record::Record;

/// A key: an address, then a size among equal addresses (0 throughout the address index).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) address: usize,
    pub(crate) size: usize,
}

/// Children, sorted by their smallest key. Unused children are dangling and never followed.
#[derive(Clone, Copy)]
#[repr(C)]
#[cfg_attr(target_pointer_width = "64", repr(align(64)))]
#[cfg_attr(not(target_pointer_width = "64"), repr(align(16)))]
pub(crate) struct Branch<B> {
    pub(crate) keys: [usize; FANOUT],
    pub(crate) children: [ChildPtr; FANOUT],
    pub(crate) beside: B,
}

impl<B: Beside> Pooled for Branch<B> {
    type Beside = ();
}

/// What a branch keeps of each child beside the address of its first key.
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
pub(crate) struct Intervals {
    pub(crate) sizes: [usize; FANOUT],
    pub(crate) max_ends: [usize; FANOUT],
}

impl Beside for Intervals {
    const EMPTY: Self = Intervals { sizes: [0; FANOUT], max_ends: [0; FANOUT] };

    fn get(&self, position: usize) -> (usize, usize) {
        let of = |list: &[usize; FANOUT]| list.get(position).copied().unwrap_or(0);
        (of(&self.sizes), of(&self.max_ends))
    }

    fn set(&mut self, position: usize, size: usize, end: usize) {
        if let (Some(known_size), Some(known_end)) = (self.sizes.get_mut(position), self.max_ends.get_mut(position)) {
            (*known_size, *known_end) = (size, end);
        }
    }
}

const _: () = assert!(core::mem::offset_of!(Branch<()>, keys) == 0);
const _: () = assert!(core::mem::offset_of!(Branch<Intervals>, keys) == 0);

/// A record at the bottom of a tree, a branch above it; the height tells which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct ChildPtr(NonNull<u8>);

impl ChildPtr {
    pub(crate) const DANGLING: ChildPtr = ChildPtr(NonNull::dangling());

    pub(crate) fn from_record(record: NonNull<Record>) -> ChildPtr {
        ChildPtr(record.cast())
    }

    pub(crate) fn from_branch<B>(branch: NonNull<Branch<B>>) -> ChildPtr {
        ChildPtr(branch.cast())
    }

    #[inline(always)]
    pub(crate) fn record(self) -> NonNull<Record> {
        self.0.cast()
    }

    #[inline(always)]
    pub(crate) fn branch<B>(self) -> NonNull<Branch<B>> {
        self.0.cast()
    }

    pub(crate) fn raw(self) -> NonNull<u8> {
        self.0
    }

    pub(crate) fn from_raw(raw: NonNull<u8>) -> ChildPtr {
        ChildPtr(raw)
    }
}

impl<B: Beside> Branch<B> {
    pub(crate) const EMPTY: Branch<B> =
        Branch { keys: [UNUSED; FANOUT], children: [ChildPtr::DANGLING; FANOUT], beside: B::EMPTY };

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

    /// How many children have a key below `key`.
    pub(crate) fn rank_below(&self, key: Key) -> usize {
        let below = rank_lt(&self.keys, key.address);
        if size_of::<B>() == 0 {
            // No two keys share an address.
            return below;
        }
        let equal = self.keys.iter().enumerate().skip(below);
        below + equal.take_while(|(at, address)| **address == key.address && self.beside.get(*at).0 < key.size).count()
    }

    /// The child whose subtree `key` belongs to.
    pub(crate) fn position(&self, key: Key) -> usize {
        if size_of::<B>() == 0 {
            return rank_le(&self.keys, key.address).saturating_sub(1);
        }
        let below = self.rank_below(key);
        let equal = self.child(below).is_some_and(|child| child.key == key);
        (below + usize::from(equal)).saturating_sub(1)
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
            *key = child.key.address;
            *node = child.node;
            self.beside.set(position, child.key.size, child.end);
        }
    }
}

/// A subtree or a record as its parent knows it: the pointer, its smallest key, the greatest end of an interval in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Child {
    pub(crate) node: ChildPtr,
    pub(crate) key: Key,
    pub(crate) end: usize,
}
