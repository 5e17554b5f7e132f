/* Prints what a library says of a machine and which GPUs reach which memory, one line for each thing. What depends on the host
 * is left out: caches of CPU nodes (unless called with an argument), marketing names of GPUs, addresses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include HSAKMT_H

#define PRINT(struct_, field) printf(" %s=%llx", #field, (unsigned long long)(struct_)->field)

static void show_node(unsigned id, const HsaNodeProperties *node) {
    printf("node %u", id);
    PRINT(node, NumCPUCores);
    PRINT(node, NumFComputeCores);
    PRINT(node, NumMemoryBanks);
    PRINT(node, CComputeIdLo);
    PRINT(node, FComputeIdLo);
    PRINT(node, Capability.Value);
    PRINT(node, MaxWavesPerSIMD);
    PRINT(node, LDSSizeInKB);
    PRINT(node, GDSSizeInKB);
    PRINT(node, WaveFrontSize);
    PRINT(node, NumShaderBanks);
    PRINT(node, NumArrays);
    PRINT(node, NumCUPerArray);
    PRINT(node, NumSIMDPerCU);
    PRINT(node, MaxSlotsScratchCU);
    PRINT(node, EngineId.Value);
    PRINT(node, VendorId);
    PRINT(node, DeviceId);
    PRINT(node, LocationId);
    PRINT(node, LocalMemSize);
    PRINT(node, MaxEngineClockMhzFCompute);
    PRINT(node, MaxEngineClockMhzCCompute);
    PRINT(node, DrmRenderMinor);
    PRINT(node, uCodeEngineVersions.Value);
    PRINT(node, DebugProperties.Value);
    PRINT(node, HiveID);
    PRINT(node, NumSdmaEngines);
    PRINT(node, NumSdmaXgmiEngines);
    PRINT(node, NumSdmaQueuesPerEngine);
    PRINT(node, NumCpQueues);
    PRINT(node, NumGws);
    PRINT(node, Domain);
    PRINT(node, UniqueID);
    PRINT(node, SGPRSizePerCU);
#ifndef OF_5_2_3
    PRINT(node, OverrideEngineId.Value);
    PRINT(node, Integrated);
    PRINT(node, NumXcc);
    PRINT(node, KFDGpuID);
    PRINT(node, FamilyID);
#endif
    printf(" AMDName=%.64s MarketingName=", (const char *)node->AMDName);
    for (unsigned i = 0; node->NumCPUCores && i < HSA_PUBLIC_NAME_SIZE && node->MarketingName[i]; i++)
        putchar(node->MarketingName[i]);
    printf("\nregisters %u", id);
    PRINT(node, VGPRSizePerCU);
}

static void show_banks(unsigned id, unsigned count) {
    HsaMemoryProperties *banks = calloc(count + 1, sizeof *banks);
    printf("\nbanks %u: %d", id, hsaKmtGetNodeMemoryProperties(id, count, banks));
    for (unsigned i = 0; i < count; i++)
        printf(" %u/%llx/%x/%u/%u", banks[i].HeapType, (unsigned long long)banks[i].SizeInBytes, banks[i].Flags.MemoryProperty,
               banks[i].Width, banks[i].MemoryClockMax);
    free(banks);
}

static void show_caches(unsigned id, unsigned count) {
    HsaCacheProperties *caches = calloc(count + 1, sizeof *caches);
    printf("\ncaches %u: %d %u", id, hsaKmtGetNodeCacheProperties(id, 0, count, caches), count);
    for (unsigned i = 0; i < count; i++) {
        printf(" %u/%u/%u/%u/%u/%u/%u/%x:", caches[i].ProcessorIdLow, caches[i].CacheLevel, caches[i].CacheSize,
               caches[i].CacheLineSize, caches[i].CacheLinesPerTag, caches[i].CacheAssociativity, caches[i].CacheLatency,
               caches[i].CacheType.Value);
        for (unsigned k = 0; k < HSA_CPU_SIBLINGS; k++)
            if (caches[i].SiblingMap[k])
                printf("[%u]=%u", k, caches[i].SiblingMap[k]);
    }
    free(caches);
}

static void show_links(unsigned id, unsigned count) {
    HsaIoLinkProperties *links = calloc(count + 1, sizeof *links);
    printf("\nlinks %u: %d %u", id, hsaKmtGetNodeIoLinkProperties(id, count, links), count);
    for (unsigned i = 0; i < count; i++)
        printf(" %u>%u/%u/%u/%u/%x", links[i].NodeFrom, links[i].NodeTo, links[i].IoLinkType, links[i].Weight,
               links[i].MaximumBandwidth, links[i].Flags.LinkProperty);
    putchar('\n');
    free(links);
}

/* Which nodes a buffer is mapped on. */
static void show_reach(const char *what, unsigned id, HsaMemFlags flags) {
    void *buffer = NULL;
    HSAuint64 gpu = 0;
    HsaPointerInfo info;
    memset(&info, 0, sizeof info);
    printf("%s %u: %d", what, id, hsaKmtAllocMemory(id, 0x10000, flags, &buffer));
    if (buffer) {
        printf(" %d", hsaKmtMapMemoryToGPU(buffer, 0x10000, &gpu));
        printf(" %d", hsaKmtQueryPointerInfo(buffer, &info));
        printf(" on %u:", info.Node);
        for (unsigned i = 0; i < info.NMappedNodes; i++)
            printf(" %u", info.MappedNodes[i]);
        printf(" ends %d", hsaKmtUnmapMemoryToGPU(buffer));
        printf(" %d", hsaKmtFreeMemory(buffer, 0x10000));
    }
    putchar('\n');
}

int main(int argc, char **argv) {
    HsaSystemProperties system;
    HsaNodeProperties node;
    HsaMemFlags vram, host;
    int status = hsaKmtOpenKFD();
    printf("open %d\n", status);
    if (status)
        return 0;
    memset(&system, 0, sizeof system);
    status = hsaKmtAcquireSystemProperties(&system);
    printf("acquire %d, %u nodes\n", status, system.NumNodes);
    if (status)
        return 0;
    memset(&vram, 0, sizeof vram);
    memset(&host, 0, sizeof host);
    vram.ui32.NonPaged = 1;
    host.ui32.HostAccess = 1;
    for (unsigned id = 0; id <= system.NumNodes; id++) {
        memset(&node, 0, sizeof node);
        status = hsaKmtGetNodeProperties(id, &node);
        if (status) {
            printf("node %u: %d\n", id, status);
            continue;
        }
        show_node(id, &node);
        show_banks(id, node.NumMemoryBanks);
        if (argc > 1 || !node.NumCPUCores)
            show_caches(id, node.NumCaches);
        show_links(id, node.NumIOLinks);
        if (node.NumFComputeCores)
            show_reach("vram", id, vram);
    }
    show_reach("host", 0, host);
    return 0;
}
