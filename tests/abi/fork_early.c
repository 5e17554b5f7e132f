// A fork at any moment, also before the first open while other threads are inside calls, leaves the child a library that
// opens and works: no lock and no reader slot of a thread that the child does not have.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "hsakmt/hsakmt.h"

static volatile int stop;

static void *verbs(void *unused) {
    (void)unused;
    while (!stop)
        if (hsaKmtFreeMemory((void *)0x1000, 4096) != HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED)
            abort();
    return NULL;
}

static void *queries(void *unused) {
    HsaPointerInfo info;
    (void)unused;
    while (!stop)
        if (hsaKmtQueryPointerInfo((void *)0x1000, &info) != HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED)
            abort();
    return NULL;
}

static int child(void) {
    HsaSystemProperties system;
    HsaPointerInfo info;
    HsaMemFlags flags = {.Value = 1};
    void *buffer = NULL;
    alarm(60);
    if (hsaKmtQueryPointerInfo((void *)0x1000, &info) != HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED)
        return 1;
    if (hsaKmtOpenKFD() || hsaKmtAcquireSystemProperties(&system) || hsaKmtAllocMemory(1, 4096, flags, &buffer))
        return 2;
    // More than may wait for a reader that stands still.
    for (uintptr_t i = 0; i < 50000; i++)
        if (hsaKmtSetMemoryUserData(buffer, (void *)i))
            return 3;
    return hsaKmtQueryPointerInfo(buffer, &info) || info.UserData != (void *)49999 || hsaKmtCloseKFD() ? 4 : 0;
}

int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, i % 2 ? queries : verbs, NULL);
    for (int i = 0; i < 20; i++) {
        int status = 0;
        pid_t pid = fork();
        if (pid == 0)
            _exit(child());
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
            printf("child %d: status 0x%x\n", i, status);
            return 1;
        }
    }
    stop = 1;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
