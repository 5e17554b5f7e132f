//! What `libdtif.so` has besides the names of `libhsakmt.so.1`.
//!
//! ROCr links its thunk statically. With `HSA_ENABLE_DTIF=1` it loads `libdtif.so` instead and takes each function by its
//! name, one after the other: a name that is missing ends the process. So each name of the loader is there, those of 2026
//! too.

use core::ffi::{c_char, c_void};

use super::entry;
use crate::context::Context;
use crate::status::Status;

/// What [`DtifCreate`] points to; nothing reads it.
static PLATFORM: u8 = 0;

/// Begins use of the library: ROCr's first call, with the name `"HSA"`, and it asks only whether the result is null.
#[allow(non_snake_case, reason = "the C name")]
#[unsafe(no_mangle)]
extern "C" fn DtifCreate(_name: *const c_char) -> *const c_void {
    (&raw const PLATFORM).cast()
}

/// Ends it: the last call before `dlclose`. What is open has been closed by `hsaKmtCloseKFD`.
#[allow(non_snake_case, reason = "the C name")]
#[unsafe(no_mangle)]
extern "C" fn DtifDestroy() {}

entry! {
    /// Rings the doorbell of an AQL queue: ROCr calls it in place of each store to the doorbell, and names no value.
    fn hsaKmtQueueRingDoorbell(QueueId: u64) {
        // SAFETY: the caller's promise by calling: the queue's write index is there, and the packets below it are valid.
        unsafe { Context::primary().ring_doorbell(QueueId) }
    }
}

/// Declares entries that answer NOT_SUPPORTED. They look at no argument, so they declare none.
macro_rules! not_supported {
    ($($name:ident)*) => {
        $(
            #[allow(non_snake_case, reason = "the C name")]
            #[unsafe(no_mangle)]
            extern "C" fn $name() -> Status {
                Status::NotSupported
            }
        )*
    };
}

// Calls of 2026.
not_supported! {
    hsaKmtAisReadWriteFile hsaKmtCreateQueueV2 hsaKmtGetCoreDeviceInfo hsaKmtGetCoreRuntimeInfo hsaKmtGetDefaultHostGpu
    hsaKmtGetNodeWallclockFrequency hsaKmtHandleImport hsaKmtMemHandleFree hsaKmtMemoryCpuMap hsaKmtMemoryGetCpuAddr
    hsaKmtMemoryVaMap hsaKmtMemoryVaUnmap
}
