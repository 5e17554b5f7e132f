//! A version of the registry that a guard keeps: everything at one instant.

use crate::aperture::Layout;
use crate::info::PointerInfo;
use crate::version::Version;

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
#[derive(Debug)]
pub struct Snapshot<'g> {
    pub(crate) version: &'g Version,
}

impl<'g> Snapshot<'g> {
    #[inline(always)]
    pub(crate) fn new(version: &'g Version) -> Snapshot<'g> {
        Snapshot { version }
    }

    /// Counts publishes: two snapshots of one registry with equal generations are equal, or 2^32 publishes apart where
    /// a word is 32 bits.
    #[inline]
    pub fn generation(&self) -> usize {
        self.version.generation
    }

    /// Bounds, page size and the node table.
    #[inline]
    pub fn layout(&self) -> &'g Layout {
        self.version.layout()
    }

    /// The allocation that contains `address`, or [`PointerInfo::UNKNOWN`]. Wait-free, O(log n).
    #[doc(alias = "hsaKmtQueryPointerInfo")]
    #[inline(always)]
    pub fn query_pointer(&self, address: usize) -> PointerInfo<'g> {
        self.version.query_pointer(address)
    }

    /// The allocation that contains `address`. Wait-free, O(log n).
    #[inline(always)]
    pub fn find_pointer(&self, address: usize) -> Option<PointerInfo<'g>> {
        self.version.find_pointer(address)
    }

    /// The allocation that contains each of `addresses`, in order; as many as fit in `out`. Wait-free, O(log n) each.
    pub fn query_many(&self, addresses: &[usize], out: &mut [PointerInfo<'g>]) {
        self.version.query_many(addresses, out);
    }

    /// Every object, aperture by aperture, by address. O(log n) per step.
    pub fn iter(&self) -> impl Iterator<Item = PointerInfo<'g>> + 'g {
        self.version.iter()
    }
}
