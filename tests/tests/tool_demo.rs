//! `hsakmt demo`: the JSON's fields, the truth of its answers, the table, the exit code.

use hsakmt_tests::{sim, tool};
use serde_json::{Map, Value};

/// DESIGN.md "Contracts": these and no other.
const FIELDS: [&str; 14] = [
    "query",
    "address",
    "status",
    "Type",
    "Node",
    "MemFlags",
    "CPUAddress",
    "GPUAddress",
    "SizeInBytes",
    "NRegisteredNodes",
    "NMappedNodes",
    "RegisteredNodes",
    "MappedNodes",
    "UserData",
];

fn answers(arguments: &[&str]) -> Vec<Map<String, Value>> {
    let output = tool::run(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("queries/s"), "the measurement goes to stderr: {said}");
    serde_json::from_slice(&output.stdout).expect("an array of objects on stdout")
}

fn find<'a>(answers: &'a [Map<String, Value>], query: &str) -> &'a Map<String, Value> {
    let found = answers.iter().find(|answer| answer["query"] == query);
    found.unwrap_or_else(|| panic!("no query {query:?}"))
}

/// The number in an address string, 0 for null.
fn address(value: &Value) -> u64 {
    match value {
        Value::Null => 0,
        Value::String(text) => u64::from_str_radix(text.strip_prefix("0x").expect("0x"), 16).expect("hexadecimal"),
        other => panic!("{other} is no address"),
    }
}

#[test]
fn every_element_has_exactly_the_fields_of_the_contract() {
    for answer in answers(&["demo", "--json", "--simulated"]) {
        let mut names: Vec<&str> = answer.keys().map(String::as_str).collect();
        let mut wanted = FIELDS;
        names.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(names, wanted);
        for name in ["address", "CPUAddress", "GPUAddress", "UserData"] {
            address(&answer[name]);
        }
        for name in ["Node", "MemFlags", "SizeInBytes", "NRegisteredNodes", "NMappedNodes"] {
            assert!(answer[name].is_u64(), "{name} of {answer:?}");
        }
        for (count, list) in [("NRegisteredNodes", "RegisteredNodes"), ("NMappedNodes", "MappedNodes")] {
            let nodes = answer[list].as_array().map_or(0, Vec::len);
            assert_eq!(answer[count], nodes, "{answer:?}");
            assert_eq!(answer[list].is_null(), nodes == 0, "NULL as null: {answer:?}");
        }
        let kind = answer["Type"].as_str().expect("a name");
        let status = if kind == "HSA_POINTER_UNKNOWN" { "HSAKMT_STATUS_ERROR" } else { "HSAKMT_STATUS_SUCCESS" };
        assert!(kind.starts_with("HSA_POINTER_") && answer["status"] == status, "{answer:?}");
    }
}

#[test]
fn the_answers_are_true() {
    let answers = answers(&["demo", "--json", "--simulated=gfx90a"]);
    let kinds = [
        ("VRAM", "ALLOCATED"),
        ("host-visible VRAM", "ALLOCATED"),
        ("GTT", "ALLOCATED"),
        ("paged", "ALLOCATED"),
        ("AQL ring", "ALLOCATED"),
        ("reserved address", "RESERVED_ADDR"),
        ("userptr, unaligned", "REGISTERED_USER"),
        ("userptr, outer", "REGISTERED_USER"),
        ("userptr, nested", "REGISTERED_USER"),
        ("userptr, to nodes", "REGISTERED_USER"),
    ];
    for (name, kind) in kinds {
        let at = |what: &str| find(&answers, &format!("{name}: {what}"));
        let start = at("start");
        assert_eq!(start["Type"], format!("HSA_POINTER_{kind}"), "{name}");
        for what in ["inside", "last byte"] {
            let same = ["Type", "Node", "MemFlags", "CPUAddress", "GPUAddress", "SizeInBytes", "MappedNodes"];
            assert!(same.iter().all(|field| at(what)[*field] == start[*field]), "{name}: {what}");
        }
        let past = address(&start["address"]) + start["SizeInBytes"].as_u64().unwrap();
        assert_eq!(address(&at("one past end")["address"]), past, "{name}");
        if name != "userptr, nested" {
            assert_eq!(at("one past end")["Type"], "HSA_POINTER_UNKNOWN", "{name}");
        }
    }
    let outer = find(&answers, "userptr, outer: start");
    assert_eq!(find(&answers, "userptr, nested: one past end")["CPUAddress"], outer["CPUAddress"]);
    let unaligned = find(&answers, "userptr, unaligned: start");
    assert_eq!(address(&unaligned["GPUAddress"]) & 0xfff, 0xff0);
    assert_eq!((&unaligned["SizeInBytes"], &unaligned["MemFlags"]), (&0x20.into(), &0x2000.into()));
    assert_eq!(find(&answers, "userptr, unaligned: GPU address")["CPUAddress"], unaligned["CPUAddress"]);
    assert_eq!(find(&answers, "userptr, to nodes: start")["RegisteredNodes"], serde_json::json!([1, 2]));
    let visible = find(&answers, "host-visible VRAM: start");
    assert_eq!((&visible["MappedNodes"], &visible["UserData"]), (&serde_json::json!([1]), &"0xfeed".into()));
    assert_eq!(find(&answers, "AQL ring: start")["SizeInBytes"], 0x8000);
    assert_eq!(find(&answers, "reserved address: start")["CPUAddress"], Value::Null);
    let unknown = answers.iter().filter(|answer| answer["query"].as_str().unwrap().starts_with("unknown: "));
    assert!(unknown.clone().count() >= 6 && unknown.clone().all(|answer| answer["Type"] == "HSA_POINTER_UNKNOWN"));
}

#[test]
fn every_simulated_machine_with_a_gpu_runs_it() {
    for machine in ["gfx942", "gfx1100", "apu"] {
        let option = format!("--simulated={machine}");
        assert!(answers(&["demo", "--json", &option]).len() > 20, "{machine}");
    }
}

#[test]
fn without_svm_shared_memory_has_objects() {
    let output = tool::command(&["demo", "--json", "--simulated=gfx942"]).env("HSA_USE_SVM", "0").output().unwrap();
    let answers: Vec<Map<String, Value>> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(find(&answers, "userptr, unaligned: start")["Type"], "HSA_POINTER_REGISTERED_USER");
    let output = tool::run(&["demo", "--json", "--simulated=gfx942"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("HSA_USE_SVM=0"));
}

#[test]
fn the_table_says_which_machine_and_ends_with_the_measurement() {
    let output = tool::run(&["demo", "--simulated"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.lines().next().unwrap().contains("simulated machine gfx90a"), "{text}");
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("10000 VRAM objects") && last.contains("million queries/s"), "{last}");
    assert!(text.contains("RESERVED_ADDR") && text.contains("UNKNOWN (ERROR)"), "{text}");
    assert!(!text.contains('\x1b'), "no colours in a pipe");
}

#[test]
fn a_machine_without_the_device_is_simulated_and_says_so() {
    if std::path::Path::new("/dev/kfd").exists() {
        return sim::skip("a_machine_without_the_device_is_simulated_and_says_so", "this machine has a /dev/kfd");
    }
    let said = String::from_utf8(tool::run(&["demo", "--json"]).stderr).unwrap();
    let why = "simulated machine gfx90a in this process (/dev/kfd: No such file or directory";
    assert!(said.starts_with(why), "{said}");
}

#[test]
fn a_machine_without_a_gpu_is_a_failure_that_says_so() {
    let output = tool::run(&["demo", "--simulated=none"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no GPU"));
}

#[test]
fn the_simulation_in_the_process_and_the_one_behind_it_answer_alike() {
    if let Some(reason) = sim::unavailable() {
        return sim::skip("the_simulation_in_the_process_and_the_one_behind_it_answer_alike", &reason);
    }
    let supervised = sim::under(&[], tool::hsakmt()).args(["demo", "--json"]).output().unwrap();
    let said = String::from_utf8_lossy(&supervised.stderr);
    assert!(supervised.status.success() && said.starts_with("/dev/kfd: "), "{said}");
    let supervised: Vec<Map<String, Value>> = serde_json::from_slice(&supervised.stdout).unwrap();
    let embedded = answers(&["demo", "--json", "--simulated=gfx90a"]);
    assert_eq!(without_addresses(&supervised), without_addresses(&embedded));
}

/// What two runs must share: all but where things are.
fn without_addresses(answers: &[Map<String, Value>]) -> Vec<Map<String, Value>> {
    let places = ["address", "CPUAddress", "GPUAddress"];
    let strip = |answer: &Map<String, Value>| {
        let kept = answer.iter().filter(|(name, _)| !places.contains(&name.as_str()));
        kept.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    answers.iter().map(strip).collect()
}

/// A driver without a GPU node: it opens, or (since Linux 7.2) refuses to.
#[test]
fn without_a_gpu_node_the_simulated_machine_takes_its_place() {
    let name = "without_a_gpu_node_the_simulated_machine_takes_its_place";
    if let Some(reason) = sim::unavailable() {
        return sim::skip(name, &reason);
    }
    for options in [["--preset", "none"], ["--fault", "open:1=EINVAL"]] {
        let output = sim::under(&options, tool::hsakmt()).args(["demo"]).output().expect("kfd-sim runs");
        let lines = sim::lines(&output);
        let says = "simulated machine gfx90a in this process (/dev/kfd has no GPU node): KFD interface 1.14, 3 nodes";
        assert!(lines[0].starts_with(says), "{options:?}: {lines:#?}");
        assert!(lines.iter().any(|line| line.contains("queries/s")), "{options:?}: {lines:#?}");
    }
}
