//! How code runs on GPUs: trap handlers, cache policies, and the runtime that a debugger finds.

use std::sync::atomic::{AtomicU32, Ordering};

use hsakmt_core::driver::Errno;
use hsakmt_core::error::{Error, Result};
use hsakmt_core::node::NodeId;
use hsakmt_kfd::topology::Node;
use hsakmt_kfd::uapi::{
    KFD_IOC_CACHE_POLICY_COHERENT, KFD_IOC_CACHE_POLICY_NONCOHERENT, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK,
    KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK,
};

use crate::context::Context;
use crate::shared::CONTEXTS;

/// The first minor version of the kernel's interface with RUNTIME_ENABLE.
const MINOR_RUNTIME_ENABLE: u32 = 13;

/// `HSA_CAPABILITY::DebugSupportedFirmware`
const DEBUG_SUPPORTED_FIRMWARE: u32 = 1 << 29;

/// The only GPU whose cache policies a program may set, as [`hsakmt_kfd::topology::EngineId::gfx_version`].
const KAVERI: u32 = 0x07_00_00;

/// `HSA_CACHING_CACHED`
const CACHED: u32 = 0;
/// `HSA_CACHING_NONCACHED`
const NONCACHED: u32 = 1;

/// What the kernel answered to each context's last enable. Relaxed: a number that stands for itself.
static CAPABILITIES: [AtomicU32; CONTEXTS] = [const { AtomicU32::new(0) }; CONTEXTS];

/// `errno` of a RUNTIME_ENABLE.
fn refused(errno: Errno) -> Error {
    if errno.0 == libc::EBUSY { Error::Unavailable } else { Error::Failed }
}

/// Whether a node has compute units.
fn computes(node: &&Node) -> bool {
    node.num_cpu_cores == 0 || node.num_f_compute_cores != 0
}

impl Context {
    /// Whether a debugger can work here: `Ok` if the firmware of every GPU and the kernel support it. Takes the topology
    /// snapshot unless one stands. Blocking.
    ///
    /// # Errors
    /// [`Error::NotSupported`]; [`Error::Failed`] if the topology cannot be acquired, also for a context that is not open.
    #[doc(alias = "hsaKmtCheckRuntimeDebugSupport")]
    pub fn check_runtime_debug_support(self) -> Result<()> {
        let topology = self.acquire_system_properties().map_err(|_| Error::Failed)?;
        let supports = |node: &Node| node.capability & DEBUG_SUPPORTED_FIRMWARE != 0;
        let connection = self.connection().map_err(|_| Error::NotSupported)?;
        if topology.nodes.iter().filter(computes).all(supports) && connection.kfd_minor >= MINOR_RUNTIME_ENABLE {
            Ok(())
        } else {
            Err(Error::NotSupported)
        }
    }

    /// Tells the kernel that a runtime is ready to be debugged. `r_debug` is the address of its debug structure, which only
    /// a debugger reads; `setup_ttmp` asks for trap temporaries. Blocking: it waits for a debugger that is attached.
    ///
    /// # Errors
    /// As [`Context::check_runtime_debug_support`]; [`Error::Unavailable`] if a runtime is enabled in this process.
    #[doc(alias = "hsaKmtRuntimeEnable")]
    pub fn runtime_enable(self, r_debug: usize, setup_ttmp: bool) -> Result<()> {
        self.check_runtime_debug_support()?;
        let ttmp = if setup_ttmp { KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK } else { 0 };
        let mode = KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK | ttmp;
        let capabilities = self.connection()?.device().runtime_enable(r_debug as u64, mode).map_err(refused)?;
        if let Some(place) = CAPABILITIES.get(self.index()) {
            place.store(capabilities, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Tells the kernel that the runtime is not to be debugged any more. Blocking.
    ///
    /// # Errors
    /// As [`Context::check_runtime_debug_support`]; [`Error::Failed`] if the kernel refuses.
    #[doc(alias = "hsaKmtRuntimeDisable")]
    pub fn runtime_disable(self) -> Result<()> {
        self.check_runtime_debug_support()?;
        self.connection()?.device().runtime_enable(0, 0).map(|_| ()).map_err(|_| Error::Failed)
    }

    /// What the kernel answered when the runtime was last enabled: `KFD_RUNTIME_ENABLE_CAPS_*`, 0 before. It survives a close
    /// and a fork. Wait-free.
    #[doc(alias = "hsaKmtGetRuntimeCapabilities")]
    pub fn runtime_capabilities(self) -> u32 {
        CAPABILITIES.get(self.index()).map_or(0, |place| place.load(Ordering::Relaxed))
    }

    /// Sets the trap handler of a node's GPU: GPU addresses of its code and its data. Blocking.
    ///
    /// # Errors
    /// [`Error::NotOpened`], [`Error::InvalidNode`]; [`Error::Failed`] for a CPU node, and if the kernel refuses.
    #[doc(alias = "hsaKmtSetTrapHandler")]
    pub fn set_trap_handler(self, node: NodeId, code: usize, data: usize) -> Result<()> {
        let connection = self.connection()?;
        let gpu = self.gpu_of(node)?;
        connection.device().set_trap_handler(gpu, code as u64, data as u64).map_err(|_| Error::Failed)
    }

    /// Sets both cache policies of a Kaveri: everywhere, and in `size` bytes from `address`. Policies are 0 (cached) or 1 (not
    /// cached). Blocking.
    ///
    /// # Errors
    /// [`Error::NotOpened`], [`Error::InvalidNode`]; [`Error::NotImplemented`] for every other GPU;
    /// [`Error::InvalidParameter`] for another policy or a range that is not whole pages; [`Error::Failed`].
    #[doc(alias = "hsaKmtSetMemoryPolicy")]
    pub fn set_memory_policy(
        self,
        node: NodeId,
        default: u32,
        alternate: u32,
        address: usize,
        size: u64,
    ) -> Result<()> {
        let connection = self.connection()?;
        let topology = crate::system::opened_snapshot(self)?;
        let node = topology.node(node).ok_or(Error::InvalidNode)?;
        if node.engine_id.gfx_version() != KAVERI {
            return Err(Error::NotImplemented);
        }
        let (default, alternate) = (cache_policy(default)?, cache_policy(alternate)?);
        let page = rustix::param::page_size();
        if !address.is_multiple_of(page) || !size.is_multiple_of(page as u64) {
            return Err(Error::InvalidParameter);
        }
        let device = connection.device();
        device.set_cache_policies(node.gpu(), default, alternate, address as u64, size).map_err(|_| Error::Failed)
    }
}

/// The kernel's word for a policy.
fn cache_policy(policy: u32) -> Result<u32> {
    match policy {
        CACHED => Ok(KFD_IOC_CACHE_POLICY_COHERENT),
        NONCACHED => Ok(KFD_IOC_CACHE_POLICY_NONCOHERENT),
        _ => Err(Error::InvalidParameter),
    }
}
