//! Publish, read, retire, reuse, under loom: every order in which two or three threads may see each other's stores, up
//! to a number of preemptions (LOOM_MAX_PREEMPTIONS, 2 if it is not set).
//!
//! In: the registry itself, its writer, both domains; built with `--cfg loom --cfg crossbeam_loom`, which makes grace
//! periods one publish long. Each slot of the pools is watched (`primitive::Watch`): a reading that does not come
//! before the reuse of what it read, or after its making, is a panic, whichever came first in that run. Besides,
//! answers must be right: what is handed back is overwritten at once.
//!
//! Out: `holds`, that no order breaks it; `mutants`, that each thing it rests on is missed when it is left out.
//!
//! What loom does not model: membarrier. The heavy and the light half of a barrier are both full fences here, which is
//! what the kernel promises them to be together.
#![cfg(loom)]

mod domains;
mod holds;
mod mutants;
mod pages;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hsakmt_core::address::{Bounds, PageSize};
use hsakmt_core::aperture::{Aperture, Layout};
use hsakmt_core::epoch::Domain;
use hsakmt_core::flags::MemFlags;
use hsakmt_core::info::PointerType;
use hsakmt_core::node::NodeId;
use hsakmt_core::objects::Object;
use hsakmt_core::pool::Heap;
use hsakmt_core::registry::{Registry, Writer};

/// Where the one object is.
const START: usize = 0x4000;

/// Versions published beside the readers: the first is retired, its period begun, ended, and its memory used again.
const WRITES: usize = 4;

const BUFFER: Object<'static> = Object {
    kind: PointerType::Allocated,
    start: START,
    size: 0x2000,
    cpu: START,
    node: NodeId(1),
    flags: MemFlags::NON_PAGED,
    user_data: 0,
    registered: &[],
    mapped: &[],
};

/// Which versions readers saw, over all orders: a model in which they see but one shows nothing.
#[derive(Debug, Default)]
struct Seen([AtomicUsize; WRITES + 1]);

impl Seen {
    fn note(&self, version: usize) {
        self.0[version].fetch_add(1, Ordering::Relaxed);
    }

    fn different(&self) -> usize {
        self.0.iter().filter(|seen| seen.load(Ordering::Relaxed) > 0).count()
    }
}

/// Tries every order of `model`.
fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.max_branches = 100_000;
    let orders = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&orders);
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    println!("{} orders", orders.load(Ordering::Relaxed));
}

/// A registry with its object, a writer that changes it [`WRITES`] times, and readers, each a thread of its own.
fn beside_a_writer<D: Domain + Send + 'static>(domain: fn() -> D, readers: &'static [fn(&Registry<D>, &Seen)]) {
    let seen = Arc::new(Seen::default());
    let seen_by_all = Arc::clone(&seen);
    explore(move || {
        let registry = Arc::new(Registry::with_domain(domain()));
        let mut writer = registry.writer(PageSize::FOUR_KIB, Heap).expect("the only writer");
        fill(&mut writer);
        let read = |read: &fn(&Registry<D>, &Seen)| {
            let (read, registry, seen) = (*read, Arc::clone(&registry), Arc::clone(&seen_by_all));
            loom::thread::spawn(move || read(&registry, &seen))
        };
        let readers: Vec<_> = readers.iter().map(read).collect();
        for version in 1..=WRITES {
            writer.set_user_data(START, version).expect("memory for one edit");
        }
        readers.into_iter().for_each(|reader| reader.join().expect("a reader that is right"));
        drop(writer);
    });
    assert!(seen.different() > 2, "{seen:?}");
}

fn fill<D: Domain>(writer: &mut Writer<'_, D, Heap>) {
    let mut layout = Layout::empty(PageSize::FOUR_KIB);
    (layout.svm, layout.dgpu) = (Bounds::new(0x1000, 0xff_ffff), true);
    writer.set_layout(layout).expect("memory for a layout");
    writer.insert_object(Aperture::Svm, &BUFFER).expect("memory for an object");
}

/// Asks once, one-shot: the version.
fn ask<D: Domain>(reader: &mut hsakmt_core::reader::Reader<'_, D>) -> usize {
    reader.query_pointer(START + 8, |info| {
        let info = info.expect("it is open");
        assert_eq!((info.kind, info.size), (BUFFER.kind, BUFFER.size as u64));
        info.user_data
    })
}

/// A reader that asks twice, one question at a time.
fn twice<D: Domain>(registry: &Registry<D>, seen: &Seen) {
    let mut reader = registry.readers().reader().expect("a place");
    let first = ask(&mut reader);
    let second = ask(&mut reader);
    assert!(first <= second, "{first} and then {second}");
    seen.note(first);
    seen.note(second);
}

/// A reader that asks twice in one session, and looks at the first answer for as long as it may.
fn in_a_session<D: Domain>(registry: &Registry<D>, seen: &Seen) {
    let mut reader = registry.readers().reader().expect("a place");
    let mut session = reader.session();
    let snapshot = session.snapshot().expect("it is open");
    let first = snapshot.query_pointer(START).user_data;
    loom::thread::yield_now();
    assert_eq!(snapshot.query_pointer(START).user_data, first, "a version never changes");
    let second = session.query_pointer(START).expect("it is open").user_data;
    assert!(first <= second, "{first} and then {second}");
    seen.note(first);
    seen.note(second);
}
