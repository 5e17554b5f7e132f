//! The fuzz targets without a fuzzer: the committed inputs again, and some thousands of generated ones.
//!
//! What once went wrong lies in `tests/fuzz/seeds/NAME` beside a few ordinary inputs; each must go through. The generated
//! ones come from a fixed seed, so that a failure here is one tomorrow; chance is libFuzzer's (`tests/run --full`). A run
//! that fails prints its bytes, which `cargo fuzz run` and `fmt` take from a file.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use hsakmt_tests::fuzz::{TARGETS, Target};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// Enough, however fast the machine.
const MOST: usize = 4_000;

/// Fewer than these are no test, however slow it is.
const LEAST: usize = 200;

/// No more are begun after this.
const TIME: Duration = Duration::from_secs(8);

fn target(name: &str) -> Target {
    TARGETS.iter().find(|(known, _)| *known == name).expect("a target").1
}

/// One run; its bytes are printed if it fails.
fn once(target: Target, bytes: &[u8], what: &str) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(bytes))) {
        eprintln!("{what}: {} bytes: {bytes:02x?}", bytes.len());
        resume_unwind(panic);
    }
}

fn replay(name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(name);
    let files = std::fs::read_dir(&folder).expect("committed inputs");
    let mut files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    for file in files {
        let bytes = std::fs::read(&file).expect("a file");
        once(target(name), &bytes, &file.display().to_string());
    }
}

fn generated(name: &str) {
    let (begin, target) = (Instant::now(), target(name));
    let mut chance = TestRunner::deterministic();
    let mut done = 0;
    while done < LEAST || (done < MOST && begin.elapsed() < TIME) {
        let bytes = prop::collection::vec(any::<u8>(), 0..[16, 64, 256, 2048][done % 4]);
        let bytes = bytes.new_tree(&mut chance).expect("bytes").current();
        once(target, &bytes, "generated");
        done += 1;
    }
    println!("{done} inputs");
}

#[test]
fn committed_inputs_of_objects() {
    replay("objects");
}

#[test]
fn generated_inputs_of_objects() {
    generated("objects");
}

#[test]
fn committed_inputs_of_manager() {
    replay("manager");
}

#[test]
fn generated_inputs_of_manager() {
    generated("manager");
}

#[test]
fn committed_inputs_of_c_abi() {
    replay("c_abi");
}

#[test]
fn generated_inputs_of_c_abi() {
    generated("c_abi");
}
