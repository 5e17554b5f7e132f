/* hsaKmtQueueRingDoorbell of libdtif.so: a packet is run when its queue is named, and not before. */
#include <hsakmt/hsakmt.h>
#include "expect.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

HSAKMT_STATUS hsaKmtQueueRingDoorbell(HSA_QUEUEID QueueId);

static void *page(void) {
    HsaMemFlags flags = {.ui32 = {.NonPaged = 1, .HostAccess = 1, .CoarseGrain = 1}};
    void *memory = NULL;
    HSAuint64 address;
    REQUIRE(!hsaKmtAllocMemory(0, 4096, flags, &memory) && !hsaKmtMapMemoryToGPU(memory, 4096, &address));
    return memory;
}

int main(void) {
    HsaSystemProperties system;
    REQUIRE(hsaKmtQueueRingDoorbell(1) == HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED);
    REQUIRE(!hsaKmtOpenKFD() && !hsaKmtAcquireSystemProperties(&system));
    unsigned char *ring = page();
    volatile HSAuint64 *pointers = page();
    HsaQueueResource aql = {.QueueWptrValue = (HSAuint64)&pointers[0], .QueueRptrValue = (HSAuint64)&pointers[8]}, sdma = {0};
    REQUIRE(!hsaKmtCreateQueue(1, HSA_QUEUE_COMPUTE_AQL, 100, HSA_QUEUE_PRIORITY_NORMAL, ring, 4096, NULL, &aql));
    REQUIRE(!hsaKmtCreateQueue(1, HSA_QUEUE_SDMA, 100, HSA_QUEUE_PRIORITY_NORMAL, page(), 4096, NULL, &sdma));
    REQUIRE(hsaKmtQueueRingDoorbell(0) == HSAKMT_STATUS_INVALID_PARAMETER);
    REQUIRE(hsaKmtQueueRingDoorbell(sdma.QueueId) == HSAKMT_STATUS_INVALID_PARAMETER);
    for (HSAuint64 index = 1; index <= 3; index++) {
        /* A barrier that waits for nothing. */
        memset(ring + 64 * (index - 1), 0, 64);
        ring[64 * (index - 1)] = 3;
        pointers[0] = index;
        usleep(20000);
        REQUIRE(pointers[8] == index - 1);
        REQUIRE(!hsaKmtQueueRingDoorbell(aql.QueueId));
        for (int wait = 0; pointers[8] != index && wait < 5000; wait++)
            usleep(1000);
        REQUIRE(pointers[8] == index);
    }
    REQUIRE(!hsaKmtDestroyQueue(aql.QueueId));
    REQUIRE(hsaKmtQueueRingDoorbell(aql.QueueId) == HSAKMT_STATUS_INVALID_PARAMETER);
    REQUIRE(!hsaKmtCloseKFD());
    return 0;
}
