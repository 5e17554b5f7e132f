//! What a driver needs of an address space: [`AddressSpace`]. This process's is [`HostSpace`]; the simulated machine also
//! has one whose addresses are only numbers.

use std::fmt::Debug;
use std::os::fd::BorrowedFd;

use hsakmt_core::address::Bounds;
use hsakmt_core::driver::{Errno, HostRange, VaRequest};
use hsakmt_core::flags::MemFlags;
use hsakmt_core::node::NodeId;

use super::HostSpace;
use crate::maps;

/// What reserved addresses are to show.
#[derive(Clone, Copy, Debug)]
pub enum Shown<'fd> {
    /// A device's file: see [`HostSpace::map_file`].
    File {
        /// Which.
        file: BorrowedFd<'fd>,
        /// Where in it.
        offset: u64,
        /// Readable and writable, or reserved only.
        access: bool,
    },
    /// Fresh pages: see [`HostSpace::map_anonymous`].
    Anonymous {
        /// The NUMA node.
        node: NodeId,
        /// How to bind them to it.
        flags: MemFlags,
    },
    /// Nothing.
    Reserved,
}

/// An address space. Each call either happens or leaves no trace.
pub trait AddressSpace: Debug {
    /// As [`HostSpace::reserve`].
    fn reserve(&mut self, request: VaRequest) -> Result<usize, Errno>;

    /// As [`hsakmt_core::driver::Driver::last_used`].
    fn last_used(&self, range: Bounds) -> Option<usize>;

    /// As [`HostSpace::release`].
    ///
    /// # Safety
    /// The whole range came from [`AddressSpace::reserve`] or [`AddressSpace::alloc`] and nothing uses it any more.
    unsafe fn release(&mut self, address: usize, size: usize);

    /// Replaces what reserved addresses show.
    ///
    /// # Safety
    /// As for [`AddressSpace::release`]; a file's bytes may be seen and changed by the device.
    unsafe fn show(&mut self, address: usize, size: usize, what: Shown<'_>) -> Result<(), Errno>;

    /// As [`HostSpace::alloc`].
    fn alloc(&mut self, size: usize, align: usize, flags: MemFlags) -> Result<usize, Errno>;

    /// Whether there is memory behind its addresses.
    fn has_memory(&self) -> bool;

    /// As [`HostSpace::touch`].
    fn touch(&self, range: HostRange<'_>);
}

impl AddressSpace for HostSpace {
    fn reserve(&mut self, request: VaRequest) -> Result<usize, Errno> {
        HostSpace::reserve(self, request)
    }

    fn last_used(&self, range: Bounds) -> Option<usize> {
        maps::last_used(range)
    }

    unsafe fn release(&mut self, address: usize, size: usize) {
        // SAFETY: the caller's promise.
        unsafe { HostSpace::release(self, address, size) }
    }

    unsafe fn show(&mut self, address: usize, size: usize, what: Shown<'_>) -> Result<(), Errno> {
        match what {
            Shown::File { file, offset, access } => {
                // SAFETY: the caller's promise.
                unsafe { self.map_file(address, size, file, offset, access) }
            }
            Shown::Anonymous { node, flags } => {
                // SAFETY: the caller's promise.
                unsafe { self.map_anonymous(address, size, node, flags) }
            }
            Shown::Reserved => {
                // SAFETY: the caller's promise.
                unsafe { self.map_reserved(address, size) }
            }
        }
    }

    fn alloc(&mut self, size: usize, align: usize, flags: MemFlags) -> Result<usize, Errno> {
        HostSpace::alloc(self, size, align, flags)
    }

    fn has_memory(&self) -> bool {
        true
    }

    fn touch(&self, range: HostRange<'_>) {
        HostSpace::touch(self, range)
    }
}
