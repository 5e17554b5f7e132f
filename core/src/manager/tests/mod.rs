//! The manager on a device that can be told to fail. Tests are named by the case they answer for; "ours" in a name is a
//! deliberate difference from the C library.

mod fake;

mod alloc;
mod cases;
mod failures;
mod fixed;
mod import;
mod lifecycle;
mod map;
mod owned;
mod random;
mod readers;
mod register;
mod renew;
mod reserve;
mod scarce;
mod svm;

use std::boxed::Box;
use std::format;
use std::string::String;
use std::vec::Vec;

use fake::{Fail, Fake};
use scarce::Scarce;

use super::machine::SvmSpace;
use super::{Gfx, Manager, NodeFacts, Opened, Options};
use crate::address::{Bounds, PageSize};
use crate::aperture::Aperture;
use crate::driver::{DmabufFd, HostRange, ProcessApertures};
use crate::epoch::crossbeam::Crossbeam;
use crate::error::Result;
use crate::flags::MemFlags;
use crate::info::PointerType;
use crate::node::{GpuId, NodeId};
use crate::record::Record;
use crate::registry::Registry;

/// A page.
const P: usize = 4096;
/// A host buffer of the caller's.
const A: usize = 0x5555_0000_0000;
const G1: NodeId = NodeId(1);
const G2: NodeId = NodeId(2);
const CPU: NodeId = NodeId(0);
const VRAM: MemFlags = MemFlags::NON_PAGED;

/// Host memory of the caller's, or an address that claims to be.
fn range(address: usize, size: usize) -> HostRange<'static> {
    // SAFETY: the fake device reads and writes no memory.
    unsafe { HostRange::new(address, size) }
}

/// A descriptor of the caller's.
fn fd(number: i32) -> DmabufFd<'static> {
    // SAFETY: the fake device opens and asks nothing.
    unsafe { DmabufFd::new(number) }
}

type TestManager = Manager<'static, Fake, Crossbeam, Scarce>;

/// A machine to test on.
#[derive(Clone)]
struct Bench {
    gpus: u32,
    apu: bool,
    svm_api: bool,
    gfx: Gfx,
    gpuvm: Bounds,
    opened: Opened,
    options: Options,
    page: PageSize,
}

impl Bench {
    /// One CPU and two gfx90a, no SVM API.
    fn new() -> Bench {
        Bench {
            gpus: 2,
            apu: false,
            svm_api: false,
            gfx: Gfx { major: 9, minor: 0, stepping: 10 },
            gpuvm: Bounds::new(0x100_0000, (1 << 47) - 1),
            opened: Opened::default(),
            options: Options::default(),
            page: PageSize::FOUR_KIB,
        }
    }

    /// The same with the SVM API.
    fn svm() -> Bench {
        Bench { svm_api: true, ..Bench::new() }
    }

    /// SVM is a reserved range.
    fn reserved() -> Bench {
        let options = Options { reserve_svm: true, ..Options::default() };
        Bench { options, ..Bench::new() }
    }

    /// One APU: CPU and GPU are node 0. An old one has a GPUVM aperture of its own.
    fn apu(old: bool) -> Bench {
        let (gfx, gpuvm) = if old {
            (Gfx { major: 8, minor: 0, stepping: 1 }, Bounds::new(0x4001_0000_0000_0000, 0x4001_00ff_ffff_ffff))
        } else {
            (Gfx { major: 9, minor: 0, stepping: 2 }, Bounds::new(0x100_0000, (1 << 47) - 1))
        };
        Bench { gpus: 1, apu: true, gfx, gpuvm, ..Bench::new() }
    }

    fn apertures(&self) -> Vec<ProcessApertures> {
        let of = |gpu| ProcessApertures {
            gpu: GpuId(0x1000 + gpu),
            lds: Bounds::new(1 << 48, (1 << 48) + 0xffff_ffff),
            scratch: Bounds::new(1 << 49, (1 << 49) + 0xffff_ffff),
            gpuvm: self.gpuvm,
        };
        (1..=self.gpus).map(of).collect()
    }

    /// Opened, not yet set up.
    fn open(&self) -> TestManager {
        let registry = Box::leak(Box::new(Registry::new()));
        let writer = registry.writer(self.page, Scarce).unwrap();
        Manager::new(Fake::new(self.apertures()), writer, self.opened).unwrap()
    }

    fn set_up(&self, manager: &mut TestManager) -> Result<()> {
        Ok(self.with_nodes(|nodes| manager.set_up(nodes, &self.options))?)
    }

    fn with_nodes<T>(&self, work: impl FnOnce(&[NodeFacts<'_>]) -> T) -> T {
        let links: Vec<NodeId> = (0..=self.gpus).map(NodeId).collect();
        let node = |gpu: u32| NodeFacts {
            gpu_id: if gpu == 0 { GpuId::NONE } else { GpuId(0x1000 + gpu) },
            cpu_cores: u32::from(gpu == 0 || self.apu) * 8,
            simds: u32::from(gpu != 0) * 416,
            gfx: if gpu == 0 { Gfx::default() } else { self.gfx },
            device_id: if gpu == 0 { 0 } else { 0x740f },
            svm_api: self.svm_api,
            links_to: &links,
        };
        let first = u32::from(self.apu);
        let nodes: Vec<NodeFacts<'_>> = (first..=self.gpus).map(node).collect();
        work(&nodes)
    }

    fn start(&self) -> TestManager {
        let mut manager = self.open();
        self.set_up(&mut manager).unwrap();
        check(&manager);
        manager
    }
}

/// What a query says, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Info {
    kind: PointerType,
    node: u32,
    flags: MemFlags,
    cpu: usize,
    gpu: usize,
    size: usize,
    registered: Vec<u32>,
    mapped: Vec<u32>,
    user_data: usize,
}

/// Asks as a reader; `None` for unknown.
fn query(manager: &TestManager, address: usize) -> Option<Info> {
    let mut reader = manager.writer.readers().reader().unwrap();
    reader.query_pointer(address, |answer| {
        let info = answer.unwrap();
        (info.kind != PointerType::Unknown).then(|| Info {
            kind: info.kind,
            node: info.node.0,
            flags: info.flags,
            cpu: info.cpu_address,
            gpu: info.gpu_address as usize,
            size: info.size as usize,
            registered: info.registered.ids().to_vec(),
            mapped: info.mapped.ids().to_vec(),
            user_data: info.user_data,
        })
    })
}

fn kind(manager: &TestManager, address: usize) -> PointerType {
    query(manager, address).map_or(PointerType::Unknown, |info| info.kind)
}

fn vram(manager: &mut TestManager, node: NodeId, size: usize) -> usize {
    manager.allocate(node, size, 0, VRAM, 0).unwrap()
}

fn every_aperture(manager: &TestManager) -> Vec<Aperture> {
    let gpuvm = (0..manager.writer.layout().gpuvm_count).map(Aperture::Gpuvm);
    [Aperture::Svm, Aperture::SvmAlt, Aperture::MemHandle, Aperture::Cpuvm].into_iter().chain(gpuvm).collect()
}

fn records(manager: &TestManager) -> Vec<(Aperture, Record)> {
    let mut all = Vec::new();
    for aperture in every_aperture(manager) {
        let mut from = 0;
        while let Some(record) = manager.writer.next(aperture, from) {
            from = record.start + 1;
            all.push((aperture, record));
        }
    }
    all
}

/// Everything there is, in words: equal before a verb and after it failed. Buffer objects go by what they are, not by
/// name, since an undo may have had to make one again.
fn state(manager: &TestManager) -> String {
    let layout = manager.writer.layout();
    let kernel = &manager.driver.kernel;
    let mut words = format!("{:?} {:?} {:?} {}\n", layout.svm, layout.svm_alt, layout.mem_handle, layout.node_count);
    words += &format!("{:?} {:?}\n", kernel.policies, kernel.scratch);
    let bos = &manager.driver.kernel.bos;
    for (aperture, record) in records(manager) {
        let entry = manager.ledger.get(record.id).unwrap();
        let handles: Vec<_> = entry.handles.iter().map(|handle| bos.get(&handle).map(|bo| bo.describe())).collect();
        words += &format!(
            "{aperture:?} {:#x} {:#x} {:#x} {:#x} {:?} {:?} {:?} {:?} {:?} | {handles:?} {} {} {:?}\n",
            record.start,
            record.cpu,
            record.size,
            record.user_data,
            record.registered.ids(),
            record.mapped.ids(),
            record.flags,
            record.node,
            record.kind,
            entry.registrations,
            entry.mappings,
            entry.metadata,
        );
    }
    let mut all: Vec<_> = bos.values().map(|bo| bo.describe()).collect();
    all.sort();
    let mut shown = kernel.shown.clone();
    for (_, what) in shown.values_mut() {
        // The offset goes with the name.
        if let fake::Shown::Device { offset, .. } = what {
            *offset = 0;
        }
    }
    words += &format!("{all:?}\n{:?}\n{shown:?}\nledger {}\n", kernel.reserved, manager.ledger.len());
    words += &format!("{:?}\n", manager.machine.mem_handle.areas());
    if let SvmSpace::Reserved { main, alt, .. } = &manager.machine.svm {
        words += &format!("{:?} {:?}\n", main.areas(), alt.areas());
    }
    for gpu in manager.machine.gpus.iter() {
        let areas = gpu.gpuvm.as_ref().map(|(_, space)| space.areas().to_vec());
        let scratch = gpu.scratch.as_ref().map(|scratch| {
            let pieces: Vec<_> = scratch.pieces.iter().map(|piece| (piece.start, piece.size)).collect();
            (scratch.start(), scratch.size(), pieces)
        });
        words += &format!("{areas:?} {scratch:?} {:?}\n", gpu.mmio);
    }
    words
}

/// Two states are equal; if not, only the lines that differ are worth reading.
#[track_caller]
fn assert_same(before: &str, after: &str, what: &str) {
    if before != after {
        let lost: Vec<&str> = before.lines().filter(|line| !after.contains(line)).collect();
        let new: Vec<&str> = after.lines().filter(|line| !before.contains(line)).collect();
        panic!("{what}\nbefore: {lost:#?}\nafter: {new:#?}");
    }
}

/// What must hold at any time: every buffer object is somebody's, every record says what the kernel has, every reserved
/// address is an object's.
fn check(manager: &TestManager) {
    let all = records(manager);
    let kernel = &manager.driver.kernel;
    assert_eq!(all.len(), manager.ledger.len());
    let mut handles = Vec::new();
    let mut reserved = Vec::new();
    let mmap = manager.writer.layout().mmap;
    for (aperture, record) in &all {
        let entry = manager.ledger.get(record.id).unwrap();
        let mut said: Vec<GpuId> = manager.gpus(record.mapped).iter().collect();
        said.sort();
        said.dedup();
        for handle in entry.handles.iter() {
            let bo = &kernel.bos[&handle];
            assert_eq!(bo.mapped.iter().copied().collect::<Vec<_>>(), said, "{record:?}");
            handles.push(handle);
        }
        if *aperture == Aperture::Cpuvm || (mmap && *aperture == Aperture::Svm) {
            reserved.push((record.start, record.extent(manager.page())));
        }
        assert!(!record.is_userptr() || entry.registrations > 0);
        assert_eq!(entry.mappings > 0, !record.mapped.is_empty());
    }
    for gpu in manager.machine.gpus.iter() {
        let Some(scratch) = &gpu.scratch else { continue };
        handles.extend(scratch.pieces.iter().map(|piece| piece.handle));
        if mmap || !manager.machine.dgpu {
            reserved.push((scratch.start(), scratch.size()));
        }
    }
    if let SvmSpace::Reserved { whole, .. } = manager.machine.svm {
        reserved.push((whole.base, whole.limit - whole.base + 1));
    }
    handles.sort();
    reserved.sort();
    assert_eq!(handles, kernel.bos.keys().copied().collect::<Vec<_>>());
    assert_eq!(reserved, kernel.reserved.iter().map(|(at, size)| (*at, *size)).collect::<Vec<_>>());
}

/// Runs a verb with a failure at step 1, 2, ... until it gets through. Each failed run must leave everything as it was;
/// for a map or unmap every partial count is tried. Returns how many steps the verb has.
fn fails_cleanly(prepare: impl Fn() -> TestManager, verb: impl Fn(&mut TestManager) -> bool) -> usize {
    for k in 1..200 {
        let mut failed = false;
        for done in 0..4 {
            let mut manager = prepare();
            check(&manager);
            let before = state(&manager);
            manager.driver.arm(Fail::At(k, done));
            let succeeded = verb(&mut manager);
            let reached = manager.driver.steps >= k;
            manager.driver.arm(Fail::Never);
            check(&manager);
            if !succeeded {
                assert!(reached, "it failed by itself");
                assert_same(
                    &before,
                    &state(&manager),
                    &format!("step {k}, {done} GPUs done: {:#?}", manager.driver.log),
                );
            }
            failed |= reached;
        }
        if !failed {
            return k - 1;
        }
    }
    panic!("never got through");
}

/// A manager with a bit of everything in it.
fn furnished(bench: &Bench) -> TestManager {
    let mut manager = bench.start();
    vram(&mut manager, if bench.apu { CPU } else { G1 }, 4 * P);
    let host = manager.allocate(CPU, 2 * P, 0, MemFlags::HOST_ACCESS, 0).unwrap();
    let _ = manager.map(host, 2 * P);
    if !bench.apu {
        let _ = manager.register(range(A + 0x123, 0x100));
        let _ = manager.register(range(A + 0x123, 0x1000));
    }
    manager.set_user_data(host, 0x77).unwrap();
    check(&manager);
    manager
}
