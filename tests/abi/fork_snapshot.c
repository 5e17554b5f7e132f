// A fork while other threads read, drop and take the topology snapshot leaves the child one that it can read and replace.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "hsakmt/hsakmt.h"

static volatile int stop;

static void *reads(void *unused) {
    HsaIoLinkProperties link;
    (void)unused;
    while (!stop) {
        HSAKMT_STATUS status = hsaKmtGetNodeIoLinkProperties(1, 1, &link);
        // Without a snapshot there is no node.
        if (status != HSAKMT_STATUS_SUCCESS && status != HSAKMT_STATUS_INVALID_NODE_UNIT)
            abort();
    }
    return NULL;
}

static void *changes(void *unused) {
    HsaSystemProperties system;
    (void)unused;
    while (!stop)
        if (hsaKmtReleaseSystemProperties() || hsaKmtAcquireSystemProperties(&system) || system.NumNodes != 3)
            abort();
    return NULL;
}

static int child(void) {
    HsaSystemProperties system;
    HsaNodeProperties node;
    alarm(60);
    if (hsaKmtGetNodeProperties(1, &node) != HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED)
        return 1;
    if (hsaKmtOpenKFD() || hsaKmtAcquireSystemProperties(&system) || hsaKmtGetNodeProperties(1, &node))
        return 2;
    if (hsaKmtReleaseSystemProperties() || hsaKmtGetNodeProperties(1, &node) != HSAKMT_STATUS_INVALID_NODE_UNIT)
        return 3;
    return hsaKmtAcquireSystemProperties(&system) || hsaKmtGetNodeProperties(1, &node) || hsaKmtCloseKFD() ? 4 : 0;
}

int main(void) {
    HsaSystemProperties system;
    pthread_t threads[4];
    if (hsaKmtOpenKFD() || hsaKmtAcquireSystemProperties(&system))
        return 1;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, i ? reads : changes, NULL);
    for (int i = 0; i < 30; i++) {
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
