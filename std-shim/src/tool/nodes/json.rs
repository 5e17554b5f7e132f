//! `hsakmt nodes --json`: an array of nodes, each with the fields of the C structs by their C names, in their order.

use hsakmt_core::node::NodeId;
use hsakmt_kfd::topology::{Cache, EngineId, IoLink, Node};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::super::channel::Channel;
use super::super::failure::Failure;
use super::super::output;
use super::{Bank, banks_of, gfx};

/// All nodes.
pub(super) fn text(channel: &Channel) -> Result<String, Failure> {
    let nodes: Result<Vec<OneNode<'_>>, Failure> =
        channel.nodes().map(|(id, node)| Ok(OneNode { id, node, banks: banks_of(channel, node)? })).collect();
    output::json(&nodes?)
}

/// Writes a map's entries in the order they are said.
macro_rules! entries {
    ($to:expr, $($name:ident: $value:expr,)*) => {{
        let mut map = $to.serialize_map(None)?;
        $(map.serialize_entry(stringify!($name), &$value)?;)*
        map.end()
    }};
}

/// `HsaNodeProperties`, with its banks, caches and links.
struct OneNode<'a> {
    id: NodeId,
    node: &'a Node,
    banks: Vec<Bank>,
}

impl Serialize for OneNode<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let node = self.node;
        entries! { to,
            node: self.id.0,
            gfx: gfx(node.engine_id),
            NumCPUCores: node.num_cpu_cores,
            NumFComputeCores: node.num_f_compute_cores,
            NumMemoryBanks: self.banks.len(),
            NumCaches: node.caches.len(),
            NumIOLinks: node.links.len(),
            CComputeIdLo: node.c_compute_id_lo,
            FComputeIdLo: node.f_compute_id_lo,
            Capability: node.capability,
            Capability2: node.capability2,
            MaxWavesPerSIMD: node.max_waves_per_simd,
            LDSSizeInKB: node.lds_size_in_kb,
            GDSSizeInKB: node.gds_size_in_kb,
            WaveFrontSize: node.wave_front_size,
            NumShaderBanks: node.num_shader_banks,
            NumArrays: node.num_arrays,
            NumCUPerArray: node.num_cu_per_array,
            NumSIMDPerCU: node.num_simd_per_cu,
            MaxSlotsScratchCU: node.max_slots_scratch_cu,
            EngineId: OneEngine(node.engine_id),
            OverrideEngineId: OneEngine(node.override_engine_id),
            VendorId: node.vendor_id,
            DeviceId: node.device_id,
            LocationId: node.location_id,
            LocalMemSize: node.local_mem_size,
            MaxEngineClockMhzFCompute: node.max_engine_clock_mhz_f_compute,
            MaxEngineClockMhzCCompute: node.max_engine_clock_mhz_c_compute,
            DrmRenderMinor: node.drm_render_minor,
            MarketingName: node.marketing_name,
            AMDName: node.amd_name,
            uCodeSDMA: node.u_code_sdma,
            DebugProperties: node.debug_properties,
            HiveID: node.hive_id,
            NumSdmaEngines: node.num_sdma_engines,
            NumSdmaXgmiEngines: node.num_sdma_xgmi_engines,
            NumSdmaQueuesPerEngine: node.num_sdma_queues_per_engine,
            NumCpQueues: node.num_cp_queues,
            NumGws: node.num_gws,
            Integrated: u8::from(node.integrated),
            Domain: node.domain,
            UniqueID: node.unique_id,
            VGPRSizePerCU: node.vgpr_size_per_cu,
            SGPRSizePerCU: node.sgpr_size_per_cu,
            NumXcc: node.num_xcc,
            KFDGpuID: node.gpu_id,
            FamilyID: node.family_id,
            MemoryProperties: self.banks,
            CacheProperties: node.caches.iter().map(OneCache).collect::<Vec<_>>(),
            IoLinkProperties: node.links.iter().map(OneLink).collect::<Vec<_>>(),
        }
    }
}

/// `HSA_ENGINE_ID`
struct OneEngine(EngineId);

impl Serialize for OneEngine {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        entries! { to,
            uCode: self.0.u_code,
            Major: self.0.major,
            Minor: self.0.minor,
            Stepping: self.0.stepping,
        }
    }
}

/// `HsaMemoryProperties`
impl Serialize for Bank {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let address = (self.base != 0).then(|| format!("{:#x}", self.base));
        entries! { to,
            HeapType: self.memory.heap_type,
            SizeInBytes: self.memory.size_in_bytes,
            Flags: self.memory.flags,
            Width: self.memory.width,
            MemoryClockMax: self.memory.memory_clock_max,
            VirtualBaseAddress: address,
        }
    }
}

/// `HsaCacheProperties`
struct OneCache<'a>(&'a Cache);

impl Serialize for OneCache<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        entries! { to,
            ProcessorIdLow: self.0.processor_id_low,
            CacheLevel: self.0.level,
            CacheSize: self.0.size,
            CacheLineSize: self.0.line_size,
            CacheLinesPerTag: self.0.lines_per_tag,
            CacheAssociativity: self.0.associativity,
            CacheLatency: self.0.latency,
            CacheType: self.0.cache_type,
            SiblingMap: self.0.sibling_map,
        }
    }
}

/// `HsaIoLinkProperties`
struct OneLink<'a>(&'a IoLink);

impl Serialize for OneLink<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        entries! { to,
            IoLinkType: self.0.link_type,
            VersionMajor: self.0.version_major,
            VersionMinor: self.0.version_minor,
            NodeFrom: self.0.node_from,
            NodeTo: self.0.node_to,
            Weight: self.0.weight,
            MinimumLatency: self.0.minimum_latency,
            MaximumLatency: self.0.maximum_latency,
            MinimumBandwidth: self.0.minimum_bandwidth,
            MaximumBandwidth: self.0.maximum_bandwidth,
            RecTransferSize: self.0.rec_transfer_size,
            RecSdmaEngIdMask: self.0.rec_sdma_eng_id_mask,
            Flags: self.0.flags,
        }
    }
}
