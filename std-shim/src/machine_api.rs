//! What a process asks of a GPU that is not about objects: its clocks, how it tiles textures, and libdrm's handle of it.

use std::ffi::c_void;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use hsakmt_core::driver::Errno;
use hsakmt_core::error::{Error, Result};
use hsakmt_core::node::{GpuId, NodeId};
use hsakmt_kfd::device::{LibdrmDevice, TileConfig};
use hsakmt_kfd::uapi::GetClockCountersArgs;

use crate::backend::Backend;
use crate::context::{Context, ContextManager};

impl Context {
    /// The clocks of a node's GPU and of the host at one moment; of a CPU node the host's alone. Blocking.
    ///
    /// # Errors
    /// [`Error::NotOpened`], [`Error::InvalidNode`], [`Error::Failed`].
    #[doc(alias = "hsaKmtGetClockCounters")]
    pub fn clock_counters(self, node: NodeId) -> Result<GetClockCountersArgs> {
        self.ask(node, |device, gpu| device.clock_counters(gpu))
    }

    /// How a node's GPU tiles textures: fills both arrays from the front. Blocking.
    ///
    /// # Errors
    /// [`Error::NotOpened`], [`Error::InvalidNode`]; [`Error::Failed`] for a CPU node.
    #[doc(alias = "hsaKmtGetTileConfig")]
    pub fn tile_config(self, node: NodeId, tiles: &mut [u32], macro_tiles: &mut [u32]) -> Result<TileConfig> {
        self.ask(node, |device, gpu| device.tile_config(gpu, tiles, macro_tiles))
    }

    /// libdrm's handle of a node's GPU (`amdgpu_device_handle`), which works in the address space that this context has on
    /// that GPU. Each call returns the same one, until the last close gives it back to libdrm. Blocking; the first call
    /// loads libdrm.
    ///
    /// # Errors
    /// [`Error::NotOpened`]; [`Error::InvalidNode`] for what is no GPU's node, and before the first Acquire;
    /// [`Error::InvalidHandle`] without libdrm, or if libdrm refuses the GPU. The log says which.
    #[doc(alias = "hsaKmtGetAMDGPUDeviceHandle")]
    pub fn libdrm_handle(self, node: NodeId) -> Result<NonNull<c_void>, Error> {
        let gpu = |manager: &ContextManager| {
            manager.writer().layout().gpu_of(node).filter(|gpu| *gpu != GpuId::NONE).ok_or(Error::InvalidNode)
        };
        // libdrm takes memory from the heap: it is called without the context's lock, on a copy of the descriptor.
        let copy = self.manage(|manager| {
            let render = manager.driver().render(gpu(manager)?).map_err(|_| Error::InvalidHandle)?;
            match render.libdrm_device() {
                Some(device) => Ok(Err(device.handle())),
                None => Ok(Ok(render.copy().map_err(|_| Error::InvalidHandle)?)),
            }
        })?;
        let copy = match copy {
            Ok(copy) => copy,
            Err(handle) => return Ok(handle),
        };
        let mut device = Some(LibdrmDevice::new(copy.as_fd()).map_err(|reason| {
            log::warn!("hsaKmtGetAMDGPUDeviceHandle: node {}: {reason}", node.0);
            Error::InvalidHandle
        })?);
        // If another thread was faster, its device is returned, and `device` given back to libdrm after the lock.
        self.manage(|manager| {
            let gpu = gpu(manager)?;
            // SAFETY: it changes no address and no descriptor.
            let render = unsafe { manager.driver_mut() }.render_mut(gpu).map_err(|_| Error::InvalidHandle)?;
            if let Some(new) = device.take() {
                device = render.keep_libdrm_device(&copy, new).err();
            }
            render.libdrm_device().map(LibdrmDevice::handle).ok_or(Error::InvalidHandle)
        })
    }

    fn ask<T>(self, node: NodeId, ask: impl FnOnce(&dyn Backend, GpuId) -> Result<T, Errno>) -> Result<T> {
        self.manage(|manager| {
            let gpu = manager.writer().layout().gpu_of(node).ok_or(Error::InvalidNode)?;
            ask(manager.driver().as_ref(), gpu).map_err(|_| Error::Failed)
        })
    }
}
