//! What a process maps through its render nodes: the same address spaces, other names than KFD's handles.
//!
//! ROCr's virtual memory and its newer IPC do so. A mapping has a buffer object of its own, whose handle no KFD call takes.

use hsakmt_core::driver::Errno;
use hsakmt_core::node::GpuId;

use super::memory::{Bo, MemoryId};
use super::share::dmabuf;
use super::{ProcessId, World};
use crate::sim::caller::Caller;

/// What the handles of such mappings begin with: no GPU has this id.
const GRAPHICS: u64 = 1 << 63;

impl World {
    /// One more holder for the memory behind a dmabuf: which.
    pub(crate) fn hold_dmabuf(&mut self, fd: i32, caller: &mut dyn Caller) -> Result<MemoryId, Errno> {
        let id = dmabuf(fd as u32, caller)?;
        self.memories.get_mut(&id).ok_or(Errno::INVAL)?.holders += 1;
        Ok(id)
    }

    /// The GPU that a memory belongs to.
    pub(crate) fn gpu_of(&self, id: MemoryId) -> Option<usize> {
        self.memories.get(&id).map(|memory| memory.gpu)
    }

    /// Maps a part of a memory on a GPU: `size` bytes from `offset`, at `va`.
    pub(crate) fn graphics_map(
        &mut self,
        process: ProcessId,
        gpu: usize,
        id: MemoryId,
        (va, offset, size): (u64, u64, u64),
    ) -> Result<(), Errno> {
        let p = self.processes.get_mut(&process).ok_or(Errno::INVAL)?;
        let memory = self.memories.get_mut(&id).ok_or(Errno(libc::ENOENT))?;
        let inside = offset.checked_add(size).is_some_and(|end| end <= memory.size);
        let last = va.checked_add(size).and_then(|end| end.checked_sub(1)).ok_or(Errno::INVAL)?;
        if !inside || size == 0 || va == 0 {
            return Err(Errno::INVAL);
        }
        let handle = GRAPHICS | p.new_handle(GpuId(0));
        p.bound(gpu)?.space.insert(va, last, handle)?;
        memory.holders += 1;
        p.bos.insert(handle, Bo { memory: id, va, size, offset, user_address: None, mapped: 1 << gpu, ipc: None });
        Ok(())
    }

    /// Ends what [`World::graphics_map`] has mapped at `va`.
    pub(crate) fn graphics_unmap(&mut self, process: ProcessId, gpu: usize, va: u64) -> Result<(), Errno> {
        let p = self.processes.get_mut(&process).ok_or(Errno::INVAL)?;
        let on = p.gpus.get_mut(gpu).ok_or(Errno::INVAL)?;
        let found = on.space.find(va).filter(|(first, _, handle)| *first == va && handle & GRAPHICS != 0);
        let (_, _, handle) = found.ok_or(Errno::INVAL)?;
        on.space.remove(va);
        if let Some(bo) = p.bos.remove(&handle) {
            self.drop_bo(bo);
        }
        Ok(())
    }

    /// Ends every such mapping of a memory on a GPU: its name on the render node is gone.
    pub(crate) fn graphics_forget(&mut self, process: ProcessId, gpu: usize, id: MemoryId) {
        let Some(p) = self.processes.get(&process) else { return };
        let own =
            p.bos.iter().filter(|(handle, bo)| **handle & GRAPHICS != 0 && bo.memory == id && bo.mapped == 1 << gpu);
        for va in own.map(|(_, bo)| bo.va).collect::<Vec<u64>>() {
            let _ = self.graphics_unmap(process, gpu, va);
        }
    }
}
