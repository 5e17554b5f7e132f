//! Objects: allocate, register, map, and end them. What each verb does is the core's `manager`; here are only its
//! arguments.

use core::ffi::c_void;
use core::ptr::{null_mut, with_exposed_provenance_mut};

use hsakmt_core::error::{Error, Result};
use hsakmt_core::flags::MemFlags;
use hsakmt_core::node::NodeId;

use super::argument::{Address, In, InOut, Out};
use super::{machine, opened, twins};
use crate::context::Context;
use crate::ctypes::*;

twins! {
    /// Makes memory.
    fn hsaKmtAllocMemory, hsaKmtAllocMemoryCtx(
        context,
        PreferredNode: u32,
        SizeInBytes: u64,
        MemFlags: HsaMemFlags,
        MemoryAddress: InOut<*mut c_void>,
    ) {
        allocate(context, NodeId(PreferredNode), SizeInBytes, 0, MemFlags, MemoryAddress)
    }

    /// Makes memory at a multiple of `Alignment`.
    fn hsaKmtAllocMemoryAlign, hsaKmtAllocMemoryAlignCtx(
        context,
        PreferredNode: u32,
        SizeInBytes: u64,
        Alignment: u64,
        MemFlags: HsaMemFlags,
        MemoryAddress: InOut<*mut c_void>,
    ) {
        allocate(context, NodeId(PreferredNode), SizeInBytes, Alignment, MemFlags, MemoryAddress)
    }

    /// Ends what an allocation made. The size is the object's, whatever the caller says.
    fn hsaKmtFreeMemory, hsaKmtFreeMemoryCtx(context, MemoryAddress: Address, _SizeInBytes: u64) {
        context.free(MemoryAddress.0)
    }

    /// Registers host memory for all GPUs.
    fn hsaKmtRegisterMemory, hsaKmtRegisterMemoryCtx(context, MemoryAddress: Address, MemorySizeInBytes: u64) {
        context.register(MemoryAddress.range(MemorySizeInBytes))
    }

    /// Registers host memory for these nodes. Without a dGPU nobody looks at the list.
    fn hsaKmtRegisterMemoryToNodes, hsaKmtRegisterMemoryToNodesCtx(
        context,
        MemoryAddress: Address,
        MemorySizeInBytes: u64,
        NumberOfNodes: u64,
        NodeArray: In<u32>,
    ) {
        let (true, known) = machine(context)? else { return Err(Error::NotSupported) };
        let nodes = NodeArray.nodes(NumberOfNodes, known)?;
        context.register_to_nodes(MemoryAddress.range(MemorySizeInBytes), &nodes)
    }

    /// Registers host memory with the coherence that the flags ask for.
    fn hsaKmtRegisterMemoryWithFlags, hsaKmtRegisterMemoryWithFlagsCtx(
        context,
        MemoryAddress: Address,
        MemorySizeInBytes: u64,
        MemFlags: HsaMemFlags,
    ) {
        let flags = MemFlags::from_bits_retain(MemFlags.Value);
        context.register_with_flags(MemoryAddress.range(MemorySizeInBytes), flags)
    }

    /// Ends one registration.
    fn hsaKmtDeregisterMemory, hsaKmtDeregisterMemoryCtx(context, MemoryAddress: Address) {
        context.deregister(MemoryAddress.0)
    }

    /// Maps on all GPUs that the object is meant for.
    fn hsaKmtMapMemoryToGPU, hsaKmtMapMemoryToGPUCtx(
        context,
        MemoryAddress: Address,
        MemorySizeInBytes: u64,
        AlternateVAGPU: Out<u64>,
    ) {
        let context = opened(context)?;
        let mut other = AlternateVAGPU.optional().filter(|_| MemoryAddress.0 != 0);
        other.iter_mut().for_each(|place| place.set(0));
        let address = context.map_range(MemoryAddress.range(MemorySizeInBytes))?;
        other.iter_mut().zip(address).for_each(|(place, address)| place.set(address));
        Ok(())
    }

    /// Maps on these nodes and on no other. The map flags are ignored, as in the original.
    fn hsaKmtMapMemoryToGPUNodes, hsaKmtMapMemoryToGPUNodesCtx(
        context,
        MemoryAddress: Address,
        MemorySizeInBytes: u64,
        AlternateVAGPU: Out<u64>,
        _MemMapFlags: HsaMemMapFlags,
        NumberOfNodes: u64,
        NodeArray: In<u32>,
    ) {
        let (dgpu, known) = machine(context)?;
        if MemoryAddress.0 == 0 {
            return Err(Error::Failed);
        }
        let mut other = AlternateVAGPU.optional();
        let address = if NumberOfNodes == 1 && !dgpu {
            // This is MapMemoryToGPU: nobody looks at the list.
            other.iter_mut().for_each(|place| place.set(0));
            context.map_range(MemoryAddress.range(MemorySizeInBytes))?
        } else {
            let nodes = NodeArray.nodes(NumberOfNodes, known)?;
            context.map_range_nodes(MemoryAddress.range(MemorySizeInBytes), &nodes)?
        };
        other.iter_mut().zip(address).for_each(|(place, address)| place.set(address));
        Ok(())
    }

    /// Unmaps from every GPU.
    fn hsaKmtUnmapMemoryToGPU, hsaKmtUnmapMemoryToGPUCtx(context, MemoryAddress: Address) {
        context.unmap(MemoryAddress.0)
    }
}

/// The address is set to null as soon as the arguments have passed, and again when making fails; a fixed address only
/// then.
fn allocate(
    context: Context,
    node: NodeId,
    size: u64,
    alignment: u64,
    flags: HsaMemFlags,
    address: InOut<*mut c_void>,
) -> Result<()> {
    let (size, alignment, flags) = (size as usize, alignment as usize, MemFlags::from_bits_retain(flags.Value));
    opened(context)?.manage(|manager| {
        let at = address.get().map(|at| at.addr());
        manager.check_allocation(node, size, alignment, flags, at)?;
        let mut place = address.out().required()?;
        if !flags.contains(MemFlags::FIXED_ADDRESS) {
            place.set(null_mut());
        }
        let made = manager.allocate(node, size, alignment, flags, at.unwrap_or(0));
        place.set(made.map_or(null_mut(), with_exposed_provenance_mut));
        made.map(|_| ())
    })
}
