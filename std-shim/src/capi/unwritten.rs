//! Names that exist and answer NOT_IMPLEMENTED.
//!
//! A program that links to one of them loads and runs; only the call is refused. Nothing is read or written. The list
//! stands here once: README repeats it for readers, and a test compares the two.

use core::ffi::c_void;

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
    /// Not written yet.
    UNWRITTEN:
    // debugger
    hsaKmtDbgWavefrontControl(
        NodeId: u32,
        Operand: CEnum,
        Mode: CEnum,
        TrapId: u32,
        DbgWaveMsgRing: *mut HsaDbgWaveMessage,
    );
    hsaKmtDbgAddressWatch(
        NodeId: u32,
        NumWatchPoints: u32,
        WatchMode: *mut CEnum,
        WatchAddress: *mut *mut c_void,
        WatchMask: *mut u64,
        WatchEvent: *mut *mut HsaEvent,
    );
    hsaKmtDebugTrapIoctl(arg: *mut kfd_ioctl_dbg_trap_args, Queues: *mut u64, DebugReturn: *mut u64);
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
