//! Why set-up was refused: [`SetUpError`], the reason as it was where it arose.
//!
//! In: the step that failed, the GPU it was about, the device's error number. Out: a value without allocation, and a line
//! of text. What never happens: a reason that is lost on the way to the log.

use core::fmt;

use super::reserve::RESERVE_LEAST;
use crate::address::Bounds;
use crate::aperture::MAX_NODES;
use crate::driver::Errno;
use crate::error::Error;
use crate::node::{GpuId, NodeId};

/// Why [`super::Manager::set_up`] or [`super::Manager::renew`] refused. Whatever it is, nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetUpError {
    /// The topology has more nodes than the node table.
    #[error("the topology has {0} nodes and this library manages at most {MAX_NODES}")]
    TooManyNodes(usize),
    /// The device did not tell its GPUs' address ranges.
    #[error("AMDKFD_IOC_GET_PROCESS_APERTURES_NEW: {0}")]
    Apertures(Errno),
    /// The device told one GPU's address ranges twice.
    #[error("AMDKFD_IOC_GET_PROCESS_APERTURES_NEW lists GPU {:#x} twice", .0.0)]
    ListedTwice(GpuId),
    /// The device did not give this process a GPU's address space.
    #[error("AMDKFD_IOC_ACQUIRE_VM of GPU {:#x}: {errno}", gpu.0)]
    AcquireVm {
        /// Which GPU.
        gpu: GpuId,
        /// What the device said.
        errno: Errno,
    },
    /// The device refused a GPU's cache policy.
    #[error("AMDKFD_IOC_SET_MEMORY_POLICY of GPU {:#x}: {errno}", gpu.0)]
    MemoryPolicy {
        /// Which GPU.
        gpu: GpuId,
        /// What the device said.
        errno: Errno,
    },
    /// There is no address that all GPUs can use.
    #[error("the GPUs have no address range in common")]
    NoCommonRange,
    /// No part of the process's address space that the GPUs can use is free and large enough to reserve for SVM.
    #[error(
        "no free address range of {} MiB between {:#x} and {:#x} to reserve for shared virtual memory",
        RESERVE_LEAST >> 20, .0.base, .0.limit
    )]
    NoRoom(Bounds),
    /// The topology has changed, and an object that is alive is on a node that names another GPU now, or none.
    #[error(
        "the topology has changed: node {} was {} and is {} now, and the object at {start:#x} uses it; free it and acquire \
         again",
        node.0, Named(*was), Named(*now)
    )]
    InUse {
        /// Where the object begins.
        start: usize,
        /// The node.
        node: NodeId,
        /// Its GPU when the object was made; [`GpuId::NONE`] for a CPU.
        was: GpuId,
        /// Its GPU now; [`GpuId::NONE`] for a CPU, and for a node that is not there.
        now: GpuId,
    },
    /// The topology has changed, and with it the address ranges that an object which is alive lies in.
    #[error(
        "the topology has changed, and with it the address ranges of the GPUs; the object at {start:#x} lies in them: free it \
         and acquire again"
    )]
    RangesInUse {
        /// Where the object begins.
        start: usize,
    },
    /// The library itself could not: it found no memory, or a reader stands still.
    #[error(transparent)]
    Library(#[from] Error),
}

/// A GPU in a sentence.
struct Named(GpuId);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            GpuId::NONE => f.write_str("no GPU"),
            GpuId(id) => write!(f, "GPU {id:#x}"),
        }
    }
}

impl SetUpError {
    /// The device's error number, if it was the device that refused.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            SetUpError::Apertures(errno)
            | SetUpError::AcquireVm { errno, .. }
            | SetUpError::MemoryPolicy { errno, .. } => Some(*errno),
            _ => None,
        }
    }
}

impl From<SetUpError> for Error {
    fn from(error: SetUpError) -> Error {
        match error {
            SetUpError::Library(error) => error,
            _ => Error::Failed,
        }
    }
}
