//! The file with the expected numbers.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// What was counted, by name: instructions of one look-up, or bytes.
pub(crate) type Numbers = BTreeMap<String, f64>;

/// What is expected, and of which compiler.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expected {
    /// As [`crate::count::compiler`] names it.
    pub(crate) compiler: String,
    /// Of one look-up each, or of a program.
    #[serde(alias = "instructions")]
    pub(crate) numbers: Numbers,
}

impl Expected {
    pub(crate) fn read(file: &Path) -> Result<Expected, String> {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))
    }

    pub(crate) fn write(&self, file: &Path) -> Result<(), String> {
        let text = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        std::fs::write(file, text + "\n").map_err(|error| format!("{}: {error}", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_file_can_be_read() {
        let expected = Expected::read(&crate::package().join("expected.json")).unwrap();
        assert!(expected.compiler.starts_with("rustc "), "{}", expected.compiler);
        assert!(expected.numbers.values().all(|count| *count > 1.0), "{expected:?}");
    }
}
