//! Every C entry with arguments no sane caller passes (`tests/abi/hostile.c`).

use std::path::{Path, PathBuf};
use std::process::Command;

use hsakmt_tests::install::{Link, build, prefix, succeed};
use hsakmt_tests::sim;

fn program(folder: &Path) -> PathBuf {
    let binary = folder.join("hostile");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("abi/hostile.c");
    build(&prefix(), Link::Shared, &[&source], &binary);
    binary
}

#[test]
fn entries_of_a_closed_library_refuse_and_write_nothing() {
    let folder = tempfile::tempdir().unwrap();
    succeed(Command::new(program(folder.path())).arg("closed"));
}

#[test]
fn entries_of_an_open_library_survive() {
    if let Some(reason) = sim::unavailable() {
        return sim::skip("abi_hostile::entries_of_an_open_library_survive", &reason);
    }
    let folder = tempfile::tempdir().unwrap();
    succeed(sim::under(&["--svm", "off"], program(folder.path())).arg("open"));
}
