//! The two programs that are compared, and the simulator: found or built.
//!
//! In: the command line. Out: paths of things that exist. An error says what to install or what the compiler said.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::arguments::Arguments;
use crate::needs::{self, Need};

/// `workload.c`, built on one library.
pub(super) struct Program {
    /// Which library, for people.
    pub(super) name: String,
    /// The program.
    pub(super) path: PathBuf,
}

/// All that is needed.
pub(super) struct Programs {
    /// On the other library.
    pub(super) theirs: Program,
    /// On ours.
    pub(super) ours: Program,
    /// The simulator.
    pub(super) kfd_sim: PathBuf,
    /// Where the two programs are; removed at the end.
    _folder: TempDir,
}

const OTHER_BENCHES: &str = "What needs none of it: cargo bench -p hsakmt-benches --bench lookup --bench edit";

/// Whether all is there that [`build`] needs.
pub(super) fn check(arguments: &Arguments) -> Result<(), String> {
    let mut needed = vec![Need::compiler()];
    if arguments.theirs.is_none() {
        needed.extend(debian());
    }
    if arguments.ours.is_none() {
        needed.push(Need::binutils());
    }
    needs::check(needed).map_err(|message| format!("{message}\n{OTHER_BENCHES}"))
}

/// Debian's libhsakmt, to build with.
fn debian() -> [Need; 2] {
    const HOW: &str = "apt-get install libhsakmt-dev libhsakmt1 (or name another library: --theirs PREFIX)";
    [Need::file("/usr/include/hsakmt.h", HOW), Need::library("libhsakmt.so", HOW)]
}

/// Finds or builds them; `say` is told each step.
pub(super) fn build(arguments: &Arguments, say: impl Fn(&str)) -> Result<Programs, String> {
    let folder = tempfile::tempdir().map_err(|error| format!("a folder for the programs: {error}"))?;
    say("building the C program on their library");
    let theirs = match &arguments.theirs {
        Some(prefix) => compile_on(prefix, &folder.path().join("theirs"))?,
        None => compile_on_debian(&folder.path().join("theirs"))?,
    };
    let target = target_folder()?;
    say("building kfd-sim");
    let kfd_sim = arguments.kfd_sim.clone().map_or_else(|| build_kfd_sim(&target), Ok)?;
    say("building and installing our library");
    let prefix = arguments.ours.clone().map_or_else(|| install(&target), Ok)?;
    let ours = compile_on(&prefix, &folder.path().join("ours"))?;
    Ok(Programs { theirs, ours, kfd_sim, _folder: folder })
}

fn compile_on_debian(binary: &Path) -> Result<Program, String> {
    let mut cc = compiler("<hsakmt.h>", binary);
    run(cc.args(["-lhsakmt", "-lpthread"]))?;
    let version = Command::new("dpkg-query").args(["-W", "-f=${Version}", "libhsakmt1"]).output();
    let version = version.ok().filter(|output| output.status.success());
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let name = format!("Debian's libhsakmt.so.1 {}", version.unwrap_or_default());
    Ok(Program { name: name.trim().to_owned(), path: binary.to_owned() })
}

fn compile_on(prefix: &Path, binary: &Path) -> Result<Program, String> {
    let prefix = prefix.canonicalize().map_err(|error| format!("{}: {error}", prefix.display()))?;
    let (include, lib) = (prefix.join("include"), prefix.join("lib"));
    let header = match (include.join("hsakmt/hsakmt.h").exists(), include.join("hsakmt.h").exists()) {
        (true, _) => "<hsakmt/hsakmt.h>",
        (false, true) => "<hsakmt.h>",
        (false, false) => return Err(format!("{}: no include/hsakmt/hsakmt.h", prefix.display())),
    };
    let library = lib.join("libhsakmt.so.1");
    let mut cc = compiler(header, binary);
    cc.arg("-I").arg(&include).arg("-L").arg(&lib).args(["-l:libhsakmt.so.1", "-lpthread"]);
    cc.arg(format!("-Wl,-rpath,{}", lib.display()));
    run(&mut cc)?;
    Ok(Program { name: library.display().to_string(), path: binary.to_owned() })
}

fn compiler(header: &str, binary: &Path) -> Command {
    let mut cc = Command::new("cc");
    cc.args(["-O2", &format!("-DHSAKMT_H={header}")]).arg(package().join("workload.c")).arg("-o").arg(binary);
    cc
}

pub(crate) fn build_kfd_sim(target: &Path) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--release", "-p", "hsakmt-kfd", "--bin", "kfd-sim", "--target-dir"]);
    run(command.arg(target).current_dir(package()))?;
    Ok(target.join("release/kfd-sim"))
}

fn install(target: &Path) -> Result<PathBuf, String> {
    let prefix = target.join("bench-prefix");
    let script = package().join("../std-shim/install");
    run(Command::new(script).arg("--prefix").arg(&prefix).env("CARGO_TARGET_DIR", target))?;
    Ok(prefix)
}

pub(crate) fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where cargo builds: this program is in `<target>/<profile>` or `<target>/<profile>/deps`.
pub(crate) fn target_folder() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| format!("where this program is: {error}"))?;
    let folder = program.parent().unwrap_or(&program);
    let profile = if folder.ends_with("deps") { folder.parent() } else { Some(folder) };
    profile
        .and_then(Path::parent)
        .map(Path::to_owned)
        .ok_or_else(|| format!("{}: not built by cargo", program.display()))
}

/// Runs a command that must succeed: what it printed, or what it said otherwise.
pub(crate) fn run(command: &mut Command) -> Result<String, String> {
    let tool = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{tool}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{tool} failed ({}):\n{}", output.status, String::from_utf8_lossy(&output.stderr).trim_end()))
}
