//! The memory banks of a node: the memory that the kernel reports, and the address ranges of its GPU.
//!
//! In: a node of the topology and the address ranges that the memory manager has set up. Out: the banks in the order
//! of the C interface. The node's own properties tell how many there are, and count the ranges by rule (three, and one
//! more where there is an MMIO page), not by what is listed: so does the original, and callers size their arrays by it.

use hsakmt_core::address::Bounds;
use hsakmt_core::error::Result;
use hsakmt_core::manager::Range;
use hsakmt_kfd::topology::{MemoryBank, Node};

use crate::context::Context;

/// `HSA_HEAPTYPE_FRAME_BUFFER_PRIVATE`
const HEAP_PRIVATE: u32 = 2;
/// `HSA_HEAPTYPE_GPU_LDS`
const HEAP_LDS: u32 = 4;
/// `HSA_HEAPTYPE_GPU_SCRATCH`
const HEAP_SCRATCH: u32 = 5;
/// `HSA_HEAPTYPE_DEVICE_SVM`
const HEAP_SVM: u32 = 6;
/// `HSA_HEAPTYPE_MMIO_REMAP`
const HEAP_MMIO: u32 = 7;

/// gfx 7.0.0, the one APU whose graphics memory is listed as an address range.
const KAVERI: u32 = 0x0007_0000;

/// Ranges counted for every GPU.
const RANGES: usize = 3;

/// A bank, and where its addresses begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bank {
    /// What it is.
    pub memory: MemoryBank,
    /// Its first address; 0 for memory without an address of its own.
    pub base: usize,
}

impl Context {
    /// How many banks `node` says it has.
    pub fn bank_count(self, node: &Node) -> Result<usize> {
        self.manage(|manager| Ok(count(node, |which| manager.range(node.gpu(), which))))
    }

    /// The banks of `node`.
    #[doc(alias = "hsaKmtGetNodeMemoryProperties")]
    pub fn banks(self, node: &Node) -> Result<Vec<Bank>> {
        let gpu = node.gpu();
        self.manage(|manager| Ok(list(node, manager.svm_needed(gpu), |which| manager.range(gpu, which))))
    }
}

/// How many banks `node` says it has.
fn count(node: &Node, range: impl Fn(Range) -> Option<Bounds>) -> usize {
    let ranges = if node.gpu_id == 0 { 0 } else { RANGES + usize::from(range(Range::Mmio).is_some()) };
    node.memory.len() + ranges
}

/// The banks of `node`. `in_svm` says whether its GPU's memory lies in shared virtual memory.
fn list(node: &Node, in_svm: bool, range: impl Fn(Range) -> Option<Bounds>) -> Vec<Bank> {
    let mut banks: Vec<Bank> = node.memory.iter().map(|&memory| Bank { memory, base: 0 }).collect();
    if node.gpu_id == 0 {
        return banks;
    }
    let mut add = |heap_type, which, size: Option<u64>| {
        if let Some(bounds) = range(which) {
            let size_in_bytes = size.unwrap_or(((bounds.limit - bounds.base) as u64).saturating_add(1));
            let memory = MemoryBank { heap_type, size_in_bytes, ..MemoryBank::default() };
            banks.push(Bank { memory, base: bounds.base });
        }
    };
    add(HEAP_LDS, Range::Lds, Some(u64::from(node.lds_size_in_kb) * 1024));
    if node.engine_id.gfx_version() == KAVERI && node.local_mem_size > 0 {
        add(HEAP_PRIVATE, Range::Gpuvm, Some(node.local_mem_size));
    }
    add(HEAP_SCRATCH, Range::Scratch, None);
    if in_svm {
        add(HEAP_SVM, Range::Svm, None);
    }
    add(HEAP_MMIO, Range::Mmio, None);
    banks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(which: Range) -> Option<Bounds> {
        match which {
            Range::Lds => Some(Bounds::new(1 << 48, (1 << 48) + 0xffff_ffff)),
            Range::Scratch => Some(Bounds::new(2 << 48, (2 << 48) + 0xffff_ffff)),
            Range::Svm => Some(Bounds::new(0x100_0000, (1 << 47) - 1)),
            Range::Gpuvm => None,
            Range::Mmio => Some(Bounds::new(0x7000_0000, 0x7000_0fff)),
        }
    }

    #[test]
    fn a_gpu_lists_its_memory_and_then_its_ranges() {
        let vram = MemoryBank { heap_type: MemoryBank::PUBLIC, size_in_bytes: 1 << 36, ..MemoryBank::default() };
        let gpu = Node { gpu_id: 7, lds_size_in_kb: 64, memory: vec![vram], ..Node::default() };
        let banks = list(&gpu, true, ranges);
        let heaps: Vec<u32> = banks.iter().map(|bank| bank.memory.heap_type).collect();
        assert_eq!(heaps, [1, HEAP_LDS, HEAP_SCRATCH, HEAP_SVM, HEAP_MMIO]);
        assert_eq!(banks[1].memory.size_in_bytes, 65536);
        assert_eq!((banks[3].memory.size_in_bytes, banks[3].base), (0x7fff_ff00_0000, 0x100_0000));
        assert_eq!(count(&gpu, ranges), 5);
        assert_eq!(list(&gpu, false, |_| None).len(), 1);
        assert_eq!(count(&gpu, |_| None), 4);
    }

    #[test]
    fn a_cpu_lists_its_memory_only() {
        let cpu = Node { memory: vec![MemoryBank::default()], ..Node::default() };
        assert_eq!(list(&cpu, true, ranges).len(), 1);
        assert_eq!(count(&cpu, ranges), 1);
    }
}
