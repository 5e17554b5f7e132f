//! How large the machine code is: of the whole program by section, and of one function with everything it calls.
//!
//! In: an ELF file linked with `--emit-relocs`. Each reference from one function to another has a relocation, so that no
//! instruction needs to be decoded.

use std::collections::BTreeMap;
use std::path::Path;

use object::elf::{SHF_ALLOC, SHF_WRITE};
use object::{File, Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionFlags, SectionKind, SymbolKind};

/// A function and what it calls.
pub(super) struct Reachable {
    pub(super) bytes: f64,
    /// Each function's own name and size.
    pub(super) parts: Vec<String>,
}

/// A program's file, in memory.
pub(super) struct Program(Vec<u8>);

impl Program {
    pub(super) fn read(path: &Path) -> Result<Program, String> {
        std::fs::read(path).map(Program).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn file(&self) -> Result<File<'_>, String> {
        File::parse(&*self.0).map_err(|error| format!("the program: {error}"))
    }

    /// Code and constants, initial values, and zeroed memory (which holds a static registry), in bytes.
    pub(super) fn sections(&self) -> Result<[(&'static str, f64); 3], String> {
        let [mut text, mut data, mut bss] = [0; 3];
        for section in self.file()?.sections() {
            match section.flags() {
                SectionFlags::Elf { sh_flags, .. } if !sh_flags.contains(SHF_ALLOC) => {}
                SectionFlags::Elf { sh_flags, .. } if !sh_flags.contains(SHF_WRITE) => text += section.size(),
                _ if section.kind() == SectionKind::UninitializedData => bss += section.size(),
                _ => data += section.size(),
            }
        }
        Ok([("text", text as f64), ("data", data as f64), ("bss", bss as f64)])
    }

    /// All functions that can run when `function` is called, by their references to each other. A panic among them is an
    /// error: a look-up has none.
    pub(super) fn reachable(&self, function: &str) -> Result<Reachable, String> {
        let file = self.file()?;
        // An odd address says Thumb; the code is at the even one.
        let is_code = |symbol: &object::Symbol<'_, '_>| symbol.kind() == SymbolKind::Text && symbol.is_definition();
        let functions: BTreeMap<u64, _> = (file.symbols().filter(is_code))
            .map(|symbol| (symbol.address() & !1, (symbol.name().unwrap_or("?"), symbol.size())))
            .collect();
        let relocations: BTreeMap<u64, RelocationTarget> = (file.sections())
            .filter(|section| section.kind() == SectionKind::Text)
            .flat_map(|section| section.relocations().map(|(place, relocation)| (place, relocation.target())))
            .collect();
        if relocations.is_empty() {
            return Err("the program was linked without --emit-relocs".to_owned());
        }
        let start = functions.iter().find(|(_, (name, _))| *name == function);
        let (start, _) = start.ok_or_else(|| format!("the program has no {function}"))?;
        let (mut seen, mut open) = (BTreeMap::new(), vec![*start]);
        while let Some(address) = open.pop() {
            let (name, size) = *functions.get(&address).ok_or_else(|| format!("no function begins at {address:#x}"))?;
            if name.contains("panic") {
                return Err(format!("{function} can reach {name}"));
            }
            if seen.insert(address, (name, size)).is_some() {
                continue;
            }
            for (place, target) in relocations.range(address..address + size) {
                let RelocationTarget::Symbol(index) = target else { continue };
                let symbol = file.symbol_by_index(*index).map_err(|error| format!("{name}, at {place:#x}: {error}"))?;
                if is_code(&symbol) {
                    open.push(symbol.address() & !1);
                }
            }
        }
        let bytes: u64 = seen.values().map(|(_, size)| size).sum();
        let parts = seen.values().map(|(name, size)| format!("{} {size}", plain(name))).collect();
        Ok(Reachable { bytes: bytes as f64, parts })
    }
}

/// A mangled name's last few words: enough to know it by.
fn plain(name: &str) -> &str {
    let end = name.trim_end_matches(|letter: char| !letter.is_ascii_lowercase());
    let start = end.rfind(|letter: char| letter.is_ascii_digit()).map_or(0, |at| at + 1);
    end.get(start..).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bare::board::said;
    use std::process::Command;

    const SOURCE: &str = "
        int zeroed[100], value = 7;
        __attribute__((noinline)) int leaf(int x) { return x * zeroed[x]; }
        __attribute__((noinline)) int panic_here(int x) { return x / value; }
        int (*volatile hidden)(int);
        int outer(int x) { hidden = leaf; return hidden(x) + 1; }
        int wrong(int x) { return panic_here(x) + 1; }
        int alone(int x) { return x + 1; }
    ";

    fn program(flags: &[&str]) -> Program {
        let folder = tempfile::tempdir().unwrap();
        let (source, binary) = (folder.path().join("program.c"), folder.path().join("program"));
        std::fs::write(&source, SOURCE).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-ffunction-sections", "-fno-pic", "-no-pie", "-static", "-nostdlib", "-Wl,-e,outer"]);
        said(cc.args(flags).arg(source).arg("-o").arg(&binary)).unwrap();
        Program::read(&binary).unwrap()
    }

    #[test]
    fn a_function_reaches_what_it_calls_and_what_it_points_to() {
        let program = program(&["-Wl,--emit-relocs"]);
        let names = |function| {
            let parts = program.reachable(function).unwrap().parts;
            let mut names: Vec<_> = parts.iter().map(|part| part.split(' ').next().unwrap().to_owned()).collect();
            names.sort();
            names
        };
        assert_eq!(names("outer"), ["leaf", "outer"]);
        assert_eq!(names("alone"), ["alone"]);
        let [leaf, outer] = ["leaf", "outer"].map(|function| program.reachable(function).unwrap().bytes);
        assert!(leaf > 0.0 && outer > leaf, "{leaf} {outer}");
        assert_eq!(program.reachable("wrong").err().unwrap(), "wrong can reach panic_here");
        assert_eq!(program.reachable("nothing").err().unwrap(), "the program has no nothing");
        let [text, data, bss] = program.sections().unwrap().map(|(_, bytes)| bytes);
        assert!(text >= outer && data >= 4.0 && bss >= 400.0, "{text} {data} {bss}");
    }

    #[test]
    fn without_relocations_nothing_is_said() {
        let refused = program(&[]).reachable("alone").err().unwrap();
        assert_eq!(refused, "the program was linked without --emit-relocs");
    }

    #[test]
    fn a_mangled_name_is_known_by_its_end() {
        let mangled = "_RNvMNtCsakrpjgDHO1D_11hsakmt_core6lookupNtNtB4_8snapshot8Snapshot13query_pointer";
        assert_eq!(plain(mangled), "query_pointer");
    }
}
