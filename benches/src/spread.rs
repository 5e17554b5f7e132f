//! Numbers from rounds: the median, and the range that holds 8 of 10.

use serde::Serialize;

/// A set of values in three numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    /// Half lie below.
    pub(crate) median: f64,
    /// One in ten lies below.
    pub(crate) low: f64,
    /// One in ten lies above.
    pub(crate) high: f64,
}

impl Spread {
    /// Of at least one value.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let at = |tenths: usize| values.get((last * tenths + 5) / 10).copied();
        Some(Spread { median: at(5)?, low: at(1)?, high: at(9)? })
    }
}

/// Plays `rounds` rounds of `N` measurements; the median of each.
pub(crate) fn medians<const N: usize, E>(
    rounds: usize,
    mut round: impl FnMut() -> Result<[f64; N], E>,
) -> Result<[f64; N], E> {
    let mut samples = [const { Vec::new() }; N];
    for _ in 0..rounds {
        for (samples, took) in samples.iter_mut().zip(round()?) {
            samples.push(took);
        }
    }
    Ok(samples.map(|samples| Spread::of(samples).map_or(f64::INFINITY, |spread| spread.median)))
}

/// The mean of at least one value.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    let count = u32::try_from(values.len()).ok().filter(|count| *count > 0)?;
    Some(values.iter().sum::<f64>() / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_edges() {
        assert_eq!((Spread::of([]), mean(&[])), (None, None));
        assert_eq!(mean(&[1.0, 2.0]), Some(1.5));
        assert_eq!(Spread::of([7.0]), Some(Spread { median: 7.0, low: 7.0, high: 7.0 }));
        let mut rounds = 0..;
        let middle = medians(3, || rounds.next().map(|round| [f64::from(round), 7.0 - f64::from(round)]).ok_or(()));
        assert_eq!(middle, Ok([1.0, 6.0]));
        assert_eq!(medians(1, || Err::<[f64; 1], _>(())), Err(()));
        let eleven = (0..=10u8).rev().map(f64::from);
        assert_eq!(Spread::of(eleven), Some(Spread { median: 5.0, low: 1.0, high: 9.0 }));
    }
}
