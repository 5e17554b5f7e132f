//! The two kinds of tree nodes, immutable once published.
//!
//! A [`Leaf`] holds records, a [`Branch`] children. Both keep their keys in front, packed: a search touches two lines
//! of keys and then exactly the line it wants. A branch's keys are the exact minima of its children. `sizes` and
//! `ends` are used by the userptr index only ([`crate::userptr`]): the second half of its keys, and how far any
//! interval below the child reaches.

use core::ptr::NonNull;

use super::search::{FANOUT, UNUSED, count, rank_lt};
use crate::info::PointerType;
use crate::list::List;
use crate::record::{ObjectId, Record};
use crate::{flags::MemFlags, node::NodeId};

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
pub(crate) struct Branch {
    pub(crate) keys: [usize; FANOUT],
    pub(crate) children: [NodePtr; FANOUT],
    pub(crate) sizes: [usize; FANOUT],
    pub(crate) ends: [usize; FANOUT],
}

const _: () = assert!(core::mem::offset_of!(Leaf, keys) == 0 && core::mem::offset_of!(Branch, keys) == 0);

/// A leaf or a branch; the height above it tells which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct NodePtr(NonNull<u8>);

impl NodePtr {
    pub(crate) const DANGLING: NodePtr = NodePtr(NonNull::dangling());

    pub(crate) fn from_leaf(leaf: NonNull<Leaf>) -> NodePtr {
        NodePtr(leaf.cast())
    }

    pub(crate) fn from_branch(branch: NonNull<Branch>) -> NodePtr {
        NodePtr(branch.cast())
    }

    #[inline(always)]
    pub(crate) fn leaf(self) -> NonNull<Leaf> {
        self.0.cast()
    }

    #[inline(always)]
    pub(crate) fn branch(self) -> NonNull<Branch> {
        self.0.cast()
    }

    pub(crate) fn raw(self) -> NonNull<u8> {
        self.0
    }

    pub(crate) fn from_raw(raw: NonNull<u8>) -> NodePtr {
        NodePtr(raw)
    }
}

const NO_RECORD: Record = Record {
    start: 0,
    cpu: 0,
    size: 0,
    user_data: 0,
    registered: List::EMPTY,
    mapped: List::EMPTY,
    flags: MemFlags::empty(),
    node: NodeId(0),
    id: ObjectId(0),
    kind: PointerType::Unknown,
};

impl Leaf {
    pub(crate) const EMPTY: Leaf = Leaf { keys: [UNUSED; FANOUT], records: [NO_RECORD; FANOUT] };

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

impl Branch {
    pub(crate) const EMPTY: Branch =
        Branch { keys: [UNUSED; FANOUT], children: [NodePtr::DANGLING; FANOUT], sizes: [0; FANOUT], ends: [0; FANOUT] };

    #[inline]
    pub(crate) fn len(&self) -> usize {
        count(&self.keys)
    }

    /// What the branch knows of the child at `position`.
    pub(crate) fn child(&self, position: usize) -> Option<Child> {
        let address = self.keys.get(position).copied().filter(|address| *address != UNUSED)?;
        Some(Child {
            node: *self.children.get(position)?,
            key: Key { address, size: *self.sizes.get(position)? },
            end: *self.ends.get(position)?,
        })
    }

    /// All children in use.
    pub(crate) fn used(&self) -> impl Iterator<Item = Child> + Clone {
        (0..FANOUT).map_while(|position| self.child(position))
    }

    /// The child whose subtree `key` belongs to.
    pub(crate) fn position(&self, key: Key) -> usize {
        let below = rank_lt(&self.keys, key.address);
        let here = self.keys.iter().zip(&self.sizes).skip(below);
        let equal = here.take_while(|(address, size)| **address == key.address && **size <= key.size).count();
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
        let slots = (self.keys.get_mut(position), self.children.get_mut(position));
        let more = (self.sizes.get_mut(position), self.ends.get_mut(position));
        if let ((Some(key), Some(node)), (Some(size), Some(end))) = (slots, more) {
            (*key, *node, *size, *end) = (child.key.address, child.node, child.key.size, child.end);
        }
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
