//! From the arguments of a path call to what it is about: [`Target`], or nothing of ours.
//!
//! Paths are resolved by their words: made absolute against the directory given, `.` and `..` taken out, compared with
//! the few names the simulated machine has. A program that reaches `/dev/kfd` through a symbolic link of its own finds
//! the host's.

use std::path::PathBuf;

use super::super::description::Machine;
use super::super::memfd::DeviceFile;
use super::super::sysfs::Tree;
use super::task::Task;

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// `/dev/kfd`.
    Kfd,
    /// The render node of the n-th GPU.
    Render(usize),
    /// The primary node of the n-th GPU.
    Card(usize),
    /// A file or directory of the stand-in for `/sys`.
    File(PathBuf),
    /// [`NEXT`].
    Next,
}

/// What a program looks for to have the kernel show the next list of GPUs.
pub const NEXT: &str = "/dev/kfd-sim/next";

impl Target {
    /// What an open descriptor is, as far as it is a device.
    pub(crate) fn of_file(file: DeviceFile) -> Option<Target> {
        match file {
            DeviceFile::Kfd(_) => Some(Target::Kfd),
            DeviceFile::Render(gpu) => Some(Target::Render(gpu)),
            DeviceFile::Card(gpu) => Some(Target::Card(gpu)),
            DeviceFile::Dmabuf(_) => None,
        }
    }
}

/// What `path`, relative to the descriptor `directory` (or `AT_FDCWD`), leads to.
pub(crate) fn resolve(path: &str, directory: i32, task: &Task, tree: &Tree, machine: &Machine) -> Option<Target> {
    let absolute = if path.starts_with('/') {
        normal(path)
    } else {
        let base = if directory == libc::AT_FDCWD { task.directory() } else { task.descriptor(directory) }?;
        let base = tree.stands_for(&base).unwrap_or(&base);
        // Only below these can a relative path be ours.
        if base != "/" && !["/dev", "/sys", "/proc"].iter().any(|ours| base.starts_with(ours)) {
            return None;
        }
        normal(&format!("{base}/{path}"))
    };
    if !["/dev/", "/sys/", "/proc/modules", "/proc/cpuinfo"].iter().any(|ours| absolute.starts_with(ours)) {
        return None;
    }
    if absolute == "/dev/kfd" {
        return Some(Target::Kfd);
    }
    if absolute == NEXT {
        return Some(Target::Next);
    }
    let index = |prefix: &str| absolute.strip_prefix(prefix)?.parse::<u32>().ok();
    let below = |index: u32| machine.shown().map(|(shown, _)| shown).find(|shown| *shown == index as usize);
    if let Some(gpu) = index("/dev/dri/card").and_then(below) {
        return Some(Target::Card(gpu));
    }
    let first = Machine::render_minor(0);
    if let Some(gpu) = index("/dev/dri/renderD").and_then(|minor| minor.checked_sub(first)).and_then(below) {
        return Some(Target::Render(gpu));
    }
    tree.locate(&absolute).map(Target::File)
}

/// `path` without empty, `.` and `..` components.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::normal;

    #[test]
    fn paths_are_made_normal() {
        assert_eq!(normal("/sys//class/./kfd/../drm/"), "/sys/class/drm");
        assert_eq!(normal("/../dev/kfd"), "/dev/kfd");
        assert_eq!(normal("/"), "/");
    }
}
