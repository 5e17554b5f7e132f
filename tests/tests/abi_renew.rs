//! Case 84: a topology that changes between Release and Acquire (`abi/renew.c` under `kfd-sim --next`).
//!
//! The program says which GPU each of its allocations must be on; the simulator's log says which it was on.

use std::path::Path;

use hsakmt_tests::install::{Link, build, prefix};
use hsakmt_tests::sim;
use serde_json::Value;

/// HSAKMT_STATUS_SUCCESS and HSAKMT_STATUS_ERROR.
const SUCCESS: &str = "0";
const ERROR: &str = "1";

/// Number of GPUs; what the kernel shows next; the way to run; the next Acquire's status.
type Run = (&'static str, &'static [&'static str], &'static str, &'static str);

const RUNS: &[Run] = &[
    // Node 2 takes node 3's GPU.
    ("3", &["0xa001,0xa203"], "free", SUCCESS),
    ("2", &["0xa102,0xa001"], "free", SUCCESS),
    ("3", &["0xa203,0xa102,0xa001"], "free", SUCCESS),
    ("3", &["0xa304"], "free", SUCCESS),
    ("3", &["0"], "free", SUCCESS),
    ("3", &["0xa001,0xa102,0xa203"], "alive", SUCCESS),
    // What is alive is on nodes that are other GPUs now, or none.
    ("3", &["0xa001,0xa203"], "alive", ERROR),
    ("3", &["0xa001,0xa102"], "alive", ERROR),
    ("2", &["0xa102,0xa001"], "alive", ERROR),
    ("2", &["0xa102,0xa001"], "second", SUCCESS),
    ("3", &["0xa001,0xa203"], "second", SUCCESS),
];

#[test]
fn case_84_memory_goes_to_the_gpu_that_the_node_names_now() {
    const NAME: &str = "case_84_memory_goes_to_the_gpu_that_the_node_names_now";
    if let Some(reason) = sim::unavailable() {
        return sim::skip(&format!("abi_renew::{NAME}"), &reason);
    }
    let folder = tempfile::tempdir().unwrap();
    let [binary, log] = ["program", "log"].map(|name| folder.path().join(name));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("abi/renew.c");
    build(&prefix(), Link::Shared, &[&source], &binary);
    for run @ (gpus, next, way, status) in RUNS {
        for reserve in ["", "1"] {
            // A secondary context finds no room beside a reserved range.
            if !reserve.is_empty() && *way == "second" {
                continue;
            }
            // GPU 0xa304 is there from the start, and shown when its turn comes.
            let count = if next.iter().any(|next| next.contains("0xa304")) { "4" } else { gpus };
            let mut options = vec!["--svm", "off", "--gpus", count, "--log", log.to_str().unwrap()];
            next.iter().for_each(|next| options.extend(["--next", next]));
            let mut command = sim::under(&options, &binary);
            command.args([way, status]).env("HSA_RESERVE_SVM", reserve).env("HSAKMT_DEBUG_LEVEL", "3");
            let output = command.output().expect("kfd-sim runs");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let lines = sim::lines(&output);
            let allocations = lines.iter().filter_map(|line| line.strip_prefix("alloc "));
            compare(&format!("{run:?}"), &allocations.collect::<Vec<_>>(), &log);
            let refused = *status == ERROR;
            assert_eq!(said.contains("the topology has changed: node"), refused, "{run:?}: {said}");
        }
    }
}

/// Each allocation of the program, in order, is in the log, on the GPU that the program says.
fn compare(what: &str, allocations: &[&str], log: &Path) {
    let text = std::fs::read_to_string(log).unwrap();
    let calls = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
    let mut calls = calls.filter(|call| call["call"] == "alloc");
    assert!(allocations.len() > 1, "{what}");
    for allocation in allocations {
        let (address, gpu) = allocation.split_once(' ').unwrap();
        let call = calls.find(|call| call["in"]["va_addr"] == address);
        let call = call.unwrap_or_else(|| panic!("{what}: no allocation at {address}"));
        let gpu: u32 = gpu.parse().unwrap();
        assert_eq!(call["in"]["gpu_id"], format!("{gpu:#x}"), "{what}: {call}");
    }
}
