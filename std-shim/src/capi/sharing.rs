//! Memory of others: dmabufs, other processes' buffers.

use core::ffi::c_void;
use core::ptr::with_exposed_provenance_mut;

use hsakmt_core::error::{Error, Result};
use hsakmt_core::manager::SharedHandle;
use hsakmt_core::node::NodeId;

use super::argument::{Address, In, Out, dmabuf};
use super::{convert, machine, opened, twins};
use crate::context::Context;
use crate::ctypes::*;

/// Bit of `HSA_REGISTER_MEM_FLAGS`: an address is wanted even without nodes.
const REQUIRES_ADDRESS: u32 = 1;

twins! {
    /// Names a buffer for other processes.
    fn hsaKmtShareMemory, hsaKmtShareMemoryCtx(
        context,
        MemoryAddress: Address,
        SizeInBytes: u64,
        SharedMemoryHandle: Out<HsaSharedMemoryHandle>,
    ) {
        let context = opened(context)?;
        let mut place = SharedMemoryHandle.required()?;
        place.set(context.share(MemoryAddress.0, SizeInBytes as usize)?.to_words());
        Ok(())
    }

    /// Takes another process's buffer over, registered to no nodes.
    fn hsaKmtRegisterSharedHandle, hsaKmtRegisterSharedHandleCtx(
        context,
        SharedMemoryHandle: In<HsaSharedMemoryHandle>,
        MemoryAddress: Out<*mut c_void>,
        SizeInBytes: Out<u64>,
    ) {
        import(opened(context)?, SharedMemoryHandle, MemoryAddress, SizeInBytes, None)
    }

    /// Takes another process's buffer over.
    fn hsaKmtRegisterSharedHandleToNodes, hsaKmtRegisterSharedHandleToNodesCtx(
        context,
        SharedMemoryHandle: In<HsaSharedMemoryHandle>,
        MemoryAddress: Out<*mut c_void>,
        SizeInBytes: Out<u64>,
        NumberOfNodes: u64,
        NodeArray: In<u32>,
    ) {
        let (_, known) = machine(context)?;
        if SharedMemoryHandle.is_missing() {
            return Err(Error::InvalidParameter);
        }
        let nodes = NodeArray.nodes(NumberOfNodes, known)?;
        // No array and no nodes: for none in particular. No array of some nodes: a list of none, which is refused.
        let nodes = (!NodeArray.is_missing() || NumberOfNodes != 0).then_some(nodes.as_slice());
        import(context, SharedMemoryHandle, MemoryAddress, SizeInBytes, nodes)
    }

    /// Takes a dmabuf over.
    fn hsaKmtRegisterGraphicsHandleToNodes, hsaKmtRegisterGraphicsHandleToNodesCtx(
        context,
        GraphicsResourceHandle: u64,
        GraphicsResourceInfo: Out<HsaGraphicsResourceInfo>,
        NumberOfNodes: u64,
        NodeArray: In<u32>,
    ) {
        graphics(context, GraphicsResourceHandle, GraphicsResourceInfo, NumberOfNodes, NodeArray, 0)
    }

    /// Takes a dmabuf over; a flag gives it an address even without nodes.
    fn hsaKmtRegisterGraphicsHandleToNodesExt, hsaKmtRegisterGraphicsHandleToNodesExtCtx(
        context,
        GraphicsResourceHandle: u64,
        GraphicsResourceInfo: Out<HsaGraphicsResourceInfo>,
        NumberOfNodes: u64,
        NodeArray: In<u32>,
        RegisterFlags: HsaRegisterMemFlags,
    ) {
        let flags = RegisterFlags.Value;
        graphics(context, GraphicsResourceHandle, GraphicsResourceInfo, NumberOfNodes, NodeArray, flags)
    }

    /// A dmabuf of the buffer that holds a range, and where in it the range lies.
    fn hsaKmtExportDMABufHandle, hsaKmtExportDMABufHandleCtx(
        context,
        MemoryAddress: Address,
        MemorySizeInBytes: u64,
        DMABufFd: Out<i32>,
        Offset: Out<u64>,
    ) {
        let context = opened(context)?;
        let (mut file, mut place) = (DMABufFd.required()?, Offset.required()?);
        let (fd, offset) = context.export_dmabuf(MemoryAddress.0, MemorySizeInBytes as usize)?;
        file.set(fd);
        place.set(offset);
        Ok(())
    }

    /// Unmaps from every GPU, as `hsaKmtUnmapMemoryToGPU`.
    fn hsaKmtUnmapGraphicHandle, hsaKmtUnmapGraphicHandleCtx(
        context,
        _NodeId: u32,
        FlatMemoryAddress: u64,
        _SizeInBytes: u64,
    ) {
        context.unmap(FlatMemoryAddress as usize)
    }
}

fn graphics(
    context: Context,
    file: u64,
    answer: Out<HsaGraphicsResourceInfo>,
    count: u64,
    list: In<u32>,
    flags: u32,
) -> Result<()> {
    let (_, known) = machine(context)?;
    let nodes = list.nodes(count, known)?;
    let mut place = answer.required()?;
    // A list of no nodes is an error; no list at all is none.
    let nodes = (!list.is_missing() || count != 0).then_some(nodes.as_slice());
    let taken = context.register_graphics(dmabuf(file), nodes, flags & REQUIRES_ADDRESS != 0)?;
    place.set(convert::graphics(&taken));
    Ok(())
}

fn import(
    context: Context,
    handle: In<HsaSharedMemoryHandle>,
    address: Out<*mut c_void>,
    size: Out<u64>,
    nodes: Option<&[NodeId]>,
) -> Result<()> {
    let handle = SharedHandle::from_words(handle.required()?);
    let (mut address, mut size) = (address.required()?, size.required()?);
    let (start, bytes) = context.import_shared(handle, nodes)?;
    address.set(with_exposed_provenance_mut(start));
    size.set(bytes as u64);
    Ok(())
}
