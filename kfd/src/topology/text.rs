//! The text of a sysfs `properties` file: lines of a name and a number.
//!
//! A property that is asked for and cannot be read is an error that names file and line. Lines that nobody asks for
//! are not looked at, so that a kernel may add what it likes; a name that is absent is 0, so that it may be older, too.

use std::path::{Path, PathBuf};

/// A line that does not say what it should.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}: {what}: {text:?}", path.display())]
pub struct SyntaxError {
    /// The file.
    pub path: PathBuf,
    /// Counted from 1.
    pub line: usize,
    /// What was expected.
    pub what: &'static str,
    /// The text there, at most 64 characters.
    pub text: String,
}

impl SyntaxError {
    pub(super) fn new(path: &Path, line: usize, what: &'static str, text: &str) -> SyntaxError {
        SyntaxError { path: path.into(), line, what, text: text.chars().take(64).collect() }
    }
}

/// A `properties` file, not yet looked into.
#[derive(Clone, Copy, Debug)]
pub struct Properties<'a> {
    path: &'a Path,
    text: &'a str,
}

impl<'a> Properties<'a> {
    /// `path` is only for error messages.
    pub fn new(path: &'a Path, text: &'a str) -> Properties<'a> {
        Properties { path, text }
    }

    /// What stands behind a name, and its line. Of several lines with the name the last counts.
    fn find(&self, name: &str) -> Option<(usize, &'a str)> {
        let lines = self.text.lines().zip(1..).filter_map(|(line, number)| {
            let rest = line.trim_start().strip_prefix(name)?;
            rest.starts_with(|next: char| next.is_ascii_whitespace()).then_some((number, rest.trim()))
        });
        lines.last()
    }

    /// Whether there is a line with this name.
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// The number behind a name; 0 if there is no such line.
    pub fn u64(&self, name: &str) -> Result<u64, SyntaxError> {
        let Some((line, text)) = self.find(name) else { return Ok(0) };
        let number = text.split_ascii_whitespace().next().unwrap_or_default();
        // A kernel that prints a signed property means the same bits.
        let parsed = number.parse::<u64>().ok().or_else(|| number.parse::<i64>().ok().map(i64::cast_unsigned));
        parsed.ok_or_else(|| SyntaxError::new(self.path, line, "a number of 64 bits was expected", text))
    }

    /// The low 32 bits of the number behind a name.
    pub fn u32(&self, name: &str) -> Result<u32, SyntaxError> {
        Ok(self.u64(name)? as u32)
    }

    /// The numbers, separated by commas, behind a name: at most `most`.
    pub fn list(&self, name: &str, most: usize) -> Result<Vec<u32>, SyntaxError> {
        let Some((line, text)) = self.find(name) else { return Ok(Vec::new()) };
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty()).take(most);
        let numbers = parts.map(|part| {
            part.parse().map_err(|_| SyntaxError::new(self.path, line, "numbers and commas were expected", part))
        });
        numbers.collect()
    }
}

/// A file that holds one number.
pub(super) fn number(path: &Path, text: &str) -> Result<u64, SyntaxError> {
    text.trim().parse().map_err(|_| SyntaxError::new(path, 1, "a number was expected", text.trim()))
}
