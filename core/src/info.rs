//! The answer of a look-up: [`PointerInfo`], and the lists of nodes in it.

use core::marker::PhantomData;

use crate::flags::MemFlags;
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
#[doc(alias = "HsaPointerInfo")]
#[derive(Clone, Copy, Debug)]
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

/// A list of node ids inside a snapshot.
///
/// One word: a pointer to a header (the length) followed by the ids, or null for the empty list. It stays readable for
/// as long as the guard it came from, and longer (see [`NodeList::as_ptr`]).
#[derive(Clone, Copy, Debug)]
pub struct NodeList<'g> {
    header: *const ListHeader,
    guard: PhantomData<&'g ()>,
}

/// What stands before the ids.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct ListHeader {
    /// How many ids follow. Written once, before the list is published.
    pub(crate) len: u32,
}

impl<'g> NodeList<'g> {
    /// No nodes.
    pub const EMPTY: NodeList<'static> = NodeList { header: core::ptr::null(), guard: PhantomData };
}
