//! Builds for the board and runs on it.
//!
//! The program needs `core` and `alloc` for a target that few toolchains bring: they are built from the sources that
//! Debian packages beside its compiler, which is told to allow that.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::count;

const TARGET: &str = "thumbv7em-none-eabi";
const RUSTC: &str = "/usr/bin/rustc";
const CARGO: &str = "/usr/bin/cargo";

/// A Cortex-M4 board; an instruction takes 32 ns of its time, so that every run is the same.
const QEMU: [&str; 12] = [
    "qemu-system-arm",
    "-machine",
    "mps2-an386",
    "-nographic",
    "-monitor",
    "none",
    "-serial",
    "null",
    "-icount",
    "shift=5",
    "-semihosting-config",
    "enable=on,target=native",
];

/// A run that has not ended by then never will.
const SECONDS: &str = "120";

/// The tools, found.
pub(super) struct Board {
    program: PathBuf,
}

/// What a program did.
pub(super) struct Run {
    pub(super) said: String,
    pub(super) succeeded: bool,
    pub(super) program: PathBuf,
}

impl Board {
    /// `Err`: what is missing.
    pub(super) fn find(program: PathBuf) -> Result<Board, String> {
        for tool in [RUSTC, CARGO, "arm-none-eabi-ld", "qemu-system-arm"] {
            said(Command::new(tool).arg("--version")).map_err(|_| format!("no {tool}"))?;
        }
        let root = said(Command::new(RUSTC).args(["--print", "sysroot"]))?;
        let sources = Path::new(root.trim()).join("lib/rustlib/src/rust/library/core");
        if sources.exists() { Ok(Board { program }) } else { Err(format!("{RUSTC} has no sources (rust-web-src)")) }
    }

    pub(super) fn compiler(&self) -> Result<String, String> {
        count::compiler_of(RUSTC.as_ref())
    }

    pub(super) fn build_and_run(&self, features: &str) -> Result<Run, String> {
        let target = count::target_folder()?.join("bare-metal");
        let mut build = Command::new(CARGO);
        build.current_dir(&self.program).args(["build", "--locked", "--release", "--features", features]);
        build.arg("--target-dir").arg(&target);
        build.env("RUSTC", RUSTC).env("RUSTC_BOOTSTRAP", "1");
        // What else it needs stands in the program's own .cargo/config.toml.
        for outer in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTUP_TOOLCHAIN", "RUSTC_WRAPPER"] {
            build.env_remove(outer);
        }
        said(&mut build)?;
        let built = target.join(TARGET).join("release/hsakmt-bare-metal");
        // Each variant is kept, to be looked at.
        let program = target.join(if features.is_empty() { "without-alloc" } else { features });
        std::fs::copy(&built, &program).map_err(|error| format!("{}: {error}", built.display()))?;
        let mut run = Command::new("timeout");
        run.arg(SECONDS).args(QEMU).arg("-kernel").arg(&program);
        let output = run.output().map_err(|error| format!("{run:?}: {error}"))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        Ok(Run { said, succeeded: output.status.success(), program })
    }
}

/// What a command prints, if it succeeds.
pub(super) fn said(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)))
}
