//! Memory that leaves its process: dmabufs (file descriptors) and IPC names (four random words).
//!
//! A dmabuf holds its memory as long as a copy of the descriptor is open or mapped anywhere; an IPC name as long as a
//! buffer object that was exported by it, or imported through it, exists. Neither is ever a way into a memory that
//! was freed.

use std::hash::{BuildHasher, Hasher};

use hsakmt_core::driver::Errno;
use hsakmt_core::flags::IocFlags;

use super::memory::{Bo, MemoryId};
use super::{BADF, FAULT, PERM, Process, World};
use crate::sim::caller::Caller;
use crate::sim::memfd::{self, DeviceFile, Watch};
use crate::uapi::{ExportDmabufArgs, GetDmabufInfoArgs, ImportDmabufArgs, IpcExportHandleArgs, IpcImportHandleArgs};

/// What an IPC name stands for.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) memory: MemoryId,
    /// The exporter's flags.
    pub(crate) flags: u32,
    /// Buffer objects that carry the name.
    pub(crate) holders: usize,
}

impl World {
    pub(crate) fn dmabuf_info(&mut self, args: &mut GetDmabufInfoArgs, caller: &mut dyn Caller) -> Result<(), Errno> {
        if self.machine.gpus.is_empty() {
            return Err(Errno::INVAL);
        }
        let id = dmabuf(args.dmabuf_fd, caller)?;
        let memory = self.memories.get(&id).ok_or(BADF)?;
        let gpu = self.machine.gpus.get(memory.gpu).ok_or(Errno::INVAL)?;
        let room = args.metadata_size as usize;
        args.size = memory.size;
        args.metadata_size = memory.metadata.len() as u32;
        if args.metadata_ptr != 0 && room < memory.metadata.len() {
            return Err(Errno::INVAL);
        }
        args.gpu_id = gpu.gpu_id.0;
        args.flags = (memory.flags & (IocFlags::VRAM | IocFlags::GTT | IocFlags::PUBLIC)).bits();
        if args.metadata_ptr != 0 {
            caller.write(args.metadata_ptr, &memory.metadata).map_err(|_| FAULT)?;
        }
        Ok(())
    }

    pub(crate) fn dmabuf_import(
        &mut self,
        p: &mut Process,
        args: &mut ImportDmabufArgs,
        caller: &mut dyn Caller,
    ) -> Result<(), Errno> {
        // Kernels before dmabufs could be exported looked at the descriptor first.
        if self.machine.kfd_version < (1, 12) {
            dmabuf(args.dmabuf_fd, caller)?;
        }
        let gpu = self.gpu(args.gpu_id)?;
        let id = dmabuf(args.dmabuf_fd, caller)?;
        args.handle = self.take_over(p, gpu, id, args.va_addr, None)?;
        Ok(())
    }

    /// A buffer object of `p` on a memory that exists already.
    fn take_over(
        &mut self,
        p: &mut Process,
        gpu: usize,
        id: MemoryId,
        va: u64,
        ipc: Option<[u32; 4]>,
    ) -> Result<u64, Errno> {
        p.bound(gpu)?;
        // A device takes its own buffers only.
        let memory = self.memories.get_mut(&id).filter(|memory| memory.gpu == gpu).ok_or(Errno::INVAL)?;
        memory.holders += 1;
        let size = memory.size;
        let handle = p.new_handle(self.machine.gpus.get(gpu).ok_or(Errno::INVAL)?.gpu_id);
        p.bos.insert(handle, Bo { memory: id, va, size, offset: 0, user_address: None, mapped: 0, ipc });
        Ok(handle)
    }

    pub(crate) fn dmabuf_export(
        &mut self,
        p: &mut Process,
        args: &mut ExportDmabufArgs,
        caller: &mut dyn Caller,
    ) -> Result<(), Errno> {
        self.gpu((args.handle >> 32) as u32)?;
        let id = exportable(p, args.handle)?;
        args.dmabuf_fd = self.open_dmabuf(id, caller)? as u32;
        Ok(())
    }

    /// A new descriptor for a memory, in the caller.
    pub(crate) fn open_dmabuf(&mut self, id: MemoryId, caller: &mut dyn Caller) -> Result<i32, Errno> {
        let nonce = self.nonce();
        let memory = self.memories.get_mut(&id).ok_or(Errno::INVAL)?;
        memory.watches.retain(Watch::alive);
        let failed = |error: rustix::io::Errno| Errno(error.raw_os_error());
        let file = memfd::create(nonce, DeviceFile::Dmabuf(id.0), memory.size).map_err(failed)?;
        memory.watches.push(Watch::new(&file).map_err(failed)?);
        caller.install(file)
    }

    pub(crate) fn ipc_export(&mut self, p: &mut Process, args: &mut IpcExportHandleArgs) -> Result<(), Errno> {
        let gpu = self.gpu(args.gpu_id)?;
        p.bound(gpu)?;
        if self.gpu((args.handle >> 32) as u32)? != gpu {
            return Err(Errno::INVAL);
        }
        let id = exportable(p, args.handle)?;
        let bo = p.bos.get_mut(&args.handle).ok_or(Errno::INVAL)?;
        let share = match bo.ipc {
            Some(share) => share,
            None => {
                let share = self.random_name();
                self.ipc.insert(share, Name { memory: id, flags: args.flags, holders: 1 });
                self.memories.get_mut(&id).ok_or(Errno::INVAL)?.holders += 1;
                bo.ipc = Some(share);
                share
            }
        };
        args.share_handle = share;
        Ok(())
    }

    pub(crate) fn ipc_import(&mut self, p: &mut Process, args: &mut IpcImportHandleArgs) -> Result<(), Errno> {
        let gpu = self.gpu(args.gpu_id)?;
        let share = args.share_handle;
        let name = self.ipc.get_mut(&share).ok_or(Errno::INVAL)?;
        let (memory, flags) = (name.memory, name.flags);
        name.holders += 1;
        match self.take_over(p, gpu, memory, args.va_addr, Some(share)) {
            Ok(handle) => {
                args.handle = handle;
                args.mmap_offset = self.mmap_offset(memory);
                args.flags = flags;
                Ok(())
            }
            Err(error) => {
                if let Some(name) = self.ipc.get_mut(&share) {
                    name.holders -= 1;
                }
                Err(error)
            }
        }
    }

    /// Four words nobody can guess.
    fn random_name(&self) -> [u32; 4] {
        let word = |salt: u64| {
            let mut hasher = self.random.build_hasher();
            hasher.write_u64(salt);
            hasher.write_u64(self.ipc.len() as u64);
            hasher.write_u128(self.uptime().as_nanos());
            hasher.finish()
        };
        let (low, high) = (word(1), word(2));
        [low as u32, (low >> 32) as u32, high as u32, (high >> 32) as u32]
    }
}

/// The memory behind a descriptor.
pub(super) fn dmabuf(fd: u32, caller: &mut dyn Caller) -> Result<MemoryId, Errno> {
    match caller.file(fd as i32) {
        Some(DeviceFile::Dmabuf(memory)) => Ok(MemoryId(memory)),
        None if !caller.is_open(fd as i32) => Err(BADF),
        Some(_) | None => Err(Errno::INVAL),
    }
}

/// The memory behind a handle, if it may leave the process: a process's own pages may not.
fn exportable(p: &Process, handle: u64) -> Result<MemoryId, Errno> {
    let bo = p.bos.get(&handle).ok_or(Errno::INVAL)?;
    if bo.user_address.is_some() { Err(PERM) } else { Ok(bo.memory) }
}

impl World {
    /// Attaches what a graphics driver would: a program reads it back through its dmabuf.
    pub fn set_metadata(&mut self, memory: MemoryId, metadata: &[u8]) -> Result<(), Errno> {
        self.memories.get_mut(&memory).ok_or(Errno(libc::ENOENT))?.metadata = metadata.to_vec();
        Ok(())
    }

    /// What was attached.
    pub fn metadata(&self, memory: MemoryId) -> Option<&[u8]> {
        self.memories.get(&memory).map(|memory| memory.metadata.as_slice())
    }
}
