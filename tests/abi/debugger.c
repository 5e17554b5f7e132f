/* A process that debugs itself: what each call answers, and what it says of GPUs and queues. Addresses are not printed. */
#include "hsakmt/hsakmt.h"
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* <linux/kfd_ioctl.h>, as far as it is used here. */
enum { SET_EXCEPTIONS = 3, LAUNCH_MODE = 5, SUSPEND, RESUME, WATCH, UNWATCH, SET_FLAGS, QUERY_EVENT, QUERY_INFO, QUEUES };
struct runtime { uint64_t r_debug; uint32_t state, ttmp; };
struct device {
    uint64_t exceptions, lds[2], scratch[2], gpuvm[2];
    uint32_t gpu_id, location, vendor, device, revision, subsystem[2], firmware, version, simds, waves, arrays, per_engine;
    uint32_t dies, capability, debug;
};
struct queue {
    uint64_t exceptions, ring, write, read, area;
    uint32_t id, gpu_id, ring_size, type, area_size, reserved;
};
struct trap {
    uint32_t pid, op;
    union {
        uint64_t word[3];
        uint32_t half[6];
    };
};

#define TRAP(op, a, b, c) ((struct trap){0, op, {{(uint64_t)(a), (uint64_t)(b), (uint64_t)(c)}}})
#define PAIR(low, high) ((uint64_t)(uint32_t)(low) | (uint64_t)(high) << 32)

static HSA_QUEUEID ids[2];
static uint32_t numbers[2];

static int trap(const char *what, struct trap *trap, HSA_QUEUEID *queues) {
    HSAuint64 returned = 7;
    trap->pid = getpid();
    errno = 0;
    int status = hsaKmtDebugTrapIoctl((struct kfd_ioctl_dbg_trap_args *)trap, queues, &returned);
    printf("%s: %d, returned %ld%s%s\n", what, status, (long)returned, (long)returned < 0 ? ", " : "",
           (long)returned < 0 ? strerror(errno) : "");
    return status;
}

static void operations(void) {
    struct trap t;
    struct queue queues[3] = {{0}};
    t = TRAP(SET_EXCEPTIONS, ~0ull, 0, 0);
    trap("set exceptions", &t, NULL);
    t = TRAP(QUERY_EVENT, 0, 0, 0);
    trap("query an event", &t, NULL);
    printf("  %lx of queue %d\n", t.word[0], t.half[3] == numbers[0]);
    uint32_t list[2] = {numbers[0], numbers[1]};
    t = TRAP(SUSPEND, 0, list, 2);
    trap("suspend new queues", &t, NULL);
    printf("  %x %x\n", list[0] >> 31, list[1] >> 31);
    t = TRAP(QUEUES, 1ull << 30, queues, PAIR(3, sizeof(queues[0])));
    trap("queues", &t, NULL);
    printf("  %u queues of %u bytes\n", t.half[4], t.half[5]);
    for (unsigned i = 0; i < t.half[4] && i < 3; i++)
        printf("  type %u, ring %x, exceptions %lx, known %d\n", queues[i].type, queues[i].ring_size, queues[i].exceptions,
               queues[i].id == numbers[i]);
    t = TRAP(SUSPEND, 0, list, 2);
    trap("suspend by id", &t, ids);
    printf("  %d %d\n", list[0] == numbers[0], list[1] == numbers[1]);
    uint32_t unknown[2] = {numbers[0], 99};
    t = TRAP(RESUME, unknown, 2, 0);
    trap("resume one and a stranger", &t, NULL);
    printf("  %d %x\n", unknown[0] == numbers[0], unknown[1] >> 31);
    t = TRAP(RESUME, 0, 0, 0);
    trap("resume all", &t, NULL);
    t = TRAP(LAUNCH_MODE, 3, 0, 0);
    trap("launch mode", &t, NULL);
    t = TRAP(LAUNCH_MODE, 2, 0, 0);
    trap("no launch mode", &t, NULL);
    t = TRAP(SET_FLAGS, 1, 0, 0);
    trap("flags", &t, NULL);
    t = TRAP(SET_FLAGS, 0, 0, 0);
    trap("no flags", &t, NULL);
    printf("  were %u\n", t.half[0]);
    t = TRAP(QUERY_INFO, queues, PAIR(sizeof(queues), numbers[0]), 31);
    trap("information", &t, NULL);
    t.half[4] = 50;
    trap("information on no exception", &t, NULL);
    t = TRAP(WATCH, 0x1000, PAIR(3, ~0u), 1);
    trap("watch on no GPU", &t, NULL);
    t = TRAP(77, 0, 0, 0);
    trap("no operation", &t, NULL);
}

static void watches(uint32_t gpu_id) {
    struct trap t;
    for (int i = 0; i < 5; i++) {
        t = TRAP(WATCH, 0x1000, PAIR(3, ~0u), gpu_id);
        trap("watch", &t, NULL);
        printf("  as %d\n", (int)t.half[5]);
    }
    t = TRAP(UNWATCH, PAIR(gpu_id, 2), 0, 0);
    trap("unwatch", &t, NULL);
    trap("unwatch again", &t, NULL);
}

static void devices(void) {
    struct device *list = NULL;
    HSAuint32 count = 0, size = 0;
    int status = hsaKmtDbgGetDeviceData((void **)&list, &count, &size);
    printf("devices: %d, %u of %u bytes\n", status, count, size);
    for (unsigned i = 0; list && i < count; i++)
        printf("  %u: version %u, device %x:%x, simds %u, waves %u, arrays %u, dies %u, capability %x, LDS %lx-%lx\n", i,
               list[i].version, list[i].vendor, list[i].device, list[i].simds, list[i].waves, list[i].arrays, list[i].dies,
               list[i].capability, list[i].lds[0], list[i].lds[1]);
    if (list && count)
        watches(list[0].gpu_id);
    free(list);
}

int main(void) {
    HsaSystemProperties system;
    HsaQueueResource made[2];
    HsaMemFlags flags = {.ui32 = {.NonPaged = 1, .HostAccess = 1}};
    void *ring[2];
    HSAuint64 alternate;
    if (hsaKmtOpenKFD() || hsaKmtAcquireSystemProperties(&system))
        return 1;
    for (int i = 0; i < 2; i++)
        if (hsaKmtAllocMemory(0, 0x1000, flags, &ring[i]) || hsaKmtMapMemoryToGPU(ring[i], 0x1000, &alternate))
            return 1;
    struct runtime *runtime = NULL;
    HSAuint32 size = 0, count = 0;
    struct queue *queues = NULL;
    struct trap off = TRAP(SET_EXCEPTIONS, 0, 0, 0);
    trap("before a debugger", &off, NULL);
    printf("runtime: %d\n", hsaKmtRuntimeEnable((void *)0x1234, 1));
    int status = hsaKmtDbgEnable((void **)&runtime, &size);
    printf("debugger: %d, %u bytes: %lx, state %u, ttmp %u\n", status, size, runtime ? runtime->r_debug : 0,
           runtime ? runtime->state : 0, runtime ? runtime->ttmp : 0);
    printf("again: %d\n", hsaKmtDbgEnable((void **)&runtime, &size));
    devices();
    for (int i = 0; i < 2; i++) {
        memset(&made[i], 0, sizeof(made[i]));
        if (hsaKmtCreateQueue(1, HSA_QUEUE_SDMA, 100, HSA_QUEUE_PRIORITY_NORMAL, ring[i], 0x1000, NULL, &made[i]))
            return 1;
        ids[i] = made[i].QueueId;
        numbers[i] = i;
    }
    operations();
    status = hsaKmtDbgGetQueueData((void **)&queues, &count, &size, 1);
    printf("stopped queues: %d, %u of %u bytes\n", status, count, size);
    for (unsigned i = 0; !status && i < count; i++)
        printf("  type %u, ring %x, exceptions %lx\n", queues[i].type, queues[i].ring_size, queues[i].exceptions);
    printf("debugger leaves: %d\n", hsaKmtDbgDisable());
    off = TRAP(RESUME, 0, 0, 0);
    trap("after it", &off, NULL);
    printf("runtime ends: %d\n", hsaKmtRuntimeDisable());
    hsaKmtDestroyQueue(ids[0]);
    hsaKmtDestroyQueue(ids[1]);
    return hsaKmtCloseKFD();
}
