//! Debian 13's libhsakmt 6.2.4 on any Debian: fetched with its libc into the target folder, and nothing of it installed.
//!
//! In: a Debian mirror. Out: a prefix of header, library, what it is linked to, and the dynamic linker to start a program with. The
//! fetching is `tests/debian.sh`'s. What never happens: a fetch when the prefix is there.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::install::{target_folder, workspace};

/// What is fetched: the header and the library, what that is linked to.
const PACKAGES: [&str; 6] = ["libhsakmt-dev", "libhsakmt1", "libc6", "libdrm2", "libdrm-amdgpu1", "libnuma1"];

/// The prefix; or why there is none.
pub fn prefix() -> Result<PathBuf, String> {
    if !cfg!(target_arch = "x86_64") {
        return Err("Debian 13's libhsakmt is fetched for x86-64 only".into());
    }
    let folder = target_folder().join("debian-13");
    let prefix = folder.join("prefix");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let lock = File::create(folder.join("lock")).map_err(|error| error.to_string())?;
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).map_err(|error| error.to_string())?;
    if !prefix.exists() {
        fetch(&folder)?;
        // The prefix is there with all that belongs to it, or not at all.
        let made = assemble(&folder).and_then(|made| fs::rename(made, &prefix));
        made.map_err(|error| format!("Debian 13's packages: {error}"))?;
    }
    Ok(prefix)
}

/// Downloads the packages and takes them apart, into `folder/root`.
fn fetch(folder: &Path) -> Result<(), String> {
    let script = r#". "$1" && debian_lists "$2" trixie && debian_packages "$2" root "${@:3}""#;
    let mut bash = Command::new("bash");
    bash.args(["-c", script, "bash"]).arg(workspace().join("tests/debian.sh")).arg(folder);
    run(bash.args(PACKAGES))
}

/// Copies what a program needs out of `folder/root`.
fn assemble(folder: &Path) -> std::io::Result<PathBuf> {
    let (root, made) = (folder.join("root"), folder.join("made"));
    let _ = fs::remove_dir_all(&made);
    for name in ["include/hsakmt", "lib"] {
        fs::create_dir_all(made.join(name))?;
    }
    for entry in fs::read_dir(root.join("usr/include/hsakmt"))? {
        let entry = entry?;
        fs::copy(entry.path(), made.join("include/hsakmt").join(entry.file_name()))?;
    }
    for entry in fs::read_dir(root.join("usr/lib/x86_64-linux-gnu"))? {
        let entry = entry?;
        // Links are followed: each name is a file.
        if entry.file_name().to_string_lossy().contains(".so.") && entry.path().is_file() {
            fs::copy(entry.path(), made.join("lib").join(entry.file_name()))?;
        }
    }
    Ok(made)
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rfind(|line| line.starts_with("E:")).or(said.lines().last()).unwrap_or("it failed");
    if output.status.success() { Ok(()) } else { Err(format!("{name}: {last}")) }
}
