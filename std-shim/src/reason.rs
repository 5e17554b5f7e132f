//! Why a channel did not open or was not set up: [`Reason`].
//!
//! In: what a device, a file or the memory manager said. Out: a line that names the file, the ioctl, the GPU and the error,
//! and, where there is one, what helps; and the [`Error`] that the plain calls answer. What never happens: a refusal whose
//! reason that is lost. The plain calls log it (`HSAKMT_DEBUG_LEVEL` 3 or more shows it), the tool prints it.

use hsakmt_core::driver::Errno;
use hsakmt_core::error::Error;
use hsakmt_core::manager::SetUpError;
use hsakmt_kfd::device;
use hsakmt_kfd::driver::RenderNodeError;
use hsakmt_kfd::topology::TopologyError;

/// Why opening or Acquire was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// `/dev/kfd`, or what stands for it, does not open.
    #[error("{}: {}", device::PATH, device::open_failure(*.0))]
    Open(Errno),
    /// The driver does not say which version of the interface it speaks.
    #[error("{}: AMDKFD_IOC_GET_VERSION: {}", device::PATH, device::words(*.0))]
    Version(Errno),
    /// The driver speaks another version of the interface.
    #[error("{}: the driver speaks version {major}.{minor} of the interface, this library version 1", device::PATH)]
    Mismatch {
        /// The driver's major version.
        major: u32,
        /// The driver's minor version.
        minor: u32,
    },
    /// The driver makes no secondary context.
    #[error("{}: AMDKFD_IOC_CREATE_PROCESS: {}; a secondary context needs a kernel that has it", device::PATH, device::words(*.0))]
    CreateProcess(Errno),
    /// The topology cannot be read.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// A GPU's render node does not open.
    #[error(transparent)]
    RenderNode(#[from] RenderNodeError),
    /// The memory manager could not be set up.
    #[error("{}{}", .0, advice(.0))]
    SetUp(#[from] SetUpError),
    /// The call was refused before anything else was asked.
    #[error(transparent)]
    Call(#[from] Error),
}

/// The error number of a channel that does not open: `context.try_open_with(|| Ok(Box::new(machine.open()?)))`.
impl From<Errno> for Reason {
    fn from(errno: Errno) -> Reason {
        Reason::Open(errno)
    }
}

/// An error number in words, and where to look.
fn advice(error: &SetUpError) -> String {
    let Some(errno) = error.errno() else { return String::new() };
    let words = device::words(errno);
    // The number has been said.
    let words = words.split(" (os error").next().unwrap_or_default();
    format!(" ({words}); the driver may say more: sudo dmesg | grep -i kfd")
}

impl Reason {
    /// What the plain calls answer.
    pub fn error(&self) -> Error {
        match self {
            Reason::Open(_) => Error::NotOpened,
            Reason::Mismatch { .. } => Error::DriverMismatch,
            Reason::CreateProcess(_) => Error::NotSupported,
            Reason::Topology(TopologyError::Link { .. }) => Error::InvalidNode,
            Reason::Version(_) | Reason::Topology(_) | Reason::RenderNode(_) => Error::Failed,
            Reason::SetUp(error) => (*error).into(),
            Reason::Call(error) => *error,
        }
    }

    /// Logs the reason of a refused `call`; the error that the call answers.
    pub(crate) fn logged(self, call: &str) -> Error {
        if !matches!(self, Reason::Call(_)) {
            log::error!("{call}: {self}");
        }
        self.error()
    }
}
