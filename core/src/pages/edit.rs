//! The write side of the page index: what one range of addresses holds becomes another, in a copy of the nodes on the way.
//!
//! In: an index, a range of whole pages and a [`Change`]. Out: the new index. Nodes that the new version does not use are
//! retired. A node that this edit made is changed in place: two changes of one edit copy a node once.
//!
//! A change goes down at the two ends of its range, so it takes at most two nodes a level (`NODES_PER_CHANGE`). Where it covers a
//! node whole it goes through that node's slots too, as long as nodes are left over; else it makes do with what is
//! [coarse](Edit::coarse): a mark too many, which is slow and never wrong.

use core::ptr::NonNull;

use super::{Head, NODES_PER_EDIT, Page, SLOTS, Span, Word, head_of, index};
use crate::error::{Error, Result};
use crate::pool::{Chain, Pool, beside};
use crate::record::Record;

/// What becomes of each page of a range.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// It belongs to this object, or to none. Marks stay.
    Object(Option<NonNull<Record>>),
    /// Registered host memory touches it, or does not. Objects stay.
    Mark(bool),
}

impl Change {
    /// A word without parts, after the change.
    fn of(self, word: Word) -> Word {
        match self {
            Change::Object(record) => record.map_or(Word::NONE, Word::of_record).with_mark(word.is_marked()),
            Change::Mark(marked) => word.with_mark(marked),
        }
    }
}

/// The nodes of one edit.
pub(crate) struct Edit<'w> {
    pub(crate) nodes: &'w mut Pool<Page>,
    pub(crate) retired: &'w mut Chain<Page>,
    /// The version that is being made.
    pub(crate) generation: usize,
}

impl Edit<'_> {
    /// The index after a change of `at`. Needs [`NODES_PER_CHANGE`](super::NODES_PER_CHANGE) nodes.
    pub(crate) fn change(&mut self, index: Word, at: Span, change: Change) -> Result<Word> {
        self.change_part(index, Span::ALL, at, change)
    }

    /// The index with `record` in place of the record of the same object: no slot comes to be used or free. Takes at most two
    /// nodes a level.
    pub(crate) fn replace(&mut self, top: Word, at: Span, record: NonNull<Record>) -> Result<Word> {
        let owned = self.own(top.node().ok_or(Error::Failed)?)?;
        let (mut node, mut level) = (owned, top.level());
        loop {
            let range = Span::of_node(head_of(node).base, level);
            let at = at.and(range).ok_or(Error::Failed)?;
            let (first, last) = (index(at.first, level), index(at.last, level));
            let slot = slot_of(node, first);
            // SAFETY: made by this edit and not yet part of any version: the writer alone has the pointer.
            let old = unsafe { slot.read() };
            let Some(below) = old.node().filter(|_| first == last) else {
                self.replace_slots(node, first..=last, at, record)?;
                break;
            };
            let below = self.own(below)?;
            // SAFETY: as above.
            unsafe { slot.write(Word::of_node(below, old.level()).with_mark(old.is_marked())) };
            (node, level) = (below, old.level());
        }
        Ok(Word::of_node(owned, top.level()).with_mark(top.is_marked()))
    }

    /// The last step of [`Edit::replace`], or where the object is in several slots.
    #[inline(always)]
    fn replace_slots(
        &mut self,
        node: NonNull<Page>,
        slots: core::ops::RangeInclusive<usize>,
        at: Span,
        record: NonNull<Record>,
    ) -> Result<()> {
        let new = Word::of_record(record);
        for number in slots {
            let slot = slot_of(node, number);
            // SAFETY: made by this edit and not yet part of any version: the writer alone has the pointer.
            let old = unsafe { slot.read() };
            let new = if old.is_node() { self.replace(old, at, record)? } else { new.with_mark(old.is_marked()) };
            // SAFETY: as above.
            unsafe { slot.write(new) };
        }
        Ok(())
    }

    /// An index whose top node is of this edit and has `version` beside it: what readers get to see.
    pub(crate) fn top(&mut self, index: Word, version: NonNull<crate::version::Version>) -> Result<Word> {
        let (node, level) = match index.node() {
            Some(node) => (self.own(node)?, index.level()),
            None => (self.make(Page { slots: [Word::NONE; SLOTS] }, 0)?, 1),
        };
        self.head(node).version = Some(version);
        Ok(Word::of_node(node, level))
    }

    /// `word`, which stands for `slot`, after a change of `at`, a part of it.
    fn change_part(&mut self, word: Word, slot: Span, at: Span, change: Change) -> Result<Word> {
        if !word.is_node() {
            let whole = change.of(word);
            if at == slot || whole == word {
                return Ok(whole);
            }
        } else if let Some(whole) = self.change_at_once(word, slot, at, change) {
            return Ok(whole);
        }
        let Some((part, at, marked)) = self.open(word, slot, at, change)? else { return Ok(word) };
        let (node, level) = (part.node().ok_or(Error::Failed)?, part.level());
        let range = Span::of_node(at.first, level);
        for number in index(at.first, level)..=index(at.last, level) {
            let below = Span::of_slot(range, number, level);
            let Some(at) = below.and(at) else { continue };
            let old = slots_of(node).get(number).copied().unwrap_or(Word::NONE);
            let before = counts(old);
            let new =
                if at == below && !old.is_node() { change.of(old) } else { self.change_part(old, below, at, change)? };
            self.set(node, number, before, new);
        }
        let whole = self.close(part, slot);
        Ok(whole.with_mark(marked || whole.is_marked()))
    }

    /// A node's word after a change for which the node need not be looked into.
    fn change_at_once(&mut self, word: Word, slot: Span, at: Span, change: Change) -> Option<Word> {
        match change {
            Change::Mark(true) if at == slot || word.is_marked() => Some(word.with_mark(true)),
            Change::Mark(false)
                if (at == slot || !word.is_marked())
                    && word.node().is_some_and(|node| head_of(node).with_marks == 0) =>
            {
                Some(word.with_mark(false))
            }
            _ if at == slot && self.nodes.available() <= NODES_PER_EDIT => Some(self.coarse(word, change)),
            _ => None,
        }
    }

    /// What a change of all of a node's range comes to when nodes are short.
    #[cold]
    fn coarse(&mut self, word: Word, change: Change) -> Word {
        let Some(node) = word.node() else { return change.of(word) };
        match change {
            Change::Mark(_) => word,
            Change::Object(_) => {
                let marked = word.is_marked() || head_of(node).with_marks > 0;
                self.retire_all(word);
                change.of(Word::NONE.with_mark(marked))
            }
        }
    }

    /// A node of this edit that stands for (a part of) `slot` and holds what `word` does; then what of `at` is to be changed in
    /// it, and whether all of `slot` stays marked besides. `None` if nothing is to be changed.
    fn open(&mut self, word: Word, slot: Span, at: Span, change: Change) -> Result<Option<(Word, Span, bool)>> {
        let Some(node) = word.node() else {
            let level = if word == Word::NONE { at.level() } else { slot.level() };
            return Ok(Some((self.filled(word, at.first, level)?, at, false)));
        };
        let unmarks = matches!(change, Change::Mark(false));
        let (level, marked) = (word.level(), word.is_marked() && !(unmarks && at == slot));
        let range = Span::of_node(head_of(node).base, level);
        if marked && unmarks {
            // Each part is marked by itself from now on.
            let whole =
                if range == slot { word } else { self.around(word, range, Word::NONE.with_mark(true), slot.level())? };
            return Ok(Some((self.mark_parts(whole)?, at, false)));
        }
        if range.contains(at) {
            return Ok(Some((Word::of_node(self.own(node)?, level), at, marked)));
        }
        if change.of(Word::NONE) == Word::NONE {
            // Outside of the node nothing changes.
            let Some(at) = at.and(range) else { return Ok(None) };
            return Ok(Some((Word::of_node(self.own(node)?, level), at, marked)));
        }
        if head_of(node).used == 0 {
            self.retire(node);
            return Ok(Some((self.filled(Word::NONE, at.first, at.level())?, at, marked)));
        }
        Ok(Some((self.around(word.with_mark(false), range, Word::NONE, range.with(at).level())?, at, marked)))
    }

    /// A node of this level whose range has `first` in it, with `word` in each slot.
    fn filled(&mut self, word: Word, first: usize, level: usize) -> Result<Word> {
        let node = self.make(Page { slots: [word; SLOTS] }, Span::of_node(first, level).first)?;
        let (used, objects, marks) = counts(word);
        let all = |one: u8| one * SLOTS as u8;
        let head = self.head(node);
        (head.used, head.with_objects, head.with_marks) = (all(used), all(objects), all(marks));
        Ok(Word::of_node(node, level))
    }

    /// A node of a higher level with `inner`, whose range is `range`, in its slot and `outside` in all others.
    fn around(&mut self, inner: Word, range: Span, outside: Word, level: usize) -> Result<Word> {
        let outer = self.filled(outside, range.first, level)?;
        if let Some(node) = outer.node() {
            self.set(node, index(range.first, level), counts(outside), inner);
        }
        Ok(outer)
    }

    /// The node, of this edit, with a mark in each slot.
    fn mark_parts(&mut self, word: Word) -> Result<Word> {
        let node = self.own(word.node().ok_or(Error::Failed)?)?;
        for number in 0..SLOTS {
            let old = slots_of(node).get(number).copied().unwrap_or(Word::NONE);
            self.set(node, number, counts(old), old.with_mark(true));
        }
        Ok(Word::of_node(node, word.level()))
    }

    /// The shortest word for what a node of this edit holds, which stands for `slot`.
    fn close(&mut self, word: Word, slot: Span) -> Word {
        let Some(node) = word.node() else { return word };
        let (head, slots) = (head_of(node), slots_of(node));
        let shorter = match head.used {
            0 if slot != Span::ALL => Some(Word::NONE),
            1 => slots
                .iter()
                .copied()
                .find(|slot| *slot != Word::NONE)
                .filter(|only| only.is_node() && !only.is_marked()),
            _ if usize::from(head.used) == SLOTS && Span::of_node(head.base, word.level()) == slot => {
                let first = slots.first().copied().filter(|first| !first.is_node());
                first.filter(|first| slots.iter().all(|slot| slot == first))
            }
            _ => None,
        };
        let Some(shorter) = shorter else { return word };
        // SAFETY: a node of this edit is from this pool, in no chain and in no version: no reader has seen it.
        unsafe { self.nodes.give(node) };
        shorter
    }

    /// The node itself if this edit made it, else a copy of it; the original is retired.
    fn own(&mut self, node: NonNull<Page>) -> Result<NonNull<Page>> {
        if head_of(node).generation == self.generation {
            return Ok(node);
        }
        let copy = self.nodes.copy(page_of(node)).ok_or(Error::NoMemory)?;
        let head = Head { generation: self.generation, version: None, ..*head_of(node) };
        // SAFETY: the slot was just taken, and what stands beside its value is the writer's.
        unsafe { beside(copy).write(head) };
        self.retire(node);
        Ok(copy)
    }

    fn make(&mut self, page: Page, base: usize) -> Result<NonNull<Page>> {
        let node = self.nodes.make(page).ok_or(Error::NoMemory)?;
        let generation = self.generation;
        let head = Head { base, generation, version: None, used: 0, with_objects: 0, with_marks: 0 };
        // SAFETY: the slot was just taken, and what stands beside its value is the writer's.
        unsafe { beside(node).write(head) };
        Ok(node)
    }

    /// Writes one slot of a node of this edit, and what the node counts; the slot counted for `before`.
    fn set(&mut self, node: NonNull<Page>, number: usize, before: (u8, u8, u8), new: Word) {
        // SAFETY: made by this edit and not yet part of any version: the writer alone has the pointer.
        unsafe { slot_of(node, number).write(new) };
        let after = counts(new);
        let head = self.head(node);
        head.used = head.used - before.0 + after.0;
        head.with_objects = head.with_objects - before.1 + after.1;
        head.with_marks = head.with_marks - before.2 + after.2;
    }

    /// The head of a node of this edit.
    fn head<'a>(&mut self, node: NonNull<Page>) -> &'a mut Head {
        // SAFETY: made by this edit and not yet part of any version: the writer alone has the pointer, and no caller here
        // keeps two borrows of one head.
        unsafe { &mut *beside(node) }
    }

    /// Every node from `word` down.
    fn retire_all(&mut self, word: Word) {
        let Some(node) = word.node() else { return };
        for slot in slots_of(node) {
            self.retire_all(*slot);
        }
        self.retire(node);
    }

    fn retire(&mut self, node: NonNull<Page>) {
        // SAFETY: the node came from this pool, is in no chain (it was part of the old version until now, or made by this
        // edit), and the edit retires each node that it replaces once.
        unsafe { self.retired.push(node) };
    }
}

/// What a slot adds to its node's counts: whether it is used, holds an object, holds a mark.
fn counts(word: Word) -> (u8, u8, u8) {
    let below = word.node().map(head_of);
    let objects = below.map_or(word.record().is_some(), |head| head.with_objects > 0);
    let marks = word.is_marked() || below.is_some_and(|head| head.with_marks > 0);
    (u8::from(word != Word::NONE), u8::from(objects), u8::from(marks))
}

/// Where a node has the slot of this number.
fn slot_of(node: NonNull<Page>, number: usize) -> *mut Word {
    node.cast::<Word>().as_ptr().wrapping_add(number & (SLOTS - 1))
}

fn page_of<'a>(node: NonNull<Page>) -> &'a Page {
    // SAFETY: nodes of the newest version and of this edit are initialised; the writer, the only one that could change or
    // reuse them, does neither while it holds the borrow, which never leaves this module.
    unsafe { node.as_ref() }
}

fn slots_of<'a>(node: NonNull<Page>) -> &'a [Word; SLOTS] {
    &page_of(node).slots
}
