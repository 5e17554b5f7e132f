//! Importing a graphics buffer: a dmabuf made by the display driver, with the metadata that says how it is tiled.
//!
//! In: a file descriptor, perhaps nodes. Out: a REGISTERED_GRAPHICS object - also where the metadata is empty - and
//! where its metadata stands. Without nodes, and unless an address is asked for, it gets a mem handle instead of an
//! address. What never happens: metadata that moves or goes before the object does.

use super::Manager;
use super::buffer::Birth;
use super::gpu_list::GpuList;
use super::space::VaRange;
use crate::aperture::Aperture;
use crate::array::Array;
use crate::driver::{DmabufFd, DmabufInfo, Driver};
use crate::epoch::Domain;
use crate::error::{Error, Result};
use crate::flags::MemFlags;
use crate::info::PointerType;
use crate::ledger::{Entry, Handles};
use crate::list::List;
use crate::node::{GpuId, NodeId};
use crate::pool::Memory;

/// Metadata that is asked for at first.
const METADATA: usize = 64;

/// Images start here.
const IMAGE_ALIGN: usize = 256 << 10;

/// `HsaGraphicsResourceInfo`.
#[doc(alias = "HsaGraphicsResourceInfo")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Graphics {
    /// Its address, or its mem handle.
    pub address: usize,
    /// Bytes.
    pub size: usize,
    /// Where its metadata stands until it is deregistered. Never null.
    pub metadata: *const u8,
    /// Bytes of metadata.
    pub metadata_size: u32,
    /// The node it lives on.
    pub node: NodeId,
}

impl<V: Driver, D: Domain, M: Memory> Manager<'_, V, D, M> {
    /// Takes a dmabuf over. `None`: registered to no nodes. With `address_wanted` it gets an address even then.
    ///
    /// The descriptor is lent; a number alone does not do:
    /// ```compile_fail,E0308
    /// # use hsakmt_core::{driver::Driver, epoch::Domain, error::Result, manager::{Graphics, Manager}, pool::Memory};
    /// # fn f<V: Driver, D: Domain, M: Memory>(manager: &mut Manager<'_, V, D, M>) -> Result<Graphics> {
    /// manager.register_graphics(7, None, false)
    /// # }
    /// ```
    /// ```
    /// # use hsakmt_core::{driver::{DmabufFd, Driver}, epoch::Domain, error::Result, pool::Memory};
    /// # use hsakmt_core::manager::{Graphics, Manager};
    /// # fn f<V: Driver, D: Domain, M: Memory>(manager: &mut Manager<'_, V, D, M>, fd: DmabufFd<'_>) -> Result<Graphics> {
    /// manager.register_graphics(fd, None, false)
    /// # }
    /// ```
    #[doc(alias = "hsaKmtRegisterGraphicsHandleToNodes")]
    #[doc(alias = "hsaKmtRegisterGraphicsHandleToNodesExt")]
    pub fn register_graphics(
        &mut self,
        fd: DmabufFd<'_>,
        nodes: Option<&[NodeId]>,
        address_wanted: bool,
    ) -> Result<Graphics> {
        let gpus = nodes.map_or(Ok(GpuList::new()), |nodes| self.checked_nodes(nodes))?;
        let (info, metadata) = self.ask_dmabuf(fd)?;
        let nowhere = nodes.is_none() && !address_wanted;
        let (birth, handles) = match self.place_dmabuf(fd, gpus.as_slice(), nowhere, &info) {
            Ok(placed) => placed,
            Err(error) => {
                metadata.free(self.writer.memory());
                return Err(error);
            }
        };
        let metadata_size = info.metadata_size.min(u32::try_from(metadata.len()).unwrap_or(u32::MAX));
        let (address, size, node) = (birth.range.start(), birth.size, birth.node);
        let graphics = Graphics { address, size, metadata: metadata.as_ptr(), metadata_size, node };
        self.publish(birth, Entry { handles, gpu: info.gpu, metadata, ..Entry::default() })?;
        Ok(graphics)
    }

    /// Everything but the metadata: where it goes, its list, its buffer object.
    fn place_dmabuf(
        &mut self,
        fd: DmabufFd<'_>,
        gpus: &[GpuId],
        nowhere: bool,
        info: &DmabufInfo,
    ) -> Result<(Birth, Handles)> {
        let known = self.machine.gpu(info.gpu).ok_or(Error::Failed)?;
        let node = known.node;
        let aperture = if nowhere {
            Aperture::MemHandle
        } else if known.svm_needed {
            self.svm_aperture(false)?
        } else {
            Aperture::Gpuvm(known.gpuvm.as_ref().ok_or(Error::Failed)?.0)
        };
        let size = usize::try_from(info.size).ok().and_then(|size| self.page().round_up(size)).ok_or(Error::Failed)?;
        self.reserve_birth()?;
        self.reserve_area(aperture)?;
        let registered = self.intern(gpus)?;
        let imported = self.import_dmabuf(fd, aperture, size, info);
        let (range, handles) = imported.inspect_err(|_| self.writer.release(registered))?;
        let birth = Birth {
            range,
            cpu: 0,
            size,
            registered,
            mapped: List::EMPTY,
            flags: MemFlags::from_ioc(info.flags) | MemFlags::COARSE_GRAIN,
            node,
            kind: PointerType::RegisteredGraphics,
        };
        Ok((birth, handles))
    }

    /// What the dmabuf says of itself; asked again when it has more metadata than expected.
    fn ask_dmabuf(&mut self, fd: DmabufFd<'_>) -> Result<(DmabufInfo, Array<u8>)> {
        let mut metadata = Array::filled(METADATA, 0, self.writer.memory())?;
        let asked = self.driver.dmabuf_info(fd, &mut metadata);
        if let Ok(info) = asked {
            return Ok((info, metadata));
        }
        metadata.free(self.writer.memory());
        let wanted = asked.map_or_else(|(_, wanted)| wanted, |_| 0);
        let wanted = usize::try_from(wanted).map_err(|_| Error::NoMemory)?;
        if wanted <= METADATA {
            return Err(Error::Failed);
        }
        let mut metadata = Array::filled(wanted, 0, self.writer.memory())?;
        match self.driver.dmabuf_info(fd, &mut metadata) {
            Ok(info) => Ok((info, metadata)),
            Err(_) => {
                metadata.free(self.writer.memory());
                Err(Error::Failed)
            }
        }
    }

    fn import_dmabuf(
        &mut self,
        fd: DmabufFd<'_>,
        aperture: Aperture,
        size: usize,
        info: &DmabufInfo,
    ) -> Result<(VaRange, Handles)> {
        let range = self.take(aperture, size, IMAGE_ALIGN, None).map_err(|_| Error::Failed)?;
        let start = range.start();
        let va = match aperture {
            Aperture::MemHandle => 0,
            Aperture::Gpuvm(_) => start.saturating_sub(self.writer.layout().bounds(aperture).base),
            _ => start,
        };
        match self.driver.dmabuf_import(fd, info.gpu, va as u64) {
            Ok(handle) => Ok((range, Handles::one(handle))),
            Err(_) => {
                self.give(range);
                Err(Error::Failed)
            }
        }
    }
}
