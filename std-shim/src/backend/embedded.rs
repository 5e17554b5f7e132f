//! The simulated machine in this process, as a channel: each method is [`EmbeddedDriver`]'s own.

use std::os::fd::RawFd;

use hsakmt_core::driver::Errno;
use hsakmt_core::node::GpuId;
use hsakmt_kfd::device::TileConfig;
use hsakmt_kfd::driver::RenderNodeError;
use hsakmt_kfd::sim::embedded::EmbeddedDriver;
use hsakmt_kfd::topology::{Topology, TopologyError};
use hsakmt_kfd::uapi::GetClockCountersArgs;

use super::Backend;

impl super::sealed::Sealed for EmbeddedDriver {}

impl Backend for EmbeddedDriver {
    fn version(&self) -> Result<(u32, u32), Errno> {
        EmbeddedDriver::version(self)
    }

    fn topology(&self, svm_api: bool) -> Result<Topology, TopologyError> {
        self.machine().topology(svm_api)
    }

    /// A simulated GPU's render node is open from the start.
    fn add_gpus(&mut self, _: &Topology) -> Result<(), RenderNodeError> {
        Ok(())
    }

    /// Stays open.
    fn keep_gpus(&mut self, _: &Topology) {}

    fn available_memory(&self, gpu: GpuId) -> Result<u64, Errno> {
        EmbeddedDriver::available_memory(self, gpu)
    }

    fn xnack_mode(&self, mode: i32) -> Result<i32, Errno> {
        EmbeddedDriver::xnack_mode(self, mode)
    }

    fn tile_config(&self, gpu: GpuId, tiles: &mut [u32], macro_tiles: &mut [u32]) -> Result<TileConfig, Errno> {
        EmbeddedDriver::tile_config(self, gpu, tiles, macro_tiles)
    }

    fn clock_counters(&self, gpu: GpuId) -> Result<GetClockCountersArgs, Errno> {
        EmbeddedDriver::clock_counters(self, gpu)
    }

    fn create_process(&self) -> Result<(), Errno> {
        EmbeddedDriver::create_process(self)
    }

    fn fds(&self) -> Vec<RawFd> {
        EmbeddedDriver::fds(self)
    }
}
