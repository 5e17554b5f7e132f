/* Contexts share nothing but the topology, on a machine with one CPU node and two GPUs without the SVM API. */
#include "hsakmt/hsakmt.h"
#include "hsakmt/hsakmtctx.h"
#include "expect.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static HsaMemFlags flags(HSAuint32 value) {
    HsaMemFlags flags;
    flags.Value = value;
    return flags;
}

static void *allocate(HsaKFDContext *ctx, HSAuint32 node, HSAuint32 how) {
    void *memory = NULL;
    EXPECT(SUCCESS, hsaKmtAllocMemoryCtx(ctx, node, 0x4000, flags(how), &memory));
    return memory;
}

static HSA_POINTER_TYPE type(HsaKFDContext *ctx, const void *pointer) {
    HsaPointerInfo info;
    HSAKMT_STATUS status = hsaKmtQueryPointerInfoCtx(ctx, pointer, &info);
    SAME(info.Type ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_ERROR, status);
    return info.Type;
}

/* What is made in one is unknown in the other, whatever is asked of it. */
static void apart(HsaKFDContext *one, HsaKFDContext *other) {
    char *memory = allocate(one, 1, 1);
    HSAuint64 alternate;
    SAME(HSA_POINTER_ALLOCATED, type(one, memory + 0x3fff));
    SAME(HSA_POINTER_UNKNOWN, type(other, memory + 0x3fff));
    EXPECT(ERROR, hsaKmtSetMemoryUserDataCtx(other, memory, &wrong));
    EXPECT(INVALID_PARAMETER, hsaKmtMapMemoryToGPUCtx(other, memory, 0x4000, &alternate));
    EXPECT(ERROR, hsaKmtUnmapMemoryToGPUCtx(other, memory));
    EXPECT(MEMORY_NOT_REGISTERED, hsaKmtFreeMemoryCtx(other, memory, 0x4000));
    EXPECT(MEMORY_NOT_REGISTERED, hsaKmtDeregisterMemoryCtx(other, memory));
    EXPECT(SUCCESS, hsaKmtMapMemoryToGPUCtx(one, memory, 0x4000, &alternate));
    EXPECT(SUCCESS, hsaKmtUnmapMemoryToGPUCtx(one, memory));
    EXPECT(SUCCESS, hsaKmtFreeMemoryCtx(one, memory, 0x4000));
    SAME(HSA_POINTER_UNKNOWN, type(one, memory));
}

/* Handles without an address may be the same number in both. */
static void handles(HsaKFDContext *one, HsaKFDContext *other) {
    void *first = allocate(one, 1, 1 | 1 << 18), *second = allocate(other, 2, 1 | 1 << 18);
    HsaPointerInfo info;
    EXPECT(SUCCESS, hsaKmtQueryPointerInfoCtx(one, first, &info));
    SAME(1, info.Node);
    EXPECT(SUCCESS, hsaKmtQueryPointerInfoCtx(other, second, &info));
    SAME(2, info.Node);
    EXPECT(SUCCESS, hsaKmtFreeMemoryCtx(one, first, 0x4000));
    SAME(HSA_POINTER_ALLOCATED, type(other, second));
    EXPECT(SUCCESS, hsaKmtFreeMemoryCtx(other, second, 0x4000));
}

/* The kernel refuses a secondary context userptrs: registering is an error, paged host memory is another kind. */
static void no_userptrs(HsaKFDContext *second) {
    void *host = mmap(NULL, 0x1000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(ERROR, hsaKmtRegisterMemoryCtx(second, host, 0x1000));
    SAME(HSA_POINTER_UNKNOWN, type(second, host));
    char *paged = allocate(second, 0, 1 << 6);
    memset(paged, 1, 0x4000);
    SAME(HSA_POINTER_ALLOCATED, type(second, paged));
    EXPECT(SUCCESS, hsaKmtFreeMemoryCtx(second, paged, 0x4000));
}

/* There are places for 63 of them; a place given back is free again. */
static void crowd(void) {
    HsaKFDContext *many[63], *last = NULL;
    for (int i = 0; i < 63; i++)
        EXPECT(SUCCESS, hsaKmtOpenSecondaryKFDCtx(&many[i]));
    EXPECT(NO_MEMORY, hsaKmtOpenSecondaryKFDCtx(&last));
    EXPECT(SUCCESS, hsaKmtCloseSecondaryKFDCtx(many[20]));
    EXPECT(SUCCESS, hsaKmtOpenSecondaryKFDCtx(&many[20]));
    for (int i = 0; i < 63; i++)
        EXPECT(SUCCESS, hsaKmtCloseSecondaryKFDCtx(many[i]));
}

static void in_a_child(HsaKFDContext *primary, HsaKFDContext *second) {
    HsaPointerInfo info;
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        EXPECT(KERNEL_IO_CHANNEL_NOT_OPENED, hsaKmtQueryPointerInfoCtx(primary, &info, &info));
        EXPECT(KERNEL_IO_CHANNEL_NOT_OPENED, hsaKmtQueryPointerInfoCtx(second, &info, &info));
        fflush(stdout);
        _exit(wrong);
    }
    int status = 1;
    waitpid(child, &status, 0);
    SAME(0, status);
}

int main(void) {
    HsaKFDContext *primary = NULL, *again = NULL, *second = NULL, *third = NULL;
    HsaSystemProperties system;
    HsaPointerInfo info;
    EXPECT(INVALID_PARAMETER, hsaKmtOpenKFDCtx(NULL));
    EXPECT(INVALID_PARAMETER, hsaKmtOpenSecondaryKFDCtx(NULL));
    EXPECT(SUCCESS, hsaKmtOpenKFDCtx(&primary));
    EXPECT(KERNEL_ALREADY_OPENED, hsaKmtOpenKFDCtx(&again));
    SAME(primary, again);
    EXPECT(SUCCESS, hsaKmtCloseKFDCtx());
    EXPECT(SUCCESS, hsaKmtAcquireSystemPropertiesCtx(primary, &system));
    EXPECT(SUCCESS, hsaKmtOpenSecondaryKFDCtx(&second));
    EXPECT(SUCCESS, hsaKmtAcquireSystemPropertiesCtx(second, &system));
    SAME(3, system.NumNodes);
    SAME(1, primary != second);

    /* The plain calls are the primary context's. */
    void *memory = NULL;
    EXPECT(SUCCESS, hsaKmtAllocMemory(1, 0x4000, flags(1), &memory));
    SAME(HSA_POINTER_ALLOCATED, type(primary, memory));
    EXPECT(SUCCESS, hsaKmtFreeMemoryCtx(primary, memory, 0x4000));
    EXPECT(ERROR, hsaKmtQueryPointerInfo(memory, &info));

    apart(primary, second);
    apart(second, primary);
    handles(primary, second);
    handles(second, primary);
    no_userptrs(second);
    in_a_child(primary, second);

    EXPECT(INVALID_PARAMETER, hsaKmtQueryPointerInfoCtx(NULL, &info, &info));
    EXPECT(INVALID_PARAMETER, hsaKmtFreeMemoryCtx(NULL, memory, 0));
    EXPECT(KERNEL_IO_CHANNEL_NOT_OPENED, hsaKmtQueryPointerInfoCtx((HsaKFDContext *)&info, &info, &info));
    EXPECT(KERNEL_IO_CHANNEL_NOT_OPENED, hsaKmtQueryPointerInfoCtx((HsaKFDContext *)~0ull, &info, &info));
    EXPECT(INVALID_PARAMETER, hsaKmtCloseSecondaryKFDCtx(primary));
    EXPECT(INVALID_PARAMETER, hsaKmtCloseSecondaryKFDCtx(NULL));

    /* Closing one ends its objects and leaves the other alone. */
    void *left = allocate(second, 1, 1), *kept = allocate(primary, 1, 1);
    EXPECT(SUCCESS, hsaKmtCloseSecondaryKFDCtx(second));
    EXPECT(INVALID_PARAMETER, hsaKmtCloseSecondaryKFDCtx(second));
    EXPECT(KERNEL_IO_CHANNEL_NOT_OPENED, hsaKmtQueryPointerInfoCtx(second, left, &info));
    SAME(HSA_POINTER_ALLOCATED, type(primary, kept));
    EXPECT(SUCCESS, hsaKmtOpenSecondaryKFDCtx(&third));
    SAME(HSA_POINTER_UNKNOWN, type(third, left));
    void *fresh = allocate(third, 2, 1);
    SAME(HSA_POINTER_ALLOCATED, type(third, fresh));
    EXPECT(SUCCESS, hsaKmtCloseSecondaryKFDCtx(third));
    crowd();
    EXPECT(SUCCESS, hsaKmtFreeMemory(kept, 0x4000));
    EXPECT(SUCCESS, hsaKmtCloseKFD());
    return wrong;
}
