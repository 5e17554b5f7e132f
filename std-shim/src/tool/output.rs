//! Where text leaves: stdout for what was asked, stderr for what is said beside it. A reader that went away is no error:
//! it has read what it wanted (`hsakmt nodes | head -1`).

use std::io::{ErrorKind, IsTerminal, Write};

use comfy_table::{CellAlignment, Table, presets};

use super::failure::Failure;

/// Writes text and a line's end to stdout.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Writes a line to stderr. Where that is closed there is nobody to tell.
pub(super) fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Whether somebody watches stderr.
pub(super) fn is_watched() -> bool {
    std::io::stderr().is_terminal()
}

/// Rows under a header, columns two spaces apart, no frame: the same on a terminal, in a pipe and in a mail. The columns
/// in `numbers` are aligned to the right.
pub(super) fn table<const N: usize>(header: [&str; N], numbers: &[usize], rows: &[[String; N]]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    table.add_rows(rows.iter().map(|row| row.iter()));
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if numbers.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// As indented JSON.
pub(super) fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(value).map_err(|error| Failure::Output(error.into()))
}

/// Bytes as people say them: a whole number is exact, one with a point is rounded.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = |power: u32| UNITS.get(power as usize).copied().unwrap_or("");
    let exact = (count.trailing_zeros() / 10).min(6);
    let largest = count.max(1).ilog2() / 10;
    let whole = count >> (10 * exact.min(largest));
    if whole < 10_000 {
        return format!("{whole} {}", unit(exact.min(largest)));
    }
    format!("{:.1} {}", count as f64 / f64::exp2(10.0 * f64::from(largest)), unit(largest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_no_frame_and_no_trailing_blanks() {
        let rows = [["a".into(), "1".into()], ["bb".into(), "22".into()]];
        assert_eq!(table(["x", "n"], &[1], &rows), "x    n\na    1\nbb  22");
    }

    #[test]
    fn rounded_sizes_have_a_point() {
        let texts = [0, 32, 4096, 8191, 1 << 20, (64 << 30) - (16 << 20), 1 << 47, u64::MAX].map(bytes);
        assert_eq!(texts, ["0 B", "32 B", "4 KiB", "8191 B", "1 MiB", "64.0 GiB", "128 TiB", "16.0 EiB"]);
    }
}
