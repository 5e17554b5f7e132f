//! An index of objects by address: a page index, or where memory is scarce a B+ tree. Both do the same ([`Index`]).
//!
//! A [page index](crate::pages) is read fastest. Its nodes take more memory the larger and the sparser objects are. A B+ tree
//! ([`crate::tree`]) takes at most so many bytes for so many objects, whatever their addresses, which a registry in a fixed
//! memory promises ([`crate::fixed`]). The writer chooses when it is made ([`uses_pages`]).
//!
//! An [`IndexRoot`] is one word of a version; its low bits tell which of the two it is the root of.

use core::ptr::{self, NonNull};

use crate::address::PageSize;
use crate::error::Result;
use crate::nodes::{Nodes, RetiredNodes};
use crate::pages::edit::Change;
use crate::pages::{self, Pages, Span, Word};
use crate::pool::Memory;
use crate::record::Record;
use crate::tree::{self, ByAddress, Order, Root, TREE_BIT, View};

/// Whether pointers have room for the tags of a page index.
pub(crate) const HAS_PAGES: bool = usize::BITS >= 64;

/// Whether a writer over this memory keeps objects in page indexes.
pub(crate) const fn uses_pages<M: Memory>(page: PageSize) -> bool {
    HAS_PAGES && !M::SCARCE && page.bytes() >= pages::PAGE
}

/// What the two kinds of index do. Objects do not overlap.
pub(crate) trait Index<'s>: Copy {
    /// The only object that can hold `address`. Wait-free.
    fn candidate(self, address: usize) -> Option<&'s Record>;

    /// The first object that starts at `from` or later. Wait-free.
    fn next(self, from: usize) -> Option<&'s Record>;

    /// Whether no object has a page in `span`. Wait-free.
    fn is_free(self, span: Span, page: PageSize) -> bool;

    /// The object that has `address` in its pages. Wait-free.
    #[inline(always)]
    fn holding(self, address: usize, page: PageSize) -> Option<&'s Record> {
        self.candidate(address).filter(|record| record.holds(address, page))
    }

    /// The object that starts at `start`. Wait-free.
    #[inline]
    fn starting_at(self, start: usize) -> Option<&'s Record> {
        self.candidate(start).filter(|record| record.start == start)
    }

    /// All objects, by address. Each step is wait-free.
    fn iter(self) -> impl Iterator<Item = &'s Record> {
        let mut from = Some(0);
        core::iter::from_fn(move || {
            let record = self.next(from?)?;
            from = record.start.checked_add(1);
            Some(record)
        })
    }
}

impl<'s> Index<'s> for Pages<'s> {
    #[inline(always)]
    fn candidate(self, address: usize) -> Option<&'s Record> {
        self.at(address).record()
    }

    fn next(self, from: usize) -> Option<&'s Record> {
        Pages::next(self, from)
    }

    fn is_free(self, span: Span, _: PageSize) -> bool {
        Pages::is_free(self, span)
    }
}

impl<'s> Index<'s> for View<'s, ByAddress> {
    #[inline(always)]
    fn candidate(self, address: usize) -> Option<&'s Record> {
        self.floor(address)
    }

    fn next(self, from: usize) -> Option<&'s Record> {
        self.ceil(from)
    }

    fn is_free(self, span: Span, page: PageSize) -> bool {
        self.holding(span.first, page).is_none() && self.ceil(span.first).is_none_or(|next| next.start > span.last)
    }
}

/// The root of an index as a version keeps it; null for an empty one.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct IndexRoot(*mut u8);

/// Either kind of root.
enum Kind {
    Pages(Word),
    Tree(Root<ByAddress>),
}

impl IndexRoot {
    /// No objects.
    pub(crate) const EMPTY: IndexRoot = IndexRoot(ptr::null_mut());

    #[inline]
    fn kind(self) -> Kind {
        // A page index never has the tree bit: levels and marks are below it.
        let has_tree_bit = self.0.addr() | TREE_BIT == self.0.addr();
        if HAS_PAGES && !has_tree_bit {
            Kind::Pages(Word::from_raw(self.0))
        } else {
            Kind::Tree(Root::from_raw(self.0))
        }
    }

    /// The level of a page index; 0 for a tree.
    pub(crate) fn level(self) -> usize {
        match self.kind() {
            Kind::Pages(word) => word.level(),
            Kind::Tree(_) => 0,
        }
    }

    /// The root of a page index, of a writer that keeps objects in those.
    pub(crate) fn word(self) -> Word {
        Word::from_raw(self.0)
    }

    /// The root of a tree, of a writer that keeps objects in those.
    pub(crate) fn tree(self) -> Root<ByAddress> {
        Root::from_raw(self.0)
    }

    /// The height of a tree; 0 for a page index.
    pub(crate) fn height(self) -> usize {
        match self.kind() {
            Kind::Pages(_) => 0,
            Kind::Tree(root) => root.height(),
        }
    }
}

impl From<Word> for IndexRoot {
    fn from(word: Word) -> IndexRoot {
        IndexRoot(word.raw())
    }
}

impl From<Root<ByAddress>> for IndexRoot {
    fn from(root: Root<ByAddress>) -> IndexRoot {
        IndexRoot(root.raw())
    }
}

/// An index of a version that is being kept alive for `'s`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Objects<'s> {
    Pages(Pages<'s>),
    Tree(View<'s, ByAddress>),
}

impl Objects<'_> {
    /// # Safety
    /// `root` belongs to a version that is not retired, or whose grace period has not passed, for all of the result's life.
    #[inline]
    pub(crate) unsafe fn new<'s>(root: IndexRoot) -> Objects<'s> {
        match root.kind() {
            // SAFETY: by contract.
            Kind::Pages(word) => Objects::Pages(unsafe { Pages::new(word) }),
            // SAFETY: by contract.
            Kind::Tree(root) => Objects::Tree(unsafe { View::new(root) }),
        }
    }
}

impl<'s> Index<'s> for Objects<'s> {
    #[inline]
    fn candidate(self, address: usize) -> Option<&'s Record> {
        match self {
            Objects::Pages(pages) => pages.candidate(address),
            Objects::Tree(tree) => tree.candidate(address),
        }
    }

    fn next(self, from: usize) -> Option<&'s Record> {
        match self {
            Objects::Pages(pages) => Index::next(pages, from),
            Objects::Tree(tree) => Index::next(tree, from),
        }
    }

    fn is_free(self, span: Span, page: PageSize) -> bool {
        match self {
            Objects::Pages(pages) => Index::is_free(pages, span, page),
            Objects::Tree(tree) => Index::is_free(tree, span, page),
        }
    }
}

/// What becomes of one object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// It comes, with this record.
    Insert(NonNull<Record>),
    /// `new` takes the place of `old`. Both have the same addresses.
    Replace { old: NonNull<Record>, new: NonNull<Record> },
    /// It goes, with this record.
    Remove(NonNull<Record>),
}

impl Step {
    /// The record that no index has after it.
    pub(crate) fn gone(self) -> Option<NonNull<Record>> {
        match self {
            Step::Insert(_) => None,
            Step::Replace { old, .. } | Step::Remove(old) => Some(old),
        }
    }

    /// A tree after it.
    pub(crate) fn in_tree<O: Order>(self, edit: &mut tree::edit::Edit<'_>, root: Root<O>) -> Result<Root<O>> {
        match self {
            Step::Insert(record) => edit.insert(root, record),
            Step::Replace { new, .. } => edit.replace(root, new),
            Step::Remove(record) => edit.remove(root, O::child(record).key),
        }
    }

    /// A page index after it.
    pub(crate) fn in_pages(self, edit: &mut pages::edit::Edit<'_>, word: Word, span: Span) -> Result<Word> {
        match self {
            Step::Insert(record) => edit.change(word, span, Change::Object(Some(record))),
            Step::Replace { new, .. } => edit.replace(word, span, new),
            Step::Remove(_) => edit.change(word, span, Change::Object(None)),
        }
    }
}

/// The nodes of an edit of either kind.
pub(crate) struct Edit<'w> {
    pub(crate) nodes: &'w mut Nodes,
    pub(crate) retired: &'w mut RetiredNodes,
    /// The version that is being made.
    pub(crate) generation: usize,
}

impl Edit<'_> {
    pub(crate) fn of_tree(&mut self) -> tree::edit::Edit<'_> {
        tree::edit::Edit { nodes: self.nodes, retired: self.retired }
    }

    pub(crate) fn of_pages(&mut self) -> pages::edit::Edit<'_> {
        let (nodes, retired) = (&mut self.nodes.pages, &mut self.retired.pages);
        pages::edit::Edit { nodes, retired, generation: self.generation }
    }
}
