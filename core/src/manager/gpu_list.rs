//! A short list of gpu ids, built for one driver call: the first sixteen lie inline, so that an ordinary map or unmap
//! allocates nothing. What never happens: an allocation that aborts.

use alloc::vec::Vec;

use crate::error::{Error, Result};
use crate::node::GpuId;

/// GPUs that need no allocation.
const INLINE: usize = if cfg!(test) { 2 } else { 16 };

/// Gpu ids in order; duplicates stay.
#[derive(Debug)]
pub(super) struct GpuList {
    len: usize,
    inline: [GpuId; INLINE],
    /// All of them once they exceed `inline`.
    spill: Vec<GpuId>,
}

impl GpuList {
    pub(super) const fn new() -> GpuList {
        GpuList { len: 0, inline: [GpuId::NONE; INLINE], spill: Vec::new() }
    }

    /// The ids of `from`, in order.
    pub(super) fn collect(from: impl IntoIterator<Item = GpuId>) -> Result<GpuList> {
        let mut list = GpuList::new();
        for gpu in from {
            list.push(gpu)?;
        }
        Ok(list)
    }

    /// The ids of `from` once each: the kernel refuses to unmap a GPU that it has just unmapped.
    pub(super) fn distinct(from: &[GpuId]) -> Result<GpuList> {
        let mut list = GpuList::new();
        for gpu in from {
            if !list.as_slice().contains(gpu) {
                list.push(*gpu)?;
            }
        }
        Ok(list)
    }

    pub(super) fn push(&mut self, gpu: GpuId) -> Result<()> {
        if let Some(slot) = self.inline.get_mut(self.len) {
            *slot = gpu;
        } else {
            self.spill.try_reserve(INLINE + 1).map_err(|_| Error::NoMemory)?;
            if self.spill.is_empty() {
                self.spill.extend_from_slice(&self.inline);
            }
            self.spill.push(gpu);
        }
        self.len += 1;
        Ok(())
    }

    pub(super) fn as_slice(&self) -> &[GpuId] {
        if self.spill.is_empty() { self.inline.get(..self.len).unwrap_or(&self.inline) } else { &self.spill }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Keeps the ids that `wanted` says.
    pub(super) fn retain(&mut self, wanted: impl Fn(GpuId) -> bool) {
        if !self.spill.is_empty() {
            self.spill.retain(|gpu| wanted(*gpu));
            self.len = self.spill.len();
            if self.spill.is_empty() {
                self.len = 0;
            }
            return;
        }
        let old = self.inline;
        let kept = old.iter().take(self.len).copied().filter(|gpu| wanted(*gpu));
        let mut len = 0;
        for (slot, gpu) in self.inline.iter_mut().zip(kept) {
            *slot = gpu;
            len += 1;
        }
        self.len = len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_and_spilled_lists_behave_alike() {
        for count in 0..8u32 {
            let mut list = GpuList::collect((0..count).map(GpuId)).unwrap();
            assert!(list.as_slice().iter().copied().eq((0..count).map(GpuId)));
            list.retain(|gpu| gpu.0 % 2 == 1);
            assert!(list.as_slice().iter().copied().eq((0..count).filter(|n| n % 2 == 1).map(GpuId)));
            list.retain(|_| false);
            assert!(list.is_empty() && list.as_slice().is_empty());
            list.push(GpuId(9)).unwrap();
            assert_eq!(list.as_slice(), [GpuId(9)]);
        }
    }
}
