//! The page index against a reference model: lists of ranges, searched from front to back.

use std::vec::Vec;

use proptest::prelude::*;

use super::edit::{Change, Edit};
use super::*;
use crate::address::PageSize;
use crate::index::Index;
use crate::pool::{Chain, Heap, Pool};
use crate::registry::tests::object;

/// An index, its nodes, and what it should hold.
struct Model {
    pool: Pool<Page>,
    retired: Chain<Page>,
    generation: usize,
    index: Word,
    objects: Vec<NonNull<Record>>,
    userptrs: Vec<Span>,
}

impl Model {
    fn new() -> Model {
        Model {
            pool: Pool::new(),
            retired: Chain::new(),
            generation: 1,
            index: Word::NONE,
            objects: Vec::new(),
            userptrs: Vec::new(),
        }
    }

    /// One change of a version of its own, with as many nodes at hand beside those that it needs.
    fn change(&mut self, at: Span, change: Change, spare: usize) {
        self.generation += 1;
        // Nodes of the version before the last.
        self.pool.give_all(&mut self.retired);
        self.pool.reserve(NODES_PER_EDIT + spare, &mut Heap).unwrap();
        while self.pool.available() > NODES_PER_EDIT + spare {
            let _lost = self.pool.take();
        }
        let mut edit = Edit { nodes: &mut self.pool, retired: &mut self.retired, generation: self.generation };
        let before = edit.nodes.available();
        self.index = edit.change(self.index, at, change).unwrap();
        if spare == 0 {
            assert!(before - edit.nodes.available() <= NODES_PER_CHANGE, "more nodes than a change may take");
        }
    }

    fn view(&self) -> Pages<'_> {
        // SAFETY: nodes come back with the next change only.
        unsafe { Pages::new(self.index) }
    }

    fn records(&self) -> impl Iterator<Item = &Record> {
        // SAFETY: leaked.
        self.objects.iter().map(|record| unsafe { record.as_ref() })
    }

    fn is_free(&self, span: Span) -> bool {
        self.records().all(|record| Span::of_pages(record.start, record.size).and(span).is_none())
    }

    /// Answers at the edges of everything; marks to the page, unless `coarse`.
    fn check(&self, coarse: bool) {
        let edges = |span: Span| [span.first, span.last, span.first.wrapping_sub(1), span.last.wrapping_add(1)];
        let spans = self.records().map(|record| Span::of_pages(record.start, record.size));
        let all: Vec<usize> =
            spans.chain(self.userptrs.iter().copied()).flat_map(edges).chain([0, usize::MAX]).collect();
        for address in all {
            let wanted = self.records().find(|record| address.wrapping_sub(record.start) < record.size);
            let found = self.view().holding(address, PageSize::FOUR_KIB);
            assert_eq!(found.map(|r| r.id), wanted.map(|r| r.id), "at {address:#x}");
            let touched = self.userptrs.iter().any(|span| span.first <= address && address <= span.last);
            let marked = self.view().is_marked(address);
            assert!(marked == touched || (coarse && marked), "{address:#x}: marked {marked}, touched {touched}");
            let next = self.records().filter(|record| record.start >= address).map(|record| record.start).min();
            assert_eq!(self.view().next(address).map(|record| record.start), next, "after {address:#x}");
            for len in [PAGE, 16 * PAGE, 5000 * PAGE] {
                let span =
                    Span { first: address & !(PAGE - 1), last: (address | (PAGE - 1)).saturating_add(len - PAGE) };
                assert_eq!(self.view().is_free(span), self.is_free(span), "{span:x?}");
            }
        }
        self.check_node(self.index, Span::ALL);
    }

    /// Counts are right, children lie within their slots, and no node is there that could be left out.
    fn check_node(&self, word: Word, slot: Span) {
        let Some(node) = word.node() else { return };
        let (head, range) = (head_of(node), Span::of_node(head_of(node).base, word.level()));
        assert!(slot.contains(range) && range.first == head.base, "{slot:x?} {range:x?}");
        // SAFETY: alive, as in `view`.
        let slots = unsafe { node.as_ref() }.slots;
        let bears =
            |word: &Word, of: fn(&Head) -> u8, own: bool| word.node().map_or(own, |node| own || of(head_of(node)) > 0);
        let objects =
            slots.iter().filter(|word| bears(word, |head| head.with_objects, word.record().is_some())).count();
        let marks = slots.iter().filter(|word| bears(word, |head| head.with_marks, word.is_marked())).count();
        let used = slots.iter().filter(|word| **word != Word::NONE).count();
        assert_eq!([used, objects, marks], [head.used, head.with_objects, head.with_marks].map(usize::from));
        let only = slots.iter().filter(|word| **word != Word::NONE).count() == 1
            && slots.iter().any(|word| word.is_node() && !word.is_marked());
        assert!(!only && (used > 0 || slot == Span::ALL), "a node that could be left out");
        for (number, below) in slots.iter().enumerate().filter(|(_, word)| word.is_node()) {
            self.check_node(*below, Span::of_slot(range, number, word.level()));
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert { at: usize, pages: usize },
    Replace { pick: usize },
    Remove { pick: usize },
    Register { at: usize, pages: usize },
    Deregister { pick: usize },
}

/// Page numbers that are near each other, near powers of two, and far apart.
fn page_number() -> impl Strategy<Value = usize> {
    let base =
        prop_oneof![Just(0x7_f000_0000_usize), Just(0x7_f001_0000), Just(0x55_5555), Just(0x10), Just(0x28_0000_0000)];
    (base, prop_oneof![3 => 0usize..200, 1 => 0usize..8000]).prop_map(|(base, page)| base + page)
}

fn step() -> impl Strategy<Value = Step> {
    let pages = || prop_oneof![4 => 1usize..6, 2 => 30usize..70, 1 => Just(32), 1 => Just(1024), 1 => 900usize..3000];
    let pick = || any::<prop::sample::Index>().prop_map(|index| index.index(1 << 20));
    prop_oneof![
        5 => (page_number(), pages()).prop_map(|(at, pages)| Step::Insert { at, pages }),
        1 => pick().prop_map(|pick| Step::Replace { pick }),
        3 => pick().prop_map(|pick| Step::Remove { pick }),
        4 => (page_number(), pages()).prop_map(|(at, pages)| Step::Register { at, pages }),
        3 => pick().prop_map(|pick| Step::Deregister { pick }),
    ]
}

/// Those of `span`'s pages that none of `others` touches, as ranges.
fn untouched(span: Span, others: &[Span]) -> Vec<Span> {
    let mut left = std::vec![span];
    for other in others {
        left = left
            .into_iter()
            .flat_map(|part| {
                let Some(both) = part.and(*other) else { return std::vec![part] };
                let before = both.first.checked_sub(1).filter(|last| *last >= part.first && both.first > part.first);
                let after = both.last.checked_add(1).filter(|first| *first <= part.last && both.last < part.last);
                let before = before.map(|last| Span { first: part.first, last });
                before.into_iter().chain(after.map(|first| Span { first, last: part.last })).collect()
            })
            .collect();
    }
    left
}

fn make(start: usize, pages: usize, id: usize) -> NonNull<Record> {
    NonNull::from(std::boxed::Box::leak(std::boxed::Box::new(object(id as u32, start, pages * PAGE))))
}

fn play(steps: &[Step], spare: usize) {
    let mut model = Model::new();
    for (number, step) in steps.iter().enumerate() {
        match *step {
            Step::Insert { at, pages } => {
                let span = Span::of_pages(at * PAGE, pages * PAGE);
                if model.is_free(span) {
                    let record = make(span.first, pages, number);
                    model.objects.push(record);
                    model.change(span, Change::Object(Some(record)), spare);
                }
            }
            Step::Replace { pick } | Step::Remove { pick } if !model.objects.is_empty() => {
                let pick = pick % model.objects.len();
                // SAFETY: leaked.
                let known = *unsafe { model.objects[pick].as_ref() };
                let span = Span::of_pages(known.start, known.size);
                if matches!(step, Step::Remove { .. }) {
                    model.objects.swap_remove(pick);
                    model.change(span, Change::Object(None), spare);
                } else {
                    model.objects[pick] = make(known.start, known.size / PAGE, number);
                    model.change(span, Change::Object(Some(model.objects[pick])), spare);
                }
            }
            Step::Register { at, pages } => {
                let span = Span::of_pages(at * PAGE, pages * PAGE);
                model.userptrs.push(span);
                model.change(span, Change::Mark(true), spare);
            }
            Step::Deregister { pick } if !model.userptrs.is_empty() => {
                let span = model.userptrs.swap_remove(pick % model.userptrs.len());
                for part in untouched(span, &model.userptrs.clone()) {
                    model.change(part, Change::Mark(false), spare);
                }
            }
            _ => {}
        }
        if number % 8 == 0 || number + 1 == steps.len() {
            model.check(spare == 0);
        }
    }
    // What is empty holds no node but a top.
    for record in std::mem::take(&mut model.objects) {
        // SAFETY: leaked.
        let known = unsafe { record.as_ref() };
        model.change(Span::of_pages(known.start, known.size), Change::Object(None), 1000);
    }
    for span in std::mem::take(&mut model.userptrs) {
        model.change(span, Change::Mark(false), 1000);
    }
    if spare > 0 {
        model.check(false);
        assert!(model.index.node().is_none_or(|node| head_of(node).used == 0), "left over");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_page_index_holds_what_was_put_there(steps in prop::collection::vec(step(), 1..160)) {
        play(&steps, 1000);
    }

    #[test]
    fn with_few_nodes_it_marks_too_much_and_never_too_little(steps in prop::collection::vec(step(), 1..160)) {
        play(&steps, 0);
    }
}

#[test]
fn a_level_is_left_out_where_only_one_part_is_in_use() {
    let mut model = Model::new();
    let near = [0x7f00_0000_0000, 0x7f00_0000_2000].map(|start| make(start, 1, 1));
    for record in near {
        // SAFETY: leaked.
        let start = unsafe { record.as_ref() }.start;
        model.objects.push(record);
        model.change(Span::of_pages(start, PAGE), Change::Object(Some(record)), 16);
    }
    assert_eq!(model.index.level(), 1, "both are in one node");
    let far = make(0x1000, 1, 2);
    model.objects.push(far);
    model.change(Span::of_pages(0x1000, PAGE), Change::Object(Some(far)), 16);
    assert_eq!(model.index.level(), (47 - 12usize).div_ceil(BITS));
    assert_eq!(model.view().below(0x7f00_0000_0000).word().level(), 1, "nothing between the top and the lowest level");
    model.check(false);
    model.objects.pop();
    model.change(Span::of_pages(0x1000, PAGE), Change::Object(None), 16);
    assert_eq!(model.index.level(), 1);
}

#[test]
fn a_page_that_no_userptr_touches_is_not_marked_by_a_neighbour() {
    let mut model = Model::new();
    let buffer = make(0x10_0000, 64, 1);
    model.objects.push(buffer);
    model.change(Span::of_pages(0x10_0000, 64 * PAGE), Change::Object(Some(buffer)), 16);
    model.userptrs.push(Span::of_pages(0x10_2123, 5));
    model.change(model.userptrs[0], Change::Mark(true), 16);
    model.check(false);
    model.userptrs.clear();
    model.change(Span::of_pages(0x10_2123, 5), Change::Mark(false), 16);
    model.check(false);
    assert_eq!(model.view().below(0x10_2000).record().map(|record| record.id.0), Some(1), "one slot again");
}

/// Bytes of nodes for each of many buffers with a page between them. ARCHITECTURE.md has the whole of it.
#[test]
fn nodes_take_few_bytes_for_an_object() {
    fn nodes(word: Word) -> usize {
        // SAFETY: alive, as in `view`.
        let below = |node: NonNull<Page>| unsafe { node.as_ref() }.slots.map(nodes).into_iter().sum::<usize>();
        word.node().map_or(0, |node| 1 + below(node))
    }
    for (pages, most) in [(1, 20), (4, 48), (16, 160)] {
        let mut model = Model::new();
        const OBJECTS: usize = 2000;
        for n in 0..OBJECTS {
            let record = make(0x7f12_3456_7000 - n * (pages + 1) * PAGE, pages, n);
            // SAFETY: leaked.
            let start = unsafe { record.as_ref() }.start;
            model.change(Span::of_pages(start, pages * PAGE), Change::Object(Some(record)), 16);
        }
        let bytes = nodes(model.index) * (size_of::<Page>() + 64) / OBJECTS;
        assert!(bytes <= most, "{pages} pages: {bytes} bytes of nodes an object");
    }
}

#[test]
fn the_whole_address_space_and_its_last_page() {
    let mut model = Model::new();
    for start in [0x1000, usize::MAX & !0xf_ffff, 1 << 63] {
        let record = make(start, 2, start);
        model.objects.push(record);
        model.change(Span::of_pages(start, 2 * PAGE), Change::Object(Some(record)), 16);
        model.check(false);
    }
    assert_eq!(model.index.level(), LEVELS);
}
