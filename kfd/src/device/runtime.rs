//! The ioctls that say how code runs on a GPU: trap handler, cache policies, and the runtime that a debugger finds.

use hsakmt_core::driver::Errno;
use hsakmt_core::node::GpuId;

use super::{Device, Transport};
use crate::opcode;
use crate::uapi::*;

impl<T: Transport> Device<T> {
    /// Sets the trap handler of a GPU: GPU addresses of its code and of its data.
    #[doc(alias = "AMDKFD_IOC_SET_TRAP_HANDLER")]
    pub fn set_trap_handler(&self, gpu: GpuId, code: u64, data: u64) -> Result<(), Errno> {
        let args = SetTrapHandlerArgs { tba_addr: code, tma_addr: data, gpu_id: gpu.0, pad: 0 };
        // SAFETY: the struct holds numbers only; the addresses are the GPU's.
        unsafe { self.set::<{ opcode::SET_TRAP_HANDLER }, _>(args) }
    }

    /// Sets both cache policies (`KFD_IOC_CACHE_POLICY_*`) of a GPU: everywhere, and in `size` bytes from GPU address `base`.
    #[doc(alias = "AMDKFD_IOC_SET_MEMORY_POLICY")]
    pub fn set_cache_policies(
        &self,
        gpu: GpuId,
        default_policy: u32,
        alternate_policy: u32,
        base: u64,
        size: u64,
    ) -> Result<(), Errno> {
        let args = SetMemoryPolicyArgs {
            alternate_aperture_base: base,
            alternate_aperture_size: size,
            gpu_id: gpu.0,
            default_policy,
            alternate_policy,
            misc_process_flag: 0,
        };
        // SAFETY: the struct holds numbers only; the range is GPU addresses.
        unsafe { self.set::<{ opcode::SET_MEMORY_POLICY }, _>(args) }
    }

    /// Tells the kernel that a runtime is ready to be debugged, or with `mode` 0 that it is not any more. `r_debug` is an
    /// address that only a debugger follows. Returns `KFD_RUNTIME_ENABLE_CAPS_*`. `EBUSY` if one is enabled.
    #[doc(alias = "AMDKFD_IOC_RUNTIME_ENABLE")]
    pub fn runtime_enable(&self, r_debug: u64, mode: u32) -> Result<u32, Errno> {
        let mut args = RuntimeEnableArgs { r_debug, mode_mask: mode, capabilities_mask: 0 };
        // SAFETY: the struct holds numbers only; the kernel stores the address.
        unsafe { self.update::<{ opcode::RUNTIME_ENABLE }, _>(&mut args) }?;
        Ok(args.capabilities_mask)
    }
}
