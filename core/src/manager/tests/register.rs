//! Register, deregister, free of registrations.

use super::fake::{BUSY, FAULT, Fail, PERM};
use super::*;
use crate::error::Error;
use crate::manager::buffer::CHUNK;

#[test]
fn case_01_one_base_two_sizes_are_two_objects() {
    let mut m = Bench::new().start();
    m.register(range(A, P)).unwrap();
    m.register(range(A, 4 * P)).unwrap();
    let v1 = m.map(A, P).unwrap().unwrap();
    let v2 = m.map(A, 4 * P).unwrap().unwrap();
    assert_ne!(v1, v2);
    assert_eq!(kind(&m, v1 as usize), PointerType::RegisteredUser);
    assert_eq!(kind(&m, v2 as usize), PointerType::RegisteredUser);
    check(&m);
}

#[test]
fn case_02_ours_an_ambiguous_base_ends_smallest_first() {
    for verb in [TestManager::deregister, TestManager::free] {
        let mut m = Bench::new().start();
        m.register(range(A, 2 * P)).unwrap();
        m.register(range(A, P)).unwrap();
        assert_eq!(verb(&mut m, A), Ok(()));
        assert_eq!(query(&m, A).unwrap().size, 2 * P);
        assert_eq!(verb(&mut m, A), Ok(()));
        assert_eq!(query(&m, A), None);
        assert_eq!(verb(&mut m, A), Err(Error::NotRegistered));
        check(&m);
    }
    // With the SVM API (whose ioctl failed, or there would be no objects) an unknown address is none of our business.
    let mut m = Bench::svm().start();
    m.driver.svm_error = Some(PERM);
    m.register(range(A, 2 * P)).unwrap();
    m.register(range(A, P)).unwrap();
    let before = state(&m);
    assert_eq!((m.deregister(A), m.free(A), m.unmap(A)), (Ok(()), Ok(()), Ok(())));
    assert_eq!(state(&m), before);
}

#[test]
fn case_02_by_gpu_address_nothing_is_ambiguous() {
    let mut m = Bench::new().start();
    m.register(range(A + 0x10, P)).unwrap();
    m.register(range(A + 0x10, 2 * P)).unwrap();
    let large = query(&m, A + P).unwrap().gpu;
    assert_eq!(m.deregister(large), Ok(()));
    assert_eq!(query(&m, A + 0x10).unwrap().size, P);
    assert_eq!(query(&m, A + P + 0x10), None);
    check(&m);
}

#[test]
fn case_03_unmap_and_user_data_refuse_an_ambiguous_base() {
    let mut m = Bench::new().start();
    m.register(range(A, P)).unwrap();
    m.register(range(A, 2 * P)).unwrap();
    assert_eq!(m.unmap(A), Err(Error::Failed));
    assert_eq!(m.set_user_data(A, 1), Err(Error::Failed));
}

#[test]
fn case_04_and_05_which_of_several_answers() {
    let mut m = Bench::new().start();
    for (at, size) in [(0, P), (0, 3 * P), (0x800, 0x400)] {
        m.register(range(A + at, size)).unwrap();
    }
    let size_at = |offset| query(&m, A + offset).unwrap().size;
    assert_eq!(size_at(0), P, "at the start: the smallest");
    assert_eq!(size_at(1), 3 * P, "inside: the largest");
    assert_eq!(size_at(0x900), 0x400);
    assert_eq!(size_at(0xc00), 3 * P);
    let mut m = Bench::new().start();
    m.register(range(A, 0x20)).unwrap();
    m.register(range(A + 8, 8)).unwrap();
    assert_eq!(query(&m, A + 0x18).unwrap().cpu, A);
}

#[test]
fn case_08_unaligned() {
    let mut m = Bench::new().start();
    m.register(range(A + 0xff0, 0x20)).unwrap();
    let info = query(&m, A + 0xff0).unwrap();
    assert_eq!((info.cpu, info.size, info.gpu & 0xfff), (A + 0xff0, 0x20, 0xff0));
    assert_eq!((info.kind, info.node, info.flags.bits()), (PointerType::RegisteredUser, 1, 0x2000));
    assert_eq!(m.driver.kernel.bos.values().last().unwrap().request.size, 2 * P as u64);
    assert_eq!((query(&m, A + 0xfef), query(&m, A + 0x1010)), (None, None));
    let bos = m.driver.kernel.bos.len();
    assert_eq!(m.deregister(A + 0xff0), Ok(()));
    assert_eq!(m.driver.kernel.bos.len(), bos - 1);
    check(&m);
}

#[test]
fn case_09_by_the_device_alias() {
    let mut m = Bench::new().start();
    m.register(range(A + 0x234, P)).unwrap();
    let v = m.map(A + 0x234, P).unwrap().unwrap() as usize;
    assert_eq!(v & 0xfff, 0x234);
    assert_eq!(m.set_user_data(v, 7), Ok(()));
    assert_eq!(query(&m, v).unwrap().user_data, 7);
    assert_eq!(m.set_user_data(v - 0x234, 8), Err(Error::Failed), "the page offset must match");
    assert_eq!(m.register(range(v, P)), Ok(()), "it counts");
    m.unmap(v).unwrap();
    assert_eq!((m.deregister(v), kind(&m, A + 0x234)), (Ok(()), PointerType::RegisteredUser));
    assert_eq!((m.deregister(v), kind(&m, A + 0x234)), (Ok(()), PointerType::Unknown));
    assert_eq!(m.deregister(v), Err(Error::NotRegistered));
}

#[test]
fn case_11_one_range_is_one_object_and_one_buffer() {
    let mut m = Bench::new().start();
    let bos = m.driver.count("alloc");
    for _ in 0..32 {
        m.register(range(A, 8 * P)).unwrap();
    }
    assert_eq!(m.driver.count("alloc"), bos + 1);
    for left in (0..32).rev() {
        let v = query(&m, A).unwrap().gpu;
        m.deregister(v).unwrap();
        assert_eq!(query(&m, A).is_some(), left > 0);
    }
    check(&m);
}

#[test]
fn case_14_memory_of_the_library_is_refused() {
    let mut m = Bench::new().start();
    let v = vram(&mut m, G1, 4 * P);
    for (address, size) in [(v, 4 * P), (v + 0x40, 1), (v, 0)] {
        assert_eq!(m.register(range(address, size)), Err(Error::InvalidHandle));
        assert_eq!(m.register_to_nodes(range(address, size), &[G1]), Err(Error::InvalidHandle));
    }
    assert_eq!(m.deregister(v), Err(Error::NotRegistered));
    assert_eq!(m.register(range(v + P, P)), Ok(()), "an exact find does not look into the second page");
    assert_eq!(m.free(v), Ok(()), "no hang on the next call");
    check(&m);
}

#[test]
fn case_16_size_zero() {
    let mut m = Bench::new().start();
    m.register(range(A, P)).unwrap();
    m.register(range(A, 0)).unwrap();
    m.deregister(A).unwrap();
    assert_eq!(kind(&m, A), PointerType::RegisteredUser, "it counted");
    let steps = m.driver.steps;
    for (address, why) in [(A + P, "none there"), (A + P + 1, "ours: nor off a page boundary")] {
        assert_eq!(m.register(range(address, 0)), Err(Error::Failed), "{why}");
    }
    m.register(range(A, 2 * P)).unwrap();
    assert_eq!(m.register(range(A, 0)), Err(Error::Failed), "several");
    assert_eq!(m.driver.count("alloc"), 4);
    assert!(m.driver.steps > steps);

    let mut m = Bench::svm().start();
    assert_eq!(m.register(range(A, 0)), Ok(()), "whatever the ioctl says");
    assert_eq!(m.driver.svm_calls.last().map(|call| call.1), Some(0));
    m.driver.svm_error = Some(PERM);
    assert_eq!(m.register(range(A, 0)), Err(Error::Failed));
    check(&m);
}

#[test]
fn case_18_flags_from_the_future() {
    let mut m = Bench::new().start();
    let flags = MemFlags::from_bits_retain(0xff00_0000) | MemFlags::HOST_ACCESS;
    m.register_with_flags(range(A, P), flags).unwrap();
    assert_eq!(query(&m, A).unwrap().flags, MemFlags::empty(), "a userptr drops them");
}

#[test]
fn case_19_device_memory_is_a_clean_error() {
    for bench in [Bench::new(), Bench::svm()] {
        let mut m = bench.start();
        m.driver.svm_error = Some(FAULT);
        m.driver.no_userptr = true;
        let before = state(&m);
        assert_eq!(m.register(range(A, 2 * P)), Err(Error::Failed));
        assert_eq!((query(&m, A), state(&m)), (None, before));
        check(&m);
    }
}

#[test]
fn with_flags_checks_in_order() {
    let mut m = Bench::new().start();
    let host = MemFlags::HOST_ACCESS;
    let both = MemFlags::COARSE_GRAIN | MemFlags::EXTENDED_COHERENT;
    assert_eq!(m.register_with_flags(range(A, P), both), Err(Error::InvalidParameter));
    assert_eq!(m.register_with_flags(range(A, P), MemFlags::COARSE_GRAIN), Err(Error::NotSupported));
    assert_eq!(m.register_with_flags(range(A, P), host | MemFlags::NON_PAGED), Err(Error::NotSupported));
    for (index, (flags, seen)) in
        [(host | MemFlags::COARSE_GRAIN, 0x2000), (host, 0), (host | MemFlags::EXTENDED_COHERENT, 0x10_0000)]
            .into_iter()
            .enumerate()
    {
        m.register_with_flags(range(A + index * P, P), flags).unwrap();
        assert_eq!(query(&m, A + index * P).unwrap().flags.bits(), seen);
    }
    m.register_with_flags(range(A + P, P), host | MemFlags::EXTENDED_COHERENT).unwrap();
    assert_eq!(query(&m, A + P).unwrap().flags.bits(), 0, "the first registration's stay");
    assert_eq!(Bench::apu(true).start().register_with_flags(range(A, P), host), Err(Error::NotSupported));
}

#[test]
fn node_lists() {
    let mut m = Bench::new().start();
    assert_eq!(m.register_to_nodes(range(A, P), &[]), Err(Error::InvalidParameter));
    assert_eq!(m.register_to_nodes(range(A, P), &[G1, NodeId(7)]), Err(Error::InvalidNode));
    m.register(range(A, P)).unwrap();
    m.register_to_nodes(range(A, P), &[G2, G1]).unwrap();
    assert_eq!(query(&m, A).unwrap().registered, [2, 1], "given later, taken");
    let before = state(&m);
    for other in [&[G1, G2][..], &[G2], &[G2, G1, G1], &[CPU]] {
        assert_eq!(m.register_to_nodes(range(A, P), other), Err(Error::AlreadyRegistered));
    }
    assert_eq!(m.register(range(A, P)), Err(Error::AlreadyRegistered), "no list is another list");
    assert_eq!(state(&m), before, "ours: the count is unchanged");
    m.register_to_nodes(range(A, P), &[G2, G1]).unwrap();
    m.map(A, P).unwrap();
    assert_eq!(query(&m, A).unwrap().mapped, [2, 1]);
    m.unmap(A).unwrap();
    for _ in 0..3 {
        m.deregister(A).unwrap();
    }
    assert_eq!(query(&m, A), None);
    check(&m);
}

#[test]
fn ours_a_refused_free_keeps_the_object_with_one_registration() {
    let mut m = Bench::new().start();
    m.register(range(A, P)).unwrap();
    m.map(A, P).unwrap();
    let before = state(&m);
    assert_eq!(m.deregister(A), Err(Error::Failed), "{BUSY:?}: still mapped");
    assert_eq!(m.free(A), Err(Error::Failed));
    assert_eq!(state(&m), before);
    m.unmap(A).unwrap();
    assert_eq!(m.deregister(A), Ok(()));
    assert_eq!(query(&m, A), None);
    assert_eq!(m.deregister(A), Err(Error::NotRegistered));
    check(&m);
}

#[test]
fn case_20_svm_on_registered_memory_is_invisible() {
    let mut m = Bench::svm().start();
    assert_eq!(m.register(range(A + 5, P)), Ok(()));
    assert_eq!(m.driver.svm_calls.last().map(|call| (call.0, call.1)), Some((A as u64, 2 * P as u64)));
    assert_eq!(query(&m, A + 5), None);
    assert_eq!(m.deregister(A + 5), Ok(()));
    assert_eq!((m.deregister(A), m.unmap(A), m.free(A)), (Ok(()), Ok(()), Ok(())));
    assert_eq!(m.register_to_nodes(range(A, P), &[G1]), Ok(()), "the node list is dropped");
    check(&m);
}

#[test]
fn case_21_fall_back_when_the_svm_ioctl_fails() {
    let mut m = Bench::svm().start();
    m.driver.svm_error = Some(PERM);
    m.register(range(A, P)).unwrap();
    assert_eq!(kind(&m, A), PointerType::RegisteredUser);
    m.driver.svm_error = None;
    assert_eq!(m.register(range(A, 2 * P)), Ok(()), "one of each at a base");
    assert_eq!(query(&m, A).unwrap().size, P);
    assert_eq!(m.deregister(A), Ok(()));
    assert_eq!(query(&m, A), None);
    check(&m);
}

#[test]
fn case_22_hsa_use_svm_0() {
    let mut bench = Bench::svm();
    bench.opened.use_svm = false;
    let mut m = bench.start();
    assert!(!m.svm_api());
    assert_eq!(m.free(A), Err(Error::NotRegistered));
    m.register(range(A, P)).unwrap();
    assert_eq!(kind(&m, A), PointerType::RegisteredUser);
}

#[test]
fn coherence_flags_of_the_svm_ioctl() {
    let mut m = Bench::svm().start();
    let mut kinds = |flags| {
        m.register_with_flags(range(A, P), MemFlags::HOST_ACCESS | flags).unwrap();
        let call = &m.driver.svm_calls.last().unwrap().2;
        (call[0].kind, call[0].value, call[1].kind, call[1].value)
    };
    assert_eq!(kinds(MemFlags::COARSE_GRAIN), (6, 0x02, 6, 0x80));
    assert_eq!(kinds(MemFlags::empty()), (5, 0x02, 6, 0x80));
    assert_eq!(kinds(MemFlags::EXTENDED_COHERENT), (5, 0x02, 5, 0x80));
}

#[test]
fn mapping_unknown_memory_through_svm() {
    let mut m = Bench::svm().start();
    assert_eq!(m.map_range(range(A + 8, P)), Ok(Some(A as u64 + 8)));
    let (start, size, attributes) = m.driver.svm_calls.last().unwrap().clone();
    assert_eq!((start, size), (A as u64, 2 * P as u64));
    assert!(attributes.iter().all(|it| it.kind == 3));
    assert_eq!(attributes.iter().map(|it| it.value).collect::<Vec<_>>(), [0x1001, 0x1002]);
    assert_eq!(m.map_range_nodes(range(A, P), &[G2, CPU]), Ok(Some(A as u64)));
    let attributes = &m.driver.svm_calls.last().unwrap().2;
    assert_eq!(attributes.iter().map(|it| it.value).collect::<Vec<_>>(), [0x1002, 0]);
    m.driver.svm_error = Some(PERM);
    assert_eq!(
        (m.map_range(range(A, P)), m.map_range_nodes(range(A, P), &[G1])),
        (Err(Error::Failed), Err(Error::Failed))
    );
    assert_eq!(m.map_range(range(A, usize::MAX)), Err(Error::Failed));
}

#[test]
fn case_59_a_large_userptr_has_two_buffers() {
    let chunk = CHUNK as usize;
    let mut m = Bench::new().start();
    let handles = |m: &TestManager| m.ledger.get(records(m).last().unwrap().1.id).unwrap().handles.len();
    for (size, count) in [(chunk, 1), (chunk + P, 2), (600 << 30, 2), (2 * chunk, 2), (2 * chunk + 1, 3)] {
        m.register(range(A, size)).unwrap();
        assert_eq!(handles(&m), count);
        let last = m.driver.kernel.bos.values().last().unwrap();
        let before = (count - 1) as u64 * CHUNK;
        assert_eq!(last.user, A as u64 + before);
        assert_eq!(last.request.va, query(&m, A).unwrap().gpu as u64 + before);
        assert_eq!(query(&m, A + size - 1).unwrap().size, size);
        m.map(A, size).unwrap();
        check(&m);
        assert_eq!(m.deregister(A), Err(Error::Failed));
        m.unmap(A).unwrap();
        m.deregister(A).unwrap();
        check(&m);
    }
}

#[test]
fn case_59_every_step_of_a_large_userptr_fails_cleanly() {
    let size = 2 * CHUNK as usize + P;
    let empty = || Bench::new().start();
    let registered = move || {
        let mut m = Bench::new().start();
        m.register(range(A, size)).unwrap();
        m
    };
    let mapped = move || {
        let mut m = registered();
        m.map(A, size).unwrap();
        m
    };
    assert_eq!(fails_cleanly(empty, |m| m.register(range(A, size)).is_ok()), 4);
    assert_eq!(fails_cleanly(registered, |m| m.map(A, size).is_ok()), 3);
    assert_eq!(fails_cleanly(mapped, |m| m.unmap(A).is_ok()), 3);
    // The kernel frees the first one or two and refuses the next: they are made again.
    assert_eq!(fails_cleanly(registered, |m| m.deregister(A).is_ok()), 3);
}

#[test]
fn check_userptr_reads_every_page() {
    let mut bench = Bench::new();
    bench.options.check_userptr = true;
    let mut m = bench.start();
    m.register(range(A + 1, 3 * P)).unwrap();
    assert_eq!(m.driver.count("touch"), 1);
}

#[test]
fn case_77_apu_registration_leaves_no_trace() {
    let mut m = Bench::apu(true).start();
    let before = state(&m);
    assert_eq!((m.register(range(A, P)), m.deregister(A), m.map(A, P)), (Ok(()), Ok(()), Ok(None)));
    assert_eq!(m.register_to_nodes(range(A, P), &[CPU]), Err(Error::NotSupported));
    assert_eq!(state(&m), before);
}

#[test]
fn hostile_ranges() {
    let mut m = Bench::new().start();
    let before = state(&m);
    for address in [0, 1, 0x1_0000, A, usize::MAX, usize::MAX - P + 1, 1 << 63, 1 << 47] {
        for size in [usize::MAX, usize::MAX - 1, usize::MAX - P, 1 << 63, 1 << 47] {
            assert_eq!(m.register(range(address, size)), Err(Error::Failed), "{address:#x} {size:#x}");
            assert!(m.map(address, size).is_err());
            let _ = m.map_nodes(address, size, &[G1]);
        }
    }
    for address in [1, 0x1_0000, usize::MAX, usize::MAX - P + 1, 1 << 63] {
        assert_eq!(m.register(range(address, 3 * P)), Err(Error::Failed));
        assert_eq!(m.free(address), Err(Error::NotRegistered));
        assert_eq!(m.deregister(address), Err(Error::NotRegistered));
        assert_eq!(m.unmap(address), Err(Error::Failed));
        assert_eq!(m.set_user_data(address, 1), Err(Error::Failed));
    }
    assert_eq!(state(&m), before);
    check(&m);
}

#[test]
fn case_75_reserved_aperture_userptrs() {
    let mut m = Bench::reserved().start();
    m.register(range(A + 3, P)).unwrap();
    let info = query(&m, A + 3).unwrap();
    assert!(m.writer.layout().svm.contains(info.gpu));
    assert_eq!(query(&m, info.gpu).unwrap().cpu, A + 3);
    assert_eq!(m.deregister(info.gpu), Ok(()));
    assert_eq!(query(&m, A + 3), None);
    check(&m);
    m.driver.arm(Fail::Never);
}
