//! What `std-shim/install` installs: the names, their version, and programs that link to it in each way.
//!
//! In: a prefix. Out: nothing may be exported that is not in the tables, nothing may be missing, and C programs built
//! through pkg-config run on the shared library and on the archive, also beside another Rust archive.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hsakmt_tests::install::{Abi, Link, build, build_with, pkg_config, prefix, prefix_of, succeed, workspace};
use hsakmt_tests::layout::exports;
use hsakmt_tests::sim;

/// The defined dynamic symbols of the installed library, with their versions.
fn exported(prefix: &Path) -> BTreeSet<String> {
    exported_by(&prefix.join("lib/libhsakmt.so.1"))
}

fn exported_by(library: &Path) -> BTreeSet<String> {
    let mut nm = Command::new("nm");
    nm.args(["-D", "--defined-only", "--with-symbol-versions"]).arg(library);
    let said = succeed(&mut nm);
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let names = text.lines().filter_map(|line| line.split_whitespace().last().map(str::to_owned));
    // The version itself is a symbol too.
    names.filter(|name| name != "HSAKMT_1").collect()
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("abi").join(name)
}

/// The names of the 2025-08 library and those we export besides.
fn names() -> BTreeSet<String> {
    exports("exports-2025-08.txt").into_iter().chain(exports("exports-more.txt")).collect()
}

fn versioned(names: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    names.into_iter().map(|name| format!("{name}@@HSAKMT_1")).collect()
}

#[test]
fn the_library_exports_the_names_in_the_tables_and_nothing_else() {
    assert_eq!(exported(&prefix()), versioned(names()));
}

#[test]
fn the_older_libraries_export_the_older_names_too() {
    for (abi, table) in [(Abi::Of6_2_4, "exports-6.2.4.txt"), (Abi::Of5_2_3, "exports-5.2.3.txt")] {
        let want = versioned(names().into_iter().chain(exports(table)));
        assert_eq!(exported(&prefix_of(abi)), want, "{table}");
    }
}

#[test]
fn the_archive_keeps_every_other_name_to_itself() {
    let mut nm = Command::new("nm");
    let said = succeed(nm.args(["-g", "--defined-only", "-f", "posix"]).arg(prefix().join("lib/libhsakmt.a")));
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let names = text.lines().filter(|line| line.contains(' ')).filter_map(|line| line.split(' ').next());
    let global: BTreeSet<String> = names.map(str::to_owned).collect();
    assert_eq!(global, self::names());
}

#[test]
fn the_library_says_its_name_and_stays_loaded() {
    let said = succeed(Command::new("readelf").args(["-dW"]).arg(prefix().join("lib/libhsakmt.so.1")));
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    for part in ["soname: [libhsakmt.so.1]", "(SYMBOLIC)", "NODELETE"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(!text.contains("TEXTREL"));
    assert_eq!(fs::read_link(prefix().join("lib/libhsakmt.so")).unwrap(), Path::new("libhsakmt.so.1"));
}

#[test]
fn a_c_program_runs_on_the_shared_library() {
    run(Link::Shared, &[&source("smoke.c")]);
}

#[test]
fn a_c_program_runs_on_the_archive() {
    run(Link::Archive, &[&source("smoke.c")]);
}

/// All of it in one file, the C library too. There is no static libgcc_s: pkg-config may not name it.
#[test]
fn a_c_program_runs_without_any_shared_library() {
    const NAME: &str = "abi_install::a_c_program_runs_without_any_shared_library";
    let flags = pkg_config(&prefix(), &["--static", "--cflags", "--libs"]);
    assert!(!flags.iter().any(|flag| flag.contains("gcc")), "{flags:?}");
    let folder = tempfile::tempdir().unwrap();
    let [small, topology, shared] = ["small", "topology", "shared"].map(|name| folder.path().join(name));
    let header = "-DHSAKMT_H=\"hsakmt/hsakmt.h\"";
    for (name, binary) in [("smoke.c", &small), ("topology.c", &topology)] {
        let mut cc = Command::new("cc");
        succeed(cc.args(["-static", "-O1", header]).arg(source(name)).arg("-o").arg(binary).args(&flags));
    }
    let said = succeed(Command::new("readelf").args(["-dW"]).arg(&small));
    assert!(!String::from_utf8_lossy(&said.stdout).contains("NEEDED"));
    succeed(&mut Command::new(&small));
    if let Some(reason) = sim::unavailable() {
        return sim::skip(NAME, &format!("in part: {reason}"));
    }
    build_with(&prefix(), Link::Shared, &[header], &[&source("topology.c")], &shared);
    let [one, other] = [&topology, &shared].map(|program| sim::lines(&sim::under(&[], program).output().unwrap()));
    assert_eq!(one, other);
}

/// Each target of the package, from a tree that was moved, in C and with a version that is asked for.
#[test]
fn cmake_finds_the_package() {
    const NAME: &str = "abi_install::cmake_finds_the_package";
    if Command::new("cmake").arg("--version").output().is_err() {
        return sim::skip(NAME, "no cmake (Debian: apt install cmake)");
    }
    let folder = tempfile::tempdir().unwrap();
    let moved = folder.path().join("moved");
    succeed(Command::new("cp").arg("-a").arg(prefix()).arg(&moved));
    let project = |version: &str| {
        format!(
            "cmake_minimum_required(VERSION 3.6.3)\nproject(client C)\nfind_package(hsakmt {version} REQUIRED)\n\
             add_executable(shared {0})\ntarget_link_libraries(shared PRIVATE hsakmt::hsakmt)\n\
             add_executable(archive {0})\ntarget_link_libraries(archive PRIVATE hsakmt::static)\n",
            source("smoke.c").display()
        )
    };
    let configure = |version: &str| {
        fs::write(folder.path().join("CMakeLists.txt"), project(version)).unwrap();
        let mut cmake = Command::new("cmake");
        cmake.arg("-S").arg(folder.path()).arg("-B").arg(folder.path().join(format!("build-{version}")));
        cmake.arg(format!("-DCMAKE_PREFIX_PATH={}", moved.display()));
        cmake
    };
    succeed(&mut configure("1.0"));
    let built = folder.path().join("build-1.0");
    succeed(Command::new("cmake").arg("--build").arg(&built));
    for program in ["shared", "archive"] {
        succeed(&mut Command::new(built.join(program)));
        let said = succeed(Command::new("readelf").args(["-dW"]).arg(built.join(program)));
        let needs = String::from_utf8_lossy(&said.stdout).contains("libhsakmt.so.1");
        assert_eq!(needs, program == "shared");
    }
    let refused = configure("2.0").output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("1.9.0"), "{said}");
}

#[test]
fn a_c_program_of_the_older_layout_finds_the_headers_where_debian_has_them() {
    let (prefix, folder) = (prefix_of(Abi::Of5_2_3), tempfile::tempdir().unwrap());
    let program = folder.path().join("older.c");
    let text = "#include <hsakmt.h>\n_Static_assert(sizeof(HsaNodeProperties) == 356, \"\");\n\
                int main(void) { HSAuint32 a, b; return hsaKmtGetKernelDebugTrapVersionInfo(&a, &b) != 10; }\n";
    fs::write(&program, text).unwrap();
    let binary = folder.path().join("older");
    build(&prefix, Link::Shared, &[&program], &binary);
    succeed(&mut Command::new(binary));
}

#[test]
fn a_c_program_of_the_6_2_4_layout_gets_its_headers() {
    let (prefix, folder) = (prefix_of(Abi::Of6_2_4), tempfile::tempdir().unwrap());
    let program = folder.path().join("older.c");
    let text = "#include <hsakmt/hsakmt.h>\n_Static_assert(sizeof(HsaNodeProperties) == 356, \"\");\n\
                int main(void) { HsaNodeProperties node; node.NumXcc = 1; return hsaKmtGetNodeProperties(0, &node) != 20; }\n";
    fs::write(&program, text).unwrap();
    let binary = folder.path().join("older");
    build(&prefix, Link::Shared, &[&program], &binary);
    succeed(&mut Command::new(binary));
}

#[test]
fn two_rust_archives_in_one_program_do_not_collide() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("libbeside.a");
    let rustc = std::env::var_os("RUSTC").unwrap_or("rustc".into());
    let mut compile = Command::new(rustc);
    compile.args(["--edition=2024", "--crate-type=staticlib", "-O", "-o"]).arg(&archive).arg(source("beside.rs"));
    succeed(&mut compile);
    run(Link::Archive, &[&source("two.c"), &archive]);
}

fn run(link: Link, sources: &[&Path]) {
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("program");
    build(&prefix(), link, sources, &binary);
    succeed(&mut Command::new(binary));
}

/// As ROCr 7 loads it with `HSA_ENABLE_DTIF=1`: it crashes if one name is missing.
#[test]
fn each_name_of_rocrs_loader_is_in_libdtif() {
    const NAME: &str = "abi_install::each_name_of_rocrs_loader_is_in_libdtif";
    let library = prefix().join("lib/libdtif.so");
    let said = succeed(Command::new("readelf").args(["-dW"]).arg(&library));
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    for part in ["soname: [libdtif.so]", "(SYMBOLIC)", "NODELETE", "[libdrm_amdgpu.so.1]", "[libdrm.so.2]"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    let [first, second] = ["rocr-loader-2025-08.txt", "rocr-loader-2026.txt"].map(exports);
    let known: BTreeSet<String> = first.iter().chain(&second).cloned().chain(names()).collect();
    for name in exported_by(&library).iter().filter(|name| *name != "DTIF_1") {
        assert!(known.contains(name.split('@').next().unwrap()), "{name} is in no table");
    }
    if let Some(reason) = sim::unavailable() {
        return sim::skip(NAME, &reason);
    }
    if !sim::has_library("libdrm_amdgpu.so.1") {
        return sim::skip(NAME, "no libdrm-amdgpu1: libdtif.so cannot be loaded");
    }
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("program");
    let flags = ["-O1", "-Wall", "-Werror", "-o"];
    succeed(Command::new("cc").args(flags).arg(&binary).arg(source("dtif.c")).arg("-ldl"));
    // What 2026 has added of ours is refused, whatever the arguments are.
    let added = second.iter().filter(|name| name.starts_with("hsaKmt") && !first.contains(name));
    let mut command = sim::under(&["--svm", "off"], &binary);
    command.arg(&library).args(first.iter().chain(&second)).arg("--").args(added);
    succeed(&mut command);
}

#[test]
fn a_queue_of_libdtif_runs_its_packets_when_it_is_named() {
    const NAME: &str = "abi_install::a_queue_of_libdtif_runs_its_packets_when_it_is_named";
    if let Some(reason) = sim::unavailable() {
        return sim::skip(NAME, &reason);
    }
    if !sim::has_library("libdrm_amdgpu.so.1") {
        return sim::skip(NAME, "no libdrm-amdgpu1: libdtif.so cannot be loaded");
    }
    let (folder, prefix) = (tempfile::tempdir().unwrap(), prefix());
    let (binary, library) = (folder.path().join("program"), prefix.join("lib"));
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-Wall", "-Werror", "-I"]).arg(prefix.join("include")).arg(source("dtif_queue.c")).arg("-o");
    succeed(cc.arg(&binary).arg(library.join("libdtif.so")).arg(format!("-Wl,-rpath,{}", library.display())));
    succeed(&mut sim::under(&["--svm", "off"], &binary));
}

#[test]
fn the_installer_teaches_and_names_the_fix() {
    let install = workspace().join("std-shim/install");
    let said = succeed(Command::new(&install).arg("--help"));
    assert!(String::from_utf8_lossy(&said.stdout).contains("--prefix DIR"));
    let refused = [
        (vec![], "--prefix DIR"),
        (vec!["--prefix"], "needs a value"),
        (vec!["--prefix", "/x", "--abi", "6"], "choose 2025-08, 6.2.4 or 5.2.3"),
        (vec!["--colour"], "--help"),
    ];
    for (arguments, word) in refused {
        let output = Command::new(&install).args(&arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(word), "{arguments:?}: {said}");
    }
    let output = Command::new(&install).args(["--prefix", "/dev/null/x"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("choose another --prefix"), "{said}");
}
