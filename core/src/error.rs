//! What can go wrong, in the words of the C interface; std-shim maps each to one `HSAKMT_STATUS`.

/// Why a verb did not do what it was asked. Whatever it is, nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The general failure (`HSAKMT_STATUS_ERROR`).
    #[error("it failed")]
    Failed,
    /// An argument no machine could accept.
    #[error("an argument no machine could accept")]
    InvalidParameter,
    /// The object is not of the kind the call needs.
    #[error("the object is not of the kind the call needs")]
    InvalidHandle,
    /// No such node.
    #[error("no such node")]
    InvalidNode,
    /// Out of memory: of the host, of the device, of address space, or of this library's own pools.
    #[error("out of memory, of the host, the device or this library")]
    NoMemory,
    /// Waiting memory reached its cap because a reader stands still; the write was refused, readers go on.
    #[error("a reader stands still and too much memory waits for it; the write was refused")]
    ReadersStalled,
    /// Not written, here or in the C library.
    #[error("not written")]
    NotImplemented,
    /// This machine or this kernel does not do that.
    #[error("this machine or this kernel does not do that")]
    NotSupported,
    /// The kernel's driver speaks another version of the interface (`HSAKMT_STATUS_DRIVER_MISMATCH`).
    #[error("the kernel's driver speaks another version of the interface")]
    DriverMismatch,
    /// The channel to the kernel is not open (in this process).
    #[error("the channel to the kernel is not open in this process")]
    NotOpened,
    /// It was open already; the call counted.
    #[error("it was open already; the call counted")]
    AlreadyOpened,
    /// Registered before, with other nodes.
    #[error("registered before, with other nodes")]
    AlreadyRegistered,
    /// Not registered.
    #[error("not registered")]
    NotRegistered,
    /// A buffer given is too small.
    #[error("a buffer given is too small")]
    BufferTooSmall,
    /// Another process, or another part of this one, has it.
    #[error("another user has it")]
    Unavailable,
    /// The device has no more of it.
    #[error("the device has no more of it")]
    OutOfResources,
    /// A wait ran out of time.
    #[error("the wait ran out of time")]
    TimedOut,
}

/// A verb's result.
pub type Result<T, E = Error> = core::result::Result<T, E>;
