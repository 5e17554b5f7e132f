//! Handing a buffer to another process: IPC handles, and dmabufs.
//!
//! In: an address here, or a handle from elsewhere - which may be forged. Out: 32 bytes that any process can present, a
//! file descriptor, or a REGISTERED_SHARED object. What never happens: an aperture index out of a handle used without a
//! check, an import without a node, addresses kept after a refused import.

use super::Manager;
use super::buffer::Birth;
use super::gpu_list::GpuList;
use super::space::VaRange;
use crate::aperture::Aperture;
use crate::driver::{Driver, Handle, HostMap, IpcImport};
use crate::epoch::Domain;
use crate::error::{Error, Result};
use crate::flags::MemFlags;
use crate::info::PointerType;
use crate::ledger::{Entry, Handles};
use crate::list::List;
use crate::node::{GpuId, NodeId};
use crate::pool::Memory;

/// The KFD interface's minor version that exports dmabufs.
const MINOR_DMABUF_EXPORT: u32 = 12;

/// `HsaSharedMemoryHandle`: eight words that mean something to this library alone.
#[doc(alias = "HsaSharedMemoryHandle")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedHandle {
    /// The kernel's name.
    pub share: [u32; 4],
    /// [`SharedHandle::SVM`] and its like.
    pub aperture: u32,
    /// Which GPU's, for a GPUVM aperture.
    pub index: u32,
    /// Size of the buffer.
    pub pages: u32,
    /// The GPU that exported it.
    pub gpu: u32,
}

impl SharedHandle {
    /// A scratch range: no other process can place it.
    pub const NOWHERE: u32 = 0;
    /// SVM.
    pub const SVM: u32 = 1;
    /// The coherent part of SVM.
    pub const SVM_ALT: u32 = 2;
    /// A GPU's own aperture.
    pub const GPUVM: u32 = 3;
    /// Host memory of an APU: no other process can place it either.
    pub const CPUVM: u32 = 4;
    /// Mem handles.
    pub const MEM_HANDLE: u32 = 5;

    /// As the eight words of the C interface.
    pub const fn to_words(self) -> [u32; 8] {
        let [a, b, c, d] = self.share;
        [a, b, c, d, self.aperture, self.index, self.pages, self.gpu]
    }

    /// From the eight words of the C interface.
    pub const fn from_words(words: [u32; 8]) -> SharedHandle {
        let [a, b, c, d, aperture, index, pages, gpu] = words;
        SharedHandle { share: [a, b, c, d], aperture, index, pages, gpu }
    }
}

/// Where Share and Export look: not as a find does.
#[derive(Clone, Copy)]
enum Place {
    Scratch(GpuId),
    Index(Aperture, u32, u32),
}

impl<V: Driver, D: Domain, M: Memory> Manager<'_, V, D, M> {
    /// Names a buffer for other processes. `size` is what the importer will see; it is not compared with the object's.
    #[doc(alias = "hsaKmtShareMemory")]
    pub fn share(&mut self, address: usize, size: usize) -> Result<SharedHandle> {
        let pages = u32::try_from(size / self.page().bytes()).map_err(|_| Error::InvalidParameter)?;
        let place = self.place_of(address);
        let (aperture, index) = match place {
            Place::Scratch(_) => (SharedHandle::NOWHERE, 0),
            Place::Index(_, kind, index) => (kind, index),
        };
        let (handle, gpu, flags) = match place {
            Place::Scratch(gpu) => {
                let piece = self.scratch(gpu).and_then(|scratch| scratch.piece_at(address));
                let piece = piece.ok_or(Error::InvalidParameter)?;
                (Some(piece.handle), gpu, MemFlags::empty())
            }
            Place::Index(aperture, ..) => {
                let record = self.writer.find_start(aperture, address).ok_or(Error::InvalidParameter)?;
                let gpu = match self.gpu_of(record.node)? {
                    GpuId::NONE if self.machine.dgpu => self.machine.first().ok_or(Error::Failed)?.id,
                    gpu => gpu,
                };
                (self.first_handle(record.id), gpu, record.flags)
            }
        };
        let handle = handle.ok_or(Error::Failed)?;
        let share = self.driver.ipc_export(handle, gpu, flags)?;
        Ok(SharedHandle { share, aperture, index, pages, gpu: gpu.0 })
    }

    /// Takes another process's buffer over: its address here, and its size. `None`: registered to no nodes.
    #[doc(alias = "hsaKmtRegisterSharedHandle")]
    #[doc(alias = "hsaKmtRegisterSharedHandleToNodes")]
    pub fn import_shared(&mut self, handle: SharedHandle, nodes: Option<&[NodeId]>) -> Result<(usize, usize)> {
        let gpus = nodes.map_or(Ok(GpuList::new()), |nodes| self.checked_nodes(nodes))?;
        let aperture = self.aperture_of(handle)?;
        let pages = usize::try_from(handle.pages).map_err(|_| Error::NoMemory)?;
        let size = pages.checked_mul(self.page().bytes()).ok_or(Error::NoMemory)?;
        if size == 0 {
            return Err(Error::Failed);
        }
        let gpu = GpuId(handle.gpu);
        self.reserve_birth()?;
        let registered = self.intern(gpus.as_slice())?;
        let imported = self.import_into(aperture, size, gpu, handle.share);
        let (range, kernel, flags, node) = imported.inspect_err(|_| self.writer.release(registered))?;
        let birth = Birth {
            range,
            cpu: 0,
            size,
            registered,
            mapped: List::EMPTY,
            flags,
            node,
            kind: PointerType::RegisteredShared,
        };
        let entry = Entry { handles: Handles::one(kernel), gpu, ..Entry::default() };
        self.publish(birth, entry).map(|start| (start, size))
    }

    /// Address, import, CPU mapping: undone if one fails.
    fn import_into(
        &mut self,
        aperture: Aperture,
        size: usize,
        gpu: GpuId,
        share: [u32; 4],
    ) -> Result<(VaRange, Handle, MemFlags, NodeId)> {
        let range = self.take(aperture, size, 0, None)?;
        let va = range.start() as u64;
        // A GPU that is not here is not worth a question.
        let node = self.machine.gpu(gpu).map(|gpu| gpu.node);
        let import = node.and_then(|node| Some((node, self.driver.ipc_import(share, gpu, va).ok()?)));
        let Some((node, IpcImport { handle, mmap_offset: offset, flags })) = import else {
            self.give(range);
            return Err(Error::Failed);
        };
        let show = HostMap::Device { gpu, offset, access: true };
        // What the CPU could see must be shown to it, and a name or an old APU's aperture is no place for that.
        let page = self.page();
        if offset != 0 && range.show_first(&mut self.driver, page, size, show).is_err() {
            let _ = self.driver.free(handle);
            self.give(range);
            return Err(Error::Failed);
        }
        Ok((range, handle, flags, node))
    }

    /// A new dmabuf of the buffer that holds `address..address + size`, and where in it that is.
    #[doc(alias = "hsaKmtExportDMABufHandle")]
    pub fn export_dmabuf(&mut self, address: usize, size: usize) -> Result<(i32, u64)> {
        if self.opened.kfd_minor < MINOR_DMABUF_EXPORT {
            return Err(Error::NotSupported);
        }
        let (start, whole, handle) = match self.place_of(address) {
            Place::Scratch(gpu) => {
                let piece = self.scratch(gpu).and_then(|scratch| scratch.piece_around(address));
                let piece = piece.ok_or(Error::InvalidParameter)?;
                (piece.start, piece.size, Some(piece.handle))
            }
            Place::Index(aperture, ..) => {
                let record = self.writer.find_inside(aperture, address).ok_or(Error::InvalidParameter)?;
                (record.start, record.extent(self.page()), self.first_handle(record.id))
            }
        };
        let offset = address.checked_sub(start).ok_or(Error::InvalidParameter)?;
        if offset.checked_add(size).is_none_or(|end| end > whole) {
            return Err(Error::InvalidParameter);
        }
        let handle = handle.ok_or(Error::Failed)?;
        let fd = self.driver.dmabuf_export(handle)?;
        Ok((fd, offset as u64))
    }

    /// Mem handles first; then SVM (scratch inside it apart), or on an APU each GPU's own aperture and host memory.
    fn place_of(&self, address: usize) -> Place {
        let layout = self.writer.layout();
        if layout.mem_handle.contains(address) {
            return Place::Index(Aperture::MemHandle, SharedHandle::MEM_HANDLE, 0);
        }
        let svm = Place::Index(Aperture::Svm, SharedHandle::SVM, 0);
        if layout.svm.contains(address) {
            let scratch = self.scratch_of(address).filter(|_| layout.dgpu);
            return scratch.map_or(svm, Place::Scratch);
        }
        if layout.dgpu {
            let alt = layout.svm_alt.contains(address);
            return if alt { Place::Index(Aperture::SvmAlt, SharedHandle::SVM_ALT, 0) } else { svm };
        }
        let gpuvm = self.machine.gpus.iter().zip(0u32..).filter_map(|(gpu, index)| {
            let (position, space) = gpu.gpuvm.as_ref()?;
            space.bounds().contains(address).then_some((*position, index))
        });
        match gpuvm.last() {
            Some((position, index)) => Place::Index(Aperture::Gpuvm(position), SharedHandle::GPUVM, index),
            None => Place::Index(Aperture::Cpuvm, SharedHandle::CPUVM, 0),
        }
    }

    /// The aperture a handle names here.
    fn aperture_of(&self, handle: SharedHandle) -> Result<Aperture> {
        let bad = Error::InvalidParameter;
        match handle.aperture {
            SharedHandle::SVM => self.svm_aperture(false).map_err(|_| bad),
            SharedHandle::SVM_ALT => self.svm_aperture(true).map_err(|_| bad),
            SharedHandle::GPUVM => {
                let index = usize::try_from(handle.index).map_err(|_| bad)?;
                let gpuvm = self.machine.gpus.get(index).and_then(|gpu| gpu.gpuvm.as_ref());
                gpuvm.map(|(position, _)| Aperture::Gpuvm(*position)).ok_or(bad)
            }
            SharedHandle::MEM_HANDLE if self.machine.ready => Ok(Aperture::MemHandle),
            _ => Err(bad),
        }
    }
}
