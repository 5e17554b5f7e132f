//! The environment variables that open and set-up read. README.md has the table of all variables, with their meaning; a
//! variable that is set but empty counts as unset.
//!
//! Numbers are read as the C library reads them, signs, overflows and all: with `atoi` at open, with `sscanf("%u")` at
//! set-up. So `-1` switches `HSA_ZFB` on and is 4,294,967,295 guard pages.

use std::fmt::{self, Write};

use hsakmt_core::manager::{Opened, Options};
use hsakmt_core::registry::RETIRED_LIMIT;
use hsakmt_kfd::environment::variable as text;

/// Set, and not "0".
fn switch(name: &str) -> bool {
    text(name).is_some_and(|value| value != "0")
}

/// What a value starts with after white space: whether a minus sign, and the digits' number, which is itself `None` past
/// [`u64::MAX`]. `None` if there are no digits.
fn leading_number(value: &str) -> Option<(bool, Option<u64>)> {
    // What C calls white space: that of ASCII and the vertical tab.
    let value = value.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let unsigned = value.strip_prefix(['+', '-']).unwrap_or(value);
    let digits = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    let digits = unsigned.get(..digits).filter(|digits| !digits.is_empty())?;
    // Only digits: what does not parse is too large.
    Some((value.starts_with('-'), digits.parse().ok()))
}

/// As glibc's `atoi`: a `long`, kept inside its range, of which the low half counts. 0 without a number.
fn atoi(value: &str) -> i32 {
    let Some((negative, digits)) = leading_number(value) else { return 0 };
    let digits = digits.unwrap_or(u64::MAX);
    let long = if negative { 0i64.saturating_sub_unsigned(digits) } else { 0i64.saturating_add_unsigned(digits) };
    long as i32
}

/// As glibc's `sscanf("%u")`: an `unsigned long` of which the low half counts; a minus sign wraps, unless the digits alone
/// are too many. `None` without a number.
fn scan_u32(value: &str) -> Option<u32> {
    let (negative, digits) = leading_number(value)?;
    let long = digits.map_or(u64::MAX, |digits| if negative { digits.wrapping_neg() } else { digits });
    Some(long as u32)
}

/// `HSA_USE_SVM` is not "0".
pub(crate) fn use_svm() -> bool {
    text("HSA_USE_SVM").is_none_or(|value| value != "0")
}

/// What is read when the channel opens.
pub(crate) fn at_open(kfd_minor: u32, secondary: bool) -> Opened {
    Opened {
        use_svm: !secondary && use_svm(),
        zfb: text("HSA_ZFB").is_some_and(|value| atoi(&value) != 0),
        kfd_minor,
        secondary,
        reserves_host: cfg!(not(feature = "abi-6-2-4")),
    }
}

/// Bytes of replaced memory that may wait for readers; read when the channel opens.
pub(crate) fn retired_limit() -> usize {
    let mib = text("HSAKMT_MAX_RETIRED_MIB").as_deref().and_then(scan_u32);
    mib.map_or(RETIRED_LIMIT, |mib| (mib as usize).saturating_mul(1 << 20))
}

/// What is read when the apertures are set up.
pub(crate) fn at_set_up() -> Options {
    let number = |name| text(name).as_deref().and_then(scan_u32);
    Options {
        disable_cache: switch("HSA_DISABLE_CACHE"),
        userptr_for_paged_mem: text("HSA_USERPTR_FOR_PAGED_MEM").is_none_or(|value| value != "0"),
        check_userptr: switch("HSA_CHECK_USERPTR"),
        reserve_svm: switch("HSA_RESERVE_SVM"),
        guard_pages: number("HSA_SVM_GUARD_PAGES").unwrap_or(1),
        max_va_align: number("HSA_MAX_VA_ALIGN"),
    }
}

/// Starts to print what the library has to say, if `HSAKMT_DEBUG_LEVEL` asks for it and no logger stands yet.
pub(crate) fn start_log() {
    let level = match text("HSAKMT_DEBUG_LEVEL").map_or(0, |value| atoi(&value)) {
        3 => log::LevelFilter::Error,
        4 | 5 => log::LevelFilter::Warn,
        6 => log::LevelFilter::Info,
        7 => log::LevelFilter::Debug,
        _ => return,
    };
    if log::set_logger(&Stderr).is_ok() {
        log::set_max_level(level);
    }
}

/// Lines on stderr, each written by one system call from a buffer on the stack: a lock could be one that a thread held at
/// fork, and a heap allocation could call back into the library.
struct Stderr;

/// A line of up to 512 bytes; the rest is cut off.
struct Line {
    bytes: [u8; 512],
    used: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // The last byte is the line's end.
        let room = self.bytes.len() - 1 - self.used;
        let taken = text.len().min(room);
        for (to, from) in self.bytes.iter_mut().skip(self.used).zip(text.bytes().take(taken)) {
            *to = from;
        }
        self.used += taken;
        Ok(())
    }
}

impl log::Log for Stderr {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let mut line = Line { bytes: [0; 512], used: 0 };
        let _ = write!(line, "hsakmt: {}: {}", record.level(), record.args());
        if let Some(end) = line.bytes.get_mut(line.used) {
            *end = b'\n';
        }
        // A closed stderr is no reason to fail a call.
        let _ = rustix::io::write(std::io::stderr(), line.bytes.get(..=line.used).unwrap_or(&[]));
    }

    fn flush(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_off_at_its_end() {
        let mut line = Line { bytes: [0; 512], used: 0 };
        write!(line, "{}{}", "a".repeat(500), "b".repeat(500)).unwrap();
        assert_eq!((line.used, line.bytes[499], line.bytes[510], line.bytes[511]), (511, b'a', b'b', 0));
    }

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        // What glibc gives for each: `atoi`, and `sscanf("%u")` into a variable that was 77.
        const READINGS: &[(&str, i32, Option<u32>)] = &[
            ("", 0, None),
            (" 12abc", 12, Some(12)),
            ("x", 0, None),
            ("-1", -1, Some(4294967295)),
            ("+1", 1, Some(1)),
            ("+", 0, None),
            ("-", 0, None),
            ("- 1", 0, None),
            ("+-1", 0, None),
            ("\t\n\x0b\x0c\r 7", 7, Some(7)),
            ("-0", 0, Some(0)),
            ("0x10", 0, Some(0)),
            ("007", 7, Some(7)),
            ("2147483648", -2147483648, Some(2147483648)),
            ("4294967296", 0, Some(0)),
            ("4294967297", 1, Some(1)),
            ("-4294967297", -1, Some(4294967295)),
            ("9223372036854775807", -1, Some(4294967295)),
            ("9223372036854775808", -1, Some(0)),
            ("-9223372036854775808", 0, Some(0)),
            ("-9223372036854775809", 0, Some(4294967295)),
            ("18446744073709551615", -1, Some(4294967295)),
            ("-18446744073709551615", 0, Some(1)),
            ("18446744073709551616", -1, Some(4294967295)),
            ("-18446744073709551616", 0, Some(4294967295)),
            ("99999999999999999999999", -1, Some(4294967295)),
            ("-99999999999999999999999", 0, Some(4294967295)),
            ("\u{a0}3", 0, None),
        ];
        for (value, atoi_reads, scan_reads) in READINGS {
            assert_eq!((atoi(value), scan_u32(value)), (*atoi_reads, *scan_reads), "{value:?}");
        }
    }
}
