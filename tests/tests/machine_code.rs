//! Checks the instructions of the installed library's query entries.
//!
//! The test reads `libhsakmt.so.1` as installed (`object`) and decodes every function that an entry can reach
//! (`iced-x86`), down to a short list of named exceptions. A query entry must have no finding: no lock-prefixed
//! instruction (an `xchg` with memory is one), no fence, no system call, no trap (a panic ends in one), no store to a
//! static, no call through a pointer, and no call of a function that the tables below do not name. The same check
//! finds these in a writer's entry, and each kind in a function made up for it.

#![cfg(target_arch = "x86_64")]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use hsakmt_tests::install::prefix;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory};
use iced_x86::{Mnemonic, OpAccess, OpKind, Register};
use object::{Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, RelocationTarget, SectionKind, SymbolKind};

/// The functions of the query path that the compiler does not inline: where their path begins, and its last part.
/// Each one that is reached is checked too.
const QUERY_PATH: &[(&str, &[&str])] = &[
    (
        "hsakmt_core::",
        &[
            "find_record_apart",
            "find_elsewhere",
            "candidate",
            "holding",
            "is_marked",
            "stab",
            "answer",
            "root",
            "gpuvm_root",
            "gpuvm_roots",
            "gpuvm_of",
            "route",
        ],
    ),
    ("hsakmt::context::query::", &["find_nothing_or_abort", "find_by_rule_or_abort", "find_by_rule", "closed"]),
];

/// Functions that may be called and are not checked: the exceptions that the documentation names.
const EXCEPTIONS: &[&str] = &[
    // Finds a thread's own variables. glibc executes two loads once the thread has them.
    "__tls_get_addr",
    SLOW_PATH,
    // Copy or fill a few words.
    "memcpy",
    "memset",
];

/// A thread's first query, its first after a fork, and each without membarrier or while all slots are taken.
const SLOW_PATH: &str = "hsakmt::context::query::<impl hsakmt::context::Context>::find_slowly_or_abort";

#[derive(Debug)]
struct Function {
    name: String,
    end: u64,
}

/// The parts of a library that the check needs. Each map is by address.
#[derive(Debug, Default)]
struct Code {
    sections: BTreeMap<u64, Vec<u8>>,
    functions: BTreeMap<u64, Function>,
    /// Slots of the global offset table, and the other libraries' functions that the loader puts there.
    imports: BTreeMap<u64, String>,
}

impl Code {
    /// The installed library.
    fn installed() -> Code {
        let file = std::fs::read(prefix().join("lib/libhsakmt.so.1")).expect("the library is installed");
        let elf = object::File::parse(&*file).expect("the library is an ELF file");
        let mut code = Code::default();
        for section in elf.sections().filter(|section| section.kind() == SectionKind::Text) {
            code.sections.insert(section.address(), section.data().expect("the section's bytes").to_owned());
        }
        for symbol in elf.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0) {
            let name = rustc_demangle::demangle(symbol.name().expect("the function's name"));
            let function = Function { name: format!("{name:#}"), end: symbol.address() + symbol.size() };
            code.functions.entry(symbol.address()).or_insert(function);
        }
        let symbols = elf.dynamic_symbol_table().expect("the imported symbols");
        for (slot, relocation) in elf.dynamic_relocations().into_iter().flatten() {
            let RelocationTarget::Symbol(index) = relocation.target() else { continue };
            let name = symbols.symbol_by_index(index).and_then(|symbol| symbol.name()).expect("the import's name");
            code.imports.insert(slot, name.to_owned());
        }
        code
    }

    /// The findings in all functions reachable from the one of this name, and how many these are.
    fn findings(&self, entry: &str) -> (BTreeSet<String>, usize) {
        let (start, _) = self.functions.iter().find(|(_, function)| function.name == entry).expect(entry);
        let (mut found, mut seen, mut next) = (BTreeSet::new(), BTreeSet::new(), vec![*start]);
        while let Some(start) = next.pop() {
            let Some(function) = self.functions.get(&start).filter(|_| seen.insert(start)) else { continue };
            let instructions: Vec<_> = self.instructions(start..function.end).collect();
            for (at, instruction) in instructions.iter().enumerate() {
                match self.judge(instruction, start..function.end) {
                    Ok(target) => next.extend(target),
                    Err(_) if is_jump_table(&instructions[..=at]) => {}
                    Err(what) => {
                        let target = self.target(instruction).map_or(String::new(), |name| format!(" <{name}>"));
                        found.insert(format!("{}: {what}: {instruction}{target}", function.name));
                    }
                }
            }
        }
        (found, seen.len())
    }

    /// The instructions that begin in `range`, which lies in one section.
    fn instructions(&self, range: Range<u64>) -> impl Iterator<Item = Instruction> {
        let section = self.sections.range(..=range.start).next_back();
        let bytes = section.and_then(|(base, bytes)| bytes.get((range.start - base) as usize..)).unwrap_or(&[]);
        Decoder::with_ip(64, bytes, range.start, DecoderOptions::NONE)
            .into_iter()
            .take_while(move |instruction| instruction.ip() < range.end)
    }

    /// What is wrong with an instruction of the function at `function`; otherwise the other function that it leads to.
    fn judge(&self, instruction: &Instruction, function: Range<u64>) -> Result<Option<u64>, &'static str> {
        match instruction.mnemonic() {
            _ if instruction.has_lock_prefix() => return Err("locks"),
            Mnemonic::Xchg if instruction.op_kinds().any(|kind| kind == OpKind::Memory) => return Err("locks"),
            Mnemonic::Mfence | Mnemonic::Sfence | Mnemonic::Lfence => return Err("is a fence"),
            Mnemonic::Cpuid | Mnemonic::Serialize => return Err("is a fence"),
            Mnemonic::Syscall | Mnemonic::Sysenter | Mnemonic::Int => return Err("calls the kernel"),
            Mnemonic::Int1 | Mnemonic::Int3 | Mnemonic::Hlt => return Err("is a trap"),
            Mnemonic::INVALID => return Err("is no instruction"),
            _ => {}
        }
        match instruction.flow_control() {
            FlowControl::Next | FlowControl::Return if stores_to_static(instruction) => Err("stores to a static"),
            FlowControl::Next | FlowControl::Return => Ok(None),
            FlowControl::Call | FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
                self.judge_target(instruction, function)
            }
            FlowControl::IndirectCall | FlowControl::IndirectBranch => match self.import(instruction) {
                Some(name) if EXCEPTIONS.contains(&name) => Ok(None),
                _ if instruction.is_ip_rel_memory_operand() => Err("goes through memory"),
                _ => Err("goes through a register"),
            },
            _ => Err("is a trap"),
        }
    }

    /// [`Code::judge`] for a jump or call to an address that the instruction contains.
    fn judge_target(&self, branch: &Instruction, function: Range<u64>) -> Result<Option<u64>, &'static str> {
        let target = branch.near_branch_target();
        let is_entry = self.functions.contains_key(&target);
        match self.target(branch) {
            _ if function.contains(&target) && target != function.start => Ok(None),
            Some(name) if EXCEPTIONS.contains(&name) => Ok(None),
            Some(name) if is_entry && is_on_query_path(name) => Ok(Some(target)),
            _ => Err("leads elsewhere"),
        }
    }

    /// The name of the function that a jump or call leads to: of this library, or of another one.
    fn target(&self, branch: &Instruction) -> Option<&str> {
        let target = branch.near_branch_target();
        if let Some(function) = self.functions.get(&target) {
            return Some(&function.name);
        }
        // In the procedure linkage table: `jmp *slot(%rip)`.
        let mut stub = self.instructions(target..target + 16).skip_while(|code| code.mnemonic() == Mnemonic::Endbr64);
        self.import(branch).or_else(|| self.import(&stub.next()?))
    }

    /// The imported function that a jump or call through the global offset table leads to.
    fn import(&self, branch: &Instruction) -> Option<&str> {
        let through_memory = branch.is_jmp_near_indirect() || branch.is_call_near_indirect();
        let slot = (through_memory && branch.is_ip_rel_memory_operand()).then(|| branch.ip_rel_memory_address())?;
        self.imports.get(&slot).map(String::as_str)
    }
}

fn is_on_query_path(name: &str) -> bool {
    let last = name.rsplit("::").next().unwrap_or(name);
    // A trait's function begins with the type: `<type as trait>::name`.
    let path = name.trim_start_matches('<');
    QUERY_PATH.iter().any(|(begin, lasts)| path.starts_with(begin) && lasts.contains(&last))
}

/// Whether the instruction writes to an address that is in the instruction, and not to one relative to a register.
/// A thread's own variables are relative to `fs`.
fn stores_to_static(instruction: &Instruction) -> bool {
    let writes = [OpAccess::Write, OpAccess::ReadWrite, OpAccess::CondWrite, OpAccess::ReadCondWrite];
    InstructionInfoFactory::new().info(instruction).used_memory().iter().any(|memory| {
        let fixed = [memory.base(), memory.index()] == [Register::None; 2];
        fixed && memory.segment() != Register::FS && writes.contains(&memory.access())
    })
}

/// Whether the last of these jumps through a table of this function's own addresses, as a `match` over many cases ends.
/// Such a table is in read-only memory.
fn is_jump_table(instructions: &[Instruction]) -> bool {
    let [.., load, add, jump] = instructions else { return false };
    jump.mnemonic() == Mnemonic::Jmp
        && jump.op0_kind() == OpKind::Register
        && add.mnemonic() == Mnemonic::Add
        && add.op0_register() == jump.op0_register()
        && load.mnemonic() == Mnemonic::Movsxd
        && load.memory_index_scale() == 4
}

#[test]
fn a_query_is_made_of_plain_instructions() {
    let code = Code::installed();
    for entry in ["hsaKmtQueryPointerInfo", "hsaKmtQueryPointerInfoCtx"] {
        let (found, functions) = code.findings(entry);
        assert!(found.is_empty(), "{entry}:\n{found:#?}");
        // The entry, its walks, and at least what finds an object: nobody has turned the walk off.
        assert!(functions >= 4, "{entry} reaches {functions} functions");
    }
}

#[test]
fn a_writer_is_not() {
    let (found, _) = Code::installed().findings("hsaKmtSetMemoryUserData");
    for what in ["locks", "leads elsewhere", "goes through memory"] {
        assert!(found.iter().any(|finding| finding.contains(&format!(": {what}: "))), "{what}:\n{found:#?}");
    }
}

#[test]
fn what_a_thread_does_once_is_not_either() {
    let (found, _) = Code::installed().findings(SLOW_PATH);
    assert!(found.iter().any(|finding| finding.contains("leads elsewhere")), "{found:#?}");
}

/// Makes a library of these functions, 4096 bytes each from 0x1000 on; a function without a name is a linkage stub.
/// The slot at 0x8000 is `__tls_get_addr`'s, the one at 0x8008 is `free`'s.
fn made_of(functions: &[(&str, &[u8])]) -> Code {
    let imports = [(0x8000, "__tls_get_addr"), (0x8008, "free")].map(|(slot, name)| (slot, name.to_owned()));
    let mut code = Code { imports: imports.into(), ..Code::default() };
    for (start, (name, bytes)) in (0x1000..).step_by(0x1000).zip(functions) {
        code.sections.insert(start, bytes.to_vec());
        if !name.is_empty() {
            code.functions.insert(start, Function { name: name.to_string(), end: start + bytes.len() as u64 });
        }
    }
    code
}

/// The findings in a function of one instruction and a `ret`, with others for it to call.
fn findings_in(instruction: &[u8]) -> BTreeSet<String> {
    let panic = ("core::panicking::panic_bounds_check", &[0x90, 0x0f, 0x0b][..]);
    let free = ("", &[0xff, 0x25, 0x02, 0x50, 0, 0][..]);
    let tls = ("", &[0xff, 0x25, 0xfa, 0x3f, 0, 0][..]);
    made_of(&[("entry", &[instruction, &[0xc3]].concat()), panic, free, tls]).findings("entry").0
}

#[test]
fn every_kind_of_finding_is_found() {
    let wrong: &[(&[u8], &str)] = &[
        (&[0xf0, 0x48, 0xff, 0], "locks: lock incq (%rax)"),
        (&[0x48, 0x87, 0x07], "locks: xchg %rax,(%rdi)"),
        (&[0x0f, 0xae, 0xf0], "is a fence: mfence"),
        (&[0x0f, 0xa2], "is a fence: cpuid"),
        (&[0x0f, 0x05], "calls the kernel: syscall"),
        (&[0xcd, 0x80], "calls the kernel: int $0x80"),
        (&[0x0f, 0x0b], "is a trap: ud2"),
        (&[0xcc], "is a trap: int3"),
        (&[0x06], "is no instruction: (bad)"),
        (&[0xff, 0xd0], "goes through a register: call *%rax"),
        (&[0xff, 0x50, 0x08], "goes through a register: callq *8(%rax)"),
        (&[0xff, 0x25, 0x02, 0x70, 0, 0], "goes through memory: jmpq *0x8008 <free>"),
        (&[0xff, 0x15, 0x12, 0x70, 0, 0], "goes through memory: callq *0x8018"),
        (&[0xe8, 0xfb, 0x0f, 0, 0], "leads elsewhere: call 0x0000000000002000 <core::panicking::panic_bounds_check>"),
        (
            &[0x0f, 0x85, 0xfa, 0x0f, 0, 0],
            "leads elsewhere: jne 0x0000000000002000 <core::panicking::panic_bounds_check>",
        ),
        (&[0xe8, 0xfc, 0x0f, 0, 0], "leads elsewhere: call 0x0000000000002001"),
        (&[0xe8, 0xfb, 0x1f, 0, 0], "leads elsewhere: call 0x0000000000003000 <free>"),
        (&[0x48, 0x89, 0x05, 0xf9, 0x6f, 0, 0], "stores to a static: mov %rax,0x8000"),
        (&[0xc7, 0x05, 0xf6, 0x6f, 0, 0, 1, 0, 0, 0], "stores to a static: movl $1,0x8000"),
        (&[0xff, 0x05, 0xfa, 0x6f, 0, 0], "stores to a static: incl 0x8000"),
        (&[0x0f, 0x94, 0x05, 0xf9, 0x6f, 0, 0], "stores to a static: sete 0x8000"),
    ];
    for (instruction, finding) in wrong {
        assert_eq!(findings_in(instruction), BTreeSet::from([format!("entry: {finding}")]));
    }
    let fine: &[(&[u8], &str)] = &[
        (&[0x48, 0x8b, 0x05, 0xf9, 0x6f, 0, 0], "mov 0x8000,%rax"),
        (&[0x83, 0x3d, 0xf9, 0x6f, 0, 0, 1], "cmpl $1,0x8000"),
        (&[0x48, 0x8d, 0x3d, 0xf9, 0x6f, 0, 0], "lea 0x8000,%rdi"),
        (&[0x48, 0x87, 0xca], "xchg %rcx,%rdx"),
        (&[0x75, 0], "jne 0x1002"),
        (&[0xe8, 0xfb, 0x2f, 0, 0], "call 0x4000 <__tls_get_addr>"),
        (&[0xff, 0x15, 0xfa, 0x6f, 0, 0], "call *0x8000 <__tls_get_addr>"),
        (&[0x49, 0x89, 0x06], "mov %rax,(%r14)"),
        (&[0x64, 0x48, 0x89, 0x04, 0x25, 0, 0, 0, 0], "mov %rax,%fs:0"),
        (
            &[0x48, 0x63, 0x04, 0x86, 0x48, 0x01, 0xf0, 0xff, 0xe0],
            "movslq (%rsi,%rax,4),%rax; add %rsi,%rax; jmp *%rax",
        ),
    ];
    for (instruction, text) in fine {
        assert_eq!(findings_in(instruction), BTreeSet::new(), "{text}");
    }
}

/// What is wrong deep inside the look-up is found from the entry.
#[test]
fn findings_are_found_behind_calls() {
    let code = made_of(&[
        ("entry", &[0xe8, 0xfb, 0x0f, 0, 0, 0xc3]),
        ("hsakmt_core::lookup::find_elsewhere", &[0xe9, 0xfb, 0x0f, 0, 0]),
        ("hsakmt_core::userptr::stab", &[0xf0, 0x48, 0x0f, 0xc1, 0x07, 0xc3]),
    ]);
    let (found, functions) = code.findings("entry");
    assert_eq!(found, BTreeSet::from(["hsakmt_core::userptr::stab: locks: lock xadd %rax,(%rdi)".to_owned()]));
    assert_eq!(functions, 3);
}
