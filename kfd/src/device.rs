//! An open `/dev/kfd`, and the render nodes beside it: [`Device`] has one short method per ioctl, [`RenderNode`] is
//! what a GPU's buffers are mapped through.
//!
//! What comes in: ids, handles and addresses as types. What goes out: the kernel's answer, or its error number as it
//! is. What never happens: a decision, a second try other than of a call that a signal interrupted or the kernel put
//! off, or a heap allocation, except for the array of apertures on a machine with more than 64 GPUs.
//!
//! All methods are safe to call, with any arguments. What the kernel reads or writes is this call's own, or comes
//! as a promise: host memory as a [`HostRange`], a descriptor as a borrow. The descriptor behind a [`Device`] or a
//! [`RenderNode`] was opened by the device's path, or the caller of `from_fd` has promised what it is; so the ioctls mean
//! what these methods take them for.
//!
//! Each method fills the struct of its ioctl and gives it to a [`Transport`]: the descriptor, or the simulated machine. So what
//! is tested on the simulated machine is what runs on a GPU. There are the patterns of rustix: `set` is only used where the
//! kernel writes nothing at all, through pointers in the struct neither; `get` where it reads nothing; all else is
//! `update`. KFD copies a struct back on errors too, which is how a map that stopped half-way says how far it came.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use hsakmt_core::address::Bounds;
#[cfg(doc)]
use hsakmt_core::driver::HostRange;
use hsakmt_core::driver::{Bo, BoRequest, DmabufFd, DmabufInfo, Errno, Handle, IpcImport, Partial, ProcessApertures};
use hsakmt_core::flags::{IocFlags, MemFlags};
use hsakmt_core::node::GpuId;
use rustix::fs::{Mode, OFlags};
use rustix::ioctl::Opcode;

use crate::host::errno;
use crate::opcode::{self, Command};
use crate::uapi::*;

mod arrays;
mod debug;
mod events;
mod libdrm;
mod queues;
mod render;
mod runtime;
mod scratch;
#[cfg(test)]
mod tests;
mod tools;
mod transport;

pub use arrays::TileConfig;
pub use events::{EventRequest, KfdEvent};
pub use libdrm::LibdrmDevice;
pub use render::{RenderCopy, RenderNode};
pub use tools::SpmCopied;
pub use transport::{Args, Arrays, Kfd, Transport};

/// Where the kernel's driver is.
pub const PATH: &str = "/dev/kfd";

/// Runs a system call again for as long as it was interrupted or asked to come back.
fn restart<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno(libc::EINTR | libc::EAGAIN)) => {}
            result => return result,
        }
    }
}

/// Runs an ioctl of KFD in the same way. The log has its answer, also if a caller drops it.
fn restart_ioctl<T>(command: Command, call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    // A number and no words: those would come from the heap, and the memory manager holds its lock.
    restart(call).inspect_err(|errno| log::debug!("{}: error {}", command.name(), errno.0))
}

/// The command of a request number in the table.
pub(crate) const fn command(request: Opcode) -> Command {
    match Command::from_number(opcode::parts(request).1) {
        Some(command) => command,
        None => panic!("a request that is not in the table"),
    }
}

/// The system's words for an error number.
pub fn words(errno: Errno) -> String {
    std::io::Error::from_raw_os_error(errno.0).to_string()
}

/// Why a device's file did not open, and what helps, in a line.
pub fn open_failure(errno: Errno) -> String {
    let help = match errno.0 {
        libc::EACCES | libc::EPERM => {
            "; this user may not open it: join the group that may (ls -l names it; as a rule render, on some systems video)"
        }
        libc::ENOENT => "; there is no such device here, or it was not passed to this container",
        libc::ENXIO | libc::ENODEV => "; the file is there and its driver is not: sudo modprobe amdgpu",
        libc::EINVAL => "; the driver is there and has no GPU node: sudo dmesg | grep -i kfd",
        libc::EMFILE | libc::ENFILE => "; raise the limit of open files (ulimit -n)",
        _ => "",
    };
    words(errno) + help
}

/// Opens a device. Only a signal is a reason to try again: KFD says "again" for as long as a GPU is being reset.
fn open(path: &str) -> Result<OwnedFd, Errno> {
    let open = || rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    rustix::io::retry_on_intr(open).map_err(errno)
}

/// An open KFD. The kernel's side of this process ends with the last copy of its descriptor.
#[derive(Debug)]
pub struct Device<T = Kfd> {
    transport: T,
}

impl<T: AsFd> AsFd for Device<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.transport.as_fd()
    }
}

/// A dmabuf that is lent to a call.
pub fn dmabuf(fd: BorrowedFd<'_>) -> DmabufFd<'_> {
    // SAFETY: the descriptor is open, and lent for as long.
    unsafe { DmabufFd::new(fd.as_raw_fd()) }
}

impl Device {
    /// Takes a descriptor for a KFD.
    ///
    /// ```
    /// # use std::os::fd::OwnedFd;
    /// use hsakmt_kfd::device::Device;
    /// # let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    /// // SAFETY: /dev/null has no ioctl: it answers each with an error.
    /// let device = unsafe { Device::from_fd(OwnedFd::from(null)) };
    /// assert!(device.version().is_err());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    /// ```compile_fail,E0133
    /// # use hsakmt_kfd::device::Device;
    /// fn of_any_file(file: std::fs::File) -> Device {
    ///     Device::from_fd(file.into())
    /// }
    /// ```
    ///
    /// # Safety
    /// It is open on a `/dev/kfd`, or on a file that answers each of KFD's requests with an error and does nothing else. Another
    /// driver's file may have other ioctls under the same numbers, which write elsewhere.
    pub unsafe fn from_fd(fd: OwnedFd) -> Device {
        // SAFETY: the caller's promise.
        Device { transport: unsafe { Kfd::new(fd) } }
    }

    /// Opens [`PATH`].
    pub fn open() -> Result<Device, Errno> {
        let fd = open(PATH)?;
        // SAFETY: it is what this path is.
        Ok(unsafe { Device::from_fd(fd) })
    }
}

impl<T: Transport> Device<T> {
    /// Over any transport.
    pub fn over(transport: T) -> Device<T> {
        Device { transport }
    }

    /// What it is over.
    pub fn transport(&self) -> &T {
        &self.transport
    }

    /// # Safety
    /// As for [`Transport::get`].
    unsafe fn get<const OPCODE: Opcode, A: Args>(&self) -> Result<A, Errno> {
        const { assert!(opcode::parts(OPCODE).2 == size_of::<A>()) };
        // SAFETY: the caller's promise.
        restart_ioctl(const { command(OPCODE) }, || unsafe { self.transport.get::<OPCODE, A>() })
    }

    /// # Safety
    /// As for [`Transport::set`].
    unsafe fn set<const OPCODE: Opcode, A: Args>(&self, args: A) -> Result<(), Errno> {
        const { assert!(opcode::parts(OPCODE).2 == size_of::<A>()) };
        // SAFETY: the caller's promise.
        restart_ioctl(const { command(OPCODE) }, || unsafe { self.transport.set::<OPCODE, A>(args) })
    }

    /// # Safety
    /// As for [`Transport::update`], of a struct that points to nothing.
    unsafe fn update<const OPCODE: Opcode, A: Args>(&self, args: &mut A) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        unsafe { self.update_with::<OPCODE, A>(args, &Arrays::NONE) }
    }

    /// # Safety
    /// As for [`Transport::update`].
    unsafe fn update_with<const OPCODE: Opcode, A: Args>(
        &self,
        args: &mut A,
        arrays: &Arrays<'_>,
    ) -> Result<(), Errno> {
        const { assert!(opcode::parts(OPCODE).2 == size_of::<A>()) };
        // SAFETY: the caller's promise.
        restart_ioctl(const { command(OPCODE) }, || unsafe { self.transport.update::<OPCODE, A>(args, arrays) })
    }

    /// Version of the interface: major, minor.
    #[doc(alias = "AMDKFD_IOC_GET_VERSION")]
    pub fn version(&self) -> Result<(u32, u32), Errno> {
        // SAFETY: the kernel fills the struct.
        let args: GetVersionArgs = unsafe { self.get::<{ opcode::GET_VERSION }, _>() }?;
        Ok((args.major_version, args.minor_version))
    }

    /// Makes this fd a process of its own in the kernel's eyes: a secondary context.
    #[doc(alias = "AMDKFD_IOC_CREATE_PROCESS")]
    pub fn create_process(&self) -> Result<(), Errno> {
        // SAFETY: the ioctl takes no argument, and touches no memory of this process.
        restart_ioctl(Command::CreateProcess, || unsafe { self.transport.command::<{ opcode::CREATE_PROCESS }>() })
    }

    /// Takes a GPU's address space, through its render node, for this process.
    #[doc(alias = "AMDKFD_IOC_ACQUIRE_VM")]
    pub fn acquire_vm(&self, gpu: GpuId, render: BorrowedFd<'_>) -> Result<(), Errno> {
        let args = AcquireVmArgs { drm_fd: render.as_raw_fd() as u32, gpu_id: gpu.0 };
        // SAFETY: the struct holds numbers only.
        unsafe { self.set::<{ opcode::ACQUIRE_VM }, _>(args) }
    }

    /// Default cache policy of a GPU; `alternate` is always coherent.
    #[doc(alias = "AMDKFD_IOC_SET_MEMORY_POLICY")]
    pub fn set_memory_policy(&self, gpu: GpuId, coherent: bool, alternate: Bounds) -> Result<(), Errno> {
        let default_policy = if coherent { KFD_IOC_CACHE_POLICY_COHERENT } else { KFD_IOC_CACHE_POLICY_NONCOHERENT };
        let mut args = SetMemoryPolicyArgs {
            gpu_id: gpu.0,
            default_policy,
            alternate_policy: KFD_IOC_CACHE_POLICY_COHERENT,
            ..Default::default()
        };
        if !alternate.is_empty() {
            args.alternate_aperture_base = alternate.base as u64;
            args.alternate_aperture_size = (alternate.limit as u64 - alternate.base as u64).saturating_add(1);
        }
        // SAFETY: the struct holds numbers only; the range is GPU addresses.
        unsafe { self.set::<{ opcode::SET_MEMORY_POLICY }, _>(args) }
    }

    /// Where scratch memory of a GPU is backed; the kernel gets `address >> 16`.
    #[doc(alias = "AMDKFD_IOC_SET_SCRATCH_BACKING_VA")]
    pub fn set_scratch_backing(&self, gpu: GpuId, address: u64) -> Result<(), Errno> {
        let mut args = SetScratchBackingVaArgs { va_addr: address >> 16, gpu_id: gpu.0, pad: 0 };
        // SAFETY: the struct holds numbers only.
        unsafe { self.update::<{ opcode::SET_SCRATCH_BACKING_VA }, _>(&mut args) }
    }

    /// GPU and host clocks, read together.
    #[doc(alias = "AMDKFD_IOC_GET_CLOCK_COUNTERS")]
    pub fn clock_counters(&self, gpu: GpuId) -> Result<GetClockCountersArgs, Errno> {
        let mut args = GetClockCountersArgs { gpu_id: gpu.0, ..Default::default() };
        // SAFETY: the struct holds numbers only.
        unsafe { self.update::<{ opcode::GET_CLOCK_COUNTERS }, _>(&mut args) }?;
        Ok(args)
    }

    /// Makes a buffer object. `EINVAL` for a userptr without host memory, or with less of it than
    /// [`BoRequest::host_bytes`].
    ///
    /// An address is no host memory:
    /// ```compile_fail,E0308
    /// # use hsakmt_core::{driver::BoRequest, flags::IocFlags, node::GpuId};
    /// let request = BoRequest { gpu: GpuId(1), va: 0, size: 4096, flags: IocFlags::USERPTR, user: Some(0x7000_0000) };
    /// ```
    /// ```
    /// # use hsakmt_core::{driver::{BoRequest, HostRange}, flags::IocFlags, node::GpuId};
    /// let user = Some(HostRange::EMPTY);
    /// let request = BoRequest { gpu: GpuId(1), va: 0, size: 4096, flags: IocFlags::USERPTR, user };
    /// ```
    #[doc(alias = "AMDKFD_IOC_ALLOC_MEMORY_OF_GPU")]
    pub fn alloc_memory(&self, request: BoRequest<'_>) -> Result<Bo, Errno> {
        let mut args = AllocMemoryOfGpuArgs {
            va_addr: request.va,
            size: request.size,
            handle: 0,
            mmap_offset: request.host_address()?,
            gpu_id: request.gpu.0,
            flags: request.flags.bits(),
        };
        // SAFETY: the kernel itself writes to the struct alone. A userptr's pages become visible to the GPU: all of them are
        // of the `HostRange`, which the kernel rounds to whole pages, and whose maker has promised that devices may use it.
        unsafe { self.update::<{ opcode::ALLOC_MEMORY_OF_GPU }, _>(&mut args) }?;
        Ok(Bo { handle: Handle(args.handle), mmap_offset: args.mmap_offset })
    }

    /// Ends a buffer object; `EBUSY` while it is mapped.
    #[doc(alias = "AMDKFD_IOC_FREE_MEMORY_OF_GPU")]
    pub fn free_memory(&self, handle: Handle) -> Result<(), Errno> {
        // SAFETY: the struct holds a number only.
        unsafe { self.set::<{ opcode::FREE_MEMORY_OF_GPU }, _>(FreeMemoryOfGpuArgs { handle: handle.0 }) }
    }

    /// Maps a buffer object on GPUs, in order.
    #[doc(alias = "AMDKFD_IOC_MAP_MEMORY_TO_GPU")]
    pub fn map_memory(&self, handle: Handle, gpus: &[GpuId]) -> Result<(), Partial> {
        arrays::by_gpus(gpus, |ids, count| {
            let mut args = MapMemoryToGpuArgs {
                handle: handle.0,
                device_ids_array_ptr: ids.first(),
                n_devices: count,
                n_success: 0,
            };
            // SAFETY: the kernel reads `n_devices` ids, which the array has, and writes to the struct alone.
            let result = unsafe { self.update_with::<{ opcode::MAP_MEMORY_TO_GPU }, _>(&mut args, ids) };
            result.map_err(|errno| (errno, args.n_success))
        })
    }

    /// Unmaps a buffer object from GPUs, in order.
    #[doc(alias = "AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU")]
    pub fn unmap_memory(&self, handle: Handle, gpus: &[GpuId]) -> Result<(), Partial> {
        arrays::by_gpus(gpus, |ids, count| {
            let mut args = UnmapMemoryFromGpuArgs {
                handle: handle.0,
                device_ids_array_ptr: ids.first(),
                n_devices: count,
                n_success: 0,
            };
            // SAFETY: as for mapping.
            let result = unsafe { self.update_with::<{ opcode::UNMAP_MEMORY_FROM_GPU }, _>(&mut args, ids) };
            result.map_err(|errno| (errno, args.n_success))
        })
    }

    /// Whether GPU page faults are retried: `mode` 0 turns it off, positive on, negative only asks. Answers the mode
    /// after the call.
    #[doc(alias = "AMDKFD_IOC_SET_XNACK_MODE")]
    pub fn xnack_mode(&self, mode: i32) -> Result<i32, Errno> {
        let mut args = SetXnackModeArgs { xnack_enabled: mode };
        // SAFETY: the struct holds a number only.
        unsafe { self.update::<{ opcode::SET_XNACK_MODE }, _>(&mut args) }?;
        Ok(args.xnack_enabled)
    }

    /// Bytes of VRAM that could be allocated.
    #[doc(alias = "AMDKFD_IOC_AVAILABLE_MEMORY")]
    pub fn available_memory(&self, gpu: GpuId) -> Result<u64, Errno> {
        let mut args = GetAvailableMemoryArgs { gpu_id: gpu.0, ..Default::default() };
        // SAFETY: the struct holds numbers only.
        unsafe { self.update::<{ opcode::AVAILABLE_MEMORY }, _>(&mut args) }?;
        Ok(args.available)
    }

    /// Makes a buffer object of a dmabuf.
    #[doc(alias = "AMDKFD_IOC_IMPORT_DMABUF")]
    pub fn import_dmabuf(&self, dmabuf: DmabufFd<'_>, gpu: GpuId, va: u64) -> Result<Handle, Errno> {
        let mut args = ImportDmabufArgs { va_addr: va, handle: 0, gpu_id: gpu.0, dmabuf_fd: dmabuf.raw() as u32 };
        // SAFETY: the struct holds numbers only.
        unsafe { self.update::<{ opcode::IMPORT_DMABUF }, _>(&mut args) }?;
        Ok(Handle(args.handle))
    }

    /// Makes a dmabuf of a buffer object, closed on exec.
    #[doc(alias = "AMDKFD_IOC_EXPORT_DMABUF")]
    pub fn export_dmabuf(&self, handle: Handle) -> Result<OwnedFd, Errno> {
        let mut args = ExportDmabufArgs { handle: handle.0, flags: OFlags::CLOEXEC.bits(), dmabuf_fd: u32::MAX };
        // SAFETY: the struct holds numbers only.
        unsafe { self.update::<{ opcode::EXPORT_DMABUF }, _>(&mut args) }?;
        let fd = RawFd::try_from(args.dmabuf_fd).map_err(|_| Errno(libc::EBADF))?;
        // SAFETY: KFD has installed this descriptor for this call, and nothing else knows it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Asks a dmabuf about itself and copies its metadata out as far as there is room; `Err((_, n))` says how many
    /// bytes it has.
    #[doc(alias = "AMDKFD_IOC_GET_DMABUF_INFO")]
    ///
    /// The descriptor is lent; a number alone does not do:
    /// ```compile_fail,E0308
    /// # use hsakmt_kfd::device::Device;
    /// # fn f(device: &Device) {
    /// let _ = device.dmabuf_info(0, &mut []);
    /// # }
    /// ```
    /// ```
    /// # use hsakmt_kfd::device::{Device, dmabuf};
    /// # fn f(device: &Device, file: std::os::fd::BorrowedFd<'_>) {
    /// let _ = device.dmabuf_info(dmabuf(file), &mut []);
    /// # }
    /// ```
    pub fn dmabuf_info(&self, dmabuf: DmabufFd<'_>, metadata: &mut [u8]) -> Result<DmabufInfo, (Errno, u32)> {
        let metadata_size = u32::try_from(metadata.len()).unwrap_or(u32::MAX);
        let metadata = Arrays::written(metadata);
        let mut args = GetDmabufInfoArgs {
            metadata_ptr: metadata.first(),
            metadata_size,
            dmabuf_fd: dmabuf.raw() as u32,
            ..Default::default()
        };
        // SAFETY: the kernel writes at most `metadata_size` bytes of metadata, which the array has.
        let result = unsafe { self.update_with::<{ opcode::GET_DMABUF_INFO }, _>(&mut args, &metadata) };
        result.map_err(|errno| (errno, args.metadata_size))?;
        Ok(DmabufInfo {
            size: args.size,
            gpu: GpuId(args.gpu_id),
            flags: IocFlags::from_bits_retain(args.flags),
            metadata_size: args.metadata_size,
        })
    }

    /// Names a buffer object for other processes; `flags` travel with the name.
    #[doc(alias = "AMDKFD_IOC_IPC_EXPORT_HANDLE")]
    pub fn ipc_export(&self, handle: Handle, gpu: GpuId, flags: MemFlags) -> Result<[u32; 4], Errno> {
        let mut args =
            IpcExportHandleArgs { handle: handle.0, gpu_id: gpu.0, flags: flags.bits(), ..Default::default() };
        // SAFETY: the struct holds numbers only.
        unsafe { self.update::<{ opcode::IPC_EXPORT_HANDLE }, _>(&mut args) }?;
        Ok(args.share_handle)
    }

    /// Takes over a buffer object by name.
    #[doc(alias = "AMDKFD_IOC_IPC_IMPORT_HANDLE")]
    pub fn ipc_import(&self, share: [u32; 4], gpu: GpuId, va: u64) -> Result<IpcImport, Errno> {
        let mut args = IpcImportHandleArgs { va_addr: va, share_handle: share, gpu_id: gpu.0, ..Default::default() };
        // SAFETY: the struct holds numbers only.
        unsafe { self.update::<{ opcode::IPC_IMPORT_HANDLE }, _>(&mut args) }?;
        Ok(IpcImport {
            handle: Handle(args.handle),
            mmap_offset: args.mmap_offset,
            flags: MemFlags::from_bits_retain(args.flags),
        })
    }

    /// Every GPU's address ranges, in the kernel's order: fills `out` from the front and says how many GPUs there are.
    ///
    /// Two ioctls: the number of GPUs, then that many ranges. If one of them fails, the older ioctl, which knows seven GPUs at
    /// most.
    ///
    /// # Errors
    ///
    /// The newer ioctl's error, if the older one fails too.
    #[doc(alias = "AMDKFD_IOC_GET_PROCESS_APERTURES_NEW", alias = "AMDKFD_IOC_GET_PROCESS_APERTURES")]
    pub fn process_apertures(&self, out: &mut [ProcessApertures]) -> Result<usize, Errno> {
        arrays::process_apertures(self, out)
    }
}
