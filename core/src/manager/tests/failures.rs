//! All or nothing: each verb, in each kind of aperture, with each of its driver steps failing once.

use super::*;
use crate::driver::DmabufInfo;
use crate::flags::IocFlags;
use crate::manager::SharedHandle;

const HOST: MemFlags = MemFlags::HOST_ACCESS;

#[test]
fn allocations() {
    for bench in [Bench::new(), Bench::reserved(), Bench::apu(true), Bench::apu(false)] {
        let node = if bench.apu { CPU } else { G1 };
        let kinds = [
            VRAM,
            VRAM | HOST,
            VRAM | MemFlags::NO_ADDRESS,
            VRAM | MemFlags::ONLY_ADDRESS,
            VRAM | MemFlags::AQL_QUEUE_MEMORY,
            VRAM | MemFlags::GTT_ACCESS | HOST,
            HOST,
            HOST | MemFlags::COARSE_GRAIN,
            MemFlags::SCRATCH,
        ];
        let old_apu = bench.gpuvm.base > 1 << 47;
        for flags in kinds.into_iter().filter(|flags| !old_apu || *flags != VRAM | HOST) {
            fails_cleanly(|| furnished(&bench), |m| m.allocate(node, 0x1_0000, 0, flags, 0).is_ok());
        }
    }
    let steps = fails_cleanly(|| furnished(&Bench::new()), |m| m.allocate(CPU, P, 0, HOST, 0).is_ok());
    assert_eq!(steps, 3, "address, pages, userptr buffer");
    let steps = fails_cleanly(|| furnished(&Bench::new()), |m| m.allocate(CPU, P, 0, VRAM | HOST, 0).is_ok());
    assert_eq!(steps, 3, "address, buffer, CPU mapping");
}

#[test]
fn frees() {
    for bench in [Bench::new(), Bench::reserved(), Bench::apu(true), Bench::apu(false)] {
        let node = if bench.apu { CPU } else { G1 };
        for flags in [VRAM, HOST, VRAM | MemFlags::NO_ADDRESS, MemFlags::ONLY_ADDRESS] {
            let find = |m: &TestManager| {
                let mut free = records(m).into_iter().filter(|(_, record)| record.mapped.is_empty());
                free.next().unwrap().1.start
            };
            let prepare = || {
                let mut m = bench.start();
                m.allocate(node, 2 * P, 0, flags, 0).unwrap();
                m
            };
            fails_cleanly(prepare, |m| m.free(find(m)).is_ok());
        }
    }
}

#[test]
fn registrations() {
    for bench in [Bench::new(), Bench::reserved(), Bench::svm()] {
        fails_cleanly(|| furnished(&bench), |m| m.register(range(A + 7, 3 * P)).is_ok());
        fails_cleanly(|| furnished(&bench), |m| m.register_to_nodes(range(A + 7, 3 * P), &[G2, G1]).is_ok());
        let flags = HOST | MemFlags::EXTENDED_COHERENT;
        fails_cleanly(|| furnished(&bench), |m| m.register_with_flags(range(A + 7, 3 * P), flags).is_ok());
        let prepare = || {
            let mut m = furnished(&bench);
            m.driver.svm_error = Some(fake::PERM);
            m.register(range(A + 0x20_0000, 3 * P)).unwrap();
            m
        };
        fails_cleanly(prepare, |m| m.deregister(A + 0x20_0000).is_ok());
        fails_cleanly(prepare, |m| m.free(A + 0x20_0000).is_ok());
        fails_cleanly(prepare, |m| m.map(A + 0x20_0000, 3 * P).is_ok());
        fails_cleanly(prepare, |m| m.set_user_data(A + 0x20_0000, 9).is_ok());
    }
}

#[test]
fn maps() {
    for bench in [Bench::new(), Bench::reserved()] {
        let fixed = 0x50_0000_0000;
        let prepare = |first: &'static [NodeId]| {
            let bench = bench.clone();
            move || {
                let mut m = bench.start();
                m.allocate(G1, 4 * P, 0, VRAM | MemFlags::FIXED_ADDRESS, fixed).unwrap();
                if !first.is_empty() {
                    m.map_nodes(fixed, P, first).unwrap();
                }
                m
            }
        };
        for first in [&[][..], &[G1], &[G2], &[G2, G1], &[G1, G1]] {
            fails_cleanly(prepare(first), |m| m.map(fixed, P).is_ok());
            fails_cleanly(prepare(first), |m| m.unmap(fixed).is_ok());
            for second in [&[G1][..], &[G2], &[G1, G2], &[G2, G2]] {
                fails_cleanly(prepare(first), |m| m.map_nodes(fixed, P, second).is_ok());
            }
        }
    }
}

#[test]
fn scratch() {
    for bench in [Bench::new(), Bench::reserved()] {
        let start = |m: &TestManager| m.machine.gpus[0].scratch.as_ref().unwrap().start();
        let empty = || {
            let mut m = bench.start();
            m.allocate(G1, 0x2_0000, 0, MemFlags::SCRATCH, 0).unwrap();
            m
        };
        let filled = || {
            let mut m = empty();
            for page in [0, 3, 7] {
                let at = start(&m) + page * P;
                m.map(at, P).unwrap();
            }
            m
        };
        assert_eq!(fails_cleanly(empty, |m| m.map(start(m), 2 * P).is_ok()), 3);
        fails_cleanly(filled, |m| m.unmap(start(m) + 3 * P).is_ok());
        fails_cleanly(filled, |m| m.free(start(m) + 5).is_ok());
    }
}

#[test]
fn imports() {
    for bench in [Bench::new(), Bench::reserved()] {
        let with_dmabuf = |metadata: usize| {
            let mut m = furnished(&bench);
            let info = DmabufInfo { size: 1 << 20, gpu: GpuId(0x1001), flags: IocFlags::VRAM, metadata_size: 0 };
            m.driver.dmabuf = Some((info, std::vec![1; metadata]));
            m.driver.ipc_offset = 0x7000;
            m
        };
        for metadata in [0, 100] {
            fails_cleanly(|| with_dmabuf(metadata), |m| m.register_graphics(fd(3), Some(&[G1]), false).is_ok());
            fails_cleanly(|| with_dmabuf(metadata), |m| m.register_graphics(fd(3), None, false).is_ok());
        }
        let handle = SharedHandle { share: [7, 7, 7, 1], aperture: 1, index: 0, pages: 1, gpu: 0x1002 };
        let steps = fails_cleanly(|| with_dmabuf(0), |m| m.import_shared(handle, Some(&[G2])).is_ok());
        assert!(steps >= 2, "import and CPU mapping at least");
        let first = |m: &TestManager| records(m).iter().map(|(_, record)| record.start).next().unwrap();
        fails_cleanly(|| with_dmabuf(0), |m| m.share(first(m), P).is_ok());
        fails_cleanly(|| with_dmabuf(0), |m| m.export_dmabuf(first(m), P).is_ok());
    }
}
