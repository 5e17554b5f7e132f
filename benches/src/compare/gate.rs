//! Values that must be reached, from a file and the command line.

use std::collections::BTreeMap;
use std::path::Path;

use super::measure::Measured;
use super::rows::Aim;

/// Row name -> value.
pub(super) struct Gate {
    values: BTreeMap<String, f64>,
}

impl Gate {
    /// Those of the file, replaced by those of the command line (`ROW=VALUE`).
    pub(super) fn new(file: Option<&Path>, more: &[String]) -> Result<Gate, String> {
        let mut values = BTreeMap::new();
        if let Some(file) = file {
            let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
            let parsed: Result<BTreeMap<String, f64>, _> = serde_json::from_str(&text);
            values = parsed.map_err(|error| format!("{}: {error}", file.display()))?;
        }
        for text in more {
            let parts = text.split_once('=').and_then(|(name, value)| Some((name, value.parse().ok()?)));
            let (name, value) = parts.ok_or_else(|| format!("--require {text}: write it as hit-1k=3"))?;
            values.insert(name.trim().to_owned(), value);
        }
        Ok(Gate { values })
    }

    /// The rows it names.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// What to say if this row misses its value.
    pub(super) fn missed(&self, row: &Measured) -> Option<String> {
        let value = *self.values.get(row.row.id)?;
        let aim = match row.row.aim {
            Aim::Ratio(_) => Aim::Ratio(value),
            Aim::AtLeast(_) => Aim::AtLeast(value),
            Aim::AtMost(_) => Aim::AtMost(value),
        };
        let (is, wanted) = match aim {
            Aim::Ratio(_) => (row.ratio.median, "theirs / ours should be at least"),
            Aim::AtLeast(_) => (row.ours.median, "ours should be at least"),
            Aim::AtMost(_) => (row.ours.median, "ours should be at most"),
        };
        (!reaches(row, aim)).then(|| format!("{}: {is:.2}, but {wanted} {value}", row.row.id))
    }
}

/// Whether a row's median reaches `aim`.
pub(super) fn reaches(row: &Measured, aim: Aim) -> bool {
    match aim {
        Aim::Ratio(least) => row.ratio.median >= least,
        Aim::AtLeast(least) => row.ours.median >= least,
        Aim::AtMost(most) => row.ours.median <= most,
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::ROWS;
    use super::*;
    use crate::spread::Spread;

    fn measured(id: &str, theirs: f64, ours: f64) -> Measured {
        let row = ROWS.iter().find(|row| row.id == id).unwrap();
        let flat = |value| Spread { median: value, low: value, high: value };
        Measured { row, theirs: flat(theirs), ours: flat(ours), ratio: flat(theirs / ours), details: Vec::new() }
    }

    #[test]
    fn a_missed_value_is_named() {
        let gate = Gate::new(None, &["hit-16=3".into(), "tail-1k=300".into(), "threads-2=1.9".into()]).unwrap();
        assert_eq!(gate.missed(&measured("hit-16", 40.0, 10.0)), None);
        assert!(gate.missed(&measured("hit-16", 20.0, 10.0)).unwrap().contains("at least 3"));
        assert_eq!(gate.missed(&measured("tail-1k", 9.0, 299.0)), None);
        assert!(gate.missed(&measured("tail-1k", 9000.0, 301.0)).unwrap().contains("at most 300"));
        assert!(gate.missed(&measured("threads-2", 0.5, 1.5)).is_some());
        assert_eq!(gate.missed(&measured("hit-1k", 1.0, 10.0)), None, "not in the gate");
        assert!(Gate::new(None, &["hit-16".into()]).is_err());
    }
}
