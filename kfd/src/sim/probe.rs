//! Whether addresses of a process can be read, without reading them by hand: the kernel tries.

use std::io;

use super::machine::PAGE;
use super::maps::Maps;

/// The most ranges the kernel takes in one call (IOV_MAX); more pages than that are looked up in the process's maps.
const TRIED: usize = 1024;

/// Whether this process may read another's memory at all. Some containers forbid it.
pub(crate) fn allowed(pid: i32) -> io::Result<()> {
    let mut byte = 0u8;
    let local = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let remote = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 1 };
    // SAFETY: the kernel writes at most one byte, into `byte`; the remote address is never dereferenced here.
    let count = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        _ if count >= 0 => Ok(()),
        // Nothing is mapped at address 0, so permission shows as EFAULT; ESRCH: it has ended already.
        Some(libc::EFAULT | libc::ESRCH) => Ok(()),
        _ => Err(error),
    }
}

/// Whether every page of `address..address + size` of a process can be read. `size` is at least 1 and does not wrap.
pub(crate) fn readable(pid: i32, address: u64, size: u64, maps: impl FnOnce() -> Maps) -> bool {
    let first = address & !(PAGE - 1);
    let pages = (address + size - first).div_ceil(PAGE);
    if pages > TRIED as u64 {
        return maps().covers(first, address + size, |map| map.readable);
    }
    let mut bytes = [0u8; TRIED];
    let page = |index| libc::iovec { iov_base: (first + index * PAGE) as *mut libc::c_void, iov_len: 1 };
    let remote: Vec<libc::iovec> = (0..pages).map(page).collect();
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: remote.len() };
    // SAFETY: the kernel writes at most `iov_len` = `remote.len()` <= TRIED bytes into `bytes`, and reads
    // `remote.len()` entries of `remote`; what those point at is never dereferenced here.
    let count =
        unsafe { libc::process_vm_readv(pid, &raw const local, 1, remote.as_ptr(), remote.len() as libc::c_ulong, 0) };
    u64::try_from(count) == Ok(pages)
}
