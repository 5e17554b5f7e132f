//! A registry of fixed capacity for several cores: what its [`Capacity`] promises fits, whatever comes and
//! goes, while another thread keeps asking or holds a session. Built as callers build it: the unit tests' periods are shorter.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hsakmt_core::address::{Bounds, PageSize};
use hsakmt_core::aperture::{Aperture, Layout};
use hsakmt_core::epoch::slots::{Barrier, Fences, SingleCore};
use hsakmt_core::fixed::{Capacity, StaticRegistry, StaticWriter};
use hsakmt_core::{flags::MemFlags, info::PointerType, node::NodeId, objects::Object};

const OBJECTS: usize = 60;
const USERPTRS: usize = 20;
const CAPACITY: Capacity = Capacity::objects(OBJECTS).userptrs(USERPTRS).node_lists(2);
const PAGE: usize = 4096;
const BASE: usize = 0x100_0000;

type Writer<B> = StaticWriter<2, B>;

/// [`Fences`] here, where a reader may be put aside in the middle of a question for as long as the system likes: the
/// writer waits for it, however long.
struct Patient;

// SAFETY: both halves are those of `Fences`.
unsafe impl Barrier for Patient {
    const PATIENCE: usize = usize::MAX;

    fn light(&self) {
        Fences.light();
    }

    fn heavy(&self) -> bool {
        Fences.heavy()
    }
}

fn layout() -> Layout {
    let mut layout = Layout::empty(PageSize::FOUR_KIB);
    (layout.svm, layout.dgpu) = (Bounds::new(BASE, 0x7fff_ffff), true);
    layout
}

fn start(place: usize) -> usize {
    BASE + place * 4 * PAGE
}

fn insert<B: Barrier>(writer: &mut Writer<B>, place: usize, mapped: &[NodeId]) {
    let userptr = place.is_multiple_of(3);
    let kind = if userptr { PointerType::RegisteredUser } else { PointerType::Allocated };
    let (start, node, flags) = (start(place), NodeId(1), MemFlags::NON_PAGED);
    let cpu = if userptr { 0x8000_0000 + place * PAGE } else { start };
    let object = Object { kind, start, size: PAGE, cpu, node, flags, user_data: place, registered: &[], mapped };
    writer.insert_object(Aperture::Svm, &object).unwrap_or_else(|error| panic!("within the capacity: {error:?}"));
}

/// Everything comes, changes to a list nobody had before, and goes, from either end; several times.
fn play<B: Barrier>(writer: &mut Writer<B>) {
    writer.set_layout(layout()).unwrap();
    let mut fresh = 0;
    for round in 0..12 {
        for place in 0..OBJECTS {
            insert(writer, if round % 2 == 0 { place } else { OBJECTS - 1 - place }, &[NodeId(1), NodeId(2)]);
        }
        // One object's list is new each time: two lists at any moment, and as many again that nobody holds.
        for _ in 0..200 {
            fresh += 1;
            writer.set_mapped(Aperture::Svm, start(1), &[NodeId(fresh)]).unwrap();
            writer.set_user_data(start(2), fresh as usize).unwrap();
        }
        for place in 0..OBJECTS {
            writer.remove_object(Aperture::Svm, start(place * 7 % OBJECTS)).unwrap();
        }
    }
    // Everything at once, then the layout twice more.
    (0..OBJECTS).for_each(|place| insert(writer, place, &[]));
    writer.clear_objects().unwrap();
    writer.set_layout(layout()).unwrap();
    writer.set_layout(layout()).unwrap();
}

#[test]
fn the_capacity_fits_alone() {
    static REGISTRY: StaticRegistry<{ CAPACITY.bytes() }, 2, Fences> = StaticRegistry::new(Fences);
    for _ in 0..2 {
        play(&mut REGISTRY.writer(PageSize::FOUR_KIB).unwrap());
    }
}

#[test]
fn the_capacity_fits_beside_a_reader_that_asks_and_asks() {
    static REGISTRY: StaticRegistry<{ CAPACITY.bytes() }, 2, Patient> = StaticRegistry::new(Patient);
    static DONE: AtomicBool = AtomicBool::new(false);
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let asking = std::thread::spawn(|| {
        let mut reader = REGISTRY.reader().unwrap();
        while !DONE.load(Ordering::Relaxed) {
            let place = ASKED.fetch_add(1, Ordering::Relaxed) % OBJECTS;
            reader.query_pointer(start(place) + 5, |info| {
                let Ok(info) = info else { return };
                let own = info.user_data == place || place == 2 || info.kind == PointerType::Unknown;
                assert!(own && info.mapped.ids().len() <= 2, "{info:?}");
            });
        }
    });
    while ASKED.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    play(&mut REGISTRY.writer(PageSize::FOUR_KIB).unwrap());
    DONE.store(true, Ordering::Relaxed);
    asking.join().unwrap();
}

/// More publishes than batches of any domain wait for: the memory is the limit.
#[test]
fn a_session_may_be_held_as_long_as_planned() {
    const HELD: usize = 100;
    const BYTES: usize = CAPACITY.held_over(HELD).bytes();
    // SAFETY: this test's thread is the only one.
    static REGISTRY: StaticRegistry<BYTES, 2, SingleCore> = StaticRegistry::new(unsafe { SingleCore::new() });
    let mut writer = REGISTRY.writer(PageSize::FOUR_KIB).unwrap();
    writer.set_layout(layout()).unwrap();
    (0..OBJECTS).for_each(|place| insert(&mut writer, place, &[NodeId(1)]));
    for round in 0..3 {
        let mut reader = REGISTRY.reader().unwrap();
        let mut session = reader.session();
        let snapshot = session.snapshot().unwrap();
        let before = snapshot.query_pointer(start(1)).mapped.ids().to_vec();
        for n in 0..HELD {
            let node = NodeId(2 + (round * HELD + n) as u32);
            writer.set_mapped(Aperture::Svm, start(1), &[node]).unwrap();
        }
        assert_eq!(snapshot.query_pointer(start(1)).mapped.ids(), before, "the version it holds");
    }
}
