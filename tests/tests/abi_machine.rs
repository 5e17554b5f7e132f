//! C programs on a simulated machine: what the topology calls tell, and memory of others.
//!
//! `topology.c` prints every field that all layouts have. It runs four times on each machine: on our library in
//! each layout, and on Debian's own library. A field that one of ours puts elsewhere, or fills otherwise than the
//! original, shows as a line that differs.

use std::path::{Path, PathBuf};
use std::process::Command;

use hsakmt_tests::install::{Abi, Link, build, build_with, prefix, prefix_of, succeed, workspace};
use hsakmt_tests::sim;

const PRESETS: &[&str] = &["gfx90a", "gfx942", "gfx1100", "apu", "none"];

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("abi").join(name)
}

fn on_machine(preset: &str, program: &Path) -> Vec<String> {
    sim::lines(&sim::under(&["--preset", preset], program).output().expect("kfd-sim runs"))
}

#[test]
fn each_layout_and_the_original_tell_the_same_topology() {
    const NAME: &str = "abi_machine::each_layout_and_the_original_tell_the_same_topology";
    if let Some(reason) = sim::unavailable() {
        return sim::skip(NAME, &reason);
    }
    let folder = tempfile::tempdir().unwrap();
    let [newer, middle, older, original] =
        ["newer", "middle", "older", "original"].map(|name| folder.path().join(name));
    let topology = source("topology.c");
    let (within, top) = (["-Wall", "-DHSAKMT_H=\"hsakmt/hsakmt.h\""], ["-Wall", "-DHSAKMT_H=\"hsakmt.h\""]);
    build_with(&prefix(), Link::Shared, &within, &[&topology], &newer);
    build_with(&prefix_of(Abi::Of6_2_4), Link::Shared, &within, &[&topology], &middle);
    build_with(&prefix_of(Abi::Of5_2_3), Link::Shared, &top, &[&topology], &older);
    let has_original = sim::debian_library();
    match &has_original {
        Ok(()) => sim::build_on_debian(&topology, &original, &top),
        Err(reason) => sim::skip(NAME, &format!("{reason}: only our layouts are compared")),
    }
    for preset in PRESETS {
        let told = on_machine(preset, &newer);
        assert_eq!(told, on_machine(preset, &middle), "{preset}: the layouts 2025-08 and 6.2.4 differ");
        assert_eq!(told, on_machine(preset, &older), "{preset}: the layouts 2025-08 and 5.2.3 differ");
        if has_original.is_ok() {
            compare(preset, &told, &on_machine(preset, &original));
        }
    }
}

/// 2025-08 tells the version and what it is to be taken for; before, there is only one version, the latter.
#[test]
fn an_overridden_version_is_told_as_each_version_tells_it() {
    const NAME: &str = "abi_machine::an_overridden_version_is_told_as_each_version_tells_it";
    if let Some(reason) = sim::unavailable() {
        return sim::skip(NAME, &reason);
    }
    let folder = tempfile::tempdir().unwrap();
    let top = ["-Wall", "-DHSAKMT_H=\"hsakmt.h\""];
    let within = ["-Wall", "-DHSAKMT_H=\"hsakmt/hsakmt.h\""];
    let told = |program: &Path, preset| {
        let mut command = sim::under(&["--preset", preset], program);
        sim::lines(&command.env("HSA_OVERRIDE_GFX_VERSION", "10.3.0").output().expect("kfd-sim runs"))
    };
    // Major 10, minor 3 and stepping 0 of HSA_ENGINE_ID, above ten bits of microcode version.
    let is_overridden = |lines: &[String]| {
        let value = |line: &String| line.strip_prefix("  EngineId.Value=").map(|value| value.parse::<u32>().unwrap());
        lines.iter().filter_map(value).any(|value| value >> 10 == 10 | 3 << 6)
    };
    let mut answers = Vec::new();
    for (abi, flags) in [(Abi::Of2025, &within), (Abi::Of6_2_4, &within), (Abi::Of5_2_3, &top)] {
        let binary = folder.path().join(abi.name());
        build_with(&prefix_of(abi), Link::Shared, flags, &[&source("topology.c")], &binary);
        // One GPU with a name of its own, one that is named after its version.
        answers.push(["gfx90a", "gfx1100"].map(|preset| told(&binary, preset)));
    }
    let [newer, middle, older] = &answers[..] else { unreachable!("three layouts") };
    for lines in newer {
        assert!(!is_overridden(lines));
    }
    assert_eq!(middle, older);
    for lines in older {
        assert!(is_overridden(lines), "{lines:?}");
    }
    assert!(older[1].iter().any(|line| line == "  AMDName=GFX0a0300"), "{:?}", older[1]);
    let original = folder.path().join("original");
    match sim::debian_library() {
        Ok(()) => sim::build_on_debian(&source("topology.c"), &original, &top),
        Err(reason) => return sim::skip(NAME, &format!("{reason}: only our layouts are compared")),
    }
    for (preset, lines) in ["gfx90a", "gfx1100"].into_iter().zip(older) {
        compare(preset, lines, &told(&original, preset));
    }
}

/// Equal but for the register files of GPUs that are younger than Debian's library.
fn compare(preset: &str, ours: &[String], original: &[String]) {
    assert_eq!(ours.len(), original.len(), "{preset}");
    for (number, (ours, original)) in (1..).zip(ours.iter().zip(original)) {
        let younger = preset != "gfx90a" && ours.starts_with("  VGPRSizePerCU=");
        assert!(younger || ours == original, "{preset}, line {number}: {ours}, the original: {original}");
    }
}

#[test]
fn case_79_a_fork_at_any_moment_leaves_the_child_a_library_that_opens() {
    run("case_79_a_fork_at_any_moment_leaves_the_child_a_library_that_opens", &["--svm", "off"], "fork_early.c");
}

#[test]
fn case_85_paged_memory_is_shared_with_a_child() {
    run("case_85_paged_memory_is_shared_with_a_child", &["--svm", "off"], "fork_paged.c");
}

#[test]
fn a_fork_leaves_the_child_a_topology_snapshot() {
    run("a_fork_leaves_the_child_a_topology_snapshot", &["--svm", "off"], "fork_snapshot.c");
}

#[test]
fn a_handler_in_a_read_of_the_snapshot_waits_for_nobody() {
    run("a_handler_in_a_read_of_the_snapshot_waits_for_nobody", &["--svm", "off"], "signal_snapshot.c");
}

#[test]
fn a_forked_child_knows_nothing_of_what_its_parent_asked() {
    run("a_forked_child_knows_nothing_of_what_its_parent_asked", &["--svm", "off"], "fork_recent.c");
}

#[test]
fn case_44_an_allocator_that_calls_back_waits_for_nobody() {
    run("case_44_an_allocator_that_calls_back_waits_for_nobody", &["--svm", "off"], "reenter.c");
}

#[test]
fn a_signal_handler_at_any_instruction_of_a_verb_waits_for_nobody() {
    run("a_signal_handler_at_any_instruction_of_a_verb_waits_for_nobody", &["--svm", "off"], "signals.c");
}

/// Then each entry is a fence and goes the slow way (`thread::enter_slowly`): it still calls nothing, and forks, signal
/// handlers and threads that end find what they find elsewhere.
#[test]
fn without_membarrier_all_is_the_same() {
    const NAME: &str = "abi_machine::without_membarrier_all_is_the_same";
    if let Some(reason) = sim::unavailable() {
        return sim::skip(NAME, &reason);
    }
    let folder = tempfile::tempdir().unwrap();
    let [launcher, binary] = ["launcher", "program"].map(|name| folder.path().join(name));
    build(&prefix(), Link::Shared, &[&source("without_membarrier.c")], &launcher);
    for program in ["quiet.c", "fork_recent.c", "fork_early.c", "signals.c"] {
        build_with(&prefix(), Link::Shared, &["-Wall", "-pthread"], &[&source(program)], &binary);
        succeed(sim::under(&["--svm", "off"], &launcher).arg(&binary));
    }
}

#[test]
fn case_97_a_first_query_in_a_handler_reaches_neither_malloc_nor_a_lock() {
    const NAME: &str = "case_97_a_first_query_in_a_handler_reaches_neither_malloc_nor_a_lock";
    // No keys, more than those that need no memory, and all that a process can have.
    loaded_late(NAME, "first_query.c", &["0", "40", "2000"]);
}

#[test]
fn case_44_an_allocator_that_queries_every_block_does_not_call_itself() {
    loaded_late("case_44_an_allocator_that_queries_every_block_does_not_call_itself", "hook.c", &[""]);
}

/// Runs a program that loads the library by dlopen, once with each argument.
fn loaded_late(name: &str, program: &str, arguments: &[&str]) {
    if let Some(reason) = sim::unavailable() {
        return sim::skip(&format!("abi_machine::{name}"), &reason);
    }
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("program");
    let include = format!("-I{}", prefix().join("include").display());
    let flags = ["-O1", "-fno-builtin", "-Wall", "-Werror", &include, "-pthread"];
    succeed(Command::new("cc").args(flags).arg(source(program)).arg("-o").arg(&binary).arg("-ldl"));
    let library = prefix().join("lib/libhsakmt.so.1");
    for argument in arguments {
        succeed(sim::under(&["--svm", "off"], &binary).arg(&library).arg(argument));
    }
}

/// The line on stderr says why, once.
#[test]
fn a_reader_that_stops_costs_its_own_context_one_pause_and_others_nothing() {
    const NAME: &str = "abi_machine::a_reader_that_stops_costs_its_own_context_one_pause_and_others_nothing";
    if let Some(reason) = sim::unavailable() {
        return sim::skip(NAME, &reason);
    }
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("program");
    build_with(&prefix(), Link::Shared, &["-Wall", "-Werror", "-pthread"], &[&source("stalled.c")], &binary);
    let mut command = sim::under(&["--svm", "off"], &binary);
    let said = succeed(command.env("HSAKMT_MAX_RETIRED_MIB", "1").env("HSAKMT_DEBUG_LEVEL", "3"));
    let said = String::from_utf8_lossy(&said.stderr);
    let reasons: Vec<&str> = said.lines().filter(|line| line.contains("NO_MEMORY")).collect();
    assert!(
        matches!(reasons[..], [line] if line.contains("context 1") && line.contains("a query of thread")),
        "{said}"
    );
}

#[test]
fn case_96_signals_while_the_topology_is_read_cost_nothing() {
    run("case_96_signals_while_the_topology_is_read_cost_nothing", &[], "interrupted.c");
}

#[test]
fn memory_of_others() {
    run("memory_of_others", &["--svm", "off"], "sharing.c");
}

#[test]
fn one_node_of_an_apu_is_not_looked_at() {
    run("one_node_of_an_apu_is_not_looked_at", &["--preset", "apu"], "one_node.c");
}

#[test]
fn case_81_contexts_share_nothing_but_the_topology() {
    run("case_81_contexts_share_nothing_but_the_topology", &["--svm", "off"], "contexts.c");
}

#[test]
fn a_runtime_is_enabled_once_at_a_time() {
    run("a_runtime_is_enabled_once_at_a_time", &["--preset", "none"], "runtime.c");
}

fn run(name: &str, options: &[&str], program: &str) {
    if let Some(reason) = sim::unavailable() {
        return sim::skip(&format!("abi_machine::{name}"), &reason);
    }
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("program");
    build(&prefix(), Link::Shared, &[&source(program)], &binary);
    succeed(&mut sim::under(options, &binary));
}

/// Each export on a thread of its own; also while everything is logged, and with SVM.
#[test]
fn no_entry_registers_work_for_the_end_of_its_thread() {
    every_entry("no_entry_registers_work_for_the_end_of_its_thread", "exit_work.c");
}

#[test]
fn case_98_a_cancelled_thread_ends_after_the_entry_not_in_it() {
    every_entry("case_98_a_cancelled_thread_ends_after_the_entry_not_in_it", "cancelled.c");
}

/// Where the entry lets cancellation through again a thread of the asynchronous type ends, inside of the entry.
#[test]
fn a_thread_that_may_end_anywhere_ends_after_the_work_of_the_entry() {
    run("a_thread_that_may_end_anywhere_ends_after_the_work_of_the_entry", &["--svm", "off"], "cancelled_at_once.c");
}

/// The installed library: as built for users, symbols bound at start. Also with many GPUs, while SVM is reserved up front (the
/// second context finds no room), with high trees, and where the driver refuses: undoing and logging need stack as well.
#[test]
fn case_94_no_entry_needs_more_than_half_of_the_smallest_stack() {
    let name = "case_94_no_entry_needs_more_than_half_of_the_smallest_stack";
    every_entry(name, "stacks.c");
    if sim::unavailable().is_some() {
        return;
    }
    let entries = Entries::build("stacks.c");
    entries.run(&["--svm", "on", "--gpus", "63"], &[]);
    entries.run(&["--svm", "off"], &[("HIGH_TREES", "1")]);
    let refused = [("HSAKMT_DEBUG_LEVEL", "7"), ("ANY_STATUS", "1")];
    entries.run(&["--svm", "on"], &[("HSA_RESERVE_SVM", "1"), refused[0], refused[1]]);
    for verb in
        ["open", "version", "apertures", "acquire_vm", "policy", "alloc", "map", "unmap", "free", "create_process"]
    {
        entries.run(&["--svm", "on", "--fault", &format!("{verb}:*=ENOMEM")], &refused);
    }
}

/// The machines on which every export is called: without and with SVM, and one whose GPUs change.
const MACHINES: [&[&str]; 3] = [&["--svm", "off"], &["--svm", "on"], &["--svm", "off", "--next", "0xa102"]];

/// Runs a program that calls every export, silent and with everything logged.
fn every_entry(name: &str, program: &str) {
    if let Some(reason) = sim::unavailable() {
        return sim::skip(&format!("abi_machine::{name}"), &reason);
    }
    let entries = Entries::build(program);
    for options in MACHINES {
        for level in ["", "7"] {
            entries.run(options, &[("HSAKMT_DEBUG_LEVEL", level)]);
        }
    }
}

/// A program that calls every export, and their names.
struct Entries {
    _folder: tempfile::TempDir,
    binary: std::path::PathBuf,
    names: Vec<String>,
}

impl Entries {
    fn build(program: &str) -> Entries {
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join("program");
        // The program names the entries at run time only.
        let flags = ["-Wall", "-Wextra", "-Werror", "-pthread", "-Wl,--no-as-needed", "-Wl,-z,now"];
        build_with(&prefix(), Link::Shared, &flags, &[&source(program)], &binary);
        let script = std::fs::read_to_string(workspace().join("std-shim/libhsakmt.ver")).unwrap();
        let names = script.lines().filter_map(|line| line.trim().strip_suffix(';'));
        let names: Vec<String> = names.filter(|name| name.starts_with("hsaKmt")).map(str::to_owned).collect();
        assert!(names.len() > 120, "{names:?}");
        Entries { _folder: folder, binary, names }
    }

    fn run(&self, options: &[&str], variables: &[(&str, &str)]) {
        let mut command = sim::under(options, &self.binary);
        succeed(command.args(&self.names).envs(variables.iter().copied()));
    }
}

/// The program's own `dlopen` stands in for the machine's: libdrm as it was, as it is, and none.
#[test]
fn a_gpu_has_one_libdrm_handle_from_its_first_caller_to_the_close() {
    const NAME: &str = "abi_machine::a_gpu_has_one_libdrm_handle_from_its_first_caller_to_the_close";
    if let Some(reason) = sim::unavailable() {
        return sim::skip(NAME, &reason);
    }
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("program");
    let flags = ["-Wall", "-Werror", "-pthread", "-rdynamic", "-Wno-pedantic"];
    build_with(&prefix(), Link::Shared, &flags, &[&source("libdrm_handle.c")], &binary);
    let fake = |name: &str, flags: &[&str]| {
        let library = folder.path().join(name);
        let mut cc = Command::new("cc");
        succeed(
            cc.args(["-shared", "-fPIC", "-Wall", "-Werror"])
                .args(flags)
                .arg(source("libdrm_fake.c"))
                .arg("-o")
                .arg(&library),
        );
        library
    };
    let (older, newer) = (fake("older.so", &[]), fake("newer.so", &["-DNEWER"]));
    for (library, is_newer) in [(Path::new("none"), "0"), (&older, "0"), (&newer, "1")] {
        succeed(sim::under(&["--svm", "off"], &binary).arg(library).arg(is_newer));
    }
}

#[test]
fn libdrm_takes_the_handle() {
    const NAME: &str = "abi_machine::libdrm_takes_the_handle";
    if let Some(reason) = sim::unavailable() {
        return sim::skip(NAME, &reason);
    }
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("program");
    build(&prefix(), Link::Shared, &[&source("libdrm_real.c")], &binary);
    if !sim::has_library("libdrm_amdgpu.so.1") {
        return sim::skip(NAME, "no libdrm-amdgpu1");
    }
    succeed(&mut sim::under(&["--svm", "off"], &binary));
}
