//! Everything at one instant: one line of roots and a layout, immutable from publish to retire.

use core::ptr::NonNull;

use crate::aperture::{Aperture, Layout, MAX_GPUVM};
use crate::tree::{ByAddress, Root, View};
use crate::userptr::ByUserptr;

/// Roots of old APUs' GPU apertures, behind one pointer since no other machine has them.
pub(crate) type GpuvmRoots = [Root<ByAddress>; MAX_GPUVM];

/// A version of the whole registry, in the writer's memory. The writer reuses it when its grace period has passed, so a
/// reference to one is only ever made under a guard or the writer's borrow.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[cfg_attr(target_pointer_width = "64", repr(align(64)))]
pub(crate) struct Version {
    pub(crate) generation: usize,
    pub(crate) layout: NonNull<Layout>,
    pub(crate) svm: Root<ByAddress>,
    pub(crate) userptrs: Root<ByUserptr>,
    pub(crate) svm_alt: Root<ByAddress>,
    pub(crate) mem_handle: Root<ByAddress>,
    pub(crate) cpuvm: Root<ByAddress>,
    pub(crate) gpuvm: Option<NonNull<GpuvmRoots>>,
}

const _: () = assert!(size_of::<usize>() != 8 || size_of::<Version>() == 64);

impl Version {
    /// Bounds, page size and the node table.
    #[inline(always)]
    pub(crate) fn layout(&self) -> &Layout {
        // SAFETY: a version's layout is retired no earlier than the last version that points to it (`registry`), and
        // `&self` is borrowed from a guard that keeps this one.
        unsafe { self.layout.as_ref() }
    }

    /// One address index.
    #[inline(always)]
    pub(crate) fn objects(&self, aperture: Aperture) -> View<'_, ByAddress> {
        // SAFETY: the roots of a version are alive as long as it is, and `&self` is borrowed from a guard.
        unsafe { View::new(self.root(aperture)) }
    }

    /// The userptr index.
    #[inline(always)]
    pub(crate) fn userptrs(&self) -> View<'_, ByUserptr> {
        // SAFETY: as in `objects`.
        unsafe { View::new(self.userptrs) }
    }

    #[inline(always)]
    pub(crate) fn root(&self, aperture: Aperture) -> Root<ByAddress> {
        match aperture {
            Aperture::Svm => self.svm,
            Aperture::SvmAlt => self.svm_alt,
            Aperture::MemHandle => self.mem_handle,
            Aperture::Cpuvm => self.cpuvm,
            Aperture::Gpuvm(position) => self.gpuvm_root(position),
        }
    }

    #[cold]
    fn gpuvm_root(&self, position: u8) -> Root<ByAddress> {
        self.gpuvm_roots().get(usize::from(position)).copied().unwrap_or(Root::EMPTY)
    }

    pub(crate) fn gpuvm_roots(&self) -> GpuvmRoots {
        // SAFETY: alive as long as the version, like its layout.
        self.gpuvm.map_or([Root::EMPTY; MAX_GPUVM], |roots| unsafe { *roots.as_ptr() })
    }

    /// The height of the highest address tree.
    pub(crate) fn height(&self) -> usize {
        let fixed = [self.svm, self.svm_alt, self.mem_handle, self.cpuvm].map(Root::height);
        let fixed = fixed.into_iter().max().unwrap_or(0);
        if self.gpuvm.is_none() {
            return fixed;
        }
        self.gpuvm_roots().map(Root::height).into_iter().max().unwrap_or(0).max(fixed)
    }
}
