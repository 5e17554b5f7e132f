/* Every entry with arguments no sane caller passes: null, wild, unaligned, huge, wrapping.
 *
 * "hostile closed" runs without a device: each call is refused and writes nothing. "hostile open" runs on a machine
 * with one CPU node and two GPUs without the SVM API. A call must come back with the status that the interface's rules
 * give; a crash is a failure. Pointers to room for answers are good ones (or null, or unaligned): nobody can tell.
 */
#include "hsakmt/hsakmt.h"
#include "expect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void refused(int line, const char *call, HSAKMT_STATUS got) {
    if (got == HSAKMT_STATUS_SUCCESS) {
        printf("line %d: %s: success\n", line, call);
        wrong = 1;
    }
}

#define REFUSED(call) refused(__LINE__, #call, call)
#define CLOSED(call) EXPECT(KERNEL_IO_CHANNEL_NOT_OPENED, call)

static void *const wild[] = {
    (void *)1, (void *)0x10, (void *)0xfff, (void *)0x7fffffffffff, (void *)0x800000000000,
    (void *)0x7ffffffffffff000, (void *)0x8000000000000000, (void *)0xfffffffffffff000, (void *)~0ull,
};
static const HSAuint64 sizes[] = {
    0, 1, 0xfff, 0x1000, 0x1001, 0x100000000, 0x7fffffffffffffff, 0x8000000000000000, 0xfffffffffffff000, ~0ull,
};
static HSAuint32 *const unreadable = (HSAuint32 *)0x10;
#define COUNT(array) (sizeof(array) / sizeof *(array))

static HsaMemFlags flags(HSAuint32 value) {
    HsaMemFlags flags;
    flags.Value = value;
    return flags;
}

static void closed(void) {
    HSAuint64 word = 5;
    void *address = (void *)0x1234;
    HSAuint32 nodes[] = {1, 2};
    HsaMemMapFlags map = {.Value = ~0u};
    HsaVersionInfo version;
    HsaSystemProperties system;
    HsaPointerInfo info, before;
    HsaNodeProperties node;
    HsaMemoryProperties bank;
    HsaCacheProperties cache;
    HsaIoLinkProperties link;
    memset(&info, 0xaa, sizeof info);
    before = info;

    EXPECT(SUCCESS, hsaKmtReleaseSystemProperties());
    CLOSED(hsaKmtCloseKFD());
    CLOSED(hsaKmtGetVersion(&version));
    CLOSED(hsaKmtAcquireSystemProperties(&system));
    CLOSED(hsaKmtAcquireSystemProperties(NULL));
    CLOSED(hsaKmtGetNodeProperties(0, &node));
    CLOSED(hsaKmtGetNodeMemoryProperties(0, 1, &bank));
    CLOSED(hsaKmtGetNodeCacheProperties(0, 0, 1, &cache));
    CLOSED(hsaKmtGetNodeIoLinkProperties(0, 1, &link));
    EXPECT(INVALID_PARAMETER, hsaKmtGetNodeProperties(0, NULL));
    EXPECT(KERNEL_IO_CHANNEL_NOT_OPENED, hsaKmtGetTileConfig(1, NULL));
    EXPECT(KERNEL_IO_CHANNEL_NOT_OPENED, hsaKmtGetClockCounters(1, NULL));
    EXPECT(INVALID_PARAMETER, hsaKmtGetNodeMemoryProperties(0, 1, NULL));
    EXPECT(INVALID_PARAMETER, hsaKmtGetNodeCacheProperties(0, 0, 1, NULL));
    EXPECT(INVALID_PARAMETER, hsaKmtGetNodeIoLinkProperties(0, 1, NULL));
    CLOSED(hsaKmtSetTrapHandler(1, &word, 8, &word, 8));
    CLOSED(hsaKmtSetMemoryPolicy(1, 7, 7, &word, 1));
    EXPECT(ERROR, hsaKmtCheckRuntimeDebugSupport());
    EXPECT(ERROR, hsaKmtRuntimeEnable(&word, true));
    EXPECT(ERROR, hsaKmtRuntimeDisable());
    EXPECT(INVALID_PARAMETER, hsaKmtGetRuntimeCapabilities(NULL));
    HsaEvent *nobody[2] = {(HsaEvent *)unreadable, (HsaEvent *)unreadable};
    CLOSED(hsaKmtCreateEvent(NULL, true, false, NULL));
    CLOSED(hsaKmtDestroyEvent(NULL));
    CLOSED(hsaKmtSetEvent((HsaEvent *)unreadable));
    CLOSED(hsaKmtResetEvent((HsaEvent *)unreadable));
    CLOSED(hsaKmtQueryEventState(NULL));
    EXPECT(INVALID_HANDLE, hsaKmtWaitOnEvent(NULL, 0));
    CLOSED(hsaKmtWaitOnEvent((HsaEvent *)unreadable, 0));
    CLOSED(hsaKmtWaitOnMultipleEvents(NULL, 2, true, 0));
    CLOSED(hsaKmtWaitOnMultipleEvents_Ext(nobody, 2, true, 0, NULL));
    CLOSED(hsaKmtOpenSMI(1, NULL));
    CLOSED(hsaKmtSPMAcquire(1));
    CLOSED(hsaKmtSPMRelease(1));
    CLOSED(hsaKmtSPMSetDestBuffer(1, 8, NULL, NULL, NULL, NULL));
    CLOSED(hsaKmtPcSamplingSupport());
    EXPECT(INVALID_PARAMETER, hsaKmtPcSamplingQueryCapabilities(1, NULL, 0, NULL));
    CLOSED(hsaKmtPcSamplingQueryCapabilities(1, (void *)unreadable, ~0u, (HSAuint32 *)&word));
    EXPECT(INVALID_PARAMETER, hsaKmtPcSamplingCreate(1, NULL, (HSAuint32 *)&word));
    EXPECT(INVALID_HANDLE, hsaKmtPcSamplingDestroy(1, 0));
    EXPECT(INVALID_HANDLE, hsaKmtPcSamplingStart(1, 0));
    EXPECT(INVALID_HANDLE, hsaKmtPcSamplingStop(1, 0));
    CLOSED(hsaKmtPcSamplingDestroy(1, 1));
    CLOSED(hsaKmtPcSamplingStart(1, 1));
    CLOSED(hsaKmtPcSamplingStop(1, 1));
    CLOSED(hsaKmtDbgEnable(NULL, NULL));
    CLOSED(hsaKmtDbgDisable());
    CLOSED(hsaKmtDbgGetDeviceData(NULL, NULL, NULL));
    CLOSED(hsaKmtDbgGetQueueData(NULL, NULL, NULL, false));
    CLOSED(hsaKmtDbgRegister(1));
    CLOSED(hsaKmtDbgUnregister(1));
    CLOSED(hsaKmtCreateQueue(1, HSA_QUEUE_COMPUTE, 100, 0, NULL, 0, NULL, NULL));
    CLOSED(hsaKmtCreateQueueExt(1, HSA_QUEUE_COMPUTE, 100, 99, 0, NULL, 0, (HsaEvent *)unreadable, (void *)unreadable));
    CLOSED(hsaKmtUpdateQueue(~0ull, 100, 99, NULL, ~0ull, (HsaEvent *)unreadable));
    CLOSED(hsaKmtDestroyQueue(0));
    CLOSED(hsaKmtSetQueueCUMask(0, ~0u, unreadable));
    CLOSED(hsaKmtGetQueueInfo(0, (HsaQueueInfo *)unreadable));
    CLOSED(hsaKmtAllocQueueGWS(0, ~0u, unreadable));
    CLOSED(hsaKmtQueryPointerInfo(&word, &info));
    CLOSED(hsaKmtQueryPointerInfo(NULL, NULL));
    CLOSED(hsaKmtSetMemoryUserData(&word, &word));
    CLOSED(hsaKmtAllocMemory(1, 0x1000, flags(1), &address));
    CLOSED(hsaKmtAllocMemoryAlign(1, 0x1000, 0x1000, flags(1), NULL));
    CLOSED(hsaKmtFreeMemory(NULL, 0));
    CLOSED(hsaKmtRegisterMemory(&word, ~0ull));
    CLOSED(hsaKmtRegisterMemoryToNodes(&word, 8, 2, nodes));
    CLOSED(hsaKmtRegisterMemoryToNodes(&word, 8, ~0ull, NULL));
    CLOSED(hsaKmtRegisterMemoryWithFlags(&word, 8, flags(~0u)));
    CLOSED(hsaKmtDeregisterMemory(NULL));
    CLOSED(hsaKmtMapMemoryToGPU(NULL, 0, &word));
    CLOSED(hsaKmtMapMemoryToGPUNodes(NULL, 0, &word, map, 2, nodes));
    CLOSED(hsaKmtUnmapMemoryToGPU(NULL));
    CLOSED(hsaKmtSVMSetAttr(&word, 8, 4, (void *)unreadable));
    CLOSED(hsaKmtSVMGetAttr(&word, 8, 4, (void *)unreadable));
    CLOSED(hsaKmtRegisterMemoryToNodes(&word, 8, 4, unreadable));
    CLOSED(hsaKmtMapMemoryToGPUNodes(&word, 8, &word, map, 4, unreadable));
    CLOSED(hsaKmtRegisterSharedHandleToNodes(NULL, &address, &word, 4, unreadable));
    CLOSED(hsaKmtRegisterGraphicsHandleToNodes(0, NULL, 4, unreadable));
    if (memcmp(&info, &before, sizeof info) || word != 5 || address != (void *)0x1234) {
        puts("a refused call wrote");
        wrong = 1;
    }
}

/* An answer placed off its alignment. */
static void query(int line, const void *pointer) {
    char room[sizeof(HsaPointerInfo) + 1];
    static const char zeros[sizeof(HsaPointerInfo)];
    memset(room, 0xaa, sizeof room);
    check(line, "query", HSAKMT_STATUS_ERROR, hsaKmtQueryPointerInfo(pointer, (HsaPointerInfo *)(void *)(room + 1)));
    if (memcmp(room + 1, zeros, sizeof zeros)) {
        printf("line %d: a query without an answer left something\n", line);
        wrong = 1;
    }
}

static void addresses(void) {
    HSAuint64 other;
    HSAuint32 nodes[] = {1, 2};
    HsaMemMapFlags map = {.Value = 0};
    for (unsigned i = 0; i < COUNT(wild); i++) {
        query(__LINE__, wild[i]);
        EXPECT(ERROR, hsaKmtSetMemoryUserData(wild[i], wild[i]));
        EXPECT(MEMORY_NOT_REGISTERED, hsaKmtDeregisterMemory(wild[i]));
        EXPECT(ERROR, hsaKmtUnmapMemoryToGPU(wild[i]));
        for (unsigned k = 0; k < COUNT(sizes); k++) {
            EXPECT(MEMORY_NOT_REGISTERED, hsaKmtFreeMemory(wild[i], sizes[k]));
            EXPECT(INVALID_PARAMETER, hsaKmtMapMemoryToGPU(wild[i], sizes[k], &other));
            EXPECT(INVALID_PARAMETER, hsaKmtMapMemoryToGPU(wild[i], sizes[k], NULL));
            EXPECT(ERROR, hsaKmtMapMemoryToGPUNodes(wild[i], sizes[k], &other, map, 2, nodes));
            REFUSED(hsaKmtRegisterMemory(wild[i], sizes[k]));
            REFUSED(hsaKmtRegisterMemoryToNodes(wild[i], sizes[k], 2, nodes));
            REFUSED(hsaKmtRegisterMemoryWithFlags(wild[i], sizes[k], flags(~0u)));
        }
        query(__LINE__, wild[i]);
    }
    query(__LINE__, NULL);
    EXPECT(INVALID_PARAMETER, hsaKmtQueryPointerInfo(&other, NULL));
    EXPECT(ERROR, hsaKmtSetMemoryUserData(NULL, NULL));
    EXPECT(ERROR, hsaKmtFreeMemory(NULL, ~0ull));
    EXPECT(SUCCESS, hsaKmtUnmapMemoryToGPU(NULL));
    other = 5;
    EXPECT(ERROR, hsaKmtMapMemoryToGPU(NULL, ~0ull, &other));
    EXPECT(ERROR, hsaKmtMapMemoryToGPUNodes(NULL, ~0ull, &other, map, 2, nodes));
    if (other != 5) {
        puts("mapping NULL wrote the alternate address");
        wrong = 1;
    }
}

/* Ids are looked up, not followed. */
static void queues(void) {
    HsaQueueResource made, before;
    HsaQueueInfo info;
    HSAuint32 first;
    memset(&made, 0xaa, sizeof made);
    before = made;
    for (unsigned i = 0; i < COUNT(wild); i++) {
        HSA_QUEUEID id = (HSA_QUEUEID)wild[i];
        EXPECT(INVALID_PARAMETER, hsaKmtUpdateQueue(id, 100, 0, wild[i], 0x1000, NULL));
        EXPECT(INVALID_PARAMETER, hsaKmtDestroyQueue(id));
        EXPECT(INVALID_PARAMETER, hsaKmtSetQueueCUMask(id, 32, &first));
        EXPECT(INVALID_PARAMETER, hsaKmtGetQueueInfo(id, &info));
        EXPECT(INVALID_PARAMETER, hsaKmtGetQueueInfo(id, NULL));
        EXPECT(INVALID_PARAMETER, hsaKmtAllocQueueGWS(id, 1, &first));
        /* A ring that is no memory of the GPU. */
        EXPECT(ERROR, hsaKmtCreateQueue(1, HSA_QUEUE_COMPUTE, 100, 0, wild[i], 0x1000, NULL, &made));
        for (unsigned k = 0; k < COUNT(sizes); k++)
            EXPECT(ERROR, hsaKmtCreateQueue(1, HSA_QUEUE_SDMA, 100, 0, wild[i], sizes[k], NULL, &made));
    }
    EXPECT(INVALID_PARAMETER, hsaKmtSetQueueCUMask(0, 0, unreadable));
    EXPECT(INVALID_PARAMETER, hsaKmtSetQueueCUMask(0, 33, unreadable));
    EXPECT(INVALID_PARAMETER, hsaKmtSetQueueCUMask(0, 32, NULL));
    EXPECT(INVALID_PARAMETER, hsaKmtCreateQueue(1, HSA_QUEUE_SDMA, 100, 0, NULL, 0x1000, NULL, NULL));
    EXPECT(INVALID_PARAMETER, hsaKmtCreateQueue(1, 99, 100, 0, NULL, 0x1000, NULL, &made));
    EXPECT(INVALID_PARAMETER, hsaKmtCreateQueue(1, HSA_QUEUE_SDMA, 100, 99, NULL, 0x1000, NULL, &made));
    EXPECT(INVALID_NODE_UNIT, hsaKmtCreateQueue(0, HSA_QUEUE_SDMA, 100, 0, NULL, 0x1000, NULL, &made));
    EXPECT(INVALID_NODE_UNIT, hsaKmtCreateQueue(~0u, HSA_QUEUE_SDMA, 100, 0, NULL, 0x1000, NULL, NULL));
    if (memcmp(&made, &before, sizeof made)) {
        puts("a queue that is refused wrote its resource");
        wrong = 1;
    }
}

static void allocations(void) {
    HsaMemFlags vram = flags(1), paged = flags(1 << 6), fixed = flags(1 | 1 << 15);
    void *address;
    for (unsigned i = 0; i < COUNT(sizes); i++) {
        if (sizes[i] & 0xfff || !sizes[i]) {
            EXPECT(INVALID_PARAMETER, hsaKmtAllocMemory(1, sizes[i], vram, &address));
            EXPECT(INVALID_PARAMETER, hsaKmtAllocMemory(0, sizes[i], paged, &address));
        } else if (sizes[i] >= 1ull << 62) {
            address = (void *)5;
            EXPECT(NO_MEMORY, hsaKmtAllocMemory(1, sizes[i], vram, &address));
            if (address) {
                puts("a failed allocation left an address");
                wrong = 1;
            }
            EXPECT(ERROR, hsaKmtAllocMemory(0, sizes[i], paged, &address));
            REFUSED(hsaKmtAllocMemory(1, sizes[i], flags(1 << 19), &address)); /* OnlyAddress */
            REFUSED(hsaKmtAllocMemory(1, sizes[i], flags(1 | 1 << 18), &address)); /* NoAddress */
            REFUSED(hsaKmtAllocMemory(0, sizes[i], flags(1 | 1 << 14), &address)); /* AQL doubles it */
        }
    }
    EXPECT(INVALID_PARAMETER, hsaKmtAllocMemory(1, 0x1000, vram, NULL));
    EXPECT(INVALID_NODE_UNIT, hsaKmtAllocMemory(3, 0x1000, vram, NULL));
    EXPECT(INVALID_NODE_UNIT, hsaKmtAllocMemory(~0u, 0x1000, vram, &address));
    for (unsigned page = 1; page < 4; page++) /* 64 KiB, 2 MiB, 1 GiB */
        EXPECT(INVALID_PARAMETER, hsaKmtAllocMemory(1, 0x1000, flags(1 | page << 4), &address));
    EXPECT(INVALID_PARAMETER, hsaKmtAllocMemoryAlign(1, 0x1000, 1, vram, &address));
    EXPECT(INVALID_PARAMETER, hsaKmtAllocMemoryAlign(1, 0x1000, 0x1800, vram, &address));
    EXPECT(INVALID_PARAMETER, hsaKmtAllocMemoryAlign(1, 0x1000, ~0ull, vram, &address));
    EXPECT(NO_MEMORY, hsaKmtAllocMemoryAlign(1, 0x1000, 1ull << 63, vram, &address));
    address = NULL;
    EXPECT(INVALID_PARAMETER, hsaKmtAllocMemory(1, 0x1000, fixed, &address));
    for (unsigned i = 0; i < COUNT(wild); i++) {
        address = wild[i];
        EXPECT(NO_MEMORY, hsaKmtAllocMemory(1, 0x1000, fixed, &address));
        address = wild[i];
        REFUSED(hsaKmtAllocMemory(1, 0xfffffffffffff000, fixed, &address));
    }
    EXPECT(INVALID_PARAMETER, hsaKmtAllocMemory(1, 0x1000, flags(1 | 1 << 13 | 1 << 20), &address));
    EXPECT(INVALID_PARAMETER, hsaKmtAllocMemory(1, 0x1000, flags(1 | 1 << 17 | 1 << 20), &address));
}

static void lists(void) {
    HSAuint32 nobody[] = {7, 7, 7, 7}, twice[] = {1, 1};
    char room[4 * sizeof(HSAuint32) + 1];
    HSAuint32 *crooked = (HSAuint32 *)(void *)(room + 1);
    HsaMemMapFlags map = {.Value = ~0u};
    HSAuint64 other;
    void *memory = mmap(NULL, 0x4000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *room_for_address;
    /* Behind its first unknown node nothing can be read. */
    char *two_pages = mmap(NULL, 0x2000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    HSAuint32 *at_the_end = (HSAuint32 *)(void *)(two_pages + 0x1000 - 2 * sizeof(HSAuint32));
    at_the_end[0] = 1;
    at_the_end[1] = 7;
    mprotect(two_pages + 0x1000, 0x1000, PROT_NONE);
    memcpy(crooked, twice, sizeof twice);
    EXPECT(INVALID_PARAMETER, hsaKmtRegisterMemoryToNodes(memory, 0x1000, 0, twice));
    EXPECT(INVALID_PARAMETER, hsaKmtRegisterMemoryToNodes(memory, 0x1000, 2, NULL));
    EXPECT(INVALID_NODE_UNIT, hsaKmtRegisterMemoryToNodes(memory, 0x1000, 4, nobody));
    EXPECT(INVALID_NODE_UNIT, hsaKmtRegisterMemoryToNodes(memory, 0x1000, 5000, nobody));
    EXPECT(INVALID_NODE_UNIT, hsaKmtRegisterMemoryToNodes(memory, 0x1000, ~0ull, nobody));
    EXPECT(INVALID_PARAMETER, hsaKmtRegisterMemoryToNodes(memory, 0x1000, 1ull << 62, nobody)); /* 0 of 32 bits */
    EXPECT(INVALID_NODE_UNIT, hsaKmtRegisterMemoryToNodes(memory, 0x1000, 5000, at_the_end));
    query(__LINE__, memory);
    EXPECT(SUCCESS, hsaKmtRegisterMemoryToNodes(memory, 0x1000, 2, crooked));
    EXPECT(INVALID_PARAMETER, hsaKmtMapMemoryToGPUNodes(memory, 0x1000, &other, map, 0, twice));
    EXPECT(INVALID_PARAMETER, hsaKmtMapMemoryToGPUNodes(memory, 0x1000, &other, map, 2, NULL));
    EXPECT(INVALID_NODE_UNIT, hsaKmtMapMemoryToGPUNodes(memory, 0x1000, &other, map, 4, nobody));
    EXPECT(INVALID_NODE_UNIT, hsaKmtMapMemoryToGPUNodes(memory, 0x1000, &other, map, ~0ull, nobody));
    EXPECT(INVALID_NODE_UNIT, hsaKmtMapMemoryToGPUNodes(memory, 0x1000, &other, map, 5000, at_the_end));
    EXPECT(ERROR, hsaKmtMapMemoryToGPUNodes(NULL, 0x1000, &other, map, 4, unreadable));
    EXPECT(ERROR, hsaKmtMapMemoryToGPUNodes(NULL, 0x1000, &other, map, ~0ull, nobody));
    HsaSharedMemoryHandle handle = {0};
    HsaGraphicsResourceInfo info;
    EXPECT(INVALID_PARAMETER, hsaKmtRegisterSharedHandleToNodes(NULL, &room_for_address, &other, 4, unreadable));
    EXPECT(INVALID_PARAMETER, hsaKmtRegisterSharedHandleToNodes(NULL, &room_for_address, &other, ~0ull, nobody));
    EXPECT(INVALID_NODE_UNIT, hsaKmtRegisterSharedHandleToNodes(&handle, &room_for_address, &other, 5000, at_the_end));
    EXPECT(INVALID_NODE_UNIT, hsaKmtRegisterGraphicsHandleToNodes(0, &info, 5000, at_the_end));
    EXPECT(SUCCESS, hsaKmtDeregisterMemory(memory));
    query(__LINE__, memory);
}

/* Attributes are looked at once the range is a range. */
static void attributes(void) {
    HSA_SVM_ATTRIBUTE *nowhere = (HSA_SVM_ATTRIBUTE *)(void *)0x10;
    EXPECT(INVALID_PARAMETER, hsaKmtSVMSetAttr(NULL, 0x1000, 3, nowhere));
    EXPECT(INVALID_PARAMETER, hsaKmtSVMSetAttr((void *)0x10000, 0, 3, nowhere));
    EXPECT(INVALID_PARAMETER, hsaKmtSVMSetAttr((void *)0x10001, 0x1000, 3, nowhere));
    EXPECT(INVALID_PARAMETER, hsaKmtSVMSetAttr((void *)0x10000, 0x1001, 3, nowhere));
    EXPECT(INVALID_PARAMETER, hsaKmtSVMGetAttr(NULL, 0x1000, 3, nowhere));
    EXPECT(INVALID_PARAMETER, hsaKmtSVMGetAttr((void *)0x10000, 0, 3, nowhere));
    EXPECT(INVALID_PARAMETER, hsaKmtSVMGetAttr((void *)0x10001, 0x1000, 3, nowhere));
    EXPECT(INVALID_PARAMETER, hsaKmtSVMGetAttr((void *)0x10000, 0x1001, 3, nowhere));
}

static void topology(void) {
    static char room[sizeof(HsaNodeProperties) + 1];
    HsaNodeProperties *crooked = (HsaNodeProperties *)(void *)(room + 1);
    HsaNodeProperties node;
    HsaMemoryProperties banks[16];
    HsaCacheProperties *caches = calloc(16, sizeof *caches);
    HsaIoLinkProperties links[16];
    EXPECT(SUCCESS, hsaKmtGetNodeProperties(1, &node));
    EXPECT(SUCCESS, hsaKmtGetNodeProperties(1, crooked));
    if (memcmp(crooked, &node, sizeof node)) {
        puts("an unaligned answer differs");
        wrong = 1;
    }
    EXPECT(INVALID_NODE_UNIT, hsaKmtGetNodeProperties(3, &node));
    HsaGpuTileConfig tiling = {NULL, NULL, 0, 0, 0, 0, 0, {0}};
    EXPECT(INVALID_PARAMETER, hsaKmtGetTileConfig(1, NULL));
    EXPECT(SUCCESS, hsaKmtGetTileConfig(1, &tiling));
    EXPECT(INVALID_NODE_UNIT, hsaKmtGetTileConfig(3, &tiling));
    tiling.NumTileConfigs = ~0u;
    EXPECT(INVALID_PARAMETER, hsaKmtGetTileConfig(1, &tiling));
    HsaClockCounters clocks;
    EXPECT(INVALID_PARAMETER, hsaKmtGetClockCounters(1, NULL));
    EXPECT(INVALID_NODE_UNIT, hsaKmtGetClockCounters(3, &clocks));
    EXPECT(SUCCESS, hsaKmtGetClockCounters(1, &clocks));
    EXPECT(INVALID_NODE_UNIT, hsaKmtGetNodeProperties(~0u, &node));
    EXPECT(INVALID_NODE_UNIT, hsaKmtGetNodeMemoryProperties(3, 1, banks));
    EXPECT(SUCCESS, hsaKmtGetNodeMemoryProperties(1, 0, banks));
    EXPECT(SUCCESS, hsaKmtGetNodeMemoryProperties(1, 16, banks));
    EXPECT(INVALID_NODE_UNIT, hsaKmtGetNodeCacheProperties(~0u, 0, 1, caches));
    EXPECT(INVALID_PARAMETER, hsaKmtGetNodeCacheProperties(1, 0, ~0u, caches));
    EXPECT(SUCCESS, hsaKmtGetNodeCacheProperties(1, ~0u, node.NumCaches < 16 ? node.NumCaches : 16, caches));
    EXPECT(INVALID_NODE_UNIT, hsaKmtGetNodeIoLinkProperties(~0u, 1, links));
    EXPECT(INVALID_PARAMETER, hsaKmtGetNodeIoLinkProperties(1, ~0u, links));
    EXPECT(SUCCESS, hsaKmtGetNodeIoLinkProperties(1, node.NumIOLinks < 16 ? node.NumIOLinks : 16, links));
    free(caches);
}

static void events(void) {
    HsaEventDescriptor unknown = {.EventType = HSA_EVENTTYPE_MAXID}, memory = {.EventType = HSA_EVENTTYPE_MEMORY};
    HsaEvent *event = (HsaEvent *)(void *)5, *none[2] = {NULL, NULL};
    EXPECT(INVALID_PARAMETER, hsaKmtCreateEvent(NULL, true, false, &event));
    EXPECT(INVALID_PARAMETER, hsaKmtCreateEvent(&unknown, true, false, &event));
    EXPECT(INVALID_PARAMETER, hsaKmtCreateEvent(&memory, true, false, NULL));
    EXPECT(INVALID_HANDLE, hsaKmtDestroyEvent(NULL));
    EXPECT(INVALID_HANDLE, hsaKmtSetEvent(NULL));
    EXPECT(INVALID_HANDLE, hsaKmtResetEvent(NULL));
    EXPECT(INVALID_HANDLE, hsaKmtQueryEventState(NULL));
    EXPECT(INVALID_HANDLE, hsaKmtWaitOnMultipleEvents(NULL, 2, true, 0));
    EXPECT(INVALID_HANDLE, hsaKmtWaitOnMultipleEvents(none, 2, true, 0));
    EXPECT(SUCCESS, hsaKmtCreateEvent(&memory, true, true, &event));
    EXPECT(ERROR, hsaKmtSetEvent(event));
    EXPECT(ERROR, hsaKmtResetEvent(event));
    EXPECT(WAIT_TIMEOUT, hsaKmtWaitOnEvent(event, 1));
    EXPECT(SUCCESS, hsaKmtDestroyEvent(event));
}

static void opened(void) {
    HsaSystemProperties system;
    HsaVersionInfo version;
    EXPECT(SUCCESS, hsaKmtOpenKFD());
    EXPECT(INVALID_PARAMETER, hsaKmtGetVersion(NULL));
    EXPECT(SUCCESS, hsaKmtGetVersion(&version));
    EXPECT(INVALID_PARAMETER, hsaKmtAcquireSystemProperties(NULL));
    EXPECT(SUCCESS, hsaKmtAcquireSystemProperties(&system));
    topology();
    addresses();
    queues();
    allocations();
    lists();
    attributes();
    events();
    addresses();
    EXPECT(SUCCESS, hsaKmtReleaseSystemProperties());
    EXPECT(SUCCESS, hsaKmtCloseKFD());
}

int main(int argc, char **argv) {
    closed();
    if (argc > 1 && !strcmp(argv[1], "open")) {
        opened();
        closed();
    }
    return wrong;
}
