//! What stands behind an open channel: the real `/dev/kfd`, or the simulated machine in this process.
//!
//! [`Backend`] is the memory manager's [`Driver`] plus the few things a process asks that are not about objects, without the
//! transport in its type. [`KfdDriver`] is the only one, over any transport: a forked child closes the descriptors that
//! [`Backend::fds`] names, by their numbers.

mod services;

pub use services::Services;

use std::fmt::Debug;
use std::os::fd::RawFd;
use std::sync::Arc;

use hsakmt_core::driver::{Driver, Errno};
use hsakmt_core::node::GpuId;
use hsakmt_kfd::device::{Device, RenderNode, TileConfig, Transport};
use hsakmt_kfd::driver::{KfdDriver, RenderNodeError};
use hsakmt_kfd::host::AddressSpace;
use hsakmt_kfd::topology::{Topology, TopologyError};
use hsakmt_kfd::uapi::{CreateQueueArgs, GetClockCountersArgs, UpdateQueueArgs};

use crate::context::Context;
use crate::reason::Reason;

mod sealed {
    /// Says of a type that [`super::Backend::fds`] are descriptors of its own.
    pub trait Sealed {}

    impl<T: hsakmt_kfd::device::Transport> Sealed for hsakmt_kfd::driver::KfdDriver<T> {}
}

/// A channel to a KFD. Only a [`KfdDriver`] is one:
/// ```compile_fail,E0277
/// # use hsakmt::backend::Backend;
/// # fn a_channel<B: Backend>() {}
/// # fn of_any_driver<V: hsakmt_core::driver::Driver>() {
/// a_channel::<V>();
/// # }
/// ```
/// ```
/// # use hsakmt::backend::Backend;
/// # fn a_channel<B: Backend>() {}
/// a_channel::<hsakmt_kfd::driver::KfdDriver>();
/// ```
pub trait Backend: Driver + Debug + Send + sealed::Sealed {
    /// The interface's version: major, minor.
    fn version(&self) -> Result<(u32, u32), Errno>;
    /// The machine, as it is now. `svm_api` off hides that capability of every node.
    fn topology(&self, svm_api: bool) -> Result<Topology, TopologyError>;
    /// Looks which nodes this process may use, and opens each render node for it.
    fn check_topology(&self, svm_api: bool) -> Result<(), TopologyError>;
    /// Makes the topology's GPUs usable.
    fn add_gpus(&mut self, topology: &Topology) -> Result<(), RenderNodeError>;
    /// Gives up what was opened for GPUs that the topology does not show.
    fn keep_gpus(&mut self, topology: &Topology);
    /// Bytes of device memory that can still be had.
    fn available_memory(&self, gpu: GpuId) -> Result<u64, Errno>;
    /// Sets the XNACK mode, or with -1 asks for it; the answer is the mode.
    fn xnack_mode(&self, mode: i32) -> Result<i32, Errno>;
    /// How textures are tiled on a GPU: fills both arrays from the front.
    fn tile_config(&self, gpu: GpuId, tiles: &mut [u32], macro_tiles: &mut [u32]) -> Result<TileConfig, Errno>;
    /// The clocks of a GPU and of the host at one moment; of the host alone for [`GpuId::NONE`].
    fn clock_counters(&self, gpu: GpuId) -> Result<GetClockCountersArgs, Errno>;
    /// Makes the channel a kernel process of its own (a secondary context).
    fn create_process(&self) -> Result<(), Errno>;
    /// A GPU's render node; `EINVAL` where there is none.
    fn render(&self, gpu: GpuId) -> Result<&RenderNode, Errno>;
    /// As [`Backend::render`], to change it.
    fn render_mut(&mut self, gpu: GpuId) -> Result<&mut RenderNode, Errno>;
    /// File descriptors that a forked child must close.
    fn fds(&self) -> Vec<RawFd>;
    /// The calls that need no memory manager.
    fn services(&self) -> Arc<dyn Services>;

    /// Whether its addresses have memory behind them.
    fn has_memory(&self) -> bool;
    /// Makes a queue: fills its id and where its doorbell is.
    ///
    /// # Safety
    /// As for [`Device::create_queue`].
    unsafe fn create_queue(&self, args: &mut CreateQueueArgs) -> Result<(), Errno>;
    /// Changes a queue.
    ///
    /// # Safety
    /// As for [`Device::update_queue`].
    unsafe fn update_queue(&self, args: UpdateQueueArgs) -> Result<(), Errno>;
    /// Ends a queue.
    fn destroy_queue(&self, queue: u32) -> Result<(), Errno>;
    /// Says which compute units a queue may use.
    fn set_cu_mask(&self, queue: u32, mask: &[u32]) -> Result<(), Errno>;
    /// Copies the control stack of a stopped queue: `(bytes of stack, bytes of saved waves)`.
    ///
    /// # Safety
    /// As for [`Device::queue_wave_state`].
    unsafe fn queue_wave_state(&self, queue: u32, area: u64) -> Result<(u32, u32), Errno>;
    /// Gives a queue entries of global wave sync; the first of them.
    fn alloc_queue_gws(&self, queue: u32, count: u32) -> Result<u32, Errno>;
}

/// Opens `/dev/kfd`.
pub(crate) fn open_kfd() -> Result<Box<dyn Backend>, Reason> {
    Ok(Box::new(KfdDriver::without_gpus(Device::open()?)))
}

impl Context {
    /// Opens `/dev/kfd` as [`Context::open`] does, but returns the reason of a refusal and does not log it. Blocking.
    ///
    /// # Errors
    /// Says which file or ioctl was refused, and why. [`Reason::error`] is the error of [`Context::open`].
    pub fn try_open(self) -> Result<(), Reason> {
        self.try_open_with(open_kfd)
    }
}

impl<T: Transport<Space: Send> + Send + Sync + 'static> Backend for KfdDriver<T> {
    fn version(&self) -> Result<(u32, u32), Errno> {
        self.device().version()
    }

    fn topology(&self, svm_api: bool) -> Result<Topology, TopologyError> {
        self.device().transport().topology(svm_api)
    }

    fn check_topology(&self, svm_api: bool) -> Result<(), TopologyError> {
        self.device().transport().check_topology(svm_api)
    }

    fn add_gpus(&mut self, topology: &Topology) -> Result<(), RenderNodeError> {
        KfdDriver::add_gpus(self, topology)
    }

    fn keep_gpus(&mut self, topology: &Topology) {
        KfdDriver::keep_gpus(self, topology)
    }

    fn available_memory(&self, gpu: GpuId) -> Result<u64, Errno> {
        self.device().available_memory(gpu)
    }

    fn xnack_mode(&self, mode: i32) -> Result<i32, Errno> {
        self.device().xnack_mode(mode)
    }

    fn tile_config(&self, gpu: GpuId, tiles: &mut [u32], macro_tiles: &mut [u32]) -> Result<TileConfig, Errno> {
        self.device().tile_config(gpu, tiles, macro_tiles)
    }

    fn clock_counters(&self, gpu: GpuId) -> Result<GetClockCountersArgs, Errno> {
        self.device().clock_counters(gpu)
    }

    fn create_process(&self) -> Result<(), Errno> {
        self.device().create_process()
    }

    fn render(&self, gpu: GpuId) -> Result<&RenderNode, Errno> {
        KfdDriver::render(self, gpu)
    }

    fn render_mut(&mut self, gpu: GpuId) -> Result<&mut RenderNode, Errno> {
        KfdDriver::render_mut(self, gpu)
    }

    fn fds(&self) -> Vec<RawFd> {
        self.raw_fds()
    }

    fn services(&self) -> Arc<dyn Services> {
        self.shared_device()
    }

    fn has_memory(&self) -> bool {
        self.space().has_memory()
    }

    unsafe fn create_queue(&self, args: &mut CreateQueueArgs) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        unsafe { self.device().create_queue(args) }
    }

    unsafe fn update_queue(&self, args: UpdateQueueArgs) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        unsafe { self.device().update_queue(args) }
    }

    fn destroy_queue(&self, queue: u32) -> Result<(), Errno> {
        self.device().destroy_queue(queue)
    }

    fn set_cu_mask(&self, queue: u32, mask: &[u32]) -> Result<(), Errno> {
        self.device().set_cu_mask(queue, mask)
    }

    unsafe fn queue_wave_state(&self, queue: u32, area: u64) -> Result<(u32, u32), Errno> {
        // SAFETY: the caller's promise.
        unsafe { self.device().queue_wave_state(queue, area) }
    }

    fn alloc_queue_gws(&self, queue: u32, count: u32) -> Result<u32, Errno> {
        self.device().alloc_queue_gws(queue, count)
    }
}
