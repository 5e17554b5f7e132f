//! Lists of gpu ids for one driver call: [`GpuList`], built on the stack, and [`Gpus`], read from a record's node list. What
//! never happens: an allocation. A list longer than there can be nodes is refused.

use crate::aperture::{Layout, MAX_NODES};
use crate::error::{Error, Result};
use crate::list::List;
use crate::node::{GpuId, NodeId};

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
    pub(super) fn distinct(from: impl IntoIterator<Item = GpuId>) -> Result<GpuList> {
        let mut list = GpuList::new();
        for gpu in from {
            if !list.as_slice().contains(&gpu) {
                list.push(gpu)?;
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
}

/// The GPUs of a node list, without a copy: 520 bytes of stack that a caller on a small one does not have twice.
#[derive(Clone, Copy)]
pub(super) struct Gpus<'a> {
    layout: &'a Layout,
    list: List,
}

impl<'a> Gpus<'a> {
    /// `list` is held for all of `'a`: by a record of the newest version, or by the caller.
    pub(super) fn new(layout: &'a Layout, list: List) -> Gpus<'a> {
        Gpus { layout, list }
    }

    pub(super) fn iter(self) -> impl Iterator<Item = GpuId> + 'a {
        self.list.ids().iter().filter_map(move |node| self.layout.gpu_of(NodeId(*node)))
    }

    pub(super) fn contains(self, gpu: GpuId) -> bool {
        self.iter().any(|known| known == gpu)
    }
}
