//! The tool `hsakmt`, built once for the tests that run it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use crate::install::{succeed, target_folder, workspace};

/// The binary, built.
pub fn hsakmt() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let target = target_folder();
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "-p", "hsakmt", "--bin", "hsakmt"]).current_dir(workspace());
        succeed(build.env("CARGO_TARGET_DIR", &target).env("CARGO_TERM_COLOR", "never"));
        target.join("debug/hsakmt")
    })
}

/// Runs the tool without a terminal and without the caller's HSA variables.
pub fn run(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the tool runs")
}

/// The tool with these arguments, to be changed and run.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(hsakmt());
    command.args(arguments).stdin(std::process::Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HSA") {
            command.env_remove(name);
        }
    }
    command
}
