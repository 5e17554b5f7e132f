//! IPC, dmabuf export, graphics import.

use super::*;
use crate::driver::DmabufInfo;
use crate::error::Error;
use crate::flags::IocFlags;
use crate::manager::SharedHandle;

fn with_dmabuf(metadata: usize) -> TestManager {
    let mut m = Bench::new().start();
    let flags = IocFlags::VRAM | IocFlags::WRITABLE | IocFlags::PUBLIC;
    let info = DmabufInfo { size: 4 << 20, gpu: GpuId(0x1002), flags, metadata_size: 0 };
    m.driver.dmabuf = Some((info, (0..metadata).map(|n| n as u8).collect()));
    m
}

#[test]
fn case_73_graphics() {
    for metadata in [0, 16, 64, 65, 4000] {
        let mut m = with_dmabuf(metadata);
        let g = m.register_graphics(fd(5), Some(&[G2, G1]), false).unwrap();
        let info = query(&m, g.address + 9).unwrap();
        assert_eq!((info.kind, info.cpu, info.node), (PointerType::RegisteredGraphics, 0, 2));
        assert_eq!((info.size, info.registered.as_slice()), (4 << 20, &[2, 1][..]));
        assert_eq!(info.flags, MemFlags::COARSE_GRAIN | MemFlags::HOST_ACCESS);
        assert_eq!(g.address % (256 << 10), 0);
        assert_eq!((g.size, g.node, g.metadata_size as usize), (4 << 20, G2, metadata));
        let stored = &m.ledger.get(records(&m).last().unwrap().1.id).unwrap().metadata;
        assert_eq!(g.metadata, stored.as_ptr(), "it stays where the caller was told");
        assert!(stored.iter().take(metadata).enumerate().all(|(n, byte)| *byte == n as u8));
        assert_eq!(m.driver.count("dmabuf_info"), 1 + usize::from(metadata > 64));
        m.map(g.address, g.size).unwrap();
        assert_eq!(query(&m, g.address).unwrap().mapped, [2, 1]);
        assert_eq!(m.deregister(g.address), Err(Error::Failed), "still mapped");
        m.unmap(g.address).unwrap();
        check(&m);
        assert_eq!((m.deregister(g.address), query(&m, g.address)), (Ok(()), None));
        check(&m);
    }
}

#[test]
fn case_74_without_nodes_a_name_instead_of_an_address() {
    let mut m = with_dmabuf(0);
    let handle = m.register_graphics(fd(5), None, false).unwrap().address;
    assert!(m.writer.layout().mem_handle.contains(handle));
    assert_eq!(m.driver.kernel.bos.values().last().unwrap().request.va, 0);
    assert_eq!(m.map(handle, 4 << 20), Err(Error::InvalidParameter));
    let address = m.register_graphics(fd(5), None, true).unwrap().address;
    assert!(m.writer.layout().svm.contains(address));
    check(&m);
}

#[test]
fn graphics_statuses() {
    let mut m = with_dmabuf(0);
    let before = state(&m);
    assert_eq!(m.register_graphics(fd(5), Some(&[]), false), Err(Error::InvalidParameter));
    assert_eq!(m.register_graphics(fd(5), Some(&[NodeId(9)]), false), Err(Error::InvalidNode));
    m.driver.dmabuf.as_mut().unwrap().0.gpu = GpuId(0x77);
    assert_eq!(m.register_graphics(fd(5), Some(&[G1]), false), Err(Error::Failed), "an unknown GPU");
    m.driver.dmabuf.as_mut().unwrap().0.gpu = GpuId(0x1001);
    for size in [0, u64::MAX, 1 << 60] {
        m.driver.dmabuf.as_mut().unwrap().0.size = size;
        assert_eq!(m.register_graphics(fd(5), Some(&[G1]), false), Err(Error::Failed));
    }
    m.driver.dmabuf = None;
    assert_eq!(m.register_graphics(fd(-1), None, false), Err(Error::Failed));
    assert_eq!(state(&m), before);
}

#[test]
fn case_67_share_and_import() {
    let mut m = Bench::new().start();
    let flags = VRAM | MemFlags::HOST_ACCESS;
    let v = m.allocate(G2, 4 * P, 0, flags, 0).unwrap();
    let handle = m.share(v, 3 * P).unwrap();
    assert_eq!((handle.aperture, handle.index, handle.pages, handle.gpu), (1, 0, 3, 0x1002));
    assert_eq!(SharedHandle::from_words(handle.to_words()), handle);
    assert!(m.driver.log.last().unwrap().ends_with("0x41"), "the exporter's flags go along");

    let mut other = Bench::new().start();
    other.driver.ipc_flags = flags;
    for offset in [0, 0x5000] {
        other.driver.ipc_offset = offset;
        let (address, size) = other.import_shared(handle, None).unwrap();
        let info = query(&other, address + P).unwrap();
        assert_eq!((info.kind, info.node, info.size), (PointerType::RegisteredShared, 2, size));
        assert_eq!((info.cpu, info.flags, size), (0, flags, 3 * P));
        assert_eq!(other.driver.kernel.shown.contains_key(&address), offset != 0);
    }
    let (address, _) = other.import_shared(handle, Some(&[G1])).unwrap();
    assert_eq!(query(&other, address).unwrap().registered, [1]);
    assert_eq!(other.ledger.len(), 5, "case 70: each import is an object of its own");
    assert_eq!((other.deregister(address), query(&other, address)), (Ok(()), None));
    assert_eq!(other.ledger.len(), 4);
    // Memory the CPU could see goes nowhere where the CPU cannot look; other memory does.
    let before = state(&other);
    let nowhere = SharedHandle { aperture: SharedHandle::MEM_HANDLE, ..handle };
    assert_eq!(other.import_shared(nowhere, None), Err(Error::Failed));
    assert_same(&before, &state(&other), "an import that the CPU should see");
    other.driver.ipc_offset = 0;
    assert!(other.import_shared(nowhere, None).is_ok());
    check(&other);
}

#[test]
fn share_statuses() {
    let mut m = Bench::new().start();
    let v = vram(&mut m, G1, 4 * P);
    assert_eq!(m.share(v + 1, P), Err(Error::InvalidParameter), "exact");
    assert_eq!(m.share(A, P), Err(Error::InvalidParameter));
    assert_eq!(m.share(v, 16 << 40), Err(Error::InvalidParameter));
    assert!(m.share(v, (16 << 40) - P).is_ok(), "not compared with the object");
    let only = m.allocate(G1, P, 0, VRAM | MemFlags::ONLY_ADDRESS, 0).unwrap();
    assert_eq!(m.share(only, P), Err(Error::Failed));
    let host = m.allocate(CPU, P, 0, MemFlags::HOST_ACCESS, 0).unwrap();
    assert_eq!(m.share(host, P).unwrap().gpu, 0x1001, "host memory: the first GPU");
    let handle = m.allocate(G1, P, 0, VRAM | MemFlags::NO_ADDRESS, 0).unwrap();
    assert_eq!(m.share(handle, P).unwrap().aperture, SharedHandle::MEM_HANDLE);
    m.register(range(A, P)).unwrap();
    assert_eq!(m.share(A, P), Err(Error::InvalidParameter), "the address index only");
    let gpu = query(&m, A).unwrap().gpu;
    assert!(m.share(gpu, P).is_ok());
    let s = m.allocate(G1, P, 0, MemFlags::SCRATCH, 0).unwrap();
    assert_eq!(m.share(s, P), Err(Error::InvalidParameter));
    m.map(s, P).unwrap();
    assert_eq!(m.share(s, P).unwrap().aperture, SharedHandle::NOWHERE);

    let mut m = Bench::reserved().start();
    let fine = m.allocate(CPU, P, 0, MemFlags::HOST_ACCESS, 0).unwrap();
    assert_eq!(m.share(fine, P).unwrap().aperture, SharedHandle::SVM_ALT);
    let mut m = Bench::apu(true).start();
    let v = vram(&mut m, CPU, P);
    assert_eq!(m.share(v, P).unwrap().aperture, SharedHandle::GPUVM);
    let host = m.allocate(CPU, P, 0, MemFlags::empty(), 0).unwrap();
    assert_eq!(m.share(host, P), Err(Error::Failed), "no buffer object to share");
}

#[test]
fn case_68_forged_handles() {
    for bench in [Bench::new(), Bench::reserved(), Bench::apu(true)] {
        let mut m = bench.start();
        let before = state(&m);
        let good = SharedHandle { share: [7, 7, 7, 1], aperture: 1, index: 0, pages: 1, gpu: 0x1001 };
        for aperture in [0, 4, 6, u32::MAX] {
            assert_eq!(m.import_shared(SharedHandle { aperture, ..good }, None), Err(Error::InvalidParameter));
        }
        for (aperture, index) in [(3, 1), (3, u32::MAX)] {
            let forged = SharedHandle { aperture, index, ..good };
            assert_eq!(m.import_shared(forged, None), Err(Error::InvalidParameter));
        }
        let svm = if bench.apu { 5 } else { 1 };
        let good = SharedHandle { aperture: svm, ..good };
        assert_eq!(m.import_shared(SharedHandle { pages: 0, ..good }, None), Err(Error::Failed), "nothing to import");
        assert_eq!(m.import_shared(SharedHandle { share: [0; 4], ..good }, None), Err(Error::Failed));
        assert_eq!(m.import_shared(SharedHandle { gpu: 0x77, ..good }, None), Err(Error::Failed));
        assert_eq!(m.import_shared(good, Some(&[])), Err(Error::InvalidParameter));
        assert_eq!(m.import_shared(good, Some(&[NodeId(9)])), Err(Error::InvalidNode));
        let _ = m.import_shared(SharedHandle { pages: u32::MAX, share: [0; 4], ..good }, None);
        assert_eq!(state(&m), before);
        check(&m);
    }
}

#[test]
fn case_72_export_by_range() {
    let mut m = Bench::new().start();
    let v = vram(&mut m, G1, 4 * P);
    let fd = m.export_dmabuf(v, 4 * P).unwrap().0;
    assert_eq!(m.export_dmabuf(v + P, P), Ok((fd, P as u64)));
    assert_eq!(m.export_dmabuf(v + P + 1, 3 * P - 1), Ok((fd, P as u64 + 1)));
    assert_eq!(m.export_dmabuf(v + P, 4 * P), Err(Error::InvalidParameter));
    assert_eq!(m.export_dmabuf(v + P, usize::MAX), Err(Error::InvalidParameter), "ours: overflow is checked");
    assert_eq!(m.export_dmabuf(v + 4 * P, 1), Err(Error::InvalidParameter));
    assert_eq!(m.export_dmabuf(A, 1), Err(Error::InvalidParameter));
    let only = m.allocate(G1, P, 0, VRAM | MemFlags::ONLY_ADDRESS, 0).unwrap();
    assert_eq!(m.export_dmabuf(only, P), Err(Error::Failed));
    let mut bench = Bench::new();
    bench.opened.kfd_minor = 11;
    assert_eq!(bench.start().export_dmabuf(A, 1), Err(Error::NotSupported));
}
