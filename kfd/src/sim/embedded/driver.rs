//! The memory manager's verbs as ioctls of the simulated machine.

use std::os::fd::{AsFd, AsRawFd};

use hsakmt_core::address::Bounds;
use hsakmt_core::driver::{
    Bo, BoRequest, DmabufFd, DmabufInfo, Driver, Errno, Handle, HostMap, HostRange, IpcImport, Partial,
    ProcessApertures, SvmAttribute, VaRequest,
};
use hsakmt_core::flags::{IocFlags, MemFlags};
use hsakmt_core::node::GpuId;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

use super::EmbeddedDriver;
use super::here::Here;
use super::space::AddressSpace;
use crate::opcode::Command;
use crate::uapi::{
    self, AcquireVmArgs, AllocMemoryOfGpuArgs, ExportDmabufArgs, FreeMemoryOfGpuArgs, GetDmabufInfoArgs,
    GetProcessAperturesNewArgs, ImportDmabufArgs, IpcExportHandleArgs, IpcImportHandleArgs,
    KFD_IOC_CACHE_POLICY_COHERENT, KFD_IOC_CACHE_POLICY_NONCOHERENT, KFD_IOCTL_SVM_OP_GET_ATTR,
    KFD_IOCTL_SVM_OP_SET_ATTR, MapMemoryToGpuArgs, ProcessDeviceApertures, SetMemoryPolicyArgs,
    SetScratchBackingVaArgs, SvmArgs, UnmapMemoryFromGpuArgs,
};

impl EmbeddedDriver {
    /// An ioctl without arrays.
    fn plain<T>(&self, command: Command, args: &mut T) -> Result<(), Errno>
    where
        T: FromBytes + IntoBytes + Immutable,
    {
        self.ioctl(command, args, &mut Here::new(self))
    }

    /// The error that a step of address-space work is to fail with.
    fn strike(&self, verb: &str) -> Result<(), Errno> {
        self.machine.faults(|faults| faults.strike(verb)).map_or(Ok(()), Err)
    }

    fn render(&self, gpu: GpuId) -> Result<std::os::fd::BorrowedFd<'_>, Errno> {
        let index = self.machine.lock().world.machine().gpu_index(gpu).ok_or(Errno::INVAL)?;
        Ok(self.renders.get(index).ok_or(Errno::INVAL)?.as_fd())
    }

    fn alloc_of(&self, request: BoRequest<'_>, user: u64) -> Result<Bo, Errno> {
        let mut args = AllocMemoryOfGpuArgs {
            va_addr: request.va,
            size: request.size,
            handle: 0,
            mmap_offset: user,
            gpu_id: request.gpu.0,
            flags: request.flags.bits(),
        };
        self.plain(Command::AllocMemoryOfGpu, &mut args)?;
        Ok(Bo { handle: Handle(args.handle), mmap_offset: args.mmap_offset })
    }

    fn svm(&self, start: u64, size: u64, op: u32, attributes: &mut [SvmAttribute]) -> Result<(), Errno> {
        let count = u32::try_from(attributes.len()).map_err(|_| Errno::INVAL)?;
        let args = SvmArgs { start_addr: start, size, op, nattr: count, attrs: [] };
        let mut bytes = args.as_bytes().to_vec();
        for attribute in attributes.iter() {
            bytes.extend_from_slice(&attribute.kind.to_ne_bytes());
            bytes.extend_from_slice(&attribute.value.to_ne_bytes());
        }
        self.ioctl_bytes(Command::Svm, &mut bytes, &mut Here::new(self))?;
        let answers = bytes.get(size_of::<SvmArgs>()..).unwrap_or(&[]);
        for (to, from) in attributes.iter_mut().zip(answers.chunks(size_of::<uapi::SvmAttribute>())) {
            let from: uapi::SvmAttribute = uapi::from_caller(from);
            (to.kind, to.value) = (from.kind, from.value);
        }
        Ok(())
    }
}

fn bytes_of(gpus: &[GpuId]) -> Vec<u8> {
    gpus.iter().flat_map(|gpu| gpu.0.to_ne_bytes()).collect()
}

fn bounds(base: u64, limit: u64) -> Bounds {
    match (usize::try_from(base), usize::try_from(limit)) {
        (Ok(base), Ok(limit)) => Bounds::new(base, limit),
        _ => Bounds::EMPTY,
    }
}

impl Driver for EmbeddedDriver {
    fn reserve(&mut self, request: VaRequest) -> Result<usize, Errno> {
        let start = std::time::Instant::now();
        let result = self.strike("reserve").and_then(|()| match &mut self.space {
            AddressSpace::Host(space) => space.reserve(request),
            AddressSpace::Virtual(numbers) => numbers.reserve(request),
        });
        self.add_time(start);
        result
    }

    fn last_used(&mut self, range: Bounds) -> Option<usize> {
        match &self.space {
            AddressSpace::Host(_) => crate::maps::last_used(range),
            AddressSpace::Virtual(numbers) => numbers.last_used(range),
        }
    }

    unsafe fn release(&mut self, address: usize, size: usize) {
        let start = std::time::Instant::now();
        match &mut self.space {
            // SAFETY: by contract `space` has reserved it, and this is its end.
            AddressSpace::Host(space) => unsafe { space.release(address, size) },
            AddressSpace::Virtual(numbers) => numbers.release(address, size),
        }
        self.add_time(start);
    }

    unsafe fn host_map(&mut self, address: usize, size: usize, what: HostMap) -> Result<(), Errno> {
        self.timed(|| {
            self.strike("mmap")?;
            let AddressSpace::Host(space) = &self.space else { return Ok(()) };
            match what {
                HostMap::Device { gpu, offset, access } => {
                    let file = self.render(gpu)?;
                    // SAFETY: by contract `space` has reserved it; the bytes are those of the caller's buffer.
                    unsafe { space.map_file(address, size, file, offset, access) }
                }
                HostMap::Mmio { offset } => {
                    // SAFETY: by contract `space` has reserved it; the page is the MMIO page.
                    unsafe { space.map_file(address, size, self.kfd.as_fd(), offset, true) }
                }
                HostMap::Anonymous { node, flags } => {
                    // SAFETY: by contract `space` has reserved it.
                    unsafe { space.map_anonymous(address, size, node, flags) }
                }
                HostMap::Reserved => {
                    // SAFETY: by contract `space` has reserved it.
                    unsafe { space.map_reserved(address, size) }
                }
            }
        })
    }

    fn host_alloc(&mut self, size: usize, align: usize, flags: MemFlags) -> Result<usize, Errno> {
        let start = std::time::Instant::now();
        let result = self.strike("mmap").and_then(|()| match &mut self.space {
            AddressSpace::Host(space) => space.alloc(size, align, flags),
            AddressSpace::Virtual(numbers) => {
                let bounds = Bounds::new(0, usize::MAX);
                numbers.reserve(VaRequest { size, align: align.max(4096), guard: 0, fixed: None, bounds })
            }
        });
        self.add_time(start);
        result
    }

    fn touch(&mut self, range: HostRange<'_>) {
        if let AddressSpace::Host(space) = &self.space {
            space.touch(range)
        }
    }

    fn process_apertures(&mut self, out: &mut [ProcessApertures]) -> Result<usize, Errno> {
        let mut args = GetProcessAperturesNewArgs::default();
        self.plain(Command::GetProcessAperturesNew, &mut args)?;
        let all = args.num_of_nodes as usize;
        let mut here = Here::with(self, vec![0; all * size_of::<ProcessDeviceApertures>()]);
        args.kfd_process_device_apertures_ptr = here.address();
        if all > 0 {
            self.ioctl(Command::GetProcessAperturesNew, &mut args, &mut here)?;
        }
        for (to, from) in out.iter_mut().zip(here.pocket().chunks(size_of::<ProcessDeviceApertures>())) {
            let from: ProcessDeviceApertures = uapi::from_caller(from);
            *to = ProcessApertures {
                gpu: GpuId(from.gpu_id),
                lds: bounds(from.lds_base, from.lds_limit),
                scratch: bounds(from.scratch_base, from.scratch_limit),
                gpuvm: bounds(from.gpuvm_base, from.gpuvm_limit),
            };
        }
        Ok(all)
    }

    fn acquire_vm(&mut self, gpu: GpuId) -> Result<(), Errno> {
        let drm_fd = self.render(gpu)?.as_raw_fd() as u32;
        self.plain(Command::AcquireVm, &mut AcquireVmArgs { drm_fd, gpu_id: gpu.0 })
    }

    fn set_memory_policy(&mut self, gpu: GpuId, coherent: bool, alternate: Bounds) -> Result<(), Errno> {
        let size = if alternate.is_empty() { 0 } else { alternate.limit - alternate.base + 1 };
        let mut args = SetMemoryPolicyArgs {
            alternate_aperture_base: if alternate.is_empty() { 0 } else { alternate.base as u64 },
            alternate_aperture_size: size as u64,
            gpu_id: gpu.0,
            default_policy: if coherent { KFD_IOC_CACHE_POLICY_COHERENT } else { KFD_IOC_CACHE_POLICY_NONCOHERENT },
            alternate_policy: KFD_IOC_CACHE_POLICY_COHERENT,
            misc_process_flag: 0,
        };
        self.plain(Command::SetMemoryPolicy, &mut args)
    }

    fn set_scratch_backing(&mut self, gpu: GpuId, address: u64) -> Result<(), Errno> {
        let mut args = SetScratchBackingVaArgs { va_addr: address >> 16, gpu_id: gpu.0, pad: 0 };
        self.plain(Command::SetScratchBackingVa, &mut args)
    }

    fn alloc(&mut self, request: BoRequest<'_>) -> Result<Bo, Errno> {
        self.alloc_of(request, request.host_address()?)
    }

    unsafe fn alloc_paged(&mut self, request: BoRequest<'_>) -> Result<Bo, Errno> {
        self.alloc_of(request, request.va)
    }

    fn free(&mut self, handle: Handle) -> Result<(), Errno> {
        self.plain(Command::FreeMemoryOfGpu, &mut FreeMemoryOfGpuArgs { handle: handle.0 })
    }

    fn map(&mut self, handle: Handle, gpus: &[GpuId]) -> Result<(), Partial> {
        let mut here = Here::with(self, bytes_of(gpus));
        let mut args = MapMemoryToGpuArgs {
            handle: handle.0,
            device_ids_array_ptr: here.address(),
            n_devices: gpus.len() as u32,
            n_success: 0,
        };
        let result = self.ioctl(Command::MapMemoryToGpu, &mut args, &mut here);
        result.map_err(|errno| Partial { errno, done: args.n_success as usize })
    }

    fn unmap(&mut self, handle: Handle, gpus: &[GpuId]) -> Result<(), Partial> {
        let mut here = Here::with(self, bytes_of(gpus));
        let mut args = UnmapMemoryFromGpuArgs {
            handle: handle.0,
            device_ids_array_ptr: here.address(),
            n_devices: gpus.len() as u32,
            n_success: 0,
        };
        let result = self.ioctl(Command::UnmapMemoryFromGpu, &mut args, &mut here);
        result.map_err(|errno| Partial { errno, done: args.n_success as usize })
    }

    fn svm_set(&mut self, range: HostRange<'_>, attributes: &[SvmAttribute]) -> Result<(), Errno> {
        let (start, size) = (range.address() as u64, range.size() as u64);
        self.svm(start, size, KFD_IOCTL_SVM_OP_SET_ATTR, &mut attributes.to_vec())
    }

    fn svm_get(&mut self, start: u64, size: u64, attributes: &mut [SvmAttribute]) -> Result<(), Errno> {
        self.svm(start, size, KFD_IOCTL_SVM_OP_GET_ATTR, attributes)
    }

    fn dmabuf_info(&mut self, fd: DmabufFd<'_>, metadata: &mut [u8]) -> Result<DmabufInfo, (Errno, u32)> {
        let mut here = Here::with(self, vec![0; metadata.len()]);
        let mut args = GetDmabufInfoArgs::new_zeroed();
        args.dmabuf_fd = fd.raw() as u32;
        args.metadata_ptr = here.address();
        args.metadata_size = metadata.len() as u32;
        let result = self.ioctl(Command::GetDmabufInfo, &mut args, &mut here);
        result.map_err(|errno| (errno, args.metadata_size))?;
        metadata.copy_from_slice(here.pocket());
        Ok(DmabufInfo {
            size: args.size,
            gpu: GpuId(args.gpu_id),
            flags: IocFlags::from_bits_retain(args.flags),
            metadata_size: args.metadata_size,
        })
    }

    fn dmabuf_import(&mut self, fd: DmabufFd<'_>, gpu: GpuId, va: u64) -> Result<Handle, Errno> {
        let mut args = ImportDmabufArgs { va_addr: va, handle: 0, gpu_id: gpu.0, dmabuf_fd: fd.raw() as u32 };
        self.plain(Command::ImportDmabuf, &mut args)?;
        Ok(Handle(args.handle))
    }

    fn dmabuf_export(&mut self, handle: Handle) -> Result<i32, Errno> {
        let mut args = ExportDmabufArgs { handle: handle.0, flags: libc::O_CLOEXEC as u32, dmabuf_fd: 0 };
        self.plain(Command::ExportDmabuf, &mut args)?;
        Ok(args.dmabuf_fd as i32)
    }

    fn ipc_export(&mut self, handle: Handle, gpu: GpuId, flags: MemFlags) -> Result<[u32; 4], Errno> {
        let mut args = IpcExportHandleArgs::new_zeroed();
        (args.handle, args.gpu_id, args.flags) = (handle.0, gpu.0, flags.bits());
        self.plain(Command::IpcExportHandle, &mut args)?;
        Ok(args.share_handle)
    }

    fn ipc_import(&mut self, share: [u32; 4], gpu: GpuId, va: u64) -> Result<IpcImport, Errno> {
        let mut args = IpcImportHandleArgs::new_zeroed();
        (args.share_handle, args.gpu_id, args.va_addr) = (share, gpu.0, va);
        self.plain(Command::IpcImportHandle, &mut args)?;
        Ok(IpcImport {
            handle: Handle(args.handle),
            mmap_offset: args.mmap_offset,
            flags: MemFlags::from_bits_retain(args.flags),
        })
    }
}
