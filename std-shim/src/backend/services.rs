//! The calls of a channel that need no memory manager, and so not the writer's lock.

use std::fmt::Debug;
use std::os::fd::OwnedFd;

use hsakmt_core::driver::{Errno, HostRange};
use hsakmt_core::node::GpuId;
use hsakmt_kfd::device::{Arrays, Device, EventRequest, KfdEvent, SpmCopied, Transport};
use hsakmt_kfd::uapi::{DbgDeviceInfoEntry, DbgTrapArgs, EventData, PcSampleInfo, QueueSnapshotEntry, RuntimeInfo};

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
    ///
    /// # Safety
    /// See there.
    unsafe fn map_event_page(&self, offset: u64, bytes: usize, place: Option<usize>) -> Result<usize, Errno>;
    /// See [`Device::destroy_event`].
    fn destroy_event(&self, event: u32) -> Result<(), Errno>;
    /// See [`Device::set_event`].
    fn set_event(&self, event: u32) -> Result<(), Errno>;
    /// See [`Device::reset_event`].
    fn reset_event(&self, event: u32) -> Result<(), Errno>;
    /// See [`Device::wait_events`].
    fn wait_events(&self, events: &mut [EventData], all: bool, milliseconds: u32) -> Result<u32, Errno>;
    /// See [`Device::smi_events`].
    fn smi_events(&self, gpu: GpuId) -> Result<OwnedFd, Errno>;
    /// See [`Device::spm_acquire`].
    fn spm_acquire(&self, gpu: GpuId) -> Result<(), Errno>;
    /// See [`Device::spm_release`].
    fn spm_release(&self, gpu: GpuId) -> Result<(), Errno>;
    /// See [`Device::spm_set_buffer`].
    fn spm_set_buffer(&self, gpu: GpuId, buffer: HostRange<'_>, timeout: u32) -> (SpmCopied, Result<(), Errno>);
    /// See [`Device::pc_sampling_capabilities`].
    fn pc_sampling_capabilities(&self, gpu: GpuId, out: &mut [PcSampleInfo]) -> (u32, Result<(), Errno>);
    /// See [`Device::pc_sampling_create`].
    fn pc_sampling_create(&self, gpu: GpuId, info: &mut PcSampleInfo) -> Result<u32, Errno>;
    /// See [`Device::pc_sampling_change`].
    fn pc_sampling_change(&self, gpu: GpuId, session: u32, op: u32) -> Result<(), Errno>;
    /// See [`Device::debugger_register`].
    fn debugger_register(&self, gpu: GpuId) -> Result<(), Errno>;
    /// See [`Device::debugger_unregister`].
    fn debugger_unregister(&self, gpu: GpuId) -> Result<(), Errno>;
    /// See [`Device::address_watch`].
    fn address_watch(&self, gpu: GpuId, content: &[u32]) -> Result<(), Errno>;
    /// See [`Device::wave_control`].
    fn wave_control(&self, gpu: GpuId, content: &[u32]) -> Result<(), Errno>;
    /// See [`Device::dbg_trap`].
    ///
    /// # Safety
    /// See there.
    unsafe fn dbg_trap(&self, args: &mut DbgTrapArgs, arrays: &Arrays<'_>) -> Result<u32, Errno>;
    /// See [`Device::debug_enable`].
    fn debug_enable(&self, info: &mut RuntimeInfo) -> Result<(), Errno>;
    /// See [`Device::debug_disable`].
    fn debug_disable(&self) -> Result<(), Errno>;
    /// See [`Device::debug_devices`].
    fn debug_devices(&self, out: &mut [DbgDeviceInfoEntry]) -> Result<usize, Errno>;
    /// See [`Device::debug_queues`].
    fn debug_queues(&self, clear: u64, out: &mut [QueueSnapshotEntry]) -> Result<usize, Errno>;
    /// See [`Device::debug_suspend`].
    fn debug_suspend(&self, clear: u64, queues: &mut [u32]) -> Result<usize, Errno>;
}

impl<T: Transport + Send + Sync> Services for Device<T> {
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

    unsafe fn map_event_page(&self, offset: u64, bytes: usize, place: Option<usize>) -> Result<usize, Errno> {
        // SAFETY: this method's contract is that method's.
        unsafe { Device::map_event_page(self, offset, bytes, place) }
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

    fn smi_events(&self, gpu: GpuId) -> Result<OwnedFd, Errno> {
        Device::smi_events(self, gpu)
    }

    fn spm_acquire(&self, gpu: GpuId) -> Result<(), Errno> {
        Device::spm_acquire(self, gpu)
    }

    fn spm_release(&self, gpu: GpuId) -> Result<(), Errno> {
        Device::spm_release(self, gpu)
    }

    fn spm_set_buffer(&self, gpu: GpuId, buffer: HostRange<'_>, timeout: u32) -> (SpmCopied, Result<(), Errno>) {
        Device::spm_set_buffer(self, gpu, buffer, timeout)
    }

    fn pc_sampling_capabilities(&self, gpu: GpuId, out: &mut [PcSampleInfo]) -> (u32, Result<(), Errno>) {
        Device::pc_sampling_capabilities(self, gpu, out)
    }

    fn pc_sampling_create(&self, gpu: GpuId, info: &mut PcSampleInfo) -> Result<u32, Errno> {
        Device::pc_sampling_create(self, gpu, info)
    }

    fn pc_sampling_change(&self, gpu: GpuId, session: u32, op: u32) -> Result<(), Errno> {
        Device::pc_sampling_change(self, gpu, session, op)
    }

    fn debugger_register(&self, gpu: GpuId) -> Result<(), Errno> {
        Device::debugger_register(self, gpu)
    }

    fn debugger_unregister(&self, gpu: GpuId) -> Result<(), Errno> {
        Device::debugger_unregister(self, gpu)
    }

    fn address_watch(&self, gpu: GpuId, content: &[u32]) -> Result<(), Errno> {
        Device::address_watch(self, gpu, content)
    }

    fn wave_control(&self, gpu: GpuId, content: &[u32]) -> Result<(), Errno> {
        Device::wave_control(self, gpu, content)
    }

    unsafe fn dbg_trap(&self, args: &mut DbgTrapArgs, arrays: &Arrays<'_>) -> Result<u32, Errno> {
        // SAFETY: this method's contract is that method's.
        unsafe { Device::dbg_trap(self, args, arrays) }
    }

    fn debug_enable(&self, info: &mut RuntimeInfo) -> Result<(), Errno> {
        Device::debug_enable(self, info)
    }

    fn debug_disable(&self) -> Result<(), Errno> {
        Device::debug_disable(self)
    }

    fn debug_devices(&self, out: &mut [DbgDeviceInfoEntry]) -> Result<usize, Errno> {
        Device::debug_devices(self, out)
    }

    fn debug_queues(&self, clear: u64, out: &mut [QueueSnapshotEntry]) -> Result<usize, Errno> {
        Device::debug_queues(self, clear, out)
    }

    fn debug_suspend(&self, clear: u64, queues: &mut [u32]) -> Result<usize, Errno> {
        Device::debug_suspend(self, clear, queues)
    }
}
