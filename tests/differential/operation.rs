//! One call of a sequence, and how the player's script spells it.
//!
//! In: choices of proptest, small numbers that shrink towards plain ones. Out: a line of the language that
//! `player.c` reads. Nothing here knows what a call answers.

use std::fmt;

/// Flags of an allocation, by the bits of `HsaMemFlags`.
pub(crate) mod flag {
    pub(crate) const NON_PAGED: u32 = 1;
    pub(crate) const READ_ONLY: u32 = 1 << 3;
    pub(crate) const PAGE_64K: u32 = 1 << 4;
    pub(crate) const HOST_ACCESS: u32 = 1 << 6;
    pub(crate) const NO_SUBSTITUTE: u32 = 1 << 7;
    pub(crate) const SCRATCH: u32 = 1 << 9;
    pub(crate) const EXECUTE: u32 = 1 << 12;
    pub(crate) const COARSE: u32 = 1 << 13;
    pub(crate) const AQL: u32 = 1 << 14;
    pub(crate) const FIXED: u32 = 1 << 15;
    pub(crate) const UNCACHED: u32 = 1 << 17;
    /// From here on 5.2.3 knows none.
    pub(crate) const NO_ADDRESS: u32 = 1 << 18;
    pub(crate) const ONLY_ADDRESS: u32 = 1 << 19;
    pub(crate) const EXTENDED: u32 = 1 << 20;
    pub(crate) const GTT: u32 = 1 << 21;
    pub(crate) const CONTIGUOUS: u32 = 1 << 22;
}

/// An address that a call is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Null,
    /// In a host buffer of the player.
    Host(u8, u64),
    /// In (or around) the newest object of a slot of a thread.
    Object(u8, u8, i64),
    /// So many bytes into where a GPU sees what is registered at that place of a host buffer.
    Gpu(u8, u64, u64),
    /// Just a number.
    Wild(u64),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Address::Null => write!(f, "0"),
            Address::Host(buffer, offset) => write!(f, "H{buffer}+{offset:#x}"),
            Address::Object(thread, slot, offset) if offset < 0 => {
                write!(f, "A{thread}.{slot}+-{:#x}", offset.unsigned_abs())
            }
            Address::Object(thread, slot, offset) => write!(f, "A{thread}.{slot}+{offset:#x}"),
            Address::Gpu(buffer, offset, more) => write!(f, "g{buffer}+{offset:#x}+{more:#x}"),
            Address::Wild(address) => write!(f, "W{address:x}"),
        }
    }
}

/// The nodes that a call is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Nodes {
    These(Vec<u32>),
    /// A null array that is said to hold one.
    NullArray,
}

impl fmt::Display for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Nodes::NullArray => write!(f, "null"),
            Nodes::These(nodes) if nodes.is_empty() => write!(f, "-"),
            Nodes::These(nodes) => {
                let words: Vec<String> = nodes.iter().map(u32::to_string).collect();
                write!(f, "{}", words.join(","))
            }
        }
    }
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Allocate {
        slot: u8,
        node: u32,
        size: u64,
        flags: u32,
        alignment: u64,
        fixed: Address,
    },
    Free(Address, u64),
    Register(Address, u64),
    RegisterToNodes(Address, u64, Nodes),
    RegisterWithFlags(Address, u64, u32),
    Deregister(Address),
    Map(Address, u64),
    MapToNodes(Address, u64, Nodes),
    Unmap(Address),
    Query(Address),
    QueryNull(Address),
    UserData(Address, u64),
    Share(u8, Address, u64),
    Import(u8, u8, Option<Nodes>),
    Export {
        address: Address,
        size: u64,
        import: Option<(u8, Nodes)>,
    },
    SvmSet(Address, u64, Vec<(u32, u32)>),
    SvmGet(Address, u64, Vec<(u32, u32)>),
    XnackSet(i32),
    XnackGet,
    Fork(Address),
    Open,
    Close,
    /// One more opening, and its end.
    OpenClose,
    Acquire,
    AcquireNull,
    Release,
    Version,
    Node(u32),
    Banks(u32, u32),
    Links(u32, u32),
    Tile(u32),
    Available(u32),
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Operation as O;
        match self {
            O::Allocate { slot, node, size, flags, alignment, fixed } => {
                write!(f, "alloc {slot} {node} {size:#x} {flags:#x} {alignment:#x} {fixed}")
            }
            O::Free(address, size) => write!(f, "free {address} {size:#x}"),
            O::Register(address, size) => write!(f, "register {address} {size:#x}"),
            O::RegisterToNodes(address, size, nodes) => write!(f, "register-to {address} {size:#x} {nodes}"),
            O::RegisterWithFlags(address, size, flags) => write!(f, "register-with {address} {size:#x} {flags:#x}"),
            O::Deregister(address) => write!(f, "deregister {address}"),
            O::Map(address, size) => write!(f, "map {address} {size:#x}"),
            O::MapToNodes(address, size, nodes) => write!(f, "map-to {address} {size:#x} {nodes}"),
            O::Unmap(address) => write!(f, "unmap {address}"),
            O::Query(address) => write!(f, "query {address}"),
            O::QueryNull(address) => write!(f, "query-null {address}"),
            O::UserData(address, value) => write!(f, "user {address} {value:#x}"),
            O::Share(handle, address, size) => write!(f, "share {handle} {address} {size:#x}"),
            O::Import(slot, handle, None) => write!(f, "import {slot} {handle} all"),
            O::Import(slot, handle, Some(nodes)) => write!(f, "import {slot} {handle} {nodes}"),
            O::Export { address, size, import: None } => write!(f, "export {address} {size:#x} - -"),
            O::Export { address, size, import: Some((slot, nodes)) } => {
                write!(f, "export {address} {size:#x} {slot} {nodes}")
            }
            O::SvmSet(address, size, list) => write!(f, "svm-set {address} {size:#x} {}", Attributes(list)),
            O::SvmGet(address, size, list) => write!(f, "svm-get {address} {size:#x} {}", Attributes(list)),
            O::XnackSet(mode) => write!(f, "xnack-set {mode}"),
            O::XnackGet => write!(f, "xnack-get"),
            O::Fork(address) => write!(f, "fork {address}"),
            O::Open => write!(f, "open"),
            O::Close => write!(f, "close"),
            O::OpenClose => write!(f, "open-close"),
            O::Acquire => write!(f, "acquire"),
            O::AcquireNull => write!(f, "acquire-null"),
            O::Release => write!(f, "release"),
            O::Version => write!(f, "version"),
            O::Node(node) => write!(f, "node {node}"),
            O::Banks(node, count) => write!(f, "banks {node} {count}"),
            O::Links(node, count) => write!(f, "links {node} {count}"),
            O::Tile(node) => write!(f, "tile {node}"),
            O::Available(node) => write!(f, "available {node}"),
        }
    }
}

struct Attributes<'a>(&'a [(u32, u32)]);

impl fmt::Display for Attributes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(|(kind, value)| format!("{kind}:{value}")).collect();
        write!(f, "{}", if words.is_empty() { "-".into() } else { words.join(",") })
    }
}
