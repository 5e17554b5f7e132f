//! Who a GPU is: the topology's *node* id, and the kernel's *gpu id*. They never convert silently: [`crate::aperture::Layout`]
//! holds the table between them.

/// A node of the topology (CPU or GPU), counted from 0 as in `/sys/devices/virtual/kfd/kfd/topology/nodes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl core::fmt::Display for NodeId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.fmt(f)
    }
}

/// The kernel's name for a GPU in every ioctl. A CPU node has gpu id 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuId(pub u32);

impl GpuId {
    /// What a node without a GPU has.
    pub const NONE: GpuId = GpuId(0);
}
