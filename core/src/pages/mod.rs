//! The page index: the object that covers a page, by one load a level and no comparison.
//!
//! A radix tree over page numbers, persistent like the other trees: an edit copies the nodes on its way and shares the rest.
//! A [`Page`] node has [`SLOTS`] slots of one word. A slot stands for a range of addresses, and its [`Word`] says what is
//! there: nothing, the record of the object that covers the whole range, or a node for the parts of the range. A large object
//! fills slots of the upper levels. Levels at which a range has only one part in use are left out, at the top and between.
//!
//! ```text
//! word      pointer to a Record or a Page; null for none
//! bits 0-3  0: a record or nothing; k: a node whose slots cover 2^(12 + 6(k - 1)) bytes each
//! bit 4     MARK: registered host memory touches every page of the range
//! ```
//!
//! Because levels are left out, a lookup of an address outside a node's range goes on with the wrong slot. It then ends at a
//! record that does not hold the address, which the caller's bounds check shows, or at a mark, which [`Pages::is_marked`]
//! checks. What never happens: two objects in one page, or an object in only part of its pages.
//!
//! # Choices
//! * Records are pointed to, not numbered. A change of an object's record rewrites all its slots, which are in nodes that the
//!   edit copies anyway: 4 slots for 16 KiB. Numbers would need a table of their own in each version, one more load.
//! * 64 slots. ARCHITECTURE.md has the measurements of 16, 32 and 64.
//! * No ordered tree beside it. The index is ordered by itself: [`Pages::next`] walks it, and a range is free when its slots
//!   are.
//! * A page is 4 KiB, whatever the layout's page size: larger pages are several of these. Where pages are smaller, or memory
//!   is scarce, objects stand in a B+ tree ([`crate::index`]).

pub(crate) mod edit;
#[cfg(all(test, not(loom), feature = "alloc"))]
mod tests;

use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use crate::pool::{Pooled, beside};
use crate::record::Record;
use crate::version::Version;

/// log2 of a node's slots.
pub(crate) const BITS: usize = 6;

/// Slots of a node.
pub(crate) const SLOTS: usize = 1 << BITS;

/// log2 of a page.
const PAGE_BITS: usize = 12;

/// The smallest page size that a page index can serve.
pub(crate) const PAGE: usize = 1 << PAGE_BITS;

/// Levels of nodes that addresses can have.
const LEVELS: usize = (usize::BITS as usize - PAGE_BITS).div_ceil(BITS);

/// Nodes that one change of a range takes at most: two on each level, and one to leave an empty index behind.
pub(crate) const NODES_PER_CHANGE: usize = 2 * LEVELS + 1;

/// Nodes that one edit takes at most: a change of the object's range, one of the pages of its host memory, and a top for a
/// version that changes neither.
pub(crate) const NODES_PER_EDIT: usize = 2 * NODES_PER_CHANGE + 1;

/// Nodes that a replacement or removal of an object takes at most in an index of this level: two on each level, a top, and one to
/// leave an empty index behind.
pub(crate) const fn nodes_in_place(level: usize) -> usize {
    2 * level + 2
}

/// Nodes beyond those of the edits, with which a change goes through nodes that it covers whole.
pub(crate) const NODES_TO_SPARE: usize = 16;

/// Bits of a word that hold the level of a node.
const LEVEL: usize = 15;

/// The bit of a word that says: registered host memory touches every page of this range.
pub(crate) const MARK: usize = 16;

/// All bits of a word that are no address.
const TAGS: usize = if usize::BITS < 64 { 0 } else { 63 };

/// A node.
#[derive(Clone, Copy)]
#[repr(C)]
#[cfg_attr(target_pointer_width = "64", repr(align(64)))]
pub(crate) struct Page {
    slots: [Word; SLOTS],
}

impl Pooled for Page {
    type Beside = Head;
}

/// What stands beside a node: written with it, read by the writer, and by readers only where a slot alone does not answer.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    /// The first address of the node's range.
    base: usize,
    /// The version that this node was made for: an edit changes its own nodes in place.
    generation: usize,
    /// In the top node of a version's SVM index: that version.
    version: Option<NonNull<Version>>,
    /// Slots that hold anything, even a mark.
    used: u8,
    /// Slots with an object in their range.
    with_objects: u8,
    /// Slots with a mark in their range.
    with_marks: u8,
}

/// What a range of addresses holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Word(*mut u8);

impl Word {
    /// Nothing.
    pub(crate) const NONE: Word = Word(ptr::null_mut());

    fn of_record(record: NonNull<Record>) -> Word {
        record.as_ptr().expose_provenance();
        Word(record.as_ptr().cast())
    }

    fn of_node(node: NonNull<Page>, level: usize) -> Word {
        node.as_ptr().expose_provenance();
        Word(node.as_ptr().cast::<u8>().map_addr(|address| address | level))
    }

    /// A word back from where it was kept.
    #[inline(always)]
    pub(crate) fn from_raw(raw: *mut u8) -> Word {
        Word(raw)
    }

    #[inline(always)]
    pub(crate) fn raw(self) -> *mut u8 {
        self.0
    }

    /// Pointer tags and all.
    #[inline(always)]
    pub(crate) fn bits(self) -> usize {
        self.0.addr()
    }

    /// The level of a node, counted from 1; 0 for anything else.
    #[inline(always)]
    pub(crate) fn level(self) -> usize {
        self.bits() & LEVEL
    }

    #[inline(always)]
    pub(crate) fn is_node(self) -> bool {
        self.level() != 0
    }

    #[inline(always)]
    pub(crate) fn is_marked(self) -> bool {
        self.bits() & MARK != 0
    }

    pub(crate) fn with_mark(self, marked: bool) -> Word {
        Word(self.0.map_addr(|address| if marked { address | MARK } else { address & !MARK }))
    }

    /// What the word points to, if anything.
    #[inline(always)]
    pub(crate) fn target(self) -> Option<NonNull<u8>> {
        NonNull::new(self.target_ptr::<u8>().cast_mut())
    }

    /// The version whose SVM index has this top node. Of the published word of a version that is kept alive.
    #[inline(always)]
    pub(crate) fn version(self) -> Option<NonNull<Version>> {
        self.node().and_then(|node| head_of(node).version)
    }

    /// What the word points to, or null.
    #[inline(always)]
    pub(crate) fn target_ptr<T>(self) -> *const T {
        // One instruction, where `map_addr` makes three of it. `of_record` and `of_node` exposed the pointer.
        ptr::with_exposed_provenance(self.bits() & !TAGS)
    }

    fn node(self) -> Option<NonNull<Page>> {
        if self.is_node() { self.target().map(NonNull::cast) } else { None }
    }

    /// The record, of a word that is no node.
    #[inline(always)]
    pub(crate) fn record(self) -> Option<NonNull<Record>> {
        if self.is_node() { None } else { self.target().map(NonNull::cast) }
    }
}

/// How far an address is shifted right to give a slot's number, in a node of this level.
#[inline(always)]
fn shift(level: usize) -> u32 {
    (level * BITS + PAGE_BITS - BITS) as u32
}

/// The slot of a node of this level that an address belongs to.
#[inline(always)]
fn index(address: usize, level: usize) -> usize {
    // In two parts: a loop over levels makes the first one once.
    (address >> (PAGE_BITS - BITS)).wrapping_shr((level * BITS) as u32) & (SLOTS - 1)
}

/// A range of addresses: its first and its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first: usize,
    pub(crate) last: usize,
}

impl Span {
    /// All addresses.
    pub(crate) const ALL: Span = Span { first: 0, last: usize::MAX };

    /// The whole pages that `size` bytes from `start` on touch; `size` is at least 1 and nothing wraps.
    pub(crate) fn of_pages(start: usize, size: usize) -> Span {
        Span { first: start & !(PAGE - 1), last: start.saturating_add(size - 1) | (PAGE - 1) }
    }

    /// The range of a node of this level that `address` is in.
    #[inline(always)]
    fn of_node(address: usize, level: usize) -> Span {
        let inside = usize::MAX.checked_shl(shift(level) + BITS as u32).map_or(usize::MAX, |outside| !outside);
        Span { first: address & !inside, last: address | inside }
    }

    /// The range of slot `index` of such a node.
    fn of_slot(node: Span, index: usize, level: usize) -> Span {
        let first = node.first | (index << shift(level));
        Span { first, last: first | ((1 << shift(level)) - 1) }
    }

    /// The lowest level whose nodes can hold all of it.
    fn level(self) -> usize {
        let differing = usize::BITS - ((self.first ^ self.last) >> PAGE_BITS).leading_zeros();
        (differing as usize).div_ceil(BITS).max(1)
    }

    fn contains(self, other: Span) -> bool {
        self.first <= other.first && other.last <= self.last
    }

    /// The part of it behind `last`, which is in it.
    pub(crate) fn behind(self, last: usize) -> Option<Span> {
        let first = last.checked_add(1).filter(|first| *first <= self.last)?;
        Some(Span { first, last: self.last })
    }

    /// What both have in common.
    fn and(self, other: Span) -> Option<Span> {
        let (first, last) = (self.first.max(other.first), self.last.min(other.last));
        (first <= last).then_some(Span { first, last })
    }

    /// The smallest range that holds both.
    fn with(self, other: Span) -> Span {
        Span { first: self.first.min(other.first), last: self.last.max(other.last) }
    }
}

/// The head of a node.
#[inline(always)]
fn head_of<'a>(node: NonNull<Page>) -> &'a Head {
    // SAFETY: callers give nodes of a version that a guard or the writer keeps, or of the edit under way, which is not being
    // written while the borrow lasts: heads are written with their nodes.
    unsafe { &*beside(node) }
}

/// A page index of a version that is being kept alive for `'s`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pages<'s> {
    word: Word,
    version: PhantomData<&'s Record>,
}

impl<'s> Pages<'s> {
    /// # Safety
    /// `word` belongs to a version that is not retired, or whose grace period has not passed, for all of `'s`.
    #[inline(always)]
    pub(crate) unsafe fn new(word: Word) -> Pages<'s> {
        Pages { word, version: PhantomData }
    }

    /// The word below a node that stands for `address`, if `address` is in the node's range. One load.
    #[inline(always)]
    pub(crate) fn below(self, address: usize) -> Pages<'s> {
        self.part(index(address, self.word.level()))
    }

    /// What a node's slot of this number says.
    #[inline(always)]
    fn part(self, number: usize) -> Pages<'s> {
        let slot = self.slot(number);
        #[cfg(loom)]
        crate::pool::reading(self.word.target_ptr::<Page>());
        // SAFETY: the word is a node's (all callers ask `is_node`), of a version that is alive (`new`'s contract); a node has
        // `SLOTS` slots, and none is written after the version is published.
        Pages { word: unsafe { *slot }, version: PhantomData }
    }

    /// Where [`Pages::below`] reads.
    #[inline(always)]
    pub(crate) fn slot_of(self, address: usize) -> *const Word {
        self.slot(index(address, self.word.level()))
    }

    /// Where a node has the slot of this number.
    #[inline(always)]
    fn slot(self, number: usize) -> *const Word {
        self.word.target_ptr::<Word>().wrapping_add(number & (SLOTS - 1))
    }

    #[inline(always)]
    pub(crate) fn word(self) -> Word {
        self.word
    }

    /// Marked, if `bits` have the mark.
    #[inline(always)]
    pub(crate) fn with_marks_of(self, bits: usize) -> Pages<'s> {
        // The pointer is exposed (`Word::target_ptr`).
        let marked = ptr::with_exposed_provenance_mut(self.word.bits() | (bits & MARK));
        Pages { word: Word(marked), version: PhantomData }
    }

    /// Whether `address` is in the range of this node.
    #[inline(always)]
    pub(crate) fn covers(self, address: usize) -> bool {
        // The bits above the slot's number agree.
        let differs = |node| (address ^ head_of(node).base) >> shift(self.word.level()) >= SLOTS;
        self.word.node().is_some_and(|node| !differs(node))
    }

    /// The record of a word that is no node.
    #[inline(always)]
    pub(crate) fn record(self) -> Option<&'s Record> {
        let record = self.word.record()?;
        #[cfg(loom)]
        crate::pool::reading(record.as_ptr());
        // SAFETY: records of a live version are initialised and never written again (`new`'s contract).
        Some(unsafe { record.as_ref() })
    }

    /// The word for the page of `address`, or for another page where the index has nothing for it: the caller checks bounds.
    /// Wait-free: one load a level.
    #[inline(always)]
    pub(crate) fn at(mut self, address: usize) -> Pages<'s> {
        while self.word.is_node() {
            self = self.below(address);
        }
        self
    }

    /// Whether registered host memory touches the page of `address`, or did. Wait-free: two loads a level.
    #[inline]
    #[cold]
    pub(crate) fn is_marked(mut self, address: usize) -> bool {
        while self.word.is_node() {
            if self.word.is_marked() {
                return true;
            }
            if !self.covers(address) {
                return false;
            }
            self = self.below(address);
        }
        self.word.is_marked()
    }

    /// The first record that starts at `from` or later. Wait-free: all slots of two nodes a level, at most, and of one more
    /// for each level that an object before it covers.
    pub(crate) fn next(self, from: usize) -> Option<&'s Record> {
        let Some(node) = self.word.node() else {
            return self.record().filter(|record| record.start >= from);
        };
        let (head, level) = (head_of(node), self.word.level());
        let range = Span::of_node(head.base, level);
        if head.with_objects == 0 || range.last < from {
            return None;
        }
        let first = if from <= range.first { 0 } else { index(from, level) };
        (first..SLOTS).find_map(|number| self.part(number).next(from))
    }

    /// Whether no object has a page in `span`. Wait-free: the slots of `span`, and two nodes a level.
    pub(crate) fn is_free(self, span: Span) -> bool {
        let Some(node) = self.word.node() else {
            return self.record().is_none();
        };
        let (head, level) = (head_of(node), self.word.level());
        let range = Span::of_node(head.base, level);
        let Some(part) = range.and(span).filter(|_| head.with_objects > 0) else { return true };
        (index(part.first, level)..=index(part.last, level)).all(|number| {
            let slot = Span::of_slot(range, number, level);
            slot.and(part).is_none_or(|part| self.part(number).is_free(part))
        })
    }
}
