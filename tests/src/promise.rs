//! The promises that `unsafe` callers make to a device, for tests whose devices hold them to nothing.

use hsakmt_core::driver::{DmabufFd, HostRange};

/// Host memory of a test's own, or an address that claims to be.
pub fn range(address: usize, size: usize) -> HostRange<'static> {
    // SAFETY: no test starts work on a device, so no device writes to any memory; the library itself only reads it, with
    // HSA_CHECK_USERPTR, which no test sets that passes an address without memory.
    unsafe { HostRange::new(address, size) }
}

/// The number of a descriptor that a test has open, or of none.
pub fn lent(fd: i32) -> DmabufFd<'static> {
    // SAFETY: each test passes a descriptor of its own that it closes after the call.
    unsafe { DmabufFd::new(fd) }
}
