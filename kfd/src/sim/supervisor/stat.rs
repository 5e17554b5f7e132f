//! `struct stat` and `struct statx` as the kernel lays them out, filled for a simulated device or for a file of the
//! stand-in for `/sys`.

use rustix::fs::Stat;
use zerocopy::{Immutable, IntoBytes};

/// The kernel's `struct stat`.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, Default, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct KernelStat {
    dev: u64,
    ino: u64,
    nlink: u64,
    mode: u32,
    uid: u32,
    gid: u32,
    pad: u32,
    rdev: u64,
    size: i64,
    blksize: i64,
    blocks: i64,
    times: [i64; 6],
    unused: [i64; 3],
}

/// The kernel's `struct stat`.
#[cfg(target_arch = "aarch64")]
#[derive(Clone, Copy, Debug, Default, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct KernelStat {
    dev: u64,
    ino: u64,
    mode: u32,
    nlink: u32,
    uid: u32,
    gid: u32,
    rdev: u64,
    pad: u64,
    size: i64,
    blksize: i32,
    pad2: i32,
    blocks: i64,
    times: [i64; 6],
    unused: [u32; 2],
}

#[derive(Clone, Copy, Debug, Default, IntoBytes, Immutable)]
#[repr(C)]
struct Time {
    seconds: i64,
    nanoseconds: u32,
    reserved: i32,
}

/// The kernel's `struct statx`.
#[derive(Clone, Copy, Debug, Default, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct KernelStatx {
    mask: u32,
    blksize: u32,
    attributes: u64,
    nlink: u32,
    uid: u32,
    gid: u32,
    mode: u16,
    pad: u16,
    ino: u64,
    size: u64,
    blocks: u64,
    attributes_mask: u64,
    accessed: Time,
    born: Time,
    changed: Time,
    modified: Time,
    rdev_major: u32,
    rdev_minor: u32,
    dev_major: u32,
    dev_minor: u32,
    mnt_id: u64,
    spare: [u64; 13],
}

const _: () = assert!(size_of::<KernelStatx>() == 256);
#[cfg(target_arch = "x86_64")]
const _: () = assert!(size_of::<KernelStat>() == 144);
#[cfg(target_arch = "aarch64")]
const _: () = assert!(size_of::<KernelStat>() == 128);

/// `STATX_BASIC_STATS`.
const BASIC: u32 = 0x7ff;
/// A device that everyone may read and write.
const DEVICE_MODE: u32 = libc::S_IFCHR | 0o666;

/// A character device.
pub(crate) fn device(major: u32, minor: u32) -> (KernelStat, KernelStatx) {
    let stat = KernelStat {
        dev: 6,
        ino: u64::from(major) << 20 | u64::from(minor),
        nlink: 1,
        mode: DEVICE_MODE,
        rdev: rustix::fs::makedev(major, minor),
        blksize: 4096,
        ..KernelStat::default()
    };
    let statx = KernelStatx {
        mask: BASIC,
        blksize: 4096,
        nlink: 1,
        mode: DEVICE_MODE as u16,
        ino: stat.ino,
        rdev_major: major,
        rdev_minor: minor,
        dev_minor: 6,
        ..KernelStatx::default()
    };
    (stat, statx)
}

/// A file that exists.
pub(crate) fn file(from: &Stat) -> (KernelStat, KernelStatx) {
    let stat = KernelStat {
        dev: from.st_dev,
        ino: from.st_ino,
        nlink: from.st_nlink as _,
        mode: from.st_mode,
        uid: from.st_uid,
        gid: from.st_gid,
        rdev: from.st_rdev,
        size: from.st_size,
        blksize: from.st_blksize as _,
        blocks: from.st_blocks,
        times: [
            from.st_atime,
            from.st_atime_nsec,
            from.st_mtime,
            from.st_mtime_nsec,
            from.st_ctime,
            from.st_ctime_nsec,
        ],
        ..KernelStat::default()
    };
    let time = |seconds, nanoseconds: i64| Time { seconds, nanoseconds: nanoseconds as u32, reserved: 0 };
    let statx = KernelStatx {
        mask: BASIC,
        blksize: from.st_blksize as u32,
        nlink: from.st_nlink as u32,
        uid: from.st_uid,
        gid: from.st_gid,
        mode: from.st_mode as u16,
        ino: from.st_ino,
        size: from.st_size as u64,
        blocks: from.st_blocks as u64,
        accessed: time(from.st_atime, from.st_atime_nsec),
        changed: time(from.st_ctime, from.st_ctime_nsec),
        modified: time(from.st_mtime, from.st_mtime_nsec),
        dev_major: rustix::fs::major(from.st_dev),
        dev_minor: rustix::fs::minor(from.st_dev),
        ..KernelStatx::default()
    };
    (stat, statx)
}
