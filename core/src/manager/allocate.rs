//! AllocMemory: the checks in the C interface's order, the choice between scratch, host memory and VRAM, and VRAM.
//!
//! In: node, size, alignment, flags, perhaps a fixed address. Out: the address of a published object. What never
//! happens: a failure that leaves an address, a buffer object or a CPU mapping behind.

use super::Manager;
use super::buffer::{Birth, User, Wish};
use crate::aperture::Aperture;
use crate::driver::{Driver, HostMap};
use crate::epoch::Domain;
use crate::error::{Error, Result};
use crate::flags::{IocFlags, MemFlags};
use crate::info::PointerType;
use crate::ledger::Entry;
use crate::list::List;
use crate::node::{GpuId, NodeId};
use crate::pool::Memory;

/// The KFD interface's minor version that knows physically contiguous VRAM.
const MINOR_CONTIGUOUS: u32 = 16;

impl<V: Driver, D: Domain, M: Memory> Manager<'_, V, D, M> {
    /// The checks that come before the caller's address is touched. `at` is what stands there, `None` for a null
    /// pointer. Once this has passed, a C entry sets the address NULL (unless [`MemFlags::FIXED_ADDRESS`]), and again
    /// when [`Manager::allocate`] fails.
    pub fn check_allocation(
        &self,
        node: NodeId,
        size: usize,
        alignment: usize,
        flags: MemFlags,
        at: Option<usize>,
    ) -> Result<()> {
        if flags.contains(MemFlags::CONTIGUOUS) && self.opened.kfd_minor < MINOR_CONTIGUOUS {
            return Err(Error::NotSupported);
        }
        self.gpu_of(node)?;
        let page = flags.page_size();
        if alignment != 0 && (alignment < page || !alignment.is_power_of_two()) {
            return Err(Error::InvalidParameter);
        }
        let at = at.ok_or(Error::InvalidParameter)?;
        if size == 0 || size & (page - 1) != 0 || (flags.contains(MemFlags::FIXED_ADDRESS) && at == 0) {
            return Err(Error::InvalidParameter);
        }
        Ok(())
    }

    /// Whether an allocation that prefers a GPU is that GPU's memory; else it is memory of the host.
    pub(super) fn is_device_memory(&self, gpu: GpuId, flags: MemFlags) -> bool {
        let device = gpu != GpuId::NONE && flags.contains(MemFlags::NON_PAGED);
        device && !self.opened.zfb && !flags.contains(MemFlags::GTT_ACCESS)
    }

    /// Makes memory, or an address, or memory without an address. `alignment` 0 asks for nothing special; `at` counts
    /// with [`MemFlags::FIXED_ADDRESS`] only.
    #[doc(alias = "hsaKmtAllocMemory")]
    #[doc(alias = "hsaKmtAllocMemoryAlign")]
    pub fn allocate(
        &mut self,
        node: NodeId,
        size: usize,
        alignment: usize,
        flags: MemFlags,
        at: usize,
    ) -> Result<usize> {
        self.check_allocation(node, size, alignment, flags, Some(at))?;
        let both = |one, other| flags.contains(one) && flags.contains(other);
        if both(MemFlags::COARSE_GRAIN, MemFlags::EXTENDED_COHERENT)
            || both(MemFlags::EXTENDED_COHERENT, MemFlags::UNCACHED)
        {
            return Err(Error::InvalidParameter);
        }
        let gpu = self.gpu_of(node)?;
        let at = flags.contains(MemFlags::FIXED_ADDRESS).then_some(at);
        if flags.contains(MemFlags::SCRATCH) {
            if alignment != 0 {
                return Err(Error::NotImplemented);
            }
            return self.allocate_scratch(gpu, size, at);
        }
        let size = self.page().round_up(size).ok_or(Error::NoMemory)?;
        if !self.is_device_memory(gpu, flags) {
            let mut flags = flags;
            if self.opened.zfb && gpu != GpuId::NONE && flags.contains(MemFlags::NON_PAGED) {
                flags.insert(MemFlags::COARSE_GRAIN);
            }
            return self.allocate_host(gpu, node, size, alignment, flags, at);
        }
        if flags.contains(MemFlags::ONLY_ADDRESS) {
            if flags.contains(MemFlags::NO_ADDRESS) {
                return Err(Error::InvalidParameter);
            }
            return self.allocate_host(gpu, node, size, alignment, flags, at);
        }
        self.allocate_vram(gpu, node, size, alignment, flags, at)
    }

    pub(super) fn allocate_vram(
        &mut self,
        gpu: GpuId,
        node: NodeId,
        size: usize,
        alignment: usize,
        flags: MemFlags,
        at: Option<usize>,
    ) -> Result<usize> {
        let (aperture, size, shown) = self.vram_place(gpu, size, flags)?;
        // The CPU cannot reach an old APU's aperture: memory that the host is to write to is not to be had there.
        if matches!(aperture, Aperture::Gpuvm(_)) && flags.contains(MemFlags::HOST_ACCESS) {
            return Err(Error::NoMemory);
        }
        self.reserve_birth()?;
        let range = self.take(aperture, size, alignment, at)?;
        let start = range.start();
        let ioc = self.vram_ioc(flags);
        let va = match aperture {
            Aperture::MemHandle => 0,
            _ if self.machine.dgpu => start,
            _ => start.saturating_sub(self.writer.layout().bounds(aperture).base),
        };
        let wish = Wish { gpu, va: va as u64, size: size as u64, ioc, user: User::No };
        let Ok((handles, offset)) = self.make(&wish) else {
            self.give(range);
            return Err(Error::NoMemory);
        };
        let show = HostMap::Device { gpu, offset, access: flags.contains(MemFlags::HOST_ACCESS) };
        let page = self.page();
        if range.cpu_accessible() && range.show_first(&mut self.driver, page, shown, show).is_err() {
            self.unmake(handles);
            self.give(range);
            return Err(Error::NoMemory);
        }
        let birth = Birth {
            range,
            cpu: start,
            size,
            registered: List::EMPTY,
            mapped: List::EMPTY,
            flags,
            node,
            kind: PointerType::Allocated,
        };
        self.publish(birth, Entry { handles, ioc, gpu, ..Entry::default() })
    }

    /// Which aperture VRAM goes to, how large the object is, and how much of it the CPU is shown. An AQL ring is mapped
    /// twice where SVM is needed.
    fn vram_place(&self, gpu: GpuId, size: usize, flags: MemFlags) -> Result<(Aperture, usize, usize)> {
        let known = self.machine.gpu(gpu).ok_or(Error::NoMemory)?;
        let (aperture, whole) = if known.svm_needed {
            let twice = flags.contains(MemFlags::AQL_QUEUE_MEMORY);
            let whole = if twice { size.checked_mul(2).ok_or(Error::NoMemory)? } else { size };
            (self.svm_aperture(false).ok(), whole)
        } else {
            (known.gpuvm.as_ref().map(|(position, _)| Aperture::Gpuvm(*position)), size)
        };
        if flags.contains(MemFlags::NO_ADDRESS) {
            return Ok((Aperture::MemHandle, whole, size));
        }
        Ok((aperture.ok_or(Error::NoMemory)?, whole, size))
    }

    fn vram_ioc(&self, flags: MemFlags) -> IocFlags {
        let mut ioc = IocFlags::VRAM | flags.to_ioc() | self.coherence(flags);
        ioc.set(IocFlags::PUBLIC, flags.contains(MemFlags::HOST_ACCESS));
        ioc.set(IocFlags::EXT_COHERENT, flags.contains(MemFlags::EXTENDED_COHERENT));
        ioc.set(IocFlags::CONTIGUOUS_BEST_EFFORT, flags.contains(MemFlags::CONTIGUOUS));
        ioc
    }
}
