//! Bytes as numbers and choices: [`Input`]. A question to bytes that have run out is answered by the first choice, or 0.

use arbitrary::Unstructured;

/// What is left of a run's bytes.
pub(super) struct Input<'b>(Unstructured<'b>);

impl<'b> Input<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Input<'b> {
        Input(Unstructured::new(bytes))
    }

    /// Whether there are bytes left.
    pub(super) fn more(&self) -> bool {
        !self.0.is_empty()
    }

    /// Any number below `bound`, which is at least 1.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0.int_in_range(0..=bound - 1).unwrap_or(0)
    }

    /// Any number of 64 bits.
    pub(super) fn word(&mut self) -> u64 {
        self.0.arbitrary().unwrap_or(0)
    }

    /// Yes in one of `times`; no where the bytes have run out.
    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }

    /// One of these, of which there is at least one.
    pub(super) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// A number that is 0, small, around a power of two, around the largest, or any.
    pub(super) fn hostile(&mut self) -> usize {
        let near = self.below(5).wrapping_sub(2);
        match self.below(4) {
            0 => near,
            1 => (1 << self.below(64)) + near.min(2),
            2 => self.below(1 << 16),
            _ => self.word() as usize,
        }
    }
}
