//! What machine this is: [`Topology`], a snapshot of everything HSA says about nodes, read from sysfs.
//!
//! ```text
//! /sys/devices/virtual/kfd/kfd/topology  nodes, memory banks, GPU caches, links   read.rs, text.rs
//! /dev/dri/renderD<minor>                may this process use the GPU; family, revision, integrated
//! /sys/devices/system/{node,cpu}         caches of CPU nodes, NUMA nodes          cpu.rs
//! /proc/cpuinfo                          name of the CPU, APIC ids                cpu.rs
//! /usr/share/libdrm/amdgpu.ids           marketing name of a GPU                  names.rs
//! ```
//! How files are read, and how much of them: files.rs.
//!
//! Node ids here count the nodes this process may use, in the kernel's order. A GPU whose render node is missing or
//! forbidden (a container sees some GPUs only) is left out, its links too, so that ids here can be smaller than the
//! kernel's ([`Node::sysfs_id`]). Older kernels report direct links only; then the links GPU-CPU-GPU are computed
//! (links.rs).
//!
//! Not here: the memory banks that a GPU node has besides those of the kernel - LDS, scratch, the SVM aperture, the
//! MMIO page. They follow from the apertures of this process, so whoever answers `GetNodeMemoryProperties` adds them.
//!
//! Reading takes a moment and the kernel may change the topology meanwhile: the generation is read before and after,
//! and the whole is read again until both agree.

use hsakmt_core::manager::{Gfx, NodeFacts};
use hsakmt_core::node::{GpuId, NodeId};
use serde::{Deserialize, Serialize};

use crate::device::RenderNode;

mod cpu;
mod files;
mod links;
mod names;
mod read;
mod text;

#[cfg(test)]
mod tests;

pub use cpu::numa_nodes;
pub use names::vgpr_size_per_cu;
pub use read::{AskGpu, GpuFacts, Sources, TopologyError};
pub use text::{Properties, SyntaxError};

/// Where the kernel shows the topology.
pub const PATH: &str = "/sys/devices/virtual/kfd/kfd/topology";

/// The machine as of one generation. A node's id is its index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[doc(alias = "HsaSystemProperties")]
pub struct Topology {
    /// The kernel's count of changes.
    pub generation: u32,
    /// `PlatformOem`
    pub platform_oem: u32,
    /// `PlatformId`
    pub platform_id: u32,
    /// `PlatformRev`
    pub platform_rev: u32,
    /// Nodes the kernel has, those left out included: as many aperture entries it may report.
    pub sysfs_nodes: u32,
    /// The nodes this process may use.
    pub nodes: Vec<Node>,
}

/// One node: a CPU, a GPU, or an APU's both. Fields are named after those of `HsaNodeProperties`; what is counted there
/// (banks, caches, links) is the length of a list here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[doc(alias = "HsaNodeProperties")]
#[allow(missing_docs, reason = "HsaNodeProperties' own names")]
pub struct Node {
    /// The kernel's id of this node.
    pub sysfs_id: u32,
    /// `KFDGpuID`; 0 for a CPU.
    pub gpu_id: u32,
    pub num_cpu_cores: u32,
    /// SIMDs.
    pub num_f_compute_cores: u32,
    /// APIC id of the first core.
    pub c_compute_id_lo: u32,
    pub f_compute_id_lo: u32,
    pub capability: u32,
    pub capability2: u32,
    pub debug_properties: u64,
    pub max_waves_per_simd: u32,
    pub lds_size_in_kb: u32,
    pub gds_size_in_kb: u32,
    pub wave_front_size: u32,
    pub num_shader_banks: u32,
    pub num_arrays: u32,
    pub num_cu_per_array: u32,
    pub num_simd_per_cu: u32,
    pub max_slots_scratch_cu: u32,
    pub engine_id: EngineId,
    /// All zero unless `HSA_OVERRIDE_GFX_VERSION` says otherwise.
    pub override_engine_id: EngineId,
    pub vendor_id: u16,
    pub device_id: u16,
    pub location_id: u32,
    pub local_mem_size: u64,
    pub max_engine_clock_mhz_f_compute: u32,
    pub max_engine_clock_mhz_c_compute: u32,
    pub drm_render_minor: u32,
    pub marketing_name: String,
    pub amd_name: String,
    /// `uCodeEngineVersions.uCodeSDMA`, 10 bits.
    pub u_code_sdma: u16,
    pub hive_id: u64,
    pub num_sdma_engines: u32,
    pub num_sdma_xgmi_engines: u32,
    pub num_sdma_queues_per_engine: u8,
    pub num_cp_queues: u8,
    pub num_gws: u8,
    /// Shares the CPU's memory.
    pub integrated: bool,
    pub domain: u32,
    pub unique_id: u64,
    pub vgpr_size_per_cu: u32,
    pub sgpr_size_per_cu: u32,
    pub num_xcc: u32,
    pub family_id: u32,
    pub memory: Vec<MemoryBank>,
    pub caches: Vec<Cache>,
    pub links: Vec<IoLink>,
}

/// `HSA_ENGINE_ID`: which GPU architecture, and its microcode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[doc(alias = "HSA_ENGINE_ID")]
pub struct EngineId {
    /// Microcode version, 10 bits.
    pub u_code: u16,
    /// Major, 6 bits.
    pub major: u8,
    /// Minor.
    pub minor: u8,
    /// Stepping.
    pub stepping: u8,
}

impl EngineId {
    /// As one word: the union's `Value`.
    pub const fn value(self) -> u32 {
        (self.u_code as u32 & 0x3ff)
            | (self.major as u32 & 0x3f) << 10
            | (self.minor as u32) << 16
            | (self.stepping as u32) << 24
    }

    /// `major << 16 | minor << 8 | stepping`: 0x09000a is gfx90a.
    pub const fn gfx_version(self) -> u32 {
        (self.major as u32) << 16 | (self.minor as u32) << 8 | self.stepping as u32
    }
}

/// A memory bank that the kernel reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[doc(alias = "HsaMemoryProperties")]
pub struct MemoryBank {
    /// `HSA_HEAPTYPE`: 0 system, 1 VRAM the host sees, 2 VRAM it does not.
    pub heap_type: u32,
    /// Bytes.
    pub size_in_bytes: u64,
    /// Bit 0 hot-pluggable, bit 1 non-volatile.
    pub flags: u32,
    /// Bits of the bus.
    pub width: u32,
    /// MHz.
    pub memory_clock_max: u32,
}

impl MemoryBank {
    /// `HSA_HEAPTYPE_FRAME_BUFFER_PUBLIC`
    pub const PUBLIC: u32 = 1;
}

/// A cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[doc(alias = "HsaCacheProperties")]
pub struct Cache {
    /// The first processor that has it.
    pub processor_id_low: u32,
    /// 1 is nearest.
    pub level: u32,
    /// KiB for a GPU's, bytes for a CPU's.
    pub size: u32,
    /// Bytes.
    pub line_size: u32,
    /// Lines per tag.
    pub lines_per_tag: u32,
    /// Ways.
    pub associativity: u32,
    /// Nanoseconds; 0 for a CPU's.
    pub latency: u32,
    /// Bit 0 data, 1 instructions, 2 a CPU's, 3 a GPU's.
    pub cache_type: u32,
    /// One word per processor; short of trailing zeros, at most [`Cache::SIBLINGS`].
    pub sibling_map: Vec<u32>,
}

impl Cache {
    /// `HSA_CPU_SIBLINGS`
    pub const SIBLINGS: usize = 256;
    const DATA: u32 = 1;
    const INSTRUCTION: u32 = 2;
    const CPU: u32 = 4;
}

/// A way from this node to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[doc(alias = "HsaIoLinkProperties")]
pub struct IoLink {
    /// `HSA_IOLINKTYPE`: 2 PCI Express, 5 QPI, 11 XGMI.
    pub link_type: u32,
    /// Version.
    pub version_major: u32,
    /// Version.
    pub version_minor: u32,
    /// From this node.
    pub node_from: u32,
    /// To this one.
    pub node_to: u32,
    /// Distance, as in the ACPI SLIT.
    pub weight: u32,
    /// Nanoseconds.
    pub minimum_latency: u32,
    /// Nanoseconds.
    pub maximum_latency: u32,
    /// MB/s.
    pub minimum_bandwidth: u32,
    /// MB/s.
    pub maximum_bandwidth: u32,
    /// Bytes.
    pub rec_transfer_size: u32,
    /// Which SDMA engines are best.
    pub rec_sdma_eng_id_mask: u32,
    /// Bit 0 override, 1 non-coherent, 2 no 32-bit atomics, 3 no 64-bit atomics, 4 no peer-to-peer DMA.
    pub flags: u32,
}

/// Bit of [`Node::capability`]: the SVM ioctl works.
pub const CAPABILITY_SVM_API: u32 = 1 << 27;

impl Node {
    /// The GPU's id; [`GpuId::NONE`] for a CPU.
    pub fn gpu(&self) -> GpuId {
        GpuId(self.gpu_id)
    }

    /// Whether it has no CPU cores but SIMDs.
    pub fn is_discrete(&self) -> bool {
        self.num_cpu_cores == 0 && self.num_f_compute_cores != 0
    }

    /// Whether the SVM ioctl works on it.
    pub fn svm_api(&self) -> bool {
        self.capability & CAPABILITY_SVM_API != 0
    }

    /// The node as if its version were the one in [`Node::override_engine_id`], unless that is all zero.
    ///
    /// This is what libhsakmt reported before 2025. The registers per compute unit follow the version; so does the AMD
    /// name of a GPU that is named after its version.
    pub fn with_override(&self) -> Node {
        let mut node = self.clone();
        if self.override_engine_id == EngineId::default() {
            return node;
        }
        node.engine_id = EngineId { u_code: self.engine_id.u_code, ..self.override_engine_id };
        node.vgpr_size_per_cu = names::vgpr_size_per_cu(node.engine_id.gfx_version());
        if node.amd_name == names::version_name(self.engine_id) {
            node.amd_name = names::version_name(node.engine_id);
        }
        node
    }

    /// The nodes it has a link to, in order.
    pub fn link_targets(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.links.iter().map(|link| NodeId(link.node_to))
    }
}

impl Topology {
    /// Reads the machine this runs on. `svm_api` false takes the SVM ioctl away from every node (`HSA_USE_SVM=0`).
    pub fn read_host(svm_api: bool) -> Result<Topology, TopologyError> {
        Topology::read(&Sources::host(svm_api))
    }

    /// Looks at the machine this runs on as [`Topology::check`] does.
    pub fn check_host(svm_api: bool) -> Result<(), TopologyError> {
        let open = |minor| RenderNode::open(minor).map(|_| None);
        Topology::check(&Sources { gpu: &open, ..Sources::host(svm_api) })
    }

    /// What the memory manager's set-up wants to know of each node.
    pub fn with_facts<T>(&self, set_up: impl FnOnce(&[NodeFacts<'_>]) -> T) -> T {
        let links: Vec<Vec<NodeId>> = self.nodes.iter().map(|node| node.link_targets().collect()).collect();
        let facts = self.nodes.iter().zip(&links).map(|(node, links_to)| NodeFacts {
            gpu_id: node.gpu(),
            cpu_cores: node.num_cpu_cores,
            simds: node.num_f_compute_cores,
            gfx: Gfx { major: node.engine_id.major, minor: node.engine_id.minor, stepping: node.engine_id.stepping },
            device_id: u32::from(node.device_id),
            svm_api: node.svm_api(),
            links_to,
        });
        set_up(&facts.collect::<Vec<_>>())
    }

    /// The node with this id.
    pub fn node(&self, node: NodeId) -> Option<&Node> {
        self.nodes.get(usize::try_from(node.0).ok()?)
    }

    /// The node of a GPU; with [`GpuId::NONE`] the first node without one.
    pub fn node_of(&self, gpu: GpuId) -> Option<NodeId> {
        self.nodes.iter().position(|node| node.gpu_id == gpu.0).map(|index| NodeId(index as u32))
    }

    /// Whether some node is a discrete GPU: then all memory is managed as for discrete GPUs.
    pub fn has_discrete_gpu(&self) -> bool {
        self.nodes.iter().any(Node::is_discrete)
    }

    /// Whether every GPU has the SVM ioctl.
    pub fn svm_api(&self) -> bool {
        self.nodes.iter().filter(|node| node.gpu_id != 0).all(Node::svm_api)
    }

    /// The CPU that a GPU hangs on.
    pub fn direct_link_cpu(&self, gpu_node: NodeId) -> Option<NodeId> {
        links::direct_cpu(&self.nodes, gpu_node.0).map(NodeId)
    }
}
