//! A version of the registry that a guard keeps: everything at one instant.

use core::marker::PhantomData;

use crate::aperture::{Aperture, Layout};
use crate::index::Index;
use crate::info::PointerInfo;
use crate::version::{Published, Version};

/// The whole registry at one instant. A [`Session`](crate::reader::Session) keeps it readable, or the
/// [`Writer`](crate::registry::Writer) that published it, and `'g` is that borrow.
///
/// ```
/// # use hsakmt_core::{address::PageSize, pool::Heap, registry::Registry};
/// let mut registry = Registry::new();
/// let (mut writer, readers) = registry.split(PageSize::FOUR_KIB, Heap)?;
/// let mut reader = readers.reader().expect("crossbeam has a place for everyone");
/// let mut session = reader.session();
/// let snapshot = session.snapshot()?;
/// writer.clear_objects()?;
/// assert_eq!(snapshot.iter().count(), 0, "the session keeps it");
/// # Ok::<(), hsakmt_core::error::Error>(())
/// ```
///
/// It cannot outlive the session, and it cannot be copied out of the borrow:
///
/// ```compile_fail,E0716
/// # use hsakmt_core::{address::PageSize, pool::Heap, registry::Registry};
/// let mut registry = Registry::new();
/// let (mut writer, readers) = registry.split(PageSize::FOUR_KIB, Heap)?;
/// let mut reader = readers.reader().expect("crossbeam has a place for everyone");
/// let snapshot = reader.session().snapshot()?;
/// writer.clear_objects()?;
/// assert_eq!(snapshot.iter().count(), 0);
/// # Ok::<(), hsakmt_core::error::Error>(())
/// ```
///
/// Nor can one of the writer outlive the writer's next change:
///
/// ```compile_fail,E0502
/// # use hsakmt_core::{address::PageSize, pool::Heap, registry::Registry};
/// let mut registry = Registry::new();
/// let (mut writer, _) = registry.split(PageSize::FOUR_KIB, Heap)?;
/// let snapshot = writer.snapshot();
/// writer.clear_objects()?;
/// assert_eq!(snapshot.iter().count(), 0);
/// # Ok::<(), hsakmt_core::error::Error>(())
/// ```
pub struct Snapshot<'g> {
    pub(crate) published: Published,
    version: PhantomData<&'g Version>,
}

impl core::fmt::Debug for Snapshot<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Snapshot").field("generation", &self.generation()).finish_non_exhaustive()
    }
}

impl<'g> Snapshot<'g> {
    /// # Safety
    /// The version is not retired, or its grace period has not passed, for all of `'g`.
    #[inline(always)]
    pub(crate) unsafe fn new(published: Published) -> Snapshot<'g> {
        Snapshot { published, version: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn version(&self) -> &'g Version {
        // SAFETY: `new`'s contract.
        unsafe { self.published.version() }
    }

    /// Counts publishes: two snapshots of one registry with equal generations are equal, or 2^32 publishes apart where
    /// a word is 32 bits.
    #[inline]
    pub fn generation(&self) -> usize {
        self.version().generation
    }

    /// Bounds, page size and the node table.
    #[inline]
    pub fn layout(&self) -> &'g Layout {
        self.version().layout()
    }

    /// The allocation that contains `address`, or [`PointerInfo::UNKNOWN`]. Wait-free.
    #[doc(alias = "hsaKmtQueryPointerInfo")]
    #[inline(always)]
    pub fn query_pointer(&self, address: usize) -> PointerInfo<'g> {
        self.find_pointer(address).unwrap_or(PointerInfo::UNKNOWN)
    }

    /// Every object, aperture by aperture, by address. Wait-free; O(log n) per step.
    pub fn iter(&self) -> impl Iterator<Item = PointerInfo<'g>> + 'g {
        let version = self.version();
        Aperture::all()
            .flat_map(move |aperture| version.objects(aperture).iter().map(move |record| version.info(record)))
    }
}
