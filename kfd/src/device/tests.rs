//! Every method on fds that are no KFD, and the loop that restarts calls.

use super::*;
use hsakmt_core::driver::{HostRange, SvmAttribute as Attribute};

const GPU: GpuId = GpuId(1);
const BO: Handle = Handle(1);

/// Memory of this test's, or an address that claims to be.
fn range(address: usize, size: usize) -> HostRange<'static> {
    // SAFETY: no file here is a device.
    unsafe { HostRange::new(address, size) }
}

/// A file that is no KFD.
fn other(fd: OwnedFd) -> Device {
    // SAFETY: every file here answers KFD's requests with an error.
    unsafe { Device::from_fd(fd) }
}

/// What each method answers, by name.
fn answers(device: &Device) -> Vec<(&'static str, Option<Errno>)> {
    let request = BoRequest { gpu: GPU, va: 0, size: 4096, flags: IocFlags::VRAM, user: None };
    let apertures = ProcessApertures { gpu: GPU, lds: Bounds::EMPTY, scratch: Bounds::EMPTY, gpuvm: Bounds::EMPTY };
    let mut attributes = [Attribute { kind: Attribute::SET_FLAGS, value: 0 }; 3];
    vec![
        ("version", device.version().err()),
        ("create_process", device.create_process().err()),
        ("acquire_vm", device.acquire_vm(GPU, device.as_fd()).err()),
        ("set_memory_policy", device.set_memory_policy(GPU, true, Bounds::new(0, usize::MAX)).err()),
        ("set_scratch_backing", device.set_scratch_backing(GPU, 1 << 32).err()),
        ("clock_counters", device.clock_counters(GPU).err()),
        ("alloc_memory", device.alloc_memory(request).err()),
        ("free_memory", device.free_memory(BO).err()),
        ("map_memory", device.map_memory(BO, &[GPU; 100]).err().map(|partial| partial.errno)),
        ("unmap_memory", device.unmap_memory(BO, &[]).err().map(|partial| partial.errno)),
        ("xnack_mode", device.xnack_mode(-1).err()),
        ("available_memory", device.available_memory(GPU).err()),
        ("import_dmabuf", device.import_dmabuf(dmabuf(device.as_fd()), GPU, 0).err()),
        ("export_dmabuf", device.export_dmabuf(BO).err()),
        ("dmabuf_info", device.dmabuf_info(dmabuf(device.as_fd()), &mut [0; 64]).err().map(|(errno, _)| errno)),
        ("ipc_export", device.ipc_export(BO, GPU, MemFlags::empty()).err()),
        ("ipc_import", device.ipc_import([0; 4], GPU, 0).err()),
        ("process_apertures", device.process_apertures(&mut [apertures; 4]).err()),
        ("process_apertures, many", device.process_apertures(&mut vec![apertures; 1000]).err()),
        ("process_apertures, none", device.process_apertures(&mut []).err()),
        ("tile_config", device.tile_config(GPU, &mut [0; 4], &mut []).err()),
        ("svm_set", device.svm_set(range(0, 4096), &attributes).err()),
        ("svm_set, none", device.svm_set(range(0, 4096), &[]).err()),
        ("svm_get", device.svm_get(0, 4096, &mut attributes).err()),
        // SAFETY: no file here is a device.
        ("create_queue", unsafe { device.create_queue(&mut CreateQueueArgs::default()) }.err()),
        // SAFETY: as above.
        ("update_queue", unsafe { device.update_queue(UpdateQueueArgs::default()) }.err()),
        ("destroy_queue", device.destroy_queue(1).err()),
        ("set_cu_mask", device.set_cu_mask(1, &[1; 2]).err()),
        // SAFETY: as above.
        ("queue_wave_state", unsafe { device.queue_wave_state(1, 0) }.err()),
        ("alloc_queue_gws", device.alloc_queue_gws(1, 1).err()),
    ]
}

#[test]
fn a_file_that_is_no_kfd_has_none_of_its_ioctls() {
    let null = other(open("/dev/null").unwrap());
    for (method, answer) in answers(&null) {
        assert_eq!(answer, Some(Errno::NOTTY), "{method}");
    }
}

#[test]
fn a_path_fd_is_good_for_nothing() {
    // An O_PATH fd is open, yet every ioctl on it is EBADF, as on a number that is no fd at all.
    let path = rustix::fs::open("/dev/null", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
    for (method, answer) in answers(&other(path)) {
        assert_eq!(answer, Some(Errno(libc::EBADF)), "{method}");
    }
}

#[test]
fn more_attributes_than_a_request_can_carry_are_refused_here() {
    let null = other(open("/dev/null").unwrap());
    let attribute = Attribute { kind: Attribute::SET_FLAGS, value: 0 };
    let most = vec![attribute; opcode::MAX_SVM_ATTRIBUTES];
    assert_eq!(null.svm_set(range(0, 4096), &most), Err(Errno::NOTTY));
    assert_eq!(null.svm_set(range(0, 4096), &vec![attribute; most.len() + 1]), Err(Errno::INVAL));
}

#[test]
fn a_userptr_is_of_host_memory_that_was_promised() {
    let null = other(open("/dev/null").unwrap());
    let request = |size, flags, user| BoRequest { gpu: GPU, va: 0, size, flags, user };
    let (userptr, ring) = (IocFlags::USERPTR, IocFlags::USERPTR | IocFlags::AQL_QUEUE_MEM);
    for (size, flags, user) in
        [(1, userptr, None), (4097, userptr, Some(range(0x1000, 4096))), (8194, ring, Some(range(0x1000, 4096)))]
    {
        assert_eq!(null.alloc_memory(request(size, flags, user)).err(), Some(Errno::INVAL), "{size}: nothing is asked");
    }
    for (size, flags) in [(4096, userptr), (8192, ring)] {
        assert_eq!(null.alloc_memory(request(size, flags, Some(range(0x1000, 4096)))).err(), Some(Errno::NOTTY));
    }
}

#[test]
fn case_83_interrupted_calls_are_restarted_and_others_are_not() {
    let [interrupted, again] = [libc::EINTR, libc::EAGAIN].map(|errno| Err(Errno(errno)));
    let mut answers = [interrupted, again, interrupted, Ok(7), Err(Errno::INVAL)].into_iter();
    assert_eq!(restart(|| answers.next().unwrap()), Ok(7));
    assert_eq!(restart(|| answers.next().unwrap()), Err(Errno::INVAL));
}

#[test]
fn what_is_not_there_does_not_open() {
    assert_eq!(open("/no/such/file").err(), Some(Errno(libc::ENOENT)));
}
