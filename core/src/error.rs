//! What can go wrong, in the words of the C interface; std-shim maps each to one `HSAKMT_STATUS`.

/// Why a verb did not do what it was asked. Whatever it is, nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Error {
    /// The general failure (`HSAKMT_STATUS_ERROR`).
    Failed,
    /// An argument no machine could accept.
    InvalidParameter,
    /// The object is not of the kind the call needs.
    InvalidHandle,
    /// No such node.
    InvalidNode,
    /// Out of memory: of the host, of the device, of address space, or of this library's own pools.
    NoMemory,
    /// Waiting memory reached its cap because a reader stands still; the write was refused, readers go on.
    ReadersStalled,
    /// Not written, here or in the C library.
    NotImplemented,
    /// This machine or this kernel does not do that.
    NotSupported,
    /// The channel to the kernel is not open (in this process).
    NotOpened,
    /// It was open already; the call counted.
    AlreadyOpened,
    /// Registered before, with other nodes.
    AlreadyRegistered,
    /// Not registered.
    NotRegistered,
    /// A buffer given is too small.
    BufferTooSmall,
}

/// A verb's result.
pub type Result<T, E = Error> = core::result::Result<T, E>;
