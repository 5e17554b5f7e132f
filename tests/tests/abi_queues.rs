//! Queues: what `abi/queues.c` prints on our library and on Debian's 5.2.3, and which ioctls it makes on ours and on the
//! C library of 2025-08 (recorded in `tests/queues`: `kfd-sim --preset NAME --log FILE -- queues ioctls`, then [`ioctls`]).
//!
//! With that library's folder in `LD_LIBRARY_PATH` the tests run over it: `queues_make_the_ioctls_of_the_c_library` then says
//! whether the recordings are still what it does on this simulated kernel.
//!
//! Declared differences:
//! - On a gfx942, and on a gfx1100, 5.2.3 makes no compute queue: its context save area is too small for the kernel.
//! - On an APU 5.2.3 makes no compute queue, and 2025-08 makes no queue at all: it does not map the queue's host page.
//! - 5.2.3 has the queue's page as a userptr buffer where 2025-08 has GTT.
//! - 5.2.3 says a wrong place for a GPU's first doorbell; the program does not touch that one.
//! - An unknown kind leaves a page behind in both C libraries; the program then leaves it out.

use std::path::PathBuf;

use hsakmt_tests::install::{Link, build_with, prefix, workspace};
use hsakmt_tests::sim;

const NAME: &str = "abi_queues";
const PRESETS: [&str; 4] = ["gfx90a", "gfx942", "gfx1100", "apu"];

fn source() -> PathBuf {
    workspace().join("tests/abi/queues.c")
}

fn ours(folder: &tempfile::TempDir) -> PathBuf {
    let program = folder.path().join("queues");
    build_with(&prefix(), Link::Shared, &["-w"], &[&source()], &program);
    program
}

fn debians(folder: &tempfile::TempDir) -> PathBuf {
    let program = folder.path().join("queues-5.2.3");
    sim::build_on_debian(&source(), &program, &["-DHSAKMT_H=\"hsakmt.h\"", "-DOF_5_2_3"]);
    program
}

/// What it prints on a preset.
fn printed(program: &PathBuf, preset: &str) -> Vec<String> {
    sim::lines(&sim::under(&["--preset", preset], program).output().expect("kfd-sim runs"))
}

/// The ioctls about queues and their memory, without addresses and handles, from the first queue on.
fn ioctls(program: &PathBuf, preset: &str) -> Vec<String> {
    let log = tempfile::NamedTempFile::new().unwrap();
    let options = ["--preset", preset, "--log", log.path().to_str().unwrap()];
    sim::lines(&sim::under(&options, program).arg("ioctls").output().expect("kfd-sim runs"));
    let text = std::fs::read_to_string(log.path()).unwrap();
    let calls = text.lines().filter_map(|line| {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        let call = entry["call"].as_str()?;
        let known = ["alloc", "map", "unmap", "free", "svm", "cu_mask", "alloc_gws"].contains(&call)
            || call.ends_with("_queue");
        let mut shown = known.then(|| call.to_owned())?;
        for (name, value) in entry["in"].as_object()? {
            let varies = ["address", "addr", "ptr", "handle", "offset", "pad"].iter().any(|end| name.ends_with(end));
            if !varies {
                shown += &format!(" {name}={}", value.as_str()?);
            }
        }
        for list in ["gpus", "attributes"] {
            for word in entry[list].as_array().into_iter().flatten() {
                shown += &format!(" {}", word.as_str()?);
            }
        }
        Some(shown + " " + entry["result"].as_str()?)
    });
    // The first queue's page.
    calls.skip_while(|call| !call.starts_with("alloc flags=0xd600000")).collect()
}

#[test]
fn queues_answer_as_debians_library() {
    if let Some(reason) = sim::unavailable().or(sim::debian_library().err()) {
        return sim::skip(&format!("{NAME}::queues_answer_as_debians_library"), &reason);
    }
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = (ours(&folder), debians(&folder));
    for preset in PRESETS {
        let [mut ours, mut theirs] = [&ours, &theirs].map(|program| printed(program, preset));
        if preset != "gfx90a" {
            for lines in [&mut ours, &mut theirs] {
                let compute = |line: &String| line.starts_with("compute:") || line.starts_with("aql:");
                let start = lines.iter().position(compute).unwrap();
                let end = lines.iter().position(|line| line.starts_with("sdma:")).unwrap();
                lines.drain(start..end);
                let refused = lines.iter().position(|line| line.starts_with("odd ring:")).unwrap();
                lines.truncate(refused);
            }
        }
        sim::same_lines(preset, &ours, &theirs);
    }
}

#[test]
fn an_apu_has_every_kind_of_queue_that_it_has_engines_for() {
    if let Some(reason) = sim::unavailable() {
        return sim::skip(&format!("{NAME}::an_apu_has_every_kind_of_queue_that_it_has_engines_for"), &reason);
    }
    let folder = tempfile::tempdir().unwrap();
    let lines = printed(&ours(&folder), "apu");
    for kind in ["compute: 0", "aql: 0", "sdma: 0", "xgmi: 1"] {
        assert!(lines.iter().any(|line| line == kind), "{kind} is missing in {lines:#?}");
    }
}

#[test]
fn queues_make_the_ioctls_of_the_c_library() {
    if let Some(reason) = sim::unavailable() {
        return sim::skip(&format!("{NAME}::queues_make_the_ioctls_of_the_c_library"), &reason);
    }
    let folder = tempfile::tempdir().unwrap();
    let program = ours(&folder);
    for preset in &PRESETS[..3] {
        let recording = workspace().join("tests/queues").join(preset).with_extension("txt");
        let recorded = std::fs::read_to_string(&recording).unwrap();
        let recorded: Vec<&str> = recorded.lines().collect();
        sim::same_lines(preset, &ioctls(&program, preset), &recorded);
    }
    match sim::debian_library() {
        Err(reason) => sim::skip(&format!("{NAME}: the ioctls of 5.2.3"), &reason),
        Ok(()) => {
            let theirs = ioctls(&debians(&folder), "gfx90a");
            let theirs: Vec<String> = theirs.iter().map(|call| call.replace("0xd6000004", "0xd6000002")).collect();
            sim::same_lines("5.2.3", &ioctls(&program, "gfx90a"), &theirs);
        }
    }
}
