//! What a process asks of a GPU that is not about objects: its clocks, and how it tiles textures.

use hsakmt_core::driver::Errno;
use hsakmt_core::error::{Error, Result};
use hsakmt_core::node::{GpuId, NodeId};
use hsakmt_kfd::device::TileConfig;
use hsakmt_kfd::uapi::GetClockCountersArgs;

use crate::backend::Backend;
use crate::context::Context;

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

    fn ask<T>(self, node: NodeId, ask: impl FnOnce(&dyn Backend, GpuId) -> Result<T, Errno>) -> Result<T> {
        self.manage(|manager| {
            let gpu = manager.writer().layout().gpu_of(node).ok_or(Error::InvalidNode)?;
            ask(manager.driver().as_ref(), gpu).map_err(|_| Error::Failed)
        })
    }
}
