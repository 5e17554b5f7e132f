/* Prints every field of the topology structs that all layouts have, so that libraries can be compared. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include HSAKMT_H

#define SHOW(struct_, field) printf("  %s=%llu\n", #field, (unsigned long long)(struct_).field)

static void show_node(const HsaNodeProperties *node) {
    SHOW(*node, NumCPUCores);
    SHOW(*node, NumFComputeCores);
    SHOW(*node, NumMemoryBanks);
    SHOW(*node, NumCaches);
    SHOW(*node, NumIOLinks);
    SHOW(*node, CComputeIdLo);
    SHOW(*node, FComputeIdLo);
    SHOW(*node, Capability.Value);
    SHOW(*node, MaxWavesPerSIMD);
    SHOW(*node, LDSSizeInKB);
    SHOW(*node, GDSSizeInKB);
    SHOW(*node, WaveFrontSize);
    SHOW(*node, NumShaderBanks);
    SHOW(*node, NumArrays);
    SHOW(*node, NumCUPerArray);
    SHOW(*node, NumSIMDPerCU);
    SHOW(*node, MaxSlotsScratchCU);
    SHOW(*node, EngineId.Value);
    SHOW(*node, VendorId);
    SHOW(*node, DeviceId);
    SHOW(*node, LocationId);
    SHOW(*node, LocalMemSize);
    SHOW(*node, MaxEngineClockMhzFCompute);
    SHOW(*node, MaxEngineClockMhzCCompute);
    SHOW(*node, DrmRenderMinor);
    SHOW(*node, uCodeEngineVersions.Value);
    SHOW(*node, DebugProperties.Value);
    SHOW(*node, HiveID);
    SHOW(*node, NumSdmaEngines);
    SHOW(*node, NumSdmaXgmiEngines);
    SHOW(*node, NumSdmaQueuesPerEngine);
    SHOW(*node, NumCpQueues);
    SHOW(*node, NumGws);
    SHOW(*node, Domain);
    SHOW(*node, UniqueID);
    SHOW(*node, VGPRSizePerCU);
    SHOW(*node, SGPRSizePerCU);
    printf("  AMDName=%.64s\n  MarketingName=", (const char *)node->AMDName);
    for (unsigned i = 0; i < HSA_PUBLIC_NAME_SIZE && node->MarketingName[i]; i++)
        putchar(node->MarketingName[i]);
    putchar('\n');
}

static void show_banks(unsigned id, unsigned count) {
    HsaMemoryProperties *banks = calloc(count + 1, sizeof *banks);
    printf(" banks: %d\n", hsaKmtGetNodeMemoryProperties(id, count, banks));
    for (unsigned i = 0; i < count; i++) {
        SHOW(banks[i], HeapType);
        SHOW(banks[i], SizeInBytes);
        SHOW(banks[i], Flags.MemoryProperty);
        SHOW(banks[i], Width);
        SHOW(banks[i], MemoryClockMax);
        /* Scratch and the MMIO page lie where the process has room. */
        printf("  VirtualBaseAddress=%llx\n",
               banks[i].HeapType == 5 || banks[i].HeapType == 7 ? 0ull : (unsigned long long)banks[i].VirtualBaseAddress);
    }
    free(banks);
}

static void show_caches(unsigned id, unsigned count) {
    HsaCacheProperties *caches = calloc(count + 1, sizeof *caches);
    printf(" caches: %d\n", hsaKmtGetNodeCacheProperties(id, 0, count, caches));
    for (unsigned i = 0; i < count; i++) {
        SHOW(caches[i], ProcessorIdLow);
        SHOW(caches[i], CacheLevel);
        SHOW(caches[i], CacheSize);
        SHOW(caches[i], CacheLineSize);
        SHOW(caches[i], CacheLinesPerTag);
        SHOW(caches[i], CacheAssociativity);
        SHOW(caches[i], CacheLatency);
        SHOW(caches[i], CacheType.Value);
        printf("  SiblingMap=");
        for (unsigned k = 0; k < HSA_CPU_SIBLINGS; k++)
            printf("%u", caches[i].SiblingMap[k]);
        putchar('\n');
    }
    free(caches);
}

static void show_links(unsigned id, unsigned count) {
    HsaIoLinkProperties *links = calloc(count + 1, sizeof *links);
    printf(" links: %d\n", hsaKmtGetNodeIoLinkProperties(id, count, links));
    for (unsigned i = 0; i < count; i++) {
        SHOW(links[i], IoLinkType);
        SHOW(links[i], VersionMajor);
        SHOW(links[i], VersionMinor);
        SHOW(links[i], NodeFrom);
        SHOW(links[i], NodeTo);
        SHOW(links[i], Weight);
        SHOW(links[i], MinimumLatency);
        SHOW(links[i], MaximumLatency);
        SHOW(links[i], MinimumBandwidth);
        SHOW(links[i], MaximumBandwidth);
        SHOW(links[i], RecTransferSize);
        SHOW(links[i], Flags.LinkProperty);
    }
    free(links);
}

static void show_machine(HSAuint32 id) {
    HSAuint32 tiles[40], macros[20];
    memset(tiles, 0xaa, sizeof tiles);
    memset(macros, 0xaa, sizeof macros);
    HsaGpuTileConfig config = {tiles, macros, 32, 16, 0, 0, 0, {0}};
    printf(" tiles: %d\n", hsaKmtGetTileConfig(id, &config));
    SHOW(config, NumTileConfigs);
    SHOW(config, NumMacroTileConfigs);
    SHOW(config, GbAddrConfig);
    SHOW(config, NumBanks);
    SHOW(config, NumRanks);
    for (unsigned i = 0; i < 40; i++)
        printf(" %x", tiles[i]);
    for (unsigned i = 0; i < 20; i++)
        printf(" %x", macros[i]);
    HsaClockCounters clocks = {1, 1, 1, 1};
    printf("\n clocks: %d\n", hsaKmtGetClockCounters(id, &clocks));
    SHOW(clocks, SystemClockFrequencyHz);
    printf(" running: %d %d\n", clocks.CPUClockCounter > 1, clocks.SystemClockCounter > 1);
}

int main(void) {
    HsaSystemProperties system;
    HsaVersionInfo version;
    if (hsaKmtOpenKFD() || hsaKmtGetVersion(&version) || hsaKmtAcquireSystemProperties(&system))
        return 1;
    printf("version %u.%u\n", version.KernelInterfaceMajorVersion, version.KernelInterfaceMinorVersion);
    SHOW(system, NumNodes);
    SHOW(system, PlatformOem);
    SHOW(system, PlatformId);
    SHOW(system, PlatformRev);
    for (unsigned id = 0; id < system.NumNodes; id++) {
        HsaNodeProperties node;
        memset(&node, 0xaa, sizeof node);
        printf("node %u: %d\n", id, hsaKmtGetNodeProperties(id, &node));
        show_node(&node);
        show_banks(id, node.NumMemoryBanks);
        show_caches(id, node.NumCaches);
        show_links(id, node.NumIOLinks);
        show_machine(id);
    }
    show_machine(system.NumNodes);
    return 0;
}
