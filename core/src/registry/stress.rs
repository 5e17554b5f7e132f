//! Readers beside a writer at full speed, in both domains: what is handed back is overwritten, so a reader that was not
//! waited for finds nonsense; and the thread sanitizer looks on (`tests/run`).
//!
//! Threads are spawned and joined one by one: a scope's last thread frees what it shares after a fence alone, which
//! the sanitizer does not understand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::vec::Vec;

use super::tests::{HOST, PAGE, layout, object, slot_address, userptr};
use super::*;
use crate::aperture::Aperture;
use crate::epoch::crossbeam::Crossbeam;
use crate::epoch::slots::{Fences, Slots};
use crate::info::{PointerInfo, PointerType};
use crate::pool::Heap;
use crate::record::Record;

/// Objects of each kind; as many again come and go.
const OBJECTS: usize = 60;

const READERS: usize = 2;

/// Writes; each is one publish or two.
const TURNS: usize = 4_000;

/// An object carries its own number as its word, in its low half; the high half counts changes.
fn word(id: usize, change: usize) -> usize {
    change << 32 | id
}

fn buffer(id: usize, change: usize) -> Record {
    Record { user_data: word(id, change), ..object(id as u32, slot_address(id, false), 0x1000) }
}

fn registered(id: usize, change: usize) -> Record {
    let start = slot_address(OBJECTS * 2 + id, false);
    Record { user_data: word(id, change), ..userptr(id as u32, start, HOST + id * 0x100, 0x80) }
}

/// Whether an answer is of this object, whole, or of none.
fn fits(info: &PointerInfo<'_>, id: usize, record: &Record) -> bool {
    match info.kind {
        PointerType::Unknown => id >= OBJECTS && info.size == 0 && info.user_data == 0,
        kind => kind == record.kind && info.size == record.size as u64 && info.user_data as u32 as usize == id,
    }
}

/// Asks until `stop`, and counts full rounds in `asked`.
fn read<D: Domain>(registry: &Registry<D>, stop: &AtomicBool, asked: &AtomicUsize) {
    let mut reader = registry.readers().reader().unwrap();
    while !stop.load(Ordering::Relaxed) {
        for id in 0..2 * OBJECTS {
            let (buffer, userptr) = (buffer(id, 0), registered(id, 0));
            reader.query_pointer(buffer.start + 5, |info| assert!(fits(&info.unwrap(), id, &buffer)));
            reader.query_pointer(userptr.cpu + 5, |info| assert!(fits(&info.unwrap(), id, &userptr)));
        }
        let mut session = reader.session();
        for id in 0..2 * OBJECTS {
            assert!(fits(&session.query_pointer(registered(id, 0).cpu).unwrap(), id, &registered(id, 0)));
            let addresses: Vec<usize> = (0..16).map(|next| buffer((id + next) % OBJECTS, 0).start).collect();
            let mut answers = [PointerInfo::UNKNOWN; 16];
            session.query_many(&addresses, &mut answers).unwrap();
            let fits = |(next, info)| fits(info, (id + next) % OBJECTS, &buffer(0, 0));
            assert!(answers.iter().enumerate().all(fits));
        }
        asked.fetch_add(1, Ordering::Relaxed);
    }
}

/// A reader may be off the processor while inside: then a write is refused, and changed nothing.
fn patiently(mut write: impl FnMut() -> Result<()>) {
    while let Err(error) = write() {
        assert_eq!(error, Error::ReadersStalled);
        thread::yield_now();
    }
}

fn write<D: Domain>(writer: &mut Writer<'_, D, Heap>, turn: usize) {
    let (staying, coming) = (turn % OBJECTS, OBJECTS + turn % OBJECTS);
    patiently(|| writer.reserve(6));
    writer.replace(Aperture::Svm, buffer(staying, turn)).unwrap();
    writer.replace(Aperture::Svm, registered(staying, turn)).unwrap();
    if (turn / OBJECTS).is_multiple_of(2) {
        writer.insert(Aperture::Svm, buffer(coming, turn)).unwrap();
        writer.insert(Aperture::Svm, registered(coming, turn)).unwrap();
    } else {
        writer.remove(Aperture::Svm, buffer(coming, 0).start).unwrap();
        writer.remove(Aperture::Svm, registered(coming, 0).start).unwrap();
    }
}

fn readers_beside_a_writer<D: Domain + Send + 'static>(domain: D) {
    let registry = Arc::new(Registry::with_domain(domain));
    let mut writer = registry.writer(PAGE, Heap).unwrap();
    writer.set_layout(layout(true)).unwrap();
    for id in 0..OBJECTS {
        writer.insert(Aperture::Svm, buffer(id, 0)).unwrap();
        writer.insert(Aperture::Svm, registered(id, 0)).unwrap();
    }
    let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let reader = |_| {
        let (registry, stop, asked) = (Arc::clone(&registry), Arc::clone(&stop), Arc::clone(&asked));
        thread::spawn(move || read(&registry, &stop, &asked))
    };
    let readers: Vec<_> = (0..READERS).map(reader).collect();
    // As long as it takes readers to ask beside the writer: the processor may have others to run.
    let rounds = || asked.load(Ordering::Relaxed);
    (0..).take_while(|turn| *turn < TURNS || rounds() < READERS).for_each(|turn| write(&mut writer, turn));
    stop.store(true, Ordering::Relaxed);
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    assert!(writer.passed > 10, "{} rounds of queries, {} periods", rounds(), writer.passed);
}

#[test]
fn slots_under_stress() {
    readers_beside_a_writer(Slots::<4, Fences>::new(Fences));
}

#[test]
fn crossbeam_under_stress() {
    readers_beside_a_writer(Crossbeam::new());
}
