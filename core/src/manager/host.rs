//! Host memory: paged (anonymous pages under a userptr buffer object), GTT, and addresses without memory.
//!
//! In: a node that is a CPU, or flags that ask for host memory on a GPU's behalf. Out: a published object, ALLOCATED
//! even where a userptr lies under it, since the caller registered nothing. On a machine without a dGPU it is ordinary
//! process memory that the kernel driver never hears of. What never happens: pages left mapped after a failure.

use super::Manager;
use super::buffer::{Birth, Wish};
use crate::aperture::Aperture;
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
        if !self.machine.dgpu {
            if alignment != 0 || at.is_some() {
                return Err(Error::Failed);
            }
            return self.host_of_apu(size, flags);
        }
        let gpu = if gpu == GpuId::NONE { self.machine.first().ok_or(Error::Failed)?.id } else { gpu };
        let node = if flags.contains(MemFlags::GTT_ACCESS) { NodeId(0) } else { node };
        let aperture = self.svm_aperture(!flags.contains(MemFlags::COARSE_GRAIN))?;
        let twice = flags.contains(MemFlags::AQL_QUEUE_MEMORY);
        let whole = if twice { size.checked_mul(2).ok_or(Error::Failed)? } else { size };
        self.reserve_area(aperture)?;
        let start = self.take(aperture, whole, alignment, at).map_err(|_| Error::Failed)?;
        let (kind, node, entry) = if flags.contains(MemFlags::ONLY_ADDRESS) {
            (PointerType::ReservedAddress, NodeId(0), Entry::default())
        } else {
            match self.back_host(gpu, node, start, size, whole, flags) {
                Ok(entry) => (PointerType::Allocated, node, entry),
                Err(error) => {
                    self.give(aperture, start, whole);
                    return Err(error);
                }
            }
        };
        let cpu = if kind == PointerType::Allocated { start } else { 0 };
        let (registered, mapped) = (List::EMPTY, List::EMPTY);
        self.publish(Birth { aperture, start, cpu, size: whole, registered, mapped, flags, node, kind }, entry)
    }

    /// Puts memory behind `start..start + whole`, of which the CPU sees the first `size` bytes. The caller gives the
    /// addresses back on failure, and the pages with them.
    fn back_host(
        &mut self,
        gpu: GpuId,
        node: NodeId,
        start: usize,
        size: usize,
        whole: usize,
        flags: MemFlags,
    ) -> Result<Entry> {
        let paged = !flags.contains(MemFlags::NON_PAGED) && self.machine.options.userptr_for_paged_mem;
        let place = if paged { IocFlags::USERPTR } else { IocFlags::GTT };
        let ioc = place | flags.to_ioc() | self.coherence(flags);
        if paged {
            let pages = HostMap::Anonymous { node, flags };
            self.driver.host_map(start, size, pages).map_err(|_| Error::Failed)?;
        }
        let user = if paged { start as u64 } else { 0 };
        let wish = Wish { gpu, va: start as u64, size: whole as u64, ioc, user };
        let (handles, offset) = self.make(&wish)?;
        if !paged && flags.contains(MemFlags::HOST_ACCESS) {
            let show = HostMap::Device { gpu, offset, access: true };
            if self.driver.host_map(start, size, show).is_err() {
                self.unmake(handles);
                return Err(Error::Failed);
            }
        }
        Ok(Entry { handles, ioc, gpu, ..Entry::default() })
    }

    fn host_of_apu(&mut self, size: usize, flags: MemFlags) -> Result<usize> {
        let start = self.driver.host_alloc(size, self.page().bytes(), flags).map_err(|_| Error::Failed)?;
        let only_address = flags.contains(MemFlags::ONLY_ADDRESS);
        let kind = if only_address { PointerType::ReservedAddress } else { PointerType::Allocated };
        let birth = Birth {
            aperture: Aperture::Cpuvm,
            start,
            cpu: if only_address { 0 } else { start },
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
