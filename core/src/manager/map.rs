//! Map and unmap.
//!
//! In: an address, a size, perhaps nodes. Out: the alternate address where the interface defines one, and a record
//! whose MappedNodes say what the kernel has. What never happens: a failed call that leaves a GPU mapped or unmapped -
//! unless the kernel refuses the undo as well, and then MappedNodes say so.

use super::Manager;
use super::gpu_list::{GpuList, Gpus};
use super::mapping::{Change, Stuck};
use crate::aperture::{Aperture, MAX_NODES};
use crate::driver::{Driver, HostRange, SvmAttribute};
use crate::epoch::Domain;
use crate::error::{Error, Result};
use crate::info::PointerType;
use crate::node::{GpuId, NodeId};
use crate::pool::Memory;
use crate::record::Record;

impl<V: Driver, D: Domain, M: Memory> Manager<'_, V, D, M> {
    /// Maps an object on all GPUs that it is meant for. `Some` is what a C entry writes to the alternate address; it sets
    /// that to 0 before the call if `address` is not null, and leaves it at `None`.
    #[doc(alias = "hsaKmtMapMemoryToGPU")]
    pub fn map(&mut self, address: usize, size: usize) -> Result<Option<u64>> {
        self.map_meant(address, size, None)
    }

    /// As [`Manager::map`]. With the SVM API, memory that is no object's becomes accessible to all GPUs where it is: the
    /// kernel keeps that, and this library makes no object of it.
    ///
    /// Host memory needs its promise:
    /// ```compile_fail,E0308
    /// # use hsakmt_core::{driver::Driver, epoch::Domain, error::Result, manager::Manager, pool::Memory};
    /// # fn f<V: Driver, D: Domain, M: Memory>(manager: &mut Manager<'_, V, D, M>) -> Result<Option<u64>> {
    /// manager.map_range(0x7000_0000)
    /// # }
    /// ```
    /// ```
    /// # use hsakmt_core::{driver::{Driver, HostRange}, epoch::Domain, error::Result, manager::Manager, pool::Memory};
    /// # fn f<V: Driver, D: Domain, M: Memory>(manager: &mut Manager<'_, V, D, M>) -> Result<Option<u64>> {
    /// manager.map_range(HostRange::EMPTY)
    /// # }
    /// ```
    #[doc(alias = "hsaKmtMapMemoryToGPU")]
    pub fn map_range(&mut self, range: HostRange<'_>) -> Result<Option<u64>> {
        self.map_meant(range.address(), range.size(), Some(range))
    }

    fn map_meant(&mut self, address: usize, size: usize, host: Option<HostRange<'_>>) -> Result<Option<u64>> {
        if address == 0 {
            return Err(Error::Failed);
        }
        if let Some(gpu) = self.scratch_of(address) {
            return self.map_scratch(gpu, address, size).map(|()| None);
        }
        let Some((aperture, record)) = self.find(address, size) else {
            return self.map_unknown(host);
        };
        if record.kind == PointerType::ReservedAddress || aperture == Aperture::MemHandle {
            return Err(Error::InvalidParameter);
        }
        if aperture == Aperture::Cpuvm {
            return Ok(None);
        }
        if record.is_userptr() {
            return self.map_userptr(aperture, record, address).map(Some);
        }
        let on = self.meant_for(&record)?;
        self.change_mapping(aperture, record, &[], on.as_slice())?;
        Ok(match aperture {
            Aperture::Gpuvm(_) => Some((record.start - self.writer.layout().bounds(aperture).base) as u64),
            _ => None,
        })
    }

    /// Maps an object on exactly these nodes. As [`Manager::map`], but the alternate address is not set to 0 first - except
    /// on a machine without a dGPU and with one node, where it *is* [`Manager::map`].
    #[doc(alias = "hsaKmtMapMemoryToGPUNodes")]
    pub fn map_nodes(&mut self, address: usize, size: usize, nodes: &[NodeId]) -> Result<Option<u64>> {
        self.map_listed(address, size, None, nodes)
    }

    /// As [`Manager::map_nodes`]. With the SVM API, memory that is no object's becomes accessible to these GPUs where it is.
    #[doc(alias = "hsaKmtMapMemoryToGPUNodes")]
    pub fn map_range_nodes(&mut self, range: HostRange<'_>, nodes: &[NodeId]) -> Result<Option<u64>> {
        self.map_listed(range.address(), range.size(), Some(range), nodes)
    }

    fn map_listed(
        &mut self,
        address: usize,
        size: usize,
        host: Option<HostRange<'_>>,
        nodes: &[NodeId],
    ) -> Result<Option<u64>> {
        if address == 0 {
            return Err(Error::Failed);
        }
        if !self.machine.dgpu && nodes.len() == 1 {
            return self.map_meant(address, size, host);
        }
        let wanted = self.checked_nodes(nodes)?;
        let wanted = wanted.as_slice();
        let Some((aperture, record)) = self.find(address, size) else {
            let host = host.filter(|_| self.machine.svm_api).ok_or(Error::Failed)?;
            return self.map_svm(host, wanted).map(Some);
        };
        if record.kind == PointerType::ReservedAddress || matches!(aperture, Aperture::MemHandle | Aperture::Cpuvm) {
            return Err(Error::InvalidParameter);
        }
        if matches!(aperture, Aperture::Gpuvm(_)) {
            return Err(Error::Failed);
        }
        if record.is_userptr() {
            return self.map_userptr(aperture, record, address).map(Some);
        }
        let registered = self.gpus(record.registered);
        let on_all = registered.iter().next().is_none();
        let allowed = |gpu| if on_all { self.machine.all.contains(&gpu) } else { registered.contains(gpu) };
        if wanted.iter().any(|gpu| !allowed(*gpu)) {
            return Err(Error::Failed);
        }
        let mapped = self.gpus(record.mapped);
        let off = GpuList::distinct(mapped.iter().filter(|gpu| !wanted.contains(gpu)))?;
        let on = GpuList::collect(wanted.iter().copied().filter(|gpu| !mapped.contains(*gpu)))?;
        self.change_mapping(aperture, record, off.as_slice(), on.as_slice())?;
        Ok(None)
    }

    /// Unmaps from wherever it is mapped. Nothing mapped is no error.
    #[doc(alias = "hsaKmtUnmapMemoryToGPU")]
    pub fn unmap(&mut self, address: usize) -> Result<()> {
        if address == 0 {
            return Ok(());
        }
        if let Some(gpu) = self.scratch_of(address) {
            return self.unmap_scratch(gpu, address);
        }
        let Some((aperture, record)) = self.find(address, 0) else {
            let fine = !self.machine.dgpu || self.machine.svm_api;
            return if fine { Ok(()) } else { Err(Error::Failed) };
        };
        if record.is_userptr()
            && let Some(entry) = self.ledger.get_mut(record.id)
            && entry.mappings > 1
        {
            entry.mappings -= 1;
            return Ok(());
        }
        let off = GpuList::distinct(self.gpus(record.mapped).iter())?;
        self.change_mapping(aperture, record, off.as_slice(), &[])
    }

    /// A userptr's mapping ignores the caller's nodes; once mapped it only counts.
    fn map_userptr(&mut self, aperture: Aperture, record: Record, address: usize) -> Result<u64> {
        let alternate = record.start + self.page().offset(address);
        let entry = self.ledger.get_mut(record.id).ok_or(Error::Failed)?;
        if entry.mappings > 0 {
            entry.mappings = entry.mappings.checked_add(1).ok_or(Error::Failed)?;
            return Ok(alternate as u64);
        }
        let on = self.meant_for(&record)?;
        self.change_mapping(aperture, record, &[], on.as_slice())?;
        Ok(alternate as u64)
    }

    /// Who an object is mapped on when the caller does not say: those it is registered to; else, if it is memory of a
    /// GPU, those who can reach that; else all.
    fn meant_for(&self, record: &Record) -> Result<GpuList> {
        if !record.registered.is_empty() {
            return GpuList::collect(self.gpus(record.registered).iter());
        }
        let gpus = if record.is_userptr() { &*self.machine.all } else { self.machine.reach(record.node) };
        GpuList::collect(gpus.iter().copied())
    }

    fn map_unknown(&mut self, host: Option<HostRange<'_>>) -> Result<Option<u64>> {
        if let Some(host) = host.filter(|_| self.machine.svm_api) {
            let all = GpuList::collect(self.machine.all.iter().copied())?;
            return self.map_svm(host, all.as_slice()).map(Some);
        }
        if self.machine.dgpu { Err(Error::InvalidParameter) } else { Ok(None) }
    }

    /// Memory the library has no object for: the kernel's SVM gives these GPUs access where the pages are.
    fn map_svm(&mut self, host: HostRange<'_>, gpus: &[GpuId]) -> Result<u64> {
        self.machine.first().ok_or(Error::Failed)?;
        let pages = host.whole_pages(self.page()).ok_or(Error::Failed)?;
        let access = |gpu: &GpuId| SvmAttribute { kind: SvmAttribute::ACCESS_IN_PLACE, value: gpu.0 };
        // `gpus` is a GpuList's, which is no longer.
        let attributes: heapless::Vec<_, MAX_NODES> = gpus.iter().take(MAX_NODES).map(access).collect();
        self.driver.svm_set(pages, &attributes)?;
        Ok(host.address() as u64)
    }

    /// Takes `off` off and puts `on` on, then shows the new MappedNodes: the old ones without both, then `on`.
    fn change_mapping(&mut self, aperture: Aperture, record: Record, off: &[GpuId], on: &[GpuId]) -> Result<()> {
        if off.is_empty() && on.is_empty() {
            return Ok(());
        }
        if on.is_empty() {
            self.writer.reserve_to_end(1)?
        } else {
            self.writer.reserve(1)?
        }
        let list = self.intern_mapping(record.mapped, off, on)?;
        let entry = self.ledger.get(record.id).ok_or(Error::Failed)?;
        let before = Gpus::new(self.writer.layout(), record.mapped);
        match (Change { handles: &entry.handles, before, off, on }).run(&mut self.driver) {
            Ok(()) => self.show_mapping(aperture, record, list),
            Err(stuck) => {
                self.writer.release(list);
                if !stuck.is_clean() {
                    self.show_stuck(aperture, record, off, on, stuck)?;
                }
                Err(Error::Failed)
            }
        }
    }

    /// Replaces an object's MappedNodes. Takes `list` over, gives the old one up.
    fn show_mapping(&mut self, aperture: Aperture, record: Record, list: crate::list::List) -> Result<()> {
        if let Some(entry) = self.ledger.get_mut(record.id) {
            entry.mappings = u32::from(!list.is_empty());
        }
        if list != record.mapped {
            self.writer.replace(aperture, Record { mapped: list, ..record })?;
            self.writer.release(record.mapped);
        } else {
            self.writer.release(list);
        }
        Ok(())
    }

    /// The undo was refused as well: MappedNodes become what the kernel has.
    #[cold]
    #[inline(never)]
    fn show_stuck(
        &mut self,
        aperture: Aperture,
        record: Record,
        off: &[GpuId],
        on: &[GpuId],
        stuck: Stuck,
    ) -> Result<()> {
        let off = GpuList::collect(stuck.off.of(off))?;
        let on = GpuList::collect(stuck.on.of(on))?;
        let list = self.intern_mapping(record.mapped, off.as_slice(), on.as_slice())?;
        self.show_mapping(aperture, record, list)
    }
}
