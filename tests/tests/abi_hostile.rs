//! Every C entry with arguments no sane caller passes (`tests/abi/hostile.c`).

use std::path::Path;
use std::process::Command;

use hsakmt_tests::install::{Link, build, prefix, succeed};

#[test]
fn entries_of_a_closed_library_refuse_and_write_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("hostile");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("abi/hostile.c");
    build(&prefix(), Link::Shared, &[&source], &binary);
    succeed(Command::new(binary).arg("closed"));
}
