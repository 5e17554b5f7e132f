//! Expected against counted.

use std::collections::BTreeSet;

use comfy_table::{CellAlignment, Table, presets};

use crate::TOLERANCE;
use crate::expected::Numbers;

/// A name with both its numbers, where there are both.
struct Line<'a> {
    name: &'a str,
    expected: Option<f64>,
    counted: Option<f64>,
}

impl Line<'_> {
    /// As a share of the expected number.
    fn change(&self) -> Option<f64> {
        Some(self.counted? / self.expected? - 1.0)
    }
}

/// All names of either side.
pub(crate) struct Comparison<'a> {
    lines: Vec<Line<'a>>,
}

impl<'a> Comparison<'a> {
    pub(crate) fn new(expected: &'a Numbers, counted: &'a Numbers) -> Comparison<'a> {
        let names: BTreeSet<&str> = expected.keys().chain(counted.keys()).map(String::as_str).collect();
        let of = |side: &Numbers, name| side.get(name).copied();
        let line = |name| Line { name, expected: of(expected, name), counted: of(counted, name) };
        Comparison { lines: names.into_iter().map(line).collect() }
    }

    /// For people; `what` is counted.
    pub(crate) fn table(&self, what: &str) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header([what, "expected", "counted", "change"]);
        for line in &self.lines {
            let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
            let change = line.change().map_or_else(String::new, |change| format!("{:+.1} %", change * 100.0));
            table.add_row([line.name.to_owned(), number(line.expected), number(line.counted), change]);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        format!("{table}\n")
    }

    /// What is not as expected, a line each.
    pub(crate) fn moved(&self) -> Vec<String> {
        self.lines.iter().filter_map(moved).collect()
    }
}

fn moved(line: &Line<'_>) -> Option<String> {
    let name = line.name;
    match (line.expected, line.counted, line.change()) {
        (Some(expected), Some(counted), Some(change)) if change.abs() > TOLERANCE => {
            Some(format!("{name}: expected {expected:.1}, counted {counted:.1} ({:+.1} %)", change * 100.0))
        }
        (Some(_), None, _) => Some(format!("{name}: expected, but it was not counted")),
        (None, Some(counted), _) => Some(format!("{name}: counted {counted:.1}, but nothing is expected of it")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(numbers: &[(&str, f64)]) -> Numbers {
        numbers.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[test]
    fn what_moved_is_named_in_either_direction() {
        let expected = numbers(&[("gone", 10.0), ("same", 100.0), ("up", 100.0), ("down", 100.0), ("near", 100.0)]);
        let counted = numbers(&[("new", 10.0), ("same", 100.0), ("up", 103.0), ("down", 97.0), ("near", 101.9)]);
        let comparison = Comparison::new(&expected, &counted);
        let names: Vec<String> =
            comparison.moved().iter().map(|line| line.split(':').next().unwrap_or_default().to_owned()).collect();
        assert_eq!(names, ["down", "gone", "new", "up"]);
        assert!(comparison.table("").contains("+3.0 %"), "{}", comparison.table(""));
    }
}
