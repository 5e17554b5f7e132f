//! The path calls: open, stat, access and readlink of what the simulated machine has.
//!
//! Comes in: a stopped call and its thread. Goes out: a [`Reply`]. A call about anything else goes on untouched.

use std::os::fd::OwnedFd;
use std::path::Path;

use hsakmt_core::driver::Errno;
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags};
use zerocopy::IntoBytes;

use super::super::sysfs::{DRM_MAJOR, KFD_MAJOR, Tree};
use super::super::{description::Machine, machine::PAGE};
use super::listener::Call;
use super::path::{Target, resolve};
use super::stat;
use super::stopped::Stopped;

/// What becomes of a stopped call.
#[derive(Debug)]
pub(crate) enum Reply {
    /// Not ours.
    GoOn,
    /// It returns this.
    Return(Result<i64, Errno>),
    /// It opens this device; true: closed on exec.
    OpenDevice(Target, bool),
    /// It opens this file; true: closed on exec.
    OpenFile(OwnedFd, bool),
    /// It asks for the next list of GPUs.
    ShowNext,
}

/// A path call, whatever its number: the arguments in one order.
enum Asked {
    Open { flags: u64 },
    Stat { to: u64, follow: bool },
    Statx { to: u64, follow: bool },
    Access { mode: u64 },
    ReadLink { to: u64, size: u64 },
}

/// Answers a path call.
pub(crate) fn answer(call: &Call, caller: &Stopped<'_>, tree: &Tree, machine: &Machine) -> Reply {
    let Some((directory, path, asked, empty_path)) = arguments(call, caller) else { return Reply::GoOn };
    let target = match path {
        // fstat, in any of its forms.
        None => descriptor(directory, caller),
        Some(address) => match caller.string(address) {
            Some(text) if text.is_empty() && empty_path => descriptor(directory, caller),
            Some(text) if !text.is_empty() => resolve(&text, directory, caller.task, tree, machine),
            _ => None,
        },
    };
    match (target, asked) {
        (None, _) => Reply::GoOn,
        (Some(Target::Next), _) => Reply::ShowNext,
        (Some(target), Asked::Open { flags }) => open(target, flags),
        (Some(target), Asked::Stat { to, follow }) => {
            Reply::Return(stats(&target, follow).and_then(|(stat, _)| caller.write(to, stat.as_bytes())).map(|()| 0))
        }
        (Some(target), Asked::Statx { to, follow }) => {
            Reply::Return(stats(&target, follow).and_then(|(_, statx)| caller.write(to, statx.as_bytes())).map(|()| 0))
        }
        (Some(target), Asked::Access { mode }) => Reply::Return(access(&target, mode).map(|()| 0)),
        (Some(target), Asked::ReadLink { to, size }) => Reply::Return(read_link(&target, caller, to, size)),
    }
}

/// Directory, address of the path (`None`: the descriptor itself is meant), what is asked, whether an empty path means
/// the descriptor.
fn arguments(call: &Call, caller: &Stopped<'_>) -> Option<(i32, Option<u64>, Asked, bool)> {
    let [a, b, c, d, e, _] = call.arguments;
    let follow = |flags: u64| flags & libc::AT_SYMLINK_NOFOLLOW as u64 == 0;
    let empty = |flags: u64| flags & libc::AT_EMPTY_PATH as u64 != 0;
    #[cfg(target_arch = "x86_64")]
    match call.number {
        libc::SYS_open => return Some((libc::AT_FDCWD, Some(a), Asked::Open { flags: b }, false)),
        libc::SYS_stat => return Some((libc::AT_FDCWD, Some(a), Asked::Stat { to: b, follow: true }, false)),
        libc::SYS_lstat => return Some((libc::AT_FDCWD, Some(a), Asked::Stat { to: b, follow: false }, false)),
        libc::SYS_access => return Some((libc::AT_FDCWD, Some(a), Asked::Access { mode: b }, false)),
        libc::SYS_readlink => return Some((libc::AT_FDCWD, Some(a), Asked::ReadLink { to: b, size: c }, false)),
        _ => {}
    }
    Some(match call.number {
        libc::SYS_openat => (a as i32, Some(b), Asked::Open { flags: c }, false),
        libc::SYS_openat2 => {
            let mut flags = [0u8; 8];
            caller.read(c, &mut flags).ok()?;
            (a as i32, Some(b), Asked::Open { flags: u64::from_ne_bytes(flags) }, false)
        }
        libc::SYS_fstat => (a as i32, None, Asked::Stat { to: b, follow: true }, true),
        libc::SYS_newfstatat => (a as i32, Some(b), Asked::Stat { to: c, follow: follow(d) }, empty(d)),
        libc::SYS_statx => (a as i32, Some(b), Asked::Statx { to: e, follow: follow(c) }, empty(c)),
        libc::SYS_faccessat | libc::SYS_faccessat2 => (a as i32, Some(b), Asked::Access { mode: c }, false),
        libc::SYS_readlinkat => (a as i32, Some(b), Asked::ReadLink { to: c, size: d }, false),
        _ => return None,
    })
}

fn descriptor(fd: i32, caller: &Stopped<'_>) -> Option<Target> {
    Target::of_file(caller.device(fd)?)
}

fn failed(error: rustix::io::Errno) -> Errno {
    Errno(error.raw_os_error())
}

fn open(target: Target, flags: u64) -> Reply {
    let flags = OFlags::from_bits_retain(flags as _);
    let cloexec = flags.contains(OFlags::CLOEXEC);
    let Target::File(path) = target else {
        return match flags {
            flags if flags.contains(OFlags::CREATE | OFlags::EXCL) => Reply::Return(Err(Errno(libc::EEXIST))),
            flags if flags.contains(OFlags::DIRECTORY) => Reply::Return(Err(Errno(libc::ENOTDIR))),
            _ => Reply::OpenDevice(target, cloexec),
        };
    };
    if flags.intersects(OFlags::WRONLY | OFlags::RDWR | OFlags::TRUNC) {
        return Reply::Return(Err(Errno(libc::EACCES)));
    }
    let kept = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::PATH;
    match rustix::fs::open(&path, (flags & kept) | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(file) => Reply::OpenFile(file, cloexec),
        Err(error) => Reply::Return(Err(failed(error))),
    }
}

fn stats(target: &Target, follow: bool) -> Result<(stat::KernelStat, stat::KernelStatx), Errno> {
    match target {
        Target::Kfd => Ok(stat::device(KFD_MAJOR, 0)),
        Target::Render(gpu) => Ok(stat::device(DRM_MAJOR, Machine::render_minor(*gpu))),
        Target::Card(gpu) => Ok(stat::device(DRM_MAJOR, *gpu as u32)),
        Target::Next => Err(Errno(libc::ENOENT)),
        Target::File(path) => {
            let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
            rustix::fs::statat(CWD, path, flags).map(|found| stat::file(&found)).map_err(failed)
        }
    }
}

fn access(target: &Target, mode: u64) -> Result<(), Errno> {
    let mode = Access::from_bits_truncate(mode as _);
    match target {
        Target::File(path) if !mode.contains(Access::WRITE_OK) => rustix::fs::access(path, mode).map_err(failed),
        Target::File(path) if path.exists() => Err(Errno(libc::EACCES)),
        Target::File(_) => Err(Errno(libc::ENOENT)),
        _ if mode.contains(Access::EXEC_OK) => Err(Errno(libc::EACCES)),
        _ => Ok(()),
    }
}

fn read_link(target: &Target, caller: &Stopped<'_>, to: u64, size: u64) -> Result<i64, Errno> {
    let Target::File(path) = target else { return Err(Errno::INVAL) };
    let link = rustix::fs::readlink(Path::new(path), Vec::with_capacity(PAGE as usize)).map_err(failed)?;
    let text = link.as_bytes();
    let part = text.get(..text.len().min(size as usize)).ok_or(Errno::INVAL)?;
    if part.is_empty() {
        return Err(Errno::INVAL);
    }
    caller.write(to, part)?;
    Ok(part.len() as i64)
}
