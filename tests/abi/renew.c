/* Case 84: the kernel shows other GPUs between Release and Acquire.
 *
 * What each node is comes from hsaKmtGetNodeProperties; the test that runs this reads in the simulator's log on which GPU
 * each allocation really was. Lines "alloc ADDRESS GPU" say which it must be. First argument: "free", "alive" (an object on
 * every node is alive while the nodes change), or "second" (a secondary context is open meanwhile); second argument: the
 * status that the next Acquire must answer. */
#define _GNU_SOURCE
#include "hsakmt/hsakmt.h"
#include "hsakmt/hsakmtctx.h"
#include "expect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static HSAuint32 gpu(HsaKFDContext *ctx, HSAuint32 node) {
    HsaNodeProperties properties;
    EXPECT(SUCCESS, hsaKmtGetNodePropertiesCtx(ctx, node, &properties));
    return properties.KFDGpuID;
}

static HsaPointerInfo query(HsaKFDContext *ctx, const void *pointer) {
    HsaPointerInfo info;
    hsaKmtQueryPointerInfoCtx(ctx, pointer, &info);
    return info;
}

static void *allocate(HsaKFDContext *ctx, HSAuint32 node) {
    HsaMemFlags flags = {.Value = 1};
    void *memory = NULL;
    EXPECT(SUCCESS, hsaKmtAllocMemoryCtx(ctx, node, 0x1000, flags, &memory));
    printf("alloc %p %u\n", memory, gpu(ctx, node));
    SAME(node, query(ctx, memory).Node);
    return memory;
}

/* Every node from 1 on is a GPU that can be used, and there are no more. */
static void use(HsaKFDContext *ctx, HSAuint32 nodes) {
    for (HSAuint32 node = 1; node < nodes; node++) {
        HSAuint64 alternate;
        void *memory = allocate(ctx, node);
        EXPECT(SUCCESS, hsaKmtMapMemoryToGPUCtx(ctx, memory, 0x1000, &alternate));
        HsaPointerInfo info = query(ctx, memory);
        SAME(nodes - 1, info.NMappedNodes);
        SAME(node, info.NMappedNodes ? info.MappedNodes[0] : 0);
        EXPECT(SUCCESS, hsaKmtUnmapMemoryToGPUCtx(ctx, memory));
        EXPECT(SUCCESS, hsaKmtFreeMemoryCtx(ctx, memory, 0x1000));
        HsaNodeProperties properties;
        HsaMemoryProperties banks[16];
        EXPECT(SUCCESS, hsaKmtGetNodePropertiesCtx(ctx, node, &properties));
        EXPECT(SUCCESS, hsaKmtGetNodeMemoryPropertiesCtx(ctx, node, properties.NumMemoryBanks, banks));
        HsaMemoryProperties *mmio = &banks[properties.NumMemoryBanks - 1];
        SAME(HSA_HEAPTYPE_MMIO_REMAP, mmio->HeapType);
        SAME(node, query(ctx, (void *)mmio->VirtualBaseAddress).Node);
    }
    HsaMemFlags flags = {.Value = 1};
    void *memory;
    EXPECT(INVALID_NODE_UNIT, hsaKmtAllocMemoryCtx(ctx, nodes, 0x1000, flags, &memory));
}

int main(int count, char **argument) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    HsaKFDContext *ctx = NULL, *second = NULL;
    HsaSystemProperties before, after;
    void *alive[8] = {0};
    if (count != 3)
        return 2;
    long status = strtol(argument[2], NULL, 0);
    EXPECT(SUCCESS, hsaKmtOpenKFDCtx(&ctx));
    EXPECT(SUCCESS, hsaKmtAcquireSystemPropertiesCtx(ctx, &before));
    use(ctx, before.NumNodes);
    if (!strcmp(argument[1], "second"))
        EXPECT(SUCCESS, hsaKmtOpenSecondaryKFDCtx(&second));
    if (!strcmp(argument[1], "alive"))
        for (HSAuint32 node = 1; node < before.NumNodes; node++)
            alive[node] = allocate(ctx, node);

    EXPECT(SUCCESS, hsaKmtReleaseSystemPropertiesCtx(ctx));
    SAME(0, access("/dev/kfd-sim/next", F_OK));
    SAME(status, hsaKmtAcquireSystemPropertiesCtx(ctx, &after));
    if (status != HSAKMT_STATUS_SUCCESS) {
        /* The old table, whole: what is alive can be used and ended, and then it is not in the way. */
        for (HSAuint32 node = 1; node < before.NumNodes; node++) {
            SAME(node, query(ctx, alive[node]).Node);
            EXPECT(SUCCESS, hsaKmtSetMemoryUserDataCtx(ctx, alive[node], &wrong));
            hsaKmtFreeMemoryCtx(ctx, alive[node], 0x1000);
            alive[node] = NULL;
        }
        EXPECT(SUCCESS, hsaKmtAcquireSystemPropertiesCtx(ctx, &after));
    }
    use(ctx, after.NumNodes);
    if (second) {
        /* It goes by what it was set up with, until its own Acquire. */
        if (after.NumNodes >= before.NumNodes)
            use(second, before.NumNodes);
        EXPECT(SUCCESS, hsaKmtAcquireSystemPropertiesCtx(second, &after));
        use(second, after.NumNodes);
        EXPECT(SUCCESS, hsaKmtCloseSecondaryKFDCtx(second));
    }
    for (HSAuint32 node = 1; node < before.NumNodes; node++)
        if (alive[node]) {
            SAME(node, query(ctx, alive[node]).Node);
            EXPECT(SUCCESS, hsaKmtFreeMemoryCtx(ctx, alive[node], 0x1000));
        }
    EXPECT(SUCCESS, hsaKmtCloseKFDCtx());
    return wrong;
}
