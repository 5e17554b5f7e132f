//! Our C header against the layout tables, field by field, in C and in C++.
//!
//! In: a table of `tests/layout` and `std-shim/include`. A C program is made from the table: one static assertion per
//! size, offset, enumerator and macro, and for each bit field a probe that sets it to all ones and compares the bytes.
//! It is compiled by `cc` and by `c++` against our header and must compile and return 0. The same program against
//! Debian's header, where that is installed, shows that the program itself is right.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use hsakmt_tests::layout::{Extent, Struct, Table, table};

fn our_headers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../std-shim/include")
}

#[test]
fn the_2025_08_layout_is_the_tables() {
    let headers = our_headers();
    check("2025-08", &program(&table("hsakmttypes-2025-08.tsv"), "hsakmt/hsakmt.h"), &headers, &[]);
}

#[test]
fn the_5_2_3_layout_is_the_tables() {
    let program = program(&table("hsakmttypes-5.2.3.tsv"), "hsakmt/hsakmt.h");
    check("5.2.3", &program, &our_headers(), &["-DHSAKMT_ABI=50203"]);
}

#[test]
fn the_6_2_4_layout_is_the_tables() {
    let program = program(&table("hsakmttypes-6.2.4.tsv"), "hsakmt/hsakmt.h");
    check("6.2.4", &program, &our_headers(), &["-DHSAKMT_ABI=60204"]);
}

#[test]
fn the_cache_struct_is_its_table_in_each_layout() {
    let program = program(&table("hsakmttypes-cache.tsv"), "hsakmt/hsakmt.h");
    check("cache", &program, &our_headers(), &[]);
    check("cache-6.2.4", &program, &our_headers(), &["-DHSAKMT_ABI=60204"]);
    check("cache-5.2.3", &program, &our_headers(), &["-DHSAKMT_ABI=50203"]);
}

#[test]
fn the_context_header_stands_alone() {
    check("contexts", "#include <hsakmt/hsakmtctx.h>\nint main(void) { return 0; }\n", &our_headers(), &[]);
}

#[test]
fn the_program_accepts_debians_own_header() {
    if !Path::new("/usr/include/hsakmt.h").exists() {
        println!("SKIP the_program_accepts_debians_own_header: /usr/include/hsakmt.h (libhsakmt-dev) is not installed");
        return;
    }
    for file in ["hsakmttypes-5.2.3.tsv", "hsakmttypes-cache.tsv"] {
        check(&format!("debian-{file}"), &program(&table(file), "hsakmt.h"), Path::new("/usr/include"), &[]);
    }
}

#[test]
fn the_program_refuses_a_wrong_table() {
    let mut wrong = table("hsakmttypes-2025-08.tsv");
    let field = wrong.structs.iter_mut().find(|s| s.name == "HsaMemFlags").unwrap();
    let bit = field.fields.iter_mut().find(|f| f.path == "ui32.CoarseGrain").unwrap();
    bit.extent = Extent::Bits { first: 14, width: 1 };
    let result = build_and_run("wrong", "cc", "c", &program(&wrong, "hsakmt/hsakmt.h"), &our_headers(), &[]);
    assert!(result.unwrap_err().contains("HsaMemFlags.ui32.CoarseGrain"));
}

/// The C program that proves `table` of the header.
fn program(table: &Table, header: &str) -> String {
    let mut text = format!(
        "#include <{header}>\n#include <stddef.h>\n#include <stdio.h>\n#include <string.h>\n\
         #ifdef __cplusplus\n#define _Static_assert static_assert\n#endif\n\
         static unsigned char want[2048];\nstatic void bits(int first, int width) {{\n\
         \x20 memset(want, 0, sizeof want);\n\
         \x20 for (int b = first; b < first + width; b++) want[b / 8] |= (unsigned char)(1 << b % 8);\n}}\n\
         int main(void) {{\n  int wrong = 0; volatile unsigned long long ones = ~0ull;\n"
    );
    table.structs.iter().for_each(|item| prove_struct(&mut text, item));
    for (name, value) in &table.enumerators {
        writeln!(text, "  _Static_assert((long long){name} == {value}LL, \"{name}\");").unwrap();
    }
    for (name, value) in &table.macros {
        writeln!(text, "  _Static_assert((unsigned long long){name} == {value}ULL, \"{name}\");").unwrap();
    }
    text + "  return wrong;\n}\n"
}

fn prove_struct(text: &mut String, Struct { name, size, fields }: &Struct) {
    writeln!(text, "  {{ {name} it; _Static_assert(sizeof(it) == {size}, \"{name}\"); (void)it;").unwrap();
    for field in fields {
        let (path, offset) = (&field.path, field.offset);
        match field.extent {
            Extent::Bytes(size) => writeln!(
                text,
                "    _Static_assert(offsetof({name}, {path}) == {offset}, \"offset of {name}.{path}\");\n    \
                 _Static_assert(sizeof(it.{path}) == {size}, \"size of {name}.{path}\");"
            ),
            Extent::Bits { first, width } => writeln!(
                text,
                "    memset(&it, 0, sizeof it); it.{path} = ones; bits({}, {width});\n    \
                 if (memcmp(&it, want, sizeof it)) {{ wrong = 1; puts(\"{name}.{path}\"); }}",
                offset * 8 + first
            ),
        }
        .unwrap();
    }
    text.push_str("  }\n");
}

fn check(name: &str, program: &str, headers: &Path, flags: &[&str]) {
    for (compiler, language) in [("cc", "c"), ("c++", "c++")] {
        if let Err(text) = build_and_run(name, compiler, language, program, headers, flags) {
            panic!("{name}, {compiler}: {text}");
        }
    }
}

fn build_and_run(
    name: &str,
    compiler: &str,
    language: &str,
    program: &str,
    headers: &Path,
    flags: &[&str],
) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (source, binary) = (folder.path().join(format!("{name}.c")), folder.path().join("probe"));
    std::fs::write(&source, program).map_err(|error| error.to_string())?;
    let mut build = Command::new(compiler);
    build.args(["-Wall", "-Wno-conversion", "-x", language]).args(flags).arg("-I").arg(headers);
    run(build.arg(&source).arg("-o").arg(&binary))?;
    run(&mut Command::new(&binary))
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = [output.stdout, output.stderr].concat();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&said).into_owned()) }
}
