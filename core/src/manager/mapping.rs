//! Changing where buffer objects are mapped, and undoing it.
//!
//! In: an object's handles, the GPUs to take off and the GPUs to put on. Out: done on every handle, or undone on every
//! handle. When undoing is refused too, [`Stuck`] says what the kernel now has. What never happens: a GPU that was
//! mapped before the call taken off by the undo.

use super::gpu_list::GpuList;
use crate::driver::{Driver, Partial};
use crate::error::Result;
use crate::ledger::Handles;
use crate::node::GpuId;

/// A change that failed and was undone, as far as the kernel let it.
#[derive(Debug)]
pub(super) struct Stuck {
    /// Put on by this call, and not to be taken off again from at least one handle.
    pub(super) on: GpuList,
    /// Taken off by this call, and not to be put on again on any handle.
    pub(super) off: GpuList,
}

impl Stuck {
    /// Whether the undo succeeded.
    pub(super) fn is_clean(&self) -> bool {
        self.on.is_empty() && self.off.is_empty()
    }
}

/// One change.
pub(super) struct Change<'a> {
    /// The object's.
    pub(super) handles: &'a Handles,
    /// Mapped before the call.
    pub(super) before: &'a [GpuId],
    /// To be taken off: a part of `before`, each once.
    pub(super) off: &'a [GpuId],
    /// To be put on; what is in `before` already stays on whatever happens.
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
    /// Takes off, then puts on. The outer error is the library's own shortage of memory, before the first driver step.
    pub(super) fn run<V: Driver>(&self, driver: &mut V) -> Result<Result<(), Stuck>> {
        // Room for the undo is made first: undoing allocates nothing.
        let fresh = GpuList::collect(self.on.iter().copied().filter(|gpu| !self.before.contains(gpu)))?;
        let mut stuck = Stuck { on: GpuList::collect(fresh.as_slice().iter().copied())?, off: GpuList::new() };
        stuck.on.retain(|_| false);
        stuck.off = GpuList::collect(self.off.iter().copied())?;

        let unmapped = self.step(self.off, |handle| driver.unmap(handle, self.off));
        let off = match unmapped {
            Ok(all) => all,
            Err(part) => {
                self.undo(driver, part, Reached::default(), &mut stuck);
                return Ok(Err(stuck));
            }
        };
        match self.step(self.on, |handle| driver.map(handle, self.on)) {
            Ok(_) => Ok(Ok(())),
            Err(part) => {
                self.undo(driver, off, part, &mut stuck);
                Ok(Err(stuck))
            }
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

    fn undo<V: Driver>(&self, driver: &mut V, off: Reached, on: Reached, stuck: &mut Stuck) {
        for (index, handle) in self.handles.iter().enumerate() {
            let on = on.of(index, self.on);
            for (position, gpu) in on.iter().enumerate() {
                let again = on.iter().take(position).any(|earlier| earlier == gpu);
                if again || self.before.contains(gpu) {
                    continue;
                }
                let stays = matches!(driver.unmap(handle, &[*gpu]), Err(Partial { done: 0, .. }));
                if stays && !stuck.on.as_slice().contains(gpu) {
                    // Cannot fail: there was room for all of them.
                    let _ = stuck.on.push(*gpu);
                }
            }
            let taken = off.of(index, self.off);
            let refused = match taken {
                [] => &[][..],
                _ => match driver.map(handle, taken) {
                    Ok(()) => &[],
                    Err(Partial { done, .. }) => taken.get(done..).unwrap_or(&[]),
                },
            };
            stuck.off.retain(|gpu| refused.contains(&gpu));
        }
    }
}
