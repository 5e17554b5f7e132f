//! Is the simulated kernel right? `golden.c` on Debian's libhsakmt 5.2.3 under kfd-sim prints what the recording says,
//! line by line: the real library, which knows nothing of us, finds the kernel it expects.

use std::path::{Path, PathBuf};

use hsakmt_tests::install::workspace;
use hsakmt_tests::sim;

fn golden(name: &str) -> PathBuf {
    workspace().join("tests/golden").join(name)
}

/// The host's caches are the only thing on a recording that is not the simulated machine's.
fn without_caches(line: &str) -> String {
    let host = line.starts_with("node 0:");
    let words = line.split(' ').map(|word| if host && word.starts_with("caches=") { "caches=host" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn the_real_library_finds_the_kernel_it_expects() {
    const NAME: &str = "sim_golden::the_real_library_finds_the_kernel_it_expects";
    if let Err(reason) = sim::debian_library() {
        return sim::skip(NAME, &reason);
    }
    if let Some(reason) = sim::unavailable() {
        return sim::skip(NAME, &reason);
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = folder.path().join("golden-5.2.3");
    sim::build_on_debian(&golden("golden.c"), &program, &["-DHSAKMT_H=\"hsakmt.h\""]);
    let output = sim::under(&[], &program).output().expect("kfd-sim runs");
    compare(&sim::lines(&output), &golden("libhsakmt-5.2.3.txt"));
}

fn compare(answers: &[String], recording: &Path) {
    let recorded = std::fs::read_to_string(recording).expect("the recording");
    let recorded: Vec<String> = recorded.lines().map(str::to_owned).collect();
    for (number, (ours, theirs)) in answers.iter().zip(&recorded).enumerate() {
        assert_eq!(without_caches(ours), without_caches(theirs), "line {}", number + 1);
    }
    assert_eq!(answers.len(), recorded.len(), "the number of lines");
}
