//! The memory of a queue, and the doorbells of each GPU.
//!
//! In: a plan. Out: buffers that are all there, or none. They are objects of the memory manager, except for two: a context
//! save area in shared virtual memory, and doorbells that are no object of the GPU's address space. What never happens: a
//! byte that is touched after the queue was made.

use core::ptr::with_exposed_provenance_mut;

use hsakmt_core::address::Bounds;
use hsakmt_core::driver::{Driver, HostMap, HostRange, SvmAttribute, VaRequest};
use hsakmt_core::error::{Error, Result};
use hsakmt_core::flags::MemFlags;
use hsakmt_core::manager::QueueMemory;
use hsakmt_core::node::{GpuId, NodeId};
use hsakmt_kfd::uapi::{
    KFD_IOCTL_SVM_ATTR_ACCESS, KFD_IOCTL_SVM_ATTR_CLR_FLAGS, KFD_IOCTL_SVM_ATTR_GRANULARITY,
    KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, KFD_IOCTL_SVM_ATTR_SET_FLAGS,
    KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED, KFD_IOCTL_SVM_FLAG_GPU_EXEC, KFD_IOCTL_SVM_FLAG_HOST_ACCESS,
};

use super::QueueRequest;
use super::chain::{Chain, Link};
use super::plan::Plan;
use super::sizes::{self, SaveArea};
use crate::context::ContextManager;

/// What a queue's page must have room for.
const POINTERS: usize = 24;

/// Shared virtual memory starts at a multiple of this.
const HUGE_PAGE: usize = 2 << 20;

/// Where a queue's own write and read pointers are: `(write, read)`.
pub(super) fn pointers(page: usize) -> (u64, u64) {
    (page as u64 + 8, page as u64 + 16)
}

/// Where waves are saved.
#[derive(Clone, Copy, Debug)]
enum Area {
    None,
    /// An object.
    Object(usize),
    /// Process memory that the GPU has through shared virtual memory: address and bytes.
    Shared(usize, usize),
}

/// A queue's buffers besides its page.
#[derive(Debug)]
pub(super) struct Buffers {
    /// 0: none.
    end_of_pipe: usize,
    area: Area,
    stack: u32,
}

impl Buffers {
    pub(super) const NONE: Buffers = Buffers { end_of_pipe: 0, area: Area::None, stack: 0 };

    /// Makes a queue's page, and its buffers.
    pub(super) fn make(manager: &mut ContextManager, plan: &Plan, request: &QueueRequest) -> Result<(usize, Buffers)> {
        let page = manager.allocate_for_queue(plan.node, POINTERS, QueueMemory::Pointers)?;
        for pointer in [pointers(page).0, pointers(page).1] {
            let place = with_exposed_provenance_mut::<u64>(pointer as usize);
            // SAFETY: in the page that has just been made, which the host can access. No other thread knows it, and the lock is
            // held: no other call frees it.
            unsafe { place.write_volatile(0) };
        }
        let mut buffers = Buffers::NONE;
        match buffers.fill(manager, plan, request) {
            Ok(()) => Ok((page, buffers)),
            Err(error) => {
                buffers.end(manager, page);
                Err(error)
            }
        }
    }

    fn fill(&mut self, manager: &mut ContextManager, plan: &Plan, request: &QueueRequest) -> Result<()> {
        if plan.end_of_pipe > 0 {
            let size = plan.end_of_pipe as usize;
            self.end_of_pipe = manager.allocate_for_queue(plan.node, size, QueueMemory::EndOfPipe)?;
        }
        if let Some(area) = &plan.area {
            self.stack = area.stack;
            let shared = if manager.svm_api() { share(manager, plan, area, request).ok() } else { None };
            self.area = match shared {
                Some((address, size)) => Area::Shared(address, size),
                None => {
                    let what = QueueMemory::ContextSave(plan.cpu);
                    let address = manager.allocate_for_queue(plan.node, area.total as usize, what)?;
                    write_headers(address, area, request);
                    Area::Object(address)
                }
            };
        }
        Ok(())
    }

    /// The address of the end-of-pipe buffer; 0 for none.
    pub(super) fn end_of_pipe(&self) -> usize {
        self.end_of_pipe
    }

    /// The context save area, and the bytes of its first control stack.
    pub(super) fn save_area(&self) -> Option<(usize, u32)> {
        match self.area {
            Area::None => None,
            Area::Object(address) | Area::Shared(address, _) => Some((address, self.stack)),
        }
    }

    /// Ends them and the page, of a queue that is no more.
    pub(super) fn end(&self, manager: &mut ContextManager, page: usize) {
        if self.end_of_pipe != 0 {
            manager.free_of_queue(self.end_of_pipe);
        }
        match self.area {
            Area::None => {}
            Area::Object(address) => manager.free_of_queue(address),
            Area::Shared(address, size) => unreserve(manager, address, size),
        }
        manager.free_of_queue(page);
    }
}

/// Process memory for a save area, which the kernel keeps mapped on the GPU.
fn share(manager: &mut ContextManager, plan: &Plan, area: &SaveArea, request: &QueueRequest) -> Result<(usize, usize)> {
    let page = manager.writer().layout().page;
    let size = page.round_up(area.total as usize).ok_or(Error::NoMemory)?;
    // A forked child has no queue: it does not inherit the pages.
    let flags = MemFlags::NO_NUMA_BIND | MemFlags::NON_PAGED;
    let address = reserve(manager, size, HUGE_PAGE, HostMap::Anonymous { node: NodeId(0), flags })?;
    write_headers(address, area, request);
    let attribute = |kind, value| SvmAttribute { kind, value };
    let wanted = KFD_IOCTL_SVM_FLAG_HOST_ACCESS | KFD_IOCTL_SVM_FLAG_GPU_EXEC | KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED;
    let attributes = [
        attribute(KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, plan.node.0),
        attribute(KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 0),
        attribute(KFD_IOCTL_SVM_ATTR_CLR_FLAGS, !wanted),
        attribute(KFD_IOCTL_SVM_ATTR_SET_FLAGS, wanted),
        attribute(KFD_IOCTL_SVM_ATTR_ACCESS, plan.node.0),
        attribute(KFD_IOCTL_SVM_ATTR_GRANULARITY, 0xff),
    ];
    // SAFETY: fresh memory that nothing else knows. It is no Rust object, and is unmapped only once the queue has ended, with
    // which the kernel forgets the range.
    let range = unsafe { HostRange::new(address, size) };
    let set =
        if plan.always_mapped { manager.svm_set_attributes(range, &attributes) } else { Err(Error::NotSupported) };
    match set {
        Ok(()) => Ok((address, size)),
        Err(error) => {
            unreserve(manager, address, size);
            Err(error)
        }
    }
}

/// Writes the header of each piece of a fresh save area.
fn write_headers(address: usize, area: &SaveArea, request: &QueueRequest) {
    for piece in 0..area.pieces {
        let header = address + piece as usize * area.piece as usize;
        // Within `total`, which fits into 32 bits.
        let debug_offset = (area.pieces - piece) * area.piece;
        let debug_size = area.debugger * area.pieces;
        let words = [(16, debug_offset), (20, debug_size), (32, request.event)];
        for (offset, word) in words {
            // SAFETY: in fresh memory of `total` bytes, of which each piece is larger than its header: see `pointers`.
            unsafe { with_exposed_provenance_mut::<u32>(header + offset).write_volatile(word) };
        }
        // SAFETY: as above.
        unsafe { with_exposed_provenance_mut::<u64>(header + 24).write_volatile(request.error_reason) };
    }
}

/// The doorbells of a GPU.
#[derive(Debug)]
pub(super) struct Doorbells {
    gpu: GpuId,
    address: usize,
    size: usize,
    /// An object of the memory manager; else mapped beside it.
    object: bool,
}

impl Doorbells {
    /// Not there yet.
    pub(super) fn of(gpu: GpuId) -> Doorbells {
        Doorbells { gpu, address: 0, size: 0, object: false }
    }

    fn make(&mut self, manager: &mut ContextManager, plan: &Plan, offset: u64) -> Result<()> {
        let page = manager.writer().layout().page.bytes();
        self.size = sizes::doorbells(plan.version, page);
        if manager.is_dgpu()
            && sizes::doorbells_are_objects(plan.version)
            && let Ok(address) = manager.make_doorbells(plan.node, self.size, offset)
        {
            (self.address, self.object) = (address, true);
            return Ok(());
        }
        let address = reserve(manager, self.size, page, HostMap::Mmio { offset })?;
        (self.address, self.object) = (address, false);
        Ok(())
    }

    /// Whether they still are where they were: an object goes with its node, or when it is freed.
    fn are_there(&self, manager: &ContextManager) -> bool {
        !self.object || manager.has_doorbells(self.address, self.size)
    }

    /// Unmaps them, unless they are an object, which the memory manager ends.
    pub(super) fn end(&self, manager: &mut ContextManager) {
        if !self.object {
            unreserve(manager, self.address, self.size);
        }
    }
}

/// Where the doorbells of a GPU are; made and noted in `blank` the first time.
pub(super) fn doorbells(
    manager: &mut ContextManager,
    known: &mut Chain<Doorbells>,
    blank: &mut Option<Link<Doorbells>>,
    plan: &Plan,
    offset: u64,
) -> Result<usize> {
    if let Some(doorbells) = known.find(|doorbells| doorbells.gpu == plan.gpu) {
        if !doorbells.are_there(manager) {
            doorbells.make(manager, plan, offset)?;
        }
        return Ok(doorbells.address);
    }
    let mut link = blank.take().ok_or(Error::NoMemory)?;
    let made = link.get_mut().make(manager, plan, offset);
    let address = link.get().address;
    if made.is_ok() {
        known.add(link);
    } else {
        *blank = Some(link);
    }
    made.map(|()| address)
}

/// Takes addresses beside the memory manager's and shows something there.
fn reserve(manager: &mut ContextManager, size: usize, align: usize, what: HostMap) -> Result<usize> {
    let bounds = Bounds::new(0, isize::MAX as usize);
    // SAFETY: it stays the driver, and only addresses that it gives here are touched.
    let driver = unsafe { manager.driver_mut() };
    let request = VaRequest { size, align, guard: 0, fixed: None, bounds };
    let address = driver.reserve(request).map_err(|_| Error::NoMemory)?;
    // SAFETY: reserved a line ago, and known to nothing.
    let shown = unsafe { driver.host_map(address, size, what) };
    if shown.is_err() {
        unreserve(manager, address, size);
    }
    shown.map(|()| address).map_err(|_| Error::NoMemory)
}

/// Gives back what [`reserve`] has taken, at its end.
fn unreserve(manager: &mut ContextManager, address: usize, size: usize) {
    // SAFETY: as in `reserve`.
    let driver = unsafe { manager.driver_mut() };
    // SAFETY: by `reserve` of this file, for this size; whoever calls gives up the only note of it. The queue that used it is
    // no more, and C code stops using a queue's memory before its end.
    unsafe { driver.release(address, size) };
}
