//! Readers that stand still, periods that do not pass: what the writer does then.

use super::super::tests::{PAGE, layout, object, slot_address};
use super::*;
use crate::aperture::Aperture;
use crate::epoch::slots::{Barrier, Fences, Slots};
use crate::pool::Heap;
use crate::primitive::{AtomicUsize, Ordering};
use crate::record::Record;
use crate::registry::Registry;

/// A domain of slots that counts how often its writer pauses.
struct Paused(Slots<4, Fences>, AtomicUsize);

/// The pauses that it allows in a row.
const PAUSES: usize = 3;

// SAFETY: every method is `Slots`' own.
unsafe impl Domain for Paused {
    type Local<'d> = <Slots<4, Fences> as Domain>::Local<'d>;
    type Guard<'l> = <Slots<4, Fences> as Domain>::Guard<'l>;
    type Grace<'d> = PausedPeriods<'d>;

    fn join(&self) -> Option<Self::Local<'_>> {
        self.0.join()
    }

    fn enter<'l>(local: &'l mut Self::Local<'_>) -> Self::Guard<'l> {
        Slots::enter(local)
    }

    fn refresh(guard: &mut Self::Guard<'_>) {
        Slots::refresh(guard);
    }

    unsafe fn grace(&self) -> PausedPeriods<'_> {
        // SAFETY: by contract.
        PausedPeriods(unsafe { self.0.grace() }, &self.1)
    }
}

struct PausedPeriods<'d>(<Slots<4, Fences> as Domain>::Grace<'d>, &'d AtomicUsize);

impl Grace for PausedPeriods<'_> {
    fn begin(&mut self) -> usize {
        self.0.begin()
    }

    fn passed(&mut self, period: usize) -> bool {
        self.0.passed(period)
    }

    fn pause(&mut self, attempt: usize) -> bool {
        self.1.fetch_add(1, Ordering::Relaxed);
        attempt + 1 < PAUSES
    }
}

#[test]
fn after_one_pause_in_vain_writes_fail_at_once_until_the_reader_moves() {
    let mut registry = Registry::with_domain(Paused(Slots::new(Fences), AtomicUsize::new(0)));
    let (mut writer, readers) = registry.split(PAGE, Heap).unwrap();
    writer.set_layout(layout(true)).unwrap();
    writer.insert(Aperture::Svm, object(0, slot_address(0, false), 0x1000)).unwrap();
    let changed = Record { user_data: 1, ..object(0, slot_address(0, false), 0x1000) };
    let change = |writer: &mut Writer<'_, Paused, Heap>| -> Result<()> {
        writer.reserve(1)?;
        writer.replace(Aperture::Svm, changed)
    };
    let pauses = |writer: &Writer<'_, Paused, Heap>| writer.registry.domain.1.load(Ordering::Relaxed);
    let mut reader = readers.reader().unwrap();
    for limit in [RETIRED_LIMIT, 2 * RETIRED_LIMIT] {
        writer.limit_retired(limit);
        let mut session = reader.session();
        let before = pauses(&writer);
        let error = (0..100_000).find_map(|_| change(&mut writer).err());
        assert_eq!(error, Some(Error::ReadersStalled));
        assert!((limit..limit + limit / 4).contains(&writer.waiting_bytes()), "{} of {limit}", writer.waiting_bytes());
        assert_eq!(pauses(&writer), before + PAUSES);
        assert!((0..100).all(|_| change(&mut writer) == Err(Error::ReadersStalled)));
        assert_eq!(pauses(&writer), before + PAUSES, "no further pause");
        // A removal goes on: the object can always be ended.
        assert_eq!(writer.reserve_removal(), Ok(()));
        let moved = |_| {
            session.query_pointer(0).unwrap();
            change(&mut writer).err()
        };
        assert_eq!((0..1000).find_map(moved), None);
        assert_eq!(pauses(&writer), before + PAUSES, "a reader that has moved is not waited for");
    }
}

/// A limit below what one batch retires.
#[test]
fn a_small_limit_begins_periods_early() {
    let mut registry = Registry::with_domain(Paused(Slots::new(Fences), AtomicUsize::new(0)));
    let (mut writer, readers) = registry.split(PAGE, Heap).unwrap();
    writer.set_layout(layout(true)).unwrap();
    writer.insert(Aperture::Svm, object(0, slot_address(0, false), 0x1000)).unwrap();
    writer.limit_retired(4 << 10);
    let mut reader = readers.reader().unwrap();
    for n in 0..1000 {
        reader.query_pointer(n, |found| assert!(found.is_ok()));
        writer.reserve(1).unwrap();
        writer.replace(Aperture::Svm, Record { user_data: n, ..object(0, slot_address(0, false), 0x1000) }).unwrap();
    }
    assert_eq!(writer.registry.domain.1.load(Ordering::Relaxed), 0);
}

#[test]
fn a_reader_that_stands_still_stops_writes_not_readers() {
    let mut registry = Registry::new();
    let (mut writer, readers) = registry.split(PAGE, Heap).unwrap();
    writer.set_layout(layout(true)).unwrap();
    writer.insert(Aperture::Svm, object(0, slot_address(0, false), 0x1000)).unwrap();
    let mut still = readers.reader().unwrap();
    let mut moving = readers.reader().unwrap();
    let session = still.session();
    let stalled = (0..100_000).find_map(|n| {
        writer.reserve(1).err().or_else(|| {
            writer.replace(Aperture::Svm, Record { user_data: n, ..object(0, slot_address(0, false), 0x1000) }).err()
        })
    });
    assert_eq!(stalled, Some(Error::ReadersStalled));
    moving.query_pointer(slot_address(0, false), |found| assert_eq!(found.unwrap().size, 0x1000));
    drop(session);
    writer.reserve(1).unwrap();
}

/// A barrier that the kernel refuses at first.
#[derive(Default)]
struct Refused(core::sync::atomic::AtomicBool);

// SAFETY: the light half is a full fence, and so is the heavy one where it says that it was had.
unsafe impl Barrier for Refused {
    fn light(&self) {
        core::sync::atomic::fence(Ordering::SeqCst);
    }

    fn heavy(&self) -> bool {
        core::sync::atomic::fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn a_period_without_its_barrier_never_passes() {
    let mut registry = Registry::with_domain(Slots::<4, Refused>::new(Refused::default()));
    let (mut writer, readers) = registry.split(PAGE, Heap).unwrap();
    writer.set_layout(layout(true)).unwrap();
    writer.insert(Aperture::Svm, object(0, slot_address(0, false), 0x1000)).unwrap();
    let _reader = readers.reader().unwrap();
    let again = Record { user_data: 1, ..object(0, slot_address(0, false), 0x1000) };
    let stalled =
        (0..100_000).find_map(|_| writer.reserve(1).err().or_else(|| writer.replace(Aperture::Svm, again).err()));
    assert_eq!(stalled, Some(Error::ReadersStalled));
    writer.registry.domain.barrier().0.store(true, Ordering::Relaxed);
    writer.reserve(1).unwrap();
    assert_eq!(writer.passed, 1);
}
