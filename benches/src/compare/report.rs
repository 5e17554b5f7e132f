//! The result, for people and for machines.

use std::fmt::Write as _;

use comfy_table::{Cell, CellAlignment, Table, presets};
use serde_json::{Value, json};

use super::child::Machine;
use super::gate::reaches;
use super::measure::{Effort, Measured};
use super::programs::Programs;
use super::rows::{Aim, Work};
use crate::busy::Others;

/// Everything there is to say.
pub(super) struct Report<'a> {
    programs: &'a Programs,
    machine: &'a Machine,
    effort: Effort,
    measured: &'a [Measured],
    others: &'a Others,
}

impl<'a> Report<'a> {
    pub(super) fn new(
        programs: &'a Programs,
        machine: &'a Machine,
        effort: Effort,
        measured: &'a [Measured],
        others: &'a Others,
    ) -> Self {
        Report { programs, machine, effort, measured, others }
    }

    /// For people.
    pub(super) fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["row", "what", "theirs", "ours", "theirs / ours", "8 of 10 rounds", "aim"]);
        for row in self.measured {
            table.add_row(line(row));
        }
        for column in table.column_iter_mut().skip(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let mut text = format!("{table}\n");
        for row in self.measured.iter().filter(|row| !row.details.is_empty()) {
            let part =
                |(name, theirs, ours): &(&str, f64, f64)| format!("{name} {} / {}", short(*theirs), short(*ours));
            let parts: Vec<String> = row.details.iter().map(part).collect();
            let _ = writeln!(text, "{}, theirs / ours: {}", row.row.id, parts.join("; "));
        }
        let _ = writeln!(text, "theirs: {}\nours:   {}", self.programs.theirs.name, self.programs.ours.name);
        let _ = writeln!(
            text,
            "{}; CPU {}; medians of {} rounds in turn; nanoseconds of CPU time a call, threads-2: times one thread",
            processor(),
            self.machine.cpus[0],
            self.effort.rounds
        );
        if let Some(busy) = self.others.note() {
            let _ = writeln!(text, "{busy}: threads-* and tail-* say little.");
        }
        text
    }

    /// For machines.
    pub(super) fn json(&self) -> Result<String, serde_json::Error> {
        let rows: Vec<Value> = self.measured.iter().map(object).collect();
        let whole = json!({
            "processor": processor(),
            "cpus": self.machine.cpus,
            "others_running": self.others.mean(),
            "rounds": self.effort.rounds,
            "theirs": self.programs.theirs.name,
            "ours": self.programs.ours.name,
            "rows": rows,
        });
        serde_json::to_string_pretty(&whole)
    }
}

fn line(row: &Measured) -> Vec<Cell> {
    let unit = |value| match row.row.work {
        Work::Threads => format!("{value:.2} x"),
        Work::Calls(_) | Work::Tail => format!("{} ns", short(value)),
    };
    let ratio = match row.row.work {
        // Here more is better: the ratio is turned round, so that it too is "how much better".
        Work::Threads => format!("({:.2})", row.ratio.median),
        Work::Calls(_) | Work::Tail => short(row.ratio.median),
    };
    let mark = if reaches(row, row.row.aim) { "" } else { " MISSED" };
    let aim = match row.row.aim {
        Aim::Ratio(least) => format!("{}{mark}", short(least)),
        Aim::AtLeast(least) => format!("ours >= {least}{mark}"),
        Aim::AtMost(most) => format!("ours <= {most} ns{mark}"),
    };
    let range = format!("{} - {}", short(row.ratio.low), short(row.ratio.high));
    [row.row.id.to_owned(), row.row.what.to_owned(), unit(row.theirs.median), unit(row.ours.median), ratio, range, aim]
        .map(Cell::new)
        .into()
}

fn object(row: &Measured) -> Value {
    let (kind, value) = match row.row.aim {
        Aim::Ratio(value) => ("ratio at least", value),
        Aim::AtLeast(value) => ("ours at least", value),
        Aim::AtMost(value) => ("ours at most", value),
    };
    let details: serde_json::Map<String, Value> = row
        .details
        .iter()
        .map(|(name, theirs, ours)| ((*name).to_owned(), json!({ "theirs": theirs, "ours": ours })))
        .collect();
    json!({
        "row": row.row.id,
        "what": row.row.what,
        "buffers": row.row.objects.buffers,
        "userptrs": row.row.objects.userptrs,
        "unit": if matches!(row.row.work, Work::Threads) { "times one thread" } else { "ns" },
        "theirs": row.theirs,
        "ours": row.ours,
        "ratio": row.ratio,
        "aim": { "kind": kind, "value": value, "reached": reaches(row, row.row.aim) },
        "details": details,
    })
}

/// Three figures are enough.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => thousands(value),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// What the processor calls itself.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or_else(|| "unknown processor".to_owned(), |(_, name)| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0.4, 14.26, 412.4, 70_312.0, 1_000_000.4].map(short),
            ["0.40", "14.3", "412", "70,312", "1,000,000"]
        );
    }
}
