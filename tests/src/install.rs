//! libhsakmt installed for tests, and C programs built on it.
//!
//! In: nothing but the sources. Out: a prefix as `std-shim/install` makes it, one per layout and test run however many
//! test processes ask (a file lock), and made anew only if a source is younger than it. Programs come out built the
//! way users build theirs: through pkg-config.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::SystemTime;

/// Which layout of the C structs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abi {
    /// The default.
    Of2025,
    /// Debian 13's.
    Of6_2_4,
    /// Debian 12's.
    Of5_2_3,
}

impl Abi {
    /// As `--abi` takes it.
    pub const fn name(self) -> &'static str {
        match self {
            Abi::Of2025 => "2025-08",
            Abi::Of6_2_4 => "6.2.4",
            Abi::Of5_2_3 => "5.2.3",
        }
    }
}

/// Which of the two libraries a program gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// `libhsakmt.so.1`, found by a run path.
    Shared,
    /// `libhsakmt.a`.
    Archive,
}

/// The prefix with the default layout, installed.
pub fn prefix() -> PathBuf {
    prefix_of(Abi::Of2025)
}

/// The prefix with this layout, installed.
pub fn prefix_of(abi: Abi) -> PathBuf {
    let target = target_folder();
    let prefix = target.join("test-prefix").join(abi.name());
    fs::create_dir_all(&prefix).unwrap_or_else(|error| panic!("{}: {error}", prefix.display()));
    let lock = File::create(prefix.join("lock")).expect("a lock file beside the prefix");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("the lock of the prefix");
    let stamp = prefix.join("stamp");
    if modified(&stamp) < newest(&workspace()) {
        // The stamp says when the build began: a source saved meanwhile makes the next test install again.
        let begun = SystemTime::now();
        let mut install = Command::new(workspace().join("std-shim/install"));
        install.arg("--prefix").arg(&prefix).args(["--abi", abi.name()]);
        succeed(install.env("CARGO_TARGET_DIR", target).env("CARGO_TERM_COLOR", "never"));
        File::create(&stamp).and_then(|file| file.set_modified(begun)).expect("the stamp of the prefix");
    }
    prefix
}

/// Builds `source` (a file, or several) into `binary` with the flags that pkg-config gives for `prefix`.
pub fn build(prefix: &Path, link: Link, sources: &[&Path], binary: &Path) {
    build_with(prefix, link, &["-Wall", "-Werror"], sources, binary);
}

/// The same with further flags.
pub fn build_with(prefix: &Path, link: Link, flags: &[&str], sources: &[&Path], binary: &Path) {
    let mut cc = Command::new("cc");
    cc.arg("-O1").args(flags).args(pkg_config(prefix, &["--cflags"])).args(sources).arg("-o").arg(binary);
    match link {
        Link::Shared => {
            let run_path = format!("-Wl,-rpath,{}", prefix.join("lib").display());
            cc.args(pkg_config(prefix, &["--libs"])).arg(run_path)
        }
        Link::Archive => {
            let flags = pkg_config(prefix, &["--libs", "--static"]);
            cc.args(flags.iter().map(|flag| if flag == "-lhsakmt" { "-l:libhsakmt.a" } else { flag }))
        }
    };
    succeed(&mut cc);
}

/// What pkg-config says of the libhsakmt in `prefix`.
pub fn pkg_config(prefix: &Path, ask: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.args(ask).arg("libhsakmt").env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    let said = succeed(&mut command);
    String::from_utf8_lossy(&said.stdout).split_whitespace().map(str::to_owned).collect()
}

/// Runs a command that must succeed; panics with what it said otherwise.
pub fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{said}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout)
    );
    output
}

/// The folder of the workspace.
pub fn workspace() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests).to_owned()
}

/// Where cargo builds: the folder above `<profile>/deps/<this test>`.
pub fn target_folder() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let profile = test.ancestors().find(|folder| folder.ends_with("deps")).and_then(Path::parent);
    profile.and_then(Path::parent).map_or_else(|| workspace().join("target"), Path::to_owned)
}

fn modified(path: &Path) -> SystemTime {
    fs::metadata(path).and_then(|data| data.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// When the youngest file that goes into the library was written.
fn newest(workspace: &Path) -> SystemTime {
    let folders = ["core", "kfd", "std-shim"].map(|name| workspace.join(name));
    let files = ["Cargo.toml", "Cargo.lock"].map(|name| modified(&workspace.join(name)));
    folders.iter().map(|folder| newest_in(folder)).chain(files).max().unwrap_or(SystemTime::now())
}

fn newest_in(folder: &Path) -> SystemTime {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let times = entries.map(|entry| {
        let path = entry.path();
        if path.is_dir() { newest_in(&path) } else { modified(&path) }
    });
    times.max().unwrap_or(SystemTime::UNIX_EPOCH)
}
