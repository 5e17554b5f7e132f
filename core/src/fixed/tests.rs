//! Whatever order objects come and go in: what [`Capacity`] promised fits, look-ups stay within their steps, and what
//! does not fit changes nothing.

use std::boxed::Box;
use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::address::Bounds;
use crate::aperture::Aperture;
use crate::epoch::slots::SingleCore;
use crate::flags::MemFlags;
use crate::info::PointerType;
use crate::node::NodeId;
use crate::objects::Object;
use crate::tree::shape::shape;
use crate::tree::size::visited;

const PAGE: usize = 4096;
const BASE: usize = 0x100_0000;
/// Host addresses of userptrs lie here, outside SVM.
const HOST: usize = 0x8000_0000;

const OBJECTS: usize = 300;
const USERPTRS: usize = 120;
const LISTS: usize = 6;
const CAPACITY: Capacity = Capacity::objects(OBJECTS).userptrs(USERPTRS).node_lists(LISTS);

type Small = StaticRegistry<{ CAPACITY.bytes() }, 2, SingleCore>;
type SmallWriter = StaticWriter<2, SingleCore>;

/// In place of a `static` of each test's own.
fn registry() -> &'static Small {
    // SAFETY: each test keeps its registry on one thread.
    Box::leak(Box::new(StaticRegistry::new(unsafe { SingleCore::new() })))
}

fn layout() -> Layout {
    let mut layout = Layout::empty(PageSize::FOUR_KIB);
    (layout.svm, layout.dgpu) = (Bounds::new(BASE, 0x7fff_ffff), true);
    layout
}

const NODES: [[NodeId; 2]; LISTS] = [
    [NodeId(1), NodeId(2)],
    [NodeId(2), NodeId(1)],
    [NodeId(1), NodeId(3)],
    [NodeId(3), NodeId(1)],
    [NodeId(2), NodeId(3)],
    [NodeId(3), NodeId(2)],
];

/// The `n`-th place; every userptr reaches over a few of its neighbours.
fn object(n: usize, userptr: bool) -> Object<'static> {
    let mapped = &NODES[n % LISTS];
    let plain = Object {
        kind: PointerType::Allocated,
        start: BASE + n * 8 * PAGE,
        size: PAGE,
        cpu: BASE + n * 8 * PAGE,
        node: NodeId(1),
        flags: MemFlags::NON_PAGED,
        user_data: n,
        registered: &[],
        mapped,
    };
    if !userptr {
        return plain;
    }
    Object {
        kind: PointerType::RegisteredUser,
        cpu: HOST + n * 1000,
        size: 3000 + n % 5 * 100,
        mapped: &[],
        registered: mapped,
        ..plain
    }
}

fn insert(writer: &mut SmallWriter, n: usize, userptr: bool) -> Result<()> {
    writer.insert_object(Aperture::Svm, &object(n, userptr))
}

fn remove(writer: &mut SmallWriter, n: usize) -> Result<()> {
    writer.remove_object(Aperture::Svm, object(n, false).start)
}

/// Every address that could be found, and some that cannot: right answers within the steps promised.
fn check(registry: &Small, alive: &BTreeMap<usize, bool>) {
    let mut reader = registry.reader().unwrap();
    for n in 0..OBJECTS {
        let start = object(n, false).start;
        visited::take();
        let found = reader.query_pointer(start, |info| info.map(|info| (info.kind, info.user_data))).unwrap();
        assert!(visited::take() <= CAPACITY.steps(), "a look-up takes more steps than stated");
        match alive.get(&n) {
            Some(false) => assert_eq!(found, (PointerType::Allocated, n)),
            Some(true) => assert_eq!(found, (PointerType::RegisteredUser, n)),
            None => assert_eq!(found.0, PointerType::Unknown),
        }
        let host = HOST + n * 1000 + 999;
        let at = reader.query_pointer(host, |info| info.unwrap().user_data);
        assert!(visited::take() <= CAPACITY.steps(), "a userptr look-up takes more steps than stated");
        let twin = alive.iter().rfind(|(n, userptr)| {
            let (cpu, size) = (object(**n, true).cpu, object(**n, true).size);
            **userptr && cpu <= host && host < cpu + size
        });
        assert_eq!(at, twin.map_or(0, |(n, _)| *n));
    }
}

/// Plays `steps` (place, whether a userptr, whether to insert), never above the capacity.
fn play(steps: impl IntoIterator<Item = (usize, bool, bool)>) {
    let registry = registry();
    let mut writer = registry.writer(PageSize::FOUR_KIB).unwrap();
    writer.set_layout(layout()).unwrap();
    let mut alive = BTreeMap::new();
    for (n, userptr, comes) in steps {
        if comes && !alive.contains_key(&n) {
            let userptr = userptr && alive.values().filter(|userptr| **userptr).count() < USERPTRS;
            insert(&mut writer, n, userptr).unwrap();
            alive.insert(n, userptr);
        } else if !comes && alive.remove(&n).is_some() {
            remove(&mut writer, n).unwrap();
        } else if alive.contains_key(&n) {
            writer.set_mapped(Aperture::Svm, object(n, false).start, &NODES[(n + 1) % LISTS]).unwrap();
        }
    }
    check(registry, &alive);
    shape(writer.version().tree(Aperture::Svm)).check(alive.len());
    shape(writer.version().userptrs()).check(alive.values().filter(|userptr| **userptr).count());
}

fn all(order: impl Iterator<Item = usize> + Clone) -> impl Iterator<Item = (usize, bool, bool)> + Clone {
    order.map(|n| (n, n % 5 < 2, true))
}

#[test]
fn the_capacity_fits_in_any_order() {
    let up = 0..OBJECTS;
    play(all(up.clone()));
    play(all(up.clone().rev()));
    // From the middle outwards, and from both ends.
    play(all((0..OBJECTS / 2).flat_map(|n| [OBJECTS / 2 + n, OBJECTS / 2 - 1 - n])));
    play(all((0..OBJECTS / 2).flat_map(|n| [n, OBJECTS - 1 - n])));
    // Full nodes thinned out to one entry, and filled in between again.
    for keep in [2, 7, 8, 9, 15, 16, 17] {
        let thin = up.clone().filter(move |n| n % keep != 0).map(|n| (n, false, false));
        play(all(up.clone()).chain(thin.clone()).chain(all(up.clone())).chain(thin).chain(all(up.clone().rev())));
    }
}

/// Every other leaf thinned out to one entry between two full ones, and then one more in each of those, which splits it
/// in 8 and 9: the emptiest leaves there are without two that should have been joined.
#[test]
fn the_capacity_fits_in_the_emptiest_leaves() {
    let registry = registry();
    let mut writer = registry.writer(PageSize::FOUR_KIB).unwrap();
    writer.set_layout(layout()).unwrap();
    // Places of two, so that there is one in between.
    let leaf = |leaf: usize| (0..16).map(move |n| (leaf * 16 + n) * 2);
    let pairs = (OBJECTS - 32) / 18;
    leaf(0).for_each(|n| insert(&mut writer, n, false).unwrap());
    for pair in 0..pairs {
        leaf(2 * pair + 1).for_each(|n| insert(&mut writer, n, false).unwrap());
        leaf(2 * pair + 2).for_each(|n| insert(&mut writer, n, false).unwrap());
        leaf(2 * pair + 1).skip(1).for_each(|n| remove(&mut writer, n).unwrap());
    }
    (0..=pairs).for_each(|pair| insert(&mut writer, leaf(2 * pair).nth(7).unwrap() + 1, false).unwrap());
    let objects = writer.snapshot().iter().count();
    let shape = shape(writer.version().tree(Aperture::Svm));
    assert!(objects <= OBJECTS && shape.lowest * 13 >= objects * 2, "{shape:?} of {objects}: not the emptiest");
    shape.check(objects);
}

/// Two branches become one, at whose border a leaf with one record stands beside another.
#[test]
fn leaves_that_met_where_two_branches_became_one_are_joined() {
    let steps = |range: core::ops::Range<usize>, comes| range.map(move |n| (n, false, comes));
    play(steps(0..257, true).chain(steps(241..256, false)).chain(steps(0..16, false)));
}

/// The same three levels high, in a tree that is thinned out and filled in again here and there: no two neighbours hold too
/// little, and the memory is enough.
#[test]
fn a_high_tree_holds_its_size() {
    const PLACES: usize = 6000;
    const BYTES: usize = Capacity::objects(PLACES).node_lists(LISTS).bytes();
    // SAFETY: the registry stays on this thread.
    static REGISTRY: StaticRegistry<BYTES, 2, SingleCore> = StaticRegistry::new(unsafe { SingleCore::new() });
    let mut writer = REGISTRY.writer(PageSize::FOUR_KIB).unwrap();
    writer.set_layout(layout()).unwrap();
    (0..PLACES).for_each(|n| insert(&mut writer, n, false).unwrap());
    let (mut there, mut highest) = ((0..PLACES).collect::<BTreeSet<_>>(), 0);
    let mut random = 0x2545_f491_4f6c_dd1d_usize;
    for step in 0..1500 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        // A stretch of places becomes full, or keeps every 16th, 17th, ... or none.
        let (from, len, keep) = (random % PLACES, 1 + (random >> 16) % 300, 1 + (random >> 32) % 24);
        for n in from..PLACES.min(from + len) {
            let stays = step % 3 == 0 || (keep < 20 && n % keep == 0);
            if stays && there.insert(n) {
                insert(&mut writer, n, false).unwrap();
            } else if !stays && there.remove(&n) {
                remove(&mut writer, n).unwrap();
            }
        }
        if step % 10 == 0 {
            let shape = shape(writer.version().tree(Aperture::Svm));
            shape.check(there.len());
            highest = highest.max(shape.height);
        }
    }
    assert_eq!(highest, 3);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_capacity_fits_whatever_comes_and_goes(
        steps in prop::collection::vec((0..OBJECTS, any::<bool>(), prop::bool::weighted(0.6)), 1..2500),
    ) {
        play(steps);
    }
}

#[test]
fn full_is_an_error_that_changes_nothing() {
    let registry = registry();
    let mut writer = registry.writer(PageSize::FOUR_KIB).unwrap();
    writer.set_layout(layout()).unwrap();
    let places = 10_000;
    let refused = (0..places).find(|n| insert(&mut writer, *n, false).is_err()).expect("memory has an end");
    assert!(refused >= OBJECTS, "{refused} fit");
    let before: Vec<_> = writer.snapshot().iter().map(|info| (info.gpu_address, info.user_data)).collect();
    let generation = registry.generation();
    assert_eq!(insert(&mut writer, refused, false), Err(Error::NoMemory));
    assert_eq!((registry.generation(), before.len()), (generation, refused));
    let after: Vec<_> = writer.snapshot().iter().map(|info| (info.gpu_address, info.user_data)).collect();
    assert_eq!(before, after);
    // Full as it is, everything that ends something works, and there is room again.
    for n in 0..refused {
        remove(&mut writer, n).unwrap();
    }
    (0..OBJECTS).for_each(|n| insert(&mut writer, n, false).unwrap());
}

/// What pools took beyond the capacity stays theirs, and comes back with the next writer.
#[test]
fn whoever_goes_beyond_the_capacity_is_promised_it_again_by_the_next_writer() {
    const BYTES: usize = Capacity::objects(8).node_lists(8).bytes();
    // SAFETY: the registry stays on this thread.
    static REGISTRY: StaticRegistry<BYTES, 2, SingleCore> = StaticRegistry::new(unsafe { SingleCore::new() });
    let with_lists = |writer: &mut SmallWriter| (0..LISTS).try_for_each(|n| insert(writer, n, false));
    for overfill in [false, true, false] {
        let mut writer = REGISTRY.writer(PageSize::FOUR_KIB).unwrap();
        writer.set_layout(layout()).unwrap();
        if overfill {
            let plain = |n| Object { mapped: &[], ..object(n, false) };
            let beyond = (0..).find(|n| writer.insert_object(Aperture::Svm, &plain(*n)).is_err()).unwrap();
            assert!(beyond > 8, "{beyond} fit");
            (0..beyond).for_each(|n| remove(&mut writer, n).unwrap());
            assert_eq!(with_lists(&mut writer), Err(Error::NoMemory));
        } else {
            with_lists(&mut writer).unwrap();
        }
    }
}

#[test]
fn a_session_that_is_held_stops_the_writer_and_nothing_else() {
    let registry = registry();
    let mut writer = registry.writer(PageSize::FOUR_KIB).unwrap();
    writer.set_layout(layout()).unwrap();
    insert(&mut writer, 0, false).unwrap();
    let mut reader = registry.reader().unwrap();
    let mut session = reader.session();
    let snapshot = session.snapshot().unwrap();
    let stopped = (1..10_000).find_map(|n| writer.set_user_data(BASE, n).err().map(|error| (error, n)));
    let (error, n) = stopped.expect("memory that waits has an end");
    assert!(matches!(error, Error::NoMemory | Error::ReadersStalled), "{error:?}");
    assert_eq!(snapshot.query_pointer(BASE).user_data, 0, "the version it holds");
    assert_eq!(registry.query_pointer(BASE, |info| info.unwrap().user_data), Some(n - 1), "the newest");
    assert!(registry.reader().is_some_and(|_other| registry.query_pointer(BASE, |_| ()).is_none()), "no third place");
    drop(session);
    writer.set_user_data(BASE, 5).unwrap();
}

#[test]
fn one_writer_at_a_time_and_the_next_finds_all_memory() {
    let registry = registry();
    for _ in 0..3 {
        let mut writer = registry.writer(PageSize::FOUR_KIB).unwrap();
        assert_eq!(registry.writer(PageSize::FOUR_KIB).err(), Some(Error::AlreadyOpened));
        writer.set_layout(layout()).unwrap();
        (0..OBJECTS).for_each(|n| insert(&mut writer, n, false).unwrap());
    }
    assert_eq!(registry.query_pointer(BASE, |info| info.err()), Some(Some(Error::NotOpened)));
}

#[test]
fn steps_are_few() {
    let steps = |objects, userptrs| Capacity::objects(objects).userptrs(userptrs).steps();
    assert_eq!([steps(8, 0), steps(9, 0), steps(100, 0), steps(1000, 0), steps(100_000, 0)], [1, 2, 3, 5, 8]);
    assert_eq!(steps(100_000, 10_000), 8 + 2 * 7);
}
