//! The demo's objects: one of every kind, made, mapped and registered through the library's own calls.
//!
//! In: an open channel with a GPU. Out: [`Objects`], each with a name and the address to ask about. What the machine
//! does not have (a second GPU, VRAM that the host sees) is left out and said. Dropped, all objects end.

use std::sync::atomic::AtomicU8;

use hsakmt::Context;
use hsakmt_core::driver::HostRange;
use hsakmt_core::error::Error;
use hsakmt_core::flags::MemFlags;
use hsakmt_core::node::NodeId;
use hsakmt_kfd::topology::MemoryBank;

use super::channel::Channel;
use super::failure::Failure;

const PAGE: usize = 4096;

/// `HSA_HEAPTYPE_FRAME_BUFFER_PRIVATE`: VRAM that the host does not see.
const PRIVATE: u32 = 2;

/// Host memory that ranges are registered in.
const HOST_PAGES: usize = 16;

/// Something to ask about.
pub(super) struct Object {
    pub(super) name: &'static str,
    /// Its first byte, as the CPU names it.
    pub(super) start: usize,
    /// Bytes, if it is a registered range; an allocation is asked for its size.
    pub(super) registered: Option<usize>,
}

/// All of them.
pub(super) struct Objects {
    context: Context,
    pub(super) list: Vec<Object>,
    /// What was left out, and why.
    pub(super) left_out: Vec<String>,
    /// Freed again, so that nothing is there.
    pub(super) freed: usize,
    /// What GPUs may change. It stays to the end of the program.
    host: &'static [AtomicU8],
}

impl Objects {
    /// Makes them.
    pub(super) fn make(channel: &Channel) -> Result<Objects, Failure> {
        let gpus: Vec<NodeId> = channel.gpus().map(|(node, _)| node).collect();
        let &[gpu, ..] = gpus.as_slice() else {
            return Err(Failure::Incomplete("this machine has no GPU node, so there is nothing to allocate".into()));
        };
        let host: &[AtomicU8] = Vec::leak((0..(HOST_PAGES + 1) * PAGE).map(|_| AtomicU8::new(1)).collect());
        let mut objects = Objects { context: channel.context, list: Vec::new(), left_out: Vec::new(), freed: 0, host };
        objects.device_memory(channel, gpu)?;
        objects.host_memory(channel, gpu)?;
        objects.host_ranges(&gpus)?;
        objects.free_one(gpu)?;
        Ok(objects)
    }

    fn device_memory(&mut self, channel: &Channel, gpu: NodeId) -> Result<(), Failure> {
        let vram = MemFlags::NON_PAGED | MemFlags::COARSE_GRAIN;
        let has = |heaps: &[u32]| {
            let node = channel.topology.node(gpu);
            node.is_some_and(|node| node.memory.iter().any(|bank| heaps.contains(&bank.heap_type)))
        };
        if !has(&[MemoryBank::PUBLIC, PRIVATE]) {
            self.left_out.push("VRAM: this GPU has none of its own".into());
            return Ok(());
        }
        self.allocate("VRAM", gpu, 16 * PAGE, vram)?;
        if has(&[MemoryBank::PUBLIC]) {
            let start = self.allocate_unmapped("host-visible VRAM", gpu, 4 * PAGE, vram | MemFlags::HOST_ACCESS)?;
            let mapped = self.context.map_nodes(start, 4 * PAGE, &[gpu]);
            mapped.map_err(|error| Failure::call("hsaKmtMapMemoryToGPUNodes of host-visible VRAM", error))?;
            let noted = self.context.set_user_data(start, 0xfeed);
            noted.map_err(|error| Failure::call("hsaKmtSetMemoryUserData of host-visible VRAM", error))?;
        } else {
            self.left_out.push("host-visible VRAM: this GPU shows the host none (its PCI BAR is small)".into());
        }
        Ok(())
    }

    /// Made and freed last: what is made later could take its addresses.
    fn free_one(&mut self, gpu: NodeId) -> Result<(), Failure> {
        let made = self.context.allocate(gpu, 4 * PAGE, MemFlags::HOST_ACCESS);
        self.freed = made.map_err(|error| Failure::call("hsaKmtAllocMemory of paged memory", error))?;
        self.context.free(self.freed).map_err(|error| Failure::call("hsaKmtFreeMemory of paged memory", error))
    }

    fn host_memory(&mut self, channel: &Channel, gpu: NodeId) -> Result<(), Failure> {
        let cpu = NodeId(0);
        let mut gtt = MemFlags::NON_PAGED | MemFlags::HOST_ACCESS;
        // An APU's node is a GPU too: there only this flag says that host memory is meant.
        gtt.set(MemFlags::GTT_ACCESS, channel.topology.node(cpu).is_some_and(|node| node.gpu_id != 0));
        self.allocate("GTT", cpu, 8 * PAGE, gtt)?;
        self.allocate("paged", cpu, 8 * PAGE, MemFlags::HOST_ACCESS)?;
        let ring = gtt | MemFlags::EXECUTE_ACCESS | MemFlags::AQL_QUEUE_MEMORY;
        self.allocate("AQL ring", cpu, 4 * PAGE, ring)?;
        self.allocate_unmapped("reserved address", gpu, 512 * PAGE, MemFlags::ONLY_ADDRESS)?;
        Ok(())
    }

    fn host_ranges(&mut self, gpus: &[NodeId]) -> Result<(), Failure> {
        self.register("userptr, unaligned", self.range(0xff0, 0x20))?;
        self.register("userptr, outer", self.range(4 * PAGE + 0x800, 2 * PAGE))?;
        self.register("userptr, nested", self.range(5 * PAGE + 0x100, 0x400))?;
        let range = self.range(10 * PAGE, 2 * PAGE);
        match self.context.register_to_nodes(range, gpus) {
            Ok(()) => self.show_range("userptr, to nodes", range),
            Err(Error::NotSupported) => {
                self.left_out.push("userptr, to nodes: needs a GPU with memory of its own".into());
                Ok(())
            }
            Err(error) => Err(Failure::call("hsaKmtRegisterMemoryToNodes", error)),
        }
    }

    /// A piece of the host memory, counted from its first whole page.
    fn range(&self, skip: usize, size: usize) -> HostRange<'static> {
        let first = self.host.as_ptr().addr().wrapping_neg() % PAGE;
        HostRange::of_atomics(self.host.get(first + skip..first + skip + size).unwrap_or_default())
    }

    fn allocate(&mut self, name: &'static str, node: NodeId, size: usize, flags: MemFlags) -> Result<(), Failure> {
        let start = self.allocate_unmapped(name, node, size, flags)?;
        let mapped = self.context.map(start, size);
        mapped.map(|_| ()).map_err(|error| Failure::call(format!("hsaKmtMapMemoryToGPU of {name}"), error))
    }

    fn allocate_unmapped(
        &mut self,
        name: &'static str,
        node: NodeId,
        size: usize,
        flags: MemFlags,
    ) -> Result<usize, Failure> {
        let made = self.context.allocate(node, size, flags);
        let start = made.map_err(|error| Failure::call(format!("hsaKmtAllocMemory of {name}"), error))?;
        self.list.push(Object { name, start, registered: None });
        Ok(start)
    }

    fn register(&mut self, name: &'static str, range: HostRange<'static>) -> Result<(), Failure> {
        let registered = self.context.register(range);
        registered.map_err(|error| Failure::call(format!("hsaKmtRegisterMemory of {name}"), error))?;
        self.show_range(name, range)
    }

    /// Notes a registered range, and maps it.
    fn show_range(&mut self, name: &'static str, range: HostRange<'static>) -> Result<(), Failure> {
        self.list.push(Object { name, start: range.address(), registered: Some(range.size()) });
        let mapped = self.context.map_range(range);
        mapped.map(|_| ()).map_err(|error| Failure::call(format!("hsaKmtMapMemoryToGPU of {name}"), error))
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        for object in self.list.drain(..).rev() {
            // What the library will not end ends with the channel.
            let _ = self.context.unmap(object.start);
            let _ = match object.registered {
                Some(_) => self.context.deregister(object.start),
                None => self.context.free(object.start),
            };
        }
    }
}
