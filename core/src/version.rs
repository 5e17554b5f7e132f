//! Everything at one instant: one line of roots and a layout, immutable from publish to retire.
//!
//! Readers load one word ([`Published`]). Where SVM has a page index it points to that index's top node, with the version
//! beside it: most queries never look at the version. Elsewhere it points to the version.

use core::ptr::NonNull;

use crate::aperture::{Aperture, Layout, MAX_GPUVM};
use crate::index::{HAS_PAGES, IndexRoot, Objects};
use crate::pages::{MARK, Pages, Word};
use crate::pool::Pooled;
use crate::record::Record;
use crate::tree::{Root, View};
use crate::userptr::ByUserptr;

/// Roots of old APUs' GPU apertures, behind one pointer since no other machine has them.
pub(crate) type GpuvmRoots = [IndexRoot; MAX_GPUVM];

/// A version of the whole registry, in the writer's memory. The writer reuses it when its grace period has passed, so a
/// reference to one is only ever made under a guard or the writer's borrow.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[cfg_attr(target_pointer_width = "64", repr(align(64)))]
pub(crate) struct Version {
    pub(crate) generation: usize,
    pub(crate) layout: NonNull<Layout>,
    pub(crate) svm: IndexRoot,
    pub(crate) userptrs: Root<ByUserptr>,
    pub(crate) svm_alt: IndexRoot,
    pub(crate) mem_handle: IndexRoot,
    pub(crate) cpuvm: IndexRoot,
    pub(crate) gpuvm: Option<NonNull<GpuvmRoots>>,
}

const _: () = assert!(size_of::<usize>() != 8 || size_of::<Version>() == 64);

impl Pooled for Version {
    /// Of a retired version: the record that the next one no longer has. It can be seen for as long as this version.
    type Beside = Option<NonNull<Record>>;
}

/// Where readers begin: the word that a publish stores.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct Published(Word);

impl Published {
    /// A version whose SVM index is a page index with this top node, which has the version beside it. `plain`: an object in
    /// that index is the answer for each of its pages that is not marked.
    pub(crate) fn of_pages(top: Word, plain: bool) -> Published {
        Published(if plain { top } else { top.with_mark(true) })
    }

    /// A version without page indexes.
    pub(crate) fn of_version(version: NonNull<Version>) -> Published {
        let mark = if HAS_PAGES { MARK } else { 0 };
        // As words of an index are.
        version.as_ptr().expose_provenance();
        Published(Word::from_raw(version.as_ptr().cast::<u8>().map_addr(|bits| bits | mark)))
    }

    /// The word back from where it was stored; `None` for null.
    #[inline(always)]
    pub(crate) fn from_raw(raw: *mut u8) -> Option<Published> {
        if raw.is_null() { None } else { Some(Published(Word::from_raw(raw))) }
    }

    pub(crate) fn raw(self) -> *mut u8 {
        self.0.raw()
    }

    /// The page index of SVM; without one, a word that is no node and is marked.
    ///
    /// # Safety
    /// The version is not retired, or its grace period has not passed, for all of `'s`.
    #[inline(always)]
    pub(crate) unsafe fn pages<'s>(self) -> Pages<'s> {
        // SAFETY: by contract.
        unsafe { Pages::new(self.0) }
    }

    /// The page index of SVM as it is, without the mark of a version that is not plain.
    ///
    /// # Safety
    /// As for [`Published::pages`].
    pub(crate) unsafe fn svm<'s>(self) -> Pages<'s> {
        // SAFETY: by contract.
        unsafe { Pages::new(self.0.with_mark(false)) }
    }

    /// The version.
    ///
    /// # Safety
    /// As for [`Published::pages`].
    #[inline(always)]
    pub(crate) unsafe fn version<'s>(self) -> &'s Version {
        let version = self.version_pointer();
        #[cfg(loom)]
        crate::pool::reading(version.as_ptr());
        // SAFETY: by contract.
        unsafe { version.as_ref() }
    }

    /// Where the version is: beside the top node of a page index, else where the word points to.
    #[inline(always)]
    pub(crate) fn version_pointer(self) -> NonNull<Version> {
        let beside_top = if HAS_PAGES { self.0.version() } else { None };
        beside_top.unwrap_or_else(|| self.0.target().unwrap_or(NonNull::dangling()).cast())
    }
}

impl Version {
    /// Bounds, page size and the node table.
    #[inline(always)]
    pub(crate) fn layout(&self) -> &Layout {
        // SAFETY: a version's layout is retired no earlier than the last version that points to it (`registry`), and
        // `&self` is borrowed from a guard that keeps this one.
        unsafe { self.layout.as_ref() }
    }

    /// One address index.
    #[inline]
    pub(crate) fn objects(&self, aperture: Aperture) -> Objects<'_> {
        // SAFETY: the roots of a version are alive as long as it is, and `&self` is borrowed from a guard.
        unsafe { Objects::new(self.root(aperture)) }
    }

    /// The tree of an address index, where there are trees.
    #[cfg(test)]
    pub(crate) fn tree(&self, aperture: Aperture) -> View<'_, crate::tree::ByAddress> {
        // SAFETY: as in `objects`.
        unsafe { View::new(self.root(aperture).tree()) }
    }

    /// The userptr index.
    #[inline(always)]
    pub(crate) fn userptrs(&self) -> View<'_, ByUserptr> {
        // SAFETY: as in `objects`.
        unsafe { View::new(self.userptrs) }
    }

    #[inline]
    pub(crate) fn root(&self, aperture: Aperture) -> IndexRoot {
        match aperture {
            Aperture::Svm => self.svm,
            Aperture::SvmAlt => self.svm_alt,
            Aperture::MemHandle => self.mem_handle,
            Aperture::Cpuvm => self.cpuvm,
            Aperture::Gpuvm(position) => self.gpuvm_root(position),
        }
    }

    #[cold]
    #[inline]
    fn gpuvm_root(&self, position: u8) -> IndexRoot {
        self.gpuvm_roots().get(usize::from(position)).copied().unwrap_or(IndexRoot::EMPTY)
    }

    #[inline]
    pub(crate) fn gpuvm_roots(&self) -> GpuvmRoots {
        // SAFETY: alive as long as the version, like its layout.
        self.gpuvm.map_or([IndexRoot::EMPTY; MAX_GPUVM], |roots| unsafe { *roots.as_ptr() })
    }

    /// The height of the highest address tree; 0 where there are page indexes.
    pub(crate) fn height(&self) -> usize {
        self.highest(IndexRoot::height)
    }

    /// The level of the highest page index; 0 where there are trees.
    pub(crate) fn level(&self) -> usize {
        self.highest(IndexRoot::level)
    }

    fn highest(&self, of: fn(IndexRoot) -> usize) -> usize {
        let fixed = [self.svm, self.svm_alt, self.mem_handle, self.cpuvm].map(of);
        let fixed = fixed.into_iter().max().unwrap_or(0);
        if self.gpuvm.is_none() {
            return fixed;
        }
        self.gpuvm_roots().map(of).into_iter().max().unwrap_or(0).max(fixed)
    }
}
