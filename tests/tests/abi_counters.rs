//! Performance counters: what `abi/counters.c` prints, as recorded on the C library in `tests/counters`
//! (`kfd-sim --preset NAME -- counters`, and `--machine machine.json` for one GPU of each kind).
//!
//! The recordings are of a C library with the interface 6.2.4 (ROCT 1.9). That of 2025-08 frees a trace before it returns its id, so that its later calls
//! read freed memory; ours keeps it as 6.2.4 does.

use hsakmt_tests::install::{Link, build, prefix, workspace};
use hsakmt_tests::sim;

#[test]
fn every_kind_of_gpu_has_the_counters_of_the_c_library() {
    if let Some(reason) = sim::unavailable() {
        return sim::skip("abi_counters::every_kind_of_gpu_has_the_counters_of_the_c_library", &reason);
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("counters");
    build(&prefix(), Link::Shared, &[&workspace().join("tests/abi/counters.c")], &program);
    let recorded = workspace().join("tests/counters");
    let machine = recorded.join("machine.json");
    for (options, name) in [
        (["--machine", machine.to_str().unwrap()], "machine.txt"),
        (["--preset", "gfx90a"], "gfx90a.txt"),
        (["--preset", "gfx1100"], "gfx1100.txt"),
    ] {
        let printed = sim::lines(&sim::under(&options, &program).output().expect("kfd-sim runs"));
        let wanted = std::fs::read_to_string(recorded.join(name)).unwrap();
        let wanted: Vec<&str> = wanted.lines().collect();
        sim::same_lines(name, &printed, &wanted);
    }
}
