//! The ioctls that carry arrays: GPU ids, apertures, tile configurations, SVM attributes.
//!
//! Short arrays live on the stack, long ones in a mapping of their own ([`Scratch`]): no call allocates from the heap while
//! the memory manager holds its lock, and none needs a large stack.

use hsakmt_core::address::Bounds;
use hsakmt_core::aperture::MAX_NODES;
use hsakmt_core::driver::{Errno, HostRange, Partial, ProcessApertures, SvmAttribute as Attribute};
use hsakmt_core::node::GpuId;
use zerocopy::{FromBytes, IntoBytes};

use super::scratch::Scratch;
use super::{Arrays, Device, Transport, restart_ioctl};
use crate::opcode::{self, Command, MAX_SVM_ATTRIBUTES};
use crate::uapi::*;

/// GPU ids per ioctl. A longer list is several calls, which is the same to the kernel: it goes through a list in order.
const IDS: usize = 64;

/// Hands a list of GPUs to `call` in pieces, and adds up how many were done.
pub(super) fn by_gpus(
    gpus: &[GpuId],
    mut call: impl FnMut(&Arrays<'_>, u32) -> Result<(), (Errno, u32)>,
) -> Result<(), Partial> {
    let mut done = 0;
    loop {
        let rest = gpus.get(done..).unwrap_or_default();
        let piece = rest.get(..IDS).unwrap_or(rest);
        let mut ids = [0; IDS];
        for (id, gpu) in ids.iter_mut().zip(piece) {
            *id = gpu.0;
        }
        let listed = ids.get(..piece.len()).unwrap_or_default();
        if let Err((errno, more)) = call(&Arrays::read(listed), piece.len() as u32) {
            return Err(Partial { errno, done: done + (more as usize).min(piece.len()) });
        }
        done += piece.len();
        if done >= gpus.len() {
            return Ok(());
        }
    }
}

/// Asks how many GPUs there are before it asks for their ranges: newer kernels answer EINVAL to a caller with more room
/// than the topology has nodes. As the C library does, it takes the older ioctl's answer where the newer one fails.
pub(super) fn process_apertures<T: Transport>(
    device: &Device<T>,
    out: &mut [ProcessApertures],
) -> Result<usize, Errno> {
    read_apertures(device, out).or_else(|errno| read_old_apertures(device, out).map_err(|_| errno))
}

fn read_apertures<T: Transport>(device: &Device<T>, out: &mut [ProcessApertures]) -> Result<usize, Errno> {
    let count = ask_apertures(device, &mut [])?;
    // No machine has more nodes.
    let wanted = count.min(out.len()).min(MAX_NODES);
    if wanted == 0 {
        return Ok(count);
    }
    let mut room = Scratch::<ProcessDeviceApertures>::zeroed(wanted)?;
    let room = &mut *room;
    let filled = ask_apertures(device, room)?;
    copy_apertures(out, room.iter().take(filled));
    Ok(if filled < wanted { filled } else { count })
}

/// The ranges of the first seven GPUs, from the ioctl that has its array in the struct.
fn read_old_apertures<T: Transport>(device: &Device<T>, out: &mut [ProcessApertures]) -> Result<usize, Errno> {
    // SAFETY: the kernel fills the struct.
    let args: GetProcessAperturesArgs = unsafe { device.get::<{ opcode::GET_PROCESS_APERTURES }, _>() }?;
    let filled = (args.num_of_nodes as usize).min(args.process_apertures.len());
    copy_apertures(out, args.process_apertures.iter().take(filled));
    Ok(filled)
}

fn copy_apertures<'a>(out: &mut [ProcessApertures], from: impl Iterator<Item = &'a ProcessDeviceApertures>) {
    for (to, from) in out.iter_mut().zip(from) {
        *to = ProcessApertures {
            gpu: GpuId(from.gpu_id),
            lds: bounds(from.lds_base, from.lds_limit),
            scratch: bounds(from.scratch_base, from.scratch_limit),
            gpuvm: bounds(from.gpuvm_base, from.gpuvm_limit),
        };
    }
}

/// With room, fills it and says how much; without, says how many GPUs there are.
fn ask_apertures<T: Transport>(device: &Device<T>, room: &mut [ProcessDeviceApertures]) -> Result<usize, Errno> {
    let num_of_nodes = u32::try_from(room.len()).unwrap_or(u32::MAX);
    let none = room.is_empty();
    let room = Arrays::written(room);
    let mut args = GetProcessAperturesNewArgs {
        kfd_process_device_apertures_ptr: if none { 0 } else { room.first() },
        num_of_nodes,
        pad: 0,
    };
    // SAFETY: the kernel writes at most `num_of_nodes` structs, which the array has.
    unsafe { device.update_with::<{ opcode::GET_PROCESS_APERTURES_NEW }, _>(&mut args, &room) }?;
    Ok(args.num_of_nodes as usize)
}

/// A range as the kernel gives it; what is no range, or lies above `usize::MAX`, is empty.
fn bounds(base: u64, limit: u64) -> Bounds {
    match (usize::try_from(base), usize::try_from(limit)) {
        (Ok(base), Ok(limit)) if base < limit => Bounds::new(base, limit),
        _ => Bounds::EMPTY,
    }
}

/// How textures are tiled, as far as it is no array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TileConfig {
    /// How many tile configurations were filled in.
    pub tiles: usize,
    /// How many macro tile configurations were filled in.
    pub macro_tiles: usize,
    /// `GB_ADDR_CONFIG`
    pub gb_addr_config: u32,
    /// Memory banks.
    pub banks: u32,
    /// Memory ranks.
    pub ranks: u32,
}

impl<T: Transport> Device<T> {
    /// How textures are tiled on a GPU: fills both arrays from the front.
    #[doc(alias = "AMDKFD_IOC_GET_TILE_CONFIG")]
    pub fn tile_config(&self, gpu: GpuId, tiles: &mut [u32], macro_tiles: &mut [u32]) -> Result<TileConfig, Errno> {
        let (room, macro_room) = (tiles.len(), macro_tiles.len());
        let arrays = Arrays::both_written(tiles, macro_tiles);
        let mut args = GetTileConfigArgs {
            tile_config_ptr: arrays.first(),
            macro_tile_config_ptr: arrays.second(),
            num_tile_configs: u32::try_from(room).unwrap_or(u32::MAX),
            num_macro_tile_configs: u32::try_from(macro_room).unwrap_or(u32::MAX),
            gpu_id: gpu.0,
            ..Default::default()
        };
        // SAFETY: the kernel writes at most as many words as told, which the arrays have.
        unsafe { self.update_with::<{ opcode::GET_TILE_CONFIG }, _>(&mut args, &arrays) }?;
        Ok(TileConfig {
            tiles: (args.num_tile_configs as usize).min(room),
            macro_tiles: (args.num_macro_tile_configs as usize).min(macro_room),
            gb_addr_config: args.gb_addr_config,
            banks: args.num_banks,
            ranks: args.num_ranks,
        })
    }

    /// Sets attributes of a range of shared virtual memory; `EINVAL` for more than a request can carry.
    #[doc(alias = "AMDKFD_IOC_SVM")]
    pub fn svm_set(&self, range: HostRange<'_>, attributes: &[Attribute]) -> Result<(), Errno> {
        let (start, size) = (range.address() as u64, range.size() as u64);
        with_words(attributes.len(), |words| {
            self.svm(KFD_IOCTL_SVM_OP_SET_ATTR, start, size, attributes, words).map(|_| ())
        })
    }

    /// Reads attributes of a range of shared virtual memory. The kernel replaces each value; of an attribute that asks
    /// for access it replaces the type.
    #[doc(alias = "AMDKFD_IOC_SVM")]
    pub fn svm_get(&self, start: u64, size: u64, attributes: &mut [Attribute]) -> Result<(), Errno> {
        with_words(attributes.len(), |words| {
            let answer = self.svm(KFD_IOCTL_SVM_OP_GET_ATTR, start, size, attributes, words)?;
            for (to, from) in attributes.iter_mut().zip(answer) {
                *to = Attribute { kind: from.kind, value: from.value };
            }
            Ok(())
        })
    }

    /// The call, with its struct and the attributes behind it in `words`, which has room for both. The attributes as the
    /// kernel left them.
    fn svm<'w>(
        &self,
        op: u32,
        start: u64,
        size: u64,
        attributes: &[Attribute],
        words: &'w mut [u64],
    ) -> Result<&'w [SvmAttribute], Errno> {
        let bytes = size_of::<SvmArgs>() + size_of_val(attributes);
        let request = Command::Svm.request_with_size(bytes).ok_or(Errno::INVAL)?;
        let call = words.as_mut_bytes().get_mut(..bytes).ok_or(Errno::INVAL)?;
        let (header, room) = call.split_at_mut_checked(size_of::<SvmArgs>()).ok_or(Errno::INVAL)?;
        let args = SvmArgs { start_addr: start, size, op, nattr: attributes.len() as u32, attrs: [] };
        args.write_to(header).map_err(|_| Errno::INVAL)?;
        let room = <[SvmAttribute]>::mut_from_bytes(room).map_err(|_| Errno::INVAL)?;
        for (to, from) in room.iter_mut().zip(attributes) {
            *to = SvmAttribute { kind: from.kind, value: from.value };
        }
        // SAFETY: the kernel reads and writes as many bytes as the request says, which `call` has. What GPUs may use from now
        // on is of a `HostRange` (`svm_set`), or nothing more (`svm_get`).
        restart_ioctl(Command::Svm, || unsafe { self.transport.update_sized(request, call) })?;
        let answer = call.get(size_of::<SvmArgs>()..).unwrap_or_default();
        <[SvmAttribute]>::ref_from_bytes(answer).map_err(|_| Errno::INVAL)
    }
}

/// Room for the SVM ioctl with `attributes`: on the stack if they are few.
fn with_words<T>(attributes: usize, call: impl FnOnce(&mut [u64]) -> Result<T, Errno>) -> Result<T, Errno> {
    match attributes {
        0..=FEW_ATTRIBUTES => call(&mut [0; SVM_HEADER + FEW_ATTRIBUTES]),
        len if len <= MAX_SVM_ATTRIBUTES => call(&mut Scratch::zeroed(SVM_HEADER + len)?),
        _ => Err(Errno::INVAL),
    }
}

/// Attributes of a call that are kept on the stack: more than registering needs.
const FEW_ATTRIBUTES: usize = 32;

/// The SVM ioctl's struct in words.
const SVM_HEADER: usize = size_of::<SvmArgs>() / size_of::<u64>();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_of_gpus_go_in_pieces_and_add_up() {
        let gpus: Vec<GpuId> = (0..150).map(GpuId).collect();
        let mut seen = Vec::new();
        let ids = |listed: &Arrays<'_>, count: u32| {
            let mut ids = vec![0u32; count as usize];
            listed.copy_from(listed.first(), ids.as_mut_bytes()).unwrap();
            ids
        };
        let all = by_gpus(&gpus, |listed, count| {
            seen.extend(ids(listed, count));
            Ok(())
        });
        assert_eq!(all, Ok(()));
        assert_eq!(seen, (0..150).collect::<Vec<u32>>());

        let second = |listed: &Arrays<'_>| ids(listed, 1) == [64];
        let stopped = by_gpus(&gpus, |listed, _| if second(listed) { Err((Errno::INVAL, 5)) } else { Ok(()) });
        assert_eq!(stopped, Err(Partial { errno: Errno::INVAL, done: 69 }));
        let lying = by_gpus(&gpus[..3], |_, _| Err((Errno::INVAL, 1000)));
        assert_eq!(lying, Err(Partial { errno: Errno::INVAL, done: 3 }));

        let mut calls = 0;
        let none = by_gpus(&[], |_, count| {
            calls += 1;
            if count == 0 { Err((Errno::INVAL, 0)) } else { Ok(()) }
        });
        assert_eq!((none, calls), (Err(Partial { errno: Errno::INVAL, done: 0 }), 1));
    }

    #[test]
    fn what_is_no_range_is_empty() {
        assert_eq!(bounds(0, 0), Bounds::EMPTY);
        assert_eq!(bounds(2, 1), Bounds::EMPTY);
        assert_eq!(bounds(0, 9), Bounds::new(0, 9));
    }

    #[test]
    fn attributes_stand_right_behind_the_struct() {
        assert_eq!(SVM_HEADER * size_of::<u64>(), size_of::<SvmArgs>());
        assert_eq!(size_of::<SvmAttribute>(), size_of::<u64>());
        assert!((SVM_HEADER + MAX_SVM_ATTRIBUTES) * size_of::<u64>() <= opcode::MAX_SIZE);
    }
}
