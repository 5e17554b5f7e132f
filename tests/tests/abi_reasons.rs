//! What a C program is told when opening or Acquire is refused (`abi/reasons.c`): the status that the C library answers, and
//! with `HSAKMT_DEBUG_LEVEL` the reason, with the file or ioctl, the error and what helps.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hsakmt_tests::install::{Link, build_with, prefix};
use hsakmt_tests::sim;

/// The program, built.
struct Bench {
    folder: tempfile::TempDir,
    binary: PathBuf,
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join("program");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("abi/reasons.c");
        build_with(&prefix(), Link::Shared, &["-Wall", "-Werror"], &[&source], &binary);
        Bench { folder, binary }
    }

    /// Runs it under kfd-sim with these options and variables.
    fn run(&self, options: &[&str], variables: &[(&str, &str)]) -> Told {
        let mut command = sim::under(options, &self.binary);
        Told::of(command.envs(variables.iter().copied()))
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

/// What it printed.
struct Told {
    lines: Vec<String>,
    errors: String,
}

impl Told {
    fn of(command: &mut Command) -> Told {
        let output: Output = command.output().expect("it runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        Told { lines: sim::lines(&output), errors }
    }

    fn number(&self, name: &str) -> i64 {
        let mut lines = self.lines.iter().filter_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        lines.next().unwrap_or_else(|| panic!("no {name}: {:?}", self.lines))
    }
}

/// `HSAKMT_STATUS` values.
const ERROR: i64 = 1;
const DRIVER_MISMATCH: i64 = 2;
const INVALID_NODE_UNIT: i64 = 5;
const NOT_OPENED: i64 = 20;

/// The program under kfd-sim, or `None` with a printed reason.
fn bench(name: &str) -> Option<Bench> {
    match sim::unavailable() {
        Some(reason) => {
            sim::skip(&format!("abi_reasons::{name}"), &reason);
            None
        }
        None => Some(Bench::new()),
    }
}

#[test]
fn a_refusal_says_which_file_or_ioctl_and_why() {
    let Some(bench) = bench("a_refusal_says_which_file_or_ioctl_and_why") else { return };
    let machine = bench.file("machine", r#"{"kfd_version": "2.0", "gpus": [{"preset": "gfx90a"}]}"#);
    // Options; the status of open and of Acquire; parts of the reason.
    let runs: [(&[&str], i64, i64, &[&str]); 10] = [
        (&["--fault", "open:1=EACCES"], NOT_OPENED, NOT_OPENED, &["/dev/kfd: Permission denied", "render"]),
        (&["--fault", "open:1=ENOENT"], NOT_OPENED, NOT_OPENED, &["/dev/kfd: No such file or directory"]),
        (&["--fault", "version:1=EIO"], ERROR, NOT_OPENED, &["/dev/kfd: AMDKFD_IOC_GET_VERSION: Input/output error"]),
        (&["--machine", &machine], DRIVER_MISMATCH, NOT_OPENED, &["/dev/kfd: the driver speaks version 2.0"]),
        // Case 89. Opening tries each render node, Acquire asks it, and set-up opens it.
        (
            &["--fault", "open:3=EACCES"],
            ERROR,
            NOT_OPENED,
            &["hsaKmtOpenKFD: ", "nodes/2/properties: /dev/dri/renderD129: Permission denied", "group", "render"],
        ),
        (
            &["--fault", "open:5=EACCES"],
            0,
            ERROR,
            &["nodes/2/properties: /dev/dri/renderD129: Permission denied", "group", "render"],
        ),
        (
            &["--fault", "open:6=EMFILE"],
            0,
            ERROR,
            &["/dev/dri/renderD128 of GPU 0xa001: Too many open files", "ulimit"],
        ),
        (
            &["--fault", "apertures:*=EINVAL,apertures_old:*=EINVAL"],
            0,
            ERROR,
            &["AMDKFD_IOC_GET_PROCESS_APERTURES_NEW: error 22 (Invalid argument"],
        ),
        (
            &["--fault", "acquire_vm:2=EBUSY"],
            0,
            ERROR,
            &["AMDKFD_IOC_ACQUIRE_VM of GPU 0xa102: error 16 (Device or resource busy"],
        ),
        (
            &["--fault", "policy:1=EIO"],
            0,
            ERROR,
            &["AMDKFD_IOC_SET_MEMORY_POLICY of GPU 0xa001: error 5 (Input/output"],
        ),
    ];
    for (options, open, acquire, parts) in runs {
        for level in ["3", "7", ""] {
            let told = bench.run(options, &[("HSAKMT_DEBUG_LEVEL", level)]);
            assert_eq!((told.number("open"), told.number("acquire")), (open, acquire), "{options:?}");
            if level.is_empty() {
                assert_eq!(told.errors, "", "{options:?}: nothing is printed unless it is asked for");
                continue;
            }
            for part in parts {
                assert!(told.errors.contains(part), "{options:?}: {part}: {}", told.errors);
            }
        }
    }
}

#[test]
fn without_the_device_it_is_named() {
    if Path::new("/dev/kfd").exists() {
        return sim::skip("abi_reasons::without_the_device_it_is_named", "this machine has a /dev/kfd");
    }
    let bench = Bench::new();
    let told = Told::of(Command::new(&bench.binary).env("HSAKMT_DEBUG_LEVEL", "3"));
    assert_eq!((told.number("open"), told.number("second")), (NOT_OPENED, NOT_OPENED));
    assert!(told.errors.contains("hsaKmtOpenKFD: /dev/kfd: No such file or directory"), "{}", told.errors);
    assert!(told.errors.contains("hsaKmtOpenSecondaryKFDCtx: /dev/kfd: No such"), "{}", told.errors);
}

#[test]
fn a_file_of_the_topology_is_named_with_what_is_wrong_in_it() {
    let Some(bench) = bench("a_file_of_the_topology_is_named_with_what_is_wrong_in_it") else { return };
    let heavy = bench.file("heavy", "type 2\nnode_from 2\nnode_to 0\nweight heavy\n");
    let elsewhere = bench.file("elsewhere", "type 2\nnode_from 1\nnode_to 0\n");
    let (open, acquire) = ("hsaKmtOpenKFD", "hsaKmtAcquireSystemProperties");
    for (suffix, file, call, status, part) in [
        (
            "nodes/2/io_links/0/properties",
            heavy.as_str(),
            acquire,
            ERROR,
            ":4: a number of 64 bits was expected: \"heavy\"",
        ),
        // Case 93.
        ("nodes/2/io_links/0/properties", &elsewhere, acquire, INVALID_NODE_UNIT, ": a link from 1 to 0"),
        ("nodes/1/mem_banks/0/properties", "/no/such/file", acquire, ERROR, ": No such file or directory"),
        ("nodes/1/properties", "/dev/zero", open, ERROR, ": more than 65536 bytes"),
        ("nodes/1/gpu_id", "/no/such/file", open, ERROR, ": No such file or directory"),
        ("generation_id", "/dev/zero", acquire, ERROR, ": more than 65536 bytes"),
    ] {
        let redirect = format!("{suffix}={file}");
        let told = bench.run(&[], &[("HSAKMT_DEBUG_LEVEL", "3"), ("REDIRECT", &redirect)]);
        let wanted = if call == open { (status, NOT_OPENED) } else { (0, status) };
        assert_eq!((told.number("open"), told.number("acquire")), wanted, "{redirect}");
        let wanted = format!("{suffix}{part}");
        assert!(told.errors.contains(&wanted), "{wanted}: {}", told.errors);
        assert!(told.errors.contains(&format!("{call}: /sys/devices/virtual/kfd")), "{}", told.errors);
    }
}

#[test]
fn case_87_an_empty_override_is_none() {
    let Some(bench) = bench("case_87_an_empty_override_is_none") else { return };
    for variables in [
        &[("HSA_OVERRIDE_GFX_VERSION", "")][..],
        &[("HSA_OVERRIDE_GFX_VERSION_1", "")],
        &[("HSA_OVERRIDE_GFX_VERSION_1", ""), ("HSA_OVERRIDE_GFX_VERSION", "10.3.0")],
    ] {
        let told = bench.run(&[], variables);
        assert_eq!((told.number("acquire"), told.number("nodes")), (0, 3), "{variables:?}");
    }
    let told = bench.run(&[], &[("HSA_OVERRIDE_GFX_VERSION", "9"), ("HSAKMT_DEBUG_LEVEL", "3")]);
    assert_eq!(told.number("acquire"), ERROR);
    assert!(told.errors.contains("HSA_OVERRIDE_GFX_VERSION is \"9\""), "{}", told.errors);
}

/// What set-up tells the kernel, with each variable empty and with none.
#[test]
fn case_87_an_empty_variable_changes_nothing() {
    let Some(bench) = bench("case_87_an_empty_variable_changes_nothing") else { return };
    let log = bench.folder.path().join("log");
    let policies = |variables: &[(&str, &str)]| {
        let told = bench.run(&["--log", log.to_str().unwrap()], variables);
        assert_eq!(told.number("acquire"), 0, "{variables:?}");
        let text = std::fs::read_to_string(&log).unwrap();
        let calls = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        calls.filter(|call| call["call"] == "policy").map(|call| call["in"].to_string()).collect::<Vec<_>>()
    };
    let unset = policies(&[]);
    assert_eq!(unset.len(), 4, "two GPUs, two contexts");
    assert_ne!(unset, policies(&[("HSA_DISABLE_CACHE", "1")]), "the log shows what a variable does");
    for name in ["HSA_DISABLE_CACHE", "HSA_RESERVE_SVM", "HSA_MAX_VA_ALIGN", "HSA_SVM_GUARD_PAGES", "HSA_USE_SVM"] {
        assert_eq!(unset, policies(&[(name, "")]), "{name}");
    }
}

/// Another context has all that there is below 2^40, which took 3.7 million calls to find out.
#[test]
fn a_secondary_context_without_room_to_reserve_is_refused_at_once() {
    let Some(bench) = bench("a_secondary_context_without_room_to_reserve_is_refused_at_once") else { return };
    let told = bench.run(&[], &[("HSA_RESERVE_SVM", "1"), ("HSAKMT_DEBUG_LEVEL", "3")]);
    assert_eq!((told.number("acquire"), told.number("second")), (0, ERROR));
    assert!(told.number("maps") < 600, "{} mappings", told.number("maps"));
    assert!(told.errors.contains("no free address range of 4096 MiB between 0x1000000 and"), "{}", told.errors);
    // A page in the middle leaves the first context one half, and the second one a part of the other.
    let told = bench.run(&[], &[("HSA_RESERVE_SVM", "1"), ("HSAKMT_DEBUG_LEVEL", "3"), ("ROOM", "1")]);
    assert_eq!((told.number("second"), told.number("allocate")), (0, 0), "{}", told.errors);
    assert!(told.number("gigabytes") < 512 && told.number("maps") < 600, "{:?}", told.lines);
}
