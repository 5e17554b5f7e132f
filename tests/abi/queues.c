/* Queues of every kind on the first GPU: made, changed, masked, ended; and what is refused. The same program runs on our
 * library and on Debian's (-DHSAKMT_H="hsakmt.h"). Prints statuses, and addresses only as what they say of each other. With
 * an argument it makes only calls that make the same ioctls on the C library of 2025-08, and leaves the last queues open. */
#ifndef HSAKMT_H
#define HSAKMT_H "hsakmt/hsakmt.h"
#endif
#include HSAKMT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static HSAuint32 gpu;
static void *ring;
/* Where an AQL queue of the caller's has its pointers. */
static HSAuint64 *aql;

static const struct {
    const char *name;
    HSA_QUEUE_TYPE type;
} kinds[] = {
    {"compute", HSA_QUEUE_COMPUTE},
    {"aql", HSA_QUEUE_COMPUTE_AQL},
    {"sdma", HSA_QUEUE_SDMA},
    {"xgmi", HSA_QUEUE_SDMA_XGMI},
};

/* A page of host memory that the GPU has mapped, as the kernel demands of ring and pointers. */
static void *page(void) {
    static char own[2][4096] __attribute__((aligned(4096)));
    static int taken;
    HsaMemFlags flags = {.Value = 0};
    void *memory = NULL;
    HSAuint64 address;
    /* The GPU of an old APU uses the process's own addresses. */
    if (gpu == 0)
        return own[taken++ % 2];
    flags.ui32.NonPaged = 1;
    flags.ui32.HostAccess = 1;
    flags.ui32.CoarseGrain = 1;
    if (hsaKmtAllocMemory(0, 4096, flags, &memory) || hsaKmtMapMemoryToGPU(memory, 4096, &address)) {
        puts("no memory");
        exit(1);
    }
    return memory;
}

static HSAKMT_STATUS make(HSA_QUEUE_TYPE type, HsaQueueResource *made) {
    memset(made, 0, sizeof *made);
    if (type == HSA_QUEUE_COMPUTE_AQL) {
        made->QueueWptrValue = (HSAuint64)&aql[0];
        made->QueueRptrValue = (HSAuint64)&aql[1];
    }
    return hsaKmtCreateQueue(gpu, type, 100, HSA_QUEUE_PRIORITY_NORMAL, ring, 4096, NULL, made);
}

static void one(int index) {
    HsaQueueResource made;
    HSAuint32 mask[2] = {0xff, 0}, first = 7;
    HSAKMT_STATUS status = make(kinds[index].type, &made);
    printf("%s: %d\n", kinds[index].name, status);
    if (status)
        return;
    HSAuint64 write = made.QueueWptrValue, read = made.QueueRptrValue;
    int own = write - made.QueueId < 4096 && read - made.QueueId < 4096;
    printf("  pointers %s, doorbell at %llu\n", own ? "its own" : "the caller's",
           (unsigned long long)((HSAuint64)made.Queue_DoorBell & 4095));
    if (own)
        printf("  write %llu read %llu\n", *(unsigned long long *)write, *(unsigned long long *)read);
#ifndef OF_5_2_3
    /* 5.2.3 says a wrong place for the first doorbell of a GPU. */
    *(volatile HSAuint64 *)made.Queue_DoorBell = 1;
#endif
    HSA_QUEUEID id = made.QueueId;
    for (int level = -4; level <= 4; level++)
        printf("  update %d: %d\n", level, hsaKmtUpdateQueue(id, 50, level, ring, 4096, NULL));
    printf("  update to no power of two: %d\n", hsaKmtUpdateQueue(id, 50, 0, ring, 4097, NULL));
    printf("  stop: %d\n", hsaKmtUpdateQueue(id, 0, 0, NULL, 0, NULL));
    printf("  mask: %d %d %d %d\n", hsaKmtSetQueueCUMask(id, 64, mask), hsaKmtSetQueueCUMask(id, 0, mask),
           hsaKmtSetQueueCUMask(id, 33, mask), hsaKmtSetQueueCUMask(id, 32, NULL));
    printf("  gws: %d, first %u\n", hsaKmtAllocQueueGWS(id, 1, &first), first);
    printf("  destroy: %d\n", hsaKmtDestroyQueue(id));
}

/* A child has nothing of its parent's. */
static void forked(HSA_QUEUEID id) {
    fflush(stdout);
    if (!fork()) {
        HSAuint32 mask = 1;
        HsaQueueResource made;
        printf("child: %d %d %d %d\n", make(HSA_QUEUE_SDMA, &made), hsaKmtUpdateQueue(id, 1, 0, ring, 4096, NULL),
               hsaKmtDestroyQueue(id), hsaKmtSetQueueCUMask(id, 32, &mask));
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
}

int main(int count, char **arguments) {
    (void)arguments;
    HsaSystemProperties system;
    HsaNodeProperties node;
    HsaQueueResource made, live[3];
    HsaQueueInfo info;
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("before open: %d %d\n", make(HSA_QUEUE_SDMA, &made), hsaKmtDestroyQueue(0));
    printf("open: %d\n", hsaKmtOpenKFD());
    printf("before acquire: %d\n", make(HSA_QUEUE_SDMA, &made));
    printf("acquire: %d\n", hsaKmtAcquireSystemProperties(&system));
    do
        hsaKmtGetNodeProperties(gpu, &node);
    while (!node.NumFComputeCores && ++gpu < system.NumNodes);
    ring = page(), aql = page();
    for (int i = 0; i < (int)(sizeof kinds / sizeof *kinds); i++)
        one(i);
    memset(&made, 0, sizeof made);
    printf("no such node: %d\n", hsaKmtCreateQueue(99, HSA_QUEUE_SDMA, 100, 0, ring, 4096, NULL, &made));
    if (count == 1)
        printf("no such kind: %d\n", hsaKmtCreateQueue(gpu, HSA_QUEUE_DMA_AQL, 100, 0, ring, 4096, NULL, &made));
    printf("too urgent: %d\n", hsaKmtCreateQueue(gpu, HSA_QUEUE_SDMA, 100, 4, ring, 4096, NULL, &made));
    printf("too much: %d\n", hsaKmtCreateQueue(gpu, HSA_QUEUE_SDMA, 101, 0, ring, 4096, NULL, &made));
    printf("odd ring: %d\n", hsaKmtCreateQueue(gpu, HSA_QUEUE_COMPUTE, 100, 0, ring, 4095, NULL, &made));
    printf("none: %d %d %d\n", hsaKmtUpdateQueue(0, 1, 0, ring, 4096, NULL), hsaKmtDestroyQueue(0),
           hsaKmtGetQueueInfo(0, &info));
    for (int i = 0; i < 3; i++)
        printf("live %d: %d\n", i, make(kinds[i].type, &live[i]));
    printf("info: %d %d\n", hsaKmtGetQueueInfo(live[2].QueueId, &info), hsaKmtGetQueueInfo(live[1].QueueId, NULL));
    forked(live[0].QueueId);
    printf("destroy after a fork: %d\n", hsaKmtDestroyQueue(live[0].QueueId));
    if (count > 1)
        _exit(0);
    printf("close with two: %d\n", hsaKmtCloseKFD());
    printf("open again: %d\n", hsaKmtOpenKFD());
    printf("acquire again: %d\n", hsaKmtAcquireSystemProperties(&system));
    ring = page(), aql = page();
    printf("make again: %d\n", make(HSA_QUEUE_COMPUTE_AQL, &made));
    printf("destroy: %d\n", hsaKmtDestroyQueue(made.QueueId));
    printf("close: %d\n", hsaKmtCloseKFD());
    return 0;
}
