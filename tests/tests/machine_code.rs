//! What the installed library's query entries are made of, read off its machine code.
//!
//! In: `libhsakmt.so.1` as installed, taken apart by objdump. From an entry on, every function that it can reach is
//! looked at, instruction by instruction, down to a short list of named exceptions. Out: a list of findings, which for
//! the query entries must be empty: no lock-prefixed instruction (an `xchg` with memory is one), no fence, no system
//! call, no trap (where a panic ends), no store to a static, no call through a pointer, and no call of anything that
//! is not named here. The same check finds all of these in a writer's entry, and each in a line made up for it.

#![cfg(target_arch = "x86_64")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use hsakmt_tests::install::{prefix, succeed};

/// The parts of the look-up that the compiler leaves as functions of their own, by the last part of their names.
const LOOK_UP: &[&str] = &[
    "object_at",
    "elsewhere",
    "inside",
    "in_cpuvm",
    "stab",
    "stab_below",
    "answer",
    "floor",
    "gpuvm_root",
    "gpuvm_roots",
    "gpuvm_of",
    "route",
    "query_and_note",
];

/// And the C entry's own.
const ENTRY: &[&str] = &["walk", "walk_whole", "closed"];

/// Called, and not looked into: the exceptions that the documentation names.
const EXCEPTIONS: &[&str] = &[
    // Where a thread's own variables are. glibc's answer is two loads once the thread has them.
    "__tls_get_addr",
    // A thread's first query, its first after a fork, and each without membarrier or while all slots are taken.
    "hsakmt::context::query::<impl hsakmt::context::Context>::find_slowly_or_abort",
    // Between libraries: a copy or a fill of a few words.
    "memcpy",
    "memset",
];

/// A function: its name, and its instructions with what objdump says beside them.
#[derive(Debug, Default)]
struct Function {
    name: String,
    instructions: Vec<String>,
}

/// A library, by the addresses of its functions.
#[derive(Debug, Default)]
struct Code(BTreeMap<u64, Function>);

impl Code {
    /// From what `objdump -d` says.
    fn parse(text: &str) -> Code {
        let mut code = Code::default();
        let mut here = None;
        for line in text.lines() {
            if let Some((address, name)) = line.strip_suffix(">:").and_then(|line| line.split_once(" <")) {
                let address = u64::from_str_radix(address, 16).expect("the address of a function");
                let function = Function { name: name.to_owned(), instructions: Vec::new() };
                here = Some(code.0.entry(address).or_insert(function));
            } else if let (Some(function), Some((_, instruction))) = (&mut here, line.split_once(":\t")) {
                function.instructions.push(instruction.trim_end().to_owned());
            }
        }
        code
    }

    /// All that is wrong with the functions reachable from the one of this name, and how many there are.
    fn findings(&self, entry: &str) -> (BTreeSet<String>, usize) {
        let (start, _) = self.0.iter().find(|(_, function)| function.name == entry).expect(entry);
        let (mut found, mut seen, mut next) = (BTreeSet::new(), BTreeSet::new(), vec![*start]);
        while let Some(address) = next.pop() {
            let Some(function) = self.0.get(&address).filter(|_| seen.insert(address)) else { continue };
            for (at, instruction) in function.instructions.iter().enumerate() {
                if is_jump_table(&function.instructions[..=at]) {
                    continue;
                }
                let say = |what: &str| format!("{}: {what}: {instruction}", function.name);
                match judge(instruction, &function.name) {
                    Verdict::Plain => {}
                    Verdict::Goes(target, name) if is_look_up(&name) => {
                        assert!(self.0.contains_key(&target), "{}", say("leads into the middle of a function"));
                        next.push(target);
                    }
                    Verdict::Goes(..) => _ = found.insert(say("leads elsewhere")),
                    Verdict::Wrong(what) => _ = found.insert(say(what)),
                }
            }
        }
        (found, seen.len())
    }
}

/// What an instruction does.
enum Verdict {
    Plain,
    /// Calls, or jumps to, another function.
    Goes(u64, String),
    Wrong(&'static str),
}

/// `instruction` as objdump writes it: `mnemonic operands # comment`, in a function of this name.
fn judge(instruction: &str, function: &str) -> Verdict {
    let (code, comment) = instruction.split_once('#').unwrap_or((instruction, ""));
    let (mnemonic, operands) = code.trim().split_once(char::is_whitespace).unwrap_or((code.trim(), ""));
    let operands = operands.trim();
    let last = last_operand(operands);
    match mnemonic {
        "lock" => Verdict::Wrong("locks"),
        _ if mnemonic.starts_with("xchg") && operands.contains('(') => Verdict::Wrong("locks"),
        "mfence" | "sfence" | "lfence" | "cpuid" | "serialize" => Verdict::Wrong("is a fence"),
        "syscall" | "sysenter" | "int" => Verdict::Wrong("calls the kernel"),
        "ud2" | "int3" | "hlt" => Verdict::Wrong("is a trap"),
        _ if is_branch(mnemonic) => branch(operands, comment, function),
        // Compares, tests and addresses name a place without storing there.
        _ if mnemonic.starts_with("cmp") || mnemonic.starts_with("test") || mnemonic == "lea" => Verdict::Plain,
        _ if last.ends_with("(%rip)") && operands != last => Verdict::Wrong("stores to a static"),
        _ if last.ends_with("(%rip)") && is_one_operand_store(mnemonic) => Verdict::Wrong("stores to a static"),
        _ => Verdict::Plain,
    }
}

/// Where most instructions put their result: after the last comma outside of brackets.
fn last_operand(operands: &str) -> &str {
    let (mut depth, mut start) = (0, 0);
    for (at, letter) in operands.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => start = at + 1,
            _ => {}
        }
    }
    &operands[start..]
}

fn is_branch(mnemonic: &str) -> bool {
    mnemonic.starts_with("call") || mnemonic.starts_with('j') || mnemonic == "notrack" || mnemonic == "bnd"
}

/// Instructions that change the one place they name.
fn is_one_operand_store(mnemonic: &str) -> bool {
    ["inc", "dec", "neg", "not", "pop", "set"].iter().any(|store| mnemonic.starts_with(store))
}

/// The end of a `match` over many cases: a jump through a table of this function's own places, which stands in memory
/// that nobody can write.
fn is_jump_table(instructions: &[String]) -> bool {
    let [.., load, add, jump] = instructions else { return false };
    jump.trim_start_matches("notrack ").starts_with("jmp    *%r")
        && add.starts_with("add ")
        && load.starts_with("movslq (")
}

/// `ADDRESS <NAME>`, `ADDRESS <NAME+0x12>`, or through a register or memory: `*%rax`, `*0x12(%rip)` and `<NAME>` beside.
fn branch(operands: &str, comment: &str, function: &str) -> Verdict {
    let named = if operands.starts_with('*') { comment } else { operands };
    let Some((address, name)) = named.trim().strip_suffix('>').and_then(|named| named.split_once(" <")) else {
        return Verdict::Wrong("goes through a register");
    };
    let plain = name.rsplit_once("+0x").map_or(name, |(plain, _)| plain);
    let (outside, _) = plain.split_once('@').unwrap_or((plain, ""));
    if EXCEPTIONS.contains(&outside) || (plain == function && name != plain) {
        return Verdict::Plain;
    }
    if operands.starts_with('*') {
        return Verdict::Wrong("goes through memory");
    }
    match u64::from_str_radix(address, 16) {
        Ok(address) => Verdict::Goes(address, name.to_owned()),
        Err(_) => Verdict::Wrong("goes nowhere known"),
    }
}

fn is_look_up(name: &str) -> bool {
    let last = name.rsplit("::").next().unwrap_or(name);
    name.starts_with("hsakmt_core::") && LOOK_UP.contains(&last)
        || name.starts_with("hsakmt::context::query::") && ENTRY.contains(&last)
}

/// The installed library.
fn installed() -> Code {
    let mut objdump = Command::new("objdump");
    objdump.args(["-d", "-C", "--no-show-raw-insn"]).arg(prefix().join("lib/libhsakmt.so.1"));
    Code::parse(&String::from_utf8_lossy(&succeed(&mut objdump).stdout))
}

#[test]
fn a_query_is_made_of_plain_instructions() {
    let code = installed();
    for entry in ["hsaKmtQueryPointerInfo", "hsaKmtQueryPointerInfoCtx"] {
        let (found, functions) = code.findings(entry);
        assert!(found.is_empty(), "{entry}:\n{found:#?}");
        // The entry, its walks, and at least what finds an object: nobody has turned the walk off.
        assert!(functions >= 4, "{entry} reaches {functions} functions");
    }
}

#[test]
fn a_writer_is_not() {
    let (found, _) = installed().findings("hsaKmtSetMemoryUserData");
    for what in ["locks", "leads elsewhere", "goes through memory"] {
        assert!(found.iter().any(|finding| finding.contains(&format!(": {what}: "))), "{what}:\n{found:#?}");
    }
}

#[test]
fn what_a_thread_does_once_is_not_either() {
    let (found, _) = installed().findings(EXCEPTIONS[1]);
    assert!(found.iter().any(|finding| finding.contains("leads elsewhere")), "{found:#?}");
}

/// Each kind of finding, in a function made up for it.
#[test]
fn every_kind_of_finding_is_found() {
    let wrong = [
        ("lock incq (%rax)", "locks"),
        ("xchg   %rax,(%rdi)", "locks"),
        ("mfence", "is a fence"),
        ("syscall", "calls the kernel"),
        ("ud2", "is a trap"),
        ("call   *%rax", "goes through a register"),
        ("jmp    *0x8(%rip)        # 7abc <free@GLIBC_2.2.5>", "goes through memory"),
        ("call   9000 <core::panicking::panic_bounds_check>", "leads elsewhere"),
        ("jne    9000 <core::option::unwrap_failed>", "leads elsewhere"),
        ("call   9000 <malloc@plt>", "leads elsewhere"),
        ("mov    %rax,0x10(%rip)        # 8000 <hsakmt::shared::SHARED+0x1000>", "stores to a static"),
        ("movl   $0x1,0x10(%rip)        # 8000 <hsakmt::shared::SHARED+0x1000>", "stores to a static"),
        ("incl   0x10(%rip)        # 8000 <hsakmt::shared::SHARED+0x1000>", "stores to a static"),
    ];
    for (instruction, what) in wrong {
        let text = format!("0000000000001000 <entry>:\n    1000:\t{instruction}\n    1009:\tret\n");
        let (found, _) = Code::parse(&text).findings("entry");
        assert_eq!(found, BTreeSet::from([format!("entry: {what}: {instruction}")]));
    }
    let fine = [
        "mov    0x10(%rip),%rax        # 8000 <hsakmt::shared::SHARED+0x1000>",
        "cmpl   $0x1,0x10(%rip)        # 8000 <hsakmt::shared::SHARED+0x1000>",
        "lea    0x10(%rip),%rdi        # 8000 <_GLOBAL_OFFSET_TABLE_+0x6f8>",
        "xchg   %ax,%ax",
        "jne    1009 <entry+0x9>",
        "call   8040 <__tls_get_addr@plt>",
        "call   *0x10(%rip)        # 8000 <__tls_get_addr@GLIBC_2.3>",
        "mov    %rax,(%r14)",
        "movslq (%rsi,%rax,4),%rax\n    1003:\tadd    %rsi,%rax\n    1006:\tjmp    *%rax",
    ];
    for instruction in fine {
        let text = format!("0000000000001000 <entry>:\n    1000:\t{instruction}\n    1009:\tret\n");
        assert_eq!(Code::parse(&text).findings("entry"), (BTreeSet::new(), 1), "{instruction}");
    }
}

/// What is wrong deep inside the look-up is found from the entry.
#[test]
fn findings_are_found_behind_calls() {
    let text = "0000000000001000 <entry>:\n    1000:\tcall   2000 <hsakmt_core::lookup::object_at>\n    1005:\tret\n\n\
                0000000000002000 <hsakmt_core::lookup::object_at>:\n    2000:\tjmp    3000 <hsakmt_core::userptr::stab>\n\n\
                0000000000003000 <hsakmt_core::userptr::stab>:\n    3000:\tlock xadd %rax,(%rdi)\n    3005:\tret\n";
    let (found, functions) = Code::parse(text).findings("entry");
    assert_eq!(found, BTreeSet::from(["hsakmt_core::userptr::stab: locks: lock xadd %rax,(%rdi)".to_owned()]));
    assert_eq!(functions, 3);
}
