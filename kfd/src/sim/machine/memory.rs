//! Buffer objects: alloc, free, map, unmap, and what is left of VRAM.
//!
//! A [`Bo`] is one process's handle on a [`Memory`]. Whether two mappings collide is asked per GPU when mapping, as
//! the kernel does, not when allocating. Offsets into a GPU's file go downward and are not used twice: neighbours in
//! the address space are then neighbours in the file, and their mappings merge.

use std::collections::BTreeMap;

use hsakmt_core::driver::Errno;
use hsakmt_core::flags::IocFlags;
use zerocopy::IntoBytes;

use super::share::Name;
use super::{BUSY, FAULT, LARGEST_ARRAY, PAGE, Process, World};
use crate::sim::caller::Caller;
use crate::sim::memfd::Watch;
use crate::uapi::{
    AllocMemoryOfGpuArgs, FreeMemoryOfGpuArgs, GetAvailableMemoryArgs, MapMemoryToGpuArgs, UnmapMemoryFromGpuArgs,
};

/// A memory's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemoryId(pub u64);

/// Bytes somewhere: in a GPU's VRAM, in host memory, or a process's own.
#[derive(Debug)]
pub struct Memory {
    pub(crate) gpu: usize,
    pub(crate) size: u64,
    pub(crate) flags: IocFlags,
    pub(crate) offset: u64,
    /// Buffer objects and IPC names.
    pub(crate) holders: usize,
    /// Dmabufs that may still be open.
    pub(crate) watches: Vec<Watch>,
    /// What a graphics driver would have attached.
    pub(crate) metadata: Vec<u8>,
}

/// A process's handle on a memory.
#[derive(Debug)]
pub(crate) struct Bo {
    pub(crate) memory: MemoryId,
    pub(crate) va: u64,
    /// Bytes of GPU addresses: twice the memory's for an AQL ring.
    pub(crate) size: u64,
    /// Where in the memory it begins.
    pub(crate) offset: u64,
    pub(crate) user_address: Option<u64>,
    /// Bit n: mapped on the n-th GPU.
    pub(crate) mapped: u64,
    pub(crate) ipc: Option<[u32; 4]>,
}

/// One GPU's memory.
#[derive(Debug)]
pub(crate) struct Vram {
    pub(crate) used: u64,
    next_offset: u64,
}

impl Vram {
    pub(crate) fn new() -> Vram {
        Vram { used: 0, next_offset: 1 << 60 }
    }

    /// Room for `size` bytes in the GPU's file, below everything before.
    pub(crate) fn take_offset(&mut self, size: u64) -> Result<u64, Errno> {
        let offset = self.next_offset.checked_sub(size).filter(|offset| *offset >= PAGE).ok_or(Errno::NOMEM)?;
        self.next_offset = offset;
        Ok(offset)
    }
}

/// What is mapped on one GPU for one process: first address -> (last address, handle).
#[derive(Debug, Default)]
pub(crate) struct AddressSpace(BTreeMap<u64, (u64, u64)>);

impl AddressSpace {
    /// Some mapping that has an address in `first..=last`.
    pub(crate) fn overlapping(&self, first: u64, last: u64) -> Option<u64> {
        let (_, (end, handle)) = self.0.range(..=last).next_back()?;
        (*end >= first).then_some(*handle)
    }

    /// The mapping that has an address: its first and last address, and the handle.
    pub(crate) fn find(&self, address: u64) -> Option<(u64, u64, u64)> {
        let (first, (last, handle)) = self.0.range(..=address).next_back()?;
        (*last >= address).then_some((*first, *last, *handle))
    }

    pub(crate) fn insert(&mut self, first: u64, last: u64, handle: u64) -> Result<(), Errno> {
        if !first.is_multiple_of(PAGE) || last < first || self.overlapping(first, last).is_some() {
            return Err(Errno::INVAL);
        }
        self.0.insert(first, (last, handle));
        Ok(())
    }

    pub(crate) fn remove(&mut self, first: u64) {
        self.0.remove(&first);
    }
}

/// Where the kfd file shows the MMIO page of the n-th GPU.
pub(crate) const MMIO_AT: u64 = 0x1000_0000;

/// Where the kfd file shows the doorbells of the n-th GPU. The thunk up to 5.2 takes the low 32 bits of a doorbell's
/// offset for the place in the page, and the rest for the page.
pub(crate) const fn doorbells_at(gpu: usize) -> u64 {
    (gpu as u64 + 1) << 32
}

/// Bytes of doorbells per process and GPU.
pub(crate) const DOORBELL_BYTES: u64 = 8192;

fn page_up(size: u64) -> Result<u64, Errno> {
    size.checked_next_multiple_of(PAGE).ok_or(Errno::INVAL)
}

impl World {
    pub(crate) fn alloc(
        &mut self,
        p: &mut Process,
        args: &mut AllocMemoryOfGpuArgs,
        caller: &mut dyn Caller,
    ) -> Result<(), Errno> {
        let flags = IocFlags::from_bits_retain(args.flags);
        let gpu = self.gpu(args.gpu_id)?;
        let size = page_up(args.size)?;
        if size == 0 {
            return Err(Errno::INVAL);
        }
        let large_bar = self.machine.gpus.get(gpu).is_some_and(|gpu| gpu.large_bar);
        if flags.contains(IocFlags::VRAM | IocFlags::PUBLIC) && !large_bar {
            return Err(Errno::INVAL);
        }
        if flags.contains(IocFlags::USERPTR) && !p.primary {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        p.bound(gpu)?;
        self.check_against_ranges(p, args.va_addr, size, caller)?;
        let memory_size = if flags.contains(IocFlags::AQL_QUEUE_MEM) { page_up(size / 2)? } else { size };
        let user_address = self.check_kind(flags, args, memory_size, caller)?;
        let memory = self.new_memory(gpu, memory_size, flags)?;
        let gpu_id = self.machine.gpus.get(gpu).ok_or(Errno::INVAL)?.gpu_id;
        args.handle = p.new_handle(gpu_id);
        args.mmap_offset = self.mmap_offset(memory);
        p.bos.insert(args.handle, Bo { memory, va: args.va_addr, size, offset: 0, user_address, mapped: 0, ipc: None });
        Ok(())
    }

    /// The checks of each kind of object; a userptr's address comes back. Of an AQL ring in it, which is mapped twice, the
    /// first half is all the pages there need be.
    fn check_kind(
        &self,
        flags: IocFlags,
        args: &AllocMemoryOfGpuArgs,
        memory_size: u64,
        caller: &mut dyn Caller,
    ) -> Result<Option<u64>, Errno> {
        let only = |size: u64| if args.size == size { Ok(None) } else { Err(Errno::INVAL) };
        if flags.contains(IocFlags::USERPTR) {
            let address = args.mmap_offset;
            if address == 0 || !address.is_multiple_of(PAGE) || address.checked_add(args.size).is_none() {
                return Err(Errno::INVAL);
            }
            return if caller.readable(address, memory_size) { Ok(Some(address)) } else { Err(FAULT) };
        }
        if flags.contains(IocFlags::DOORBELL) {
            return only(DOORBELL_BYTES);
        }
        if flags.contains(IocFlags::MMIO_REMAP) {
            return only(PAGE);
        }
        if flags.intersects(IocFlags::VRAM | IocFlags::GTT) { Ok(None) } else { Err(Errno::INVAL) }
    }

    /// Takes memory, or says that there is none left.
    pub(crate) fn new_memory(&mut self, gpu: usize, size: u64, flags: IocFlags) -> Result<MemoryId, Errno> {
        if flags.contains(IocFlags::VRAM) && size > self.vram_left(gpu) {
            self.collect();
            if size > self.vram_left(gpu) {
                return Err(Errno::NOMEM);
            }
        }
        if flags.contains(IocFlags::GTT) && size > self.machine.memory.saturating_sub(self.gtt_used) {
            self.collect();
            if size > self.machine.memory.saturating_sub(self.gtt_used) {
                return Err(Errno::NOMEM);
            }
        }
        let vram = self.vram.get_mut(gpu).ok_or(Errno::INVAL)?;
        let offset = vram.take_offset(size)?;
        if flags.contains(IocFlags::VRAM) {
            vram.used += size;
        } else if flags.contains(IocFlags::GTT) {
            self.gtt_used += size;
        }
        let id = MemoryId(self.next_memory);
        self.next_memory += 1;
        let memory = Memory { gpu, size, flags, offset, holders: 1, watches: Vec::new(), metadata: Vec::new() };
        self.memories.insert(id, memory);
        Ok(id)
    }

    /// Where a memory can be mapped from: the GPU's file, or for the MMIO page and doorbells the kfd file.
    pub(crate) fn mmap_offset(&self, id: MemoryId) -> u64 {
        let Some(memory) = self.memories.get(&id) else { return 0 };
        if memory.flags.contains(IocFlags::MMIO_REMAP) {
            MMIO_AT + memory.gpu as u64 * PAGE
        } else if memory.flags.contains(IocFlags::DOORBELL) {
            doorbells_at(memory.gpu)
        } else {
            memory.offset
        }
    }

    fn vram_left(&self, gpu: usize) -> u64 {
        let total = self.machine.gpus.get(gpu).map_or(0, |gpu| gpu.vram);
        total.saturating_sub(self.vram.get(gpu).map_or(0, |vram| vram.used))
    }

    /// One holder fewer; the last one frees the memory, unless a dmabuf of it is still open somewhere.
    pub(crate) fn drop_memory(&mut self, id: MemoryId) {
        if let Some(memory) = self.memories.get_mut(&id) {
            memory.holders = memory.holders.saturating_sub(1);
            self.free_unheld(id);
        }
    }

    fn free_unheld(&mut self, id: MemoryId) {
        let Some(memory) = self.memories.get_mut(&id).filter(|memory| memory.holders == 0) else { return };
        memory.watches.retain(Watch::alive);
        if !memory.watches.is_empty() {
            return;
        }
        if memory.flags.contains(IocFlags::VRAM) {
            if let Some(vram) = self.vram.get_mut(memory.gpu) {
                vram.used = vram.used.saturating_sub(memory.size);
            }
        } else if memory.flags.contains(IocFlags::GTT) {
            self.gtt_used = self.gtt_used.saturating_sub(memory.size);
        }
        if memory.flags.intersects(IocFlags::VRAM | IocFlags::GTT) {
            self.freed.push((memory.gpu, memory.offset, memory.size));
        }
        self.memories.remove(&id);
    }

    /// Frees what only closed dmabufs held.
    pub(crate) fn collect(&mut self) {
        let unheld: Vec<MemoryId> =
            self.memories.iter().filter(|(_, memory)| memory.holders == 0).map(|(id, _)| *id).collect();
        for id in unheld {
            self.free_unheld(id);
        }
    }

    /// A buffer object goes, and its IPC name if it was the name's last.
    pub(crate) fn drop_bo(&mut self, bo: Bo) {
        if let Some(share) = bo.ipc
            && let Some(name) = self.ipc.get_mut(&share)
        {
            name.holders = name.holders.saturating_sub(1);
            if let Name { holders: 0, memory, .. } = *name {
                self.ipc.remove(&share);
                self.drop_memory(memory);
            }
        }
        self.drop_memory(bo.memory);
    }

    pub(crate) fn free(&mut self, p: &mut Process, args: &mut FreeMemoryOfGpuArgs) -> Result<(), Errno> {
        self.any_gpu((args.handle >> 32) as u32)?;
        let bo = p.bos.get(&args.handle).ok_or(Errno::INVAL)?;
        if bo.mapped != 0 {
            return Err(BUSY);
        }
        if let Some(bo) = p.bos.remove(&args.handle) {
            self.drop_bo(bo);
        }
        Ok(())
    }

    pub(crate) fn map(
        &mut self,
        p: &mut Process,
        args: &mut MapMemoryToGpuArgs,
        caller: &mut dyn Caller,
    ) -> Result<(), Errno> {
        let gpus = read_gpus(args.n_devices, args.n_success, args.device_ids_array_ptr, caller)?;
        self.gpu((args.handle >> 32) as u32)?;
        let fault = self.faults.partial();
        self.note_gpus(&gpus);
        if !p.bos.contains_key(&args.handle) {
            return Err(Errno::NOMEM);
        }
        for (position, id) in gpus.iter().enumerate().skip(args.n_success as usize) {
            if fault == Some(position) {
                return Err(Errno::NOMEM);
            }
            self.map_one(p, args.handle, *id)?;
            args.n_success = position as u32 + 1;
        }
        Ok(())
    }

    fn note_gpus(&mut self, gpus: &[u32]) {
        if self.tracing {
            self.lists.push(("gpus", gpus.to_vec()));
        }
    }

    fn map_one(&self, p: &mut Process, handle: u64, id: u32) -> Result<(), Errno> {
        let gpu = self.gpu(id)?;
        p.bound(gpu)?;
        let (Some(bo), Some(on)) = (p.bos.get_mut(&handle), p.gpus.get_mut(gpu)) else { return Err(Errno::INVAL) };
        if bo.mapped & (1 << gpu) != 0 {
            return Ok(());
        }
        let last = bo.va.checked_add(bo.size - 1).ok_or(Errno::INVAL)?;
        if bo.va == 0 {
            return Err(Errno::INVAL);
        }
        on.space.insert(bo.va, last, handle)?;
        bo.mapped |= 1 << gpu;
        Ok(())
    }

    pub(crate) fn unmap(
        &mut self,
        p: &mut Process,
        args: &mut UnmapMemoryFromGpuArgs,
        caller: &mut dyn Caller,
    ) -> Result<(), Errno> {
        let gpus = read_gpus(args.n_devices, args.n_success, args.device_ids_array_ptr, caller)?;
        self.any_gpu((args.handle >> 32) as u32)?;
        let fault = self.faults.partial();
        self.note_gpus(&gpus);
        let bo = p.bos.get_mut(&args.handle).ok_or(Errno::NOMEM)?;
        for (position, id) in gpus.iter().enumerate().skip(args.n_success as usize) {
            if fault == Some(position) {
                return Err(Errno::NOMEM);
            }
            let gpu = self.any_gpu(*id)?;
            if bo.mapped & (1 << gpu) == 0 {
                return Err(Errno::INVAL);
            }
            if p.queues.holds(gpu, args.handle) {
                return Err(BUSY);
            }
            bo.mapped &= !(1 << gpu);
            if let Some(on) = p.gpus.get_mut(gpu) {
                on.space.remove(bo.va);
            }
            args.n_success = position as u32 + 1;
        }
        Ok(())
    }

    pub(crate) fn available_memory(&mut self, args: &mut GetAvailableMemoryArgs) -> Result<(), Errno> {
        let gpu = self.gpu(args.gpu_id)?;
        self.collect();
        // The kernel rounds down to what it hands out at best: 2 MiB.
        args.available = self.vram_left(gpu) & !((2 << 20) - 1);
        Ok(())
    }
}

/// The caller's array of GPU ids.
fn read_gpus(count: u32, done: u32, address: u64, caller: &mut dyn Caller) -> Result<Vec<u32>, Errno> {
    if count == 0 || done > count {
        return Err(Errno::INVAL);
    }
    if count as usize > LARGEST_ARRAY / size_of::<u32>() {
        return Err(Errno::NOMEM);
    }
    let mut ids = vec![0u32; count as usize];
    caller.read(address, ids.as_mut_bytes())?;
    Ok(ids)
}
