/* Every entry of the library, called with arguments that let it work: on the simulated machine, after an open. The program
 * that includes this defines `fresh`, which makes one call on a thread of its own. Exports without a line here must answer
 * NOT_IMPLEMENTED: so no entry is forgotten. */
#include "hsakmt/hsakmt.h"
#include "hsakmt/hsakmtctx.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef long (*Entry)(long, long, long, long, long, long, long, long, long, long);

struct call {
    const char *name;
    Entry entry;
    long argument[10];
    long status;
};

static int wrong;
static const char *called[512];
static int calls;

/* Calls an entry on a fresh thread; -1 if that cannot be. */
static long fresh(struct call call);

static long run_entry(const struct call *call) {
    const long *a = call->argument;
    return (int)call->entry(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9]);
}

/* Something else is wrong; where entries may be refused, nothing is. */
static void complain(const char *what) {
    if (!getenv("ANY_STATUS")) {
        puts(what);
        wrong = 1;
    }
}

static void expect(int line, long want, struct call call) {
    long got = fresh(call);
    called[calls++] = call.name;
    if (want >= 0 && got != want && !getenv("ANY_STATUS")) {
        printf("line %d: %s: %ld instead of %ld\n", line, call.name, got, want);
        wrong = 1;
    }
}

/* A status of -1: any will do. */
#define CALL(want, name, ...) expect(__LINE__, want, (struct call){#name, NULL, {__VA_ARGS__}, 0})
/* The plain call, then its twin, which may find that the plain one has done it all. */
#define BOTH(want, name, ...) \
    (CALL(want, name, __VA_ARGS__), CALL(-1, name##Ctx, (long)primary, __VA_ARGS__))

/* The plain call and its twin, which answers the same. */
#define EACH(want, name, ...) \
    (CALL(want, name, ##__VA_ARGS__), CALL(want, name##Ctx, (long)primary, ##__VA_ARGS__))

static HsaKFDContext *primary, *second;

static void topology(void) {
    static HsaNodeProperties node;
    static HsaMemoryProperties banks[16];
    static HsaCacheProperties caches[4];
    static HsaIoLinkProperties links[4];
    static HsaClockCounters clocks;
    static HsaVersionInfo version;
    HSAuint32 tiles[32], macros[16];
    HsaGpuTileConfig config = {tiles, macros, 32, 16, 0, 0, 0, {0}};
    CALL(0, hsaKmtGetVersion, (long)&version);
    BOTH(0, hsaKmtGetNodeProperties, 1, (long)&node);
    BOTH(0, hsaKmtGetNodeMemoryProperties, 1, node.NumMemoryBanks, (long)banks);
    BOTH(0, hsaKmtGetNodeCacheProperties, 1, 0, 1, (long)caches);
    BOTH(0, hsaKmtGetNodeIoLinkProperties, 1, 1, (long)links);
    BOTH(0, hsaKmtGetClockCounters, 1, (long)&clocks);
    BOTH(0, hsaKmtGetTileConfig, 1, (long)&config);
    static unsigned char enabled;
    static void *handle;
    CALL(0, hsaKmtModelEnabled, (long)&enabled);
    /* Without libdrm_amdgpu it fails. */
    CALL(-1, hsaKmtGetAMDGPUDeviceHandle, 1, (long)&handle);
}

/* The deprecated debugger, and operations of the present one that this kernel refuses. */
static void debugger(void) {
    static HsaDbgWaveMessage message;
    static HSAuint64 trap[4], word;
    static void *addresses[2];
    static HSA_DBG_WATCH_MODE modes[2];
    CALL(HSAKMT_STATUS_ERROR, hsaKmtDbgWavefrontControl, 1, 1, 1, 0, (long)&message);
    CALL(HSAKMT_STATUS_ERROR, hsaKmtDbgAddressWatch, 1, 2, (long)modes, (long)addresses, (long)trap, 0);
    /* An operation that no kernel has. */
    trap[0] = (HSAuint64)99 << 32;
    CALL(HSAKMT_STATUS_ERROR, hsaKmtDebugTrapIoctl, (long)trap, 0, (long)&word);
    if ((long)word != -1)
        complain("hsaKmtDebugTrapIoctl does not tell what the system call returned");
}

static void counters(void) {
    static HsaCounterProperties *properties;
    static HsaPmcTraceRoot root;
    static HsaCounter counter;
    CALL(0, hsaKmtPmcGetCounterProperties, 1, (long)&properties);
    CALL(0, hsaKmtPmcRegisterTrace, 1, 1, (long)&counter, (long)&root);
    CALL(0, hsaKmtPmcAcquireTraceAccess, 1, root.TraceId);
    /* No kernel has what it takes to start one. */
    CALL(HSAKMT_STATUS_ERROR, hsaKmtPmcStartTrace, root.TraceId, (long)&counter, sizeof(counter));
    CALL(HSAKMT_STATUS_NO_MEMORY, hsaKmtPmcQueryTrace, root.TraceId);
    CALL(HSAKMT_STATUS_ERROR, hsaKmtPmcStopTrace, root.TraceId);
    CALL(0, hsaKmtPmcReleaseTraceAccess, 1, root.TraceId);
    CALL(0, hsaKmtPmcUnregisterTrace, 1, root.TraceId);
}

static void memory(void) {
    static HsaPointerInfo info;
    static HSAuint64 alternate, bytes, offset, size;
    static HSAuint32 nodes[] = {1, 2};
    static HsaSharedMemoryHandle handle;
    static HsaGraphicsResourceInfo graphics;
    static void *vram, *aligned, *shared;
    static int file;
    char *host = mmap(NULL, 0x4000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    BOTH(0, hsaKmtAllocMemory, 1, 0x4000, 1, (long)&vram);
    BOTH(0, hsaKmtAllocMemoryAlign, 1, 0x4000, 0x10000, 1, (long)&aligned);
    BOTH(0, hsaKmtAvailableMemory, 1, (long)&bytes);
    BOTH(0, hsaKmtQueryPointerInfo, (long)vram, (long)&info);
    BOTH(0, hsaKmtSetMemoryUserData, (long)vram, 7);
    BOTH(0, hsaKmtMapMemoryToGPU, (long)vram, 0x4000, (long)&alternate);
    BOTH(0, hsaKmtMapMemoryToGPUNodes, (long)vram, 0x4000, (long)&alternate, 0, 1, (long)nodes);
    BOTH(0, hsaKmtUnmapMemoryToGPU, (long)vram);
    BOTH(0, hsaKmtShareMemory, (long)vram, 0x4000, (long)&handle);
    BOTH(0, hsaKmtRegisterSharedHandle, (long)&handle, (long)&shared, (long)&size);
    BOTH(0, hsaKmtRegisterSharedHandleToNodes, (long)&handle, (long)&shared, (long)&size, 1, (long)nodes);
    BOTH(0, hsaKmtExportDMABufHandle, (long)vram, 0x4000, (long)&file, (long)&offset);
    BOTH(0, hsaKmtRegisterGraphicsHandleToNodes, file, (long)&graphics, 2, (long)nodes);
    BOTH(0, hsaKmtRegisterGraphicsHandleToNodesExt, file, (long)&graphics, 2, (long)nodes, 0);
    BOTH(-1, hsaKmtUnmapGraphicHandle, 1, (long)graphics.MemoryAddress, 0x4000);
    BOTH(0, hsaKmtRegisterMemory, (long)host, 0x1000);
    BOTH(0, hsaKmtRegisterMemoryToNodes, (long)host + 0x1000, 0x1000, 2, (long)nodes);
    BOTH(0, hsaKmtRegisterMemoryWithFlags, (long)host + 0x2000, 0x1000, 1 << 6);
    BOTH(0, hsaKmtDeregisterMemory, (long)host);
    BOTH(0, hsaKmtFreeMemory, (long)vram, 0x4000);
}

static void svm(void) {
    static HSAint32 mode;
    static HSA_SVM_ATTRIBUTE attributes[1] = {{HSA_SVM_ATTR_GRANULARITY, 9}};
    void *host = mmap(NULL, 0x1000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    BOTH(-1, hsaKmtSVMSetAttr, (long)host, 0x1000, 1, (long)attributes);
    BOTH(-1, hsaKmtSVMGetAttr, (long)host, 0x1000, 1, (long)attributes);
    BOTH(0, hsaKmtGetXNACKMode, (long)&mode);
    BOTH(0, hsaKmtSetXNACKMode, 0);
    BOTH(-1, hsaKmtReplaceAsanHeaderPage, (long)host);
    BOTH(-1, hsaKmtReturnAsanHeaderPage, (long)host);
}

static void runtime(void) {
    static HSAuint32 capabilities;
    BOTH(-1, hsaKmtCheckRuntimeDebugSupport, 0);
    BOTH(-1, hsaKmtRuntimeEnable, 0x1000, 1);
    BOTH(0, hsaKmtGetRuntimeCapabilities, (long)&capabilities);
    BOTH(-1, hsaKmtRuntimeDisable, 0);
    BOTH(0, hsaKmtSetTrapHandler, 1, 0x10000, 0x1000, 0x20000, 0x1000);
    BOTH(HSAKMT_STATUS_NOT_IMPLEMENTED, hsaKmtSetMemoryPolicy, 1, 0, 0, 0x10000, 0x1000);
}

static void events(void) {
    static HsaEventDescriptor signal;
    static HsaEvent *event, *other, *pair[2];
    static HSAuint64 ages[2];
    signal.EventType = HSA_EVENTTYPE_SIGNAL;
    CALL(0, hsaKmtCreateEvent, (long)&signal, 1, 0, (long)&event);
    CALL(0, hsaKmtCreateEventCtx, (long)primary, (long)&signal, 1, 1, (long)&other);
    pair[0] = event, pair[1] = other;
    BOTH(0, hsaKmtSetEvent, (long)event);
    BOTH(0, hsaKmtQueryEventState, (long)event);
    BOTH(0, hsaKmtWaitOnEvent, (long)event, 1000);
    BOTH(0, hsaKmtWaitOnEvent_Ext, (long)event, 1000, (long)ages);
    BOTH(0, hsaKmtWaitOnMultipleEvents, (long)pair, 2, 1, 1000);
    BOTH(0, hsaKmtWaitOnMultipleEvents_Ext, (long)pair, 2, 0, 1000, (long)ages);
    BOTH(0, hsaKmtResetEvent, (long)event);
    CALL(0, hsaKmtDestroyEvent, (long)event);
    CALL(0, hsaKmtDestroyEventCtx, (long)primary, (long)other);
}

static void tools(void) {
    static HsaPcSamplingInfo ways[4];
    static HSAuint32 timeout, copied, needed, session[2];
    static char counters[4096];
    static bool lost;
    static int file;
    EACH(0, hsaKmtOpenSMI, 1, (long)&file);
    CALL(0, hsaKmtSPMAcquire, 1);
    EACH(0, hsaKmtSPMSetDestBuffer, 1, sizeof counters, (long)&timeout, (long)&copied, (long)counters, (long)&lost);
    CALL(0, hsaKmtSPMRelease, 1);
    CALL(0, hsaKmtSPMAcquireCtx, (long)primary, 1);
    CALL(0, hsaKmtSPMReleaseCtx, (long)primary, 1);
    /* The interface of the simulated kernel is older than sampling, which its ioctl does not ask about. */
    EACH(HSAKMT_STATUS_NOT_SUPPORTED, hsaKmtPcSamplingSupport);
    EACH(HSAKMT_STATUS_NOT_SUPPORTED, hsaKmtPcSamplingQueryCapabilities, 1, (long)ways, 4, (long)&needed);
    ways[0].value = 1000, ways[0].method = HSA_PC_SAMPLING_METHOD_KIND_HOSTTRAP_V1;
    CALL(0, hsaKmtPcSamplingCreate, 1, (long)ways, (long)&session[0]);
    CALL(0, hsaKmtPcSamplingCreateCtx, (long)primary, 1, (long)ways, (long)&session[1]);
    /* A session that samples otherwise: the kernel says how it does. */
    ways[1] = ways[0], ways[1].value = 2000;
    CALL(HSAKMT_STATUS_ERROR, hsaKmtPcSamplingCreate, 1, (long)&ways[1], (long)&needed);
    if (ways[1].value != 1000 || needed != 0)
        complain("another session's interval is not told");
    CALL(0, hsaKmtPcSamplingStart, 1, session[0]);
    CALL(0, hsaKmtPcSamplingStartCtx, (long)primary, 1, session[1]);
    CALL(0, hsaKmtPcSamplingStop, 1, session[0]);
    CALL(0, hsaKmtPcSamplingStopCtx, (long)primary, 1, session[1]);
    CALL(0, hsaKmtPcSamplingDestroy, 1, session[0]);
    CALL(0, hsaKmtPcSamplingDestroyCtx, (long)primary, 1, session[1]);
    static void *data;
    /* One debugger at a time, and no queue yet. */
    CALL(0, hsaKmtDbgEnable, (long)&data, (long)&copied);
    CALL(HSAKMT_STATUS_ERROR, hsaKmtDbgEnableCtx, (long)primary, (long)&data, (long)&copied);
    EACH(0, hsaKmtDbgGetDeviceData, (long)&data, (long)&copied, (long)&needed);
    EACH(HSAKMT_STATUS_ERROR, hsaKmtDbgGetQueueData, (long)&data, (long)&copied, (long)&needed, 1);
    CALL(0, hsaKmtDbgDisable);
    CALL(HSAKMT_STATUS_ERROR, hsaKmtDbgDisableCtx, (long)primary);
    EACH(HSAKMT_STATUS_ERROR, hsaKmtDbgRegister, 1);
    EACH(HSAKMT_STATUS_ERROR, hsaKmtDbgUnregister, 1);
}

static void queues(void) {
    static HsaQueueResource compute[2], engine[2], chosen[2], refused;
    static HsaQueueInfo info;
    static HSAuint32 mask = 1, first;
    static HSAuint64 alternate;
    static void *memory;
    CALL(0, hsaKmtAllocMemory, 1, 0x1000, 1, (long)&memory);
    CALL(0, hsaKmtMapMemoryToGPU, (long)memory, 0x1000, (long)&alternate);
    long ring = (long)memory;
    CALL(0, hsaKmtCreateQueue, 1, HSA_QUEUE_SDMA, 100, 0, ring, 0x1000, 0, (long)&engine[0]);
    CALL(0, hsaKmtCreateQueueCtx, (long)primary, 1, HSA_QUEUE_SDMA, 100, 0, ring, 0x1000, 0, (long)&engine[1]);
    EACH(HSAKMT_STATUS_ERROR, hsaKmtCreateQueue, 1, HSA_QUEUE_SDMA_BY_ENG_ID, 100, 0, ring, 0x1000, 0, (long)&refused);
    CALL(0, hsaKmtCreateQueueExt, 1, HSA_QUEUE_COMPUTE, 100, 0, 0, ring, 0x1000, 0, (long)&compute[0]);
    CALL(0, hsaKmtCreateQueueExtCtx, (long)primary, 1, HSA_QUEUE_COMPUTE, 100, 0, 0, ring, 0x1000, 0, (long)&compute[1]);
    CALL(0, hsaKmtCreateQueueExt, 1, HSA_QUEUE_SDMA_BY_ENG_ID, 100, 0, 1, ring, 0x1000, 0, (long)&chosen[0]);
    CALL(0, hsaKmtCreateQueueExtCtx, (long)primary, 1, HSA_QUEUE_SDMA_BY_ENG_ID, 100, 0, 2, ring, 0x1000, 0,
         (long)&chosen[1]);
    /* No GPU has so many engines. */
    EACH(HSAKMT_STATUS_ERROR, hsaKmtCreateQueueExt, 1, HSA_QUEUE_SDMA_BY_ENG_ID, 100, 0, 99, ring, 0x1000, 0,
         (long)&refused);
    EACH(HSAKMT_STATUS_ERROR, hsaKmtGetQueueInfo, compute[0].QueueId, (long)&info);
    EACH(0, hsaKmtUpdateQueue, compute[0].QueueId, 0, 1, ring, 0x1000, 0);
    EACH(0, hsaKmtSetQueueCUMask, compute[0].QueueId, 32, (long)&mask);
    /* It has stopped. */
    EACH(0, hsaKmtGetQueueInfo, compute[0].QueueId, (long)&info);
    if (!info.SaveAreaHeader || info.NumCUAssigned != 32 || !info.CUMaskInfo || info.CUMaskInfo[0] != 1 ||
        info.SaveAreaSizeInBytes || info.ControlStackUsedInBytes || info.ControlStackTop != info.UserContextSaveArea ||
        (char *)info.ControlStackTop != (char *)info.SaveAreaHeader + info.SaveAreaHeader->ControlStackOffset)
        complain("a queue's information is wrong");
    /* One queue of a process has it at a time. */
    CALL(0, hsaKmtAllocQueueGWS, compute[0].QueueId, 1, (long)&first);
    CALL(HSAKMT_STATUS_OUT_OF_RESOURCES, hsaKmtAllocQueueGWSCtx, (long)primary, compute[1].QueueId, 1, (long)&first);
    CALL(0, hsaKmtAllocQueueGWSCtx, (long)primary, compute[0].QueueId, 0, (long)&first);
    for (int i = 0; i < 2; i++) {
        CALL(0, hsaKmtDestroyQueue, compute[i].QueueId);
        CALL(0, hsaKmtDestroyQueue, engine[i].QueueId);
    }
    CALL(0, hsaKmtDestroyQueueCtx, (long)primary, chosen[0].QueueId);
    CALL(0, hsaKmtDestroyQueueCtx, (long)primary, chosen[1].QueueId);
    EACH(HSAKMT_STATUS_INVALID_PARAMETER, hsaKmtDestroyQueue, chosen[1].QueueId);
    CALL(0, hsaKmtUnmapMemoryToGPU, (long)memory);
    CALL(0, hsaKmtFreeMemory, (long)memory, 0x1000);
}

/* Every name that has no line above. */
static void others(int count, char **names) {
    for (int i = 0; i < count; i++) {
        int known = 0;
        for (int k = 0; k < calls; k++)
            known |= !strcmp(names[i], called[k]);
        if (!known && fresh((struct call){names[i], NULL, {0}, 0}) != HSAKMT_STATUS_NOT_IMPLEMENTED) {
            printf("%s does something, and has no line in this test\n", names[i]);
            wrong = 1;
        }
    }
}

/* All of it; `names` are the exports. */
static void call_every_entry(int count, char **names) {
    static HsaSystemProperties system;
    CALL(HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED, hsaKmtAcquireSystemProperties, (long)&system);
    CALL(0, hsaKmtOpenKFDCtx, (long)&primary);
    CALL(HSAKMT_STATUS_KERNEL_ALREADY_OPENED, hsaKmtOpenKFD, 0);
    BOTH(0, hsaKmtAcquireSystemProperties, (long)&system);
    topology();
    memory();
    svm();
    runtime();
    events();
    counters();
    debugger();
    tools();
    queues();
    CALL(0, hsaKmtOpenSecondaryKFDCtx, (long)&second);
    CALL(0, hsaKmtAcquireSystemPropertiesCtx, (long)second, (long)&system);
    CALL(0, hsaKmtCloseSecondaryKFDCtx, (long)second);
    BOTH(0, hsaKmtReleaseSystemProperties, 0);
    /* Other nodes, so that everything is set up anew. */
    if (!access("/dev/kfd-sim/next", F_OK))
        BOTH(-1, hsaKmtAcquireSystemProperties, (long)&system);
    CALL(0, hsaKmtCloseKFD, 0);
    CALL(0, hsaKmtCloseKFDCtx, 0);
    others(count, names);
}
