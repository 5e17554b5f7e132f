//! The memory verbs as methods of [`Context`]: one line each over [`Context::manage`], so that Rust callers need not know
//! the manager.
//!
//! In: addresses and sizes in bytes as plain numbers, nodes and flags as types; memory of the caller's own that GPUs are to
//! use as a [`HostRange`], which carries the caller's promise. Out: an address, or an [`Error`] that says why; after an error
//! nothing has changed. What never happens: memory that is touched. An address is a number here. Code that makes a pointer of
//! it is `unsafe` code of its own, and has to know when the object ends: [`Context::free`] and [`Context::close`] are safe to
//! call, also for other code of the process, and nothing may use what they unmap.
//!
//! All of them block: they wait for other writers of the context, and for the kernel. Queries never wait for them.
//! Besides driver calls a verb costs O(log n) in the number of objects. All answer [`Error::NotOpened`] before open,
//! after the last close, and in a forked child that has not opened; all but the registering calls need
//! [`Context::acquire_system_properties`] first, and say what C says without it.
//!
//! # Example
//! On a simulated machine; [`Context::open`] is the same on the real one.
//! ```
//! use hsakmt::Context;
//! use hsakmt_core::error::Error;
//! use hsakmt_core::flags::MemFlags;
//! use hsakmt_core::node::NodeId;
//! use hsakmt_kfd::sim::embedded::EmbeddedMachine;
//!
//! let context = Context::primary();
//! let machine = EmbeddedMachine::preset("gfx90a").expect("a preset");
//! context.try_open_with(|| Ok(Box::new(machine.open()?)))?;
//! context.acquire_system_properties()?;
//!
//! let gpu = NodeId(1);
//! let buffer = context.allocate(gpu, 1 << 20, MemFlags::NON_PAGED | MemFlags::HOST_ACCESS)?;
//! context.map_nodes(buffer, 1 << 20, &[gpu])?;
//! context.set_user_data(buffer, 7)?;
//! context.query_pointer(buffer + 0x234, |info| {
//!     assert_eq!((info.node, info.gpu_address, info.size), (gpu, buffer as u64, 1 << 20));
//!     assert_eq!((info.mapped.ids(), info.user_data), (&[1][..], 7));
//! })?;
//! assert_eq!(context.free(buffer), Err(Error::Failed), "still mapped");
//! context.unmap(buffer)?;
//! context.free(buffer)?;
//! context.close()?;
//! # Ok::<(), hsakmt::reason::Reason>(())
//! ```

use hsakmt_core::driver::HostRange;
#[cfg(doc)]
use hsakmt_core::error::Error;
use hsakmt_core::error::Result;
use hsakmt_core::flags::MemFlags;
use hsakmt_core::node::NodeId;

use crate::context::Context;

impl Context {
    /// Makes `size` bytes of memory on `node` and says where. What it is follows from the flags: VRAM on a GPU node
    /// ([`MemFlags::NON_PAGED`]), host memory, only an address ([`MemFlags::ONLY_ADDRESS`]), memory without one
    /// ([`MemFlags::NO_ADDRESS`]), scratch. It is not mapped on any GPU yet.
    ///
    /// `size` must be a multiple of [`MemFlags::page_size`]. The object is twice as large with
    /// [`MemFlags::AQL_QUEUE_MEMORY`].
    ///
    /// # Errors
    /// [`Error::InvalidNode`] for an unknown node, and for every node before the topology was acquired;
    /// [`Error::InvalidParameter`] for a size of 0 or off the page, or flags that exclude each other;
    /// [`Error::NotSupported`] for flags this kernel does not know; [`Error::NoMemory`] for VRAM and
    /// [`Error::Failed`] for host memory that cannot be had.
    #[doc(alias = "hsaKmtAllocMemory")]
    pub fn allocate(self, node: NodeId, size: usize, flags: MemFlags) -> Result<usize> {
        self.allocate_aligned(node, size, 0, flags)
    }

    /// As [`Context::allocate`], at a multiple of `alignment`: a power of two, not below the flags' page size; 0 asks
    /// for nothing special.
    #[doc(alias = "hsaKmtAllocMemoryAlign")]
    pub fn allocate_aligned(self, node: NodeId, size: usize, alignment: usize, flags: MemFlags) -> Result<usize> {
        self.manage(|manager| manager.allocate(node, size, alignment, flags, 0))
    }

    /// As [`Context::allocate`], at exactly `address` ([`MemFlags::FIXED_ADDRESS`] is added). Where somebody already is,
    /// it fails and leaves them alone.
    pub fn allocate_at(self, node: NodeId, address: usize, size: usize, flags: MemFlags) -> Result<usize> {
        self.manage(|manager| manager.allocate(node, size, 0, flags | MemFlags::FIXED_ADDRESS, address))
    }

    /// Ends the object that starts at `address`: readers stop finding it, the kernel frees it, its addresses go back.
    /// A registered range loses one registration.
    ///
    /// # Errors
    /// [`Error::Failed`] while it is mapped (it then stays whole) and for address 0; [`Error::NotRegistered`] for an
    /// unknown address. With the SVM API an unknown address is fine.
    #[doc(alias = "hsaKmtFreeMemory")]
    pub fn free(self, address: usize) -> Result<()> {
        self.manage(|manager| manager.free(address))
    }

    /// Registers host memory, of any alignment and size, for all GPUs. A range registered before only counts. With the
    /// SVM API the kernel keeps the range and no object is made: queries then know nothing of it. So does a machine
    /// without a discrete GPU.
    ///
    /// # Errors
    /// [`Error::InvalidHandle`] for memory that [`Context::allocate`] made; [`Error::AlreadyRegistered`] if it was
    /// registered with a list of nodes; [`Error::Failed`] if the kernel refuses the range.
    ///
    /// # Example
    /// Bytes that other threads, or a device, may change are atomics:
    /// ```no_run
    /// use core::sync::atomic::AtomicU8;
    /// use hsakmt_core::driver::HostRange;
    ///
    /// static BUFFER: [AtomicU8; 4096] = [const { AtomicU8::new(0) }; 4096];
    /// hsakmt::Context::primary().register(HostRange::of_atomics(&BUFFER))?;
    /// # Ok::<(), hsakmt_core::error::Error>(())
    /// ```
    /// An address alone does not do:
    /// ```compile_fail,E0308
    /// hsakmt::Context::primary().register(0x7000_0000)?;
    /// # Ok::<(), hsakmt_core::error::Error>(())
    /// ```
    #[doc(alias = "hsaKmtRegisterMemory")]
    pub fn register(self, range: HostRange<'_>) -> Result<()> {
        self.manage(|manager| manager.register(range))
    }

    /// As [`Context::register`], for these nodes only, in this order.
    ///
    /// # Errors
    /// Besides: [`Error::InvalidParameter`] for no nodes, [`Error::InvalidNode`] for an unknown one,
    /// [`Error::AlreadyRegistered`] if the range has another list, [`Error::NotSupported`] without a discrete GPU.
    #[doc(alias = "hsaKmtRegisterMemoryToNodes")]
    pub fn register_to_nodes(self, range: HostRange<'_>, nodes: &[NodeId]) -> Result<()> {
        self.manage(|manager| manager.register_to_nodes(range, nodes))
    }

    /// As [`Context::register`], with the coherence the flags ask for: [`MemFlags::COARSE_GRAIN`],
    /// [`MemFlags::EXTENDED_COHERENT`] or neither, and [`MemFlags::HOST_ACCESS`], which must be there.
    ///
    /// # Errors
    /// Besides: [`Error::InvalidParameter`] for both coherences, [`Error::NotSupported`] without
    /// [`MemFlags::HOST_ACCESS`], with [`MemFlags::NON_PAGED`], or without a discrete GPU.
    #[doc(alias = "hsaKmtRegisterMemoryWithFlags")]
    pub fn register_with_flags(self, range: HostRange<'_>, flags: MemFlags) -> Result<()> {
        self.manage(|manager| manager.register_with_flags(range, flags))
    }

    /// Ends one registration; the last one ends the object. `address` is the host address as registered, or the
    /// object's GPU address, which is never ambiguous.
    ///
    /// # Errors
    /// [`Error::NotRegistered`] for an unknown address, unless the SVM API is on, and for an object without one.
    #[doc(alias = "hsaKmtDeregisterMemory")]
    pub fn deregister(self, address: usize) -> Result<()> {
        self.manage(|manager| manager.deregister(address))
    }

    /// Maps on all GPUs the object is meant for: those it is registered to, else its own GPU and those with a link to
    /// it, else all. `size` is the object's. `Some` is where GPUs see it when that is not `address`.
    ///
    /// # Errors
    /// [`Error::Failed`] for address 0 and if the kernel refuses, and then no GPU's mapping has changed;
    /// [`Error::InvalidParameter`] for an unknown address, an address without memory, or memory without an address.
    #[doc(alias = "hsaKmtMapMemoryToGPU")]
    pub fn map(self, address: usize, size: usize) -> Result<Option<u64>> {
        self.manage(|manager| manager.map(address, size))
    }

    /// As [`Context::map`]. With the SVM API, memory that is no object's becomes accessible to all GPUs where it is; no object
    /// is made of it.
    ///
    /// # Errors
    /// As [`Context::map`]; with the SVM API an unknown address is [`Error::Failed`] if the kernel refuses.
    #[doc(alias = "hsaKmtMapMemoryToGPU")]
    pub fn map_range(self, range: HostRange<'_>) -> Result<Option<u64>> {
        self.manage(|manager| manager.map_range(range))
    }

    /// Maps on exactly these nodes: others are unmapped. A registered range ignores the list.
    ///
    /// # Errors
    /// As [`Context::map`]; an unknown address, a CPU node, and a node it is not registered to are
    /// [`Error::Failed`], no nodes [`Error::InvalidParameter`], an unknown node [`Error::InvalidNode`].
    #[doc(alias = "hsaKmtMapMemoryToGPUNodes")]
    pub fn map_nodes(self, address: usize, size: usize, nodes: &[NodeId]) -> Result<Option<u64>> {
        self.manage(|manager| manager.map_nodes(address, size, nodes))
    }

    /// As [`Context::map_nodes`]. With the SVM API, memory that is no object's becomes accessible to these GPUs where it is.
    ///
    /// # Errors
    /// As [`Context::map_nodes`].
    #[doc(alias = "hsaKmtMapMemoryToGPUNodes")]
    pub fn map_range_nodes(self, range: HostRange<'_>, nodes: &[NodeId]) -> Result<Option<u64>> {
        self.manage(|manager| manager.map_range_nodes(range, nodes))
    }

    /// Unmaps from wherever it is mapped; a registered range that was mapped more than once counts down. Nothing mapped
    /// is no error.
    ///
    /// # Errors
    /// [`Error::Failed`] for an unknown address, unless the SVM API is on, and if the kernel refuses.
    #[doc(alias = "hsaKmtUnmapMemoryToGPU")]
    pub fn unmap(self, address: usize) -> Result<()> {
        self.manage(|manager| manager.unmap(address))
    }

    /// Notes a word beside the object that starts in the page of `address`; queries give it back. No driver call, but
    /// it waits for a writer that makes one.
    ///
    /// # Errors
    /// [`Error::Failed`] for an unknown address, or one that several registered ranges share.
    #[doc(alias = "hsaKmtSetMemoryUserData")]
    pub fn set_user_data(self, address: usize, user_data: usize) -> Result<()> {
        self.manage(|manager| manager.set_user_data(address, user_data))
    }

    /// Sets how many bytes of replaced memory may wait for this context's readers: 256 MiB by default, or what
    /// `HSAKMT_MAX_RETIRED_MIB` says at open. A reader that stays inside holds back what was replaced since: an idle
    /// [`Session`](hsakmt_core::reader::Session), or a thread that was stopped in the middle of a query. At the limit one
    /// change waits for it for two seconds; after that every change is [`Error::ReadersStalled`] at once until the reader
    /// moves, but for those that end or unmap something. Other contexts do not notice.
    pub fn limit_retired(self, bytes: usize) -> Result<()> {
        self.manage(|manager| {
            manager.limit_retired(bytes);
            Ok(())
        })
    }
}
