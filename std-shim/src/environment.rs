//! The environment variables the library honours, and when each is read.
//!
//! | variable | read at | meaning |
//! |---|---|---|
//! | `HSA_USE_SVM` | open | "0": no SVM API |
//! | `HSA_ZFB` | open | not 0: no frame buffer, everything is host memory |
//! | `HSAKMT_DEBUG_LEVEL` | open | 3 errors ... 7 everything, on stderr |
//! | `HSA_DISABLE_CACHE` | set-up | set and not "0": all memory coherent |
//! | `HSA_USERPTR_FOR_PAGED_MEM` | set-up | "0": paged host memory is GTT |
//! | `HSA_CHECK_USERPTR` | set-up | set and not "0": read every page at registration |
//! | `HSA_RESERVE_SVM` | set-up | set and not "0": SVM is reserved up front |
//! | `HSA_SVM_GUARD_PAGES` | set-up | pages between allocations, default 1 |
//! | `HSA_MAX_VA_ALIGN` | set-up | where growing alignments stop, as an order of pages |

use std::io::Write;

use hsakmt_core::manager::{Opened, Options};

fn text(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// Set, and not "0".
fn switch(name: &str) -> bool {
    text(name).is_some_and(|value| value != "0")
}

/// The number a value starts with, as C's `atoi` and `%u` read it; `None` if it starts with none.
fn leading_number(value: &str) -> Option<u64> {
    let value = value.trim_start();
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    value.get(..digits)?.parse().ok()
}

fn number(name: &str) -> Option<u64> {
    text(name).as_deref().and_then(leading_number)
}

/// `HSA_USE_SVM` is not "0".
pub(crate) fn use_svm() -> bool {
    text("HSA_USE_SVM").is_none_or(|value| value != "0")
}

/// What is read when the channel opens.
pub(crate) fn at_open(kfd_minor: u32, secondary: bool) -> Opened {
    Opened {
        use_svm: !secondary && use_svm(),
        zfb: number("HSA_ZFB").is_some_and(|value| value != 0),
        kfd_minor,
        secondary,
    }
}

/// What is read when the apertures are set up.
pub(crate) fn at_set_up() -> Options {
    let capped = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    Options {
        disable_cache: switch("HSA_DISABLE_CACHE"),
        userptr_for_paged_mem: text("HSA_USERPTR_FOR_PAGED_MEM").is_none_or(|value| value != "0"),
        check_userptr: switch("HSA_CHECK_USERPTR"),
        reserve_svm: switch("HSA_RESERVE_SVM"),
        guard_pages: number("HSA_SVM_GUARD_PAGES").map_or(1, capped),
        max_va_align: number("HSA_MAX_VA_ALIGN").map(capped),
    }
}

/// Starts to print what the library has to say, if `HSAKMT_DEBUG_LEVEL` asks for it and no logger stands yet.
pub(crate) fn start_log() {
    let level = match number("HSAKMT_DEBUG_LEVEL") {
        Some(3) => log::LevelFilter::Error,
        Some(4 | 5) => log::LevelFilter::Warn,
        Some(6) => log::LevelFilter::Info,
        Some(7) => log::LevelFilter::Debug,
        _ => return,
    };
    if log::set_logger(&Stderr).is_ok() {
        log::set_max_level(level);
    }
}

/// Lines on stderr.
struct Stderr;

impl log::Log for Stderr {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        // A closed stderr is no reason to fail a call.
        let _ = writeln!(std::io::stderr(), "hsakmt: {}: {}", record.level(), record.args());
    }

    fn flush(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        assert_eq!(leading_number(" 12abc"), Some(12));
        assert_eq!(leading_number("x"), None);
        assert_eq!(leading_number(""), None);
        assert_eq!(leading_number("99999999999999999999999"), None);
    }
}
