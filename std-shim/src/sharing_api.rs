//! Memory of others and shared virtual memory, as methods of [`Context`]: one line each over [`Context::manage`].
//!
//! In and out as in `memory_api`: plain numbers and types, an [`Error`] after which nothing has changed. All block.

use hsakmt_core::driver::{DmabufFd, HostRange, SvmAttribute};
use hsakmt_core::error::{Error, Result};
use hsakmt_core::manager::{Graphics, SharedHandle};
use hsakmt_core::node::NodeId;

use crate::context::Context;

/// The KFD interface's minor version that tells how much memory is left.
const MINOR_AVAILABLE_MEMORY: u32 = 9;

/// The one that knows XNACK modes.
const MINOR_XNACK: u32 = 5;

/// The one that knows shared virtual memory.
const MINOR_SVM: u32 = 5;

/// `EPERM`: this machine has only the mode it has.
const NOT_PERMITTED: i32 = 1;

impl Context {
    /// Names a buffer for other processes; `size` is what they will see.
    #[doc(alias = "hsaKmtShareMemory")]
    pub fn share(self, address: usize, size: usize) -> Result<SharedHandle> {
        self.manage(|manager| manager.share(address, size))
    }

    /// Takes another process's buffer over: its address here, and its size. `None`: registered to no nodes.
    #[doc(alias = "hsaKmtRegisterSharedHandle")]
    #[doc(alias = "hsaKmtRegisterSharedHandleToNodes")]
    pub fn import_shared(self, handle: SharedHandle, nodes: Option<&[NodeId]>) -> Result<(usize, usize)> {
        self.manage(|manager| manager.import_shared(handle, nodes))
    }

    /// A new dmabuf of the buffer that holds `address..address + size`, and where in it that is. The descriptor is the
    /// caller's to close.
    #[doc(alias = "hsaKmtExportDMABufHandle")]
    pub fn export_dmabuf(self, address: usize, size: usize) -> Result<(i32, u64)> {
        self.manage(|manager| manager.export_dmabuf(address, size))
    }

    /// Takes a dmabuf over; `hsakmt_kfd::device::dmabuf` lends one. `None`: registered to no nodes. With `address_wanted` it
    /// gets an address even then.
    #[doc(alias = "hsaKmtRegisterGraphicsHandleToNodes")]
    pub fn register_graphics(
        self,
        fd: DmabufFd<'_>,
        nodes: Option<&[NodeId]>,
        address_wanted: bool,
    ) -> Result<Graphics> {
        self.manage(|manager| manager.register_graphics(fd, nodes, address_wanted))
    }

    /// [`Error::NotSupported`] unless the kernel driver is this new.
    fn needs(self, minor: u32) -> Result<()> {
        if self.kfd_minor()? < minor { Err(Error::NotSupported) } else { Ok(()) }
    }

    /// What the attribute verbs ask of a range, for a caller who looks at attributes only after that:
    /// [`Error::NotSupported`] on an older kernel, [`Error::InvalidParameter`] unless it is whole pages, at least one.
    pub(crate) fn check_svm_range(self, start: usize, size: usize) -> Result<()> {
        self.needs(MINOR_SVM)?;
        self.manage(|manager| {
            let page = manager.writer().layout().page;
            let whole_pages = page.offset(start) == 0 && page.offset(size) == 0;
            if start != 0 && size != 0 && whole_pages { Ok(()) } else { Err(Error::InvalidParameter) }
        })
    }

    /// Sets attributes of host memory as shared virtual memory.
    #[doc(alias = "hsaKmtSVMSetAttr")]
    pub fn set_svm_attributes(self, range: HostRange<'_>, attributes: &[SvmAttribute]) -> Result<()> {
        self.manage(|manager| manager.svm_set_attributes(range, attributes))
    }

    /// Reads attributes of a range of shared virtual memory; `attributes` change only on success.
    #[doc(alias = "hsaKmtSVMGetAttr")]
    pub fn svm_attributes(self, start: usize, size: usize, attributes: &mut [SvmAttribute]) -> Result<()> {
        self.manage(|manager| manager.svm_get_attributes(start, size, attributes))
    }

    /// Bytes of device memory that can still be had on a node.
    ///
    /// # Errors
    /// [`Error::NotSupported`] on an older kernel; [`Error::InvalidNode`]; [`Error::Failed`] for a CPU node.
    #[doc(alias = "hsaKmtAvailableMemory")]
    pub fn available_memory(self, node: NodeId) -> Result<u64> {
        self.needs(MINOR_AVAILABLE_MEMORY)?;
        self.manage(|manager| {
            let gpu = manager.writer().layout().gpu_of(node).ok_or(Error::InvalidNode)?;
            manager.driver().available_memory(gpu).map_err(|_| Error::Failed)
        })
    }

    /// Whether GPUs retry faulting accesses (XNACK), after setting it if `wanted` says so.
    ///
    /// # Errors
    /// [`Error::NotSupported`] on an older kernel, and where the mode cannot be set; [`Error::Failed`] while queues
    /// exist.
    #[doc(alias = "hsaKmtGetXNACKMode")]
    #[doc(alias = "hsaKmtSetXNACKMode")]
    pub fn xnack_mode(self, wanted: Option<i32>) -> Result<i32> {
        self.needs(MINOR_XNACK)?;
        self.manage(|manager| {
            let answer = manager.driver().xnack_mode(wanted.unwrap_or(-1));
            answer.map_err(|errno| if errno.0 == NOT_PERMITTED { Error::NotSupported } else { Error::Failed })
        })
    }
}
