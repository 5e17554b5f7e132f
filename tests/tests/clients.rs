//! ROCm programs as Debian 12 ships them, unmodified, on simulated GPUs: over our library they print what they print over
//! Debian's, line by line. The dynamic linker is told which library; the programs do not know.

use std::path::{Path, PathBuf};
use std::process::Command;

use hsakmt_tests::install::{Abi, prefix_of, succeed, workspace};
use hsakmt_tests::sim;

/// What a program prints under kfd-sim over the machine's own library, or over the one in `library`. Only one that ends
/// well counts.
fn printed(preset: &str, library: Option<&Path>, program: &Path) -> String {
    let mut command = sim::under(&["--preset", preset], "timeout");
    command.arg("60").arg(program);
    command.env_remove("LD_LIBRARY_PATH");
    if let Some(library) = library {
        command.env("LD_LIBRARY_PATH", library);
    }
    let output = command.output().unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let text = said(&output.stdout) + &said(&output.stderr);
    assert!(output.status.success(), "{} on {preset} over {library:?}: {}\n{text}", program.display(), output.status);
    text
}

/// Compares both, and makes sure that they are two.
fn prints_the_same(preset: &str, program: &Path, least: usize) {
    let ours = prefix_of(Abi::Of5_2_3).join("lib");
    let loaded = Command::new("ldd").arg(program).env("LD_LIBRARY_PATH", &ours).output().unwrap();
    let loaded = String::from_utf8_lossy(&loaded.stdout).into_owned();
    assert!(loaded.contains(&*ours.join("libhsakmt.so.1").to_string_lossy()), "{loaded}");
    let (theirs, ours) = (printed(preset, None, program), printed(preset, Some(&ours), program));
    assert!(theirs.lines().count() >= least, "{theirs}");
    let differs = theirs.lines().zip(ours.lines()).find(|(theirs, ours)| theirs != ours);
    assert!(theirs == ours, "on {preset}, theirs and ours: {differs:#?}\n{ours}");
}

/// Where a program of the machine is.
fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.exists())
}

#[test]
fn rocminfo_prints_what_it_prints_over_debians_library() {
    const NAME: &str = "clients::rocminfo_prints_what_it_prints_over_debians_library";
    if let Some(reason) = sim::unavailable() {
        return sim::skip(NAME, &reason);
    }
    let Some(rocminfo) = installed("rocminfo") else { return sim::skip(NAME, "no rocminfo") };
    // The last two are machines that this old runtime does not know: it says so, and goes on.
    for (preset, lines) in [("gfx90a", 200), ("apu", 100), ("gfx942", 80), ("gfx1100", 60)] {
        prints_the_same(preset, &rocminfo, lines);
    }
}

#[test]
fn a_program_of_rocr_prints_what_it_prints_over_debians_library() {
    const NAME: &str = "clients::a_program_of_rocr_prints_what_it_prints_over_debians_library";
    if let Some(reason) = sim::unavailable() {
        return sim::skip(NAME, &reason);
    }
    if !Path::new("/usr/include/hsa/hsa_ext_amd.h").exists() {
        return sim::skip(NAME, "no libhsa-runtime-dev");
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("hsa");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-Wall", "-Wextra", "-Werror"]).arg(workspace().join("tests/clients/hsa.c"));
    succeed(cc.arg("-o").arg(&program).arg("-lhsa-runtime64"));
    prints_the_same("gfx90a", &program, 45);
}
