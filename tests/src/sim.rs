//! The simulated machine for tests: kfd-sim built once, programs run under it, and the reason when neither can be.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use crate::install::{succeed, target_folder, workspace};

/// `kfd-sim`, built.
pub fn kfd_sim() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let target = target_folder();
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "-p", "hsakmt-kfd", "--bin", "kfd-sim"]).current_dir(workspace());
        succeed(build.env("CARGO_TARGET_DIR", &target).env("CARGO_TERM_COLOR", "never"));
        target.join("debug/kfd-sim")
    })
}

/// Why nothing can run under kfd-sim here; `None` if it can.
pub fn unavailable() -> Option<String> {
    static ASKED: OnceLock<Option<String>> = OnceLock::new();
    let ask = || {
        let output = under(&[], "true").output().ok()?;
        (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).trim().to_owned())
    };
    ASKED.get_or_init(ask).clone()
}

/// `kfd-sim OPTIONS -- PROGRAM`, to be given arguments and run.
pub fn under(options: &[&str], program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(kfd_sim());
    command.args(options).arg("--").arg(program);
    command
}

/// Says that a test was not run, and why, where `tests/run` finds it.
pub fn skip(name: &str, reason: &str) {
    println!("SKIP {name}: {reason}");
}

/// Debian's libhsakmt 5.2.3 with its header: `Err` says what is missing.
pub fn debian_library() -> Result<(), String> {
    let header = Path::new("/usr/include/hsakmt.h");
    if !header.exists() {
        return Err("no Debian libhsakmt-dev".into());
    }
    if has_library("libhsakmt.so.1") { Ok(()) } else { Err("no Debian libhsakmt1".into()) }
}

/// Whether the dynamic linker finds a library.
pub fn has_library(soname: &str) -> bool {
    let output = Command::new("sh").args(["-c", "ldconfig -p 2>/dev/null || /sbin/ldconfig -p"]).output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(soname))
}

/// Builds a C program against Debian's header and library.
pub fn build_on_debian(source: &Path, binary: &Path, flags: &[&str]) {
    let mut cc = Command::new("cc");
    succeed(cc.args(["-O1", "-w"]).args(flags).arg(source).arg("-o").arg(binary).args(["-lhsakmt", "-lpthread"]));
}

/// Compares what a program printed with what it should print, line by line.
pub fn same_lines<A: AsRef<str>, B: AsRef<str>>(name: &str, printed: &[A], wanted: &[B]) {
    for (number, (printed, wanted)) in (1..).zip(printed.iter().zip(wanted)) {
        assert_eq!(printed.as_ref(), wanted.as_ref(), "{name}, line {number}");
    }
    assert_eq!(printed.len(), wanted.len(), "{name}: the number of lines");
}

/// Standard output, line by line; panics with everything if the program failed.
pub fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}\n{text}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    text.lines().map(str::to_owned).collect()
}
