//! Memory of others: dmabufs, other processes' buffers.

use core::ffi::c_void;
use core::ptr::with_exposed_provenance_mut;

use hsakmt_core::error::Result;
use hsakmt_core::manager::SharedHandle;
use hsakmt_core::node::NodeId;

use super::argument::{Address, In, Out};
use super::{convert, entry, opened};
use crate::context::Context;
use crate::ctypes::*;

entry! {
    /// Names a buffer for other processes.
    fn hsaKmtShareMemory(MemoryAddress: Address, SizeInBytes: u64, SharedMemoryHandle: Out<HsaSharedMemoryHandle>) {
        let context = opened()?;
        let mut place = SharedMemoryHandle.required()?;
        place.set(context.share(MemoryAddress.0, SizeInBytes as usize)?.to_words());
        Ok(())
    }

    /// Takes another process's buffer over, registered to no nodes.
    fn hsaKmtRegisterSharedHandle(
        SharedMemoryHandle: In<HsaSharedMemoryHandle>,
        MemoryAddress: Out<*mut c_void>,
        SizeInBytes: Out<u64>,
    ) {
        import(opened()?, SharedMemoryHandle, MemoryAddress, SizeInBytes, None)
    }

    /// Takes another process's buffer over.
    fn hsaKmtRegisterSharedHandleToNodes(
        SharedMemoryHandle: In<HsaSharedMemoryHandle>,
        MemoryAddress: Out<*mut c_void>,
        SizeInBytes: Out<u64>,
        NumberOfNodes: u64,
        NodeArray: In<u32>,
    ) {
        let context = opened()?;
        let nodes = NodeArray.nodes(NumberOfNodes)?;
        let nodes = (!NodeArray.is_missing()).then_some(nodes.as_slice());
        import(context, SharedMemoryHandle, MemoryAddress, SizeInBytes, nodes)
    }

    /// Takes a dmabuf over.
    fn hsaKmtRegisterGraphicsHandleToNodes(
        GraphicsResourceHandle: u64,
        GraphicsResourceInfo: Out<HsaGraphicsResourceInfo>,
        NumberOfNodes: u64,
        NodeArray: In<u32>,
    ) {
        let context = opened()?;
        let nodes = NodeArray.nodes(NumberOfNodes)?;
        let mut place = GraphicsResourceInfo.required()?;
        // A list of no nodes is an error; no list at all is none.
        let nodes = (!NodeArray.is_missing() || NumberOfNodes != 0).then_some(nodes.as_slice());
        place.set(convert::graphics(&context.register_graphics(GraphicsResourceHandle as i32, nodes, false)?));
        Ok(())
    }

    /// A dmabuf of the buffer that holds a range, and where in it the range lies.
    fn hsaKmtExportDMABufHandle(
        MemoryAddress: Address,
        MemorySizeInBytes: u64,
        DMABufFd: Out<i32>,
        Offset: Out<u64>,
    ) {
        let context = opened()?;
        let (mut file, mut place) = (DMABufFd.required()?, Offset.required()?);
        let (fd, offset) = context.export_dmabuf(MemoryAddress.0, MemorySizeInBytes as usize)?;
        file.set(fd);
        place.set(offset);
        Ok(())
    }

    /// Unmaps from every GPU, as `hsaKmtUnmapMemoryToGPU`.
    fn hsaKmtUnmapGraphicHandle(_NodeId: u32, FlatMemoryAddress: u64, _SizeInBytes: u64) {
        Context::primary().unmap(FlatMemoryAddress as usize)
    }
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
