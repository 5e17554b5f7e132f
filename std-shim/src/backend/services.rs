//! The calls of a channel that need no memory manager, and so not the writer's lock.

use std::fmt::Debug;

use hsakmt_core::driver::Errno;
use hsakmt_core::node::GpuId;
use hsakmt_kfd::device::{Device, EventRequest, KfdEvent};
use hsakmt_kfd::uapi::EventData;

/// What an open KFD does beside memory. Each method is one ioctl; any thread may call, beside any other call.
pub trait Services: Debug + Send + Sync {
    /// See [`Device::set_trap_handler`].
    fn set_trap_handler(&self, gpu: GpuId, code: u64, data: u64) -> Result<(), Errno>;
    /// See [`Device::set_cache_policies`].
    fn set_cache_policies(&self, gpu: GpuId, default: u32, alternate: u32, base: u64, size: u64) -> Result<(), Errno>;
    /// See [`Device::runtime_enable`].
    fn runtime_enable(&self, r_debug: u64, mode: u32) -> Result<u32, Errno>;
    /// See [`Device::create_event`].
    fn create_event(&self, request: EventRequest) -> Result<KfdEvent, Errno>;
    /// See [`Device::map_event_page`].
    fn map_event_page(&self, offset: u64, bytes: usize, place: Option<usize>) -> Result<usize, Errno>;
    /// See [`Device::destroy_event`].
    fn destroy_event(&self, event: u32) -> Result<(), Errno>;
    /// See [`Device::set_event`].
    fn set_event(&self, event: u32) -> Result<(), Errno>;
    /// See [`Device::reset_event`].
    fn reset_event(&self, event: u32) -> Result<(), Errno>;
    /// See [`Device::wait_events`].
    fn wait_events(&self, events: &mut [EventData], all: bool, milliseconds: u32) -> Result<u32, Errno>;
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

    fn create_event(&self, request: EventRequest) -> Result<KfdEvent, Errno> {
        Device::create_event(self, request)
    }

    fn map_event_page(&self, offset: u64, bytes: usize, place: Option<usize>) -> Result<usize, Errno> {
        Device::map_event_page(self, offset, bytes, place)
    }

    fn destroy_event(&self, event: u32) -> Result<(), Errno> {
        Device::destroy_event(self, event)
    }

    fn set_event(&self, event: u32) -> Result<(), Errno> {
        Device::set_event(self, event)
    }

    fn reset_event(&self, event: u32) -> Result<(), Errno> {
        Device::reset_event(self, event)
    }

    fn wait_events(&self, events: &mut [EventData], all: bool, milliseconds: u32) -> Result<u32, Errno> {
        Device::wait_events(self, events, all, milliseconds)
    }
}
