//! What any device must answer: one suite over `trait Driver`, run on the embedded machine, on the same machine behind
//! real system calls, and on a real one.
//!
//! Each case opens its own devices, checks one promise, and gives everything back. What a device may refuse (an old
//! kernel lacks dmabuf export, a real GPU may not share) makes a case say why it was not run.

use hsakmt_core::address::Bounds;
use hsakmt_core::driver::{
    Bo, BoRequest, Driver, Errno, Handle, HostMap, Partial, ProcessApertures, SvmAttribute, VaRequest,
};
use hsakmt_core::flags::{IocFlags, MemFlags};
use hsakmt_core::node::GpuId;

use crate::promise::{lent, range};

const PAGE: usize = 4096;
const KERNEL_BUSY: Errno = Errno(16);
const KERNEL_FAULT: Errno = Errno(14);

/// Opens one more device of the machine under test. On a real kernel they are one process.
pub type Open<'a> = &'a dyn Fn() -> Result<Box<dyn Driver>, Errno>;

/// Why a case was not run.
pub type Skipped = String;

/// One promise.
pub type Case = fn(Open<'_>) -> Result<(), Skipped>;

/// The suite, by name.
pub const CASES: &[(&str, Case)] = &[
    ("apertures_are_counted_and_ordered", apertures_are_counted_and_ordered),
    ("nothing_without_acquiring", nothing_without_acquiring),
    ("unknown_gpus_are_refused", unknown_gpus_are_refused),
    ("reserved_addresses_are_nobody_elses", reserved_addresses_are_nobody_elses),
    ("a_buffer_has_one_set_of_bytes", a_buffer_has_one_set_of_bytes),
    ("host_memory_can_be_shown_and_dropped", host_memory_can_be_shown_and_dropped),
    ("bad_allocations_leave_nothing", bad_allocations_leave_nothing),
    ("a_mapped_buffer_cannot_be_freed", a_mapped_buffer_cannot_be_freed),
    ("map_says_how_far_it_came", map_says_how_far_it_came),
    ("userptrs_must_be_there", userptrs_must_be_there),
    ("pages_of_the_drivers_own_are_a_userptr", pages_of_the_drivers_own_are_a_userptr),
    ("a_dmabuf_outlives_its_buffer", a_dmabuf_outlives_its_buffer),
    ("a_name_leads_to_the_same_bytes", a_name_leads_to_the_same_bytes),
    ("shared_virtual_memory_remembers", shared_virtual_memory_remembers),
];

/// The cases that hold on a machine without a GPU too.
pub const WITHOUT_GPU: &[&str] = &[
    "apertures_are_counted_and_ordered",
    "nothing_without_acquiring",
    "unknown_gpus_are_refused",
    "reserved_addresses_are_nobody_elses",
    "host_memory_can_be_shown_and_dropped",
];

/// How many GPUs the machine under test has.
pub fn gpus(open: Open<'_>) -> usize {
    apertures(&mut *open().expect("a device"), 0).0
}

/// A device with its GPUs acquired.
struct Device {
    driver: Box<dyn Driver>,
    gpus: Vec<GpuId>,
    bounds: Bounds,
}

fn apertures(driver: &mut dyn Driver, room: usize) -> (usize, Vec<ProcessApertures>) {
    let empty = Bounds::EMPTY;
    let mut list = vec![ProcessApertures { gpu: GpuId::NONE, lds: empty, scratch: empty, gpuvm: empty }; room];
    let count = driver.process_apertures(&mut list).expect("the apertures");
    list.truncate(count);
    (count, list)
}

fn device(open: Open<'_>) -> Device {
    let mut driver = open().expect("a device");
    let (_, list) = apertures(&mut *driver, 64);
    let gpus: Vec<GpuId> = list.iter().map(|it| it.gpu).collect();
    for gpu in &gpus {
        driver.acquire_vm(*gpu).expect("the GPU's address space");
    }
    let base = list.iter().map(|it| it.gpuvm.base).max().unwrap_or(0);
    let limit = list.iter().map(|it| it.gpuvm.limit).min().unwrap_or(usize::MAX);
    Device { driver, gpus, bounds: Bounds::new(base, limit) }
}

impl Device {
    fn gpu(&self) -> GpuId {
        self.gpus[0]
    }

    fn reserve(&mut self, size: usize) -> usize {
        let request = VaRequest { size, align: PAGE, guard: PAGE, fixed: None, bounds: self.bounds };
        self.driver.reserve(request).expect("addresses")
    }

    fn request(&self, va: usize, size: usize, flags: IocFlags) -> BoRequest<'static> {
        BoRequest { gpu: self.gpu(), va: va as u64, size: size as u64, flags, user: None }
    }

    /// A buffer on the first GPU: in VRAM that the host sees, or where there is none in host memory.
    fn buffer(&mut self, va: usize, size: usize) -> Bo {
        let access = IocFlags::WRITABLE | IocFlags::EXECUTABLE;
        let visible = self.request(va, size, IocFlags::VRAM | IocFlags::PUBLIC | access);
        let host = self.request(va, size, IocFlags::GTT | access);
        self.driver.alloc(visible).or_else(|_| self.driver.alloc(host)).expect("a buffer")
    }

    fn show(&mut self, address: usize, size: usize, offset: u64) {
        let what = HostMap::Device { gpu: self.gpu(), offset, access: true };
        self.host_map(address, size, what);
    }

    fn host_map(&mut self, address: usize, size: usize, what: HostMap) {
        // SAFETY: each case passes pages that it has reserved on this device, and uses no pointer to what they have shown.
        let mapped = unsafe { self.driver.host_map(address, size, what) };
        mapped.expect("a mapping");
    }

    fn release(&mut self, address: usize, size: usize) {
        // SAFETY: each case passes what it has reserved or allocated on this device, at its end.
        unsafe { self.driver.release(address, size) }
    }
}

/// Reads a byte that the case under test has mapped.
fn peek(address: usize) -> u8 {
    let byte: *const u8 = std::ptr::with_exposed_provenance(address);
    // SAFETY: every caller passes an address that it has just mapped readable, and unmaps it later.
    unsafe { byte.read_volatile() }
}

/// Writes a byte that the case under test has mapped.
fn poke(address: usize, value: u8) {
    let byte: *mut u8 = std::ptr::with_exposed_provenance_mut(address);
    // SAFETY: every caller passes an address that it has just mapped writable and nobody else uses.
    unsafe { byte.write_volatile(value) }
}

fn apertures_are_counted_and_ordered(open: Open<'_>) -> Result<(), Skipped> {
    let mut driver = open().expect("a device");
    let (count, all) = apertures(&mut *driver, 64);
    assert!(all.len() == count && all.iter().all(|it| it.gpu != GpuId::NONE));
    let none = apertures(&mut *driver, 0).0;
    assert_eq!(none, count, "asking without room says how many there are");
    let (_, one) = apertures(&mut *driver, 1);
    assert_eq!(one.first().map(|it| it.gpu), all.first().map(|it| it.gpu));
    for it in all {
        assert!(!it.lds.is_empty() && !it.scratch.is_empty() && !it.lds.overlaps(&it.scratch));
    }
    Ok(())
}

fn nothing_without_acquiring(open: Open<'_>) -> Result<(), Skipped> {
    let mut driver = open().expect("a device");
    assert!(driver.acquire_vm(GpuId(0x7fff_fffe)).is_err());
    assert!(driver.set_scratch_backing(GpuId(0x7fff_fffe), 0).is_err());
    assert_eq!(driver.free(Handle(0)), Err(Errno::INVAL));
    Ok(())
}

fn unknown_gpus_are_refused(open: Open<'_>) -> Result<(), Skipped> {
    let mut device = device(open);
    let unknown = GpuId(0x7fff_fffe);
    let flags = IocFlags::GTT | IocFlags::WRITABLE;
    let request = BoRequest { gpu: unknown, va: 0x10_0000, size: PAGE as u64, flags, user: None };
    assert_eq!(device.driver.alloc(request).err(), Some(Errno::INVAL));
    for handle in [0, u64::from(unknown.0) << 32 | 1] {
        let refused = Err(Partial { errno: Errno::INVAL, done: 0 });
        assert_eq!(device.driver.map(Handle(handle), &[unknown]), refused);
        assert_eq!(device.driver.unmap(Handle(handle), &[unknown]), refused);
        assert_eq!(device.driver.free(Handle(handle)), Err(Errno::INVAL));
    }
    Ok(())
}

fn reserved_addresses_are_nobody_elses(open: Open<'_>) -> Result<(), Skipped> {
    let mut device = device(open);
    let address = device.reserve(4 * PAGE);
    let fixed = VaRequest { size: PAGE, align: PAGE, guard: 0, fixed: Some(address + PAGE), bounds: device.bounds };
    assert!(device.driver.reserve(fixed).is_err());
    let aligned = VaRequest { size: PAGE, align: 1 << 21, guard: PAGE, fixed: None, bounds: device.bounds };
    let high = device.driver.reserve(aligned).expect("aligned addresses");
    assert_eq!(high % (1 << 21), 0);
    device.release(high, PAGE);
    device.release(address, 4 * PAGE);
    assert_eq!(device.driver.reserve(fixed), Ok(address + PAGE));
    device.release(address + PAGE, PAGE);
    assert_eq!(device.driver.reserve(VaRequest { size: 1, ..fixed }), Err(Errno::INVAL));
    Ok(())
}

fn a_buffer_has_one_set_of_bytes(open: Open<'_>) -> Result<(), Skipped> {
    let mut device = device(open);
    let (first, second) = (device.reserve(2 * PAGE), device.reserve(2 * PAGE));
    let one = device.buffer(first, 2 * PAGE);
    let other = device.buffer(second, 2 * PAGE);
    assert_ne!(one.handle, other.handle);
    device.show(first, 2 * PAGE, one.mmap_offset);
    device.show(second, 2 * PAGE, other.mmap_offset);
    poke(first, 1);
    poke(second + 2 * PAGE - 1, 2);
    assert_eq!((peek(second), peek(first + 2 * PAGE - 1)), (0, 0), "two buffers share no byte");
    device.show(second, 2 * PAGE, one.mmap_offset);
    assert_eq!(peek(second), 1, "one buffer shows the same bytes at two places");
    device.driver.free(one.handle).expect("free");
    device.driver.free(other.handle).expect("free");
    device.release(first, 2 * PAGE);
    device.release(second, 2 * PAGE);
    Ok(())
}

fn host_memory_can_be_shown_and_dropped(open: Open<'_>) -> Result<(), Skipped> {
    let mut device = device(open);
    let address = device.reserve(PAGE);
    let node = hsakmt_core::node::NodeId(0);
    let anonymous = HostMap::Anonymous { node, flags: MemFlags::empty() };
    device.host_map(address, PAGE, anonymous);
    poke(address, 5);
    device.host_map(address, PAGE, HostMap::Reserved);
    device.host_map(address, PAGE, anonymous);
    assert_eq!(peek(address), 0, "what was dropped is gone");
    device.release(address, PAGE);
    let memory = device.driver.host_alloc(PAGE, PAGE, MemFlags::empty()).expect("memory");
    poke(memory, 1);
    device.release(memory, PAGE);
    Ok(())
}

fn bad_allocations_leave_nothing(open: Open<'_>) -> Result<(), Skipped> {
    let mut device = device(open);
    let address = device.reserve(PAGE);
    let good = device.request(address, PAGE, IocFlags::GTT | IocFlags::WRITABLE);
    assert_eq!(device.driver.alloc(BoRequest { size: 0, ..good }).err(), Some(Errno::INVAL));
    assert_eq!(device.driver.alloc(BoRequest { gpu: GpuId(0x7fff_fffe), ..good }).err(), Some(Errno::INVAL));
    assert!(device.driver.alloc(BoRequest { size: 1 << 50, flags: IocFlags::VRAM, ..good }).is_err());
    let bo = device.driver.alloc(good).expect("a buffer");
    assert_eq!(device.driver.free(bo.handle), Ok(()));
    assert_eq!(device.driver.free(bo.handle), Err(Errno::INVAL), "a handle ends once");
    device.release(address, PAGE);
    Ok(())
}

fn a_mapped_buffer_cannot_be_freed(open: Open<'_>) -> Result<(), Skipped> {
    let mut device = device(open);
    let address = device.reserve(PAGE);
    let (bo, gpu) = (device.buffer(address, PAGE), device.gpu());
    device.driver.map(bo.handle, &[gpu]).expect("map");
    assert_eq!(device.driver.map(bo.handle, &[gpu]), Ok(()), "mapping again is fine");
    assert_eq!(device.driver.free(bo.handle), Err(KERNEL_BUSY));
    device.driver.unmap(bo.handle, &[gpu]).expect("unmap");
    assert_eq!(device.driver.free(bo.handle), Ok(()));
    device.release(address, PAGE);
    Ok(())
}

fn map_says_how_far_it_came(open: Open<'_>) -> Result<(), Skipped> {
    let mut device = device(open);
    let address = device.reserve(PAGE);
    let (bo, gpu) = (device.buffer(address, PAGE), device.gpu());
    let wrong = [gpu, GpuId(0x7fff_fffe)];
    assert_eq!(device.driver.map(bo.handle, &wrong), Err(Partial { errno: Errno::INVAL, done: 1 }));
    assert_eq!(device.driver.unmap(bo.handle, &wrong), Err(Partial { errno: Errno::INVAL, done: 1 }));
    if let [first, second, ..] = device.gpus[..] {
        device.driver.map(bo.handle, &[second, first]).expect("map on both");
        device.driver.unmap(bo.handle, &[first, second]).expect("unmap from both");
    }
    device.driver.free(bo.handle).expect("free");
    device.release(address, PAGE);
    Ok(())
}

fn userptrs_must_be_there(open: Open<'_>) -> Result<(), Skipped> {
    let mut device = device(open);
    let (va, memory) = (device.reserve(4 * PAGE), device.reserve(4 * PAGE));
    let anonymous = HostMap::Anonymous { node: hsakmt_core::node::NodeId(0), flags: MemFlags::empty() };
    device.host_map(memory, 3 * PAGE, anonymous);
    let request = device.request(va, 3 * PAGE, IocFlags::USERPTR | IocFlags::WRITABLE);
    let good = BoRequest { user: Some(range(memory, 3 * PAGE)), ..request };
    // The fourth page is reserved only.
    let all = BoRequest { size: 4 * PAGE as u64, user: Some(range(memory, 4 * PAGE)), ..request };
    assert_eq!(device.driver.alloc(all).err(), Some(KERNEL_FAULT));
    assert_eq!(
        device.driver.alloc(BoRequest { user: Some(range(memory, 4 * PAGE)), size: 5 * PAGE as u64, ..request }).err(),
        Some(Errno::INVAL)
    );
    assert_eq!(device.driver.alloc(request).err(), Some(Errno::INVAL), "a userptr without memory");
    let bo = device.driver.alloc(good).expect("a userptr");
    let gpu = device.gpu();
    device.driver.map(bo.handle, &[gpu]).expect("map");
    device.driver.unmap(bo.handle, &[gpu]).expect("unmap");
    device.driver.free(bo.handle).expect("free");
    device.release(memory, 4 * PAGE);
    device.release(va, 4 * PAGE);
    Ok(())
}

fn pages_of_the_drivers_own_are_a_userptr(open: Open<'_>) -> Result<(), Skipped> {
    let mut device = device(open);
    let va = device.reserve(4 * PAGE);
    let anonymous = HostMap::Anonymous { node: hsakmt_core::node::NodeId(0), flags: MemFlags::empty() };
    device.host_map(va, 2 * PAGE, anonymous);
    let gpu = device.gpu();
    let ring = IocFlags::USERPTR | IocFlags::AQL_QUEUE_MEM | IocFlags::WRITABLE;
    for (size, flags) in [(2 * PAGE, IocFlags::USERPTR | IocFlags::WRITABLE), (4 * PAGE, ring)] {
        let request = device.request(va, size, flags);
        // SAFETY: two pages are shown at `va` until all is freed; of the ring, half is host memory.
        let bo = unsafe { device.driver.alloc_paged(request) }.expect("a buffer of pages");
        device.driver.map(bo.handle, &[gpu]).expect("map");
        device.driver.unmap(bo.handle, &[gpu]).expect("unmap");
        device.driver.free(bo.handle).expect("free");
    }
    device.release(va, 4 * PAGE);
    Ok(())
}

fn a_dmabuf_outlives_its_buffer(open: Open<'_>) -> Result<(), Skipped> {
    let mut device = device(open);
    let (va, again) = (device.reserve(PAGE), device.reserve(PAGE));
    let (bo, gpu) = (device.buffer(va, PAGE), device.gpu());
    let exported = device.driver.dmabuf_export(bo.handle);
    device.driver.free(bo.handle).expect("free");
    let fd = exported.map_err(|error| format!("no dmabuf export: error {}", error.0))?;
    let info = device.driver.dmabuf_info(lent(fd), &mut [0; 64]).expect("information");
    assert_eq!((info.size, info.gpu), (PAGE as u64, gpu));
    let imported = device.driver.dmabuf_import(lent(fd), gpu, again as u64).expect("import");
    device.driver.map(imported, &[gpu]).expect("map");
    device.driver.unmap(imported, &[gpu]).expect("unmap");
    device.driver.free(imported).expect("free");
    assert!(device.driver.dmabuf_import(lent(fd), GpuId(0x7fff_fffe), 0).is_err());
    assert!(device.driver.dmabuf_import(lent(-1), gpu, 0).is_err());
    close(fd);
    device.release(va, PAGE);
    device.release(again, PAGE);
    Ok(())
}

fn close(fd: i32) {
    use std::os::fd::{FromRawFd, OwnedFd};
    // SAFETY: dmabuf_export made the descriptor for this case, and nothing else has it.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
}

fn a_name_leads_to_the_same_bytes(open: Open<'_>) -> Result<(), Skipped> {
    let mut one = device(open);
    let mut two = device(open);
    let (here, there) = (one.reserve(PAGE), two.reserve(PAGE));
    let (bo, gpu) = (one.buffer(here, PAGE), one.gpu());
    one.show(here, PAGE, bo.mmap_offset);
    poke(here, 42);
    let share = one.driver.ipc_export(bo.handle, gpu, MemFlags::HOST_ACCESS);
    let share = share.map_err(|error| format!("no IPC: error {}", error.0))?;
    assert_eq!(two.driver.ipc_import([0; 4], gpu, there as u64).err(), Some(Errno::INVAL));
    let import = two.driver.ipc_import(share, gpu, there as u64).expect("import");
    assert_eq!(import.flags, MemFlags::HOST_ACCESS);
    one.driver.free(bo.handle).expect("free");
    one.release(here, PAGE);
    two.show(there, PAGE, import.mmap_offset);
    assert_eq!(peek(there), 42);
    two.driver.free(import.handle).expect("free");
    assert_eq!(two.driver.ipc_import(share, gpu, there as u64).err(), Some(Errno::INVAL), "the name went with it");
    two.release(there, PAGE);
    Ok(())
}

fn shared_virtual_memory_remembers(open: Open<'_>) -> Result<(), Skipped> {
    let mut device = device(open);
    let memory = device.driver.host_alloc(2 * PAGE, PAGE, MemFlags::empty()).expect("memory");
    let (start, size, gpu) = (memory as u64, 2 * PAGE as u64, device.gpu());
    let access = SvmAttribute { kind: SvmAttribute::ACCESS_IN_PLACE, value: gpu.0 };
    let set = device.driver.svm_set(range(memory, 2 * PAGE), &[access]);
    set.map_err(|error| format!("no shared virtual memory: error {}", error.0))?;
    // ACCESS asks; the answer is the kind.
    let mut ask = [SvmAttribute { kind: 2, value: gpu.0 }];
    device.driver.svm_get(start, size, &mut ask).expect("attributes");
    assert_eq!(ask[0], access);
    assert_eq!(device.driver.svm_set(range(memory, 0), &[access]), Err(Errno::INVAL));
    assert_eq!(device.driver.svm_set(range(memory + 1, 2 * PAGE), &[access]), Err(Errno::INVAL));
    device.release(memory, 2 * PAGE);
    assert_eq!(
        device.driver.svm_set(range(memory, 2 * PAGE), &[access]),
        Err(KERNEL_FAULT),
        "nothing is mapped there any more"
    );
    Ok(())
}
