//! The calls beside memory, on a simulated machine: what they answer here and in the original (`tests/abi/services.c`).

use std::path::{Path, PathBuf};

use hsakmt_tests::install::{Abi, Link, build_with, prefix, prefix_of, succeed};
use hsakmt_tests::sim;

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("abi").join(name)
}

#[test]
fn both_layouts_and_the_original_answer_the_same() {
    const NAME: &str = "abi_services::both_layouts_and_the_original_answer_the_same";
    if let Some(reason) = sim::unavailable() {
        return sim::skip(NAME, &reason);
    }
    let folder = tempfile::tempdir().unwrap();
    let [newer, older, original] = ["newer", "older", "original"].map(|name| folder.path().join(name));
    let services = source("services.c");
    let top = ["-Wall", "-DHSAKMT_H=\"hsakmt.h\""];
    build_with(&prefix(), Link::Shared, &["-Wall", "-DHSAKMT_H=\"hsakmt/hsakmt.h\""], &[&services], &newer);
    build_with(&prefix_of(Abi::Of5_2_3), Link::Shared, &top, &[&services], &older);
    let has_original = sim::debian_library();
    match &has_original {
        Ok(()) => sim::build_on_debian(&services, &original, &top),
        Err(reason) => sim::skip(NAME, &format!("{reason}: only our two layouts are compared")),
    }
    for preset in ["gfx90a", "gfx942", "gfx1100", "apu", "none"] {
        let on_machine =
            |program| sim::lines(&sim::under(&["--preset", preset], program).output().expect("kfd-sim runs"));
        let told = on_machine(&newer);
        assert_eq!(told, on_machine(&older), "{preset}: the layouts differ");
        if has_original.is_ok() {
            assert_eq!(told, on_machine(&original), "{preset}: the original differs");
        }
    }
}

#[test]
fn waits_hold_nothing_up_and_outlast_a_close() {
    const NAME: &str = "abi_services::waits_hold_nothing_up_and_outlast_a_close";
    if let Some(reason) = sim::unavailable() {
        return sim::skip(NAME, &reason);
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("waits");
    build_with(&prefix(), Link::Shared, &["-Wall", "-Werror", "-pthread"], &[&source("waits.c")], &program);
    for preset in ["gfx90a", "apu"] {
        succeed(&mut sim::under(&["--preset", preset, "--svm", "off"], &program));
    }
}

#[test]
fn threads_and_children_do_all_at_once() {
    const NAME: &str = "abi_services::threads_and_children_do_all_at_once";
    const CHILDREN: usize = 10;
    if let Some(reason) = sim::unavailable() {
        return sim::skip(NAME, &reason);
    }
    let folder = tempfile::tempdir().unwrap();
    let (program, log) = (folder.path().join("all_at_once"), folder.path().join("log"));
    build_with(&prefix(), Link::Shared, &["-Wall", "-Werror", "-pthread"], &[&source("all_at_once.c")], &program);
    for preset in ["gfx90a", "gfx1100", "gfx942"] {
        succeed(&mut sim::under(&["--preset", preset, "--log", log.to_str().unwrap()], &program));
        let calls = std::fs::read_to_string(&log).unwrap();
        let done = |call: &str| {
            let name = format!("\"call\":\"{call}\"");
            calls.lines().filter(|line| line.contains(&name) && line.contains("\"result\":\"ok\"")).count()
        };
        assert!(done("create_queue") > 100, "{preset}: {} queues", done("create_queue"));
        assert_eq!(done("create_queue"), done("destroy_queue"), "{preset}: queues");
        assert_eq!(done("create_event"), done("destroy_event"), "{preset}: events");
        // Each process keeps its event page as long as it lives.
        assert_eq!(done("map"), done("unmap") + 1 + CHILDREN, "{preset}: mappings");
    }
}
