//! What readers see of an object: one [`Record`], one cache line. Every index of a version points to the same one.

use core::ptr::{self, NonNull};

use crate::address::PageSize;
use crate::flags::MemFlags;
use crate::info::PointerType;
use crate::list::List;
use crate::node::NodeId;
use crate::pool::Pooled;

/// Names an object in the writer's ledger for as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectId(pub(crate) u32);

/// One object as a look-up answers it: 64 bytes, whole in one line.
///
/// A [`PointerType::RegisteredUser`] record stands in two indexes: by `start` (where the GPU sees it) and by
/// `(cpu, size)` (where the host has it). Every other kind stands in the address index alone.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[cfg_attr(target_pointer_width = "64", repr(align(64)))]
pub(crate) struct Record {
    /// Where the GPU sees its first page: the key of the address index.
    pub(crate) start: usize,
    /// Where the CPU sees it: the userptr as registered, `start`, or 0.
    pub(crate) cpu: usize,
    /// Bytes as reported: the userptr's size as registered, or the object's size in whole pages.
    pub(crate) size: usize,
    /// As last set by the caller; 0 at birth.
    pub(crate) user_data: usize,
    /// Node ids it is registered to.
    pub(crate) registered: List,
    /// Node ids it is mapped on.
    pub(crate) mapped: List,
    /// As reported.
    pub(crate) node: NodeId,
    /// As reported. Beside the node, as in the C struct.
    pub(crate) flags: MemFlags,
    /// The ledger's name for it.
    pub(crate) id: ObjectId,
    /// What kind.
    pub(crate) kind: PointerType,
}

const _: () = assert!(size_of::<usize>() != 8 || size_of::<Record>() == 64);

impl Pooled for Record {
    type Beside = ();

    // A retired record waits with a version ([`crate::version`]), in no chain.
    const LINK_INSIDE: bool = !cfg!(loom);
}

impl Record {
    /// Where it is, for the pool that it came from.
    pub(crate) fn pointer(&self) -> NonNull<Record> {
        // A pointer made of the reference could not be written through. The writer exposed the pool's own when it made the record.
        let pointer = ptr::with_exposed_provenance_mut(ptr::from_ref(self).addr());
        NonNull::new(pointer).unwrap_or(NonNull::from(self))
    }

    /// Whether it holds `address` and is no userptr: what is reported of it is then what stands in it.
    #[inline(always)]
    pub(crate) fn is_plain_at(&self, address: usize) -> bool {
        address.wrapping_sub(self.start) < self.size && !self.is_userptr()
    }

    /// Whether `address` is in its pages.
    #[inline(always)]
    pub(crate) fn holds(&self, address: usize, page: PageSize) -> bool {
        address.wrapping_sub(self.start) < self.extent(page)
    }

    /// Bytes it occupies from `start`: whole pages.
    #[inline]
    pub(crate) fn extent(&self, page: PageSize) -> usize {
        match self.kind {
            PointerType::RegisteredUser => page.span(self.cpu, self.size).unwrap_or(usize::MAX),
            _ => self.size,
        }
    }

    /// `HsaPointerInfo::GPUAddress`: `start`, plus a userptr's offset in its page.
    #[inline]
    pub(crate) fn gpu_address(&self, page: PageSize) -> usize {
        match self.kind {
            PointerType::RegisteredUser => self.start.wrapping_add(page.offset(self.cpu)),
            _ => self.start,
        }
    }

    /// Whether it stands in the userptr index.
    #[inline]
    pub(crate) fn is_userptr(&self) -> bool {
        matches!(self.kind, PointerType::RegisteredUser)
    }
}
