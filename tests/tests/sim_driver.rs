//! kfd-sim beside the kernel's own driver: what C programs of raw ioctls print, which need no GPU, as recorded on the real
//! amdkfd of Linux 6.12 in `tests/sim`.

use std::path::Path;
use std::process::Command;

use hsakmt_tests::install::{succeed, workspace};
use hsakmt_tests::sim;

fn prints_what_it_printed_on_the_real_driver(name: &str) {
    let sources = workspace().join("tests/sim");
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join(name);
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]).arg(sources.join(name).with_extension("c"));
    succeed(cc.arg("-o").arg(&program));
    let recorded = std::fs::read_to_string(sources.join(name).with_extension("txt")).unwrap();
    let wanted: Vec<&str> = recorded.lines().collect();
    for preset in ["none", "gfx942"] {
        let printed =
            sim::lines(&sim::under(&["--preset", preset], Path::new(&program)).output().expect("kfd-sim runs"));
        sim::same_lines(preset, &printed, &wanted);
    }
}

#[test]
fn a_debugger_and_the_process_that_it_traces() {
    if let Some(reason) = sim::unavailable() {
        return sim::skip("sim_driver::a_debugger_and_the_process_that_it_traces", &reason);
    }
    prints_what_it_printed_on_the_real_driver("attach");
}

#[test]
fn signals_for_a_thread_that_sleeps_in_the_driver() {
    if let Some(reason) = sim::unavailable() {
        return sim::skip("sim_driver::signals_for_a_thread_that_sleeps_in_the_driver", &reason);
    }
    prints_what_it_printed_on_the_real_driver("interrupted");
}
