//! Rounds: theirs, ours, theirs, ours, ...; who begins changes from round to round.

use super::child::Child;
use super::rows::{Row, Work};
use crate::spread::Spread;

/// How much to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// Rounds of a row.
    pub(super) rounds: usize,
    /// Nanoseconds a round of calls should take at least.
    slice: f64,
    /// Milliseconds a round with several threads takes.
    threads: u32,
}

impl Effort {
    pub(super) const FULL: Effort = Effort { rounds: 41, slice: 8e6, threads: 300 };
    pub(super) const QUICK: Effort = Effort { rounds: 9, slice: 2e6, threads: 100 };
    /// Rounds with several threads are long, so there are fewer.
    fn long_rounds(self) -> usize {
        self.rounds.div_ceil(4)
    }
}

/// A row with its numbers.
#[derive(Debug)]
pub(super) struct Measured {
    /// Which.
    pub(super) row: &'static Row,
    /// Their value.
    pub(super) theirs: Spread,
    /// Ours.
    pub(super) ours: Spread,
    /// How much better ours is, round by round.
    pub(super) ratio: Spread,
    /// What else is worth knowing: name, theirs, ours.
    pub(super) details: Vec<(&'static str, f64, f64)>,
}

/// Measures one row.
pub(super) fn measure(
    row: &'static Row,
    theirs: &mut Child,
    ours: &mut Child,
    effort: Effort,
) -> Result<Measured, String> {
    match row.work {
        Work::Calls(verb) => calls(row, verb, theirs, ours, effort),
        Work::Threads => threads(row, theirs, ours, effort),
        Work::Tail => tail(row, theirs, ours, effort),
    }
}

/// Nanoseconds a call.
fn calls(
    row: &'static Row,
    verb: &str,
    theirs: &mut Child,
    ours: &mut Child,
    effort: Effort,
) -> Result<Measured, String> {
    let counts = (calls_per_round(verb, theirs, effort)?, calls_per_round(verb, ours, effort)?);
    let pairs = alternate(effort.rounds, theirs, ours, |child, is_ours| {
        let count = if is_ours { counts.1 } else { counts.0 };
        // The other library's turn has emptied the caches: a quarter of a round to fill them again.
        child.ask(&format!("{verb} {}", count.div_ceil(4)))?;
        Ok(first(&child.ask(&format!("{verb} {count}"))?)? / f64::from(count))
    })?;
    summed_up(row, &pairs, |theirs, ours| theirs / ours, Vec::new())
}

/// As many calls as fill a round.
fn calls_per_round(verb: &str, child: &mut Child, effort: Effort) -> Result<u32, String> {
    let mut count = 16;
    loop {
        let took = first(&child.ask(&format!("{verb} {count}"))?)?;
        if took >= effort.slice || count >= 1 << 24 {
            return Ok(count);
        }
        count *= 2;
    }
}

/// Throughput of two threads in units of that of one.
fn threads(row: &'static Row, theirs: &mut Child, ours: &mut Child, effort: Effort) -> Result<Measured, String> {
    let mut rates = [Vec::new(), Vec::new()];
    let pairs = alternate(effort.long_rounds(), theirs, ours, |child, is_ours| {
        let one = rate(&child.ask(&format!("threads 1 {}", effort.threads))?)?;
        let two = rate(&child.ask(&format!("threads 2 {}", effort.threads))?)?;
        rates[usize::from(is_ours)].push(two * 1e3);
        Ok(two / one)
    })?;
    let [theirs, ours] = rates.map(|rates| Spread::of(rates).map_or(0.0, |spread| spread.median));
    summed_up(row, &pairs, |theirs, ours| ours / theirs, vec![("million queries a second, 2 threads", theirs, ours)])
}

/// Calls a nanosecond.
fn rate(answer: &[f64]) -> Result<f64, String> {
    match answer {
        [calls, nanoseconds, ..] if *nanoseconds > 0.0 => Ok(calls / nanoseconds),
        other => Err(format!("not calls and nanoseconds: {other:?}")),
    }
}

/// What a `tail` answer holds, after calls, writes and nanoseconds.
const TAIL: [&str; 7] = [
    "p50 ns",
    "p99 ns",
    "p99.9 ns",
    "p99.99 ns",
    "longest ns",
    "of these the clock ns",
    "p99.9 ns of waits as long as p50, without a library",
];

/// Nanoseconds that 99.9 % of a reader's calls stay below while another thread writes without pause.
fn tail(row: &'static Row, theirs: &mut Child, ours: &mut Child, effort: Effort) -> Result<Measured, String> {
    let mut seen = [Vec::new(), Vec::new()];
    let pairs = alternate(effort.long_rounds(), theirs, ours, |child, is_ours| {
        let answer = child.ask(&format!("tail {}", effort.threads))?;
        let value = *answer.get(5).ok_or("a tail answer is too short")?;
        seen[usize::from(is_ours)].push(answer);
        Ok(value)
    })?;
    let middle = |side: &Vec<Vec<f64>>, of: &dyn Fn(&[f64]) -> Option<f64>| {
        Spread::of(side.iter().filter_map(|answer| of(answer))).map_or(0.0, |spread| spread.median)
    };
    let both = |of: &dyn Fn(&[f64]) -> Option<f64>| (middle(&seen[0], of), middle(&seen[1], of));
    let writes = both(&|answer| Some(answer.get(1)? / answer.get(2)? * 1e9));
    let mut details = vec![("writes a second", writes.0, writes.1)];
    for (position, name) in TAIL.into_iter().enumerate() {
        let (theirs, ours) = both(&|answer| answer.get(3 + position).copied());
        details.push((name, theirs, ours));
    }
    summed_up(row, &pairs, |theirs, ours| theirs / ours, details)
}

/// A value of each per round.
fn alternate(
    rounds: usize,
    theirs: &mut Child,
    ours: &mut Child,
    mut one: impl FnMut(&mut Child, bool) -> Result<f64, String>,
) -> Result<Vec<(f64, f64)>, String> {
    let mut pairs = Vec::new();
    for round in 0..rounds {
        pairs.push(if round % 2 == 0 {
            let first = one(theirs, false)?;
            (first, one(ours, true)?)
        } else {
            let first = one(ours, true)?;
            (one(theirs, false)?, first)
        });
    }
    Ok(pairs)
}

fn summed_up(
    row: &'static Row,
    pairs: &[(f64, f64)],
    ratio: impl Fn(f64, f64) -> f64,
    details: Vec<(&'static str, f64, f64)>,
) -> Result<Measured, String> {
    let theirs = Spread::of(pairs.iter().map(|pair| pair.0));
    let ours = Spread::of(pairs.iter().map(|pair| pair.1));
    let ratio = Spread::of(pairs.iter().map(|pair| ratio(pair.0, pair.1)));
    match (theirs, ours, ratio) {
        (Some(theirs), Some(ours), Some(ratio)) => Ok(Measured { row, theirs, ours, ratio, details }),
        _ => Err("no rounds".into()),
    }
}

fn first(answer: &[f64]) -> Result<f64, String> {
    answer.first().copied().ok_or_else(|| "an empty answer".into())
}
