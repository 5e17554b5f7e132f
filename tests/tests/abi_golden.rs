//! Does our library answer as the C library did? `golden.c` on our header and our `libhsakmt.so.1` under kfd-sim,
//! line by line against the recordings of the 2025-08 library.
//!
//! The lines that our rules answer differently are listed here as in `tests/golden/README.md`, each with what it must
//! end in or contain. Any other difference fails, and so does a listed line that equals the recording.

use std::path::PathBuf;

use hsakmt_tests::install::{Link, build_with, prefix, workspace};
use hsakmt_tests::sim;

/// A line that differs, and a part of what ours must say there.
type Ours = (usize, &'static str);

/// The smaller of two registrations of one address goes first, and both can go; a registration that is still mapped
/// stays, and can go later; size 0 makes no registration; a forked child allocates without ado.
const WITHOUT_SVM: &[Ours] = &[
    (167, "-> SUCCESS"),
    (203, "-> SUCCESS"),
    (204, "GPU=G5 Size=0x3000"),
    (243, "-> ERROR"),
    (248, "Type=UNKNOWN"),
    (249, "-> MEMORY_NOT_REGISTERED"),
    (250, "Type=UNKNOWN"),
    (297, "-> ERROR"),
    (298, "Type=UNKNOWN"),
    (356, "-> SUCCESS"),
    (357, "Type=ALLOCATED"),
    (359, "-> SUCCESS"),
    (360, "Type=ALLOCATED"),
];

const WITH_SVM: &[Ours] = &[(356, "-> SUCCESS"), (357, "Type=ALLOCATED"), (359, "-> SUCCESS"), (360, "Type=ALLOCATED")];

const SVM_FAILS: &[Ours] = &[
    (243, "-> ERROR"),
    (248, "Type=UNKNOWN"),
    (250, "Type=UNKNOWN"),
    (297, "-> ERROR"),
    (298, "Type=UNKNOWN"),
    (356, "-> SUCCESS"),
    (357, "Type=ALLOCATED"),
    (359, "-> SUCCESS"),
    (360, "Type=ALLOCATED"),
];

#[test]
fn without_the_svm_api() {
    compare("without_the_svm_api", &["--svm", "off"], "libhsakmt-2025-08.txt", WITHOUT_SVM);
}

#[test]
fn with_the_svm_api() {
    compare("with_the_svm_api", &["--svm", "accept-all"], "libhsakmt-2025-08-svm.txt", WITH_SVM);
}

#[test]
fn with_an_svm_api_that_fails() {
    let recording = "libhsakmt-2025-08-svm-ioctl-fails.txt";
    compare("with_an_svm_api_that_fails", &["--svm", "fail=EPERM"], recording, SVM_FAILS);
}

fn compare(name: &str, options: &[&str], recording: &str, ours: &[Ours]) {
    if let Some(reason) = sim::unavailable() {
        return sim::skip(&format!("abi_golden::{name}"), &reason);
    }
    let golden = workspace().join("tests/golden");
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("golden");
    let flags = ["-w", "-DNEWTHUNK", "-DHSAKMT_H=\"hsakmt/hsakmt.h\""];
    build_with(&prefix(), Link::Shared, &flags, &[&golden.join("golden.c")], &program);
    let output = sim::under(options, &program).output().expect("kfd-sim runs");
    let answers = sim::lines(&output);
    let recorded = read(golden.join(recording));
    assert_eq!(answers.len(), recorded.len(), "the number of lines");
    for (number, (answer, recorded)) in (1..).zip(answers.iter().zip(&recorded)) {
        let (answer, recorded) = (without_host(answer), without_host(recorded));
        match ours.iter().find(|(line, _)| *line == number) {
            None => assert_eq!(answer, recorded, "line {number}"),
            Some((_, part)) => {
                assert!(answer != recorded && answer.contains(part), "line {number} must say {part}: {answer}");
            }
        }
    }
}

fn read(path: PathBuf) -> Vec<String> {
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(str::to_owned).collect()
}

/// The host's caches are the only thing on a recording that is not the simulated machine's.
fn without_host(line: &str) -> String {
    let host = line.starts_with("node 0:");
    let words = line.split(' ').filter(|word| !(host && word.starts_with("caches=")));
    words.collect::<Vec<_>>().join(" ")
}
