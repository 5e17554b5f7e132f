//! The one workload of the in-process benches: a machine without a kernel, objects on it, addresses to ask for.
//!
//! In: how many objects. Out: a [`Scene`] (the core alone, readers tracked by crossbeam-epoch) or an [`OpenContext`]
//! (the process's own context, as C callers use it), both filled by the same verbs over the simulated machine, whose
//! addresses are only numbers: 100,000 objects need no mappings. The same numbers come out in every run.
//!
//! Sizes, strides and the kind of order are those of `workload.c`: 16 KiB buffers, mapped; 8 KiB userptrs every 16 KiB,
//! mapped; every object once in a random order, at a random place inside it, then again in another order.

use std::ffi::c_void;
use std::hint::black_box;
use std::mem::MaybeUninit;

use fastrand::Rng;
use hsakmt::Context;
use hsakmt::context::ContextManager;
use hsakmt::ctypes::HsaPointerInfo;
use hsakmt_core::address::PageSize;
use hsakmt_core::driver::{Driver, HostRange};
use hsakmt_core::epoch::Domain;
use hsakmt_core::epoch::crossbeam::Crossbeam;
use hsakmt_core::error::{Error, Result};
use hsakmt_core::flags::MemFlags;
use hsakmt_core::manager::{Manager, Opened, Options};
use hsakmt_core::node::NodeId;
use hsakmt_core::pool::{Heap, Memory};
use hsakmt_core::reader::Reader;
use hsakmt_core::registry::Registry;
use hsakmt_kfd::sim::description::Machine;
use hsakmt_kfd::sim::embedded::{EmbeddedDriver, EmbeddedMachine, Space};
use hsakmt_kfd::sim::machine::SvmMode;
use hsakmt_kfd::topology::Topology;

/// A buffer's size.
pub const BUFFER: usize = 0x4000;
/// A userptr's size.
pub const USERPTR: usize = 0x2000;
/// From one userptr to the next.
const STRIDE: usize = 0x4000;
/// Where the first userptr is: far from what the simulated machine hands out.
const HOST: usize = 0x1000_0000_0000;
/// The node whose memory the buffers are.
const NODE: NodeId = NodeId(1);
/// Least length of a list.
const LEAST: usize = 65_536;

/// Numbers of objects that benches go through.
pub const SIZES: [usize; 4] = [16, 1_000, 10_000, 100_000];

/// Addresses to ask for. Empty where there are no such objects.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    /// Inside buffers.
    pub hits: Vec<usize>,
    /// Inside userptrs.
    pub userptrs: Vec<usize>,
    /// Between userptrs.
    pub misses: Vec<usize>,
    /// Where buffers start.
    pub starts: Vec<usize>,
}

impl Addresses {
    fn of(buffers: &[usize], host: &[usize]) -> Addresses {
        let mut random = random();
        Addresses {
            hits: pattern(&mut random, buffers, 0, BUFFER),
            userptrs: pattern(&mut random, host, 0, USERPTR),
            misses: pattern(&mut random, host, USERPTR, STRIDE - USERPTR),
            starts: pattern(&mut random, buffers, 0, 1),
        }
    }
}

/// The core alone.
pub struct Scene {
    /// The writer's side.
    pub manager: Manager<'static, EmbeddedDriver, Crossbeam, Heap>,
    /// What to ask for.
    pub addresses: Addresses,
    /// Where its buffers start, in the order of their making.
    pub buffers: Vec<usize>,
}

impl Scene {
    /// With so many objects. It is never freed.
    pub fn new(buffers: usize, userptrs: usize) -> Result<Scene> {
        let registry: &'static Registry<Crossbeam> = Box::leak(Box::new(Registry::new()));
        let writer = registry.writer(PageSize::FOUR_KIB, Heap)?;
        let machine = machine()?;
        let topology = machine.topology(false).map_err(|_| Error::Failed)?;
        let driver = machine.open().map_err(|_| Error::Failed)?;
        let mut manager = Manager::new(driver, writer, Opened::default())?;
        set_up(&mut manager, &topology)?;
        let (buffers, host) = fill(&mut manager, buffers, userptrs)?;
        Ok(Scene { manager, addresses: Addresses::of(&buffers, &host), buffers })
    }

    /// A reader of it.
    pub fn reader(&self) -> Reader<'static, Crossbeam> {
        self.manager.writer().readers().reader().expect("crossbeam has a place for everyone")
    }
}

/// The process's primary context, open on the simulated machine until this is dropped.
pub struct OpenContext {
    /// The context.
    pub context: Context,
    /// What to ask for.
    pub addresses: Addresses,
}

impl OpenContext {
    /// With so many objects. There is one at a time.
    pub fn new(buffers: usize, userptrs: usize) -> Result<OpenContext> {
        let context = Context::primary();
        let machine = machine()?;
        let topology = machine.topology(false).map_err(|_| Error::Failed)?;
        let driver = machine.open().map_err(|_| Error::Failed)?;
        context.open_with(|| Ok(Box::new(driver)))?;
        let mut open = OpenContext { context, addresses: Addresses::default() };
        let work = |manager: &mut ContextManager| {
            set_up(manager, &topology)?;
            let (buffers, host) = fill(manager, buffers, userptrs)?;
            Ok(Addresses::of(&buffers, &host))
        };
        // SAFETY: the work makes objects; the manager stays in its place.
        open.addresses = unsafe { context.manage_mut(work) }?;
        Ok(open)
    }
}

impl Drop for OpenContext {
    fn drop(&mut self) {
        // It was open; there is nobody to tell if closing it went wrong.
        let _ = self.context.close();
    }
}

/// Two GPUs with much memory, without the SVM API, in whose place userptrs are objects.
fn machine() -> Result<EmbeddedMachine> {
    let mut machine = Machine::preset("gfx90a", None).ok_or(Error::Failed)?;
    for gpu in &mut machine.gpus {
        (gpu.vram, gpu.svm) = (64 << 30, false);
    }
    EmbeddedMachine::new(machine, SvmMode::Machine, Space::Virtual).map_err(|_| Error::Failed)
}

fn set_up<V: Driver, D: Domain, M: Memory>(manager: &mut Manager<'_, V, D, M>, topology: &Topology) -> Result<()> {
    // Guard pages would leave a hole beside each object, and the simulated address space looks through all holes.
    let options = Options { guard_pages: 0, ..Options::default() };
    Ok(topology.with_facts(|nodes| manager.set_up(nodes, &options))?)
}

/// Makes the objects; where buffers and host ranges start.
fn fill<V: Driver, D: Domain, M: Memory>(
    manager: &mut Manager<'_, V, D, M>,
    buffers: usize,
    userptrs: usize,
) -> Result<(Vec<usize>, Vec<usize>)> {
    let made: Result<Vec<usize>> = (0..buffers).map(|_| allocate(manager)).collect();
    let host: Result<Vec<usize>> = (0..userptrs).map(|index| register(manager, HOST + index * STRIDE)).collect();
    Ok((made?, host?))
}

/// The host range that is registered at an address.
pub fn userptr(address: usize) -> HostRange<'static> {
    // SAFETY: the simulated machine has no processor, and does not read what is registered.
    unsafe { HostRange::new(address, USERPTR) }
}

/// Makes a buffer and maps it.
pub fn allocate<V: Driver, D: Domain, M: Memory>(manager: &mut Manager<'_, V, D, M>) -> Result<usize> {
    let address = allocate_only(manager)?;
    manager.map(address, BUFFER)?;
    Ok(address)
}

/// Makes a buffer.
pub fn allocate_only<V: Driver, D: Domain, M: Memory>(manager: &mut Manager<'_, V, D, M>) -> Result<usize> {
    manager.allocate(NODE, BUFFER, 0, MemFlags::NON_PAGED | MemFlags::COARSE_GRAIN, 0)
}

fn register<V: Driver, D: Domain, M: Memory>(manager: &mut Manager<'_, V, D, M>, address: usize) -> Result<usize> {
    manager.register(userptr(address))?;
    manager.map(address, USERPTR)?;
    Ok(address)
}

/// `hsaKmtQueryPointerInfo` as a C caller reaches it: a call that is not inlined.
#[inline(always)]
pub fn c_query(address: usize, info: &mut MaybeUninit<HsaPointerInfo>) -> i32 {
    let entry: QueryPointerInfo = black_box(hsaKmtQueryPointerInfo);
    // SAFETY: the entry reads nothing behind the first pointer, whatever it is, and writes at most one `HsaPointerInfo`
    // through the second, which is room for one.
    unsafe { entry(std::ptr::without_provenance(address), info.as_mut_ptr()) }
}

/// `hsaKmtSetMemoryUserData` as a C caller reaches it: a call that is not inlined.
#[inline(always)]
pub fn c_set_user_data(address: usize, value: usize) -> i32 {
    let entry: SetMemoryUserData = black_box(hsaKmtSetMemoryUserData);
    // SAFETY: the entry dereferences neither pointer.
    unsafe { entry(std::ptr::without_provenance(address), std::ptr::without_provenance(value)) }
}

type QueryPointerInfo = unsafe extern "C" fn(*const c_void, *mut HsaPointerInfo) -> i32;
type SetMemoryUserData = unsafe extern "C" fn(*const c_void, *const c_void) -> i32;

// SAFETY: as declared in the C header (hsakmt.h); the status is an enum of C, hence an int.
unsafe extern "C" {
    fn hsaKmtQueryPointerInfo(pointer: *const c_void, info: *mut HsaPointerInfo) -> i32;
    fn hsaKmtSetMemoryUserData(pointer: *const c_void, value: *const c_void) -> i32;
}

/// Walks a list over and over.
#[derive(Debug)]
pub struct Walk<'a> {
    list: &'a [usize],
    next: usize,
}

impl<'a> Walk<'a> {
    /// From the front of a list that is not empty.
    pub fn new(list: &'a [usize]) -> Walk<'a> {
        assert!(!list.is_empty(), "no such objects");
        Walk { list, next: 0 }
    }

    /// The next address.
    #[inline(always)]
    pub fn step(&mut self) -> usize {
        let address = self.list[self.next];
        self.next = if self.next + 1 == self.list.len() { 0 } else { self.next + 1 };
        address
    }
}

/// The generator of every list and of the write benches' picks. Its seed is fixed: each run has the same numbers.
pub fn random() -> Rng {
    Rng::with_seed(0x9e37_79b9_7f4a_7c15)
}

/// All bases in a random order, again and again, each plus `from` and an offset below `spread`.
fn pattern(random: &mut Rng, bases: &[usize], from: usize, spread: usize) -> Vec<usize> {
    let mut list = Vec::new();
    while !bases.is_empty() && list.len() < LEAST {
        let begin = list.len();
        list.extend_from_slice(bases);
        random.shuffle(&mut list[begin..]);
    }
    for address in &mut list {
        *address += from + random.usize(..spread);
    }
    list
}

#[cfg(test)]
mod tests {
    use hsakmt_core::info::{PointerInfo, PointerType};

    use super::*;

    /// Every address gets the answer that its name promises.
    fn check(addresses: &Addresses, mut ask: impl FnMut(usize, &mut dyn FnMut(PointerInfo<'_>))) {
        let mut all = |list: &[usize], kind: PointerType, size: usize| {
            for address in list.iter().take(2_000) {
                ask(*address, &mut |info| assert_eq!((info.kind, info.size), (kind, size as u64), "{address:#x}"));
            }
        };
        all(&addresses.hits, PointerType::Allocated, BUFFER);
        all(&addresses.userptrs, PointerType::RegisteredUser, USERPTR);
        all(&addresses.misses, PointerType::Unknown, 0);
    }

    #[test]
    fn each_run_has_the_same_order_with_every_object_once_in_a_pass() {
        let bases: Vec<usize> = (0..1_000).map(|number| number * STRIDE).collect();
        let list = pattern(&mut random(), &bases, USERPTR, 16);
        assert_eq!(list, pattern(&mut random(), &bases, USERPTR, 16));
        for pass in list.chunks(bases.len()) {
            assert!(!pass.is_sorted());
            let mut objects: Vec<usize> = pass.iter().map(|address| address / STRIDE * STRIDE).collect();
            objects.sort_unstable();
            assert_eq!(objects, bases);
        }
    }

    #[test]
    fn both_scenes_answer_as_promised() {
        let scene = Scene::new(100, 50).unwrap();
        let mut reader = scene.reader();
        check(&scene.addresses, |address, then| reader.query_pointer(address, |info| then(info.unwrap())));
        let open = OpenContext::new(100, 50).unwrap();
        check(&open.addresses, |address, then| open.context.query_pointer(address, then).unwrap());
        assert_eq!(scene.addresses.hits, open.addresses.hits, "the same numbers everywhere");
    }
}
