/* A thread of the asynchronous type that is cancelled while it is inside an entry. The entry does its work whole; then the
 * thread ends where cancellation is let through again, with its clean-up handlers. Later entries find no lock taken. */
#define _GNU_SOURCE
#include "hsakmt/hsakmt.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static __thread int armed;
static int cleaned, returned;
static void *memory;

/* The library's call comes here: the request to end comes while cancellation is off. */
int pthread_setcancelstate(int state, int *old) {
    static int (*real)(int, int *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_setcancelstate");
    int failed = real(state, old);
    if (armed && state == PTHREAD_CANCEL_DISABLE) {
        armed = 0;
        pthread_cancel(pthread_self());
    }
    return failed;
}

static void clean(void *unused) {
    (void)unused;
    cleaned++;
}

static void acquire(void) {
    HsaSystemProperties system;
    hsaKmtAcquireSystemProperties(&system);
}

static void allocate(void) {
    hsaKmtAllocMemory(1, 0x1000, (HsaMemFlags){.Value = 1}, &memory);
}

static void end(void) {
    hsaKmtFreeMemory(memory, 0x1000);
}

static void *run(void *entry) {
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    pthread_cleanup_push(clean, NULL);
    armed = 1;
    ((void (*)(void))entry)();
    returned = 1;
    pthread_cleanup_pop(0);
    return NULL;
}

static int ends(void (*entry)(void)) {
    pthread_t thread;
    int before = cleaned;
    /* What glibc 2.36 gives pthread_join is not PTHREAD_CANCELED here. */
    return !pthread_create(&thread, NULL, run, (void *)entry) && !pthread_join(thread, NULL) && !returned &&
           cleaned == before + 1;
}

#define EXPECT(condition)                                      \
    do {                                                       \
        if (!(condition)) {                                    \
            printf("line %d: not " #condition "\n", __LINE__); \
            return 1;                                          \
        }                                                      \
    } while (0)

int main(void) {
    HsaPointerInfo info;
    alarm(60);
    EXPECT(!hsaKmtOpenKFD());
    EXPECT(ends(acquire) && ends(allocate));
    EXPECT(!hsaKmtQueryPointerInfo(memory, &info) && info.SizeInBytes == 0x1000);
    EXPECT(ends(end));
    EXPECT(hsaKmtQueryPointerInfo(memory, &info) == HSAKMT_STATUS_ERROR);
    EXPECT(!hsaKmtCloseKFD());
    return 0;
}
