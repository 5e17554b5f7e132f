//! Changing where buffer objects are mapped, and undoing it.
//!
//! In: an object's handles, the GPUs to take off and the GPUs to put on. Out: done on every handle, or undone on every
//! handle. When undoing is refused too, [`Stuck`] says what the kernel now has. What never happens: a GPU that was
//! mapped before the call taken off by the undo.

use super::gpu_list::Gpus;
use crate::aperture::MAX_NODES;
use crate::driver::{Driver, Partial};
use crate::ledger::Handles;
use crate::node::GpuId;

/// Some of the positions of a list that is no longer than there can be nodes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Positions(u128);

const _: () = assert!(MAX_NODES <= u128::BITS as usize);

impl Positions {
    /// Of a list of so many.
    fn all(len: usize) -> Positions {
        let mut all = Positions::default();
        (0..len).for_each(|position| all.add(position));
        all
    }

    fn add(&mut self, position: usize) {
        self.0 |= 1 << position;
    }

    fn has(self, position: usize) -> bool {
        self.0 & (1 << position) != 0
    }

    /// Keeps those from `first` on.
    fn keep_from(&mut self, first: usize) {
        self.0 &= u128::MAX.checked_shl(u32::try_from(first).unwrap_or(u32::MAX)).unwrap_or(0);
    }

    /// What stands there in `list`.
    pub(super) fn of(self, list: &[GpuId]) -> impl Iterator<Item = GpuId> {
        list.iter().enumerate().filter(move |(position, _)| self.has(*position)).map(|(_, gpu)| *gpu)
    }
}

/// A change that failed and was undone, as far as the kernel let it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stuck {
    /// Positions in `Change::on`: put on by this call, and not to be taken off again from at least one handle.
    pub(super) on: Positions,
    /// Positions in `Change::off`: taken off by this call, and not to be put on again on any handle.
    pub(super) off: Positions,
}

impl Stuck {
    /// Whether the undo succeeded.
    pub(super) fn is_clean(&self) -> bool {
        self.on.0 == 0 && self.off.0 == 0
    }
}

/// One change.
pub(super) struct Change<'a> {
    /// The object's.
    pub(super) handles: &'a Handles,
    /// Mapped before the call.
    pub(super) before: Gpus<'a>,
    /// To be taken off: a part of `before`, each once.
    pub(super) off: &'a [GpuId],
    /// To be put on; what is in `before` already stays on in any case.
    pub(super) on: &'a [GpuId],
}

/// How far a change came: whole handles, then GPUs on the next one.
#[derive(Clone, Copy, Default)]
struct Reached {
    handles: usize,
    gpus: usize,
}

impl Reached {
    fn of<'g>(&self, handle: usize, gpus: &'g [GpuId]) -> &'g [GpuId] {
        match handle.cmp(&self.handles) {
            core::cmp::Ordering::Less => gpus,
            core::cmp::Ordering::Equal => gpus.get(..self.gpus).unwrap_or(gpus),
            core::cmp::Ordering::Greater => &[],
        }
    }
}

impl Change<'_> {
    /// Takes off, then puts on.
    pub(super) fn run<V: Driver>(&self, driver: &mut V) -> Result<(), Stuck> {
        let off = self
            .step(self.off, |handle| driver.unmap(handle, self.off))
            .map_err(|part| self.undo(driver, part, Reached::default()))?;
        match self.step(self.on, |handle| driver.map(handle, self.on)) {
            Ok(_) => Ok(()),
            Err(part) => Err(self.undo(driver, off, part)),
        }
    }

    fn step(
        &self,
        gpus: &[GpuId],
        mut verb: impl FnMut(crate::driver::Handle) -> Result<(), Partial>,
    ) -> Result<Reached, Reached> {
        if gpus.is_empty() {
            return Ok(Reached::default());
        }
        for (handles, handle) in self.handles.iter().enumerate() {
            if let Err(Partial { done, .. }) = verb(handle) {
                return Err(Reached { handles, gpus: done });
            }
        }
        Ok(Reached { handles: self.handles.len(), gpus: 0 })
    }

    fn undo<V: Driver>(&self, driver: &mut V, off: Reached, on: Reached) -> Stuck {
        let mut stuck = Stuck { on: Positions::default(), off: Positions::all(self.off.len()) };
        for (index, handle) in self.handles.iter().enumerate() {
            let on = on.of(index, self.on);
            for (position, gpu) in on.iter().enumerate() {
                let again = on.iter().take(position).any(|earlier| earlier == gpu);
                if again || self.before.contains(*gpu) {
                    continue;
                }
                if matches!(driver.unmap(handle, &[*gpu]), Err(Partial { done: 0, .. })) {
                    stuck.on.add(position);
                }
            }
            let taken = off.of(index, self.off);
            let put_back = match taken {
                [] => usize::MAX,
                _ => driver.map(handle, taken).err().map_or(usize::MAX, |partial| partial.done),
            };
            stuck.off.keep_from(put_back);
        }
        stuck
    }
}
