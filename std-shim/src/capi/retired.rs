//! Names that exist and answer NOT_IMPLEMENTED, as in the C library.
//!
//! A program that links to one of them loads and runs; only the call is refused. Nothing is read or written.

use crate::ctypes::*;
use crate::status::Status;

/// Declares refusing entries, and the list of their names.
macro_rules! refusing {
    ($(#[$doc:meta])* $list:ident: $($name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        $(#[$doc])*
        pub const $list: &[&str] = &[$(stringify!($name),)*];

        $(
            #[allow(non_snake_case, reason = "the C name")]
            #[unsafe(no_mangle)]
            extern "C" fn $name($(_: $type),*) -> Status {
                Status::NotImplemented
            }
        )*
    };
}

refusing! {
    /// Refused for good: the original answers NOT_IMPLEMENTED too.
    RETIRED:
    hsaKmtProcessVMRead(
        Pid: u32,
        LocalMemoryArray: *mut HsaMemoryRange,
        LocalMemoryArrayCount: u64,
        RemoteMemoryArray: *mut HsaMemoryRange,
        RemoteMemoryArrayCount: u64,
        SizeCopied: *mut u64,
    );
    hsaKmtProcessVMWrite(
        Pid: u32,
        LocalMemoryArray: *mut HsaMemoryRange,
        LocalMemoryArrayCount: u64,
        RemoteMemoryArray: *mut HsaMemoryRange,
        RemoteMemoryArrayCount: u64,
        SizeCopied: *mut u64,
    );
    hsaKmtMapGraphicHandle(
        NodeId: u32,
        GraphicDeviceHandle: u64,
        GraphicResourceHandle: u64,
        GraphicResourceOffset: u64,
        GraphicResourceSize: u64,
        FlatMemoryAddress: *mut u64,
    );
}

#[cfg(feature = "abi-5-2-3")]
refusing! {
    /// What only the older library exports; it asks about a debugger interface that kernels no longer have.
    OLDER:
    hsaKmtGetKernelDebugTrapVersionInfo(Major: *mut u32, Minor: *mut u32);
}
