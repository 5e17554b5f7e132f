//! The structs, constants and request numbers of `hsakmt_kfd` against the layout table, and against the kernel's own
//! header as far as that one goes.
//!
//! In: `layout/kfd_ioctl-2025-08.tsv`; `<linux/kfd_ioctl.h>` of the machine. The table is compared in both directions:
//! nothing may differ, nothing may be missing on either side. The machine's header may be older; what it lacks is
//! found by asking the compiler, is printed, and may only be what came after the version the header says it is.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::process::Command;

use hsakmt_kfd::opcode::Command as Ioctl;
use hsakmt_kfd::uapi::{CONSTANTS, LAYOUTS};
use hsakmt_tests::layout::{Extent, Table, table};

/// Struct and field (or nothing for the struct itself) to offset and size.
type Places = BTreeMap<(String, String), (usize, usize)>;

/// C leaves the last four bytes of this struct without a name; Rust names all bytes.
const UNNAMED_IN_C: (&str, &str) = ("kfd_ioctl_criu_args", "tail");

/// A C struct without a name is one of its own in Rust, called after the field.
const INNER: (&str, &str) = ("kfd_context_save_area_header", "wave_state");

/// What the compiler made of the Rust structs.
fn ours() -> Places {
    let mut places = Places::new();
    for layout in LAYOUTS.iter().copied().flatten() {
        let (name, path) = match layout.c_name.split_once('.') {
            None => (layout.c_name, ""),
            Some((outer, inner)) => (outer, inner),
        };
        if path.is_empty() {
            places.insert((name.into(), String::new()), (0, layout.size));
        }
        for field in layout.fields.iter().copied().flatten() {
            let path = if path.is_empty() { field.c_name.into() } else { format!("{path}.{}", field.c_name) };
            places.insert((name.into(), path), (field.offset, field.size));
        }
    }
    places.remove(&(UNNAMED_IN_C.0.into(), UNNAMED_IN_C.1.into())).expect("the bytes that C does not name");
    places
}

fn tables(table: &Table) -> Places {
    let mut places = Places::new();
    for item in &table.structs {
        places.insert((item.name.clone(), String::new()), (0, item.size));
        for field in &item.fields {
            let Extent::Bytes(size) = field.extent else { panic!("{}.{} has bits", item.name, field.path) };
            places.insert((item.name.clone(), field.path.clone()), (field.offset, size));
        }
    }
    places
}

#[test]
fn every_struct_and_field_is_the_tables() {
    let (ours, table) = (ours(), tables(&table("kfd_ioctl-2025-08.tsv")));
    assert_eq!(INNER.0.len() + INNER.1.len(), 38, "the inner struct is looked up by this name");
    assert_eq!(ours[&(INNER.0.into(), INNER.1.into())], (0, 16));
    for (name, place) in &table {
        assert_eq!(ours.get(name), Some(place), "{name:?}");
    }
    for name in ours.keys() {
        assert!(table.contains_key(name), "{name:?} is not in the table");
    }
    assert!(ours.len() > 350, "{} structs and fields", ours.len());
}

/// The names and values of the table, requests apart from constants.
fn values(table: &Table) -> (BTreeMap<String, u64>, BTreeMap<String, u64>) {
    let enumerators = table.enumerators.iter().map(|(name, value)| (name.clone(), value.cast_unsigned()));
    enumerators.chain(table.macros.iter().cloned()).partition(|(name, _)| name.starts_with("AMDKFD_IOC_"))
}

/// `value` as a constant of `size` bytes has it: C's are often `int`, sign-extended in the table.
fn cut(value: u64, size: usize) -> u64 {
    if size == 4 { value & u64::from(u32::MAX) } else { value }
}

#[test]
fn every_constant_is_the_tables() {
    let (_, mut table) = values(&table("kfd_ioctl-2025-08.tsv"));
    for &(name, value, size) in CONSTANTS.iter().copied().flatten() {
        let want = table.remove(name).unwrap_or_else(|| panic!("{name} is not in the table"));
        assert_eq!(value, cut(want, size), "{name}");
    }
    assert_eq!(table, BTreeMap::new(), "constants we lack");
}

#[test]
fn every_request_number_is_the_tables() {
    let (mut table, _) = values(&table("kfd_ioctl-2025-08.tsv"));
    for &ioctl in Ioctl::ALL {
        match table.remove(ioctl.name()) {
            Some(want) => assert_eq!(ioctl.request(), want, "{}", ioctl.name()),
            // Newer than the table, and without a struct.
            None => assert_eq!((ioctl, ioctl.request()), (Ioctl::CreateProcess, 0x4b27)),
        }
    }
    assert_eq!(table, BTreeMap::new(), "ioctls we lack");
}

/// One thing to ask the header for: what it is, as a C expression of an integer, and the answer we expect.
struct Question {
    about: String,
    expression: String,
    want: u64,
    size: usize,
}

fn questions() -> Vec<Question> {
    let mut questions = Vec::new();
    let mut ask = |about: String, expression: String, want: u64, size: usize| {
        questions.push(Question { about, expression, want, size });
    };
    for ((name, path), (offset, size)) in ours() {
        if path.is_empty() {
            ask(name.clone(), format!("sizeof(struct {name})"), size as u64, 8);
        } else {
            let about = format!("{name}.{path}");
            ask(about.clone(), format!("__builtin_offsetof(struct {name}, {path})"), offset as u64, 8);
            // C has no size for an array without one.
            if size != 0 {
                ask(about, format!("sizeof(((struct {name} *)0)->{path})"), size as u64, 8);
            }
        }
    }
    for &(name, value, size) in CONSTANTS.iter().copied().flatten() {
        ask(name.into(), format!("({name})"), value, size);
    }
    for &ioctl in Ioctl::ALL {
        ask(ioctl.name().into(), format!("({})", ioctl.name()), ioctl.request(), 4);
    }
    questions
}

/// A program with one question per line, from line 1 on, and what `cc` says to it.
fn compile(questions: &[&Question], flags: &[&str]) -> (tempfile::TempDir, std::process::Output) {
    let folder = tempfile::tempdir().unwrap();
    let mut program = String::new();
    for (number, question) in questions.iter().enumerate() {
        let expression = &question.expression;
        writeln!(program, "unsigned long long ask_{number}(void) {{ return (unsigned long long)({expression}); }}")
            .unwrap();
    }
    program.push_str("int printf(const char *, ...);\nint main(void) {\n");
    for number in 0..questions.len() {
        writeln!(program, "printf(\"%llu\\n\", ask_{number}());").unwrap();
    }
    program.push_str("return 0; }\n");
    std::fs::write(folder.path().join("ask.c"), program).unwrap();
    // The header wants DRM's for the kernel's integer types alone; distributions keep that one elsewhere.
    std::fs::create_dir(folder.path().join("drm")).unwrap();
    std::fs::write(folder.path().join("drm/drm.h"), "#include <linux/types.h>\n#include <linux/ioctl.h>\n").unwrap();
    let output = Command::new("cc")
        .current_dir(folder.path())
        .args(["-include", "linux/kfd_ioctl.h", "-fmax-errors=0", "-w", "-I.", "ask.c", "-o", "ask"])
        .args(flags)
        .output()
        .expect("cc");
    (folder, output)
}

/// The questions the header has no answer to: the lines that the compiler refuses.
fn unanswered(questions: &[&Question]) -> BTreeSet<usize> {
    let (_folder, output) = compile(questions, &["-fsyntax-only"]);
    let said = String::from_utf8_lossy(&output.stderr);
    let line = |text: &str| text.strip_prefix("ask.c:")?.split(':').next()?.parse::<usize>().ok();
    let errors = said.lines().filter(|text| text.contains(": error:") || text.contains(": fatal error:"));
    errors.map(|text| line(text).unwrap_or_else(|| panic!("cc: {text}")) - 1).collect()
}

/// The version in which a struct, field, constant or ioctl came into the kernel's header, for those that are not in
/// 1.11; 99 for those that never did.
fn since(about: &str) -> u64 {
    const NEWER: &[(u64, &[&str])] = &[
        (12, &["AMDKFD_IOC_EXPORT_DMABUF", "kfd_ioctl_export_dmabuf_args"]),
        (13, &["RUNTIME", "runtime", "DBG_TRAP", "dbg_trap", "dbg_device_info", "snapshot", "EC_", "kfd_context_save"]),
        (13, &["KFD_INVALID_", "KFD_DBG_QUEUE", "KFD_DBG_EV_FLAG", "DEBUG_RUNTIME_STATE"]),
        (14, &["kfd_hsa_signal_event_data", "kfd_event_data.signal_event_data"]),
        (14, &["KFD_IOCTL_SVM_FLAG_EXT_COHERENT", "KFD_IOC_ALLOC_MEM_FLAGS_EXT_COHERENT"]),
        (16, &["KFD_IOC_ALLOC_MEM_FLAGS_CONTIGUOUS_BEST_EFFORT"]),
        (17, &["KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID", "kfd_ioctl_create_queue_args.sdma_engine_id"]),
        (17, &["kfd_ioctl_create_queue_args.pad", "kfd_ioctl_set_memory_policy_args.misc_process_flag"]),
        // AMD's own, and what is newer than the table.
        (
            99,
            &[
                "ipc_",
                "IPC_",
                "CROSS_MEMORY",
                "cross_memory",
                "kfd_memory_range",
                "spm",
                "SPM",
                "pc_sample",
                "PC_SAMPLE",
            ],
        ),
        (99, &["KFD_IOCTL_PCS_", "AMDKFD_IOC_CREATE_PROCESS"]),
    ];
    let hit = NEWER.iter().find(|(_, words)| words.iter().any(|word| about.contains(word)));
    hit.map_or(0, |(version, _)| *version)
}

/// A struct that grew, and the ioctl that carries it: until which version it had which value.
const GREW: &[(&str, u64, u64)] =
    &[("kfd_ioctl_create_queue_args", 17, 88), ("AMDKFD_IOC_CREATE_QUEUE", 17, 0xc058_4b02)];

#[test]
fn what_the_kernels_header_has_is_ours() {
    let questions = questions();
    let all: Vec<&Question> = questions.iter().collect();
    let missing = unanswered(&all);
    let kept = || all.iter().enumerate().filter(|(number, _)| !missing.contains(number)).map(|(_, question)| *question);
    let kept: Vec<&Question> = kept().collect();

    let (folder, built) = compile(&kept, &[]);
    assert!(built.status.success(), "cc: {}", String::from_utf8_lossy(&built.stderr));
    let ran = Command::new(folder.path().join("ask")).output().unwrap();
    let answers: Vec<u64> = String::from_utf8_lossy(&ran.stdout).lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(answers.len(), kept.len());
    let is_version = |question: &Question| question.about == "KFD_IOCTL_MINOR_VERSION";
    let minor = kept.iter().zip(&answers).find(|(question, _)| is_version(question)).map_or(0, |(_, minor)| *minor);
    for (question, &answer) in kept.iter().zip(&answers).filter(|(question, _)| !is_version(question)) {
        let want = GREW.iter().find(|(about, version, _)| *about == question.about && minor < *version);
        let want = want.map_or(question.want, |(_, _, before)| *before);
        let same = cut(answer, question.size) == cut(want, question.size);
        assert!(same, "{}: {} is {answer}, ours {want}", question.about, question.expression);
    }
    assert!(minor >= 11, "linux/kfd_ioctl.h is version 1.{minor}");
    let lacks: BTreeSet<&str> = missing.iter().map(|&number| all[number].about.as_str()).collect();
    for about in &lacks {
        assert!(since(about) > minor, "{about} should be in version 1.{minor}");
    }
    let whole = |about: &&&str| !about.split_once('.').is_some_and(|(outer, _)| lacks.contains(outer));
    let lacks: Vec<&str> = lacks.iter().filter(whole).copied().collect();
    println!("linux/kfd_ioctl.h 1.{minor}: {} answers compared; it does not have {}", kept.len(), lacks.join(", "));
}
