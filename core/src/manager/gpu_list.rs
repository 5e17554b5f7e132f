//! A list of gpu ids, built on the stack for one driver call. What never happens: an allocation. A list longer than
//! there can be nodes is refused.

use crate::aperture::MAX_NODES;
use crate::error::{Error, Result};
use crate::node::GpuId;

/// Gpu ids in order; duplicates stay.
#[derive(Debug, Default)]
pub(super) struct GpuList(heapless::Vec<GpuId, MAX_NODES>);

impl GpuList {
    pub(super) const fn new() -> GpuList {
        GpuList(heapless::Vec::new())
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
        self.0.push(gpu).map_err(|_| Error::NoMemory)
    }

    pub(super) fn as_slice(&self) -> &[GpuId] {
        &self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keeps the ids that `wanted` says.
    pub(super) fn retain(&mut self, wanted: impl Fn(GpuId) -> bool) {
        self.0.retain(|gpu| wanted(*gpu));
    }
}
