// An allocator hook that calls the library from inside malloc and free, on the thread whose call is allocating. No verb
// allocates while it holds the writers' lock, so every call from the hook is done: none is refused, none waits for itself.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "hsakmt/hsakmt.h"

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void __libc_free(void *old);

static int armed, inside, hooks, wrong, refused;
static void *known;

static void hook(void) {
    if (!armed || inside)
        return;
    HsaPointerInfo info;
    inside = 1;
    hooks++;
    if (hsaKmtQueryPointerInfo(known, &info) || info.SizeInBytes != 4096)
        wrong++;
    HSAKMT_STATUS status = hsaKmtSetMemoryUserData(known, (void *)(uintptr_t)hooks);
    if (status == HSAKMT_STATUS_ERROR)
        refused++;
    else if (status)
        wrong++;
    if (hsaKmtFreeMemory((char *)known + 4096, 4096) == HSAKMT_STATUS_SUCCESS)
        wrong++;
    inside = 0;
}

void *malloc(size_t size) {
    hook();
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    hook();
    return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size) {
    hook();
    return __libc_realloc(old, size);
}

void free(void *old) {
    hook();
    __libc_free(old);
}

int main(void) {
    HsaSystemProperties system;
    HsaMemFlags flags = {.Value = 1};
    HSAuint32 nodes[64];
    HSAuint64 alternate;
    HsaMemMapFlags one = {.Value = 0};
    for (int i = 0; i < 64; i++)
        nodes[i] = 1 + i % 2;
    alarm(60);
    if (hsaKmtOpenKFD() || hsaKmtAcquireSystemProperties(&system) || hsaKmtAllocMemory(1, 4096, flags, &known))
        return 1;
    char *host = mmap(NULL, 4096 * 150, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    armed = 1;
    for (int i = 0; i < 150; i++) {
        void *buffer = NULL;
        char *user = host + 4096 * i;
        *user = 1;
        if (hsaKmtAllocMemory(1, 4096, flags, &buffer) || hsaKmtMapMemoryToGPU(buffer, 4096, &alternate) ||
            hsaKmtRegisterMemoryToNodes(user, 4096, 64, nodes) || hsaKmtMapMemoryToGPU(user, 4096, &alternate))
            return 2;
        HsaSharedMemoryHandle handle;
        void *import = NULL;
        HSAuint64 bytes;
        if (hsaKmtShareMemory(buffer, 4096, &handle) ||
            hsaKmtRegisterSharedHandleToNodes(&handle, &import, &bytes, 64, nodes) ||
            hsaKmtMapMemoryToGPU(import, 4096, &alternate) || hsaKmtUnmapMemoryToGPU(import) ||
            hsaKmtDeregisterMemory(import) || hsaKmtMapMemoryToGPUNodes(buffer, 4096, &alternate, one, 1, nodes))
            return 6;
        if (hsaKmtUnmapMemoryToGPU(buffer) || (i % 2 && hsaKmtFreeMemory(buffer, 4096)))
            return 3;
        if (i % 3 == 0 && (hsaKmtUnmapMemoryToGPU(user) || hsaKmtDeregisterMemory(user)))
            return 7;
    }
    armed = 0;
    HsaPointerInfo info;
    if (hsaKmtQueryPointerInfo(known, &info) || hsaKmtSetMemoryUserData(known, NULL))
        return 4;
    printf("%d hooks, %d refused, %d wrong\n", hooks, refused, wrong);
    return wrong || refused || !hooks ? 5 : 0;
}
