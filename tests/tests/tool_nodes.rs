//! `hsakmt nodes`, and what both commands share: usage errors, help, output that nobody reads.

use std::io::Read;
use std::process::Stdio;

use hsakmt_tests::{sim, tool};
use serde_json::Value;

fn nodes(arguments: &[&str]) -> Vec<Value> {
    let output = tool::run(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("an array on stdout")
}

#[test]
fn json_has_the_machine() {
    let nodes = nodes(&["nodes", "--json", "--simulated=gfx90a"]);
    assert_eq!(nodes.len(), 3);
    for (id, node) in nodes.iter().enumerate() {
        assert_eq!(node["node"], id);
        for (count, list) in [
            ("NumMemoryBanks", "MemoryProperties"),
            ("NumCaches", "CacheProperties"),
            ("NumIOLinks", "IoLinkProperties"),
        ] {
            assert_eq!(node[count], node[list].as_array().unwrap().len(), "{count} of node {id}");
        }
        assert!(!node["IoLinkProperties"].as_array().unwrap().is_empty(), "node {id} has links");
    }
    assert!(nodes[0]["NumCPUCores"].as_u64().unwrap() > 0 && nodes[0]["gfx"].is_null());
    assert_eq!((&nodes[1]["gfx"], &nodes[1]["EngineId"]["Major"]), (&"gfx90a".into(), &9.into()));
    let heaps = |node: &Value| -> Vec<u64> {
        node["MemoryProperties"].as_array().unwrap().iter().map(|bank| bank["HeapType"].as_u64().unwrap()).collect()
    };
    assert_eq!(heaps(&nodes[0]), [0]);
    assert_eq!(heaps(&nodes[1])[0], 1, "VRAM the host sees");
    assert!(heaps(&nodes[1]).contains(&6), "the SVM range");
}

#[test]
fn every_simulated_machine_is_shown() {
    for (machine, count) in [("gfx90a", 3), ("gfx942", 9), ("gfx1100", 2), ("apu", 1), ("none", 1)] {
        let option = format!("--simulated={machine}");
        assert_eq!(nodes(&["nodes", "--json", &option]).len(), count, "{machine}");
        let output = tool::run(&["nodes", &option]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{machine}");
        for word in [machine, "Nodes", "Memory banks", "Caches", "Links", "host memory"] {
            assert!(text.contains(word), "{machine}: {word}: {text}");
        }
    }
}

#[test]
fn under_kfd_sim_it_is_dev_kfd() {
    if let Some(reason) = sim::unavailable() {
        return sim::skip("under_kfd_sim_it_is_dev_kfd", &reason);
    }
    let output = sim::under(&[], tool::hsakmt()).args(["nodes"]).output().unwrap();
    let text = sim::lines(&output);
    assert!(text[0].starts_with("/dev/kfd: KFD interface 1."), "{text:?}");
    let output = sim::under(&["--fault", "open:1=EACCES"], tool::hsakmt()).args(["nodes"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("/dev/kfd: Permission denied") && said.contains("render"), "{said}");
}

/// Each refusal by its own name, and no guess.
#[test]
fn what_the_machine_refused_is_told() {
    if let Some(reason) = sim::unavailable() {
        return sim::skip("what_the_machine_refused_is_told", &reason);
    }
    let refusals = [
        ("open:1=EINVAL", "/dev/kfd: Invalid argument", "has no GPU node"),
        ("version:1=EIO", "/dev/kfd: AMDKFD_IOC_GET_VERSION: Input/output error", "HSAKMT_STATUS_ERROR"),
        ("open:3=EACCES", "nodes/2/properties: /dev/dri/renderD129: Permission denied", "render"),
        ("open:7=EMFILE", "/dev/dri/renderD129 of GPU 0xa102: Too many open files", "ulimit"),
        (
            "apertures:*=EINVAL,apertures_old:*=EINVAL",
            "AMDKFD_IOC_GET_PROCESS_APERTURES_NEW: error 22 (Invalid argument)",
            "dmesg",
        ),
        ("acquire_vm:1=EBUSY", "AMDKFD_IOC_ACQUIRE_VM of GPU 0xa001: error 16 (Device or resource busy)", "dmesg"),
    ];
    for (fault, reason, advice) in refusals {
        for command in ["nodes", "demo"] {
            if (command, fault) == ("demo", "open:1=EINVAL") {
                continue;
            }
            let output = sim::under(&["--fault", fault], tool::hsakmt()).arg(command).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{fault}: {said}");
            assert!(said.contains(reason) && said.contains(advice), "{fault}: {said}");
        }
    }
    // A simulated machine's topology is not the host's.
    let mut command = tool::command(&["nodes", "--simulated"]);
    let output = command.env("HSA_OVERRIDE_GFX_VERSION", "nine").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("HSA_OVERRIDE_GFX_VERSION is \"nine\""), "{said}");
}

#[test]
fn wrong_usage_is_2_and_help_is_0() {
    for line in [&["--frobnicate"][..], &["demon"], &["demo", "extra"], &["nodes", "--simulated=gfx1"], &[]] {
        let output = tool::run(line);
        assert_eq!(output.status.code(), Some(2), "{line:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{line:?}");
    }
    let said = tool::run(&["nodes", "--simulated=gfx1"]).stderr;
    assert!(String::from_utf8_lossy(&said).contains("gfx1100"), "it names what there is");
    for line in [&["--help"][..], &["demo", "--help"], &["nodes", "--help"]] {
        let output = tool::run(line);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{line:?}");
        assert!(text.contains("Examples:") && !text.contains('\x1b'), "{line:?}: {text}");
    }
    assert_eq!(tool::run(&["--version"]).status.code(), Some(0));
}

#[test]
fn nobody_has_to_read_it() {
    for line in [&["nodes", "--simulated=gfx942"][..], &["demo", "--json", "--simulated"], &["--help"]] {
        // Without a reader.
        let mut running = tool::command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(running.stdout.take());
        let mut said = String::new();
        running.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(running.wait().unwrap().code(), Some(0), "{line:?}: {said}");
        assert!(!said.contains("panic"), "{line:?}: {said}");
    }
}

#[test]
fn a_full_disk_is_a_failure() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let Ok(full) = full else { return sim::skip("a_full_disk_is_a_failure", "no /dev/full") };
    let output = tool::command(&["nodes", "--simulated"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("standard output: No space left"));
}
