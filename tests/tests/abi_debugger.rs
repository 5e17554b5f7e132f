//! A process that debugs itself: what `abi/debugger.c` prints, as recorded on the C library of 2025-08 in `tests/debugger`
//! (`kfd-sim --preset NAME -- debugger`).

use hsakmt_tests::install::{Link, build, prefix, workspace};
use hsakmt_tests::sim;

#[test]
fn a_process_debugs_itself_as_with_the_c_library() {
    if let Some(reason) = sim::unavailable() {
        return sim::skip("abi_debugger::a_process_debugs_itself_as_with_the_c_library", &reason);
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("debugger");
    build(&prefix(), Link::Shared, &[&workspace().join("tests/abi/debugger.c")], &program);
    for preset in ["gfx90a", "gfx942"] {
        let printed = sim::lines(&sim::under(&["--preset", preset], &program).output().expect("kfd-sim runs"));
        let recorded = std::fs::read_to_string(workspace().join("tests/debugger").join(preset).with_extension("txt"));
        let recorded = recorded.unwrap();
        let wanted: Vec<&str> = recorded.lines().collect();
        sim::same_lines(preset, &printed, &wanted);
    }
}
