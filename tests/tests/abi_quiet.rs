//! The installed library's query under a filter that lets no system call through, its mallocs counted
//! (`tests/abi/quiet.c`). What `reads_do_nothing_else` shows of the crate, here of what users get.

use std::path::Path;
use std::process::Command;

use hsakmt_tests::install::{Link, build_with, prefix};
use hsakmt_tests::sim;

/// What the program said, and its exit code; `None` where it cannot run.
fn quiet(test: &str, plant: &[&str]) -> Option<(String, Option<i32>)> {
    if let Some(reason) = sim::unavailable() {
        sim::skip(&format!("abi_quiet::{test}"), &reason);
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("quiet");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("abi/quiet.c");
    build_with(&prefix(), Link::Shared, &["-Wall", "-pthread"], &[&source], &binary);
    let mut program: Command = sim::under(&["--svm", "off"], binary);
    let output = program.args(plant).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    Some((String::from_utf8_lossy(&said).into_owned(), output.status.code()))
}

#[test]
fn a_query_of_the_installed_library_does_nothing_else() {
    let Some((said, code)) = quiet("a_query_of_the_installed_library_does_nothing_else", &[]) else { return };
    println!("{said}");
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_planted_malloc_is_noticed() {
    let Some((said, code)) = quiet("a_planted_malloc_is_noticed", &["malloc"]) else { return };
    assert!(code == Some(1) && said.contains("allocated or freed 10000000 times"), "{code:?}: {said}");
}

#[test]
fn a_planted_system_call_is_noticed() {
    let Some((said, code)) = quiet("a_planted_system_call_is_noticed", &["syscall"]) else { return };
    assert!(code == Some(1) && said.contains("system call 1"), "{code:?}: {said}");
}
