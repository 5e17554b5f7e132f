//! What a device must answer: [`Driver`], the verbs the memory manager is written in.
//!
//! The manager decides (which aperture, which flags, what to undo); a driver only does. One verb is one system call
//! or one step of address-space work, it either happens or leaves no trace, and none is called by a reader. Drivers:
//! `hsakmt_kfd::driver`, over the real `/dev/kfd` or the simulated machine in-process, and whatever a firmware author
//! writes.
//!
//! Some verbs change this process's address space, and some give a device access to it. What keeps safe code from breaking
//! memory with them:
//!
//! | verb | why it is sound |
//! |---|---|
//! | [`Driver::reserve`], [`Driver::host_alloc`] | they only take addresses that nothing uses |
//! | [`Driver::release`], [`Driver::host_map`], [`Driver::alloc_paged`] | `unsafe`: the caller proves that the addresses are this driver's |
//! | [`Driver::alloc`], [`Driver::svm_set`], [`Driver::touch`] | host memory comes as a [`HostRange`], whose maker has promised that devices may use it |
//! | [`Driver::dmabuf_info`], [`Driver::dmabuf_import`] | the descriptor comes as a [`DmabufFd`], which is lent |
//!
//! The memory manager proves the `unsafe` ones from what *it* has done with the driver, and never from a promise of the
//! driver: `Driver` is a safe trait, and one that answers nonsense gets the same nonsense back. In particular no code of
//! this crate makes a [`HostRange`] of an address that a driver has named.

use crate::address::Bounds;
use crate::error::Error;
use crate::flags::{IocFlags, MemFlags};
use crate::node::{GpuId, NodeId};

mod promise;

pub use promise::{DmabufFd, HostRange};

/// A kernel error number, as the kernel gave it; unknown numbers stay as they are. Its text is the number:
/// `hsakmt_kfd::device::words` has the system's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error {0}")]
pub struct Errno(pub i32);

/// The general failure, as the C interface answers most refusals of the kernel.
impl From<Errno> for Error {
    fn from(_: Errno) -> Error {
        Error::Failed
    }
}

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
    /// Fresh anonymous pages bound to a node's memory, huge pages from 2 MiB. `flags` say whether to bind (`NO_NUMA_BIND`),
    /// whether failing to is an error (`NO_SUBSTITUTE`), and whether a forked child shares them or, with `NON_PAGED`, does
    /// not have them.
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
pub struct BoRequest<'a> {
    /// On which GPU.
    pub gpu: GpuId,
    /// The GPU address it gets; 0 for a buffer without one.
    pub va: u64,
    /// Bytes.
    pub size: u64,
    /// What kind.
    pub flags: IocFlags,
    /// The host memory that a userptr BO stands for, at least [`BoRequest::host_bytes`] of it; of any other BO `None`.
    pub user: Option<HostRange<'a>>,
}

impl BoRequest<'_> {
    /// Bytes of host memory that a userptr BO of this size stands for: an AQL ring shows them twice.
    pub const fn host_bytes(&self) -> u64 {
        if self.flags.contains(IocFlags::AQL_QUEUE_MEM) { self.size / 2 } else { self.size }
    }

    /// The host address of a userptr, 0 for any other BO. `EINVAL` for a userptr without host memory, or with too little.
    pub const fn host_address(&self) -> Result<u64, Errno> {
        match self.user {
            _ if !self.flags.contains(IocFlags::USERPTR) => Ok(0),
            Some(range) if range.size() as u64 >= self.host_bytes() => Ok(range.address() as u64),
            _ => Err(Errno::INVAL),
        }
    }
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

/// The verbs. All block; all are called by the single writer; all are all-or-nothing except that [`Partial`] says how
/// far a map or unmap came.
///
/// # Implementing it
/// [`Driver::release`], [`Driver::host_map`] and [`Driver::alloc_paged`] are declared `unsafe fn` in an implementation too
/// (Rust accepts no safe function in their place); a driver without an address space of its own has empty or plain bodies.
/// An implementation may rely on their contracts. It owes nothing in return that memory safety depends on; the memory
/// manager's answers are wrong if it breaks the rules of the verbs.
///
/// ```
/// # use hsakmt_core::driver::Driver;
/// fn end(driver: &mut impl Driver, reserved: usize, size: usize) {
///     // SAFETY: `reserved` came from `driver.reserve` with this size, and this is its end.
///     unsafe { driver.release(reserved, size) }
/// }
/// ```
/// ```compile_fail,E0133
/// # use hsakmt_core::driver::Driver;
/// fn end(driver: &mut impl Driver, reserved: usize, size: usize) {
///     driver.release(reserved, size)
/// }
/// ```
/// ```compile_fail,E0133
/// # use hsakmt_core::driver::{Driver, HostMap};
/// fn hide(driver: &mut impl Driver, reserved: usize, size: usize) {
///     let _ = driver.host_map(reserved, size, HostMap::Reserved);
/// }
/// ```
/// ```compile_fail,E0133
/// # use hsakmt_core::driver::{BoRequest, Driver};
/// fn pages(driver: &mut impl Driver, request: BoRequest<'_>) {
///     let _ = driver.alloc_paged(request);
/// }
/// ```
pub trait Driver {
    /// Reserves host addresses that nothing uses. They have no memory until [`Driver::host_map`].
    fn reserve(&mut self, request: VaRequest) -> Result<usize, Errno>;
    /// Where a search for room that found `range` not free goes on: the last address of the highest stretch of used
    /// addresses that reaches into `range`. `None`: no address there is in use, or the driver cannot say.
    fn last_used(&mut self, range: Bounds) -> Option<usize> {
        let _ = range;
        None
    }
    /// Gives addresses back, whatever is mapped there.
    ///
    /// # Safety
    /// `address` was the answer of [`Driver::reserve`] or [`Driver::host_alloc`] of this driver for `size` bytes, and has not
    /// been given back since. Nothing accesses the range any more.
    unsafe fn release(&mut self, address: usize, size: usize);
    /// Replaces what reserved addresses show to the CPU. On an error they are still reserved, and show what they showed
    /// before or nothing.
    ///
    /// # Safety
    /// The range lies in one that [`Driver::reserve`] of this driver answered and that has not been given back since.
    /// Nothing accesses the bytes that it has shown until now.
    unsafe fn host_map(&mut self, address: usize, size: usize, what: HostMap) -> Result<(), Errno>;
    /// Ordinary process memory with the access `flags` ask for (host memory on an APU); [`Driver::release`] ends it.
    fn host_alloc(&mut self, size: usize, align: usize, flags: MemFlags) -> Result<usize, Errno>;
    /// Reads one byte of every page, so that a wild userptr ends the process where it is easy to debug
    /// (`HSA_CHECK_USERPTR`).
    fn touch(&mut self, range: HostRange<'_>);

    /// Every GPU's apertures, in the kernel's order: fills `out` from the front, says how many there are.
    fn process_apertures(&mut self, out: &mut [ProcessApertures]) -> Result<usize, Errno>;
    /// Takes the GPU's address space for this process (`AMDKFD_IOC_ACQUIRE_VM`).
    fn acquire_vm(&mut self, gpu: GpuId) -> Result<(), Errno>;
    /// Default cache policy coherent or not, and the always coherent range (`AMDKFD_IOC_SET_MEMORY_POLICY`).
    fn set_memory_policy(&mut self, gpu: GpuId, coherent: bool, alternate: Bounds) -> Result<(), Errno>;
    /// `AMDKFD_IOC_SET_SCRATCH_BACKING_VA`; the kernel gets `address >> 16`.
    fn set_scratch_backing(&mut self, gpu: GpuId, address: u64) -> Result<(), Errno>;

    /// Makes a buffer object. `EINVAL` for a userptr without host memory, or with too little.
    fn alloc(&mut self, request: BoRequest<'_>) -> Result<Bo, Errno>;
    /// Makes a userptr buffer object of pages that this driver shows: [`HostMap::Anonymous`] at the addresses that are also
    /// the object's GPU addresses. `request.user` is not looked at.
    ///
    /// # Safety
    /// [`Driver::host_map`] of this driver has shown anonymous pages at `request.va`, [`BoRequest::host_bytes`] bytes of
    /// them. They stay there until the object is freed.
    unsafe fn alloc_paged(&mut self, request: BoRequest<'_>) -> Result<Bo, Errno>;
    /// Ends one. `EBUSY` while it is mapped.
    fn free(&mut self, handle: Handle) -> Result<(), Errno>;
    /// Maps one on GPUs, in order.
    fn map(&mut self, handle: Handle, gpus: &[GpuId]) -> Result<(), Partial>;
    /// Unmaps one from GPUs, in order.
    fn unmap(&mut self, handle: Handle, gpus: &[GpuId]) -> Result<(), Partial>;

    /// Sets attributes of a range of shared virtual memory (`AMDKFD_IOC_SVM`).
    fn svm_set(&mut self, range: HostRange<'_>, attributes: &[SvmAttribute]) -> Result<(), Errno>;
    /// Reads them: each `value` is replaced.
    fn svm_get(&mut self, start: u64, size: u64, attributes: &mut [SvmAttribute]) -> Result<(), Errno>;

    /// Asks a dmabuf; fills `metadata` as far as it goes. `Err((_, n))`: `n` bytes of metadata wanted.
    fn dmabuf_info(&mut self, fd: DmabufFd<'_>, metadata: &mut [u8]) -> Result<DmabufInfo, (Errno, u32)>;
    /// Makes a buffer object of a dmabuf.
    fn dmabuf_import(&mut self, fd: DmabufFd<'_>, gpu: GpuId, va: u64) -> Result<Handle, Errno>;
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
    unsafe fn release(&mut self, address: usize, size: usize) {
        // SAFETY: the caller's promise; the box and what is in it are one driver.
        unsafe { (**self).release(address, size) }
    }
    unsafe fn host_map(&mut self, address: usize, size: usize, what: HostMap) -> Result<(), Errno> {
        // SAFETY: as for `release`.
        unsafe { (**self).host_map(address, size, what) }
    }
    fn host_alloc(&mut self, size: usize, align: usize, flags: MemFlags) -> Result<usize, Errno> {
        (**self).host_alloc(size, align, flags)
    }
    fn touch(&mut self, range: HostRange<'_>) {
        (**self).touch(range)
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
    fn alloc(&mut self, request: BoRequest<'_>) -> Result<Bo, Errno> {
        (**self).alloc(request)
    }
    unsafe fn alloc_paged(&mut self, request: BoRequest<'_>) -> Result<Bo, Errno> {
        // SAFETY: as for `release`.
        unsafe { (**self).alloc_paged(request) }
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
    fn svm_set(&mut self, range: HostRange<'_>, attributes: &[SvmAttribute]) -> Result<(), Errno> {
        (**self).svm_set(range, attributes)
    }
    fn svm_get(&mut self, start: u64, size: u64, attributes: &mut [SvmAttribute]) -> Result<(), Errno> {
        (**self).svm_get(start, size, attributes)
    }
    fn dmabuf_info(&mut self, fd: DmabufFd<'_>, metadata: &mut [u8]) -> Result<DmabufInfo, (Errno, u32)> {
        (**self).dmabuf_info(fd, metadata)
    }
    fn dmabuf_import(&mut self, fd: DmabufFd<'_>, gpu: GpuId, va: u64) -> Result<Handle, Errno> {
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
