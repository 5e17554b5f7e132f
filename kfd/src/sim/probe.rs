//! Whether addresses of a process can be read, without reading them by hand: the kernel tries.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use super::machine::PAGE;
use super::maps::Maps;

/// The most ranges the kernel takes in one call (IOV_MAX).
const AT_ONCE: usize = 1024;

/// More pages than these are asked for by mapping, where the kernel can be asked so: a page costs some 0.4 us.
const FEW: u64 = 64;

/// On older kernels more pages than these (16 MiB) are looked up in the process's maps, whose cost grows with the mappings
/// that there are.
const MOST_TRIED: u64 = 4_096;

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
    if pages > FEW
        && let Some(readable) = mappings_readable(pid, first, address + size)
    {
        return readable;
    }
    if pages > MOST_TRIED {
        return maps().covers(first, address + size, |map| map.readable);
    }
    let mut done = 0;
    while done < pages {
        let count = (pages - done).min(AT_ONCE as u64);
        if !pages_readable(pid, first + done * PAGE, count as usize) {
            return false;
        }
        done += count;
    }
    true
}

/// Whether `count <= AT_ONCE` pages can be read.
fn pages_readable(pid: i32, first: u64, count: usize) -> bool {
    let mut bytes = [0u8; AT_ONCE];
    let page = |index: usize| libc::iovec { iov_base: (first + index as u64 * PAGE) as *mut libc::c_void, iov_len: 1 };
    let remote: Vec<libc::iovec> = (0..count.min(AT_ONCE)).map(page).collect();
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: remote.len() };
    // SAFETY: the kernel writes at most `iov_len` = `remote.len()` <= AT_ONCE bytes into `bytes`, and reads
    // `remote.len()` entries of `remote`; what those point at is never dereferenced here.
    let read =
        unsafe { libc::process_vm_readv(pid, &raw const local, 1, remote.as_ptr(), remote.len() as libc::c_ulong, 0) };
    usize::try_from(read) == Ok(count)
}

/// `struct procmap_query` of `<linux/fs.h>`.
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    vma_flags: u64,
    page_size: u64,
    offset: u64,
    inode: u64,
    device: [u32; 2],
    sizes: [u32; 2],
    addresses: [u64; 2],
}

/// `PROCMAP_QUERY`: finds one mapping by an address, whatever mappings there are. Linux 6.11.
const PROCMAP_QUERY: u64 = 0xc068_6611;
/// The mapping must be readable.
const VMA_READABLE: u64 = 1;

const _: () = assert!(size_of::<Query>() == (PROCMAP_QUERY >> 16 & 0x3fff) as usize);

/// Whether readable mappings cover `start..end` of a process; `None` if the kernel cannot be asked.
fn mappings_readable(pid: i32, start: u64, end: u64) -> Option<bool> {
    let maps = File::open(format!("/proc/{pid}/maps")).ok()?;
    let mut at = start;
    while at < end {
        let mut query = Query { size: size_of::<Query>() as u64, flags: VMA_READABLE, address: at, ..Query::default() };
        // SAFETY: PROCMAP_QUERY reads and writes one struct of the size that its first field says, which `query` is; it asks
        // for no name and no build id, whose addresses are 0.
        let result = unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY as _, &raw mut query) };
        if result != 0 {
            let none = io::Error::last_os_error().raw_os_error() == Some(libc::ENOENT);
            return none.then_some(false);
        }
        at = query.end;
    }
    Some(true)
}
