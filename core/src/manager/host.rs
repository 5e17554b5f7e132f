//! Host memory: paged (anonymous pages under a userptr buffer object), GTT, and addresses without memory.
//!
//! In: a node that is a CPU, or flags that ask for host memory on a GPU's behalf. Out: a published object, ALLOCATED
//! even where a userptr lies under it, since the caller registered nothing. On a machine without a dGPU it is ordinary
//! process memory that the kernel driver never hears of. What never happens: pages left mapped after a failure.

use super::Manager;
use super::buffer::{Birth, CHUNK, User, Wish};
use super::space::VaRange;
use crate::driver::{Driver, HostMap};
use crate::epoch::Domain;
use crate::error::{Error, Result};
use crate::flags::{IocFlags, MemFlags};
use crate::info::PointerType;
use crate::ledger::{Entry, Handles};
use crate::list::List;
use crate::node::{GpuId, NodeId};
use crate::pool::Memory;

impl<V: Driver, D: Domain, M: Memory> Manager<'_, V, D, M> {
    /// `gpu` is the preferred node's, [`GpuId::NONE`] for a CPU.
    pub(super) fn allocate_host(
        &mut self,
        gpu: GpuId,
        node: NodeId,
        size: usize,
        alignment: usize,
        flags: MemFlags,
        at: Option<usize>,
    ) -> Result<usize> {
        self.reserve_birth()?;
        let reserve = self.opened.reserves_host || self.is_device_memory(gpu, flags);
        let only_address = reserve && flags.contains(MemFlags::ONLY_ADDRESS);
        if !self.machine.dgpu {
            if alignment != 0 || at.is_some() {
                return Err(Error::Failed);
            }
            return self.host_of_apu(size, flags, only_address);
        }
        let gpu = if gpu == GpuId::NONE { self.machine.first().ok_or(Error::Failed)?.id } else { gpu };
        let node = if flags.contains(MemFlags::GTT_ACCESS) { NodeId(0) } else { node };
        let aperture = self.svm_aperture(!flags.contains(MemFlags::COARSE_GRAIN))?;
        let twice = flags.contains(MemFlags::AQL_QUEUE_MEMORY);
        let whole = if twice { size.checked_mul(2).ok_or(Error::Failed)? } else { size };
        self.reserve_area(aperture)?;
        let range = self.take(aperture, whole, alignment, at).map_err(|_| Error::Failed)?;
        let (kind, node, entry) = if only_address {
            (PointerType::ReservedAddress, NodeId(0), Entry::default())
        } else {
            match self.back_host(gpu, node, &range, size, flags) {
                Ok(entry) => (PointerType::Allocated, node, entry),
                Err(error) => {
                    self.give(range);
                    return Err(error);
                }
            }
        };
        let cpu = if kind == PointerType::Allocated { range.start() } else { 0 };
        let (registered, mapped) = (List::EMPTY, List::EMPTY);
        self.publish(Birth { range, cpu, size: whole, registered, mapped, flags, node, kind }, entry)
    }

    /// Puts memory behind `range`, of which the CPU sees the first `size` bytes. The caller gives the addresses back on
    /// failure, and the pages with them.
    fn back_host(&mut self, gpu: GpuId, node: NodeId, range: &VaRange, size: usize, flags: MemFlags) -> Result<Entry> {
        let (page, start, whole) = (self.page(), range.start() as u64, range.size() as u64);
        let paged = !flags.contains(MemFlags::NON_PAGED) && self.machine.options.userptr_for_paged_mem;
        let place = if paged { IocFlags::USERPTR } else { IocFlags::GTT };
        let ioc = place | flags.to_ioc() | self.coherence(flags);
        let mut user = User::No;
        if paged {
            // The several buffer objects of a larger ring would be of pages that are not there.
            if ioc.contains(IocFlags::AQL_QUEUE_MEM) && whole > CHUNK {
                return Err(Error::Failed);
            }
            let pages = HostMap::Anonymous { node, flags };
            range.show_first(&mut self.driver, page, size, pages).map_err(|_| Error::Failed)?;
            user = User::Shown;
        }
        let wish = Wish { gpu, va: start, size: whole, ioc, user };
        let (handles, offset) = self.make(&wish)?;
        if !paged && flags.contains(MemFlags::HOST_ACCESS) {
            let show = HostMap::Device { gpu, offset, access: true };
            if range.show_first(&mut self.driver, page, size, show).is_err() {
                self.unmake(handles);
                return Err(Error::Failed);
            }
        }
        Ok(Entry { handles, ioc, gpu, ..Entry::default() })
    }

    fn host_of_apu(&mut self, size: usize, flags: MemFlags, only_address: bool) -> Result<usize> {
        let range = self.take_host(size, self.page().bytes(), flags).map_err(|_| Error::Failed)?;
        let kind = if only_address { PointerType::ReservedAddress } else { PointerType::Allocated };
        let birth = Birth {
            cpu: if only_address { 0 } else { range.start() },
            range,
            size,
            registered: List::EMPTY,
            mapped: List::EMPTY,
            flags,
            node: NodeId(0),
            kind,
        };
        self.publish(birth, Entry { handles: Handles::NONE, ..Entry::default() })
    }
}
