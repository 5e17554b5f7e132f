/* An allocator that queries every block it gives and takes back, without a guard against itself: hook LIBRARY. A query that
 * came to malloc would call it again, without end. Threads that have never queried do so first inside malloc. The library is
 * loaded by dlopen: thread-local storage of such a one may be allocated late. */
#include "hsakmt/hsakmt.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

extern void *__libc_malloc(size_t size);
extern void __libc_free(void *block);

static HSAKMT_STATUS (*query_pointer)(const void *, HsaPointerInfo *);
static atomic_int open_now;
static atomic_ulong queries, wrong;

static void query(const void *block) {
    HsaPointerInfo info;
    if (!open_now || !block)
        return;
    /* Ordinary memory: no object of the library. */
    if (query_pointer(block, &info) != HSAKMT_STATUS_ERROR || info.Type != HSA_POINTER_UNKNOWN)
        wrong++;
    queries++;
}

void *malloc(size_t size) {
    void *block = __libc_malloc(size);
    query(block);
    return block;
}

void free(void *block) {
    query(block);
    __libc_free(block);
}

static void *use(void *unused) {
    for (int turn = 0; turn < 100; turn++)
        free(malloc((size_t)turn * 111 + 1));
    return unused;
}

int main(int count, char **arguments) {
    HsaSystemProperties system;
    HsaMemFlags vram = {.Value = 1};
    void *memory;
    void *library = count > 1 ? dlopen(arguments[1], RTLD_NOW) : NULL;
    if (!library)
        return 6;
    HSAKMT_STATUS (*open_kfd)(void) = dlsym(library, "hsaKmtOpenKFD");
    HSAKMT_STATUS (*acquire)(HsaSystemProperties *) = dlsym(library, "hsaKmtAcquireSystemProperties");
    HSAKMT_STATUS (*release)(void) = dlsym(library, "hsaKmtReleaseSystemProperties");
    HSAKMT_STATUS (*allocate)(HSAuint32, HSAuint64, HsaMemFlags, void **) = dlsym(library, "hsaKmtAllocMemory");
    HSAKMT_STATUS (*end)(void *, HSAuint64) = dlsym(library, "hsaKmtFreeMemory");
    query_pointer = (HSAKMT_STATUS(*)(const void *, HsaPointerInfo *))dlsym(library, "hsaKmtQueryPointerInfo");
    if (open_kfd() || acquire(&system))
        return 1;
    open_now = 1;
    for (int thread = 0; thread < 300; thread++) {
        pthread_t made;
        if (pthread_create(&made, NULL, use, NULL) || pthread_join(made, NULL))
            return 2;
        /* Verbs too: what they allocate before the lock is taken is queried. */
        if (allocate(1, 0x1000, vram, &memory) || end(memory, 0x1000))
            return 3;
    }
    if (release() || acquire(&system))
        return 4;
    open_now = 0;
    printf("%lu queries, %lu wrong\n", queries, wrong);
    return wrong || queries < 300 * 200 ? 5 : 0;
}
