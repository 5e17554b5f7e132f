//! Addresses that go back are the manager's own: whatever the writer held before, when memory runs out, and whatever a
//! driver answers.

use super::scarce::dry;
use super::*;
use crate::error::Error;
use crate::objects::Object;
use crate::registry::Writer;

/// A writer with one object that no manager has made.
fn foreign() -> Writer<'static, Crossbeam, Scarce> {
    let registry: &'static Registry<Crossbeam> = Box::leak(Box::new(Registry::new()));
    let mut writer = registry.writer(PageSize::FOUR_KIB, Scarce).unwrap();
    let mut layout = crate::aperture::Layout::empty(PageSize::FOUR_KIB);
    (layout.svm, layout.dgpu, layout.mmap) = (Bounds::new(0x100_0000, (1 << 47) - 1), true, true);
    writer.set_layout(layout).unwrap();
    let (kind, start, node) = (PointerType::Allocated, A, G1);
    let object =
        Object { kind, start, size: P, cpu: start, node, flags: VRAM, user_data: 0, registered: &[], mapped: &[] };
    writer.insert_object(Aperture::Svm, &object).unwrap();
    writer
}

#[test]
fn a_writer_that_holds_objects_is_refused() {
    let bench = Bench::new();
    let new = |writer| Manager::new(Fake::new(bench.apertures()), writer, bench.opened);
    assert_eq!(new(foreign()).map(drop), Err(Error::AlreadyRegistered));
    let mut writer = foreign();
    writer.clear_objects().unwrap();
    let mut m = new(writer).unwrap();
    bench.set_up(&mut m).unwrap();
    check(&m);
}

#[test]
fn what_finds_no_memory_at_the_last_close_keeps_its_addresses() {
    for bench in [Bench::new(), Bench::reserved()] {
        let mut m = bench.start();
        for _ in 0..60 {
            vram(&mut m, G1, P);
        }
        m.register(range(A, P)).unwrap();
        let mut reader = m.writer.readers().reader().unwrap();
        let session = reader.session();
        // What is replaced does not come back while the session is held, and there is no more.
        dry(|| m.tear_down());
        let left = records(&m);
        assert!(!left.is_empty() && left.len() < 63, "{} objects are left: the test is no test", left.len());
        check(&m);
        assert!(m.is_set_up());
        drop(session);
        // Addresses of the objects that are left are still theirs: ended one by one, each goes back once.
        let (aperture, record) = left[0];
        assert_eq!(m.unmap(record.start), Ok(()), "{aperture:?}");
        assert_eq!(m.free(record.start), Ok(()), "{aperture:?}");
        check(&m);
        m.tear_down();
        assert!(m.driver.kernel.bos.is_empty() && m.driver.kernel.reserved.is_empty() && records(&m).is_empty());
        bench.set_up(&mut m).unwrap();
        vram(&mut m, G1, P);
        check(&m);
    }
}

#[test]
fn a_piece_of_scratch_is_shown_on_its_own_pages_only() {
    for bench in [Bench::new(), Bench::reserved()] {
        let mut m = bench.start();
        let s = m.allocate(G1, 0x1_0000, 0, MemFlags::SCRATCH, 0).unwrap();
        let before = state(&m);
        for (at, size) in [(s + 8, P), (s + 0x1_0000 - 0x10, 0x10), (s + 0xf001, 0xfff)] {
            assert!(m.map(at, size).is_err(), "{at:#x} {size:#x}");
            assert_same(&before, &state(&m), "a piece off its page");
        }
        m.map(s + 0xf000, 0x10).unwrap();
        check(&m);
    }
    // A page of the manager's that is larger than the range.
    let page = PageSize::new(0x2_0000).unwrap();
    let mut m = Bench { page, ..Bench::new() }.open();
    Bench { page, ..Bench::new() }.set_up(&mut m).unwrap();
    let s = m.allocate(G1, 0x1_0000, 0, MemFlags::SCRATCH, 0).unwrap();
    assert!(m.map(s, 0x1000).is_err());
}

#[test]
fn a_driver_that_answers_other_addresses_gets_them_back() {
    for (bench, off) in
        [(Bench::reserved(), P), (Bench::reserved(), 1), (Bench::reserved(), 1 << 45), (Bench::new(), 1)]
    {
        let mut m = bench.open();
        m.driver.off = off;
        assert!(bench.set_up(&mut m).is_err());
        assert!(m.driver.kernel.reserved.is_empty() && m.driver.count("release") > 0);
    }
    let mut m = Bench::new().start();
    m.driver.off = 1;
    assert_eq!(m.allocate(G1, P, 0, VRAM, 0), Err(Error::NoMemory));
    assert_eq!(m.allocate(G1, P, 0, VRAM | MemFlags::FIXED_ADDRESS, 0x50_0000_0000), Err(Error::NoMemory));
    m.driver.off = 0;
    check(&m);
}
