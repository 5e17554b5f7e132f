//! What a device must answer: [`Driver`], the verbs the memory manager is written in.
//!
//! The manager decides (which aperture, which flags, what to undo); a driver only does. One verb is one system call
//! or one step of address-space work, it either happens or leaves no trace, and none is called by a reader. Drivers:
//! the real `/dev/kfd` (`hsakmt_kfd::driver`), the simulated machine in-process (`hsakmt_kfd::sim::embedded`), and
//! whatever a firmware author writes.

use crate::address::Bounds;
use crate::flags::{IocFlags, MemFlags};
use crate::node::{GpuId, NodeId};

/// A kernel error number, as the kernel gave it; numbers nobody knows survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// Out of memory.
    pub const NOMEM: Errno = Errno(12);
    /// Bad argument.
    pub const INVAL: Errno = Errno(22);
    /// This kernel has no such call.
    pub const NOTTY: Errno = Errno(25);
    /// The driver does not do this.
    pub const NOSYS: Errno = Errno(38);
}

/// The kernel's name of a buffer object. Never 0: 0 in the ledger means "an address without memory".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u64);

/// A piece of host address space to reserve.
#[derive(Clone, Copy, Debug)]
pub struct VaRequest {
    /// Bytes, a page multiple, at least one page.
    pub size: usize,
    /// Power of two, at least a page.
    pub align: usize,
    /// Bytes kept free on both sides while searching; they are not part of the result.
    pub guard: usize,
    /// Exactly here, or fail and leave whoever owns it alone.
    pub fixed: Option<usize>,
    /// The result must lie inside.
    pub bounds: Bounds,
}

/// What a piece of reserved address space should show to the CPU.
#[derive(Clone, Copy, Debug)]
pub enum HostMap {
    /// A GPU's buffer through its render node: shared, not inherited over fork; without `access` nobody may touch it.
    Device {
        /// Whose render node.
        gpu: GpuId,
        /// What the allocation returned.
        offset: u64,
        /// Readable and writable, or reserved only.
        access: bool,
    },
    /// The MMIO page, through `/dev/kfd`.
    Mmio {
        /// What the allocation returned.
        offset: u64,
    },
    /// Fresh anonymous pages bound to a node's memory, not inherited over fork, huge pages from 2 MiB. `flags` say
    /// whether to bind (`NO_NUMA_BIND`) and whether failing to is an error (`NO_SUBSTITUTE`).
    Anonymous {
        /// The NUMA node.
        node: NodeId,
        /// As the caller gave them.
        flags: MemFlags,
    },
    /// Nothing: the pages are dropped, the addresses stay reserved.
    Reserved,
}

/// A buffer object to make (`AMDKFD_IOC_ALLOC_MEMORY_OF_GPU`).
#[derive(Clone, Copy, Debug)]
pub struct BoRequest {
    /// On which GPU.
    pub gpu: GpuId,
    /// The GPU address it gets; 0 for a buffer without one.
    pub va: u64,
    /// Bytes.
    pub size: u64,
    /// What kind.
    pub flags: IocFlags,
    /// The host address a userptr BO stands for; else 0.
    pub user_address: u64,
}

/// A buffer object as made.
#[derive(Clone, Copy, Debug)]
pub struct Bo {
    /// Its name.
    pub handle: Handle,
    /// Where its bytes are in the render node's file.
    pub mmap_offset: u64,
}

/// A map or unmap that stopped on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partial {
    /// Why.
    pub errno: Errno,
    /// How many GPUs, counted from the front of the list, were done (`n_success`).
    pub done: usize,
}

/// One `(type, value)` pair of the SVM ioctl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct SvmAttribute {
    /// `KFD_IOCTL_SVM_ATTR_*`.
    pub kind: u32,
    /// A gpu id, a location or flags.
    pub value: u32,
}

impl SvmAttribute {
    /// `KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE`
    pub const ACCESS_IN_PLACE: u32 = 3;
    /// `KFD_IOCTL_SVM_ATTR_SET_FLAGS`
    pub const SET_FLAGS: u32 = 5;
    /// `KFD_IOCTL_SVM_ATTR_CLR_FLAGS`
    pub const CLR_FLAGS: u32 = 6;
    /// `KFD_IOCTL_SVM_FLAG_COHERENT`
    pub const FLAG_COHERENT: u32 = 0x02;
    /// `KFD_IOCTL_SVM_FLAG_EXT_COHERENT`
    pub const FLAG_EXT_COHERENT: u32 = 0x80;
}

/// One GPU's address ranges (`AMDKFD_IOC_GET_PROCESS_APERTURES_NEW`).
#[derive(Clone, Copy, Debug)]
pub struct ProcessApertures {
    /// Which GPU.
    pub gpu: GpuId,
    /// LDS.
    pub lds: Bounds,
    /// Scratch.
    pub scratch: Bounds,
    /// GPUVM: `limit >= 2^47` on old APUs only.
    pub gpuvm: Bounds,
}

/// What a dmabuf says of itself (`AMDKFD_IOC_GET_DMABUF_INFO`).
#[derive(Clone, Copy, Debug)]
pub struct DmabufInfo {
    /// Bytes.
    pub size: u64,
    /// The GPU it lives on.
    pub gpu: GpuId,
    /// Allocation flags.
    pub flags: IocFlags,
    /// Bytes of metadata it has; may exceed the buffer given.
    pub metadata_size: u32,
}

/// A buffer taken over from another process (`AMDKFD_IOC_IPC_IMPORT_HANDLE`).
#[derive(Clone, Copy, Debug)]
pub struct IpcImport {
    /// Its name here.
    pub handle: Handle,
    /// 0: not CPU-mappable.
    pub mmap_offset: u64,
    /// The exporter's flags (`HsaMemFlags`).
    pub flags: MemFlags,
}

/// What a caller owes in return, since some drivers change this process's address space: [`Driver::release`] and
/// [`Driver::host_map`] only get ranges that [`Driver::reserve`] or [`Driver::host_alloc`] gave and that nobody uses as
/// anything else. The memory manager keeps to that.
///
/// The verbs. All block; all are called by the single writer; all are all-or-nothing except that [`Partial`] says how
/// far a map or unmap came.
pub trait Driver {
    /// Reserves host addresses; nobody may touch them until [`Driver::host_map`].
    fn reserve(&mut self, request: VaRequest) -> Result<usize, Errno>;
    /// Where a search for room that found `range` not free goes on: the last address of the highest stretch of used
    /// addresses that reaches into `range`. `None`: no address there is in use, or the driver cannot say.
    fn last_used(&mut self, range: Bounds) -> Option<usize> {
        let _ = range;
        None
    }
    /// Gives reserved addresses back, whatever is mapped there.
    fn release(&mut self, address: usize, size: usize);
    /// Replaces what reserved addresses show to the CPU.
    fn host_map(&mut self, address: usize, size: usize, what: HostMap) -> Result<(), Errno>;
    /// Ordinary process memory with the access `flags` ask for (host memory on an APU); [`Driver::release`] ends it.
    fn host_alloc(&mut self, size: usize, align: usize, flags: MemFlags) -> Result<usize, Errno>;
    /// Reads one byte of every page, so that a wild userptr dies where it is easy to debug (`HSA_CHECK_USERPTR`).
    fn touch(&mut self, address: usize, size: usize);

    /// Every GPU's apertures, in the kernel's order: fills `out` from the front, says how many there are.
    fn process_apertures(&mut self, out: &mut [ProcessApertures]) -> Result<usize, Errno>;
    /// Takes the GPU's address space for this process (`AMDKFD_IOC_ACQUIRE_VM`).
    fn acquire_vm(&mut self, gpu: GpuId) -> Result<(), Errno>;
    /// Default cache policy coherent or not, and the always coherent range (`AMDKFD_IOC_SET_MEMORY_POLICY`).
    fn set_memory_policy(&mut self, gpu: GpuId, coherent: bool, alternate: Bounds) -> Result<(), Errno>;
    /// `AMDKFD_IOC_SET_SCRATCH_BACKING_VA`; the kernel gets `address >> 16`.
    fn set_scratch_backing(&mut self, gpu: GpuId, address: u64) -> Result<(), Errno>;

    /// Makes a buffer object.
    fn alloc(&mut self, request: BoRequest) -> Result<Bo, Errno>;
    /// Ends one. `EBUSY` while it is mapped.
    fn free(&mut self, handle: Handle) -> Result<(), Errno>;
    /// Maps one on GPUs, in order.
    fn map(&mut self, handle: Handle, gpus: &[GpuId]) -> Result<(), Partial>;
    /// Unmaps one from GPUs, in order.
    fn unmap(&mut self, handle: Handle, gpus: &[GpuId]) -> Result<(), Partial>;

    /// Sets attributes of a range of shared virtual memory (`AMDKFD_IOC_SVM`).
    fn svm_set(&mut self, start: u64, size: u64, attributes: &[SvmAttribute]) -> Result<(), Errno>;
    /// Reads them: each `value` is replaced.
    fn svm_get(&mut self, start: u64, size: u64, attributes: &mut [SvmAttribute]) -> Result<(), Errno>;

    /// Asks a dmabuf; fills `metadata` as far as it goes. `Err((_, n))`: `n` bytes of metadata wanted.
    fn dmabuf_info(&mut self, fd: i32, metadata: &mut [u8]) -> Result<DmabufInfo, (Errno, u32)>;
    /// Makes a buffer object of a dmabuf.
    fn dmabuf_import(&mut self, fd: i32, gpu: GpuId, va: u64) -> Result<Handle, Errno>;
    /// Makes a dmabuf of a buffer object: a new file descriptor, closed on exec.
    fn dmabuf_export(&mut self, handle: Handle) -> Result<i32, Errno>;
    /// Names a buffer object for other processes.
    fn ipc_export(&mut self, handle: Handle, gpu: GpuId, flags: MemFlags) -> Result<[u32; 4], Errno>;
    /// Takes one over by such a name.
    fn ipc_import(&mut self, share: [u32; 4], gpu: GpuId, va: u64) -> Result<IpcImport, Errno>;
}

/// A boxed driver is a driver.
#[cfg(feature = "alloc")]
impl<D: Driver + ?Sized> Driver for alloc::boxed::Box<D> {
    fn reserve(&mut self, request: VaRequest) -> Result<usize, Errno> {
        (**self).reserve(request)
    }
    fn last_used(&mut self, range: Bounds) -> Option<usize> {
        (**self).last_used(range)
    }
    fn release(&mut self, address: usize, size: usize) {
        (**self).release(address, size)
    }
    fn host_map(&mut self, address: usize, size: usize, what: HostMap) -> Result<(), Errno> {
        (**self).host_map(address, size, what)
    }
    fn host_alloc(&mut self, size: usize, align: usize, flags: MemFlags) -> Result<usize, Errno> {
        (**self).host_alloc(size, align, flags)
    }
    fn touch(&mut self, address: usize, size: usize) {
        (**self).touch(address, size)
    }
    fn process_apertures(&mut self, out: &mut [ProcessApertures]) -> Result<usize, Errno> {
        (**self).process_apertures(out)
    }
    fn acquire_vm(&mut self, gpu: GpuId) -> Result<(), Errno> {
        (**self).acquire_vm(gpu)
    }
    fn set_memory_policy(&mut self, gpu: GpuId, coherent: bool, alternate: Bounds) -> Result<(), Errno> {
        (**self).set_memory_policy(gpu, coherent, alternate)
    }
    fn set_scratch_backing(&mut self, gpu: GpuId, address: u64) -> Result<(), Errno> {
        (**self).set_scratch_backing(gpu, address)
    }
    fn alloc(&mut self, request: BoRequest) -> Result<Bo, Errno> {
        (**self).alloc(request)
    }
    fn free(&mut self, handle: Handle) -> Result<(), Errno> {
        (**self).free(handle)
    }
    fn map(&mut self, handle: Handle, gpus: &[GpuId]) -> Result<(), Partial> {
        (**self).map(handle, gpus)
    }
    fn unmap(&mut self, handle: Handle, gpus: &[GpuId]) -> Result<(), Partial> {
        (**self).unmap(handle, gpus)
    }
    fn svm_set(&mut self, start: u64, size: u64, attributes: &[SvmAttribute]) -> Result<(), Errno> {
        (**self).svm_set(start, size, attributes)
    }
    fn svm_get(&mut self, start: u64, size: u64, attributes: &mut [SvmAttribute]) -> Result<(), Errno> {
        (**self).svm_get(start, size, attributes)
    }
    fn dmabuf_info(&mut self, fd: i32, metadata: &mut [u8]) -> Result<DmabufInfo, (Errno, u32)> {
        (**self).dmabuf_info(fd, metadata)
    }
    fn dmabuf_import(&mut self, fd: i32, gpu: GpuId, va: u64) -> Result<Handle, Errno> {
        (**self).dmabuf_import(fd, gpu, va)
    }
    fn dmabuf_export(&mut self, handle: Handle) -> Result<i32, Errno> {
        (**self).dmabuf_export(handle)
    }
    fn ipc_export(&mut self, handle: Handle, gpu: GpuId, flags: MemFlags) -> Result<[u32; 4], Errno> {
        (**self).ipc_export(handle, gpu, flags)
    }
    fn ipc_import(&mut self, share: [u32; 4], gpu: GpuId, va: u64) -> Result<IpcImport, Errno> {
        (**self).ipc_import(share, gpu, va)
    }
}
