//! What a queue comes to on a node: which buffers it needs, and what the kernel is told of it.

use hsakmt_core::node::{GpuId, NodeId};
use hsakmt_kfd::topology::{Node, Topology};
use hsakmt_kfd::uapi::CreateQueueArgs;

use super::buffers::Buffers;
use super::sizes::{self, SaveArea};
use super::{MASK_WORDS, QueueRequest, QueueType};

/// The KFD interface's minor version that keeps shared virtual memory mapped for a queue.
const MINOR_ALWAYS_MAPPED: u32 = 11;

/// What a queue on a node comes to.
pub(super) struct Plan {
    pub(super) gpu: GpuId,
    pub(super) node: NodeId,
    /// Of the GPU, as in `sizes`.
    pub(super) version: u32,
    /// Bytes of the end-of-pipe buffer; 0 for none.
    pub(super) end_of_pipe: u32,
    pub(super) area: Option<SaveArea>,
    /// The CPU that the GPU hangs on.
    pub(super) cpu: Option<NodeId>,
    /// Whether the save area can be shared virtual memory.
    pub(super) always_mapped: bool,
}

impl Plan {
    pub(super) fn new(topology: &Topology, node: &Node, request: &QueueRequest, minor: u32) -> Plan {
        let version = node.engine_id.gfx_version();
        let saves = !matches!(request.kind, QueueType::Sdma | QueueType::SdmaXgmi);
        Plan {
            gpu: node.gpu(),
            node: request.node,
            version,
            end_of_pipe: sizes::end_of_pipe(version, request.kind),
            area: if saves { sizes::save_area(node, rustix::param::page_size()) } else { None },
            cpu: topology.direct_link_cpu(request.node),
            always_mapped: minor >= MINOR_ALWAYS_MAPPED,
        }
    }

    /// What the kernel is told.
    pub(super) fn arguments(&self, request: &QueueRequest, buffers: &Buffers, pointers: (u64, u64)) -> CreateQueueArgs {
        let (queue_type, sdma_engine_id) = request.kind.kernel();
        let area = self.area.filter(|_| buffers.save_area().is_some());
        CreateQueueArgs {
            ring_base_address: request.ring,
            ring_size: request.ring_size,
            write_pointer_address: pointers.0,
            read_pointer_address: pointers.1,
            gpu_id: self.gpu.0,
            queue_type,
            sdma_engine_id,
            queue_percentage: request.percentage,
            queue_priority: request.priority.0,
            eop_buffer_address: buffers.end_of_pipe() as u64,
            eop_buffer_size: u64::from(self.end_of_pipe),
            ctx_save_restore_address: buffers.save_area().map_or(0, |(area, _)| area as u64),
            ctx_save_restore_size: area.map_or(0, |area| area.piece),
            ctl_stack_size: area.map_or(0, |area| area.stack),
            ..CreateQueueArgs::default()
        }
    }
}

/// Every compute unit of a node: bits, in whole words, and the words.
pub(super) fn whole_mask(node: &Node) -> (u32, [u32; MASK_WORDS]) {
    let mut mask = [0; MASK_WORDS];
    let units = node.num_f_compute_cores.checked_div(node.num_simd_per_cu).unwrap_or(0);
    let units = units.min(MASK_WORDS as u32 * 32);
    for (word, first) in mask.iter_mut().zip((0..units).step_by(32)) {
        *word = u32::MAX.checked_shr(32u32.saturating_sub(units - first)).unwrap_or(0);
    }
    (units.next_multiple_of(32), mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_every_compute_unit_and_no_other() {
        let mask = |simds, per_unit| {
            let node = Node { num_f_compute_cores: simds, num_simd_per_cu: per_unit, ..Node::default() };
            let (bits, words) = whole_mask(&node);
            (bits, words.iter().map(|word| word.count_ones()).sum::<u32>(), words[0], words[3])
        };
        assert_eq!(mask(440, 4), (128, 110, u32::MAX, (1 << 14) - 1));
        assert_eq!(mask(128, 4), (32, 32, u32::MAX, 0));
        assert_eq!(mask(4, 4), (32, 1, 1, 0));
        assert_eq!(mask(4, 0), (0, 0, 0, 0));
        assert_eq!(mask(u32::MAX, 1), (1024, 1024, u32::MAX, u32::MAX));
    }
}
