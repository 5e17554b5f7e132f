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
