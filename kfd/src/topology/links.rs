//! Links that an older kernel does not report: from GPU to GPU, and between a GPU and a CPU it does not hang on, by
//! way of the CPUs between them.
//!
//! The weight is the sum of the direct links on the way. The type is that of the link that carries the traffic between
//! CPUs, or of the last one to the far end. A node that has as many links as there are other nodes gets one only to a node
//! that it has none to: C counts links there, so that several to one node push another node out.

use super::{IoLink, MemoryBank, Node};

const PCI_EXPRESS: u32 = 2;
const QPI: u32 = 5;
const XGMI: u32 = 11;

/// A link heavier than this goes through another node, or to another socket.
const DIRECT: u32 = 20;

/// Adds the indirect links to every pair of nodes.
pub(super) fn add_indirect(nodes: &mut [Node]) {
    let count = nodes.len() as u32;
    for first in 0..count {
        for second in first + 1..count {
            for (from, to) in [(first, second), (second, first)] {
                let Some((link_type, weight)) = indirect(nodes, from, to) else { continue };
                let Some(node) = nodes.get_mut(from as usize) else { continue };
                // As in C: a node without any direct link may still get indirect ones, and where there is room a second one.
                let room = (node.links.len() as u32) < count - 1;
                if room || node.links.iter().all(|link| link.node_to != to) {
                    node.links.push(IoLink { link_type, node_from: from, node_to: to, weight, ..IoLink::default() });
                }
            }
        }
    }
}

/// The CPU that a GPU hangs on directly.
pub(super) fn direct_cpu(nodes: &[Node], gpu_node: u32) -> Option<u32> {
    let node = nodes.get(gpu_node as usize).filter(|node| node.gpu_id != 0)?;
    let to_cpu = |link: &&IoLink| {
        let target = nodes.get(link.node_to as usize);
        matches!(link.link_type, PCI_EXPRESS | XGMI)
            && link.weight <= DIRECT
            && target.is_some_and(|target| target.gpu_id == 0)
    };
    node.links.iter().find(to_cpu).map(|link| link.node_to)
}

/// Weight and type of the link from one node to another.
fn direct(nodes: &[Node], from: u32, to: u32) -> Option<(u32, u32)> {
    let links = &nodes.get(from as usize)?.links;
    links.iter().find(|link| link.node_to == to).map(|link| (link.weight, link.link_type))
}

/// Type and weight of the indirect link from one node to another, if there should be one.
fn indirect(nodes: &[Node], from: u32, to: u32) -> Option<(u32, u32)> {
    let (source, target) = (nodes.get(from as usize)?, nodes.get(to as usize)?);
    let both_cpus = source.gpu_id == 0 && target.gpu_id == 0;
    let same_hive = source.hive_id != 0 && source.hive_id == target.hive_id;
    if from == to || both_cpus || same_hive {
        return None;
    }
    // A GPU whose VRAM the host does not see is no target.
    let visible = || target.memory.iter().any(|bank| bank.heap_type == MemoryBank::PUBLIC);
    if target.gpu_id != 0 && !visible() {
        return None;
    }
    let (weight, link_type) = match (direct_cpu(nodes, from), direct_cpu(nodes, to)) {
        (None, None) => return None,
        (Some(near), Some(far)) if near == far => {
            let ((first, _), (second, link_type)) = (direct(nodes, from, near)?, direct(nodes, near, to)?);
            (first.checked_add(second)?, link_type)
        }
        (Some(near), Some(far)) => {
            let (first, _) = direct(nodes, from, near)?;
            let (second, link_type) = direct(nodes, near, far)?;
            // GPUs on different sockets cannot reach each other over QPI.
            if link_type == QPI && second > DIRECT {
                return None;
            }
            let (third, _) = direct(nodes, far, to)?;
            (first.checked_add(second)?.checked_add(third)?, link_type)
        }
        (Some(near), None) => {
            let ((first, _), (second, link_type)) = (direct(nodes, from, near)?, direct(nodes, near, to)?);
            (first.checked_add(second)?, link_type)
        }
        (None, Some(far)) => {
            let ((second, link_type), (third, _)) = (direct(nodes, from, far)?, direct(nodes, far, to)?);
            (second.checked_add(third)?, link_type)
        }
    };
    (weight != 0).then_some((link_type, weight))
}
