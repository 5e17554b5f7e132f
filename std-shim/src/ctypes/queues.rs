//! Structs that queue calls take and fill.

use core::ffi::c_void;

use super::c_struct;

c_struct! {
    /// A queue's pointers and doorbell: the caller's before the call, the queue's after it.
    HsaQueueResource = 40 {
        QueueId: u64 = 0,
        Queue_DoorBell: u64 = 8,
        Queue_write_ptr: u64 = 16,
        Queue_read_ptr: u64 = 24,
        ErrorReason: u64 = 32,
    }
}

c_struct! {
    /// A stopped queue.
    HsaQueueInfo = 68 {
        QueueDetailError: u32 = 0,
        QueueTypeExtended: u32 = 4,
        NumCUAssigned: u32 = 8,
        CUMaskInfo: *mut c_void = 12,
        UserContextSaveArea: u64 = 20,
        SaveAreaSizeInBytes: u64 = 28,
        ControlStackTop: u64 = 36,
        ControlStackUsedInBytes: u64 = 44,
        SaveAreaHeader: u64 = 52,
        Reserved2: u64 = 60,
    }
}
