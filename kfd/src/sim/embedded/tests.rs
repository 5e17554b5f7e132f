//! The embedded machine as a driver: every verb, two processes on one machine, faults, and real memory.

use std::os::fd::{AsFd, BorrowedFd};

use hsakmt_core::address::Bounds;
use hsakmt_core::driver::{
    BoRequest, DmabufFd, Driver, Errno, Handle, HostMap, HostRange, Partial, ProcessApertures, VaRequest,
};
use hsakmt_core::flags::{IocFlags, MemFlags};
use hsakmt_core::node::GpuId;

use rustix::ioctl::Opcode;

use super::{EmbeddedDriver, EmbeddedKfd, EmbeddedMachine, EmbeddedSpace, Space};
use crate::device::{Args, Arrays, Device, RenderNode, Transport};
use crate::driver::KfdDriver;
use crate::opcode;
use crate::sim::description::Machine;
use crate::sim::machine::{Faults, SvmMode};
use crate::topology::{Node, Topology, TopologyError};
use crate::uapi::MapMemoryToGpuArgs;

const PAGE: usize = 4096;
const ALL: Bounds = Bounds::new(0, usize::MAX);

fn machine(space: Space) -> EmbeddedMachine {
    EmbeddedMachine::new(Machine::preset("gfx90a", None).unwrap(), SvmMode::Machine, space).unwrap()
}

/// An opened driver with both GPUs acquired.
fn process(machine: &EmbeddedMachine) -> (EmbeddedDriver, [GpuId; 2]) {
    let mut driver = machine.open().unwrap();
    let none = Bounds::EMPTY;
    let empty = ProcessApertures { gpu: GpuId::NONE, lds: none, scratch: none, gpuvm: none };
    let mut apertures = [empty; 4];
    assert_eq!(driver.process_apertures(&mut apertures), Ok(2));
    assert_eq!(apertures[0].gpuvm, Bounds::new(0x100_0000, 0x7fff_ffff_ffff));
    let gpus = [apertures[0].gpu, apertures[1].gpu];
    for gpu in gpus {
        driver.acquire_vm(gpu).unwrap();
        driver.set_memory_policy(gpu, false, Bounds::EMPTY).unwrap();
    }
    (driver, gpus)
}

fn reserve(driver: &mut EmbeddedDriver, size: usize) -> usize {
    let bounds = Bounds::new(0x100_0000, 0x7fff_ffff_ffff);
    driver.reserve(VaRequest { size, align: PAGE, guard: PAGE, fixed: None, bounds }).unwrap()
}

fn vram(driver: &mut EmbeddedDriver, gpu: GpuId, va: usize, size: usize) -> hsakmt_core::driver::Bo {
    let flags = IocFlags::VRAM | IocFlags::PUBLIC | IocFlags::WRITABLE;
    driver.alloc(BoRequest { gpu, va: va as u64, size: size as u64, flags, user: None }).unwrap()
}

fn show(driver: &mut EmbeddedDriver, address: usize, what: HostMap) -> Result<(), Errno> {
    // SAFETY: each test passes a page that it has reserved, and uses no pointer to what it has shown before.
    unsafe { driver.host_map(address, PAGE, what) }
}

fn release(driver: &mut EmbeddedDriver, address: usize) {
    // SAFETY: each test passes a page that it has reserved, at its end.
    unsafe { driver.release(address, PAGE) }
}

/// Memory of a test's, or an address that claims to be.
fn range(address: usize, size: usize) -> HostRange<'static> {
    // SAFETY: the simulated device has no processor that could use it.
    unsafe { HostRange::new(address, size) }
}

fn lent(fd: i32) -> DmabufFd<'static> {
    // SAFETY: each test passes a descriptor of its own that it closes later.
    unsafe { DmabufFd::new(fd) }
}

fn byte(address: usize) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(address)
}

#[test]
fn two_processes_share_bytes_by_name_and_by_dmabuf() {
    let machine = machine(Space::Host);
    let (mut one, [gpu, _]) = process(&machine);
    let (mut two, _) = process(&machine);
    let here = reserve(&mut one, PAGE);
    let there = reserve(&mut two, PAGE);
    let bo = vram(&mut one, gpu, here, PAGE);
    show(&mut one, here, HostMap::Device { gpu, offset: bo.mmap_offset, access: true }).unwrap();
    // SAFETY: mapped above, readable and writable.
    unsafe { byte(here).write_volatile(7) };

    let share = one.ipc_export(bo.handle, gpu, MemFlags::HOST_ACCESS).unwrap();
    assert_eq!(one.ipc_export(bo.handle, gpu, MemFlags::empty()), Ok(share));
    assert_eq!(two.ipc_import([1, 2, 3, 4], gpu, there as u64).err(), Some(Errno::INVAL));
    let imported = two.ipc_import(share, gpu, there as u64).unwrap();
    assert_eq!(imported.flags, MemFlags::HOST_ACCESS);
    show(&mut two, there, HostMap::Device { gpu, offset: imported.mmap_offset, access: true }).unwrap();
    // SAFETY: mapped above.
    assert_eq!(unsafe { byte(there).read_volatile() }, 7);

    // The exporter's object goes, the name lives on in the importer; with the last object it is gone.
    assert_eq!(one.free(bo.handle), Ok(()));
    assert!(one.ipc_import(share, gpu, 0).is_ok());
    drop(one);
    two.free(imported.handle).unwrap();
    assert_eq!(two.ipc_import(share, gpu, 0).err(), Some(Errno::INVAL));

    let bo = vram(&mut two, gpu, there, PAGE);
    let before = two.device().available_memory(gpu).unwrap();
    let fd = two.dmabuf_export(bo.handle).unwrap();
    let info = two.dmabuf_info(lent(fd), &mut [0; 64]).unwrap();
    assert_eq!((info.size, info.gpu, info.metadata_size), (PAGE as u64, gpu, 0));
    let again = two.dmabuf_import(lent(fd), gpu, 0).unwrap();
    two.free(bo.handle).unwrap();
    two.free(again).unwrap();
    assert_eq!(two.device().available_memory(gpu), Ok(before), "the open dmabuf still holds the memory");
    close(fd);
    assert!(two.device().available_memory(gpu).unwrap() > before);
    release(&mut two, there);
}

fn close(fd: i32) {
    use std::os::fd::{FromRawFd, OwnedFd};
    // SAFETY: dmabuf_export gave the descriptor to this test, and nothing else has it.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
}

#[test]
fn map_and_unmap_say_how_far_they_came() {
    let machine = machine(Space::Virtual);
    let (mut driver, gpus) = process(&machine);
    let va = reserve(&mut driver, PAGE);
    let bo = vram(&mut driver, gpus[0], va, PAGE);
    let wrong = [gpus[1], GpuId(1), gpus[0]];
    assert_eq!(driver.map(bo.handle, &wrong), Err(Partial { errno: Errno::INVAL, done: 1 }));
    assert_eq!(driver.kernel_objects()[0].mapped, [gpus[1]]);
    assert_eq!(driver.free(bo.handle), Err(Errno(libc::EBUSY)));
    assert_eq!(driver.unmap(bo.handle, &gpus), Err(Partial { errno: Errno::INVAL, done: 0 }));
    assert_eq!(driver.unmap(bo.handle, &gpus[1..]), Ok(()));
    machine.faults(|faults| faults.stop_after("map", 1, 1));
    assert_eq!(driver.map(bo.handle, &gpus), Err(Partial { errno: Errno::NOMEM, done: 1 }));
    assert_eq!(driver.map(bo.handle, &gpus), Ok(()), "mapping what is mapped is fine");
    assert_eq!(driver.unmap(bo.handle, &gpus), Ok(()));
    assert_eq!(driver.free(bo.handle), Ok(()));
    assert_eq!(driver.free(bo.handle), Err(Errno::INVAL));
    assert_eq!(driver.map(Handle(0), &gpus), Err(Partial { errno: Errno::INVAL, done: 0 }));
    assert!(driver.time_inside().as_nanos() > 0);
}

#[test]
fn faults_strike_address_space_work_too() {
    let machine = machine(Space::Host);
    let (mut driver, [gpu, _]) = process(&machine);
    machine.faults(|faults| faults.fail("mmap", 1, Errno::NOMEM));
    let va = reserve(&mut driver, PAGE);
    assert_eq!(show(&mut driver, va, HostMap::Reserved), Err(Errno::NOMEM));
    assert_eq!(show(&mut driver, va, HostMap::Reserved), Ok(()));
    machine.faults(|faults| faults.fail("alloc", 1, Errno(libc::EIO)));
    let request = BoRequest { gpu, va: va as u64, size: 1, flags: IocFlags::VRAM, user: None };
    assert_eq!(driver.alloc(request).err(), Some(Errno(libc::EIO)));
    release(&mut driver, va);
}

#[test]
fn a_secondary_context_has_its_own_objects_and_no_userptrs() {
    let machine = machine(Space::Host);
    let (mut driver, [gpu, _]) = process(&machine);
    let bo = vram(&mut driver, gpu, 0x100_0000, PAGE);
    driver.device().create_process().unwrap();
    assert_eq!(driver.device().create_process(), Err(Errno::INVAL));
    assert_eq!(driver.free(bo.handle), Err(Errno::INVAL));
    driver.acquire_vm(gpu).unwrap();
    let page = reserve(&mut driver, PAGE) as u64;
    let request =
        BoRequest { gpu, va: page, size: 1, flags: IocFlags::USERPTR, user: Some(range(page as usize, PAGE)) };
    assert_eq!(driver.alloc(request).err(), Some(Errno(libc::EOPNOTSUPP)));
    release(&mut driver, page as usize);
}

#[test]
fn what_is_no_range_is_empty() {
    let mut described = Machine::preset("gfx90a", None).unwrap();
    (described.gpus[0].lds.base, described.gpus[0].lds.limit) = (1 << 48, 1 << 48);
    (described.gpus[0].scratch.base, described.gpus[0].scratch.limit) = (2, 1);
    let machine = EmbeddedMachine::new(described, SvmMode::Machine, Space::Virtual).unwrap();
    let none = ProcessApertures { gpu: GpuId::NONE, lds: ALL, scratch: ALL, gpuvm: ALL };
    let mut apertures = [none; 4];
    assert_eq!(machine.open().unwrap().process_apertures(&mut apertures), Ok(2));
    assert_eq!((apertures[0].lds, apertures[0].scratch), (Bounds::EMPTY, Bounds::EMPTY));
    assert!(!apertures[0].gpuvm.is_empty() && !apertures[1].lds.is_empty());
}

/// Kernels since KFD 1.17 refuse a caller with more room than there are nodes, and a caller of the newer ioctl that fails
/// has the older one.
#[test]
fn apertures_are_had_from_any_kernel() {
    let empty = ProcessApertures { gpu: GpuId::NONE, lds: ALL, scratch: ALL, gpuvm: ALL };
    let ask = |gpus: usize, faults: &str| {
        let described = Machine { kfd_version: (1, 17), ..Machine::preset("gfx90a", Some(gpus)).unwrap() };
        let machine = EmbeddedMachine::new(described, SvmMode::Machine, Space::Virtual).unwrap();
        machine.faults(|it| *it = Faults::parse(faults).unwrap());
        let mut apertures = [empty; 64];
        let count = machine.open().unwrap().process_apertures(&mut apertures)?;
        Ok((count, apertures.map(|it| it.gpu)))
    };
    let all = ask(9, "").unwrap();
    assert!(all.0 == 9 && all.1[..9].iter().all(|gpu| *gpu != GpuId::NONE) && all.1[9] == GpuId::NONE);
    assert_eq!(ask(0, "").unwrap().0, 0);
    for faults in ["apertures:1=EINVAL", "apertures:2=ENOTTY"] {
        let old = ask(9, faults).unwrap();
        assert_eq!((old.0, &old.1[..7]), (7, &all.1[..7]), "{faults}: the older one knows seven");
    }
    assert_eq!(ask(9, "apertures:*=EIO,apertures_old:*=ENOTTY"), Err(Errno(libc::EIO)));
}

#[test]
fn long_lists_of_gpus_are_several_calls() {
    let machine = machine(Space::Virtual);
    let (mut driver, [gpu, _]) = process(&machine);
    let va = reserve(&mut driver, PAGE);
    let bo = vram(&mut driver, gpu, va, PAGE);
    let many = [gpu; 150];
    let calls = |machine: &EmbeddedMachine| machine.faults(|faults| faults.calls("map"));
    assert_eq!((driver.map(bo.handle, &many), calls(&machine)), (Ok(()), 3), "64 at a time");
    machine.faults(|faults| faults.stop_after("map", 2, 5));
    assert_eq!(driver.map(bo.handle, &many), Err(Partial { errno: Errno::NOMEM, done: 69 }));
}

#[test]
fn interrupted_calls_are_made_again() {
    let machine = machine(Space::Virtual);
    let (mut driver, [gpu, _]) = process(&machine);
    machine.faults(|faults| faults.fail("alloc", 1, Errno(libc::EINTR)));
    machine.faults(|faults| faults.fail("alloc", 2, Errno(libc::EAGAIN)));
    let va = reserve(&mut driver, PAGE);
    vram(&mut driver, gpu, va, PAGE);
    assert_eq!(machine.faults(|faults| faults.calls("alloc")), 3);
}

/// A kernel that claims to have done more GPUs than it was given.
#[derive(Debug)]
struct Boasting(EmbeddedKfd);

impl AsFd for Boasting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

// SAFETY: it answers what the simulated machine answers, but for a number in the struct.
unsafe impl Transport for Boasting {
    type Space = EmbeddedSpace;

    unsafe fn get<const OPCODE: Opcode, T: Args>(&self) -> Result<T, Errno> {
        // SAFETY: the caller's promise.
        unsafe { self.0.get::<OPCODE, T>() }
    }

    unsafe fn set<const OPCODE: Opcode, T: Args>(&self, args: T) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        unsafe { self.0.set::<OPCODE, T>(args) }
    }

    unsafe fn update<const OPCODE: Opcode, T: Args>(&self, args: &mut T, arrays: &Arrays<'_>) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        let result = unsafe { self.0.update::<OPCODE, T>(args, arrays) };
        if matches!(OPCODE, opcode::MAP_MEMORY_TO_GPU | opcode::UNMAP_MEMORY_FROM_GPU) {
            let at = std::mem::offset_of!(MapMemoryToGpuArgs, n_success);
            args.as_mut_bytes()[at..at + 4].copy_from_slice(&1000u32.to_ne_bytes());
        }
        result
    }

    unsafe fn update_counted<const OPCODE: Opcode, T: Args>(
        &self,
        args: &mut T,
        arrays: &Arrays<'_>,
    ) -> Result<u32, Errno> {
        // SAFETY: the caller's promise.
        unsafe { self.0.update_counted::<OPCODE, T>(args, arrays) }
    }

    unsafe fn command<const OPCODE: Opcode>(&self) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        unsafe { self.0.command::<OPCODE>() }
    }

    unsafe fn update_sized(&self, request: Opcode, args: &mut [u8]) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        unsafe { self.0.update_sized(request, args) }
    }

    fn open_render(&self, minor: u32) -> Result<RenderNode, Errno> {
        self.0.open_render(minor)
    }

    fn topology(&self, svm_api: bool) -> Result<Topology, TopologyError> {
        self.0.topology(svm_api)
    }

    fn check_topology(&self, svm_api: bool) -> Result<(), TopologyError> {
        self.0.check_topology(svm_api)
    }

    fn space(&self) -> EmbeddedSpace {
        self.0.space()
    }
}

#[test]
fn no_more_gpus_are_done_than_were_given() {
    let machine = machine(Space::Virtual);
    let boasting = Boasting(machine.open_kfd().unwrap());
    let topology = machine.topology(true).unwrap();
    let mut driver = KfdDriver::new(Device::over(boasting), &topology).unwrap();
    let gpus: Vec<GpuId> = topology.nodes.iter().map(|node| node.gpu()).filter(|gpu| *gpu != GpuId::NONE).collect();
    gpus.iter().for_each(|gpu| driver.acquire_vm(*gpu).unwrap());
    let flags = IocFlags::VRAM | IocFlags::WRITABLE;
    let bo = driver.alloc(BoRequest { gpu: gpus[0], va: 1 << 32, size: PAGE as u64, flags, user: None }).unwrap();
    let wrong = [gpus[0], GpuId(1), gpus[1]];
    assert_eq!(driver.map(bo.handle, &wrong), Err(Partial { errno: Errno::INVAL, done: 3 }));
    assert_eq!(driver.unmap(bo.handle, &wrong), Err(Partial { errno: Errno::INVAL, done: 3 }));
}

#[test]
fn render_nodes_are_opened_by_their_minors() {
    let machine = machine(Space::Host);
    let topology = machine.topology(true).unwrap();
    let device = || Device::over(machine.open_kfd().unwrap());
    let mut driver = KfdDriver::new(device(), &topology).unwrap();
    assert_eq!(driver.raw_fds().len(), 3);
    driver.keep_gpus(&Topology::default());
    assert_eq!(driver.raw_fds().len(), 1);
    machine.faults(|faults| faults.fail("open", 2, Errno(libc::EMFILE)));
    assert_eq!(driver.add_gpus(&topology).map_err(|error| error.errno), Err(Errno(libc::EMFILE)));
    assert_eq!(driver.raw_fds().len(), 1, "one that fails adds none");
    assert_eq!(driver.add_gpus(&topology), Ok(()));
    let wrong = Topology { nodes: vec![Node { gpu_id: 7, drm_render_minor: 200, ..Node::default() }], ..topology };
    assert_eq!(driver.add_gpus(&wrong).map_err(|error| error.errno), Err(Errno(libc::ENOENT)));
}

#[test]
fn the_topology_is_the_machines() {
    for (preset, nodes, gfx) in [("gfx90a", 3, 0x09000a), ("gfx942", 9, 0x090402), ("apu", 1, 0x080001)] {
        let machine = EmbeddedMachine::preset(preset).unwrap();
        let topology = machine.topology(true).unwrap();
        assert_eq!(topology.nodes.len(), nodes, "{preset}");
        let gpu = topology.nodes.iter().rfind(|node| node.gpu_id != 0).unwrap();
        assert_eq!(gpu.engine_id.gfx_version(), gfx, "{preset}");
        assert_eq!(gpu.svm_api(), preset == "gfx942");
    }
    assert_eq!(EmbeddedMachine::preset("none").unwrap().topology(true).unwrap().nodes.len(), 1);
    assert_eq!(machine(Space::Virtual).open().unwrap().device().version(), Ok((1, 14)));
}
