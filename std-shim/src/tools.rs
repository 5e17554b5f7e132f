//! What tools ask of a GPU: management events, streamed performance counters, sampled program counters, and the deprecated
//! debugger.
//!
//! None of these calls takes the writer's lock; those that wait hold nothing up.

use std::os::fd::OwnedFd;

use hsakmt_core::driver::{Errno, HostRange};
use hsakmt_core::error::{Error, Result};
use hsakmt_core::node::NodeId;
use hsakmt_kfd::device::SpmCopied;
use hsakmt_kfd::uapi::{KFD_IOCTL_PCS_OP_DESTROY, KFD_IOCTL_PCS_OP_START, KFD_IOCTL_PCS_OP_STOP, PcSampleInfo};

use crate::context::Context;

/// The first minor version of the kernel's interface with PC_SAMPLE.
const MINOR_PC_SAMPLING: u32 = 16;

/// What starting, stopping or ending a sampling session was refused for.
fn session_refused(errno: Errno) -> Error {
    match errno.0 {
        libc::EINVAL => Error::InvalidParameter,
        libc::EALREADY => Error::AlreadyOpened,
        _ => Error::Failed,
    }
}

impl Context {
    /// Opens the stream of management events of a node's GPU. Blocking.
    ///
    /// # Errors
    /// [`Error::NotOpened`], [`Error::InvalidNode`]; [`Error::Failed`] for a CPU node, and if the kernel refuses.
    #[doc(alias = "hsaKmtOpenSMI")]
    pub fn open_smi(self, node: NodeId) -> Result<OwnedFd> {
        let connection = self.connection()?;
        let gpu = self.gpu_of(node)?;
        connection.device().smi_events(gpu).map_err(|_| Error::Failed)
    }

    /// Takes the counter stream of a node's GPU for this process. Blocking.
    ///
    /// # Errors
    /// [`Error::NotOpened`], [`Error::InvalidNode`], [`Error::Failed`].
    #[doc(alias = "hsaKmtSPMAcquire")]
    pub fn spm_acquire(self, node: NodeId) -> Result<()> {
        let gpu = self.gpu_of(node)?;
        self.connection()?.device().spm_acquire(gpu).map_err(|_| Error::Failed)
    }

    /// Gives the counter stream of a node's GPU back. Blocking.
    ///
    /// # Errors
    /// As [`Context::spm_acquire`].
    #[doc(alias = "hsaKmtSPMRelease")]
    pub fn spm_release(self, node: NodeId) -> Result<()> {
        let gpu = self.gpu_of(node)?;
        self.connection()?.device().spm_release(gpu).map_err(|_| Error::Failed)
    }

    /// Says where counters go from now on, at address 0 nowhere, and what the buffer before has. Waits up to `timeout`
    /// milliseconds for that one to fill.
    ///
    /// # Errors
    /// As [`Context::spm_acquire`]. What the kernel says of the buffer before comes with [`Error::Failed`] too.
    #[doc(alias = "hsaKmtSPMSetDestBuffer")]
    pub fn spm_set_buffer(self, node: NodeId, buffer: HostRange<'_>, timeout: u32) -> Result<(SpmCopied, Result<()>)> {
        let gpu = self.gpu_of(node)?;
        let connection = self.connection()?;
        let (copied, result) = connection.device().spm_set_buffer(gpu, buffer, timeout);
        Ok((copied, result.map_err(|_| Error::Failed)))
    }

    /// Whether the kernel samples program counters. Waits for a lock that is held for an instant.
    ///
    /// # Errors
    /// [`Error::NotOpened`], [`Error::NotSupported`].
    #[doc(alias = "hsaKmtPcSamplingSupport")]
    pub fn pc_sampling_support(self) -> Result<()> {
        if self.connection()?.kfd_minor < MINOR_PC_SAMPLING { Err(Error::NotSupported) } else { Ok(()) }
    }

    /// The ways of sampling program counters that a node's GPU has: fills `out` from the front, and says how many there are,
    /// with an error of the kernel too. Blocking.
    ///
    /// # Errors
    /// [`Error::NotOpened`], [`Error::NotSupported`], [`Error::InvalidNode`]. Of the kernel: [`Error::BufferTooSmall`],
    /// [`Error::InvalidParameter`], [`Error::NotSupported`], [`Error::Unavailable`], [`Error::Failed`].
    #[doc(alias = "hsaKmtPcSamplingQueryCapabilities")]
    pub fn pc_sampling_capabilities(self, node: NodeId, out: &mut [PcSampleInfo]) -> Result<(u32, Result<()>)> {
        self.pc_sampling_support()?;
        let connection = self.connection()?;
        let gpu = self.gpu_of(node)?;
        let (count, result) = connection.device().pc_sampling_capabilities(gpu, out);
        let refused = |errno: Errno| match errno.0 {
            libc::ENOSPC => Error::BufferTooSmall,
            libc::EINVAL => Error::InvalidParameter,
            libc::EOPNOTSUPP => Error::NotSupported,
            libc::EBUSY => Error::Unavailable,
            _ => Error::Failed,
        };
        Ok((count, result.map_err(refused)))
    }

    /// Makes a session that samples the program counters of a node's GPU as `info` says; its number. Blocking.
    ///
    /// # Errors
    /// [`Error::NotOpened`], [`Error::InvalidNode`], [`Error::InvalidParameter`], [`Error::NoMemory`],
    /// [`Error::Unavailable`] while another session samples otherwise, [`Error::Failed`].
    #[doc(alias = "hsaKmtPcSamplingCreate")]
    pub fn pc_sampling_create(self, node: NodeId, info: &mut PcSampleInfo) -> Result<u32> {
        let connection = self.connection()?;
        let gpu = self.gpu_of(node)?;
        connection.device().pc_sampling_create(gpu, info).map_err(|errno| match errno.0 {
            libc::EINVAL => Error::InvalidParameter,
            libc::ENOMEM => Error::NoMemory,
            libc::EBUSY => Error::Unavailable,
            _ => Error::Failed,
        })
    }

    /// Ends a sampling session, which it stops first. Blocking.
    ///
    /// # Errors
    /// [`Error::InvalidHandle`] for session 0; [`Error::NotOpened`], [`Error::InvalidNode`], [`Error::InvalidParameter`],
    /// [`Error::Failed`].
    #[doc(alias = "hsaKmtPcSamplingDestroy")]
    pub fn pc_sampling_destroy(self, node: NodeId, session: u32) -> Result<()> {
        self.pc_sampling(node, session, KFD_IOCTL_PCS_OP_STOP, session_refused).or_else(|error| match error {
            Error::InvalidHandle | Error::NotOpened | Error::InvalidNode => Err(error),
            _ => Ok(()),
        })?;
        self.pc_sampling(node, session, KFD_IOCTL_PCS_OP_DESTROY, |errno| match errno.0 {
            libc::EINVAL => Error::InvalidParameter,
            _ => Error::Failed,
        })
    }

    /// Starts a sampling session. Blocking.
    ///
    /// # Errors
    /// [`Error::InvalidHandle`] for session 0; [`Error::NotOpened`], [`Error::InvalidNode`], [`Error::InvalidParameter`];
    /// [`Error::OutOfResources`], [`Error::Unavailable`], [`Error::AlreadyOpened`] if it runs, [`Error::Failed`].
    #[doc(alias = "hsaKmtPcSamplingStart")]
    pub fn pc_sampling_start(self, node: NodeId, session: u32) -> Result<()> {
        self.pc_sampling(node, session, KFD_IOCTL_PCS_OP_START, |errno| match errno.0 {
            libc::ENOMEM => Error::OutOfResources,
            libc::EBUSY => Error::Unavailable,
            _ => session_refused(errno),
        })
    }

    /// Stops a sampling session. Blocking.
    ///
    /// # Errors
    /// [`Error::InvalidHandle`] for session 0; [`Error::NotOpened`], [`Error::InvalidNode`], [`Error::InvalidParameter`];
    /// [`Error::AlreadyOpened`] if it does not run, [`Error::Failed`].
    #[doc(alias = "hsaKmtPcSamplingStop")]
    pub fn pc_sampling_stop(self, node: NodeId, session: u32) -> Result<()> {
        self.pc_sampling(node, session, KFD_IOCTL_PCS_OP_STOP, session_refused)
    }

    fn pc_sampling(self, node: NodeId, session: u32, op: u32, refused: impl FnOnce(Errno) -> Error) -> Result<()> {
        if session == 0 {
            return Err(Error::InvalidHandle);
        }
        let connection = self.connection()?;
        let gpu = self.gpu_of(node)?;
        connection.device().pc_sampling_change(gpu, session, op).map_err(refused)
    }

    /// Asks for the deprecated debugger of a node's GPU, which no supported kernel has. Blocking.
    ///
    /// # Errors
    /// [`Error::NotOpened`], [`Error::InvalidNode`], [`Error::Failed`].
    #[doc(alias = "hsaKmtDbgRegister")]
    pub fn debugger_register(self, node: NodeId) -> Result<()> {
        let connection = self.connection()?;
        let gpu = self.gpu_of(node)?;
        connection.device().debugger_register(gpu).map_err(|_| Error::Failed)
    }

    /// Gives the deprecated debugger of a node's GPU up. Blocking.
    ///
    /// # Errors
    /// As [`Context::debugger_register`].
    #[doc(alias = "hsaKmtDbgUnregister")]
    pub fn debugger_unregister(self, node: NodeId) -> Result<()> {
        let connection = self.connection()?;
        let gpu = self.gpu_of(node)?;
        connection.device().debugger_unregister(gpu).map_err(|_| Error::Failed)
    }
}
