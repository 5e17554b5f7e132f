//! Reading files and directories that the kernel shows.
//!
//! In: a path. Out: text, or names. What never happens: an endless read (each file has a limit), or a directory that is cut
//! short by a signal: where readdir(3) or opendir(3) was interrupted, the directory is read again from the start.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::TopologyError;

/// Bytes of an attribute in sysfs: the kernel gives it one page, and no machine has larger pages.
pub(super) const ATTRIBUTE: u64 = 64 << 10;

/// Bytes of `/proc/cpuinfo` and of libdrm's list of names: a hundred times as much as large machines have.
pub(super) const LIST: u64 = 64 << 20;

/// A file's text, of at most `limit` bytes.
pub(super) fn read(path: &Path, limit: u64) -> Result<String, TopologyError> {
    let failed = |source| TopologyError::File { path: path.into(), source };
    String::from_utf8(bytes(path, limit)?).map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidData, error)))
}

/// The text of a file that need not be there: empty if it cannot be read. A file that is there and too long is logged.
pub(super) fn read_optional(path: &Path, limit: u64) -> String {
    match bytes(path, limit) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error @ TopologyError::TooLong { .. }) => {
            log::warn!("{error}");
            String::new()
        }
        Err(error) => {
            log::debug!("{error}");
            String::new()
        }
    }
}

fn bytes(path: &Path, limit: u64) -> Result<Vec<u8>, TopologyError> {
    let failed = |source| TopologyError::File { path: path.into(), source };
    let mut bytes = Vec::new();
    // Opening and reading go on after a signal by themselves.
    let file = File::open(path).map_err(failed)?;
    file.take(limit + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > limit {
        return Err(TopologyError::TooLong { path: path.into(), limit });
    }
    Ok(bytes)
}

/// The names in a directory, in the directory's order. One that is no text is left out.
pub(super) fn names(path: &Path) -> io::Result<Vec<String>> {
    loop {
        let names = std::fs::read_dir(path).and_then(|entries| {
            let names = entries.map(|entry| entry.map(|entry| entry.file_name().into_string().ok()));
            names.collect::<io::Result<Vec<_>>>()
        });
        match names {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            names => return Ok(names?.into_iter().flatten().collect()),
        }
    }
}
