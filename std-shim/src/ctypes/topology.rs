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

c_struct! {
    /// One node.
    HsaNodeProperties = if cfg!(feature = "abi-6-2-4") { 356 } else { 368 }, {
        NumCPUCores: u32,
        NumFComputeCores: u32,
        #[cfg(not(feature = "abi-6-2-4"))]
        NumNeuralCores: u32,
        NumMemoryBanks: u32,
        NumCaches: u32,
        NumIOLinks: u32,
        CComputeIdLo: u32,
        FComputeIdLo: u32,
        Capability: u32,
        #[cfg(not(feature = "abi-6-2-4"))]
        Capability2: u32,
        MaxWavesPerSIMD: u32,
        LDSSizeInKB: u32,
        GDSSizeInKB: u32,
        WaveFrontSize: u32,
        NumShaderBanks: u32,
        NumArrays: u32,
        NumCUPerArray: u32,
        NumSIMDPerCU: u32,
        MaxSlotsScratchCU: u32,
        EngineId: u32,
        #[cfg(not(feature = "abi-6-2-4"))]
        OverrideEngineId: u32,
        VendorId: u16,
        DeviceId: u16,
        LocationId: u32,
        LocalMemSize: u64,
        MaxEngineClockMhzFCompute: u32,
        MaxEngineClockMhzCCompute: u32,
        DrmRenderMinor: i32,
        MarketingName: [u16; HSA_PUBLIC_NAME_SIZE],
        AMDName: [u8; HSA_PUBLIC_NAME_SIZE],
        uCodeEngineVersions: u32,
        DebugProperties: u64,
        HiveID: u64,
        NumSdmaEngines: u32,
        NumSdmaXgmiEngines: u32,
        NumSdmaQueuesPerEngine: u8,
        NumCpQueues: u8,
        NumGws: u8,
        #[cfg(feature = "abi-5-2-3")]
        Reserved2: u8,
        #[cfg(not(feature = "abi-5-2-3"))]
        Integrated: u8,
        Domain: u32,
        UniqueID: u64,
        VGPRSizePerCU: u32,
        SGPRSizePerCU: u32,
        #[cfg(feature = "abi-5-2-3")]
        Reserved: [u8; 12],
        #[cfg(not(feature = "abi-5-2-3"))]
        NumXcc: u32,
        #[cfg(not(feature = "abi-5-2-3"))]
        KFDGpuID: u32,
        #[cfg(not(feature = "abi-5-2-3"))]
        FamilyID: u32,
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

c_struct! {
    /// One link between two nodes.
    HsaIoLinkProperties = if cfg!(feature = "abi-6-2-4") { 48 } else { 52 }, {
        IoLinkType: u32,
        VersionMajor: u32,
        VersionMinor: u32,
        NodeFrom: u32,
        NodeTo: u32,
        Weight: u32,
        MinimumLatency: u32,
        MaximumLatency: u32,
        MinimumBandwidth: u32,
        MaximumBandwidth: u32,
        RecTransferSize: u32,
        #[cfg(not(feature = "abi-6-2-4"))]
        RecSdmaEngIdMask: u32,
        Flags: u32,
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
