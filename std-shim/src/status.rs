//! What a C call answers: [`Status`], and the one table from the library's errors to it.

use hsakmt_core::error::Error;

/// Declares the enum and, beside it, the C names, so that a test can hold both against the layout table.
macro_rules! statuses {
    ($($(#[$doc:meta])* $variant:ident = $value:literal as $name:literal,)*) => {
        /// `HSAKMT_STATUS`, as C callers see it.
        #[doc(alias = "HSAKMT_STATUS")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[must_use]
        #[repr(u32)]
        pub enum Status {
            $($(#[$doc])* #[doc(alias = $name)] $variant = $value,)*
        }

        impl Status {
            /// Every status.
            pub const ALL: &[Status] = &[$(Status::$variant,)*];

            /// The C enumerator's name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Status::$variant => $name,)*
                }
            }
        }
    };
}

statuses! {
    /// Done.
    Success = 0 as "HSAKMT_STATUS_SUCCESS",
    /// The general failure.
    Error = 1 as "HSAKMT_STATUS_ERROR",
    /// The kernel driver is of another kind.
    DriverMismatch = 2 as "HSAKMT_STATUS_DRIVER_MISMATCH",
    /// An argument no machine could accept.
    InvalidParameter = 3 as "HSAKMT_STATUS_INVALID_PARAMETER",
    /// The object is not of the kind the call needs.
    InvalidHandle = 4 as "HSAKMT_STATUS_INVALID_HANDLE",
    /// No such node.
    InvalidNodeUnit = 5 as "HSAKMT_STATUS_INVALID_NODE_UNIT",
    /// Out of memory.
    NoMemory = 6 as "HSAKMT_STATUS_NO_MEMORY",
    /// A buffer given is too small.
    BufferTooSmall = 7 as "HSAKMT_STATUS_BUFFER_TOO_SMALL",
    /// Not written.
    NotImplemented = 10 as "HSAKMT_STATUS_NOT_IMPLEMENTED",
    /// This machine or this kernel does not do that.
    NotSupported = 11 as "HSAKMT_STATUS_NOT_SUPPORTED",
    /// Somebody else has it.
    Unavailable = 12 as "HSAKMT_STATUS_UNAVAILABLE",
    /// The device has no more of it.
    OutOfResources = 13 as "HSAKMT_STATUS_OUT_OF_RESOURCES",
    /// The channel to the kernel is not open in this process.
    NotOpened = 20 as "HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED",
    /// The kernel did not understand.
    CommunicationError = 21 as "HSAKMT_STATUS_KERNEL_COMMUNICATION_ERROR",
    /// It was open already; the call counted.
    AlreadyOpened = 22 as "HSAKMT_STATUS_KERNEL_ALREADY_OPENED",
    /// No HSA MMU.
    MmuUnavailable = 23 as "HSAKMT_STATUS_HSAMMU_UNAVAILABLE",
    /// A wait failed.
    WaitFailure = 30 as "HSAKMT_STATUS_WAIT_FAILURE",
    /// A wait ran out of time.
    WaitTimeout = 31 as "HSAKMT_STATUS_WAIT_TIMEOUT",
    /// Registered before, with other nodes.
    AlreadyRegistered = 35 as "HSAKMT_STATUS_MEMORY_ALREADY_REGISTERED",
    /// Not registered.
    NotRegistered = 36 as "HSAKMT_STATUS_MEMORY_NOT_REGISTERED",
    /// Not aligned as needed.
    Alignment = 37 as "HSAKMT_STATUS_MEMORY_ALIGNMENT",
}

impl From<Error> for Status {
    fn from(error: Error) -> Status {
        match error {
            Error::Failed => Status::Error,
            Error::InvalidParameter => Status::InvalidParameter,
            Error::InvalidHandle => Status::InvalidHandle,
            Error::InvalidNode => Status::InvalidNodeUnit,
            Error::NoMemory | Error::ReadersStalled => Status::NoMemory,
            Error::NotImplemented => Status::NotImplemented,
            Error::NotSupported => Status::NotSupported,
            Error::DriverMismatch => Status::DriverMismatch,
            Error::NotOpened => Status::NotOpened,
            Error::AlreadyOpened => Status::AlreadyOpened,
            Error::AlreadyRegistered => Status::AlreadyRegistered,
            Error::NotRegistered => Status::NotRegistered,
            Error::BufferTooSmall => Status::BufferTooSmall,
            Error::Unavailable => Status::Unavailable,
            Error::OutOfResources => Status::OutOfResources,
            Error::TimedOut => Status::WaitTimeout,
            // Error may grow; whatever has no name here is the general failure.
            _ => Status::Error,
        }
    }
}

impl From<Result<(), Error>> for Status {
    fn from(result: Result<(), Error>) -> Status {
        result.map_or_else(Status::from, |()| Status::Success)
    }
}
