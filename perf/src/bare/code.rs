//! How large the machine code is: of the whole program by section, and of one function with everything it calls.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use super::board::said;

/// A function and what it calls.
pub(super) struct Reachable {
    pub(super) bytes: f64,
    /// Each function's own name and size.
    pub(super) parts: Vec<String>,
}

/// Code and constants, initial values, and zeroed memory (which holds a static registry), in bytes.
pub(super) fn sections(program: &Path) -> Result<impl Iterator<Item = (&'static str, f64)>, String> {
    let text = said(Command::new("arm-none-eabi-size").arg(program))?;
    let sizes: Vec<f64> =
        text.lines().nth(1).unwrap_or("").split_whitespace().map_while(|size| size.parse().ok()).collect();
    if sizes.len() < 3 {
        return Err(format!("arm-none-eabi-size says: {text}"));
    }
    Ok(["text", "data", "bss"].into_iter().zip(sizes))
}

/// All that can run when `function` is called. A panic in it is an error: a look-up has none.
pub(super) fn reachable(program: &Path, function: &str) -> Result<Reachable, String> {
    let listing =
        said(Command::new("arm-none-eabi-objdump").args(["--disassemble", "--no-show-raw-insn"]).arg(program))?;
    let symbols = said(Command::new("arm-none-eabi-nm").args(["--print-size", "--defined-only"]).arg(program))?;
    let sizes: BTreeMap<&str, u64> = symbols.lines().filter_map(size).collect();
    let calls = calls(&listing);
    let mut seen = BTreeSet::from([function]);
    let mut open = vec![function];
    while let Some(here) = open.pop() {
        for callee in calls.get(here).into_iter().flatten() {
            if seen.insert(callee) {
                open.push(callee);
            }
        }
    }
    if let Some(panic) = seen.iter().find(|name| name.contains("panic")) {
        return Err(format!("{function} can reach {panic}"));
    }
    let size = |name: &&str| sizes.get(name).copied().ok_or_else(|| format!("{name} has no size"));
    let bytes = seen.iter().map(size).sum::<Result<u64, String>>()?;
    let parts = seen.iter().map(|name| format!("{} {}", plain(name), sizes.get(name).unwrap_or(&0))).collect();
    Ok(Reachable { bytes: bytes as f64, parts })
}

/// `address size type name` -> name, size.
fn size(line: &str) -> Option<(&str, u64)> {
    let mut fields = line.split_whitespace();
    let size = u64::from_str_radix(fields.nth(1)?, 16).ok()?;
    Some((fields.nth(1)?, size))
}

/// Whom each function calls or jumps to, by a disassembly: `address <name>:` begins one, `... <other>` or `... <other+0x4>`
/// is a branch.
fn calls(listing: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut calls: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut here = "";
    for line in listing.lines() {
        let Some((before, rest)) = line.split_once('<') else { continue };
        let Some((name, after)) = rest.split_once('>') else { continue };
        if after == ":" {
            here = name;
        } else if is_branch(before) {
            let name = name.split('+').next().unwrap_or(name);
            if name != here {
                calls.entry(here).or_default().insert(name);
            }
        }
    }
    calls
}

/// Whether what stands before the name is a branch (`490a: bl 4a60`), not a load of a constant.
fn is_branch(before: &str) -> bool {
    let word = before.split_whitespace().nth(1).unwrap_or("");
    word.starts_with('b') || word.starts_with("cb")
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

    #[test]
    fn a_disassembly_says_who_calls_whom() {
        let listing = "\
00000400 <outer>:
     400:\tbl\t410 <inner>
     404:\tcbz\tr0, 402 <outer+0x2>
     406:\tldr\tr0, [pc, #8]\t; (410 <table>)
     408:\tb.w\t418 <tail+0x4>

00000410 <inner>:
     410:\tbx\tlr
";
        let calls = calls(listing);
        assert_eq!(calls.get("outer").unwrap().iter().collect::<Vec<_>>(), [&"inner", &"tail"]);
        assert!(!calls.contains_key("inner"));
        assert_eq!(size("0000490a 00000156 t name"), Some(("name", 0x156)));
        assert_eq!(
            plain("_RNvMNtCsakrpjgDHO1D_11hsakmt_core6lookupNtNtB4_8snapshot8Snapshot13query_pointer"),
            "query_pointer"
        );
    }
}
