//! Rust answers into C structs: one function per struct, fields in the struct's order, nothing decided.
//!
//! What the older layouts lack is left out under the features `abi-6-2-4` and `abi-5-2-3`; every other field is the same
//! in all, but for what `HSA_OVERRIDE_GFX_VERSION` changes (see [`node`]).

use core::ffi::c_void;
use core::ptr::with_exposed_provenance_mut as pointer;
use std::borrow::Cow;

use hsakmt_core::info::PointerInfo;
use hsakmt_core::manager::Graphics;
use hsakmt_kfd::device::TileConfig;
use hsakmt_kfd::topology::{Cache, IoLink, MemoryBank, Node, Topology};
use hsakmt_kfd::uapi::GetClockCountersArgs;

use crate::ctypes::*;

pub(super) fn version((major, minor): (u32, u32)) -> HsaVersionInfo {
    HsaVersionInfo { KernelInterfaceMajorVersion: major, KernelInterfaceMinorVersion: minor }
}

pub(super) fn clocks(clocks: &GetClockCountersArgs) -> HsaClockCounters {
    HsaClockCounters {
        GPUClockCounter: clocks.gpu_clock_counter,
        CPUClockCounter: clocks.cpu_clock_counter,
        SystemClockCounter: clocks.system_clock_counter,
        SystemClockFrequencyHz: clocks.system_clock_freq,
    }
}

/// `asked` with the answer's numbers; its pointers stay.
pub(super) fn tiling(asked: HsaGpuTileConfig, answer: &TileConfig) -> HsaGpuTileConfig {
    HsaGpuTileConfig {
        NumTileConfigs: answer.tiles as u32,
        NumMacroTileConfigs: answer.macro_tiles as u32,
        GbAddrConfig: answer.gb_addr_config,
        NumBanks: answer.banks,
        NumRanks: answer.ranks,
        ..asked
    }
}

pub(super) fn system(topology: &Topology) -> HsaSystemProperties {
    HsaSystemProperties {
        NumNodes: topology.nodes.len() as u32,
        PlatformOem: topology.platform_oem,
        PlatformId: topology.platform_id,
        PlatformRev: topology.platform_rev,
    }
}

/// `banks` is how many memory banks the node has, address ranges included.
///
/// Before 2025 there is no `OverrideEngineId`: an override of the version stands in `EngineId`.
pub(super) fn node(node: &Node, banks: usize) -> HsaNodeProperties {
    let node = if cfg!(feature = "abi-6-2-4") { Cow::Owned(node.with_override()) } else { Cow::Borrowed(node) };
    HsaNodeProperties {
        NumCPUCores: node.num_cpu_cores,
        NumFComputeCores: node.num_f_compute_cores,
        #[cfg(not(feature = "abi-6-2-4"))]
        NumNeuralCores: 0,
        NumMemoryBanks: banks as u32,
        NumCaches: node.caches.len() as u32,
        NumIOLinks: node.links.len() as u32,
        CComputeIdLo: node.c_compute_id_lo,
        FComputeIdLo: node.f_compute_id_lo,
        Capability: node.capability,
        #[cfg(not(feature = "abi-6-2-4"))]
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
        EngineId: node.engine_id.value(),
        #[cfg(not(feature = "abi-6-2-4"))]
        OverrideEngineId: node.override_engine_id.value(),
        VendorId: node.vendor_id,
        DeviceId: node.device_id,
        LocationId: node.location_id,
        LocalMemSize: node.local_mem_size,
        MaxEngineClockMhzFCompute: node.max_engine_clock_mhz_f_compute,
        MaxEngineClockMhzCCompute: node.max_engine_clock_mhz_c_compute,
        DrmRenderMinor: node.drm_render_minor as i32,
        MarketingName: text(node.marketing_name.encode_utf16()),
        AMDName: text(node.amd_name.bytes()),
        uCodeEngineVersions: u32::from(node.u_code_sdma) & 0x3ff,
        DebugProperties: node.debug_properties,
        HiveID: node.hive_id,
        NumSdmaEngines: node.num_sdma_engines,
        NumSdmaXgmiEngines: node.num_sdma_xgmi_engines,
        NumSdmaQueuesPerEngine: node.num_sdma_queues_per_engine,
        NumCpQueues: node.num_cp_queues,
        NumGws: node.num_gws,
        #[cfg(not(feature = "abi-5-2-3"))]
        Integrated: u8::from(node.integrated),
        #[cfg(feature = "abi-5-2-3")]
        Reserved2: 0,
        Domain: node.domain,
        UniqueID: node.unique_id,
        VGPRSizePerCU: node.vgpr_size_per_cu,
        SGPRSizePerCU: node.sgpr_size_per_cu,
        #[cfg(feature = "abi-5-2-3")]
        Reserved: [0; 12],
        #[cfg(not(feature = "abi-5-2-3"))]
        NumXcc: node.num_xcc,
        #[cfg(not(feature = "abi-5-2-3"))]
        KFDGpuID: node.gpu_id,
        #[cfg(not(feature = "abi-5-2-3"))]
        FamilyID: node.family_id,
    }
}

/// A name of a node: cut to fit, ends with 0.
fn text<T: Copy + Default>(characters: impl Iterator<Item = T>) -> [T; HSA_PUBLIC_NAME_SIZE] {
    let mut name = [T::default(); HSA_PUBLIC_NAME_SIZE];
    let room = name.iter_mut().take(HSA_PUBLIC_NAME_SIZE - 1);
    room.zip(characters).for_each(|(place, character)| *place = character);
    name
}

/// `address` is where a range of addresses begins; 0 for memory proper.
pub(super) fn bank(bank: &MemoryBank, address: usize) -> HsaMemoryProperties {
    HsaMemoryProperties {
        HeapType: bank.heap_type,
        SizeInBytes: bank.size_in_bytes,
        Flags: bank.flags,
        Width: bank.width,
        MemoryClockMax: bank.memory_clock_max,
        VirtualBaseAddress: address as u64,
    }
}

pub(super) fn cache(cache: &Cache) -> HsaCacheProperties {
    let mut siblings = [0; HSA_CPU_SIBLINGS];
    siblings.iter_mut().zip(&cache.sibling_map).for_each(|(place, sibling)| *place = *sibling);
    HsaCacheProperties {
        ProcessorIdLow: cache.processor_id_low,
        CacheLevel: cache.level,
        CacheSize: cache.size,
        CacheLineSize: cache.line_size,
        CacheLinesPerTag: cache.lines_per_tag,
        CacheAssociativity: cache.associativity,
        CacheLatency: cache.latency,
        CacheType: cache.cache_type,
        SiblingMap: siblings,
    }
}

pub(super) fn link(link: &IoLink) -> HsaIoLinkProperties {
    HsaIoLinkProperties {
        IoLinkType: link.link_type,
        VersionMajor: link.version_major,
        VersionMinor: link.version_minor,
        NodeFrom: link.node_from,
        NodeTo: link.node_to,
        Weight: link.weight,
        MinimumLatency: link.minimum_latency,
        MaximumLatency: link.maximum_latency,
        MinimumBandwidth: link.minimum_bandwidth,
        MaximumBandwidth: link.maximum_bandwidth,
        RecTransferSize: link.rec_transfer_size,
        #[cfg(not(feature = "abi-6-2-4"))]
        RecSdmaEngIdMask: link.rec_sdma_eng_id_mask,
        Flags: link.flags,
    }
}

pub(super) fn graphics(graphics: &Graphics) -> HsaGraphicsResourceInfo {
    HsaGraphicsResourceInfo {
        MemoryAddress: pointer(graphics.address),
        SizeInBytes: graphics.size as u64,
        Metadata: graphics.metadata.cast(),
        MetadataSizeInBytes: graphics.metadata_size,
        #[cfg(feature = "abi-5-2-3")]
        Reserved: 0,
        #[cfg(not(feature = "abi-5-2-3"))]
        NodeId: graphics.node.0,
    }
}

/// Part of the read path: no branch that can panic, no memory taken.
#[inline]
pub(super) fn pointer_info(info: &PointerInfo<'_>) -> HsaPointerInfo {
    HsaPointerInfo {
        Type: info.kind as u32,
        Node: info.node.0,
        MemFlags: HsaMemFlags { Value: info.flags.bits() },
        CPUAddress: pointer::<c_void>(info.cpu_address),
        GPUAddress: info.gpu_address,
        SizeInBytes: info.size,
        NRegisteredNodes: info.registered.len() as u32,
        NMappedNodes: info.mapped.len() as u32,
        RegisteredNodes: info.registered.as_ptr(),
        MappedNodes: info.mapped.as_ptr(),
        UserData: pointer::<c_void>(info.user_data),
    }
}

/// A word's lower half, then the upper one.
pub(super) fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_and_end_with_zero() {
        assert_eq!(text("gfx".bytes())[..4], *b"gfx\0");
        let long = text("x".repeat(100).encode_utf16());
        assert!(long[..63].iter().all(|&c| c == u16::from(b'x')) && long[63] == 0);
    }

    #[test]
    fn an_unknown_pointer_is_all_zeros() {
        let info = pointer_info(&PointerInfo::UNKNOWN);
        let HsaPointerInfo { Type, CPUAddress, RegisteredNodes, MappedNodes, UserData, .. } = info;
        assert_eq!(Type, 0);
        assert!(CPUAddress.is_null() && RegisteredNodes.is_null() && MappedNodes.is_null() && UserData.is_null());
    }
}
