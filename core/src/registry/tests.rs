//! Tree, userptr index, routing and registry against a dumb twin: a `Vec` searched from front to back.

use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::address::Bounds;
use crate::aperture::Aperture;
use crate::epoch::slots::{Fences, Slots};
use crate::flags::MemFlags;
use crate::info::{PointerInfo, PointerType};
use crate::node::NodeId;
use crate::pool::{Heap, Scarce};
use crate::record::{ObjectId, Record};

pub(super) const PAGE: PageSize = PageSize::FOUR_KIB;
const SVM: Bounds = Bounds::new(0x10_0000, 0x7fff_ffff_ffff);

pub(super) fn layout(mmap: bool) -> Layout {
    let mut layout = Layout::empty(PAGE);
    layout.svm = SVM;
    layout.mem_handle = Bounds::new(0x8000_0000_0000, 0x1_0000_0000_0000);
    (layout.mmap, layout.dgpu) = (mmap, true);
    layout
}

pub(crate) fn object(id: u32, start: usize, size: usize) -> Record {
    Record {
        start,
        cpu: start,
        size,
        user_data: 0,
        registered: List::EMPTY,
        mapped: List::EMPTY,
        flags: MemFlags::empty(),
        node: NodeId(1),
        id: ObjectId(id),
        kind: PointerType::Allocated,
    }
}

pub(super) fn userptr(id: u32, start: usize, cpu: usize, size: usize) -> Record {
    Record { cpu, kind: PointerType::RegisteredUser, ..object(id, start, size) }
}

/// The twin: SPEC 3 word for word, over a list.
#[derive(Default)]
struct Twin {
    objects: Vec<(Aperture, Record)>,
    mmap: bool,
}

impl Twin {
    fn stab(&self, address: usize) -> Option<Record> {
        let holds = |r: &Record| r.is_userptr() && r.cpu <= address && address - r.cpu < r.size;
        let holding: Vec<Record> = self.objects.iter().map(|(_, r)| *r).filter(holds).collect();
        let starting = holding.iter().filter(|r| r.cpu == address).min_by_key(|r| r.size);
        starting.or_else(|| holding.iter().max_by_key(|r| (r.cpu, r.size))).copied()
    }

    fn query(&self, address: usize) -> Option<u32> {
        let aperture = if SVM.contains(address) {
            Some(Aperture::Svm)
        } else if layout(true).mem_handle.contains(address) {
            Some(Aperture::MemHandle)
        } else {
            None
        };
        let asks_userptrs = aperture.is_none() || (aperture == Some(Aperture::Svm) && self.mmap);
        let user = if asks_userptrs { self.stab(address) } else { None };
        let inside = |r: &Record| r.start <= address && address - r.start < r.extent(PAGE);
        let by_address = || self.objects.iter().find(|(a, r)| Some(*a) == aperture && inside(r)).map(|(_, r)| *r);
        user.or_else(by_address).map(|r| r.id.0)
    }

    fn exact_userptr(&self, address: usize, size: Option<usize>) -> Option<u32> {
        let fits = |r: &&Record| r.is_userptr() && r.cpu == address && size.is_none_or(|size| size == r.size);
        let mut all = self.objects.iter().map(|(_, r)| r).filter(fits);
        let first = all.next()?;
        if all.next().is_some() { None } else { Some(first.id.0) }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Allocate { slot: usize, pages: usize, handle: bool },
    Register { slot: usize, page: usize, offset: usize, size: usize },
    Remove { pick: usize },
    UserData { pick: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![1usize..64, Just(0x1000), Just(0x3000), 1usize..0x20000];
    prop_oneof![
        3 => (0usize..400, 1usize..4, any::<bool>()).prop_map(|(slot, pages, handle)| Step::Allocate { slot, pages, handle }),
        5 => (0usize..400, 0usize..24, prop_oneof![Just(0), 0usize..0x1000], size)
            .prop_map(|(slot, page, offset, size)| Step::Register { slot, page, offset, size }),
        3 => any::<prop::sample::Index>().prop_map(|i| Step::Remove { pick: i.index(1 << 20) }),
        1 => any::<prop::sample::Index>().prop_map(|i| Step::UserData { pick: i.index(1 << 20) }),
    ]
}

/// Where GPU addresses are; each slot is far enough from the next for the largest object.
pub(super) fn slot_address(slot: usize, handle: bool) -> usize {
    if handle { 0x8000_0000_0000 + slot * 0x4_0000 } else { 0x4000_0000 + slot * 0x4_0000 }
}

/// Where userptrs are.
pub(super) const HOST: usize = 0x2000_0000;

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn registry_answers_like_its_twin(steps in proptest::collection::vec(step(), 1..500), mmap: bool) {
        answers_like_its_twin(Registry::new(), Heap, &steps, mmap)?;
        answers_like_its_twin(Registry::new(), Scarce, &steps, mmap)?;
        answers_like_its_twin(Registry::with_domain(Slots::<4, Fences>::new(Fences)), Heap, &steps, mmap)?;
    }
}

/// With either domain, and either kind of address index.
fn answers_like_its_twin<D: Domain, M: Memory>(
    mut registry: Registry<D>,
    memory: M,
    steps: &[Step],
    mmap: bool,
) -> Result<(), TestCaseError> {
    let (mut writer, readers) = registry.split(PAGE, memory).unwrap();
    writer.set_layout(layout(mmap)).unwrap();
    let mut twin = Twin { mmap, ..Twin::default() };
    let mut reader = readers.reader().unwrap();
    let mut session = reader.session();
    for (id, step) in (0u32..).zip(steps) {
        match *step {
            Step::Allocate { slot, pages, handle } => {
                let aperture = if handle { Aperture::MemHandle } else { Aperture::Svm };
                let record = object(id, slot_address(slot, handle), pages * PAGE.bytes());
                let taken = twin.objects.iter().any(|(a, r)| *a == aperture && r.start == record.start);
                prop_assert_eq!(writer.insert(aperture, record).is_err(), taken);
                if !taken {
                    twin.objects.push((aperture, record));
                }
            }
            Step::Register { slot, page, offset, size } => {
                let record = userptr(id, slot_address(slot, false), HOST + page * PAGE.bytes() + offset, size);
                let taken = twin.objects.iter().any(|(a, r)| *a == Aperture::Svm && r.start == record.start)
                    || twin.exact_userptr(record.cpu, Some(record.size)).is_some();
                if !taken {
                    writer.reserve(1).unwrap();
                    writer.insert(Aperture::Svm, record).unwrap();
                    twin.objects.push((Aperture::Svm, record));
                }
            }
            Step::Remove { pick } if !twin.objects.is_empty() => {
                let (aperture, record) = twin.objects.swap_remove(pick % twin.objects.len());
                writer.remove(aperture, record.start).unwrap();
                prop_assert!(writer.remove(aperture, record.start).is_err());
            }
            Step::UserData { pick } if !twin.objects.is_empty() => {
                let pick = pick % twin.objects.len();
                let (aperture, record) = &mut twin.objects[pick];
                record.user_data = id as usize;
                writer.replace(*aperture, *record).unwrap();
            }
            _ => {}
        }
        if id % 16 != 0 && id as usize + 1 != steps.len() {
            continue;
        }
        let edges = twin.objects.iter().flat_map(|(_, r)| {
            let gpu = [r.start, r.start + r.extent(PAGE) - 1, r.start + r.extent(PAGE), r.start.wrapping_sub(1)];
            gpu.into_iter().chain([r.cpu, r.cpu + 1, r.cpu + r.size - 1, r.cpu + r.size, r.cpu.wrapping_sub(1)])
        });
        for address in edges.chain([0, 1, usize::MAX, usize::MAX - 1, HOST]) {
            let found = session.snapshot().unwrap().find_record(address).map(|r| r.id.0);
            prop_assert_eq!(found, twin.query(address), "at {:#x}", address);
        }
        if writer.uses_pages {
            // The mark of each page, to the page.
            let touches = |page: usize| {
                let mut userptrs = twin.objects.iter().map(|(_, r)| r).filter(|r| r.is_userptr());
                userptrs.any(|r| r.cpu <= page | 0xfff && page <= (r.cpu + r.size - 1))
            };
            for page in (HOST - 0x1000..HOST + 0x4_0000).step_by(0x1000).chain([0, usize::MAX & !0xfff]) {
                // SAFETY: the writer keeps the version.
                let marked = unsafe { writer.snapshot().published.svm() }.is_marked(page);
                prop_assert_eq!(marked, touches(page), "the mark of page {:#x}", page);
            }
        }
        let asked: Vec<usize> = twin.objects.iter().flat_map(|(_, r)| [r.start, r.cpu, r.start + r.size]).collect();
        let mut many = std::vec![PointerInfo::UNKNOWN; asked.len()];
        let snapshot = session.snapshot().unwrap();
        snapshot.query_many(&asked, &mut many);
        for (address, many) in asked.iter().zip(&many) {
            let one = snapshot.query_pointer(*address);
            prop_assert_eq!((one.kind, one.gpu_address, one.size), (many.kind, many.gpu_address, many.size));
        }
        prop_assert_eq!(snapshot.iter().count(), twin.objects.len());
        for (_, r) in twin.objects.iter().filter(|(_, r)| r.is_userptr()) {
            let any = writer.version().userptrs().only_at(r.cpu).map(|r| r.id.0);
            prop_assert_eq!(any, twin.exact_userptr(r.cpu, None));
            let exact = writer.find(r.cpu, Wanted::Exact(r.size)).filter(|(_, found)| found.is_userptr());
            prop_assert!(exact.is_none() || exact.is_some_and(|(_, found)| (found.cpu, found.size) == (r.cpu, r.size)));
        }
    }
    drop(session);
    writer.clear().unwrap();
    prop_assert_eq!(writer.next(Aperture::Svm, 0).map(|r| r.id), None);
    Ok(())
}

/// All objects of an index, in order.
fn walk<D: Domain, M: Memory>(writer: &Writer<'_, D, M>, aperture: Aperture) -> Vec<usize> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(record) = writer.next(aperture, from) {
        found.push(record.start);
        from = record.start + 1;
    }
    found
}

#[test]
fn many_objects_in_three_orders() {
    let total = 5000usize;
    let ascending = |n: usize| n;
    let descending = |n: usize| total - 1 - n;
    let shuffled = |n: usize| (n * 2741) % total;
    for order in [&ascending as &dyn Fn(usize) -> usize, &descending, &shuffled] {
        let mut registry = Registry::new();
        let (mut writer, _) = registry.split(PAGE, Heap).unwrap();
        writer.set_layout(layout(true)).unwrap();
        for n in 0..total {
            writer.reserve(1).unwrap();
            writer.insert(Aperture::Svm, object(n as u32, slot_address(order(n), false), 0x1000)).unwrap();
        }
        let expected: Vec<usize> = (0..total).map(|n| slot_address(n, false)).collect();
        assert_eq!(walk(&writer, Aperture::Svm), expected);
        assert!(writer.version().height() <= 4, "height {}", writer.version().height());
        for n in (0..total).filter(|n| n % 7 != 0) {
            writer.reserve(1).unwrap();
            writer.remove(Aperture::Svm, slot_address(order(n), false)).unwrap();
        }
        let mut left: Vec<usize> = (0..total).step_by(7).map(|n| slot_address(order(n), false)).collect();
        left.sort_unstable();
        assert_eq!(walk(&writer, Aperture::Svm), left);
    }
}

#[test]
fn case_4_a_shared_base_is_answered_asymmetrically() {
    let mut registry = Registry::new();
    let (mut writer, readers) = registry.split(PAGE, Heap).unwrap();
    writer.set_layout(layout(true)).unwrap();
    let a = HOST;
    for (id, (cpu, size)) in (0u32..).zip([(a, 0x1000), (a, 0x3000), (a + 0x800, 0x400)]) {
        writer.insert(Aperture::Svm, userptr(id, slot_address(id as usize, false), cpu, size)).unwrap();
    }
    let mut reader = readers.reader().unwrap();
    let mut session = reader.session();
    let mut size_at = |address| session.query_pointer(address).unwrap().size;
    assert_eq!(size_at(a), 0x1000);
    assert_eq!(size_at(a + 1), 0x3000);
    assert_eq!(size_at(a + 0x900), 0x400);
    assert_eq!(size_at(a + 0xc00), 0x3000);
}

#[test]
fn marks_go_with_the_last_userptr_that_touches_a_page() {
    let mut registry = Registry::new();
    let (mut writer, _) = registry.split(PAGE, Heap).unwrap();
    writer.set_layout(layout(true)).unwrap();
    let marked = |writer: &Writer<'_, _, _>, page: usize| {
        // SAFETY: the writer keeps the version.
        unsafe { writer.snapshot().published.svm() }.is_marked(page)
    };
    // A large one around many small ones, and two that share a page; then one at the end of all addresses.
    let large = userptr(0, slot_address(0, false), HOST, 64 * 0x1000);
    writer.insert(Aperture::Svm, large).unwrap();
    let small = |n: usize| userptr(n as u32, slot_address(n, false), HOST + n * 3 * 0x1000 + 0xf00, 0x200);
    (1..20).for_each(|n| writer.insert(Aperture::Svm, small(n)).unwrap());
    writer.remove(Aperture::Svm, large.start).unwrap();
    for page in 0..64 {
        let touched = (1..20).any(|n| [n * 3, n * 3 + 1].contains(&page));
        assert_eq!(marked(&writer, HOST + page * 0x1000), touched, "page {page}");
    }
    (1..20).for_each(|n| writer.remove(Aperture::Svm, small(n).start).unwrap());
    assert!((0..64).all(|page| !marked(&writer, HOST + page * 0x1000)));
    let last = userptr(1, slot_address(1, false), usize::MAX - 0x4fff, 0x4000);
    writer.insert(Aperture::Svm, last).unwrap();
    assert!(marked(&writer, last.cpu + 0x3fff) && !marked(&writer, usize::MAX));
    writer.remove(Aperture::Svm, last.start).unwrap();
    assert!(!marked(&writer, last.cpu));
}

/// A removal that finds no memory for clearing marks leaves them, and changes no answer.
#[test]
fn marks_that_stay_are_never_wrong_and_go_with_the_next_userptr_there() {
    let memory = Limited::default();
    let mut registry = Registry::new();
    let (mut writer, readers) = registry.split(PAGE, &memory).unwrap();
    writer.set_layout(layout(true)).unwrap();
    let large = userptr(0, slot_address(0, false), HOST, 0x40_0000);
    writer.insert(Aperture::Svm, large).unwrap();
    let small = |n: usize| userptr(n as u32, slot_address(16 * n, false), HOST + n * 0x3_0000, 0x1000);
    (1..20).for_each(|n| writer.insert(Aperture::Svm, small(n)).unwrap());
    let is_marked = |writer: &Writer<'_, _, _>, page: usize| {
        // SAFETY: the writer keeps the version.
        unsafe { writer.snapshot().published.svm() }.is_marked(page)
    };
    // A reader holds what was replaced, and there is no more than a removal needs.
    let mut holder = readers.reader().unwrap();
    let session = holder.session();
    writer.top_up_in_place(0).unwrap();
    memory.0.set(true);
    let least = crate::pages::nodes_in_place(writer.version().level());
    while writer.pools.nodes.pages.available() > least {
        let _lost = writer.pools.nodes.pages.take();
    }
    writer.remove(Aperture::Svm, large.start).unwrap();
    assert!(is_marked(&writer, HOST + 0x1_0000), "no memory for clearing: the test is no test");
    let mut reader = readers.reader().unwrap();
    for n in 1..20 {
        let size = |address| reader.query_pointer(address, |info| info.unwrap().size);
        assert_eq!([small(n).cpu, small(n).cpu + 0x1000].map(size), [0x1000, 0], "{n}");
    }
    memory.0.set(false);
    drop(session);
    writer.insert(Aperture::Svm, large).unwrap();
    writer.remove(Aperture::Svm, large.start).unwrap();
    assert!(!is_marked(&writer, HOST + 0x1_0000) && is_marked(&writer, small(1).cpu));
}

/// A source that fails while its flag is set.
#[derive(Default)]
struct Limited(core::cell::Cell<bool>);

// SAFETY: `Heap`'s.
unsafe impl Memory for &Limited {
    fn take(&mut self, layout: core::alloc::Layout) -> Option<NonNull<u8>> {
        if self.0.get() { None } else { Heap.take(layout) }
    }

    unsafe fn give(&mut self, block: NonNull<u8>, layout: core::alloc::Layout) {
        // SAFETY: by contract.
        unsafe { Heap.give(block, layout) }
    }
}

#[test]
fn case_5_the_rightmost_start_that_holds_the_address() {
    let mut registry = Registry::new();
    let (mut writer, _) = registry.split(PAGE, Heap).unwrap();
    writer.set_layout(layout(true)).unwrap();
    writer.insert(Aperture::Svm, userptr(0, slot_address(0, false), HOST, 0x20)).unwrap();
    writer.insert(Aperture::Svm, userptr(1, slot_address(1, false), HOST + 8, 8)).unwrap();
    assert_eq!(writer.find(HOST + 0x18, Wanted::Range).map(|(_, r)| r.id.0), Some(0));
    assert_eq!(writer.find(HOST + 0xf, Wanted::Range).map(|(_, r)| r.id.0), Some(1));
}

#[test]
fn nested_stacked_and_suffix_families_agree_with_a_linear_search() {
    for family in 0..4usize {
        let mut registry = Registry::new();
        let (mut writer, _) = registry.split(PAGE, Heap).unwrap();
        writer.set_layout(layout(true)).unwrap();
        let mut twin = Twin { mmap: true, ..Twin::default() };
        for n in 0..600usize {
            let (cpu, size) = match family {
                0 => (HOST + n * 16, (600 - n) * 32),
                1 => (HOST, n + 1),
                2 => (HOST + n * 8, 600 * 8 - n * 8),
                _ => (HOST + (n % 20) * 64, 1 + (n * 37) % 5000),
            };
            let record = userptr(n as u32, slot_address(n, false), cpu, size);
            if twin.exact_userptr(cpu, Some(size)).is_none() {
                writer.reserve(1).unwrap();
                writer.insert(Aperture::Svm, record).unwrap();
                twin.objects.push((Aperture::Svm, record));
            }
        }
        for address in (HOST - 2..HOST + 20_000).step_by(3) {
            let found = writer.find(address, Wanted::Range).map(|(_, r)| r.id.0);
            assert_eq!(found, twin.query(address), "family {family} at {address:#x}");
        }
    }
}

/// The same families large: every interval against a linear search, where the index has five levels.
#[test]
fn a_hundred_thousand_intervals_agree_with_a_linear_search() {
    const COUNT: usize = 100_000;
    for family in 0..4usize {
        let mut registry = Registry::new();
        let (mut writer, _) = registry.split(PAGE, Heap).unwrap();
        writer.set_layout(layout(true)).unwrap();
        let mut twin: Vec<(usize, usize)> = Vec::new();
        for n in 0..COUNT {
            let (cpu, size) = match family {
                // Nested, one base, one end, stacked.
                0 => (HOST + n * 16, (COUNT - n) * 32),
                1 => (HOST, n + 1),
                2 => (HOST + n * 8, (COUNT - n) * 8),
                _ => (HOST + (n % 20_000) * 64, 1 + (n * 37) % 50_000 + n / 20_000 * 50_000),
            };
            writer.reserve(1).unwrap();
            writer.insert(Aperture::Svm, userptr(n as u32, 0x10_0000_0000 + n * 0x100_0000, cpu, size)).unwrap();
            twin.push((cpu, size));
        }
        let reaches = 2 * COUNT * 32;
        for step in 0..300usize {
            let address = HOST - 2 + step * 7919 * 31 % reaches;
            let holds = twin.iter().filter(|(cpu, size)| *cpu <= address && address - cpu < *size);
            let at = holds.clone().filter(|(cpu, _)| *cpu == address).min();
            let wanted = at.or(holds.max());
            let found = writer.version().userptrs().stab(address).map(|record| (record.cpu, record.size));
            assert_eq!(found.as_ref(), wanted, "family {family} at {address:#x}");
        }
    }
}

#[test]
fn readers_see_nothing_before_and_after() {
    let mut registry = Registry::new();
    assert_eq!(registry.readers().reader().unwrap().session().query_pointer(1).unwrap_err(), Error::NotOpened);
    let (mut writer, readers) = registry.split(PAGE, Heap).unwrap();
    let mut reader = readers.reader().unwrap();
    assert_eq!(reader.session().query_pointer(1).unwrap().kind, PointerType::Unknown);
    writer.close();
    assert_eq!(reader.session().query_pointer(1).unwrap_err(), Error::NotOpened);
    writer.open();
    assert_eq!(reader.session().query_pointer(1).unwrap().kind, PointerType::Unknown);
    assert_eq!(writer.registry.writer(PAGE, Heap).unwrap_err(), Error::AlreadyOpened);
    drop(writer);
    assert_eq!(reader.session().query_pointer(1).unwrap_err(), Error::NotOpened);
}

#[test]
fn a_steady_state_takes_no_memory() {
    // Verbs that publish twice after one reserve, after an even and an odd number of publishes.
    (0..2).for_each(steady_after);
}

fn steady_after(publishes: usize) {
    let mut registry = Registry::new();
    let (mut writer, _) = registry.split(PAGE, Heap).unwrap();
    writer.set_layout(layout(true)).unwrap();
    for n in 0..200usize {
        writer.insert(Aperture::Svm, object(n as u32, slot_address(n, false), 0x1000)).unwrap();
    }
    for n in 0..publishes {
        writer.replace(Aperture::Svm, object(n as u32, slot_address(n, false), 0x1000)).unwrap();
    }
    let mut turn = |n: usize| {
        writer.reserve(2).unwrap();
        writer.remove(Aperture::Svm, slot_address(n % 200, false)).unwrap();
        writer.insert(Aperture::Svm, object(n as u32, slot_address(n % 200, false), 0x1000)).unwrap();
        let at_hand = writer.pools.nodes.pages.available() + writer.retired.nodes.pages.len();
        at_hand + writer.waiting.as_ref().map_or(0, |(_, batch)| batch.nodes.pages.len())
    };
    (0..1000).for_each(|n| _ = turn(n));
    let before = turn(0);
    (0..1000).for_each(|n| _ = turn(n));
    assert_eq!(turn(0), before, "nodes at hand, retired or waiting");
}

#[test]
fn a_stalled_reader_does_not_keep_objects_from_ending() {
    let mut registry = Registry::new();
    let (mut writer, readers) = registry.split(PAGE, Heap).unwrap();
    writer.set_layout(layout(true)).unwrap();
    for n in 0..20usize {
        writer.insert(Aperture::Svm, object(n as u32, slot_address(n, false), 0x1000)).unwrap();
    }
    let mut still = readers.reader().unwrap();
    let session = still.session();
    let again = Record { user_data: 1, ..object(0, slot_address(0, false), 0x1000) };
    while writer.reserve(1).is_ok() {
        writer.replace(Aperture::Svm, again).unwrap();
    }
    for n in 0..20usize {
        writer.reserve_to_end(2).unwrap();
        writer.remove(Aperture::Svm, slot_address(n, false)).unwrap();
    }
    assert_eq!(writer.next(Aperture::Svm, 0).map(|r| r.start), None);
    drop(session);
    writer.reserve(1).unwrap();
}

/// SPEC 1: how long the arrays that a C caller was given stay readable, without a guard.
#[test]
fn node_arrays_outlive_their_guard_and_for_a_while_their_object() {
    use crate::objects::Object;
    let mut registry = Registry::new();
    let (mut writer, readers) = registry.split(PAGE, Heap).unwrap();
    writer.set_layout(layout(true)).unwrap();
    let (one, other) = (slot_address(0, false), slot_address(1, false));
    let nodes = [NodeId(1), NodeId(2), NodeId(1)];
    let buffer = Object {
        kind: PointerType::Allocated,
        start: one,
        size: 0x1000,
        cpu: one,
        node: NodeId(1),
        flags: MemFlags::empty(),
        user_data: 0,
        registered: &nodes[..2],
        mapped: &nodes,
    };
    writer.insert_object(Aperture::Svm, &buffer).unwrap();
    writer.insert_object(Aperture::Svm, &Object { start: other, mapped: &[], ..buffer }).unwrap();
    let mut reader = readers.reader().unwrap();
    let mut arrays =
        || reader.query_pointer(one, |info| info.map(|info| (info.registered.as_ptr(), info.mapped.as_ptr())));
    // SAFETY: what this test is about: the arrays are kept for as long as SPEC says, guard or no guard.
    let ids = |array: *const u32, len| unsafe { core::slice::from_raw_parts(array, len) }.to_vec();
    let first = arrays().unwrap();

    for n in 0..300 {
        writer.set_user_data(one, n).unwrap();
        writer.set_mapped(Aperture::Svm, other, &[NodeId(n as u32 % 7)]).unwrap();
        assert_eq!(arrays().unwrap(), first, "neither user data nor another object moves them");
    }
    writer.set_mapped(Aperture::Svm, one, &[NodeId(2)]).unwrap();
    let changed = arrays().unwrap();
    assert_eq!(changed.0, first.0, "a change of the mapping does not move the registration");
    assert_ne!(changed.1, first.1);
    let (publishes, periods) = (writer.snapshot().generation(), writer.passed);
    writer.remove_object(Aperture::Svm, one).unwrap();
    loop {
        let (publishes, periods) = (writer.snapshot().generation() - publishes, writer.passed - periods);
        if publishes >= crate::list::KEEP_PUBLISHES && periods >= crate::list::KEEP_EPOCHS {
            break;
        }
        assert_eq!(
            (ids(first.0, 2), ids(first.1, 3), ids(changed.1, 1)),
            (std::vec![1, 2], std::vec![1, 2, 1], std::vec![2])
        );
        writer.set_user_data(other, publishes).unwrap();
    }
}
