//! Memory that a queue needs besides its ring: host pages, VRAM of its own GPU, and the doorbells of a GPU.
//!
//! In: a node, a size, what it is for. Out: the address of a published object that the GPU has mapped. They are objects like
//! others: queries find them, unmap and free end them. What never happens: an object that was made and could not be mapped.

use super::Manager;
use super::buffer::{Birth, User, Wish};
use crate::driver::{Driver, HostMap};
use crate::epoch::Domain;
use crate::error::{Error, Result};
use crate::flags::{IocFlags, MemFlags};
use crate::info::PointerType;
use crate::ledger::Entry;
use crate::list::List;
use crate::node::{GpuId, NodeId};
use crate::pool::Memory;

/// What memory of a queue is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueMemory {
    /// Where the GPU notes that packets have ended: VRAM that the host cannot see.
    EndOfPipe,
    /// The queue's read and write pointers: uncached host memory.
    Pointers,
    /// Where waves are saved: pageable host memory, on the CPU that the GPU hangs on; `None` if there is none.
    ContextSave(Option<NodeId>),
}

impl QueueMemory {
    fn flags(self) -> MemFlags {
        MemFlags::EXECUTE_ACCESS
            | match self {
                QueueMemory::EndOfPipe => MemFlags::NON_PAGED | MemFlags::COARSE_GRAIN,
                QueueMemory::Pointers => MemFlags::NON_PAGED | MemFlags::HOST_ACCESS | MemFlags::UNCACHED,
                QueueMemory::ContextSave(Some(_)) => MemFlags::HOST_ACCESS,
                QueueMemory::ContextSave(None) => MemFlags::HOST_ACCESS | MemFlags::NO_NUMA_BIND,
            }
    }
}

impl<V: Driver, D: Domain, M: Memory> Manager<'_, V, D, M> {
    /// Makes `size` bytes for a queue on `node`, in whole pages, and maps them on its GPU alone. On node 0, as in the C
    /// library, on all GPUs that they are meant for.
    ///
    /// # Errors
    /// [`Error::InvalidNode`] for a node without a GPU; [`Error::NoMemory`] for all else.
    pub fn allocate_for_queue(&mut self, node: NodeId, size: usize, what: QueueMemory) -> Result<usize> {
        let gpu = self.gpu_of(node)?;
        if gpu == GpuId::NONE {
            return Err(Error::InvalidNode);
        }
        let size = self.page().round_up(size).ok_or(Error::NoMemory)?;
        let flags = what.flags();
        let made = match what {
            QueueMemory::EndOfPipe if !self.opened.zfb => self.allocate_vram(gpu, node, size, 0, flags, None),
            QueueMemory::EndOfPipe | QueueMemory::Pointers => self.allocate_host(gpu, NodeId(0), size, 0, flags, None),
            QueueMemory::ContextSave(cpu) => self.allocate_host(gpu, cpu.unwrap_or(NodeId(0)), size, 0, flags, None),
        };
        let address = made.map_err(|_| Error::NoMemory)?;
        let mapped = if node == NodeId(0) { self.map(address, size) } else { self.map_nodes(address, size, &[node]) };
        if mapped.is_err() {
            // What the undo of a mapping has left mapped stays an object; it ends at the last close.
            let _ = self.free(address);
            return Err(Error::NoMemory);
        }
        Ok(address)
    }

    /// Ends memory that [`Manager::allocate_for_queue`] has made. What the kernel refuses to unmap or free stays an object.
    pub fn free_of_queue(&mut self, address: usize) {
        if self.unmap(address).is_ok() {
            let _ = self.free(address);
        }
    }

    /// Makes the doorbells of a node's GPU an object: `size` bytes at `offset` of the device's file. Each GPU that can reach
    /// the node has them mapped.
    ///
    /// # Errors
    /// [`Error::InvalidNode`]; [`Error::NoMemory`] without room, [`Error::Failed`] if the kernel refuses, or there is no SVM.
    #[inline(never)]
    pub fn make_doorbells(&mut self, node: NodeId, size: usize, offset: u64) -> Result<usize> {
        let gpu = self.gpu_of(node)?;
        let page = self.page();
        let aperture = self.svm_aperture(true)?;
        self.reserve_birth()?;
        let range = self.take(aperture, page.round_up(size).ok_or(Error::NoMemory)?, 0, None)?;
        let (va, ioc) = (range.start() as u64, IocFlags::DOORBELL | IocFlags::WRITABLE | IocFlags::COHERENT);
        let Ok((handles, _)) = self.make(&Wish { gpu, va, size: range.size() as u64, ioc, user: User::No }) else {
            self.give(range);
            return Err(Error::Failed);
        };
        if range.show_first(&mut self.driver, page, range.size(), HostMap::Mmio { offset }).is_err() {
            self.unmake(handles);
            self.give(range);
            return Err(Error::Failed);
        }
        let birth = Birth {
            cpu: range.start(),
            size: range.size(),
            range,
            registered: List::EMPTY,
            mapped: List::EMPTY,
            flags: MemFlags::NON_PAGED | MemFlags::HOST_ACCESS,
            node,
            kind: PointerType::Allocated,
        };
        let address = self.publish(birth, Entry { handles, ioc, gpu, ..Entry::default() })?;
        self.map(address, size).map(|_| address).inspect_err(|_| {
            let _ = self.free(address);
        })
    }

    /// Whether an object of `size` bytes starts at `address` and shows doorbells.
    pub fn has_doorbells(&self, address: usize, size: usize) -> bool {
        let found = self.find(address, size).and_then(|(_, record)| self.ledger.get(record.id));
        found.is_some_and(|entry| entry.ioc.contains(IocFlags::DOORBELL))
    }
}
