/* hsaKmtQueueRingDoorbell of libdtif.so: a packet is run when its queue is named, and not before. */
#include <hsakmt/hsakmt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

HSAKMT_STATUS hsaKmtQueueRingDoorbell(HSA_QUEUEID QueueId);

#define EXPECT(what)                                                                                                   \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            printf("line %d: %s\n", __LINE__, #what);                                                                  \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static void *page(void) {
    HsaMemFlags flags = {.ui32 = {.NonPaged = 1, .HostAccess = 1, .CoarseGrain = 1}};
    void *memory = NULL;
    HSAuint64 address;
    EXPECT(!hsaKmtAllocMemory(0, 4096, flags, &memory) && !hsaKmtMapMemoryToGPU(memory, 4096, &address));
    return memory;
}

int main(void) {
    HsaSystemProperties system;
    EXPECT(hsaKmtQueueRingDoorbell(1) == HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED);
    EXPECT(!hsaKmtOpenKFD() && !hsaKmtAcquireSystemProperties(&system));
    unsigned char *ring = page();
    volatile HSAuint64 *pointers = page();
    HsaQueueResource aql = {.QueueWptrValue = (HSAuint64)&pointers[0], .QueueRptrValue = (HSAuint64)&pointers[8]}, sdma = {0};
    EXPECT(!hsaKmtCreateQueue(1, HSA_QUEUE_COMPUTE_AQL, 100, HSA_QUEUE_PRIORITY_NORMAL, ring, 4096, NULL, &aql));
    EXPECT(!hsaKmtCreateQueue(1, HSA_QUEUE_SDMA, 100, HSA_QUEUE_PRIORITY_NORMAL, page(), 4096, NULL, &sdma));
    EXPECT(hsaKmtQueueRingDoorbell(0) == HSAKMT_STATUS_INVALID_PARAMETER);
    EXPECT(hsaKmtQueueRingDoorbell(sdma.QueueId) == HSAKMT_STATUS_INVALID_PARAMETER);
    for (HSAuint64 index = 1; index <= 3; index++) {
        /* A barrier that waits for nothing. */
        memset(ring + 64 * (index - 1), 0, 64);
        ring[64 * (index - 1)] = 3;
        pointers[0] = index;
        usleep(20000);
        EXPECT(pointers[8] == index - 1);
        EXPECT(!hsaKmtQueueRingDoorbell(aql.QueueId));
        for (int wait = 0; pointers[8] != index && wait < 5000; wait++)
            usleep(1000);
        EXPECT(pointers[8] == index);
    }
    EXPECT(!hsaKmtDestroyQueue(aql.QueueId));
    EXPECT(hsaKmtQueueRingDoorbell(aql.QueueId) == HSAKMT_STATUS_INVALID_PARAMETER);
    EXPECT(!hsaKmtCloseKFD());
    return 0;
}
