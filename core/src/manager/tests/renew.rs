//! Case 84: the topology has changed between Release and Acquire.

use super::fake::Fail;
use super::*;
use crate::driver::Errno;
use crate::error::Error;
use crate::manager::{Range, SetUpError};

/// Case 84's machine: nodes 1, 2 and 3 are these GPUs.
const THREE: [u32; 3] = [0xa001, 0xa102, 0xa203];

/// Makes an object and says where it is.
type Make<'a> = &'a dyn Fn(&mut TestManager) -> usize;

/// A machine whose GPUs have these ids, in node order.
fn bench(ids: &[u32]) -> Bench {
    Bench { gpus: ids.len() as u32, ..Bench::new() }
}

/// Runs `work` on the nodes of that machine.
fn with_nodes<T>(bench: &Bench, ids: &[u32], work: impl FnOnce(&[NodeFacts<'_>]) -> T) -> T {
    bench.with_nodes(|nodes| {
        let mut nodes = nodes.to_vec();
        for (node, id) in nodes.iter_mut().skip(1).zip(ids) {
            node.gpu_id = GpuId(*id);
        }
        work(&nodes)
    })
}

fn apertures(bench: &Bench, ids: &[u32]) -> Vec<ProcessApertures> {
    let named = |(known, id): (ProcessApertures, &u32)| ProcessApertures { gpu: GpuId(*id), ..known };
    bench.apertures().into_iter().zip(ids).map(named).collect()
}

/// Set up with these GPUs.
fn start_with(of: &Bench, ids: &[u32]) -> TestManager {
    let bench = Bench { gpus: ids.len() as u32, ..of.clone() };
    let mut m = bench.open();
    m.driver.apertures = apertures(&bench, ids);
    with_nodes(&bench, ids, |nodes| m.set_up(nodes, &bench.options)).unwrap();
    check(&m);
    m
}

fn start(ids: &[u32]) -> TestManager {
    start_with(&Bench::new(), ids)
}

/// The device has these GPUs now, and Acquire finds them.
fn renew_with(m: &mut TestManager, of: &Bench, ids: &[u32]) -> Result<(), SetUpError> {
    let bench = Bench { gpus: ids.len() as u32, ..of.clone() };
    m.driver.apertures = apertures(&bench, ids);
    m.driver.log.clear();
    with_nodes(&bench, ids, |nodes| m.renew(nodes, &bench.options))
}

fn renew(m: &mut TestManager, ids: &[u32]) -> Result<(), SetUpError> {
    let done = renew_with(m, &Bench::new(), ids);
    check(m);
    done
}

/// On which GPU the buffer at `start` is, as the device knows it.
fn gpu_of(m: &TestManager, start: usize) -> u32 {
    let bo = m.driver.kernel.bos.values().find(|bo| bo.request.va == start as u64).unwrap();
    bo.request.gpu.0
}

/// Allocates on each node: each buffer is on the GPU that the table names, and is mapped by default on all, its own first.
fn check_table(m: &mut TestManager, ids: &[u32]) {
    for (node, id) in (1..).zip(ids) {
        let start = vram(m, NodeId(node), P);
        assert_eq!(gpu_of(m, start), *id, "node {node}");
        m.map(start, P).unwrap();
        let mut mapped: Vec<u32> = std::vec![node];
        mapped.extend((1..=ids.len() as u32).filter(|other| *other != node));
        assert_eq!(query(m, start).map(|info| (info.node, info.mapped)), Some((node, mapped)));
        m.unmap(start).unwrap();
        m.free(start).unwrap();
        let page = m.range(GpuId(*id), Range::Mmio).unwrap();
        assert_eq!(query(m, page.base).map(|info| info.node), Some(node), "the MMIO page of GPU {id:#x}");
    }
    assert_eq!(m.allocate(NodeId(ids.len() as u32 + 1), P, 0, VRAM, 0), Err(Error::InvalidNode));
    check(m);
}

#[test]
fn case_84_memory_goes_to_the_gpu_that_the_node_names_now() {
    let now: [&[u32]; 6] = [
        &[0xa001, 0xa203],
        &[0xa102, 0xa001, 0xa203],
        &[0xa203, 0xa102, 0xa001],
        &[0xa001, 0xa102, 0xa203, 0xa304],
        &[0xb001],
        &[],
    ];
    for bench in [Bench::new(), Bench::reserved()] {
        for ids in now {
            let mut m = start_with(&bench, &THREE);
            assert_eq!(renew_with(&mut m, &bench, ids), Ok(()), "{ids:x?}");
            check(&m);
            check_table(&mut m, ids);
            assert_eq!(renew_with(&mut m, &bench, &THREE), Ok(()), "and back from {ids:x?}");
            check(&m);
            check_table(&mut m, &THREE);
            m.tear_down();
            assert!(m.driver.kernel.bos.is_empty() && m.driver.kernel.reserved.is_empty());
        }
    }
}

#[test]
fn case_84_objects_on_gpus_that_keep_their_nodes_go_on() {
    for bench in [Bench::new(), Bench::reserved()] {
        let mut m = start_with(&bench, &THREE);
        let own = vram(&mut m, G1, P);
        m.map_nodes(own, P, &[G1, G2]).unwrap();
        m.set_user_data(own, 7).unwrap();
        let handle = m.allocate(G1, P, 0, VRAM | MemFlags::NO_ADDRESS, 0).unwrap();
        m.register_to_nodes(range(A, P), &[G2, CPU]).unwrap();
        let scratch = m.allocate(G2, 0x1_0000, 0, MemFlags::SCRATCH, 0).unwrap();
        m.map(scratch, P).unwrap();
        let known = [own, handle, A].map(|at| query(&m, at).unwrap());
        // Node 3 goes, and node 4 comes later.
        for ids in [&THREE[..2], &[0xa001, 0xa102, 0xa304], &[0xa001, 0xa102, 0xa304, 0xa405]] {
            assert_eq!(renew_with(&mut m, &bench, ids), Ok(()), "{ids:x?}");
            check(&m);
            assert_eq!([own, handle, A].map(|at| query(&m, at).unwrap()), known);
            check_table(&mut m, ids);
        }
        assert_eq!(m.unmap(own), Ok(()));
        assert_eq!(m.free(own), Ok(()));
        assert_eq!(m.free(handle), Ok(()));
        assert_eq!(m.deregister(A), Ok(()));
        assert_eq!((m.unmap(scratch), m.free(scratch)), (Ok(()), Ok(())));
        check(&m);
    }
}

#[test]
fn case_84_an_object_whose_node_means_another_gpu_now_is_in_the_way() {
    let in_use = |start, node, was, now| SetUpError::InUse { start, node, was: GpuId(was), now: GpuId(now) };
    let swapped = [0xa102, 0xa001, 0xa203];
    // What is alive, and by which node it stands in the way of the swap.
    let make: [(u32, Make<'_>); 6] = [
        (1, &|m| vram(m, G1, P)),
        (1, &|m| {
            let start = vram(m, NodeId(3), P);
            m.map_nodes(start, P, &[NodeId(3), G1]).unwrap();
            start
        }),
        (2, &|m| {
            let start = vram(m, NodeId(3), P);
            m.map_nodes(start, P, &[NodeId(3), G2]).unwrap();
            start
        }),
        // A host buffer is on the first GPU.
        (1, &|m| m.allocate(CPU, P, 0, MemFlags::HOST_ACCESS, 0).unwrap()),
        (1, &|m| {
            m.register_to_nodes(range(A, P), &[NodeId(3)]).unwrap();
            query(m, A).unwrap().gpu
        }),
        (2, &|m| m.allocate(G2, 0x1_0000, 0, MemFlags::SCRATCH, 0).unwrap()),
    ];
    for (index, (node, make)) in make.iter().enumerate() {
        let mut m = start(&THREE);
        let at = make(&mut m);
        let before = state(&m);
        let (was, now) = if *node == 1 { (0xa001, 0xa102) } else { (0xa102, 0xa001) };
        m.driver.kernel.policies.clear();
        let before = before.lines().skip(2).collect::<Vec<_>>().join("\n");
        assert_eq!(renew(&mut m, &swapped), Err(in_use(at, NodeId(*node), was, now)), "{index}");
        let after = state(&m).lines().skip(2).collect::<Vec<_>>().join("\n");
        assert_same(&before, &after, "a refusal changes nothing");
        assert_eq!(m.writer.layout().gpu_of(G1), Some(GpuId(0xa001)));
        // The old table goes on whole.
        m.driver.apertures = apertures(&bench(&THREE), &THREE);
        if query(&m, at).is_some_and(|info| !info.mapped.is_empty()) {
            m.unmap(at).unwrap();
        }
        assert!(m.free(at).is_ok());
        assert_eq!(renew(&mut m, &swapped), Ok(()), "{index}");
        check_table(&mut m, &swapped);
    }
    // GPU 0xa203 has gone, and its buffer has not.
    let mut m = start(&THREE);
    let start = vram(&mut m, NodeId(3), P);
    assert_eq!(renew(&mut m, &THREE[..2]), Err(in_use(start, NodeId(3), 0xa203, 0)));
    assert_eq!(query(&m, start).map(|info| info.node), Some(3));
    let error = renew(&mut m, &THREE[..2]).unwrap_err();
    let text = std::string::ToString::to_string(&error);
    assert!(text.contains("node 3 was GPU 0xa203 and is no GPU now"), "{text}");
    assert_eq!((Error::from(error), error.errno()), (Error::Failed, None));
}

#[test]
fn other_address_ranges_are_refused_while_anything_lies_in_them() {
    let bench = Bench::new();
    let narrow = Bench { gpuvm: Bounds::new(0x100_0000, (1 << 46) - 1), ..Bench::new() };
    let mut m = start(&THREE);
    let start = vram(&mut m, G1, P);
    assert_eq!(renew_with(&mut m, &narrow, &THREE), Err(SetUpError::RangesInUse { start }));
    check(&m);
    m.driver.apertures = apertures(&Bench { gpus: 3, ..bench.clone() }, &THREE);
    m.free(start).unwrap();
    // From the process's own addresses to a reserved range and back.
    for of in [&narrow, &bench, &narrow] {
        assert_eq!(renew_with(&mut m, of, &THREE), Ok(()));
        check(&m);
        check_table(&mut m, &THREE);
    }
    // A range that is reserved already is kept where it suits.
    let kept = m.writer.layout().svm;
    m.driver.log.clear();
    assert_eq!(renew_with(&mut m, &narrow, &[0xa001]), Ok(()));
    assert_eq!((m.driver.count("reserve"), m.writer.layout().svm), (0, kept));
}

#[test]
fn a_renewal_fails_cleanly() {
    for bench in [Bench::new(), Bench::reserved()] {
        for alive in [false, true] {
            let prepare = || {
                let mut m = start_with(&bench, &THREE);
                if alive {
                    let start = vram(&mut m, G1, P);
                    m.map_nodes(start, P, &[G1]).unwrap();
                }
                m
            };
            for k in 1..40 {
                let mut m = prepare();
                let before = state(&m).lines().skip(2).collect::<Vec<_>>().join("\n");
                let two = Bench { gpus: 2, ..bench.clone() };
                m.driver.arm(Fail::At(k, 0));
                m.driver.apertures = apertures(&two, &[0xa001, 0xb102]);
                let done = with_nodes(&two, &[0xa001, 0xb102], |nodes| m.renew(nodes, &two.options));
                let reached = m.driver.steps >= k;
                m.driver.arm(Fail::Never);
                let Err(error) = done else {
                    assert!(m.writer.layout().gpu_of(G2) == Some(GpuId(0xb102)));
                    if !reached {
                        check(&m);
                        break;
                    }
                    // An MMIO page that the device does not free stays the kernel's, as at the last close.
                    continue;
                };
                check(&m);
                let after = state(&m).lines().skip(2).collect::<Vec<_>>().join("\n");
                assert_same(&before, &after, &format!("step {k}: {error}"));
                // Without a page for trial the SVM range would have to be a reserved one, which an object is not in.
                let trial = matches!(error, SetUpError::NoRoom(_) | SetUpError::RangesInUse { .. });
                assert!(error.errno() == Some(Errno::NOMEM) || trial, "{error}");
                assert_eq!(m.writer.layout().gpu_of(NodeId(3)), Some(GpuId(0xa203)));
                assert_eq!(with_nodes(&two, &[0xa001, 0xb102], |nodes| m.renew(nodes, &two.options)), Ok(()), "again");
            }
        }
    }
}

#[test]
fn a_page_that_a_caller_freed_is_not_ended_again() {
    let mut m = start(&THREE);
    let page = m.range(GpuId(0xa102), Range::Mmio).unwrap().base;
    m.unmap(page).unwrap();
    m.free(page).unwrap();
    // Somebody else's now.
    let other = m.allocate(G1, P, 0, VRAM | MemFlags::FIXED_ADDRESS, page).unwrap();
    assert_eq!((renew(&mut m, &[0xa001, 0xa102]), query(&m, other).map(|info| info.node)), (Ok(()), Some(1)));
}

#[test]
fn too_many_nodes_are_too_many() {
    let mut m = start(&THREE);
    let ids: Vec<u32> = (1..=crate::aperture::MAX_NODES as u32).collect();
    let error = renew(&mut m, &ids).unwrap_err();
    assert_eq!(error, SetUpError::TooManyNodes(crate::aperture::MAX_NODES + 1));
    check_table_is_old(&mut m);
}

fn check_table_is_old(m: &mut TestManager) {
    m.driver.apertures = apertures(&bench(&THREE), &THREE);
    check_table(m, &THREE);
}
