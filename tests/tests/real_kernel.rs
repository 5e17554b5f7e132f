//! kfd-sim answers hostile calls as the real kernels did: `tests/real-kernel/errnos.c` and `hostile.c`, on a machine
//! without a GPU, against what Debian's 6.1 and 6.12 answered. So are the topology's files. `tests/real-kernel/run` checks the
//! recordings themselves.

use std::path::{Path, PathBuf};
use std::process::Command;

use hsakmt_kfd::sim::description::Machine;
use hsakmt_kfd::sim::sysfs::Tree;
use hsakmt_tests::install::{Link, build_with, prefix, succeed, target_folder, workspace};
use hsakmt_tests::sim;

/// Kernel, and its KFD version.
const KERNELS: [(&str, &str); 2] = [("6.1", "1.11"), ("6.12", "1.17")];

/// ioctls that only ROCm's own driver has. kfd-sim has them on every machine, the recorded kernels answer ENOTTY.
const ONLY_ROCM: [&str; 4] = ["IPC_EXPORT_HANDLE", "IPC_IMPORT_HANDLE", "PC_SAMPLE", "RLC_SPM"];

/// System calls that run at full speed under kfd-sim, on the memory file that stands for the device.
const NOT_STOPPED: [&str; 5] = ["pread", "pwrite", "read nothing", "mmap: private, 0", "open: path below it"];

fn source(name: &str) -> PathBuf {
    workspace().join("tests/real-kernel").join(name)
}

/// Where the programs are built.
fn folder() -> PathBuf {
    let folder = target_folder().join("real-kernel-programs");
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Builds a program of `tests/real-kernel` that needs no library.
fn build(program: &str) -> PathBuf {
    let binary = folder().join(program);
    let mut cc = Command::new("cc");
    succeed(cc.args(["-O1", "-w", "-o"]).arg(&binary).arg(source(&format!("{program}.c"))));
    binary
}

/// A machine without a GPU.
fn described(version: &str) -> String {
    format!("{{\"kfd_version\": \"{version}\", \"gpus\": []}}")
}

fn compare(program: &str, different: &[&str]) {
    let name = format!("real_kernel::{program}");
    if let Some(reason) = sim::unavailable() {
        return sim::skip(&name, &reason);
    }
    let binary = build(program);
    for (kernel, version) in KERNELS {
        let printed = under_kfd_sim(version, &binary);
        let recording = std::fs::read_to_string(source(&format!("{program}-linux-{kernel}.txt"))).expect("a recording");
        let recorded: Vec<&str> = recording.lines().collect();
        assert_eq!(printed.len(), recorded.len(), "{kernel}: {printed:#?}");
        let declared = |line: &str| different.iter().any(|name| line.starts_with(&format!("{name} ")));
        let wrong: Vec<(&String, &&str)> =
            printed.iter().zip(&recorded).filter(|(ours, real)| ours != *real && !declared(real)).collect();
        assert!(wrong.is_empty(), "{kernel}: kfd-sim and the kernel: {wrong:#?}");
        let equal = |name: &&&str| {
            let lines = |line: &&str| line.starts_with(&format!("{name} "));
            printed.iter().map(String::as_str).filter(lines).eq(recorded.iter().copied().filter(lines))
        };
        assert_eq!(different.iter().filter(equal).count(), 0, "{kernel}: declared as different, but equal");
    }
}

/// What the topology says of the machine itself: each machine has its own values.
const OF_THE_MACHINE: [&str; 6] =
    ["size_in_bytes", "width", "mem_clk_max", "max_engine_clk_ccompute", "platform_oem", "platform_id"];

/// A folder's entries as the recordings list them: `path/`, or for each line of a file `path: line`.
fn listing(root: &Path, path: &str, into: &mut Vec<String>) {
    let at = root.join(path);
    if !at.is_dir() {
        let text = std::fs::read_to_string(&at).expect("a file");
        return into.extend(text.lines().map(|line| format!("{path}: {line}")));
    }
    into.push(format!("{path}/"));
    let entries = std::fs::read_dir(&at).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().expect("a name")).collect();
    names.sort();
    names.iter().for_each(|name| listing(root, &format!("{path}/{name}"), into));
}

/// A line without a value that is the machine's own.
fn plain(line: &str) -> &str {
    let start = line.rsplit_once(' ').map_or(line, |(start, _)| start);
    if OF_THE_MACHINE.iter().any(|name| start.ends_with(&format!(" {name}"))) { start } else { line }
}

#[test]
fn the_topology_without_a_gpu_is_the_kernels() {
    for (kernel, version) in KERNELS {
        let tree = Tree::create(&Machine::from_json(&described(version)).expect("a machine")).expect("a tree");
        let mut printed = Vec::new();
        listing(&tree.topology(), ".", &mut printed);
        let recording = std::fs::read_to_string(source(&format!("topology-linux-{kernel}.txt"))).expect("a recording");
        let printed: Vec<&str> = printed.iter().map(|line| plain(line)).collect();
        let recorded: Vec<&str> = recording.lines().map(plain).collect();
        sim::same_lines(kernel, &printed, &recorded);
    }
}

#[test]
fn every_ioctl_refuses_what_the_kernel_refuses() {
    compare("errnos", &ONLY_ROCM);
}

#[test]
fn other_calls_on_the_device_are_answered_as_by_the_kernel() {
    compare("hostile", &NOT_STOPPED);
}

/// What `program` prints on the machine without a GPU.
fn under_kfd_sim(version: &str, program: &Path) -> Vec<String> {
    let machine = program.with_extension(format!("{version}.json"));
    std::fs::write(&machine, described(version)).expect("a machine");
    let options = ["--machine", machine.to_str().expect("a path")];
    sim::lines(&sim::under(&options, program).output().expect("kfd-sim runs"))
}

#[test]
fn events_are_the_kernels() {
    if let Some(reason) = sim::unavailable() {
        return sim::skip("real_kernel::events_are_the_kernels", &reason);
    }
    let binary = folder().join("events");
    let flags = ["-w", "-DHSAKMT_H=\"hsakmt/hsakmt.h\""];
    build_with(&prefix(), Link::Archive, &flags, &[&source("events.c")], &binary);
    let recording = std::fs::read_to_string(source("events-libhsakmt-2025-08.txt")).expect("a recording");
    for (kernel, version) in KERNELS {
        sim::same_lines(kernel, &under_kfd_sim(version, &binary), &recording.lines().collect::<Vec<_>>());
    }
}

/// Debian's library, so that what differs is the simulated kernel's.
#[test]
fn every_call_finds_what_it_finds_on_the_kernel() {
    let name = "real_kernel::every_call_finds_what_it_finds_on_the_kernel";
    if let Some(reason) = sim::unavailable().or_else(|| sim::debian_library().err()) {
        return sim::skip(name, &reason);
    }
    let binary = folder().join("cpuonly");
    sim::build_on_debian(&source("cpuonly.c"), &binary, &["-DHSAKMT_H=\"hsakmt.h\""]);
    let recording = std::fs::read_to_string(source("cpuonly-libhsakmt-5.2.3.txt")).expect("a recording");
    // These lines are about the machine.
    let of_calls =
        |line: &&str| !["version", "acquire", "node 0:", "mem", "cache"].iter().any(|it| line.starts_with(it));
    let recorded: Vec<&str> = recording.lines().filter(of_calls).collect();
    for (kernel, version) in KERNELS {
        let printed = under_kfd_sim(version, &binary);
        let printed: Vec<&str> = printed.iter().map(String::as_str).filter(of_calls).collect();
        sim::same_lines(kernel, &printed, &recorded);
    }
}
