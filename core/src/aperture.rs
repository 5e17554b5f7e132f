//! Apertures and the routing rule: which index an address is looked for in.
//!
//! In: an address. Out: a `Route`: at most one address index, and whether the userptr index is asked first. Bounds
//! are inclusive and never change between two set-ups, so [`Layout`] is shared by all snapshots of one set-up and a
//! route costs a handful of compares on two cache lines.
//!
//! The rule, in order: the first GPUVM aperture that holds the address; the mem-handle aperture; SVM; SVM alternate;
//! else "outside", where only a userptr can be. In an mmap aperture (the process's own address space) userptrs and
//! allocations mix, so the userptr index is asked first there too. On a machine without a dGPU an address that was
//! found nowhere may still be ordinary host memory of the library: the CPUVM index.

use crate::address::{Bounds, PageSize};
use crate::node::{GpuId, NodeId};

/// Most GPUVM apertures (old APUs: one per GPU) a machine can have.
pub const MAX_GPUVM: usize = 8;

/// Most nodes a machine can have, and most entries of a node list given to a verb.
pub const MAX_NODES: usize = if usize::BITS < 64 { 32 } else { 128 };

/// An index of objects by address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aperture {
    /// Shared virtual memory.
    Svm,
    /// Its coherent quarter, where it is a range of its own.
    SvmAlt,
    /// Names for buffers without an address.
    MemHandle,
    /// Host memory of a machine without a dGPU.
    Cpuvm,
    /// An old APU's GPU, by its position.
    Gpuvm(u8),
}

impl Aperture {
    /// Every one that there can be.
    pub(crate) fn all() -> impl Iterator<Item = Aperture> {
        let fixed = [Aperture::Svm, Aperture::SvmAlt, Aperture::MemHandle, Aperture::Cpuvm];
        fixed.into_iter().chain((0..MAX_GPUVM as u8).map(Aperture::Gpuvm))
    }
}

/// Where to look, in this order: userptr index, address index, CPUVM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// Ask the userptr index first.
    pub(crate) userptr: bool,
    /// Then this address index.
    pub(crate) address: Option<Aperture>,
    /// Then, if nothing was found, the CPUVM index.
    pub(crate) cpuvm: bool,
}

/// All that is fixed between two set-ups: bounds, page size, and which node is which GPU.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[cfg_attr(target_pointer_width = "64", repr(align(64)))]
pub struct Layout {
    /// SVM, on a machine where the rule comes to "userptrs, if they mix with it, then SVM" inside: a dGPU without GPUVM apertures.
    direct: Bounds,
    /// SVM.
    pub svm: Bounds,
    /// SVM alternate; [`Bounds::EMPTY`] where one aperture serves both.
    pub svm_alt: Bounds,
    /// Mem handles.
    pub mem_handle: Bounds,
    /// SVM is the process's own address space (`mmap`), shared with userptrs.
    pub mmap: bool,
    /// Some node is a GPU without CPU cores.
    pub dgpu: bool,
    /// How many of `gpuvm` exist.
    pub gpuvm_count: u8,
    /// Rounds userptrs.
    pub page: PageSize,
    /// Old APUs' apertures, in GPU order.
    pub gpuvm: [Bounds; MAX_GPUVM],
    /// How many of `nodes` exist.
    pub node_count: u32,
    /// The gpu id of each node; [`GpuId::NONE`] for a CPU.
    pub nodes: [GpuId; MAX_NODES],
}

impl Layout {
    /// Before the first set-up, and after the last close: no aperture, nothing is ever found.
    pub const fn empty(page: PageSize) -> Layout {
        Layout {
            direct: Bounds::EMPTY,
            svm: Bounds::EMPTY,
            svm_alt: Bounds::EMPTY,
            mem_handle: Bounds::EMPTY,
            mmap: false,
            dgpu: false,
            gpuvm_count: 0,
            page,
            gpuvm: [Bounds::EMPTY; MAX_GPUVM],
            node_count: 0,
            nodes: [GpuId::NONE; MAX_NODES],
        }
    }

    /// Works out what follows from the rest; the writer does it once, before the layout is published.
    pub(crate) fn settle(&mut self) {
        self.direct = if self.dgpu && self.gpuvm_count == 0 { self.svm } else { Bounds::EMPTY };
    }

    /// Where `Layout::route` need not be asked.
    #[inline(always)]
    pub(crate) fn direct(&self) -> Bounds {
        self.direct
    }

    /// Whether an object of the SVM index is the answer for each of its addresses, as far as no userptr touches them: no
    /// other aperture is asked before SVM.
    pub(crate) fn asks_svm_first(&self) -> bool {
        self.gpuvm_count == 0
    }

    /// Where `address` is looked for.
    #[inline]
    pub(crate) fn route(&self, address: usize) -> Route {
        let cpuvm = !self.dgpu;
        if self.gpuvm_count != 0
            && let Some(position) = self.gpuvm_of(address)
        {
            return Route { userptr: false, address: Some(Aperture::Gpuvm(position)), cpuvm };
        }
        if self.svm.contains(address) {
            // The mem-handle aperture lies above every canonical address and SVM below: asked in either order.
            return Route { userptr: self.mmap, address: Some(Aperture::Svm), cpuvm };
        }
        if self.mem_handle.contains(address) {
            return Route { userptr: false, address: Some(Aperture::MemHandle), cpuvm };
        }
        if self.svm_alt.contains(address) {
            return Route { userptr: false, address: Some(Aperture::SvmAlt), cpuvm };
        }
        Route { userptr: !self.svm.is_empty(), address: None, cpuvm }
    }

    #[cold]
    #[inline]
    fn gpuvm_of(&self, address: usize) -> Option<u8> {
        let known = self.gpuvm.iter().take(usize::from(self.gpuvm_count));
        known.zip(0u8..).find_map(|(bounds, position)| bounds.contains(address).then_some(position))
    }

    /// Whether the two differ in their node tables alone: an object lies in the same aperture by both.
    pub(crate) fn has_ranges_of(&self, other: &Layout) -> bool {
        let ranges = |layout: &Layout| (layout.svm, layout.svm_alt, layout.mem_handle, layout.mmap, layout.dgpu);
        ranges(self) == ranges(other)
            && self.page == other.page
            && (self.gpuvm_count, self.gpuvm) == (other.gpuvm_count, other.gpuvm)
    }

    /// The range of an address index.
    pub fn bounds(&self, aperture: Aperture) -> Bounds {
        match aperture {
            Aperture::Svm => self.svm,
            Aperture::SvmAlt => self.svm_alt,
            Aperture::MemHandle => self.mem_handle,
            Aperture::Cpuvm => Bounds::new(0, usize::MAX),
            Aperture::Gpuvm(position) if position >= self.gpuvm_count => Bounds::EMPTY,
            Aperture::Gpuvm(position) => self.gpuvm.get(usize::from(position)).copied().unwrap_or(Bounds::EMPTY),
        }
    }

    /// The gpu id of a node: [`GpuId::NONE`] for a CPU, `None` for a node that is not there.
    pub fn gpu_of(&self, node: NodeId) -> Option<GpuId> {
        let index = usize::try_from(node.0).ok()?;
        self.known_nodes().get(index).copied()
    }

    /// The node of a gpu id. [`GpuId::NONE`] gives the first node without a GPU, as the C library does.
    pub fn node_of(&self, gpu: GpuId) -> Option<NodeId> {
        let position = self.known_nodes().iter().position(|id| *id == gpu)?;
        u32::try_from(position).ok().map(NodeId)
    }

    fn known_nodes(&self) -> &[GpuId] {
        let count = usize::try_from(self.node_count).unwrap_or(0);
        self.nodes.get(..count).unwrap_or(&self.nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        let mut layout = Layout::empty(PageSize::FOUR_KIB);
        layout.svm = Bounds::new(0x20_0000, 0x7fff_ffff_ffff);
        layout.mem_handle = Bounds::new(0x2_8000_0000_0000, 0x3_0000_0000_0000);
        layout.mmap = true;
        layout.dgpu = true;
        layout.node_count = 3;
        layout.nodes[1] = GpuId(0x1111);
        layout.nodes[2] = GpuId(0x2222);
        layout
    }

    #[test]
    fn case_78_order_and_inclusive_limits() {
        let mut l = layout();
        let in_svm = Route { userptr: true, address: Some(Aperture::Svm), cpuvm: false };
        assert_eq!(l.route(0x20_0000), in_svm);
        assert_eq!(l.route(0x7fff_ffff_ffff), in_svm);
        let outside = Route { userptr: true, address: None, cpuvm: false };
        assert_eq!(l.route(0x1f_ffff), outside);
        assert_eq!(l.route(usize::MAX), outside);
        let handle = Route { userptr: false, address: Some(Aperture::MemHandle), cpuvm: false };
        assert_eq!(l.route(l.mem_handle.base), handle);
        assert_eq!(l.route(l.mem_handle.limit), handle);
        assert_eq!(l.route(l.mem_handle.limit + 1), outside);

        l.gpuvm[1] = Bounds::new(0x3000, 0x2f_ffff);
        l.gpuvm_count = 2;
        let gpuvm = Route { userptr: false, address: Some(Aperture::Gpuvm(1)), cpuvm: false };
        assert_eq!(l.route(0x3000), gpuvm);
        assert_eq!(l.route(0x2f_ffff), gpuvm, "GPUVM is asked before SVM");
        assert_eq!(l.route(0x30_0000), in_svm);
    }

    #[test]
    fn case_75_a_reserved_aperture_holds_no_userptrs() {
        let mut l = layout();
        l.mmap = false;
        l.svm = Bounds::new(0x100_0000, 0x1ff_ffff);
        l.svm_alt = Bounds::new(0x80_0000, 0xff_ffff);
        assert_eq!(l.route(0x100_0000), Route { userptr: false, address: Some(Aperture::Svm), cpuvm: false });
        assert_eq!(l.route(0xff_ffff), Route { userptr: false, address: Some(Aperture::SvmAlt), cpuvm: false });
        assert_eq!(l.route(0x7f_ffff), Route { userptr: true, address: None, cpuvm: false });
    }

    #[test]
    fn nothing_is_anywhere_before_set_up() {
        let l = Layout::empty(PageSize::FOUR_KIB);
        assert_eq!(l.route(0x1000), Route { userptr: false, address: None, cpuvm: true });
        assert_eq!(l.gpu_of(NodeId(0)), None);
    }

    #[test]
    fn node_table() {
        let l = layout();
        assert_eq!(l.gpu_of(NodeId(2)), Some(GpuId(0x2222)));
        assert_eq!(l.gpu_of(NodeId(3)), None);
        assert_eq!(l.node_of(GpuId(0x1111)), Some(NodeId(1)));
        assert_eq!(l.node_of(GpuId::NONE), Some(NodeId(0)));
        assert_eq!(l.node_of(GpuId(5)), None);
    }
}
