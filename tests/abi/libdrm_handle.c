/* hsaKmtGetAMDGPUDeviceHandle against a libdrm that counts. Arguments: that library's path, or "none" for a machine without
 * one; 1 if the library is a newer one. `dlopen` of this program is the one that the installed library calls. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <hsakmt/hsakmt.h>
#include "expect.h"

static const char *fake;
static int opened;

void *dlopen(const char *name, int flags) {
    static void *(*next)(const char *, int);
    if (!next)
        next = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    if (!name || strcmp(name, "libdrm_amdgpu.so.1"))
        return next(name, flags);
    opened++;
    return fake ? next(fake, flags) : NULL;
}

static int *counter(const char *name) {
    int *value = dlsym(dlopen(fake, RTLD_NOW), name);
    REQUIRE(value);
    return value;
}

static HsaAMDGPUDeviceHandle handle_of(HSAuint32 node, HSAKMT_STATUS want) {
    HsaAMDGPUDeviceHandle handle = NULL;
    HSAKMT_STATUS status = hsaKmtGetAMDGPUDeviceHandle(node, &handle);
    if (status != want) {
        printf("node %u: %d, not %d\n", node, status, want);
        exit(1);
    }
    REQUIRE((handle != NULL) == (status == HSAKMT_STATUS_SUCCESS));
    return handle;
}

static void *of_node_1(void *unused) {
    (void)unused;
    return handle_of(1, HSAKMT_STATUS_SUCCESS);
}

static void with_library(int newer) {
    int *made = counter("fake_made"), *alive = counter("fake_alive"), *refuse = counter("fake_refuse");
    HsaSystemProperties system;

    *refuse = 22;
    handle_of(1, HSAKMT_STATUS_INVALID_HANDLE);
    *refuse = 0;
    HsaAMDGPUDeviceHandle one = handle_of(1, HSAKMT_STATUS_SUCCESS), two = handle_of(2, HSAKMT_STATUS_SUCCESS);
    REQUIRE(one != two && *made == 2);
    REQUIRE(handle_of(1, HSAKMT_STATUS_SUCCESS) == one && handle_of(2, HSAKMT_STATUS_SUCCESS) == two && *made == 2);
    REQUIRE(*counter("fake_bad_fd") == 0);
    REQUIRE(*counter("fake_deduplicated") == (newer ? 0 : 3));

    /* A second Acquire and a Release change nothing; the last close gives both back. */
    REQUIRE(!hsaKmtReleaseSystemProperties() && !hsaKmtAcquireSystemProperties(&system));
    REQUIRE(handle_of(1, HSAKMT_STATUS_SUCCESS) == one);
    REQUIRE(hsaKmtOpenKFD() == HSAKMT_STATUS_KERNEL_ALREADY_OPENED && !hsaKmtCloseKFD() && *alive == 2);

    /* A child starts without handles, and the parent's are its own. */
    pid_t child = fork();
    if (!child) {
        handle_of(1, HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED);
        REQUIRE(!hsaKmtOpenKFD() && !hsaKmtAcquireSystemProperties(&system));
        REQUIRE(handle_of(1, HSAKMT_STATUS_SUCCESS) != one && *made == 3);
        REQUIRE(!hsaKmtCloseKFD() && *alive == 2);
        _exit(0);
    }
    int status;
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);

    REQUIRE(!hsaKmtCloseKFD() && *alive == 0);
    handle_of(1, HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED);

    /* Threads that ask at once get one device, and what was made too much is given back. */
    REQUIRE(!hsaKmtOpenKFD() && !hsaKmtAcquireSystemProperties(&system));
    for (int round = 0; round < 20; round++) {
        pthread_t threads[4];
        void *handles[4];
        for (int i = 0; i < 4; i++)
            REQUIRE(!pthread_create(&threads[i], NULL, of_node_1, NULL));
        for (int i = 0; i < 4; i++)
            REQUIRE(!pthread_join(threads[i], &handles[i]) && handles[i] == handles[0]);
        REQUIRE(*alive == 1);
        REQUIRE(!hsaKmtCloseKFD() && *alive == 0 && !hsaKmtOpenKFD() && !hsaKmtAcquireSystemProperties(&system));
    }
}

int main(int argc, char **argv) {
    REQUIRE(argc == 3);
    fake = strcmp(argv[1], "none") ? argv[1] : NULL;
    HsaSystemProperties system;
    bool enabled = true;
    REQUIRE(!hsaKmtModelEnabled(&enabled) && !enabled);
    REQUIRE(hsaKmtModelEnabled(NULL) == HSAKMT_STATUS_INVALID_PARAMETER);

    handle_of(1, HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED);
    REQUIRE(!hsaKmtOpenKFD());
    handle_of(1, HSAKMT_STATUS_INVALID_NODE_UNIT);
    REQUIRE(!hsaKmtAcquireSystemProperties(&system) && system.NumNodes == 3);
    REQUIRE(hsaKmtGetAMDGPUDeviceHandle(1, NULL) == HSAKMT_STATUS_INVALID_PARAMETER);
    handle_of(0, HSAKMT_STATUS_INVALID_NODE_UNIT);
    handle_of(3, HSAKMT_STATUS_INVALID_NODE_UNIT);

    HsaMemFlags flags = {.ui32 = {.NonPaged = 1, .HostAccess = 1}};
    void *memory = NULL;
    REQUIRE(!hsaKmtAllocMemory(1, 4096, flags, &memory) && !hsaKmtMapMemoryToGPU(memory, 4096, NULL));
    REQUIRE(opened == 0);

    if (fake)
        with_library(atoi(argv[2]));
    else
        handle_of(1, HSAKMT_STATUS_INVALID_HANDLE);
    REQUIRE(opened > 0);
    REQUIRE(!hsaKmtAllocMemory(1, 4096, flags, &memory) && !hsaKmtFreeMemory(memory, 4096));
    REQUIRE(!hsaKmtCloseKFD());
    return 0;
}
