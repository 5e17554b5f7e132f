//! Where a key stands among sixteen: the inner loop of every look-up.
//!
//! Keys are sorted, unused ones are `usize::MAX`, and there is no count: a rank is a sum of comparisons, three to find
//! the group of four and four inside it, none of them a branch.

/// Entries per leaf and children per branch.
pub(crate) const FANOUT: usize = 16;

/// What an unused key holds. No object starts there.
pub(crate) const UNUSED: usize = usize::MAX;

/// How many keys are at most `key`.
#[inline(always)]
pub(crate) fn rank_le(keys: &[usize; FANOUT], key: usize) -> usize {
    rank(keys, |known| known <= key)
}

/// How many keys are below `key`.
#[inline(always)]
pub(crate) fn rank_lt(keys: &[usize; FANOUT], key: usize) -> usize {
    rank(keys, |known| known < key)
}

/// How many keys satisfy `below`, which holds for a prefix of them.
#[inline(always)]
fn rank(keys: &[usize; FANOUT], below: impl Fn(usize) -> bool) -> usize {
    let one = |position: usize| usize::from(below(keys[position & (FANOUT - 1)]));
    let group = (one(3) + one(7) + one(11)) * 4;
    group + one(group) + one(group + 1) + one(group + 2) + one(group + 3)
}

/// How many keys are in use.
#[inline]
pub(crate) fn count(keys: &[usize; FANOUT]) -> usize {
    rank_lt(keys, UNUSED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_agree_with_counting() {
        for used in 0..=FANOUT {
            let mut keys = [UNUSED; FANOUT];
            for (position, key) in keys.iter_mut().take(used).enumerate() {
                *key = 10 + position * 10;
            }
            assert_eq!(count(&keys), used);
            for key in 0..200 {
                assert_eq!(rank_le(&keys, key), keys.iter().filter(|k| **k <= key).count(), "{keys:?} {key}");
                assert_eq!(rank_lt(&keys, key), keys.iter().filter(|k| **k < key).count(), "{keys:?} {key}");
            }
        }
    }
}
