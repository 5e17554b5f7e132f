//! Allocation and free.

use super::fake::Shown;
use super::*;
use crate::error::Error;
use crate::flags::IocFlags;

const HOST: MemFlags = MemFlags::HOST_ACCESS;
const COARSE: MemFlags = MemFlags::COARSE_GRAIN;
const FIXED: MemFlags = MemFlags::FIXED_ADDRESS;

fn last_ioc(m: &TestManager) -> IocFlags {
    m.driver.kernel.bos.values().last().unwrap().request.flags
}

#[test]
fn checks_come_in_order() {
    let mut bench = Bench::new();
    bench.opened.kfd_minor = 15;
    let mut m = bench.start();
    let before = state(&m);
    let mut status = |node, size, align, flags: MemFlags, at| m.allocate(node, size, align, flags, at).unwrap_err();
    let invalid = Error::InvalidParameter;
    assert_eq!(status(NodeId(9), 0, 3, MemFlags::CONTIGUOUS, 0), Error::NotSupported);
    assert_eq!(status(NodeId(9), 0, 3, VRAM, 0), Error::InvalidNode);
    for align in [1, 3, 2048, P + 1] {
        assert_eq!(status(G1, P, align, VRAM, 0), invalid, "case 62");
    }
    for size in [0, 1, 100, P + 1] {
        assert_eq!(status(G1, size, 0, VRAM, 0), invalid);
    }
    let huge = MemFlags::from_bits_retain(2 << 4) | VRAM;
    assert_eq!(status(G1, P, 0, huge, 0), invalid, "a multiple of the flags' page");
    assert_eq!(status(G1, 2 << 20, P, huge, 0), invalid, "and aligned to it");
    assert_eq!(status(G1, P, 0, VRAM | FIXED, 0), invalid);
    assert_eq!(status(G1, P, 0, VRAM | COARSE | MemFlags::EXTENDED_COHERENT, 0), invalid);
    assert_eq!(status(G1, P, 0, VRAM | MemFlags::EXTENDED_COHERENT | MemFlags::UNCACHED, 0), invalid);
    assert_eq!(status(G1, 0x1_0000, P, MemFlags::SCRATCH, 0), Error::NotImplemented);
    assert_eq!(status(CPU, 0x1_0000, 0, MemFlags::SCRATCH, 0), Error::NoMemory);
    assert_eq!(m.check_allocation(G1, P, 0, VRAM, None), Err(invalid), "no place for the answer");
    assert_eq!(m.check_allocation(NodeId(9), P, 0, VRAM, None), Err(Error::InvalidNode));
    assert_eq!(state(&m), before);
}

#[test]
fn vram() {
    let mut m = Bench::new().start();
    let v = m.allocate(G1, 4 * P, 0, VRAM, 0).unwrap();
    let info = query(&m, v + 4 * P - 1).unwrap();
    assert_eq!((info.kind, info.node, info.flags), (PointerType::Allocated, 1, VRAM));
    assert_eq!((info.cpu, info.gpu, info.size, info.user_data), (v, v, 4 * P, 0));
    assert_eq!((query(&m, v - 1), query(&m, v + 4 * P)), (None, None));
    let ioc = IocFlags::VRAM | IocFlags::WRITABLE | IocFlags::COHERENT | IocFlags::NO_SUBSTITUTE;
    assert_eq!(last_ioc(&m), ioc);
    assert!(matches!(m.driver.kernel.shown[&v], (_, Shown::Device { access: false, .. })));

    let h = m.allocate(G2, P, 0, VRAM | HOST | COARSE | MemFlags::EXECUTE_ACCESS | MemFlags::READ_ONLY, 0).unwrap();
    assert_eq!(last_ioc(&m), IocFlags::VRAM | IocFlags::PUBLIC | IocFlags::EXECUTABLE | IocFlags::NO_SUBSTITUTE);
    assert!(matches!(m.driver.kernel.shown[&h], (P, Shown::Device { access: true, .. })));
    check(&m);
}

#[test]
fn case_18_34_flags_read_back_as_given() {
    let mut m = Bench::new().start();
    for node in [G1, CPU] {
        for bits in [0x0000_0001, 0xff00_0041, 0x0000_2041, 0x0012_0041 & !0x10_0000] {
            let flags = MemFlags::from_bits_retain(bits);
            let v = m.allocate(node, P, 0, flags, 0).unwrap();
            assert_eq!(query(&m, v).unwrap().flags, flags);
        }
    }
}

#[test]
fn host_memory_on_a_dgpu_machine() {
    let mut m = Bench::new().start();
    let gtt = m.allocate(CPU, 3 * P, 0, VRAM | HOST, 0).unwrap();
    assert!(last_ioc(&m).contains(IocFlags::GTT | IocFlags::COHERENT | IocFlags::WRITABLE));
    assert!(matches!(m.driver.kernel.shown[&gtt], (_, Shown::Device { access: true, .. })));
    assert_eq!(query(&m, gtt).unwrap().node, 0);
    let hidden = m.allocate(CPU, P, 0, VRAM, 0).unwrap();
    assert!(!m.driver.kernel.shown.contains_key(&hidden), "CPU-mapped only with HostAccess");

    let paged = m.allocate(CPU, 3 * P, 0, HOST, 0).unwrap();
    assert!(last_ioc(&m).contains(IocFlags::USERPTR));
    assert_eq!(m.driver.kernel.bos.values().last().unwrap().user, paged as u64);
    assert_eq!(m.driver.kernel.shown[&paged], (3 * P, Shown::Pages { node: CPU }));
    let info = query(&m, paged).unwrap();
    assert_eq!((info.kind, info.cpu, info.node), (PointerType::Allocated, paged, 0));

    let on_gpu = m.allocate(G2, P, 0, HOST, 0).unwrap();
    assert_eq!(query(&m, on_gpu).unwrap().node, 2, "paged memory of a GPU node is host memory of that node");
    assert_eq!(m.driver.kernel.bos.values().last().unwrap().request.gpu, GpuId(0x1002));
    let gtt_access = m.allocate(G2, P, 0, VRAM | MemFlags::GTT_ACCESS, 0).unwrap();
    assert_eq!(query(&m, gtt_access).unwrap().node, 0);
    assert!(last_ioc(&m).contains(IocFlags::GTT));
    check(&m);
}

#[test]
fn options_that_change_the_kind_of_memory() {
    let mut bench = Bench::new();
    bench.options.userptr_for_paged_mem = false;
    bench.options.disable_cache = true;
    let mut m = bench.start();
    m.allocate(CPU, P, 0, HOST | COARSE, 0).unwrap();
    assert!(last_ioc(&m).contains(IocFlags::GTT | IocFlags::COHERENT | IocFlags::UNCACHED));
    assert!(m.driver.kernel.policies.iter().all(|policy| policy.1));

    let mut bench = Bench::new();
    bench.opened.zfb = true;
    let mut m = bench.start();
    let v = m.allocate(G1, P, 0, VRAM, 0).unwrap();
    assert!(last_ioc(&m).contains(IocFlags::GTT));
    assert_eq!(query(&m, v).unwrap().flags, VRAM | COARSE, "HSA_ZFB adds CoarseGrain");
    let paged = m.allocate(G1, P, 0, HOST, 0).unwrap();
    assert_eq!(query(&m, paged).unwrap().flags, HOST);
}

#[test]
fn aql_rings_are_twice_as_large() {
    let mut m = Bench::new().start();
    for (node, flags) in [(CPU, VRAM | HOST), (CPU, HOST), (G1, VRAM)] {
        let flags = flags | MemFlags::AQL_QUEUE_MEMORY;
        let a = m.allocate(node, 2 * P, 0, flags, 0).unwrap();
        assert_eq!(query(&m, a + 4 * P - 1).unwrap().size, 4 * P);
        assert!(last_ioc(&m).contains(IocFlags::AQL_QUEUE_MEM | IocFlags::UNCACHED));
        assert_eq!(m.driver.kernel.shown[&a].0, 2 * P, "the CPU sees it once");
        m.free(a).unwrap();
    }
    let huge = 1 << 63;
    assert_eq!(m.allocate(CPU, huge, 0, VRAM | MemFlags::AQL_QUEUE_MEMORY, 0), Err(Error::Failed));
    assert_eq!(m.allocate(G1, huge, 0, VRAM | MemFlags::AQL_QUEUE_MEMORY, 0), Err(Error::NoMemory));
    check(&m);
}

#[test]
fn case_52_an_address_without_memory() {
    let mut m = Bench::new().start();
    let r = m.allocate(G1, 2 << 20, 0, VRAM | MemFlags::ONLY_ADDRESS, 0).unwrap();
    let info = query(&m, r + P).unwrap();
    assert_eq!((info.kind, info.node, info.cpu), (PointerType::ReservedAddress, 0, 0));
    assert_eq!((info.gpu, info.size, info.flags.bits()), (r, 2 << 20, 0x8_0001));
    assert_eq!(m.map(r, 2 << 20), Err(Error::InvalidParameter));
    assert_eq!(m.map_nodes(r, 2 << 20, &[G1]), Err(Error::InvalidParameter));
    assert_eq!(m.set_user_data(r, 5), Ok(()));
    assert_eq!(m.register(range(r, P)), Err(Error::InvalidHandle));
    assert_eq!(m.deregister(r), Err(Error::NotRegistered));
    assert_eq!((m.free(r), query(&m, r)), (Ok(()), None));
    let host = m.allocate(CPU, 4 * P, 0, MemFlags::ONLY_ADDRESS, 0).unwrap();
    assert_eq!(kind(&m, host), PointerType::ReservedAddress);
    check(&m);
}

#[test]
fn case_54_ours_neither_address_nor_memory() {
    let mut m = Bench::new().start();
    let neither = MemFlags::ONLY_ADDRESS | MemFlags::NO_ADDRESS;
    assert_eq!(m.allocate(G1, P, 0, VRAM | neither, 0), Err(Error::InvalidParameter));
    let host = m.allocate(CPU, P, 0, neither, 0).unwrap();
    assert_eq!(kind(&m, host), PointerType::ReservedAddress, "NoAddress counts for VRAM only");
}

#[test]
fn case_55_memory_without_an_address() {
    let mut m = Bench::new().start();
    let h = m.allocate(G1, P, 0, VRAM | MemFlags::NO_ADDRESS, 0).unwrap();
    assert!(m.writer.layout().mem_handle.contains(h));
    assert_eq!(m.driver.kernel.bos.values().last().unwrap().request.va, 0);
    let info = query(&m, h + P - 1).unwrap();
    assert_eq!((info.kind, info.cpu, info.gpu), (PointerType::Allocated, h, h));
    assert_eq!(query(&m, h + P), None, "the guard");
    assert_eq!(m.map(h, P), Err(Error::InvalidParameter));
    assert!(!m.driver.kernel.shown.contains_key(&h));
    assert_eq!(m.free(h), Ok(()));
    check(&m);
}

#[test]
fn case_56_fixed_addresses() {
    for bench in [Bench::new(), Bench::reserved()] {
        let mut m = bench.start();
        let mmap = m.writer.layout().mmap;
        let x = if mmap { 0x5000_0000_0000 } else { 0x50_0000_0000 };
        assert_eq!(m.allocate(G1, P, 0, VRAM | FIXED, x), Ok(x));
        let before = state(&m);
        assert_eq!(m.allocate(G1, P, 0, VRAM | FIXED, x), Err(Error::NoMemory));
        assert_eq!(m.allocate(CPU, P, 0, HOST | COARSE | FIXED, x), Err(Error::Failed));
        assert_eq!(m.allocate(G1, P, 0, VRAM | FIXED, 0x10_0000), Err(Error::NoMemory), "outside the aperture");
        assert_eq!(m.allocate(G1, P, 0, VRAM | FIXED, 1 << 63), Err(Error::NoMemory));
        assert_eq!(m.allocate(G1, P, 0, VRAM | FIXED, x + P / 2), Err(Error::NoMemory));
        assert_eq!(state(&m), before, "the owner is untouched");
        let guard = m.allocate(G1, P, 0, VRAM | FIXED, x + P);
        assert_eq!(guard, if mmap { Ok(x + P) } else { Err(Error::NoMemory) });
        check(&m);
    }
}

#[test]
fn case_58_sizes_around_4_gib() {
    let mut m = Bench::new().start();
    for size in [(4 << 30) - P, 4 << 30, (4 << 30) + P] {
        let v = super::vram(&mut m, G1, size);
        assert_eq!(query(&m, v + size - 1).unwrap().size, size);
        assert_eq!(v % (2 << 20), 0);
    }
    assert_eq!(m.share(A, 16 << 40), Err(Error::InvalidParameter));
}

#[test]
fn case_61_guard_pages_in_a_reserved_aperture() {
    for (pages, distance) in [(0, 2 * P), (1, 3 * P), (4, 6 * P)] {
        let mut bench = Bench::reserved();
        bench.options.guard_pages = pages;
        let mut m = bench.start();
        let one = super::vram(&mut m, G1, P);
        let two = super::vram(&mut m, G1, P);
        assert_eq!(two - one, distance);
        assert_eq!(query(&m, one + P), None);
    }
}

#[test]
fn case_62_alignment() {
    let mut m = Bench::new().start();
    let v = super::vram(&mut m, G1, 3 << 30);
    assert_eq!(v % (2 << 20), 0);
    assert_eq!(m.allocate(G1, P, 1 << 30, VRAM, 0).unwrap() % (1 << 30), 0);
    let mut bench = Bench::new();
    bench.options.max_va_align = Some(18);
    let mut m = bench.start();
    assert_eq!(super::vram(&mut m, G1, 3 << 30) % (1 << 30), 0);
    assert_eq!(m.allocate(G1, P, 1 << 63, VRAM, 0), Err(Error::NoMemory));
}

#[test]
fn case_75_coherent_memory_has_its_quarter() {
    let mut m = Bench::reserved().start();
    let layout = *m.writer.layout();
    let fine = m.allocate(CPU, P, 0, HOST, 0).unwrap();
    let coarse = m.allocate(CPU, P, 0, HOST | COARSE, 0).unwrap();
    let v = super::vram(&mut m, G1, P);
    assert!(layout.svm_alt.contains(fine) && layout.svm.contains(coarse) && layout.svm.contains(v));
    for address in [fine, coarse, v] {
        assert_eq!(kind(&m, address + 5), PointerType::Allocated);
        m.free(address).unwrap();
        assert!(!m.driver.kernel.shown.contains_key(&address));
    }
    check(&m);
}

#[test]
fn case_77_apu() {
    let mut m = Bench::apu(true).start();
    let host = m.allocate(CPU, 2 * P, 0, HOST, 0).unwrap();
    let info = query(&m, host + P).unwrap();
    assert_eq!((info.kind, info.cpu, info.node), (PointerType::Allocated, host, 0), "ours, as kfdtest demands");
    assert!(m.driver.kernel.bos.is_empty());
    assert_eq!((m.deregister(host), m.unmap(host), m.map(host, P)), (Ok(()), Ok(()), Ok(None)));
    assert_eq!(m.set_user_data(host + 1, 1), Err(Error::Failed), "exact, and not rounded down");
    assert_eq!(m.set_user_data(host, 1), Ok(()));
    assert_eq!(m.free(host + 1), Err(Error::NotRegistered));
    let only = m.allocate(CPU, P, 0, MemFlags::ONLY_ADDRESS, 0).unwrap();
    assert_eq!(query(&m, only).map(|info| (info.kind, info.cpu)), Some((PointerType::ReservedAddress, 0)));
    assert_eq!(m.map(only, P), Err(Error::InvalidParameter));
    assert_eq!(m.allocate(CPU, P, P, HOST, 0), Err(Error::Failed), "no alignment");
    assert_eq!(m.allocate(CPU, P, 0, HOST | FIXED, 0x5000_0000_0000), Err(Error::Failed), "no fixed address");
    assert_eq!(m.allocate(CPU, 1 << 16, 0, MemFlags::SCRATCH | FIXED, 0x5000_0000_0000), Err(Error::NoMemory));
    assert_eq!(m.free(host), Ok(()));
    check(&m);
}

#[test]
fn case_78_one_object_in_each_aperture() {
    let mut m = Bench::apu(true).start();
    let v = m.allocate(CPU, P, 0, VRAM | MemFlags::AQL_QUEUE_MEMORY, 0).unwrap();
    assert!(m.writer.layout().gpuvm[0].contains(v));
    assert_eq!(query(&m, v).unwrap().size, P, "doubled only where SVM is needed");
    let request = m.driver.kernel.bos.values().last().unwrap().request;
    assert_eq!(request.va, (v - m.writer.layout().gpuvm[0].base) as u64);
    assert_eq!(m.allocate(CPU, P, 0, VRAM | HOST, 0), Err(Error::NoMemory), "the CPU cannot reach it");
    let h = m.allocate(CPU, P, 0, VRAM | MemFlags::NO_ADDRESS, 0).unwrap();
    let c = m.allocate(CPU, P, 0, HOST, 0).unwrap();
    for address in [v, h, c] {
        assert_eq!(query(&m, address + P - 1).unwrap().gpu, address);
        m.free(address).unwrap();
        assert_eq!(query(&m, address), None);
    }
    check(&m);

    let mut m = Bench::apu(false).start();
    let v = m.allocate(CPU, P, 0, VRAM, 0).unwrap();
    assert!(m.writer.layout().svm.contains(v));
    check(&m);
}

#[test]
fn case_36_user_data() {
    let mut m = Bench::new().start();
    let v = super::vram(&mut m, G1, 2 * P);
    let calls = m.driver.log.len();
    assert_eq!(m.set_user_data(v, 5), Ok(()));
    assert_eq!(query(&m, v + 4).unwrap().user_data, 5);
    assert_eq!(m.set_user_data(v + 8, 6), Ok(()));
    assert_eq!(m.set_user_data(v + P, 7), Err(Error::Failed));
    assert_eq!(m.set_user_data(A, 7), Err(Error::Failed));
    assert_eq!(query(&m, v).unwrap().user_data, 6);
    assert_eq!(m.set_user_data(v, 0), Ok(()));
    assert_eq!(query(&m, v).unwrap().user_data, 0);
    assert_eq!(m.driver.log.len(), calls, "no driver call");
}

#[test]
fn free_statuses() {
    let mut m = Bench::new().start();
    assert_eq!(m.free(0), Err(Error::Failed));
    assert_eq!(m.free(A), Err(Error::NotRegistered));
    let v = super::vram(&mut m, G1, 2 * P);
    assert_eq!(m.free(v + P), Err(Error::NotRegistered));
    m.map(v, P).unwrap();
    let before = state(&m);
    assert_eq!(m.free(v), Err(Error::Failed), "still mapped");
    assert_eq!(state(&m), before);
    m.unmap(v).unwrap();
    assert_eq!(m.free(v + 0x10), Ok(()), "anywhere in the first page");
    assert_eq!(m.free(v), Err(Error::NotRegistered));
    m.register(range(A, P)).unwrap();
    m.register(range(A, P)).unwrap();
    assert_eq!((m.free(A), kind(&m, A)), (Ok(()), PointerType::RegisteredUser));
    assert_eq!((m.free(A), kind(&m, A)), (Ok(()), PointerType::Unknown));
    assert_eq!(Bench::svm().start().free(A), Ok(()));
    check(&m);
}

#[test]
fn case_39_40_addresses_go_back_last() {
    let mut m = Bench::new().start();
    let v = super::vram(&mut m, G1, P);
    m.driver.log.clear();
    m.free(v).unwrap();
    let verbs: Vec<&str> = m.driver.log.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(verbs, ["free", "release"]);
    assert_eq!(super::vram(&mut m, G1, P), v, "and are used again");
}

#[test]
fn hostile_allocations() {
    for bench in [Bench::new(), Bench::reserved(), Bench::apu(true), Bench::apu(false)] {
        let mut m = bench.start();
        let before = state(&m);
        for node in [CPU, G1] {
            for flags in [VRAM, HOST, VRAM | MemFlags::NO_ADDRESS, MemFlags::ONLY_ADDRESS, MemFlags::SCRATCH] {
                for size in [usize::MAX, usize::MAX - P + 1, 1 << 63, 1 << 62, 1 << 50] {
                    for align in [0, 1 << 63, 1 << 40] {
                        assert!(m.allocate(node, size, align, flags, 0).is_err());
                        assert!(m.allocate(node, size, align, flags | FIXED, usize::MAX - P + 1).is_err());
                    }
                }
            }
        }
        assert_eq!(state(&m), before);
        check(&m);
    }
}
