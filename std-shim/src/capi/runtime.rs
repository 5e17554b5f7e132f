//! Trap handlers, cache policies, and the runtime that a debugger finds.

use hsakmt_core::node;

use super::argument::{Address, Out};
use super::twins;
use crate::ctypes::CBool;

twins! {
    /// Tells the kernel that a runtime can be debugged.
    fn hsaKmtRuntimeEnable, hsaKmtRuntimeEnableCtx(context, rDebug: Address, setupTtmp: CBool) {
        context.runtime_enable(rDebug.0, setupTtmp != 0)
    }

    /// Takes that back.
    fn hsaKmtRuntimeDisable, hsaKmtRuntimeDisableCtx(context) {
        context.runtime_disable()
    }

    /// What the kernel answered to the last enable. Of a closed library too.
    fn hsaKmtGetRuntimeCapabilities, hsaKmtGetRuntimeCapabilitiesCtx(context, caps_mask: Out<u32>) {
        caps_mask.required()?.set(context.runtime_capabilities());
        Ok(())
    }

    /// Whether firmware and kernel support a debugger.
    fn hsaKmtCheckRuntimeDebugSupport, hsaKmtCheckRuntimeDebugSupportCtx(context) {
        context.check_runtime_debug_support()
    }

    /// Sets a GPU's trap handler. The sizes are not read.
    fn hsaKmtSetTrapHandler, hsaKmtSetTrapHandlerCtx(
        context,
        NodeId: u32,
        TrapHandlerBaseAddress: Address,
        _TrapHandlerSizeInBytes: u64,
        TrapBufferBaseAddress: Address,
        _TrapBufferSizeInBytes: u64,
    ) {
        context.set_trap_handler(node::NodeId(NodeId), TrapHandlerBaseAddress.0, TrapBufferBaseAddress.0)
    }

    /// Sets a Kaveri's cache policies.
    fn hsaKmtSetMemoryPolicy, hsaKmtSetMemoryPolicyCtx(
        context,
        Node: u32,
        DefaultPolicy: u32,
        AlternatePolicy: u32,
        MemoryAddressAlternate: Address,
        MemorySizeInBytes: u64,
    ) {
        let (node, address) = (node::NodeId(Node), MemoryAddressAlternate.0);
        context.set_memory_policy(node, DefaultPolicy, AlternatePolicy, address, MemorySizeInBytes)
    }
}
