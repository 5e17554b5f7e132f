//! Map and unmap.

use super::fake::Fail;
use super::*;
use crate::error::Error;

fn mapped(m: &TestManager, address: usize) -> Vec<u32> {
    query(m, address).unwrap().mapped
}

#[test]
fn case_45_the_node_set_shrinks_and_moves() {
    let mut m = Bench::new().start();
    let v = vram(&mut m, G2, P);
    let mut nodes = |nodes: &[NodeId]| {
        assert_eq!(m.map_nodes(v, P, nodes), Ok(None));
        check(&m);
        mapped(&m, v)
    };
    assert_eq!(nodes(&[G1, G2]), [1, 2]);
    assert_eq!(nodes(&[G1]), [1]);
    assert_eq!(nodes(&[G2]), [2]);
    assert_eq!(nodes(&[G1, G2]), [2, 1], "what stays comes first, new ones in the call's order");
    assert_eq!(nodes(&[G2, G1]), [2, 1]);
    m.unmap(v).unwrap();
    assert_eq!(mapped(&m, v), []);
    assert_eq!(m.map_nodes(v, P, &[G1]), Ok(None));
    assert_eq!(mapped(&m, v), [1]);
    check(&m);
}

#[test]
fn duplicates_in_a_list_stay_and_ours_come_off_again() {
    let mut m = Bench::new().start();
    let v = vram(&mut m, G1, P);
    m.map_nodes(v, P, &[G2, G2]).unwrap();
    assert_eq!(mapped(&m, v), [2, 2]);
    m.unmap(v).unwrap();
    assert_eq!(mapped(&m, v), []);
    check(&m);
}

#[test]
fn map_puts_vram_on_its_gpu_and_then_its_peers() {
    let mut m = Bench::new().start();
    let v = vram(&mut m, G2, P);
    assert_eq!(m.map(v, P), Ok(None), "the alternate address stays 0");
    assert_eq!(mapped(&m, v), [2, 1]);
    assert_eq!(m.map(v, P), Ok(None));
    assert_eq!(m.map(v + 0x10, 123), Ok(None), "any size, anywhere in the first page");
    assert_eq!(mapped(&m, v), [2, 1]);
    assert_eq!(m.map(v + P, P), Err(Error::InvalidParameter));
    let host = m.allocate(CPU, P, 0, VRAM, 0).unwrap();
    m.map(host, P).unwrap();
    assert_eq!(mapped(&m, host), [1, 2], "host memory: all GPUs");
    check(&m);
}

#[test]
fn map_again_after_a_subset_puts_the_call_order_last() {
    let mut m = Bench::new().start();
    let v = vram(&mut m, G1, P);
    m.map_nodes(v, P, &[G2]).unwrap();
    m.map(v, P).unwrap();
    assert_eq!(mapped(&m, v), [1, 2]);
    check(&m);
}

#[test]
fn statuses_of_map_nodes() {
    let mut m = Bench::new().start();
    let v = vram(&mut m, G1, P);
    assert_eq!(m.map_nodes(0, P, &[G1]), Err(Error::Failed));
    assert_eq!(m.map_nodes(v, P, &[NodeId(9)]), Err(Error::InvalidNode));
    assert_eq!(m.map_nodes(v, P, &[]), Err(Error::InvalidParameter));
    assert_eq!(m.map_nodes(v, P, &[CPU]), Err(Error::Failed));
    assert_eq!(m.map_nodes(A, P, &[G1]), Err(Error::Failed), "unknown");
    assert_eq!(m.map(0, P), Err(Error::Failed));
    assert_eq!(m.map(A, P), Err(Error::InvalidParameter), "unknown");
    assert_eq!(mapped(&m, v), []);
}

#[test]
fn case_49_unmap_forgives() {
    let mut m = Bench::new().start();
    let v = vram(&mut m, G1, P);
    assert_eq!(m.unmap(v), Ok(()));
    assert_eq!(m.unmap(0), Ok(()));
    assert_eq!(m.unmap(A), Err(Error::Failed), "unknown on a dGPU without the SVM API");
    assert_eq!(Bench::svm().start().unmap(A), Ok(()));
    assert_eq!(Bench::apu(true).start().unmap(A), Ok(()));
}

#[test]
fn case_12_userptr_mappings_are_counted() {
    let mut m = Bench::new().start();
    m.register(range(A, P)).unwrap();
    m.register(range(A, P)).unwrap();
    let alternate = m.map(A, P).unwrap().unwrap();
    assert_eq!(m.map(A, P), Ok(Some(alternate)));
    m.unmap(A).unwrap();
    assert_eq!(mapped(&m, A), [1, 2]);
    m.deregister(A).unwrap();
    assert_eq!(kind(&m, A), PointerType::RegisteredUser);
    m.unmap(A).unwrap();
    assert_eq!(mapped(&m, A), []);
    m.deregister(A).unwrap();
    assert_eq!(query(&m, A), None);
    check(&m);
}

#[test]
fn case_48_a_userptr_ignores_the_callers_nodes() {
    let mut m = Bench::new().start();
    m.register(range(A + 8, P)).unwrap();
    let info = query(&m, A + 8).unwrap();
    assert_eq!(m.map_nodes(A + 8, P, &[G1]), Ok(Some(info.gpu as u64)));
    assert_eq!(mapped(&m, A + 8), [1, 2]);
    assert_eq!(m.map_nodes(A + 8, P, &[CPU]), Ok(Some(info.gpu as u64)), "it only counts");
    m.register_to_nodes(range(A + 2 * P, P), &[G2]).unwrap();
    m.map_nodes(A + 2 * P, P, &[G1]).unwrap();
    assert_eq!(mapped(&m, A + 2 * P), [2]);
    check(&m);
}

#[test]
fn cpu_nodes_are_registered_but_not_mapped() {
    let mut m = Bench::new().start();
    m.register_to_nodes(range(A, P), &[G1, CPU]).unwrap();
    assert_eq!(query(&m, A).unwrap().registered, [1, 0]);
    let before = state(&m);
    assert_eq!(m.map(A, P), Err(Error::Failed), "the kernel knows no gpu id 0");
    assert_eq!(state(&m), before, "and GPU 1 is off again");
    check(&m);
}

#[test]
fn case_47_ours_a_map_that_fails_part_way_is_undone() {
    // VRAM, on GPU 2 already: the undo must not take that away.
    for done in [0, 1, 2] {
        let mut m = Bench::new().start();
        let v = vram(&mut m, G1, P);
        m.map_nodes(v, P, &[G2]).unwrap();
        let before = state(&m);
        m.driver.arm(Fail::At(1, done));
        assert_eq!(m.map(v, P), Err(Error::Failed));
        assert_eq!(state(&m), before);
        check(&m);
    }
}

#[test]
fn ours_a_failed_change_of_nodes_puts_the_old_ones_back() {
    for done in [0, 1] {
        let mut m = Bench::new().start();
        let v = vram(&mut m, G1, P);
        m.map_nodes(v, P, &[G1]).unwrap();
        let before = state(&m);
        // Step 1 takes GPU 1 off, step 2 fails to put GPU 2 on, step 3 puts GPU 1 back.
        m.driver.arm(Fail::At(2, done));
        assert_eq!(m.map_nodes(v, P, &[G2]), Err(Error::Failed));
        assert_eq!(state(&m), before);
        check(&m);
    }
}

#[test]
fn ours_when_the_undo_fails_too_mapped_nodes_say_what_the_kernel_has() {
    let mut m = Bench::new().start();
    let v = vram(&mut m, G1, P);
    m.driver.arm(Fail::From(1, 1));
    // GPU 1 goes on, GPU 2 does not, and GPU 1 does not come off.
    m.driver.fail = Fail::From(1, 1);
    assert_eq!(m.map(v, P), Err(Error::Failed));
    m.driver.arm(Fail::Never);
    check(&m);

    let mut m = Bench::new().start();
    let v = vram(&mut m, G1, P);
    m.map_nodes(v, P, &[G1]).unwrap();
    // GPU 1 comes off (one done, then the error), and cannot be put on again.
    m.driver.arm(Fail::From(1, 0));
    m.driver.fail = Fail::From(2, 0);
    assert_eq!(m.map_nodes(v, P, &[G2]), Err(Error::Failed));
    m.driver.arm(Fail::Never);
    assert_eq!(mapped(&m, v), []);
    check(&m);
    m.unmap(v).unwrap();
    m.free(v).unwrap();
    check(&m);
}

#[test]
fn ours_a_failed_unmap_changes_nothing() {
    for done in [0, 1, 2] {
        let mut m = Bench::new().start();
        let v = vram(&mut m, G1, P);
        m.map(v, P).unwrap();
        let before = state(&m);
        m.driver.arm(Fail::At(1, done));
        assert_eq!(m.unmap(v), Err(Error::Failed));
        m.driver.arm(Fail::Never);
        assert_eq!(state(&m), before);
        check(&m);
        m.unmap(v).unwrap();
        check(&m);
    }
}

#[test]
fn old_apus_say_the_gpu_address() {
    let mut m = Bench::apu(true).start();
    let v = vram(&mut m, CPU, P);
    let base = m.writer.layout().gpuvm[0].base;
    assert!(v > base, "the first page is kept");
    assert_eq!(m.map(v, P), Ok(Some((v - base) as u64)));
    assert_eq!(mapped(&m, v), [0]);
    assert_eq!(m.map_nodes(v, P, &[CPU]), Ok(Some((v - base) as u64)), "one node on an APU is a map");
    assert_eq!(m.map_nodes(v, P, &[CPU, CPU]), Err(Error::Failed));
    check(&m);
}

#[test]
fn maps_of_other_kinds() {
    let mut m = Bench::new().start();
    let only = m.allocate(G1, 4 * P, 0, VRAM | MemFlags::ONLY_ADDRESS, 0).unwrap();
    let handle = m.allocate(G1, P, 0, VRAM | MemFlags::NO_ADDRESS, 0).unwrap();
    for address in [only, handle] {
        assert_eq!(m.map(address, P), Err(Error::InvalidParameter));
        assert_eq!(m.map_nodes(address, P, &[G1]), Err(Error::InvalidParameter));
        assert_eq!(m.unmap(address), Ok(()));
    }
    let mut m = Bench::apu(true).start();
    let host = m.allocate(CPU, P, 0, MemFlags::empty(), 0).unwrap();
    assert_eq!(m.map(host, P), Ok(None), "no effect");
    assert_eq!(m.map_nodes(host, P, &[CPU, CPU]), Err(Error::InvalidParameter));
    assert_eq!(query(&m, host).unwrap().mapped, []);
}

#[test]
fn scratch_pieces() {
    let mut m = Bench::new().start();
    let s = m.allocate(G1, P, 0, MemFlags::SCRATCH, 0).unwrap();
    assert_eq!(s % 0x1_0000, 0);
    let bos = m.driver.kernel.bos.len();
    assert_eq!(m.map(s, P), Ok(None));
    assert_eq!(m.map(s + 2 * P, 14 * P), Ok(None));
    assert_eq!(m.map(s + 2 * P, 15 * P), Err(Error::InvalidParameter), "beyond the range");
    assert_eq!(m.map(s + P, usize::MAX), Err(Error::InvalidParameter));
    assert_eq!(m.map(s, P), Err(Error::InvalidHandle), "the kernel refuses a second one there");
    assert_eq!(m.driver.kernel.bos.len(), bos + 2);
    assert_eq!(query(&m, s), None, "case 37");
    check(&m);
    assert_eq!(m.unmap(s), Ok(()));
    assert_eq!(m.unmap(s), Err(Error::Failed), "a second time");
    assert_eq!(m.map_nodes(s, P, &[G1]), Err(Error::Failed), "nodes do not know scratch");
    check(&m);
    assert_eq!(m.free(s + 0x8000), Ok(()), "the whole scratch");
    assert_eq!(m.driver.kernel.bos.len(), bos);
    check(&m);
    m.allocate(G1, P, 0, MemFlags::SCRATCH, 0).unwrap();

    let mut m = Bench::apu(true).start();
    let s = m.allocate(CPU, P, 0, MemFlags::SCRATCH, 0).unwrap();
    assert_eq!((m.map(s, P), m.unmap(s), m.unmap(s)), (Ok(None), Ok(()), Ok(())));
    assert_eq!(m.allocate(CPU, P, 0, MemFlags::SCRATCH, 0), Err(Error::NoMemory), "one per GPU");
    assert_eq!(m.free(s), Ok(()));
    check(&m);
}
