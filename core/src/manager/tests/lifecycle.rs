//! Before set-up, set-up, close and re-open.

use super::fake::{Fail, Shown};
use super::*;
use crate::error::Error;
use crate::manager::Range;

#[test]
fn before_acquire_every_verb_has_its_status() {
    for use_svm in [true, false] {
        let mut bench = Bench::new();
        bench.opened.use_svm = use_svm;
        let mut m = bench.open();
        assert_eq!(m.allocate(G1, P, 0, VRAM, 0), Err(Error::InvalidNode));
        assert_eq!(m.register(range(A, P)), Ok(()));
        assert_eq!(m.register_to_nodes(range(A, P), &[G1]), Err(Error::NotSupported));
        assert_eq!(m.register_with_flags(range(A, P), MemFlags::HOST_ACCESS), Err(Error::NotSupported));
        assert_eq!(m.map_nodes(A, P, &[G1, G2]), Err(Error::InvalidNode));
        assert_eq!(m.map_nodes(A, P, &[]), Err(Error::InvalidParameter));
        let map = if use_svm { Err(Error::Failed) } else { Ok(None) };
        assert_eq!(m.map_range(range(A, P)), map);
        assert_eq!(m.map_range_nodes(range(A, P), &[G1]), map, "one node on a machine without dGPU is a map");
        assert_eq!(m.unmap(A), Ok(()));
        assert_eq!(m.deregister(A), Ok(()));
        assert_eq!(m.free(A), if use_svm { Ok(()) } else { Err(Error::NotRegistered) });
        assert_eq!(m.set_user_data(A, 1), Err(Error::Failed));
        assert_eq!(m.share(A, P), Err(Error::InvalidParameter));
        assert_eq!(m.export_dmabuf(A, P), Err(Error::InvalidParameter));
        assert_eq!(m.import_shared(Default::default(), None), Err(Error::InvalidParameter));
        assert_eq!(query(&m, A), None);
        assert!(m.driver.log.is_empty(), "{:?}", m.driver.log);
        check(&m);
    }
}

#[test]
fn set_up_mmap_aperture() {
    let m = Bench::new().start();
    let layout = m.writer.layout();
    assert!(layout.mmap && layout.dgpu);
    assert_eq!(layout.svm, Bounds::new(0x100_0000, (1 << 47) - 1));
    assert!(layout.svm_alt.is_empty());
    assert_eq!(*m.machine.all, [GpuId(0x1001), GpuId(0x1002)]);
    assert_eq!(m.driver.kernel.policies.len(), 2);
    assert_eq!(m.driver.kernel.policies[0], (GpuId(0x1001), false, layout.svm));
    assert_eq!(m.driver.count("acquire_vm"), 2);
    assert_eq!(m.range(GpuId(0x1001), Range::Lds), Some(Bounds::new(1 << 48, (1 << 48) + 0xffff_ffff)));
    assert_eq!(m.range(GpuId(0x1001), Range::Svm), Some(layout.svm));
    assert_eq!(m.range(GpuId(0x1001), Range::Gpuvm), None);
    assert_eq!(m.range(GpuId(0x9999), Range::Lds), None);
}

#[test]
fn case_55_mem_handles_start_at_the_first_hole() {
    let m = Bench::new().start();
    assert_eq!(m.writer.layout().mem_handle, Bounds::new(0x2_8000_0000_0000, 0x3_0000_0000_0000));
}

#[test]
fn one_mmio_page_per_gpu() {
    let m = Bench::new().start();
    for (gpu, node, mapped) in [(0x1001, 1, [1, 2]), (0x1002, 2, [2, 1])] {
        let range = m.range(GpuId(gpu), Range::Mmio).unwrap();
        assert_eq!(range.limit - range.base, P - 1);
        let info = query(&m, range.base + 5).unwrap();
        assert_eq!((info.kind, info.node, info.size), (PointerType::Allocated, node, P));
        assert_eq!((info.flags.bits(), info.mapped), (0x41, mapped.to_vec()));
        assert!(matches!(m.driver.kernel.shown[&range.base], (P, Shown::Mmio { .. })));
    }
    assert!(Bench::apu(true).start().range(GpuId(0x1001), Range::Mmio).is_none(), "only where SVM is needed");
    assert!(Bench::apu(false).start().range(GpuId(0x1001), Range::Mmio).is_some());
}

#[test]
fn a_gpu_that_refuses_its_mmio_page_is_set_up_without() {
    let steps = {
        let mut m = Bench::new().open();
        m.driver.arm(Fail::Never);
        Bench::new().set_up(&mut m).unwrap();
        m.driver.steps
    };
    // Each page takes four steps; the last eight are theirs.
    for k in steps - 7..=steps {
        let mut m = Bench::new().open();
        m.driver.arm(Fail::At(k, 1));
        assert_eq!(Bench::new().set_up(&mut m), Ok(()));
        m.driver.arm(Fail::Never);
        check(&m);
        let pages = [0x1001, 0x1002].map(|gpu| m.range(GpuId(gpu), Range::Mmio).is_some());
        assert_eq!(pages.iter().filter(|page| **page).count(), 1, "step {k}");
        assert_eq!(m.ledger.len(), 1);
    }
}

#[test]
fn a_second_set_up_changes_nothing() {
    let bench = Bench::new();
    let mut m = furnished(&bench);
    let (before, calls) = (state(&m), m.driver.log.len());
    assert_eq!(bench.set_up(&mut m), Ok(()));
    assert_eq!((state(&m), m.driver.log.len()), (before, calls));
}

#[test]
fn set_up_fails_cleanly() {
    for bench in [Bench::new(), Bench::reserved(), Bench::apu(true), Bench::apu(false)] {
        for k in 1..40 {
            let mut m = bench.open();
            let before = state(&m);
            m.driver.arm(Fail::At(k, 0));
            let done = bench.set_up(&mut m);
            m.driver.arm(Fail::Never);
            check(&m);
            if done.is_err() {
                m.driver.kernel.policies.clear();
                assert_eq!(before, state(&m), "step {k}: {:?}", m.driver.log);
                assert!(!m.is_set_up());
                m.driver.log.clear();
                assert_eq!(bench.set_up(&mut m), Ok(()), "again");
                check(&m);
            }
        }
    }
}

#[test]
fn a_process_without_room_for_mmap_falls_back_to_a_reservation() {
    let mut m = Bench::new().open();
    // Steps: apertures, two VMs, then the trial page.
    m.driver.arm(Fail::At(4, 0));
    Bench::new().set_up(&mut m).unwrap();
    assert!(!m.writer.layout().mmap);
    check(&m);
}

#[test]
fn case_75_reserved_aperture_and_its_coherent_quarter() {
    let m = Bench::reserved().start();
    let layout = m.writer.layout();
    assert!(!layout.mmap);
    assert_eq!(layout.svm_alt.base, 0x100_0000);
    assert_eq!(layout.svm_alt.limit + 1, layout.svm.base);
    assert_eq!(layout.svm.limit, (1 << 40) - 1);
    let whole = (1usize << 40) - 0x100_0000;
    assert_eq!(layout.svm_alt.limit - layout.svm_alt.base + 1, whole / 4);
    assert_eq!(m.driver.kernel.policies[1], (GpuId(0x1002), false, layout.svm_alt));
    assert_eq!(m.range(GpuId(0x1001), Range::Svm), Some(Bounds::new(0x100_0000, (1 << 40) - 1)));
}

#[test]
fn a_reservation_steps_aside_and_shrinks() {
    let bench = Bench::reserved();
    let mut m = bench.open();
    // Somebody owns the third huge page: the search moves behind it.
    m.driver.kernel.reserved.insert(0x140_0000, P);
    bench.set_up(&mut m).unwrap();
    assert_eq!(m.writer.layout().svm_alt.base, 0x160_0000);
    assert_eq!(m.writer.layout().svm.limit, (1 << 40) - 1);

    // Somebody owns the middle: no half fits around it, a quarter does.
    let mut m = bench.open();
    m.driver.kernel.reserved.insert(0x80_0000_0000 - 0x1000_0000, 0x2000_0000);
    bench.set_up(&mut m).unwrap();
    assert!(m.writer.layout().svm.limit < (1 << 40));
    assert!(m.machine.ready);
}

#[test]
fn case_80_the_last_close_leaves_nothing() {
    for bench in [Bench::new(), Bench::reserved(), Bench::apu(true), Bench::apu(false), Bench::svm()] {
        let mut m = furnished(&bench);
        let node = if bench.apu { CPU } else { G1 };
        m.allocate(node, 0x1_0000, 0, MemFlags::SCRATCH, 0).unwrap();
        let h = m.allocate(node, P, 0, VRAM | MemFlags::NO_ADDRESS, 0).unwrap();
        assert_eq!(kind(&m, h), PointerType::Allocated);
        if !bench.apu {
            let scratch = m.machine.gpus[0].scratch.as_ref().unwrap().start();
            m.map(scratch, 2 * P).unwrap();
        }
        let mut reader = m.writer.readers().reader().unwrap();
        for round in 0..3 {
            m.tear_down();
            assert!(reader.query_pointer(h, |answer| answer.is_err()), "NOT_OPENED");
            assert!(m.driver.kernel.bos.is_empty() && m.driver.kernel.reserved.is_empty());
            assert!(m.driver.kernel.shown.is_empty() && m.ledger.is_empty() && records(&m).is_empty());
            let (driver, writer) = m.into_parts();
            m = Manager::new(driver, writer, bench.opened).unwrap();
            assert!(reader.query_pointer(h, |answer| answer.is_err()), "still hidden");
            m.show();
            assert_eq!(query(&m, h), None, "round {round}");
            bench.set_up(&mut m).unwrap();
            check(&m);
            vram(&mut m, node, P);
        }
    }
}

#[test]
fn the_last_close_does_not_stop_at_a_refusal() {
    let bench = Bench::new();
    let mut m = furnished(&bench);
    m.driver.arm(Fail::From(1, 0));
    m.tear_down();
    assert!(m.ledger.is_empty() && records(&m).is_empty());
    assert!(m.driver.kernel.reserved.is_empty(), "addresses go back all the same");
}

#[test]
fn case_80_no_leak_in_a_thousand_cycles() {
    let bench = Bench::new();
    let mut m = bench.start();
    for _ in 0..1000 {
        let v = vram(&mut m, G1, 4 * P);
        m.register(range(A, P)).unwrap();
        m.map(A, P).unwrap();
        m.unmap(A).unwrap();
        m.deregister(A).unwrap();
        m.free(v).unwrap();
        m.driver.log.clear();
    }
    check(&m);
    assert_eq!(m.ledger.len(), 2);
}

#[test]
fn a_machine_without_gpus() {
    let mut bench = Bench::new();
    bench.gpus = 0;
    let mut m = bench.start();
    let host = m.allocate(CPU, P, 0, MemFlags::HOST_ACCESS, 0).unwrap();
    assert_eq!(kind(&m, host), PointerType::Allocated);
    assert_eq!(m.register(range(A, P)), Ok(()));
    assert_eq!(m.free(host), Ok(()));
    check(&m);
}

#[test]
fn a_secondary_context_has_no_svm_and_no_userptrs() {
    let mut bench = Bench::svm();
    bench.opened.secondary = true;
    let mut m = bench.start();
    m.driver.no_userptr = true;
    assert!(!m.svm_api());
    let host = m.allocate(CPU, P, 0, MemFlags::HOST_ACCESS, 0).unwrap();
    assert_eq!(kind(&m, host), PointerType::Allocated);
    assert_eq!(m.driver.count("alloc"), 3);
    assert!(m.driver.log.iter().any(|line| line.contains("GTT")), "paged memory is GTT");
    assert_eq!(m.register(range(A, P)), Err(Error::Failed));
    check(&m);
}
