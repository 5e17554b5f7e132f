//! The embedded machine as a driver: every verb, two processes on one machine, faults, and real memory.

use hsakmt_core::address::Bounds;
use hsakmt_core::driver::{
    BoRequest, DmabufFd, Driver, Errno, Handle, HostMap, HostRange, Partial, ProcessApertures, VaRequest,
};
use hsakmt_core::flags::{IocFlags, MemFlags};
use hsakmt_core::node::GpuId;

use super::{EmbeddedDriver, EmbeddedMachine, Space};
use crate::sim::description::Machine;
use crate::sim::machine::SvmMode;

const PAGE: usize = 4096;

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
    let before = two.available_memory(gpu).unwrap();
    let fd = two.dmabuf_export(bo.handle).unwrap();
    let info = two.dmabuf_info(lent(fd), &mut [0; 64]).unwrap();
    assert_eq!((info.size, info.gpu, info.metadata_size), (PAGE as u64, gpu, 0));
    let again = two.dmabuf_import(lent(fd), gpu, 0).unwrap();
    two.free(bo.handle).unwrap();
    two.free(again).unwrap();
    assert_eq!(two.available_memory(gpu), Ok(before), "the open dmabuf still holds the memory");
    close(fd);
    assert!(two.available_memory(gpu).unwrap() > before);
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
    driver.create_process().unwrap();
    assert_eq!(driver.create_process(), Err(Errno::INVAL));
    assert_eq!(driver.free(bo.handle), Err(Errno::INVAL));
    driver.acquire_vm(gpu).unwrap();
    let page = reserve(&mut driver, PAGE) as u64;
    let request =
        BoRequest { gpu, va: page, size: 1, flags: IocFlags::USERPTR, user: Some(range(page as usize, PAGE)) };
    assert_eq!(driver.alloc(request).err(), Some(Errno(libc::EOPNOTSUPP)));
    release(&mut driver, page as usize);
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
    assert_eq!(machine(Space::Virtual).open().unwrap().version(), Ok((1, 14)));
}
