//! The simulated machine in this process, as a channel: each method is [`EmbeddedDriver`]'s own.

use std::os::fd::RawFd;

use hsakmt_core::driver::Errno;
use hsakmt_core::node::GpuId;
use hsakmt_kfd::device::TileConfig;
use hsakmt_kfd::driver::RenderNodeError;
use hsakmt_kfd::sim::embedded::EmbeddedDriver;
use hsakmt_kfd::topology::{Topology, TopologyError};
use hsakmt_kfd::uapi::{CreateQueueArgs, GetClockCountersArgs, UpdateQueueArgs};

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

    /// And stays open.
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

    fn has_memory(&self) -> bool {
        EmbeddedDriver::has_memory(self)
    }

    unsafe fn create_queue(&self, args: &mut CreateQueueArgs) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        unsafe { EmbeddedDriver::create_queue(self, args) }
    }

    unsafe fn update_queue(&self, args: UpdateQueueArgs) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        unsafe { EmbeddedDriver::update_queue(self, args) }
    }

    fn destroy_queue(&self, queue: u32) -> Result<(), Errno> {
        EmbeddedDriver::destroy_queue(self, queue)
    }

    fn set_cu_mask(&self, queue: u32, mask: &[u32]) -> Result<(), Errno> {
        EmbeddedDriver::set_cu_mask(self, queue, mask)
    }

    unsafe fn queue_wave_state(&self, queue: u32, area: u64) -> Result<(u32, u32), Errno> {
        // SAFETY: the caller's promise.
        unsafe { EmbeddedDriver::queue_wave_state(self, queue, area) }
    }

    fn alloc_queue_gws(&self, queue: u32, count: u32) -> Result<u32, Errno> {
        EmbeddedDriver::alloc_queue_gws(self, queue, count)
    }
}
