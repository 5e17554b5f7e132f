//! The answer of a look-up: [`PointerInfo`], and the lists of nodes in it.

use core::marker::PhantomData;

use crate::flags::MemFlags;
use crate::list::List;
use crate::node::NodeId;

/// What an address belongs to (`HSA_POINTER_TYPE`).
#[doc(alias = "HSA_POINTER_TYPE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum PointerType {
    /// No object holds it.
    #[default]
    Unknown = 0,
    /// Made by an allocation.
    Allocated = 1,
    /// Host memory, registered.
    RegisteredUser = 2,
    /// An imported graphics buffer.
    RegisteredGraphics = 3,
    /// Another process's buffer.
    RegisteredShared = 4,
    /// An address without memory.
    ReservedAddress = 5,
}

/// What a look-up found. Borrowed from a guard: the node lists are read through it.
///
/// [`PointerInfo::UNKNOWN`] is what a look-up that found nothing gives.
///
/// Prints as one line:
/// ```
/// use hsakmt_core::info::{PointerInfo, PointerType};
/// use hsakmt_core::node::NodeId;
///
/// assert_eq!(PointerInfo::UNKNOWN.to_string(), "no object");
/// let (kind, node) = (PointerType::Allocated, NodeId(1));
/// let info = PointerInfo { kind, node, gpu_address: 0x7f00_0000_4000, size: 0x2000, ..PointerInfo::UNKNOWN };
/// assert_eq!(info.to_string(), "Allocated 0x7f0000004000..0x7f0000006000, node 1, mapped on [], user data 0x0");
/// ```
#[doc(alias = "HsaPointerInfo")]
#[derive(Clone, Copy)]
pub struct PointerInfo<'g> {
    /// What kind of object.
    pub kind: PointerType,
    /// Its node; a userptr's is the first GPU's.
    pub node: NodeId,
    /// As allocated, or translated back for userptrs, graphics and IPC.
    pub flags: MemFlags,
    /// Where the CPU sees it; 0 for none.
    pub cpu_address: usize,
    /// Where the GPU sees it.
    pub gpu_address: u64,
    /// Bytes, from `gpu_address`.
    pub size: u64,
    /// Nodes it is registered to, in the caller's order.
    pub registered: NodeList<'g>,
    /// Nodes it is mapped on, in mapping order.
    pub mapped: NodeList<'g>,
    /// As last set; 0 at birth.
    pub user_data: usize,
}

impl PointerInfo<'_> {
    /// The answer for an address that no object holds.
    pub const UNKNOWN: PointerInfo<'static> = PointerInfo {
        kind: PointerType::Unknown,
        node: NodeId(0),
        flags: MemFlags::empty(),
        cpu_address: 0,
        gpu_address: 0,
        size: 0,
        registered: NodeList::EMPTY,
        mapped: NodeList::EMPTY,
        user_data: 0,
    };
}

impl core::fmt::Display for PointerInfo<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let PointerInfo { kind, node, gpu_address, size, mapped, user_data, .. } = self;
        if *kind == PointerType::Unknown {
            return f.write_str("no object");
        }
        let end = gpu_address.saturating_add(*size);
        write!(f, "{kind:?} {gpu_address:#x}..{end:#x}, node {node}, mapped on {mapped:?}, user data {user_data:#x}")
    }
}

/// Addresses and sizes in hexadecimal.
impl core::fmt::Debug for PointerInfo<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PointerInfo")
            .field("kind", &self.kind)
            .field("node", &self.node)
            .field("flags", &self.flags)
            .field("cpu_address", &format_args!("{:#x}", self.cpu_address))
            .field("gpu_address", &format_args!("{:#x}", self.gpu_address))
            .field("size", &format_args!("{:#x}", self.size))
            .field("registered", &self.registered)
            .field("mapped", &self.mapped)
            .field("user_data", &format_args!("{:#x}", self.user_data))
            .finish()
    }
}

/// Node ids, in the order of the call that set them.
///
/// Readable for as long as the guard it came from. A C caller keeps [`NodeList::as_ptr`] longer: it stays what it was
/// until that object's registration or mapping changes, and keeps its bytes for
/// [`KEEP_EPOCHS`](crate::registry::KEEP_EPOCHS) further grace periods and
/// [`KEEP_PUBLISHES`](crate::registry::KEEP_PUBLISHES) further publishes after that.
#[derive(Clone, Copy)]
pub struct NodeList<'g> {
    list: List,
    guard: PhantomData<&'g ()>,
}

impl<'g> NodeList<'g> {
    /// No nodes.
    pub const EMPTY: NodeList<'static> = NodeList { list: List::EMPTY, guard: PhantomData };

    /// The caller's `'g` must be that of a guard that keeps the version alive which `list` was read from.
    #[inline]
    pub(crate) fn new(list: List) -> NodeList<'g> {
        NodeList { list, guard: PhantomData }
    }

    /// How many nodes.
    #[inline]
    pub fn len(self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.list.is_empty()
    }

    /// The ids as C sees them: null when empty.
    #[inline]
    pub fn as_ptr(self) -> *const u32 {
        self.list.ids_ptr()
    }

    /// The ids as numbers.
    pub fn ids(self) -> &'g [u32] {
        self.list.ids()
    }

    /// The nodes.
    pub fn iter(self) -> impl ExactSizeIterator<Item = NodeId> + 'g {
        self.ids().iter().map(|id| NodeId(*id))
    }
}

impl core::fmt::Debug for NodeList<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.ids().fmt(f)
    }
}
