//! A context's way to the kernel for calls that need no memory manager.
//!
//! In: an open context. Out: a counted reference to its device ([`Context::connection`]), taken under a lock that is held for
//! an instant: these calls wait neither for a verb of the memory manager nor for each other, and they may wait long. A close
//! in the meantime leaves the device open until the last of them returns. A forked child has none before it opens.

use std::sync::Arc;

use hsakmt_core::error::{Error, Result};
use hsakmt_core::node::{GpuId, NodeId};
use hsakmt_kfd::topology::Node;

use crate::backend::Services;
use crate::context::Context;
use crate::snapshots;
use crate::system::opened_snapshot;

/// An open channel.
pub(crate) struct Connection {
    device: Arc<dyn Services>,
    /// The minor version of the kernel driver's interface.
    pub(crate) kfd_minor: u32,
}

impl Connection {
    pub(crate) fn new(device: Arc<dyn Services>, kfd_minor: u32) -> Connection {
        Connection { device, kfd_minor }
    }

    /// The device.
    pub(crate) fn device(&self) -> &dyn Services {
        &*self.device
    }
}

impl Context {
    /// The open channel; [`Error::NotOpened`] while there is none in this process.
    pub(crate) fn connection(self) -> Result<Arc<Connection>> {
        if !self.is_open() {
            return Err(Error::NotOpened);
        }
        snapshots::with(|table| table.connection(self.index()))?.ok_or(Error::NotOpened)
    }

    /// The GPU of a node, [`GpuId::NONE`] for a CPU's; [`Error::InvalidNode`] without a topology snapshot.
    pub(crate) fn gpu_of(self, node: NodeId) -> Result<GpuId> {
        opened_snapshot(self)?.node(node).map(Node::gpu).ok_or(Error::InvalidNode)
    }
}
