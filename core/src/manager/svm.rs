//! SVM attributes: the kernel's own bookkeeping of shared virtual memory, with node ids for gpu ids.
//!
//! In: a range and attributes that name nodes. Out: the kernel's answer, naming nodes again. What never happens: an
//! object - the kernel's ranges are not ours, and no query finds them.

use super::Manager;
use crate::array::Array;
use crate::driver::{Driver, HostRange, SvmAttribute};
use crate::epoch::Domain;
use crate::error::{Error, Result};
use crate::node::{GpuId, NodeId};
use crate::pool::Memory;

/// The KFD interface's minor version that has the SVM ioctl.
const MINOR_SVM: u32 = 5;

/// `KFD_IOCTL_SVM_ATTR_PREFERRED_LOC`
const PREFERRED_LOC: u32 = 0;
/// `KFD_IOCTL_SVM_ATTR_PREFETCH_LOC`
const PREFETCH_LOC: u32 = 1;
/// `KFD_IOCTL_SVM_ATTR_ACCESS`
const ACCESS: u32 = 2;
/// `KFD_IOCTL_SVM_ATTR_NO_ACCESS`
const NO_ACCESS: u32 = 4;
/// `KFD_IOCTL_SVM_LOCATION_UNDEFINED`
const LOCATION_UNDEFINED: u32 = u32::MAX;
/// `INVALID_NODEID`
const NO_NODE: u32 = u32::MAX;

/// What the size field of an ioctl number holds, less the fixed part of the SVM ioctl's argument.
const MOST_BYTES: usize = 16383 - 24;

fn is_access(kind: u32) -> bool {
    (ACCESS..=NO_ACCESS).contains(&kind)
}

fn is_location(kind: u32) -> bool {
    matches!(kind, PREFERRED_LOC | PREFETCH_LOC)
}

impl<V: Driver, D: Domain, M: Memory> Manager<'_, V, D, M> {
    /// Sets attributes of host memory.
    #[doc(alias = "hsaKmtSVMSetAttr")]
    pub fn svm_set_attributes(&mut self, range: HostRange<'_>, attributes: &[SvmAttribute]) -> Result<()> {
        self.check_svm_range(range.address(), range.size(), attributes.len())?;
        let mut named = Array::copied(attributes, self.writer.memory())?;
        let done = self.set_named(range, &mut named);
        named.free(self.writer.memory());
        done
    }

    fn set_named(&mut self, range: HostRange<'_>, named: &mut [SvmAttribute]) -> Result<()> {
        for attribute in &mut *named {
            if attribute.kind == PREFERRED_LOC && attribute.value == NO_NODE {
                attribute.value = LOCATION_UNDEFINED;
            } else if is_location(attribute.kind) || is_access(attribute.kind) {
                attribute.value = self.svm_gpu(attribute)?;
            }
        }
        self.driver.svm_set(range, named).map_err(|_| Error::Failed)
    }

    /// Reads attributes of `start..start + size`. `attributes` change only on success.
    #[doc(alias = "hsaKmtSVMGetAttr")]
    pub fn svm_get_attributes(&mut self, start: usize, size: usize, attributes: &mut [SvmAttribute]) -> Result<()> {
        self.check_svm_range(start, size, attributes.len())?;
        let mut named = Array::copied(attributes, self.writer.memory())?;
        let done = self.get_named(start, size, &mut named);
        if done.is_ok() {
            attributes.copy_from_slice(&named);
        }
        named.free(self.writer.memory());
        done
    }

    fn get_named(&mut self, start: usize, size: usize, named: &mut [SvmAttribute]) -> Result<()> {
        for attribute in named.iter_mut().filter(|attribute| is_access(attribute.kind)) {
            attribute.value = self.svm_gpu(attribute)?;
        }
        self.driver.svm_get(start as u64, size as u64, named)?;
        for attribute in named {
            if is_location(attribute.kind) || is_access(attribute.kind) {
                attribute.value = match attribute.value {
                    0 => 0,
                    LOCATION_UNDEFINED => NO_NODE,
                    gpu => self.writer.layout().node_of(GpuId(gpu)).ok_or(Error::InvalidNode)?.0,
                };
            }
        }
        Ok(())
    }

    fn check_svm_range(&self, start: usize, size: usize, count: usize) -> Result<()> {
        if self.opened.kfd_minor < MINOR_SVM {
            return Err(Error::NotSupported);
        }
        let page = self.page();
        let whole_pages = page.offset(start) == 0 && page.offset(size) == 0;
        let fits = count.checked_mul(size_of::<SvmAttribute>()).is_some_and(|bytes| bytes <= MOST_BYTES);
        if start == 0 || size == 0 || !whole_pages || !fits {
            return Err(Error::InvalidParameter);
        }
        Ok(())
    }

    /// The gpu id of the node that an attribute names; a CPU has no access to give or take.
    fn svm_gpu(&self, attribute: &SvmAttribute) -> Result<u32> {
        let gpu = self.gpu_of(NodeId(attribute.value))?;
        if gpu == GpuId::NONE && is_access(attribute.kind) {
            return Err(Error::InvalidNode);
        }
        Ok(gpu.0)
    }
}
