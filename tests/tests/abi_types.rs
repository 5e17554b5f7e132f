//! The Rust side of the C interface against the same tables: structs, statuses, and the list of what is not written.

use std::collections::BTreeSet;
use std::path::Path;

use hsakmt::capi;
use hsakmt::ctypes::LAYOUTS;
use hsakmt::status::Status;
use hsakmt_tests::install::workspace;
use hsakmt_tests::layout::{Extent, exports, table};

/// The table of the binary interface that this is built with (the features of this package).
const TYPES: &str = if cfg!(feature = "abi-5-2-3") {
    "hsakmttypes-5.2.3.tsv"
} else if cfg!(feature = "abi-6-2-4") {
    "hsakmttypes-6.2.4.tsv"
} else {
    "hsakmttypes-2025-08.tsv"
};

#[test]
fn the_rust_structs_are_the_tables() {
    let mut structs = table(TYPES).structs;
    structs.extend(table("hsakmttypes-cache.tsv").structs);
    // Structs of calls that an older version does not have are the newest's.
    structs.extend(table("hsakmttypes-2025-08.tsv").structs);
    for &(name, size, fields) in LAYOUTS {
        let want = structs.iter().find(|want| want.name == name).unwrap_or_else(|| panic!("{name} is in no table"));
        assert_eq!(size, want.size, "{name}");
        // Every field at the top of the struct; what lies inside one (a dot) is the field's own business. Two names of
        // one word are one field.
        let mut offsets: Vec<(usize, usize)> = Vec::new();
        for field in &want.fields {
            if let (Extent::Bytes(size), false) = (field.extent, field.path.contains('.')) {
                offsets.push((field.offset, size));
            }
        }
        offsets.dedup();
        let ours: Vec<(usize, usize)> = fields.iter().map(|field| (field.offset, field.size)).collect();
        assert_eq!(ours, offsets, "{name}");
        for field in fields {
            let field_name = field.name.trim_start_matches("r#");
            let known = want.fields.iter().any(|want| want.path == field_name && want.offset == field.offset);
            assert!(known, "{name}.{field_name} has another name in the table");
        }
    }
}

#[test]
fn the_statuses_are_the_table() {
    let enumerators = table(TYPES).enumerators;
    let want: Vec<(String, i64)> =
        enumerators.into_iter().filter(|(name, _)| name.starts_with("HSAKMT_STATUS")).collect();
    let ours: Vec<(String, i64)> =
        Status::ALL.iter().map(|&status| (status.name().to_owned(), i64::from(status as u32))).collect();
    assert_eq!(ours, want);
}

#[test]
fn the_readme_has_every_environment_variable() {
    let readme = std::fs::read_to_string(workspace().join("README.md")).expect("README.md");
    let (_, rest) = readme.split_once("<!-- environment:begin -->").expect("the marker where the table begins");
    let (table, _) = rest.split_once("<!-- environment:end -->").expect("the marker where the table ends");
    let listed = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let listed: BTreeSet<String> = listed.map(|name| name.strip_suffix("_n").unwrap_or(name).to_owned()).collect();
    let mut read = BTreeSet::new();
    for folder in ["std-shim/src", "kfd/src"] {
        variables_in(&workspace().join(folder), &mut read);
    }
    assert_eq!(read, listed, "README's table and the sources differ");
}

/// The variables that sources name: string literals of capitals in an expression. The environment itself is read in one
/// place, which takes any name.
fn variables_in(folder: &Path, read: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            variables_in(&path, read);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let reads = text.matches("std::env::var").count();
        assert_eq!(reads, usize::from(path.ends_with("kfd/src/environment.rs")), "{}", path.display());
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//") && !line.contains("doc(alias"));
        for literal in code.flat_map(|line| line.split('"').skip(1).step_by(2)) {
            let name = literal.split(|c: char| !c.is_ascii_uppercase() && c != '_').next().unwrap_or_default();
            let other = ["HSAKMT_STATUS", "HSA_POINTER"].iter().any(|other| name.starts_with(other));
            if (name.starts_with("HSA_") || name.starts_with("HSAKMT_")) && !other {
                read.insert(name.trim_end_matches('_').to_owned());
            }
        }
    }
}

#[test]
fn what_is_retired_is_part_of_the_interface() {
    let exports: BTreeSet<String> =
        ["exports-2025-08.txt", "exports-more.txt", "rocr-loader-2025-08.txt"].into_iter().flat_map(exports).collect();
    for name in capi::RETIRED {
        assert!(exports.contains(*name), "{name}");
    }
}
