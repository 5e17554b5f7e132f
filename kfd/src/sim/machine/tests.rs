//! The simulated kernel's checks, ioctl by ioctl, on a caller whose memory is a list.

use std::os::fd::OwnedFd;

use hsakmt_core::driver::Errno;
use hsakmt_core::flags::IocFlags;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

use super::{Answer, BADF, BUSY, FAULT, Faults, NODEV, PAGE, PERM, ProcessId, SvmMode, World};
use crate::opcode::{self, Command};
use crate::sim::caller::Caller;
use crate::sim::description::Machine;
use crate::sim::memfd::DeviceFile;
use crate::uapi::*;

/// A caller with 1 MiB of memory from address 0x10_0000, of which the last half cannot be read. Descriptor n is the
/// n-th render node; descriptors from 100 are dmabufs.
struct Memory {
    bytes: Vec<u8>,
    dmabufs: Vec<OwnedFd>,
}

const BASE: u64 = 0x10_0000;
const SIZE: u64 = 0x10_0000;

impl Memory {
    fn new() -> Memory {
        Memory { bytes: vec![0; SIZE as usize], dmabufs: Vec::new() }
    }

    fn inside(&self, address: u64, size: u64, all: u64) -> bool {
        address >= BASE && address.checked_add(size).is_some_and(|end| end <= BASE + all)
    }

    fn put<T: IntoBytes + Immutable + ?Sized>(&mut self, address: u64, value: &T) {
        self.write(address, value.as_bytes()).unwrap();
    }
}

impl Caller for Memory {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Errno> {
        if !self.inside(address, bytes.len() as u64, SIZE) {
            return Err(FAULT);
        }
        let at = (address - BASE) as usize;
        bytes.copy_from_slice(&self.bytes[at..at + bytes.len()]);
        Ok(())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Errno> {
        if !self.inside(address, bytes.len() as u64, SIZE) {
            return Err(FAULT);
        }
        let at = (address - BASE) as usize;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn readable(&mut self, address: u64, size: u64) -> bool {
        self.inside(address, size, SIZE / 2)
    }

    fn mapped(&mut self, address: u64, size: u64) -> bool {
        self.inside(address, size, SIZE)
    }

    fn file(&mut self, fd: i32) -> Option<DeviceFile> {
        match fd {
            0..64 => Some(DeviceFile::Render(fd as usize)),
            100.. => Some(DeviceFile::Dmabuf(fd as u64 - 100)),
            _ => None,
        }
    }

    fn install(&mut self, file: OwnedFd) -> Result<i32, Errno> {
        self.dmabufs.push(file);
        Ok(1000)
    }
}

struct Bench {
    world: World,
    memory: Memory,
    process: ProcessId,
}

/// Where arguments are put, and where arrays.
const ARGUMENT: u64 = BASE;
const ARRAY: u64 = BASE + 0x1000;

impl Bench {
    fn new(svm: SvmMode, capable: bool) -> Bench {
        let mut machine = Machine::preset("gfx90a", None).unwrap();
        machine.gpus.iter_mut().for_each(|gpu| gpu.svm = capable);
        let mut world = World::new(machine, svm, Faults::default());
        let process = world.open();
        let mut bench = Bench { world, memory: Memory::new(), process };
        bench.acquire();
        bench
    }

    fn acquire(&mut self) {
        for fd in 0..2 {
            let gpu_id = self.gpu(fd);
            assert_eq!(self.call(Command::AcquireVm, &mut AcquireVmArgs { drm_fd: fd as u32, gpu_id }), Ok(()));
        }
    }

    fn gpu(&self, index: usize) -> u32 {
        self.world.machine.gpus[index].gpu_id.0
    }

    /// One ioctl, through the caller's memory, as the kernel is asked.
    fn call<T: FromBytes + IntoBytes + Immutable>(&mut self, command: Command, args: &mut T) -> Result<(), Errno> {
        let request = command.request_with_size(size_of::<T>()).unwrap() as u32;
        self.memory.put(ARGUMENT, args);
        let answer = self.world.ioctl(self.process, request, ARGUMENT, &mut self.memory);
        let mut bytes = vec![0; size_of::<T>()];
        self.memory.read(ARGUMENT, &mut bytes).unwrap();
        *args = from_caller(&bytes);
        match answer {
            Answer::Done(result) => result,
            other => panic!("{other:?}"),
        }
    }

    fn alloc(&mut self, va: u64, size: u64, flags: IocFlags, user: u64) -> Result<u64, Errno> {
        let mut args = AllocMemoryOfGpuArgs {
            va_addr: va,
            size,
            handle: 0,
            mmap_offset: user,
            gpu_id: self.gpu(0),
            flags: flags.bits(),
        };
        self.call(Command::AllocMemoryOfGpu, &mut args).map(|()| args.handle)
    }

    fn free(&mut self, handle: u64) -> Result<(), Errno> {
        self.call(Command::FreeMemoryOfGpu, &mut FreeMemoryOfGpuArgs { handle })
    }

    fn map(&mut self, handle: u64, gpus: &[u32], already: u32) -> (Result<(), Errno>, u32) {
        self.memory.put(ARRAY, gpus);
        let n_devices = gpus.len() as u32;
        let mut args = MapMemoryToGpuArgs { handle, device_ids_array_ptr: ARRAY, n_devices, n_success: already };
        let result = self.call(Command::MapMemoryToGpu, &mut args);
        (result, args.n_success)
    }

    fn unmap(&mut self, handle: u64, gpus: &[u32]) -> (Result<(), Errno>, u32) {
        self.memory.put(ARRAY, gpus);
        let n_devices = gpus.len() as u32;
        let mut args = UnmapMemoryFromGpuArgs { handle, device_ids_array_ptr: ARRAY, n_devices, n_success: 0 };
        let result = self.call(Command::UnmapMemoryFromGpu, &mut args);
        (result, args.n_success)
    }

    fn available(&mut self) -> u64 {
        let mut args = GetAvailableMemoryArgs { available: 0, gpu_id: self.gpu(0), pad: 0 };
        self.call(Command::AvailableMemory, &mut args).unwrap();
        args.available
    }

    fn svm(&mut self, start: u64, size: u64, op: u32, list: &mut [(u32, u32)]) -> Result<(), Errno> {
        let mut bytes =
            SvmArgs { start_addr: start, size, op, nattr: list.len() as u32, attrs: [] }.as_bytes().to_vec();
        for (kind, value) in list.iter() {
            bytes.extend(SvmAttribute { kind: *kind, value: *value }.as_bytes());
        }
        let request = Command::Svm.request_with_size(bytes.len()).unwrap() as u32;
        self.memory.put(ARGUMENT, bytes.as_slice());
        let Answer::Done(result) = self.world.ioctl(self.process, request, ARGUMENT, &mut self.memory) else {
            panic!()
        };
        self.memory.read(ARGUMENT, &mut bytes).unwrap();
        for (to, from) in list.iter_mut().zip(bytes[size_of::<SvmArgs>()..].chunks(8)) {
            let from: SvmAttribute = from_caller(from);
            *to = (from.kind, from.value);
        }
        result
    }
}

const VRAM: IocFlags = IocFlags::VRAM;
const USERPTR: IocFlags = IocFlags::USERPTR;
const VA: u64 = 0x7000_0000_0000;

#[test]
fn the_size_comes_from_the_request() {
    let mut bench = Bench::new(SvmMode::Machine, false);
    // A caller from before the last fields: they read as zero and are not written.
    let mut short: [u32; 1] = [0];
    bench.memory.put(ARGUMENT + 4, &0xdead_beefu32);
    let request = Command::GetVersion.request_with_size(4).unwrap() as u32;
    let Answer::Done(result) = bench.world.ioctl(bench.process, request, ARGUMENT, &mut bench.memory) else { panic!() };
    bench.memory.read(ARGUMENT, short.as_mut_bytes()).unwrap();
    assert_eq!((result, short), (Ok(()), [1]));
    bench.memory.read(ARGUMENT + 4, short.as_mut_bytes()).unwrap();
    assert_eq!(short, [0xdead_beef]);

    let mut ioctl = |request, argument| match bench.world.ioctl(bench.process, request, argument, &mut bench.memory) {
        Answer::Done(result) => result,
        other => panic!("{other:?}"),
    };
    assert_eq!(ioctl(opcode::GET_VERSION as u32, 16), Err(FAULT));
    assert_eq!(ioctl(opcode::ALLOC_MEMORY_OF_GPU as u32, 16), Err(FAULT));
    assert_eq!(ioctl(0xc008_4bff, ARGUMENT), Err(Errno::NOTTY));
}

#[test]
fn nothing_goes_without_the_gpus_address_space() {
    let mut bench = Bench::new(SvmMode::Machine, false);
    bench.process = bench.world.open();
    assert_eq!(bench.alloc(VA, PAGE, VRAM, 0), Err(NODEV));
    let gpu_id = bench.gpu(0);
    let mut wrong = AcquireVmArgs { drm_fd: 1, gpu_id };
    assert_eq!(bench.call(Command::AcquireVm, &mut wrong), Err(Errno::INVAL));
    assert_eq!(bench.call(Command::AcquireVm, &mut AcquireVmArgs { drm_fd: 64, gpu_id }), Err(Errno::INVAL));
    bench.acquire();
    assert_eq!(bench.call(Command::AcquireVm, &mut wrong), Err(BUSY));
    assert!(bench.alloc(VA, PAGE, VRAM, 0).is_ok());
    bench.process = ProcessId(99);
    assert_eq!(bench.alloc(VA, PAGE, VRAM, 0), Err(BADF));
}

#[test]
fn allocation_checks() {
    let mut bench = Bench::new(SvmMode::Machine, false);
    assert_eq!(bench.alloc(VA, 0, VRAM, 0), Err(Errno::INVAL));
    assert_eq!(bench.alloc(VA, u64::MAX, VRAM, 0), Err(Errno::INVAL));
    assert_eq!(bench.alloc(VA, PAGE, IocFlags::empty(), 0), Err(Errno::INVAL));
    assert_eq!(bench.alloc(VA, 2 * PAGE, IocFlags::MMIO_REMAP, 0), Err(Errno::INVAL));
    assert!(bench.alloc(VA, PAGE, IocFlags::MMIO_REMAP, 0).is_ok());
    // Userptrs: page aligned, readable to the last page, not wrapping.
    assert_eq!(bench.alloc(VA, PAGE, USERPTR, 0), Err(Errno::INVAL));
    assert_eq!(bench.alloc(VA, PAGE, USERPTR, BASE + 1), Err(Errno::INVAL));
    assert_eq!(bench.alloc(VA, PAGE, USERPTR, u64::MAX - 0xfff), Err(Errno::INVAL));
    assert_eq!(bench.alloc(VA, SIZE, USERPTR, BASE), Err(FAULT));
    assert_eq!(bench.alloc(VA, PAGE, USERPTR, 0x1000), Err(FAULT));
    assert!(bench.alloc(VA, SIZE / 2, USERPTR, BASE).is_ok());
    assert_eq!(bench.free(0), Err(Errno::INVAL));
    let unknown = u64::from(bench.gpu(0)) << 32 | 999;
    assert_eq!(bench.free(unknown), Err(Errno::INVAL));
    bench.world.machine.gpus[0].large_bar = false;
    assert_eq!(bench.alloc(VA, PAGE, VRAM | IocFlags::PUBLIC, 0), Err(Errno::INVAL));
}

#[test]
fn vram_is_counted_and_comes_back() {
    let mut bench = Bench::new(SvmMode::Machine, false);
    let all = bench.available();
    let half = bench.alloc(VA, all / 2, VRAM, 0).unwrap();
    assert!(bench.available() <= all - all / 2);
    assert_eq!(bench.alloc(VA, all / 2 + (2 << 20), VRAM, 0), Err(Errno::NOMEM));
    bench.free(half).unwrap();
    assert_eq!(bench.available(), all);
    assert_eq!(bench.world.take_freed().len(), 1);
    // GTT is limited by host memory, a process's own memory by nothing.
    assert_eq!(bench.alloc(VA, bench.world.machine.memory + PAGE, IocFlags::GTT, 0), Err(Errno::NOMEM));
    // What a process had goes with it, mapped or not.
    let mapped = bench.alloc(VA, all / 2, VRAM, 0).unwrap();
    let gpu = bench.gpu(0);
    assert_eq!(bench.map(mapped, &[gpu], 0), (Ok(()), 1));
    bench.world.close(bench.process);
    assert!(bench.world.memories.is_empty());
    bench.process = bench.world.open();
    assert_eq!(bench.available(), all);
}

#[test]
fn an_aql_ring_has_twice_the_addresses() {
    let mut bench = Bench::new(SvmMode::Machine, false);
    let ring = bench.alloc(VA, 4 * PAGE, IocFlags::GTT | IocFlags::AQL_QUEUE_MEM, 0).unwrap();
    assert_eq!(bench.world.gtt_used, 2 * PAGE);
    let behind = bench.alloc(VA + 3 * PAGE, PAGE, IocFlags::GTT, 0).unwrap();
    let gpu = bench.gpu(0);
    assert_eq!(bench.map(ring, &[gpu], 0).0, Ok(()));
    assert_eq!(bench.map(behind, &[gpu], 0).0, Err(Errno::INVAL));
    // In a process's own memory there need only be the first half of it.
    let (user, last) = (IocFlags::USERPTR | IocFlags::AQL_QUEUE_MEM, BASE + SIZE / 2 - 2 * PAGE);
    assert!(bench.alloc(2 * VA, 4 * PAGE, user, last).is_ok());
    assert_eq!(bench.alloc(3 * VA, 4 * PAGE, user, last + PAGE), Err(FAULT));
}

#[test]
fn mapping_checks_and_counts() {
    let mut bench = Bench::new(SvmMode::Machine, false);
    let (first, second) = (bench.gpu(0), bench.gpu(1));
    let bo = bench.alloc(VA, 2 * PAGE, VRAM, 0).unwrap();
    assert_eq!(bench.map(bo, &[], 0).0, Err(Errno::INVAL));
    assert_eq!(bench.map(bo, &[first], 2).0, Err(Errno::INVAL));
    assert_eq!(bench.map(bo + 1, &[first], 0).0, Err(Errno::NOMEM));
    assert_eq!(bench.map(bo, &[second, 5, first], 0), (Err(Errno::INVAL), 1));
    assert_eq!(bench.free(bo), Err(BUSY));
    assert_eq!(bench.map(bo, &[second, first], 1), (Ok(()), 2));
    // Another object on the same addresses is refused where they are taken.
    let other = bench.alloc(VA + PAGE, PAGE, VRAM, 0).unwrap();
    assert_eq!(bench.map(other, &[first], 0), (Err(Errno::INVAL), 0));
    assert_eq!(bench.unmap(bo, &[first, first]), (Err(Errno::INVAL), 1));
    assert_eq!(bench.map(other, &[first], 0), (Ok(()), 1));
    assert_eq!(bench.unmap(bo, &[second]), (Ok(()), 1));
    assert_eq!(bench.free(bo), Ok(()));
    let unaligned = bench.alloc(VA + 1, PAGE, VRAM, 0).unwrap();
    assert_eq!(bench.map(unaligned, &[first], 0).0, Err(Errno::INVAL));
    let nowhere = bench.alloc(0, PAGE, VRAM, 0).unwrap();
    assert_eq!(bench.map(nowhere, &[first], 0).0, Err(Errno::INVAL));
}

#[test]
fn dmabuf_metadata_needs_room() {
    let mut bench = Bench::new(SvmMode::Machine, false);
    let handle = bench.alloc(VA, PAGE, VRAM, 0).unwrap();
    let mut export = ExportDmabufArgs { handle, flags: 0, dmabuf_fd: 0 };
    assert_eq!(bench.call(Command::ExportDmabuf, &mut export), Ok(()));
    let memory = *bench.world.memories.keys().next().unwrap();
    bench.world.set_metadata(memory, &[7; 100]).unwrap();
    let mut info = GetDmabufInfoArgs::new_zeroed();
    (info.dmabuf_fd, info.metadata_ptr, info.metadata_size) = (100 + memory.0 as u32, ARRAY, 64);
    assert_eq!(bench.call(Command::GetDmabufInfo, &mut info), Err(Errno::INVAL));
    assert_eq!(info.metadata_size, 100);
    assert_eq!(bench.call(Command::GetDmabufInfo, &mut info), Ok(()));
    assert_eq!((info.size, info.gpu_id, info.flags), (PAGE, bench.gpu(0), VRAM.bits()));
    info.dmabuf_fd = 70;
    assert_eq!(bench.call(Command::GetDmabufInfo, &mut info), Err(BADF));
    // A device takes its own buffers only.
    let mut import = ImportDmabufArgs::new_zeroed();
    (import.dmabuf_fd, import.va_addr, import.gpu_id) = (100 + memory.0 as u32, VA + 16 * PAGE, bench.gpu(1));
    assert_eq!(bench.call(Command::ImportDmabuf, &mut import), Err(Errno::INVAL));
    import.gpu_id = bench.gpu(0);
    assert_eq!(bench.call(Command::ImportDmabuf, &mut import), Ok(()));
    // A process's own memory does not leave it.
    let own = bench.alloc(VA, PAGE, USERPTR, BASE).unwrap();
    export.handle = own;
    assert_eq!(bench.call(Command::ExportDmabuf, &mut export), Err(PERM));
    let mut name = IpcExportHandleArgs::new_zeroed();
    (name.handle, name.gpu_id) = (own, bench.gpu(0));
    assert_eq!(bench.call(Command::IpcExportHandle, &mut name), Err(PERM));
}

#[test]
fn svm_modes() {
    let set = KFD_IOCTL_SVM_OP_SET_ATTR;
    let access = KFD_IOCTL_SVM_ATTR_ACCESS;
    let mut off = Bench::new(SvmMode::Machine, false);
    assert_eq!(off.svm(BASE, PAGE, set, &mut []), Err(PERM));
    let mut fails = Bench::new(SvmMode::Fail(Errno(libc::EIO)), true);
    assert_eq!(fails.svm(BASE, PAGE, set, &mut []), Err(Errno(libc::EIO)));
    let mut accepts = Bench::new(SvmMode::AcceptAll, true);
    assert_eq!(accepts.svm(0, 0, set, &mut []), Ok(()));
    assert_eq!(accepts.svm(0x10, 3, set, &mut []), Ok(()));
    let mut on = Bench::new(SvmMode::Machine, true);
    let gpu = on.gpu(0);
    assert_eq!(on.svm(0, PAGE, set, &mut []), Err(Errno::INVAL));
    assert_eq!(on.svm(BASE + 1, PAGE, set, &mut []), Err(Errno::INVAL));
    assert_eq!(on.svm(BASE, 0, set, &mut []), Err(Errno::INVAL));
    assert_eq!(on.svm(BASE, PAGE, set, &mut [(99, 0)]), Err(Errno::INVAL));
    assert_eq!(on.svm(BASE, PAGE, set, &mut [(access, 1)]), Err(Errno::INVAL));
    assert_eq!(on.svm(BASE, PAGE, 7, &mut []), Err(Errno::INVAL));
    assert_eq!(on.svm(0x1000, PAGE, set, &mut [(access, gpu)]), Err(FAULT));
    assert_eq!(on.svm(BASE, SIZE, set, &mut [(access, gpu)]), Ok(()));
}

#[test]
fn svm_ranges_split_and_merge() {
    let (set, get) = (KFD_IOCTL_SVM_OP_SET_ATTR, KFD_IOCTL_SVM_OP_GET_ATTR);
    let mut bench = Bench::new(SvmMode::Machine, true);
    let gpu = bench.gpu(1);
    let count = |bench: &Bench| bench.world.processes[&bench.process].ranges.count();
    let in_place = KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE;
    bench.svm(BASE, 16 * PAGE, set, &mut [(in_place, gpu)]).unwrap();
    assert_eq!(count(&bench), 1);
    bench.svm(BASE + 4 * PAGE, 4 * PAGE, set, &mut [(KFD_IOCTL_SVM_ATTR_NO_ACCESS, gpu)]).unwrap();
    assert_eq!(count(&bench), 3);
    let mut ask = |start: u64, pages: u64| {
        let mut list = [(KFD_IOCTL_SVM_ATTR_ACCESS, gpu), (KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 0)];
        bench.svm(start, pages * PAGE, get, &mut list).unwrap();
        list
    };
    assert_eq!(ask(BASE, 4)[0].0, in_place);
    assert_eq!(ask(BASE, 5)[0].0, KFD_IOCTL_SVM_ATTR_NO_ACCESS);
    assert_eq!(ask(BASE + 8 * PAGE, 8)[0].0, in_place);
    assert_eq!(ask(BASE, 1)[1].1, KFD_IOCTL_SVM_LOCATION_UNDEFINED);
    assert_eq!(ask(BASE + 100 * PAGE, 1)[0].0, KFD_IOCTL_SVM_ATTR_NO_ACCESS);
    bench.svm(BASE, 16 * PAGE, set, &mut [(in_place, gpu), (KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, gpu)]).unwrap();
    assert_eq!(count(&bench), 1);
    let mut flags = [(KFD_IOCTL_SVM_ATTR_SET_FLAGS, 0), (KFD_IOCTL_SVM_ATTR_CLR_FLAGS, 0)];
    bench.svm(BASE, PAGE, get, &mut flags).unwrap();
    let default = KFD_IOCTL_SVM_FLAG_HOST_ACCESS | KFD_IOCTL_SVM_FLAG_COHERENT;
    assert_eq!((flags[0].1, flags[1].1), (default, !default));
    // The addresses of live shared memory are taken; those of memory that is gone are not.
    assert_eq!(bench.alloc(BASE, PAGE, VRAM, 0), Err(Errno(libc::EADDRINUSE)));
    bench.svm(BASE + SIZE - PAGE, PAGE, set, &mut [(in_place, gpu)]).unwrap();
    assert!(bench.alloc(BASE + SIZE - PAGE, PAGE, VRAM, 0).is_ok());
    // And no shared memory where an object is mapped, or on the memory of a mapped userptr.
    let bo = bench.alloc(VA, PAGE, USERPTR, BASE + 20 * PAGE).unwrap();
    assert_eq!(bench.svm(BASE + 20 * PAGE, PAGE, set, &mut [(in_place, gpu)]), Ok(()));
    bench.map(bo, &[gpu], 0).0.unwrap();
    assert_eq!(bench.svm(BASE + 20 * PAGE, PAGE, set, &mut [(in_place, gpu)]), Err(Errno(libc::EADDRINUSE)));
}

#[test]
fn events_are_set_waited_for_and_reset() {
    let mut bench = Bench::new(SvmMode::Machine, false);
    let mut create = CreateEventArgs { event_type: KFD_IOC_EVENT_SIGNAL, auto_reset: 1, ..Default::default() };
    assert_eq!(bench.call(Command::CreateEvent, &mut create), Ok(()));
    let event_id = create.event_id;
    let wait = |bench: &mut Bench, timeout| {
        bench.memory.put(ARRAY, &EventData { event_id, ..Default::default() });
        let args = WaitEventsArgs { events_ptr: ARRAY, num_events: 1, wait_for_all: 0, timeout, wait_result: 9 };
        bench.memory.put(ARGUMENT, &args);
        let answer = bench.world.ioctl(bench.process, opcode::WAIT_EVENTS as u32, ARGUMENT, &mut bench.memory);
        let mut result = [0u8; 4];
        bench.memory.read(ARGUMENT + 20, &mut result).unwrap();
        (answer, u32::from_ne_bytes(result))
    };
    assert!(matches!(wait(&mut bench, 0), (Answer::Done(Ok(())), KFD_IOC_WAIT_RESULT_TIMEOUT)));
    let (Answer::Sleep(sleep), _) = wait(&mut bench, u32::MAX) else { panic!() };
    assert!(sleep.deadline.is_none());
    let again = bench.world.resume(bench.process, sleep, ARGUMENT, &mut bench.memory);
    let Answer::Sleep(sleep) = again else { panic!("{again:?}") };
    bench.call(Command::SetEvent, &mut SetEventArgs { event_id, pad: 0 }).unwrap();
    let woken = bench.world.resume(bench.process, sleep, ARGUMENT, &mut bench.memory);
    assert!(matches!(woken, Answer::Done(Ok(()))), "{woken:?}");
    // It reset itself.
    assert!(matches!(wait(&mut bench, 0), (Answer::Done(Ok(())), KFD_IOC_WAIT_RESULT_TIMEOUT)));
    bench.call(Command::DestroyEvent, &mut DestroyEventArgs { event_id, pad: 0 }).unwrap();
    assert!(matches!(wait(&mut bench, 0), (Answer::Done(Err(Errno::INVAL)), KFD_IOC_WAIT_RESULT_FAIL)));
}

#[test]
fn every_ioctl_survives_garbage() {
    for fill in [0u8, 0x01, 0x7f, 0x80, 0xff] {
        for &command in Command::ALL {
            for size in [0, 4, command.size(), command.size() + 64] {
                let mut bench = Bench::new(SvmMode::Machine, true);
                let handle = bench.alloc(VA, PAGE, VRAM, 0).unwrap();
                bench.memory.bytes.fill(fill);
                bench.memory.put(ARGUMENT, &handle);
                let request = command.request_with_size(size).unwrap() as u32;
                let _ = bench.world.ioctl(bench.process, request, ARGUMENT, &mut bench.memory);
                assert!(bench.available() > 0);
            }
        }
    }
}
