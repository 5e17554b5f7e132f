//! A made-up device: two GPUs on a board without an operating system, each with a small table of buffers that are mapped
//! or not. What a driver must answer, and what it may refuse.
//!
//! In: the verbs of [`Driver`]. Out: what hardware would do; here it is only noted. Addresses come from the range that
//! the device says is the GPUs' ([`Device::WINDOW`]), which the memory manager hands out itself, so nothing is reserved
//! or shown to a host. What never happens: a buffer ended while a GPU has it mapped, two buffers on one address.

use heapless::Vec;
use hsakmt_core::address::Bounds;
use hsakmt_core::driver::{
    Bo, BoRequest, DmabufFd, DmabufInfo, Driver, Errno, Handle, HostMap, HostRange, IpcImport, Partial,
    ProcessApertures, SvmAttribute, VaRequest,
};
use hsakmt_core::flags::MemFlags;
use hsakmt_core::manager::{Gfx, NodeFacts};
use hsakmt_core::node::{GpuId, NodeId};

/// "Device or resource busy".
const BUSY: Errno = Errno(16);

/// Buffers that the hardware's table holds.
const BUFFERS: usize = if usize::BITS == 32 { 160 } else { 1000 };

/// One entry of the hardware's table.
struct Buffer {
    handle: u64,
    va: u64,
    size: u64,
    /// A bit per GPU.
    mapped: u8,
}

/// Both GPUs.
pub(crate) struct Device {
    buffers: Vec<Buffer, BUFFERS>,
    last: u64,
}

impl Device {
    /// What the GPUs are called.
    pub(crate) const GPUS: [GpuId; 2] = [GpuId(0x1001), GpuId(0x1002)];

    /// The addresses that both can reach: a quarter of what 32 bits address. Where there are more bits, set-up asks for
    /// at least 4 GiB.
    pub(crate) const WINDOW: Bounds =
        Bounds::new(0x8000_0000, if usize::BITS == 32 { 0xbfff_ffff } else { usize::MAX >> 30 });

    /// Nothing in the table.
    pub(crate) const fn new() -> Device {
        Device { buffers: Vec::new(), last: 0 }
    }

    /// Entries in the table.
    pub(crate) fn buffers(&self) -> usize {
        self.buffers.len()
    }

    fn buffer(&mut self, handle: Handle) -> Option<&mut Buffer> {
        self.buffers.iter_mut().find(|buffer| buffer.handle == handle.0)
    }

    fn switch(&mut self, handle: Handle, gpus: &[GpuId], on: bool) -> Result<(), Partial> {
        let refused = |done| Partial { errno: Errno::INVAL, done };
        let buffer = self.buffer(handle).ok_or(refused(0))?;
        for (done, gpu) in gpus.iter().enumerate() {
            let bit = Device::GPUS.iter().position(|known| known == gpu).map(|position| 1 << position);
            let bit = bit.filter(|bit| on || buffer.mapped & bit != 0).ok_or(refused(done))?;
            buffer.mapped = if on { buffer.mapped | bit } else { buffer.mapped & !bit };
        }
        Ok(())
    }
}

/// The board's topology: a CPU and two GPUs that reach each other.
pub(crate) const NODES: [NodeFacts<'static>; 3] = {
    const LINKS: &[NodeId] = &[NodeId(0), NodeId(1), NodeId(2)];
    const CPU: NodeFacts<'static> = NodeFacts {
        gpu_id: GpuId::NONE,
        cpu_cores: 1,
        simds: 0,
        gfx: Gfx { major: 0, minor: 0, stepping: 0 },
        device_id: 0,
        svm_api: false,
        links_to: LINKS,
    };
    const GPU: NodeFacts<'static> =
        NodeFacts { cpu_cores: 0, simds: 4, gfx: Gfx { major: 9, minor: 0, stepping: 0 }, ..CPU };
    let [first, second] = Device::GPUS;
    [CPU, NodeFacts { gpu_id: first, ..GPU }, NodeFacts { gpu_id: second, ..GPU }]
};

impl Driver for Device {
    fn reserve(&mut self, request: VaRequest) -> Result<usize, Errno> {
        // Asked once, at set-up: all of the window, which is the GPUs' alone.
        let start = request.fixed.ok_or(Errno::NOSYS)?;
        if Device::WINDOW.contains_range(start, request.size) { Ok(start) } else { Err(Errno::NOMEM) }
    }

    unsafe fn release(&mut self, _address: usize, _size: usize) {}

    unsafe fn host_map(&mut self, _address: usize, _size: usize, _what: HostMap) -> Result<(), Errno> {
        // The CPU sees device memory where it is. A board with a memory protection unit would open a region here.
        Ok(())
    }

    fn host_alloc(&mut self, _size: usize, _align: usize, _flags: MemFlags) -> Result<usize, Errno> {
        Err(Errno::NOSYS)
    }

    fn touch(&mut self, _range: HostRange<'_>) {}

    fn process_apertures(&mut self, out: &mut [ProcessApertures]) -> Result<usize, Errno> {
        for (slot, gpu) in out.iter_mut().zip(Device::GPUS) {
            *slot = ProcessApertures { gpu, lds: Bounds::EMPTY, scratch: Bounds::EMPTY, gpuvm: Device::WINDOW };
        }
        Ok(Device::GPUS.len())
    }

    fn acquire_vm(&mut self, _gpu: GpuId) -> Result<(), Errno> {
        Ok(())
    }

    fn set_memory_policy(&mut self, _gpu: GpuId, _coherent: bool, _alternate: Bounds) -> Result<(), Errno> {
        Ok(())
    }

    fn set_scratch_backing(&mut self, _gpu: GpuId, _address: u64) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    fn alloc(&mut self, request: BoRequest<'_>) -> Result<Bo, Errno> {
        let end = request.va + request.size;
        if self.buffers.iter().any(|buffer| request.va < buffer.va + buffer.size && buffer.va < end) {
            return Err(Errno::INVAL);
        }
        let handle = self.last + 1;
        let buffer = Buffer { handle, va: request.va, size: request.size, mapped: 0 };
        self.buffers.push(buffer).map_err(|_| Errno::NOMEM)?;
        self.last = handle;
        Ok(Bo { handle: Handle(handle), mmap_offset: 0 })
    }

    unsafe fn alloc_paged(&mut self, request: BoRequest<'_>) -> Result<Bo, Errno> {
        // Without pages of its own, host memory is where the device sees it.
        self.alloc(request)
    }

    fn free(&mut self, handle: Handle) -> Result<(), Errno> {
        let position = self.buffers.iter().position(|buffer| buffer.handle == handle.0).ok_or(Errno::INVAL)?;
        if self.buffers[position].mapped != 0 {
            return Err(BUSY);
        }
        self.buffers.swap_remove(position);
        Ok(())
    }

    fn map(&mut self, handle: Handle, gpus: &[GpuId]) -> Result<(), Partial> {
        self.switch(handle, gpus, true)
    }

    fn unmap(&mut self, handle: Handle, gpus: &[GpuId]) -> Result<(), Partial> {
        self.switch(handle, gpus, false)
    }

    // What this device does not do.

    fn svm_set(&mut self, _range: HostRange<'_>, _attributes: &[SvmAttribute]) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    fn svm_get(&mut self, _start: u64, _size: u64, _attributes: &mut [SvmAttribute]) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    fn dmabuf_info(&mut self, _fd: DmabufFd<'_>, _metadata: &mut [u8]) -> Result<DmabufInfo, (Errno, u32)> {
        Err((Errno::NOSYS, 0))
    }

    fn dmabuf_import(&mut self, _fd: DmabufFd<'_>, _gpu: GpuId, _va: u64) -> Result<Handle, Errno> {
        Err(Errno::NOSYS)
    }

    fn dmabuf_export(&mut self, _handle: Handle) -> Result<i32, Errno> {
        Err(Errno::NOSYS)
    }

    fn ipc_export(&mut self, _handle: Handle, _gpu: GpuId, _flags: MemFlags) -> Result<[u32; 4], Errno> {
        Err(Errno::NOSYS)
    }

    fn ipc_import(&mut self, _share: [u32; 4], _gpu: GpuId, _va: u64) -> Result<IpcImport, Errno> {
        Err(Errno::NOSYS)
    }
}
