//! Readers while verbs run.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;
use crate::error::Error;

/// Ends the readers' loops, also when the writer's side panics.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// On a busy machine a reader may be off the processor while inside; the write is refused then, and changed nothing.
fn patiently<T>(mut verb: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match verb() {
            Err(Error::ReadersStalled) => std::thread::yield_now(),
            done => return done,
        }
    }
}

/// What a reader saw of one address, as one word: 0 for unknown.
fn seen(info: &crate::info::PointerInfo<'_>) -> usize {
    match info.kind {
        PointerType::Unknown => 0,
        _ => info.size as usize | usize::from(info.flags.contains(MemFlags::HOST_ACCESS)),
    }
}

#[test]
fn case_40_an_address_is_its_old_owners_its_new_owners_or_unknown() {
    let mut m = Bench::new().start();
    let place = vram(&mut m, G1, P);
    m.free(place).unwrap();
    let readers = m.writer.readers();
    let (stop, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut reader = readers.reader().unwrap();
                while !stop.load(Ordering::Relaxed) {
                    let word = reader.query_pointer(place, |answer| {
                        let info = answer.unwrap();
                        assert_eq!(info.kind == PointerType::Unknown, info.gpu_address == 0);
                        assert!(info.mapped.is_empty() || info.mapped.ids() == [1, 2]);
                        seen(&info)
                    });
                    assert!([0, P, 2 * P + 1].contains(&word), "{word:#x}");
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let _stop = Stop(&stop);
        let mut rounds = 0;
        while rounds < 2000 || (asked.load(Ordering::Relaxed) < 1000 && rounds < 200_000) {
            for (size, flags) in [(P, VRAM), (2 * P, VRAM | MemFlags::HOST_ACCESS)] {
                let flags = flags | MemFlags::FIXED_ADDRESS;
                assert_eq!(patiently(|| m.allocate(G1, size, 0, flags, place)), Ok(place));
                assert_eq!(patiently(|| m.map(place, size)), Ok(None));
                assert_eq!(patiently(|| m.free(place)), Err(Error::Failed), "refused, and published again");
                assert_eq!(patiently(|| m.unmap(place)), Ok(()));
                assert_eq!(patiently(|| m.free(place)), Ok(()));
            }
            m.driver.log.clear();
            rounds += 1;
        }
    });
    check(&m);
}

#[test]
fn case_43_queries_while_the_channel_closes() {
    let bench = Bench::new();
    let mut m = furnished(&bench);
    let place = vram(&mut m, G1, P);
    let readers = m.writer.readers();
    let (stop, closed) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut reader = readers.reader().unwrap();
            while !stop.load(Ordering::Relaxed) {
                match reader.query_pointer(place, |answer| answer.map(|info| seen(&info))) {
                    Ok(word) => assert!([0, P].contains(&word)),
                    Err(error) => {
                        assert_eq!(error, Error::NotOpened);
                        closed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        });
        let _stop = Stop(&stop);
        for _ in 0..300 {
            m.tear_down();
            std::thread::yield_now();
            m.show();
            patiently(|| bench.set_up(&mut m)).unwrap();
            let again = patiently(|| m.allocate(G1, P, 0, VRAM | MemFlags::FIXED_ADDRESS, place));
            assert_eq!(again, Ok(place));
            m.driver.kernel.policies.clear();
            m.driver.log.clear();
        }
    });
    check(&m);
}

#[test]
fn case_41_node_arrays_outlive_changes_of_other_things() {
    let mut m = Bench::new().start();
    let v = vram(&mut m, G1, P);
    m.map(v, P).unwrap();
    let mut reader = m.writer.readers().reader().unwrap();
    let held = reader.query_pointer(v, |answer| answer.unwrap().mapped.as_ptr());
    let same = |m: &TestManager| {
        let mut reader = m.writer.readers().reader().unwrap();
        reader.query_pointer(v, |answer| answer.unwrap().mapped.as_ptr()) == held
    };
    m.set_user_data(v, 3).unwrap();
    assert!(same(&m));
    let other = vram(&mut m, G2, P);
    m.map(other, P).unwrap();
    m.free(v).unwrap_err();
    m.map(v, P).unwrap();
    assert!(same(&m), "mapped where it was: nothing changed");
    m.unmap(v).unwrap();
    assert!(!same(&m));
}
