/* Events, queues, memory, questions and forks, all at once in many threads. Every status is checked; no id is given out twice; a set
 * event ends its wait; nothing is left at the end. */
#define _GNU_SOURCE
#include "hsakmt/hsakmt.h"
#include "expect.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 150, CHILDREN = 10, IDS = 4096, PAGE = 4096 };

static HSAuint32 gpu;
static atomic_int taken[IDS];

static HsaEvent *new_event(bool manual) {
    HsaEventDescriptor wanted;
    HsaEvent *event = NULL;
    memset(&wanted, 0, sizeof wanted);
    wanted.EventType = HSA_EVENTTYPE_SIGNAL;
    EXPECT(SUCCESS, hsaKmtCreateEvent(&wanted, manual, false, &event));
    REQUIRE(event && event->EventId < IDS);
    SAME(0, atomic_fetch_add(&taken[event->EventId], 1));
    return event;
}

static void end_event(HsaEvent *event) {
    atomic_fetch_sub(&taken[event->EventId], 1);
    EXPECT(SUCCESS, hsaKmtDestroyEvent(event));
}

/* One event after the other: set, reset, waited for alone and with another. */
static void *events(void *unused) {
    (void)unused;
    for (int round = 0; round < ROUNDS; round++) {
        HsaEvent *both[2] = {new_event(true), new_event(round & 1)};
        HSAuint64 age = 1, ages[2] = {1, 1};
        EXPECT(WAIT_TIMEOUT, hsaKmtWaitOnEvent(both[0], 0));
        EXPECT(SUCCESS, hsaKmtSetEvent(both[0]));
        EXPECT(SUCCESS, hsaKmtWaitOnEvent(both[0], HSA_EVENTTIMEOUT_INFINITE));
        EXPECT(SUCCESS, hsaKmtWaitOnEvent_Ext(both[0], 1000, &age));
        SAME(2, age);
        EXPECT(SUCCESS, hsaKmtWaitOnMultipleEvents(both, 2, false, 1000));
        EXPECT(WAIT_TIMEOUT, hsaKmtWaitOnMultipleEvents(both, 2, true, 1));
        EXPECT(SUCCESS, hsaKmtSetEvent(both[1]));
        EXPECT(SUCCESS, hsaKmtWaitOnMultipleEvents_Ext(both, 2, true, 1000, ages));
        EXPECT(SUCCESS, hsaKmtQueryEventState(both[0]));
        EXPECT(SUCCESS, hsaKmtResetEvent(both[0]));
        EXPECT(WAIT_TIMEOUT, hsaKmtWaitOnEvent(both[0], 0));
        end_event(both[0]);
        end_event(both[1]);
    }
    return NULL;
}

static HsaEvent *ball[2];

/* Two threads set each other's event: each wait sleeps, and ends. */
static void *player(void *own) {
    HsaEvent *mine = ball[own != NULL], *other = ball[own == NULL];
    for (int round = 0; round < ROUNDS; round++) {
        if (own)
            EXPECT(SUCCESS, hsaKmtSetEvent(other));
        EXPECT(SUCCESS, hsaKmtWaitOnEvent(mine, 20000));
        if (!own)
            EXPECT(SUCCESS, hsaKmtSetEvent(other));
    }
    return NULL;
}

static void *page(void) {
    HsaMemFlags flags = {.ui32 = {.NonPaged = 1, .HostAccess = 1, .CoarseGrain = 1}};
    HSAuint64 address;
    void *memory = NULL;
    REQUIRE(hsaKmtAllocMemory(0, PAGE, flags, &memory) == HSAKMT_STATUS_SUCCESS);
    REQUIRE(hsaKmtMapMemoryToGPU(memory, PAGE, &address) == HSAKMT_STATUS_SUCCESS);
    return memory;
}

static void end_page(void *memory) {
    EXPECT(SUCCESS, hsaKmtUnmapMemoryToGPU(memory));
    EXPECT(SUCCESS, hsaKmtFreeMemory(memory, PAGE));
}

static void *queues(void *unused) {
    static const HSA_QUEUE_TYPE kinds[] = {HSA_QUEUE_COMPUTE, HSA_QUEUE_COMPUTE_AQL, HSA_QUEUE_SDMA};
    HSAuint64 *pointers = page();
    void *ring = page();
    (void)unused;
    for (int round = 0; round < ROUNDS / 3; round++) {
        HsaQueueResource made[3];
        HSAuint32 mask[4] = {~0u, ~0u, ~0u, ~0u};
        memset(made, 0, sizeof made);
        for (int kind = 0; kind < 3; kind++) {
            if (kinds[kind] == HSA_QUEUE_COMPUTE_AQL) {
                made[kind].QueueWptrValue = (HSAuint64)&pointers[0];
                made[kind].QueueRptrValue = (HSAuint64)&pointers[8];
            }
            EXPECT(SUCCESS, hsaKmtCreateQueue(gpu, kinds[kind], 100, HSA_QUEUE_PRIORITY_NORMAL, ring, PAGE, NULL, &made[kind]));
        }
        SAME(0, made[0].QueueId == made[1].QueueId || made[1].QueueId == made[2].QueueId);
        EXPECT(SUCCESS, hsaKmtUpdateQueue(made[0].QueueId, 50, HSA_QUEUE_PRIORITY_LOW, ring, PAGE, NULL));
        EXPECT(SUCCESS, hsaKmtSetQueueCUMask(made[0].QueueId, 128, mask));
        for (int kind = 0; kind < 3; kind++)
            EXPECT(SUCCESS, hsaKmtDestroyQueue(made[kind].QueueId));
    }
    end_page(ring);
    end_page(pointers);
    return NULL;
}

static void *memory(void *unused) {
    (void)unused;
    for (int round = 0; round < ROUNDS; round++) {
        char *memory = page();
        HsaPointerInfo info;
        void *mine = (char *)&info + round;
        EXPECT(SUCCESS, hsaKmtSetMemoryUserData(memory, mine));
        EXPECT(SUCCESS, hsaKmtQueryPointerInfo(memory + 100, &info));
        SAME(memory, info.GPUAddress);
        SAME(mine, info.UserData);
        SAME(1, info.NMappedNodes >= 1);
        end_page(memory);
        /* Another thread may have got the address meanwhile, but not this data with it. */
        HSAKMT_STATUS status = hsaKmtQueryPointerInfo(memory, &info);
        SAME(0, status == HSAKMT_STATUS_SUCCESS && info.UserData == mine);
    }
    return NULL;
}

/* A child has nothing of its parent's, and can open for itself whatever the other threads were doing. */
static void *forks(void *unused) {
    (void)unused;
    for (int round = 0; round < CHILDREN; round++) {
        pid_t child = fork();
        if (!child) {
            HsaSystemProperties system;
            wrong = 0;
            memset(taken, 0, sizeof taken);
            EXPECT(KERNEL_IO_CHANNEL_NOT_OPENED, hsaKmtAcquireSystemProperties(&system));
            EXPECT(SUCCESS, hsaKmtOpenKFD());
            EXPECT(SUCCESS, hsaKmtAcquireSystemProperties(&system));
            HsaEvent *event = new_event(false);
            EXPECT(SUCCESS, hsaKmtSetEvent(event));
            EXPECT(SUCCESS, hsaKmtWaitOnEvent(event, 5000));
            end_event(event);
            end_page(page());
            EXPECT(SUCCESS, hsaKmtCloseKFD());
            fflush(stdout);
            _exit(wrong);
        }
        int status = 1;
        REQUIRE(waitpid(child, &status, 0) == child);
        SAME(0, status);
        usleep(20000);
    }
    return NULL;
}

static int descriptors(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

int main(void) {
    static void *(*const work[])(void *) = {events, events, events, player, player, queues, queues, memory, memory, forks};
    enum { THREADS = sizeof work / sizeof *work };
    pthread_t threads[THREADS];
    HsaSystemProperties system;
    HsaNodeProperties node;
    setvbuf(stdout, NULL, _IOLBF, 0);
    EXPECT(SUCCESS, hsaKmtOpenKFD());
    EXPECT(SUCCESS, hsaKmtAcquireSystemProperties(&system));
    for (HSAuint32 n = system.NumNodes; n-- > 0;)
        if (hsaKmtGetNodeProperties(n, &node) == HSAKMT_STATUS_SUCCESS && node.KFDGpuID)
            gpu = n;
    end_event(new_event(false));
    end_page(page());
    int before = descriptors();
    ball[0] = new_event(false);
    ball[1] = new_event(false);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(!pthread_create(&threads[i], NULL, work[i], i == 4 ? &gpu : NULL));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    end_event(ball[0]);
    end_event(ball[1]);
    for (int id = 0; id < IDS; id++)
        SAME(0, taken[id]);
    SAME(before, descriptors());
    EXPECT(SUCCESS, hsaKmtReleaseSystemProperties());
    EXPECT(SUCCESS, hsaKmtCloseKFD());
    return wrong;
}
