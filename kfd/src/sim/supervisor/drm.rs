//! The DRM ioctls that libdrm asks of a render node before it believes in it (version, capabilities, device information,
//! registers), and those of buffers: create, close, metadata, export, import, map on the CPU and on the GPU.

use std::collections::HashMap;

use hsakmt_core::driver::Errno;
use hsakmt_core::flags::IocFlags;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::super::caller::Caller;
use super::super::description::Gpu;
use super::super::machine::{MemoryId, ProcessId, World};
use crate::uapi::from_caller;

const VERSION: u8 = 0x00;
const GEM_CLOSE: u8 = 0x09;
const GET_CAP: u8 = 0x0c;
const PRIME_HANDLE_TO_FD: u8 = 0x2d;
const PRIME_FD_TO_HANDLE: u8 = 0x2e;
const AMDGPU_GEM_CREATE: u8 = 0x40;
const AMDGPU_GEM_MMAP: u8 = 0x41;
const AMDGPU_INFO: u8 = 0x45;
const AMDGPU_GEM_METADATA: u8 = 0x46;
const AMDGPU_GEM_VA: u8 = 0x48;

const INFO_ACCEL_WORKING: u32 = 0x00;
const INFO_READ_MMR_REG: u32 = 0x15;
const INFO_DEV_INFO: u32 = 0x16;

const DOMAIN_GTT: u64 = 2;
const DOMAIN_VRAM: u64 = 4;

#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Version {
    major: i32,
    minor: i32,
    patch: i32,
    pad: i32,
    /// Length and address of name, date and description.
    texts: [[u64; 2]; 3],
}

#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Info {
    pointer: u64,
    size: u32,
    query: u32,
    detail: [u32; 4],
}

#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct GemCreate {
    /// In: bytes. Out: handle.
    size: u64,
    alignment: u64,
    domains: u64,
    flags: u64,
}

#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct PrimeHandle {
    handle: u32,
    flags: u32,
    fd: i32,
}

#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct GemVa {
    handle: u32,
    pad: u32,
    operation: u32,
    flags: u32,
    va: u64,
    offset: u64,
    size: u64,
}

const VA_MAP: u32 = 1;
const VA_UNMAP: u32 = 2;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct GemMetadata {
    handle: u32,
    operation: u32,
    flags: u64,
    tiling: u64,
    size: u32,
    data: [u32; 64],
    pad: u32,
}

/// Buffers made through render nodes: (process, GPU, GEM handle) -> memory.
#[derive(Debug, Default)]
pub(crate) struct Gems {
    list: HashMap<(u32, usize, u32), MemoryId>,
    last: u32,
}

impl Gems {
    /// A process ends.
    pub(crate) fn close(&mut self, process: u32, world: &mut World) {
        self.list.retain(|(owner, _, _), memory| {
            if *owner == process {
                world.drop_memory(*memory);
            }
            *owner != process
        });
    }

    /// Answers one DRM ioctl of a process (and what it is to KFD) on the node of the n-th GPU.
    pub(crate) fn ioctl(
        &mut self,
        world: &mut World,
        (process, kfd): (u32, Option<ProcessId>),
        gpu: usize,
        request: u32,
        argument: u64,
        caller: &mut dyn Caller,
    ) -> Result<i64, Errno> {
        if let Some(error) = world.faults.strike("drm") {
            return Err(error);
        }
        let (_, number, size) = crate::opcode::parts(request.into());
        let mut bytes = vec![0; size];
        caller.read(argument, &mut bytes)?;
        let key = |handle| (process, gpu, handle);
        match number {
            VERSION => change(&mut bytes, |version| fill_version(version, caller))?,
            GET_CAP => change(&mut bytes, |cap: &mut [u64; 2]| {
                // DRM_CAP_PRIME: import and export.
                cap[1] = if cap[0] == 5 { 3 } else { 0 };
                Ok(())
            })?,
            AMDGPU_INFO => change(&mut bytes, |info: &mut Info| {
                let gpu = world.machine().gpus.get(gpu).ok_or(Errno::INVAL)?;
                fill_info(info, gpu, caller)
            })?,
            AMDGPU_GEM_CREATE => change(&mut bytes, |create: &mut GemCreate| {
                let flags = match create.domains {
                    domains if domains & DOMAIN_VRAM != 0 => IocFlags::VRAM,
                    domains if domains & DOMAIN_GTT != 0 => IocFlags::GTT,
                    _ => return Err(Errno::INVAL),
                };
                let flags = flags | IocFlags::WRITABLE | IocFlags::EXECUTABLE;
                let size = create.size.checked_next_multiple_of(4096).filter(|size| *size > 0).ok_or(Errno::INVAL)?;
                let memory = world.new_memory(gpu, size, flags)?;
                self.last += 1;
                self.list.insert(key(self.last), memory);
                create.size = self.last.into();
                Ok(())
            })?,
            AMDGPU_GEM_MMAP => change(&mut bytes, |args: &mut [u64; 1]| {
                let memory = self.list.get(&key(args[0] as u32)).ok_or(Errno(libc::ENOENT))?;
                // The file of a node shows the memory of its own GPU.
                if world.gpu_of(*memory) != Some(gpu) {
                    return Err(Errno::INVAL);
                }
                args[0] = world.mmap_offset(*memory);
                Ok(())
            })?,
            AMDGPU_GEM_METADATA => change(&mut bytes, |args: &mut GemMetadata| {
                let memory = self.list.get(&key(args.handle)).ok_or(Errno(libc::ENOENT))?;
                exchange_metadata(world, *memory, args)
            })?,
            PRIME_HANDLE_TO_FD => change(&mut bytes, |args: &mut PrimeHandle| {
                let memory = self.list.get(&key(args.handle)).ok_or(Errno(libc::ENOENT))?;
                args.fd = world.open_dmabuf(*memory, caller)?;
                Ok(())
            })?,
            PRIME_FD_TO_HANDLE => change(&mut bytes, |args: &mut PrimeHandle| {
                let memory = world.hold_dmabuf(args.fd, caller)?;
                let known = self.list.iter().find(|((owner, on, _), it)| (*owner, *on, **it) == (process, gpu, memory));
                args.handle = match known {
                    Some(((_, _, handle), _)) => {
                        world.drop_memory(memory);
                        *handle
                    }
                    None => {
                        self.last += 1;
                        self.list.insert(key(self.last), memory);
                        self.last
                    }
                };
                Ok(())
            })?,
            AMDGPU_GEM_VA => change(&mut bytes, |args: &mut GemVa| {
                let memory = self.list.get(&key(args.handle)).ok_or(Errno(libc::ENOENT))?;
                let kfd = kfd.ok_or(Errno::INVAL)?;
                match args.operation {
                    VA_MAP => world.graphics_map(kfd, gpu, *memory, (args.va, args.offset, args.size)),
                    VA_UNMAP => world.graphics_unmap(kfd, gpu, args.va),
                    _ => Err(Errno::INVAL),
                }
            })?,
            GEM_CLOSE => change(&mut bytes, |args: &mut [u32; 2]| {
                let memory = self.list.remove(&key(args[0])).ok_or(Errno::INVAL)?;
                if let Some(kfd) = kfd {
                    world.graphics_forget(kfd, gpu, memory);
                }
                world.drop_memory(memory);
                Ok(())
            })?,
            _ => return Err(Errno::INVAL),
        }
        caller.write(argument, &bytes)?;
        Ok(0)
    }
}

fn change<T>(bytes: &mut [u8], answer: impl FnOnce(&mut T) -> Result<(), Errno>) -> Result<(), Errno>
where
    T: FromBytes + IntoBytes + Immutable,
{
    let mut args: T = from_caller(bytes);
    answer(&mut args)?;
    for (to, from) in bytes.iter_mut().zip(args.as_bytes()) {
        *to = *from;
    }
    Ok(())
}

fn fill_version(version: &mut Version, caller: &mut dyn Caller) -> Result<(), Errno> {
    (version.major, version.minor, version.patch) = (3, 57, 0);
    for ([length, address], text) in version.texts.iter_mut().zip(["amdgpu", "20150101", "AMD GPU"]) {
        let room = usize::try_from(*length).unwrap_or(usize::MAX).min(text.len());
        if *address != 0 && room > 0 {
            caller.write(*address, text.as_bytes().get(..room).unwrap_or(&[]))?;
        }
        *length = text.len() as u64;
    }
    Ok(())
}

/// Bytes of `struct drm_amdgpu_info_device` that are filled; a longer one is continued with zeros.
const DEVICE_INFO_BYTES: usize = 368;

fn fill_info(info: &Info, gpu: &Gpu, caller: &mut dyn Caller) -> Result<(), Errno> {
    let size = info.size as usize;
    let text = match info.query {
        INFO_ACCEL_WORKING => 1u32.to_ne_bytes().to_vec(),
        INFO_DEV_INFO => device_info(gpu),
        INFO_READ_MMR_REG => vec![0; size.min(4 * 128)],
        _ => return Err(Errno::INVAL),
    };
    caller.write(info.pointer, text.get(..size.min(text.len())).unwrap_or(&[]))
}

fn device_info(gpu: &Gpu) -> Vec<u8> {
    let mut bytes = vec![0u8; DEVICE_INFO_BYTES];
    let mut put = |offset: usize, value: &[u8]| {
        for (to, from) in bytes.iter_mut().skip(offset).zip(value) {
            *to = *from;
        }
    };
    // Offsets of device_id, chip_rev, external_rev, pci_rev, family, num_shader_engines, arrays per engine, counter
    // frequency; cu_active_number; pte_fragment_size, gart_page_size; vram_type, vram_bit_width, wave_front_size.
    for (offset, value) in [
        (0, gpu.device_id),
        (4, 1),
        (8, 0x3c),
        (12, gpu.revision),
        (16, gpu.family),
        (20, 8),
        (24, 1),
        (28, 100_000),
        (48, gpu.simds / gpu.simd_per_cu.max(1)),
        (160, 4096),
        (164, 0x20_0000),
        (168, 4096),
        (176, 9),
        (180, 4096),
        (240, gpu.wave_size),
    ] {
        put(offset, &value.to_ne_bytes());
    }
    // Clocks in kHz, flags (1: shares memory with the CPU), and where buffers may be placed.
    for (offset, value) in [
        (32, 1_700_000u64),
        (40, 1_600_000),
        (136, u64::from(gpu.apu)),
        (144, 0x20_0000),
        (152, 0x8000_0000_0000),
        (336, 0xffff_8000_0000_0000),
        (344, 0xffff_ffff_ffe0_0000),
    ] {
        put(offset, &value.to_ne_bytes());
    }
    bytes
}

fn exchange_metadata(world: &mut World, memory: MemoryId, args: &mut GemMetadata) -> Result<(), Errno> {
    const SET: u32 = 1;
    const GET: u32 = 2;
    match args.operation {
        SET => {
            let bytes = args.data.as_bytes().get(..args.size as usize).ok_or(Errno::INVAL)?;
            world.set_metadata(memory, bytes)
        }
        GET => {
            let metadata = world.metadata(memory).ok_or(Errno(libc::ENOENT))?;
            args.size = metadata.len() as u32;
            for (to, from) in args.data.as_mut_bytes().iter_mut().zip(metadata) {
                *to = *from;
            }
            Ok(())
        }
        _ => Err(Errno::INVAL),
    }
}
