//! Public bugs of the original and of its callers that are not at home in another file.

use super::*;
use crate::error::Error;
use crate::manager::SharedHandle;

const HOST: MemFlags = MemFlags::HOST_ACCESS;

#[test]
fn case_35_interior_pointers_name_the_whole_object() {
    let mut m = Bench::new().start();
    let v = vram(&mut m, G1, 2 * P);
    let whole = query(&m, v);
    for offset in [1, 984, P, 2 * P - 1] {
        assert_eq!(query(&m, v + offset), whole);
    }
    assert_eq!(query(&m, v + 2 * P), None);
}

#[test]
fn case_37_scratch_is_never_found() {
    let mut m = Bench::new().start();
    let s = m.allocate(G1, 0x1_0000, 0, MemFlags::SCRATCH, 0).unwrap();
    assert_eq!(query(&m, s), None);
    m.map(s, P).unwrap();
    assert_eq!((query(&m, s), m.set_user_data(s, 1)), (None, Err(Error::Failed)));
}

#[test]
fn case_42_a_query_builds_nothing() {
    let mut m = Bench::new().start();
    m.register_to_nodes(range(A, P), &[G2]).unwrap();
    m.map(A, P).unwrap();
    let generation = m.writer.snapshot().generation();
    let mut reader = m.writer.readers().reader().unwrap();
    let lists = |info: crate::info::PointerInfo<'_>| (info.registered.as_ptr(), info.mapped.as_ptr());
    let first = reader.query_pointer(A, |answer| lists(answer.unwrap()));
    assert!(!first.0.is_null() && first == reader.query_pointer(A, |answer| lists(answer.unwrap())));
    assert_eq!(m.writer.snapshot().generation(), generation);
}

#[test]
fn case_50_unknown_memory_has_two_statuses() {
    let mut m = Bench::new().start();
    assert_eq!(m.map(A, P), Err(Error::InvalidParameter));
    assert_eq!(m.map_nodes(A, P, &[G1]), Err(Error::Failed));
    assert_eq!(m.map_nodes(A, P, &[]), Err(Error::InvalidParameter));
}

#[test]
fn case_53_66_a_failed_step_gives_area_and_object_back() {
    for bench in [Bench::new(), Bench::reserved()] {
        for flags in [VRAM | HOST, HOST, VRAM | MemFlags::ONLY_ADDRESS] {
            let prepare = || bench.start();
            let mut first = prepare();
            let wanted = first.allocate(G1, P, 0, flags, 0).unwrap();
            fails_cleanly(prepare, |m| m.allocate(G1, P, 0, flags, 0) == Ok(wanted));
        }
    }
}

#[test]
fn case_57_an_imported_object_has_a_node() {
    let mut m = Bench::new().start();
    for offset in [0, 0x1000] {
        m.driver.ipc_offset = offset;
        let handle = SharedHandle { share: [7, 7, 7, 1], aperture: 1, index: 0, pages: 1, gpu: 0x1002 };
        let (address, _) = m.import_shared(handle, None).unwrap();
        assert_eq!(query(&m, address).unwrap().node, 2);
    }
}

#[test]
fn case_70_two_imports_of_one_handle_are_two_objects() {
    let mut m = Bench::new().start();
    let handle = SharedHandle { share: [7, 7, 7, 1], aperture: 1, index: 0, pages: 1, gpu: 0x1002 };
    let (first, _) = m.import_shared(handle, None).unwrap();
    let (second, _) = m.import_shared(handle, None).unwrap();
    assert_ne!(first, second);
    m.deregister(first).unwrap();
    assert_eq!(query(&m, first), None);
    assert_eq!(query(&m, second).unwrap().size, P);
    m.deregister(second).unwrap();
    check(&m);
}

#[test]
fn case_64_addresses_go_back_each_time() {
    let mut m = Bench::new().start();
    for _ in 0..1000 {
        let host = m.allocate(CPU, 128 << 20, 0, HOST, 0).unwrap();
        let released = m.driver.count("release");
        m.free(host).unwrap();
        assert_eq!(m.driver.count("release"), released + 1);
        m.driver.log.clear();
    }
    check(&m);
}

#[test]
fn case_65_large_pages() {
    const L: usize = 0x1_0000;
    for reserve_svm in [false, true] {
        let mut bench = Bench::new();
        bench.page = PageSize::new(L).unwrap();
        bench.options.reserve_svm = reserve_svm;
        let mut m = bench.start();
        let v = vram(&mut m, G1, P);
        assert_eq!((v % L, query(&m, v).unwrap().size), (0, L), "rounded to the machine's page");
        assert_eq!(m.set_user_data(v + L - 1, 1), Ok(()), "anywhere in the first page");
        assert_eq!(m.share(v, 3 * L).unwrap().pages, 3);
        m.register(range(A + 0x8000, L)).unwrap();
        let info = query(&m, A + 0x8000).unwrap();
        assert_eq!((info.gpu % L, info.size), (0x8000, L));
        assert_eq!(m.driver.kernel.bos.values().last().unwrap().request.size, 2 * L as u64);
        assert_eq!(m.map(A + 0x8000, L), Ok(Some(info.gpu as u64)));
        m.unmap(info.gpu).unwrap();
        m.deregister(info.gpu).unwrap();
        m.free(v + 5).unwrap();
        check(&m);
    }
}

#[test]
fn case_81_contexts_know_nothing_of_each_other() {
    let mut one = Bench::new().start();
    let mut other = Bench::new().start();
    let v = one.allocate(G1, P, 0, VRAM | MemFlags::FIXED_ADDRESS, 0x6000_0000_0000).unwrap();
    assert_eq!((query(&other, v), other.free(v)), (None, Err(Error::NotRegistered)));
    let no_address = VRAM | MemFlags::NO_ADDRESS;
    let handle = one.allocate(G1, P, 0, no_address, 0).unwrap();
    assert_eq!(query(&other, handle), None);
    assert_eq!(other.allocate(G1, P, 0, no_address, 0), Ok(handle), "numerically equal, and two objects");
    one.register(range(A, P)).unwrap();
    assert_eq!((query(&other, A), other.deregister(A)), (None, Err(Error::NotRegistered)));
}
