//! The calls of a channel that need no memory manager, and so not the writer's lock.

use std::fmt::Debug;

use hsakmt_core::driver::Errno;
use hsakmt_core::node::GpuId;
use hsakmt_kfd::device::Device;

/// What an open KFD does beside memory. Each method is one ioctl; any thread may call, beside any other call.
pub trait Services: Debug + Send + Sync {
    /// See [`Device::set_trap_handler`].
    fn set_trap_handler(&self, gpu: GpuId, code: u64, data: u64) -> Result<(), Errno>;
    /// See [`Device::set_cache_policies`].
    fn set_cache_policies(&self, gpu: GpuId, default: u32, alternate: u32, base: u64, size: u64) -> Result<(), Errno>;
    /// See [`Device::runtime_enable`].
    fn runtime_enable(&self, r_debug: u64, mode: u32) -> Result<u32, Errno>;
}

impl Services for Device {
    fn set_trap_handler(&self, gpu: GpuId, code: u64, data: u64) -> Result<(), Errno> {
        Device::set_trap_handler(self, gpu, code, data)
    }

    fn set_cache_policies(&self, gpu: GpuId, default: u32, alternate: u32, base: u64, size: u64) -> Result<(), Errno> {
        Device::set_cache_policies(self, gpu, default, alternate, base, size)
    }

    fn runtime_enable(&self, r_debug: u64, mode: u32) -> Result<u32, Errno> {
        Device::runtime_enable(self, r_debug, mode)
    }
}
