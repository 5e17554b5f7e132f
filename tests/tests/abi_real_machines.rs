//! Machines in the shape of real ones (`machines`): what `abi/machine.c` prints on our library is what it prints on the C library
//! of 2025-08, recorded in `tests/machines`, but for the differences that each test declares.
//!
//! With that library's folder in `LD_LIBRARY_PATH` and `RECORD=1` the tests write the recordings, and assert nothing else.

use std::path::{Path, PathBuf};

use hsakmt_tests::install::{Link, build_with, prefix, workspace};
use hsakmt_tests::machines::{self, Node};
use hsakmt_tests::sim;

const NAME: &str = "abi_real_machines";

/// The program on our library, and a folder for files.
struct Bench {
    folder: tempfile::TempDir,
    program: PathBuf,
}

/// `None` with a printed reason where nothing runs under kfd-sim.
fn bench(test: &str) -> Option<Bench> {
    if let Some(reason) = sim::unavailable() {
        sim::skip(&format!("{NAME}::{test}"), &reason);
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("machine");
    let flags = ["-Wall", "-Werror", "-DHSAKMT_H=\"hsakmt/hsakmt.h\""];
    build_with(&prefix(), Link::Shared, &flags, &[&source()], &program);
    Some(Bench { folder, program })
}

fn source() -> PathBuf {
    workspace().join("tests/abi/machine.c")
}

impl Bench {
    /// What the program prints on these nodes.
    fn printed(&self, options: &[&str], nodes: &[Node]) -> Vec<String> {
        let topology = tempfile::tempdir_in(self.folder.path()).unwrap();
        machines::write(topology.path(), nodes);
        let cpuinfo = self.file("cpuinfo", machines::X86);
        let given = ["--svm", "off", "--topology", topology.path().to_str().unwrap(), "--cpuinfo", &cpuinfo];
        sim::lines(&sim::under(&[&given[..], options].concat(), &self.program).output().expect("kfd-sim runs"))
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

/// Compares what is printed on a machine with what the C library printed; lines that begin as one of `but` may differ.
/// `false`: it was recorded instead.
fn is_as_recorded(machine: &str, printed: &[String], but: &[&str]) -> bool {
    let path = workspace().join("tests/machines").join(machine).with_extension("txt");
    if std::env::var_os("RECORD").is_some() {
        std::fs::write(&path, printed.join("\n") + "\n").unwrap();
        return false;
    }
    let recorded: Vec<String> = std::fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
    let same = |lines: &[String]| {
        let same = lines.iter().filter(|line| !but.iter().any(|start| line.starts_with(start)));
        same.cloned().collect::<Vec<_>>()
    };
    sim::same_lines(machine, &same(printed), &same(&recorded));
    true
}

/// The line that begins so, without its beginning.
fn line<'a>(lines: &'a [String], start: &str) -> &'a str {
    lines.iter().find_map(|line| line.strip_prefix(start)).unwrap_or_else(|| panic!("no {start}: {lines:#?}"))
}

/// Nodes that a buffer is mapped on.
fn reach<'a>(lines: &'a [String], buffer: &str) -> &'a str {
    let rest = line(lines, &format!("{buffer}: 0 0 0 on "));
    rest.split(": ").nth(1).and_then(|rest| rest.split(" ends 0 0").next()).unwrap()
}

#[test]
fn case_99_a_machine_of_63_partitions() {
    let Some(bench) = bench("case_99_a_machine_of_63_partitions") else { return };
    let printed = bench.printed(&["--preset", "gfx942", "--gpus", "63"], &machines::mi300x_cpx());
    // Of each kind one, and who reaches what.
    let kept = [" 0", " 1", " 2", " 33", " 34", " 64", " 65"].map(|id| format!("{id}:")).into_iter();
    let kept: Vec<String> = kept.chain([" 0 ", " 2 ", " 34 "].map(str::to_owned)).collect();
    let is_kept = |line: &&String| {
        let id = line.find(' ').map_or("", |at| &line[at..]);
        line.starts_with("vram") || line.starts_with("open") || kept.iter().any(|start| id.starts_with(start.as_str()))
    };
    let some: Vec<String> = printed.iter().filter(is_kept).cloned().collect();
    if is_as_recorded("mi300x-cpx", &some, &[]) {
        assert_eq!(reach(&printed, "vram 64").split(' ').count(), 63);
    }
}

#[test]
fn case_99_peer_to_peer_links() {
    let Some(bench) = bench("case_99_peer_to_peer_links") else { return };
    let printed = bench.printed(&[], &machines::mi210_p2p());
    if is_as_recorded("mi210-p2p", &printed, &[]) {
        assert_eq!(reach(&printed, "vram 1"), "1 2");
    }
}

#[test]
fn case_99_a_node_in_the_middle_that_a_cgroup_hides() {
    const TEST: &str = "case_99_a_node_in_the_middle_that_a_cgroup_hides";
    let Some(bench) = bench(TEST) else { return };
    if std::fs::File::open("/dev/fuse").is_err() {
        return sim::skip(&format!("{NAME}::{TEST}"), "no /dev/fuse to stand in for files that refuse to be read");
    }
    let printed = bench.printed(&["--gpus", "3"], &machines::hidden_in_the_middle(true));
    if is_as_recorded("hidden-by-cgroup", &printed, &[]) {
        assert_eq!(reach(&printed, "vram 2"), "2 1 3", "the kernel's nodes 3, 1 and 4");
    }
}

/// Difference: C asks for the GPU's memory policy, which the kernel refuses, and Acquire is ERROR.
#[test]
fn case_90_a_node_in_the_middle_without_a_render_node() {
    let Some(bench) = bench("case_90_a_node_in_the_middle_without_a_render_node") else { return };
    let printed = bench.printed(&["--gpus", "4"], &machines::hidden_in_the_middle(false));
    if is_as_recorded("without-render-node", &printed[..1], &[]) {
        assert_eq!(printed[1], "acquire 0, 4 nodes");
        assert_eq!(reach(&printed, "vram 2"), "2 1 3", "the kernel's nodes 3, 1 and 4");
    }
}

#[test]
fn case_91_a_gpu_that_did_not_come_up() {
    let Some(bench) = bench("case_91_a_gpu_that_did_not_come_up") else { return };
    let printed = bench.printed(&[], &machines::half_initialised());
    if is_as_recorded("half-initialised", &printed, &[]) {
        assert_eq!(reach(&printed, "vram 3"), "3 1");
    }
}

#[test]
fn case_99_a_gpu_before_the_cpu() {
    let Some(bench) = bench("case_99_a_gpu_before_the_cpu") else { return };
    let printed = bench.printed(&[], &machines::out_of_order());
    is_as_recorded("out-of-order", &printed, &[]);
}

/// Difference: C counts links, so that the second one to a node takes the place of another node's.
#[test]
fn case_86_doubled_links_push_no_peer_out() {
    let Some(bench) = bench("case_86_doubled_links_push_no_peer_out") else { return };
    for (machine, gpus, nodes) in [
        ("doubled-2", 2, machines::doubled(2)),
        ("doubled-3", 3, machines::doubled(3)),
        ("doubled-without-peers", 2, machines::doubled_without_peers()),
    ] {
        let printed = bench.printed(&["--gpus", &gpus.to_string()], &nodes);
        if !is_as_recorded(machine, &printed, &["links ", "vram "]) {
            continue;
        }
        for gpu in 1..=gpus {
            let mut nodes: Vec<u32> =
                reach(&printed, &format!("vram {gpu}")).split(' ').map(|node| node.parse().unwrap()).collect();
            assert_eq!(nodes[0], gpu, "{machine}: its own first");
            nodes.sort();
            assert_eq!(nodes, (1..=gpus).collect::<Vec<_>>(), "{machine}: vram of {gpu}");
        }
    }
}

/// Difference: C of 2025-08 gives gfx1151 and gfx1250 less than the kernel.
#[test]
fn case_88_vector_registers_of_younger_gpus() {
    let Some(bench) = bench("case_88_vector_registers_of_younger_gpus") else { return };
    for (machine, version, registers) in [("gfx1151", "11.5.1", "60000"), ("gfx1250", "12.5.0", "80000")] {
        let text =
            format!(r#"{{"gpus": [{{"preset": "gfx1100", "gfx_version": "{version}", "device_id": "0x1586"}}]}}"#);
        let [file, cpuinfo] = [bench.file("machine.json", &text), bench.file("cpuinfo", machines::X86)];
        let options = ["--machine", &file, "--cpuinfo", &cpuinfo];
        let printed = sim::lines(&sim::under(&options, &bench.program).output().expect("kfd-sim runs"));
        if is_as_recorded(machine, &printed, &["registers 1"]) {
            assert_eq!(line(&printed, "registers 1 VGPRSizePerCU="), registers, "{machine}");
        }
    }
}

#[test]
fn case_89_a_render_node_that_is_forbidden_or_impossible_fails_open() {
    let Some(bench) = bench("case_89_a_render_node_that_is_forbidden_or_impossible_fails_open") else { return };
    for error in ["EACCES", "EMFILE", "EIO"] {
        let printed = bench.printed(&["--fault", &format!("open:2={error}")], &machines::mi210_p2p());
        is_as_recorded("open-refused", &printed, &[]);
    }
    for minor in [0, 1, 127, 256] {
        let mut nodes = machines::mi210_p2p();
        let wrong = format!("drm_render_minor {minor}\n");
        nodes[2].properties = nodes[2].properties.replace("drm_render_minor 129\n", &wrong);
        is_as_recorded("open-refused", &bench.printed(&[], &nodes), &[]);
    }
}

/// Against Debian's library, since a CPU's caches are the host's.
#[test]
fn case_92_processors_without_apic_ids() {
    const TEST: &str = "case_92_processors_without_apic_ids";
    let Some(bench) = bench(TEST) else { return };
    let original = bench.folder.path().join("original");
    match sim::debian_library() {
        Ok(()) => sim::build_on_debian(&source(), &original, &["-DHSAKMT_H=\"hsakmt.h\"", "-DOF_5_2_3"]),
        Err(reason) => return sim::skip(&format!("{NAME}::{TEST}"), &reason),
    }
    let caches = |program: &Path, cpuinfo: &str| {
        let mut command = sim::under(&["--cpuinfo", cpuinfo], program);
        let lines = sim::lines(&command.arg("cpu").env_remove("LD_LIBRARY_PATH").output().expect("kfd-sim runs"));
        let name = line(&lines, "node 0 ").split(" AMDName=").nth(1).unwrap().to_owned();
        (name, line(&lines, "caches 0: ").to_owned())
    };
    for (machine, text) in machines::WITHOUT_APIC.into_iter().chain([("x86", machines::X86)]) {
        let cpuinfo = bench.file(machine, text);
        let [ours, theirs] = [&bench.program, &original].map(|program| caches(program, &cpuinfo));
        assert_eq!(ours, theirs, "{machine}");
        assert!(machine == "x86" || ours.1.ends_with(" 0") || ours.1.contains(":[0]=1"), "{machine}: {}", ours.1);
    }
}
