//! What a program of this package needs of the machine, looked for before anything is built or measured.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::compare::programs::run;

/// Something that must be there.
pub(crate) struct Need {
    what: &'static str,
    /// How to get it.
    how: &'static str,
    there: bool,
}

impl Need {
    /// A file.
    pub(crate) fn file(path: &'static str, how: &'static str) -> Need {
        Need { what: path, how, there: Path::new(path).exists() }
    }

    /// A library that the C compiler finds; its file name without a version.
    pub(crate) fn library(file: &'static str, how: &'static str) -> Need {
        let found = run(Command::new("cc").arg(format!("-print-file-name={file}")));
        // Without a compiler that is what is missing.
        Need { what: file, how, there: found.map_or(true, |path| path.contains('/')) }
    }

    /// A C compiler.
    pub(crate) fn compiler() -> Need {
        Need { what: "cc, a C compiler", how: "apt-get install gcc libc6-dev", there: runs("cc") }
    }

    /// What std-shim/install builds with beside the compiler.
    pub(crate) fn binutils() -> Need {
        let there = ["ld", "objcopy", "ar"].iter().all(|tool| runs(tool));
        Need { what: "ld, objcopy and ar", how: "apt-get install binutils", there }
    }
}

fn runs(tool: &str) -> bool {
    Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Names everything that is missing, and how to get it.
pub(crate) fn check(needs: impl IntoIterator<Item = Need>) -> Result<(), String> {
    let missing = needs.into_iter().filter(|need| !need.there);
    let lines: Vec<String> = missing.map(|need| format!("\n  {}: {}", need.what, need.how)).collect();
    if lines.is_empty() { Ok(()) } else { Err(format!("missing here:{}", lines.concat())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_names_all_that_is_missing() {
        let message = check([
            Need::file("/", "nothing to do"),
            Need::file("/no/such/header.h", "apt-get install one"),
            Need { what: "two", how: "apt-get install two", there: runs("no-such-tool-here") },
        ]);
        let expected = "missing here:\n  /no/such/header.h: apt-get install one\n  two: apt-get install two";
        assert_eq!(message, Err(expected.to_owned()));
        assert_eq!(check([Need::file("/", "nothing to do")]), Ok(()));
    }
}
