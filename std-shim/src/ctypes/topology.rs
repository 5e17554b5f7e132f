//! Structs that describe the machine.

use super::c_struct;

/// Characters of a node's names.
pub const HSA_PUBLIC_NAME_SIZE: usize = 64;
/// Entries of a cache's sibling map.
pub const HSA_CPU_SIBLINGS: usize = 256;

c_struct! {
    /// The kernel driver's interface version.
    HsaVersionInfo = 8 {
        KernelInterfaceMajorVersion: u32 = 0,
        KernelInterfaceMinorVersion: u32 = 4,
    }
}

c_struct! {
    /// How many nodes, and whose platform.
    HsaSystemProperties = 16 {
        NumNodes: u32 = 0,
        PlatformOem: u32 = 4,
        PlatformId: u32 = 8,
        PlatformRev: u32 = 12,
    }
}

#[cfg(not(feature = "abi-5-2-3"))]
c_struct! {
    /// One node.
    HsaNodeProperties = 368 {
        NumCPUCores: u32 = 0,
        NumFComputeCores: u32 = 4,
        NumNeuralCores: u32 = 8,
        NumMemoryBanks: u32 = 12,
        NumCaches: u32 = 16,
        NumIOLinks: u32 = 20,
        CComputeIdLo: u32 = 24,
        FComputeIdLo: u32 = 28,
        Capability: u32 = 32,
        Capability2: u32 = 36,
        MaxWavesPerSIMD: u32 = 40,
        LDSSizeInKB: u32 = 44,
        GDSSizeInKB: u32 = 48,
        WaveFrontSize: u32 = 52,
        NumShaderBanks: u32 = 56,
        NumArrays: u32 = 60,
        NumCUPerArray: u32 = 64,
        NumSIMDPerCU: u32 = 68,
        MaxSlotsScratchCU: u32 = 72,
        EngineId: u32 = 76,
        OverrideEngineId: u32 = 80,
        VendorId: u16 = 84,
        DeviceId: u16 = 86,
        LocationId: u32 = 88,
        LocalMemSize: u64 = 92,
        MaxEngineClockMhzFCompute: u32 = 100,
        MaxEngineClockMhzCCompute: u32 = 104,
        DrmRenderMinor: i32 = 108,
        MarketingName: [u16; HSA_PUBLIC_NAME_SIZE] = 112,
        AMDName: [u8; HSA_PUBLIC_NAME_SIZE] = 240,
        uCodeEngineVersions: u32 = 304,
        DebugProperties: u64 = 308,
        HiveID: u64 = 316,
        NumSdmaEngines: u32 = 324,
        NumSdmaXgmiEngines: u32 = 328,
        NumSdmaQueuesPerEngine: u8 = 332,
        NumCpQueues: u8 = 333,
        NumGws: u8 = 334,
        Integrated: u8 = 335,
        Domain: u32 = 336,
        UniqueID: u64 = 340,
        VGPRSizePerCU: u32 = 348,
        SGPRSizePerCU: u32 = 352,
        NumXcc: u32 = 356,
        KFDGpuID: u32 = 360,
        FamilyID: u32 = 364,
    }
}

#[cfg(feature = "abi-5-2-3")]
c_struct! {
    /// One node.
    HsaNodeProperties = 356 {
        NumCPUCores: u32 = 0,
        NumFComputeCores: u32 = 4,
        NumMemoryBanks: u32 = 8,
        NumCaches: u32 = 12,
        NumIOLinks: u32 = 16,
        CComputeIdLo: u32 = 20,
        FComputeIdLo: u32 = 24,
        Capability: u32 = 28,
        MaxWavesPerSIMD: u32 = 32,
        LDSSizeInKB: u32 = 36,
        GDSSizeInKB: u32 = 40,
        WaveFrontSize: u32 = 44,
        NumShaderBanks: u32 = 48,
        NumArrays: u32 = 52,
        NumCUPerArray: u32 = 56,
        NumSIMDPerCU: u32 = 60,
        MaxSlotsScratchCU: u32 = 64,
        EngineId: u32 = 68,
        VendorId: u16 = 72,
        DeviceId: u16 = 74,
        LocationId: u32 = 76,
        LocalMemSize: u64 = 80,
        MaxEngineClockMhzFCompute: u32 = 88,
        MaxEngineClockMhzCCompute: u32 = 92,
        DrmRenderMinor: i32 = 96,
        MarketingName: [u16; HSA_PUBLIC_NAME_SIZE] = 100,
        AMDName: [u8; HSA_PUBLIC_NAME_SIZE] = 228,
        uCodeEngineVersions: u32 = 292,
        DebugProperties: u64 = 296,
        HiveID: u64 = 304,
        NumSdmaEngines: u32 = 312,
        NumSdmaXgmiEngines: u32 = 316,
        NumSdmaQueuesPerEngine: u8 = 320,
        NumCpQueues: u8 = 321,
        NumGws: u8 = 322,
        Reserved2: u8 = 323,
        Domain: u32 = 324,
        UniqueID: u64 = 328,
        VGPRSizePerCU: u32 = 336,
        SGPRSizePerCU: u32 = 340,
        Reserved: [u8; 12] = 344,
    }
}

c_struct! {
    /// One memory bank of a node.
    HsaMemoryProperties = 32 {
        HeapType: u32 = 0,
        SizeInBytes: u64 = 4,
        Flags: u32 = 12,
        Width: u32 = 16,
        MemoryClockMax: u32 = 20,
        VirtualBaseAddress: u64 = 24,
    }
}

c_struct! {
    /// One cache of a node.
    HsaCacheProperties = 1056 {
        ProcessorIdLow: u32 = 0,
        CacheLevel: u32 = 4,
        CacheSize: u32 = 8,
        CacheLineSize: u32 = 12,
        CacheLinesPerTag: u32 = 16,
        CacheAssociativity: u32 = 20,
        CacheLatency: u32 = 24,
        CacheType: u32 = 28,
        SiblingMap: [u32; HSA_CPU_SIBLINGS] = 32,
    }
}

#[cfg(not(feature = "abi-5-2-3"))]
c_struct! {
    /// One link between two nodes.
    HsaIoLinkProperties = 52 {
        IoLinkType: u32 = 0,
        VersionMajor: u32 = 4,
        VersionMinor: u32 = 8,
        NodeFrom: u32 = 12,
        NodeTo: u32 = 16,
        Weight: u32 = 20,
        MinimumLatency: u32 = 24,
        MaximumLatency: u32 = 28,
        MinimumBandwidth: u32 = 32,
        MaximumBandwidth: u32 = 36,
        RecTransferSize: u32 = 40,
        RecSdmaEngIdMask: u32 = 44,
        Flags: u32 = 48,
    }
}

#[cfg(feature = "abi-5-2-3")]
c_struct! {
    /// One link between two nodes.
    HsaIoLinkProperties = 48 {
        IoLinkType: u32 = 0,
        VersionMajor: u32 = 4,
        VersionMinor: u32 = 8,
        NodeFrom: u32 = 12,
        NodeTo: u32 = 16,
        Weight: u32 = 20,
        MinimumLatency: u32 = 24,
        MaximumLatency: u32 = 28,
        MinimumBandwidth: u32 = 32,
        MaximumBandwidth: u32 = 36,
        RecTransferSize: u32 = 40,
        Flags: u32 = 44,
    }
}

c_struct! {
    /// Clocks of a GPU and of the system, read together.
    HsaClockCounters = 32 {
        GPUClockCounter: u64 = 0,
        CPUClockCounter: u64 = 8,
        SystemClockCounter: u64 = 16,
        SystemClockFrequencyHz: u64 = 24,
    }
}

c_struct! {
    /// A GPU's tiling; the arrays are the caller's.
    HsaGpuTileConfig = 64 {
        TileConfig: *mut u32 = 0,
        MacroTileConfig: *mut u32 = 8,
        NumTileConfigs: u32 = 16,
        NumMacroTileConfigs: u32 = 20,
        GbAddrConfig: u32 = 24,
        NumBanks: u32 = 28,
        NumRanks: u32 = 32,
        Reserved: [u32; 7] = 36,
    }
}
