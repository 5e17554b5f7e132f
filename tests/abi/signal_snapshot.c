// A signal handler that interrupts a read of the topology snapshot calls verbs while another thread takes and drops it: nobody
// waits for ever, and no call crashes.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>
#include "hsakmt/hsakmt.h"

static volatile sig_atomic_t stop, handled;
static pthread_t reader;

static void verbs(int signal) {
    HsaNodeProperties node;
    if (!pthread_equal(pthread_self(), reader)) {
        pthread_kill(reader, signal);
        return;
    }
    hsaKmtFreeMemory((void *)0x1000, 4096);
    hsaKmtGetNodeProperties(1, &node);
    handled++;
}

static void *changes(void *unused) {
    HsaSystemProperties system;
    (void)unused;
    while (!stop)
        if (hsaKmtReleaseSystemProperties() || hsaKmtAcquireSystemProperties(&system))
            abort();
    return NULL;
}

int main(void) {
    HsaSystemProperties system;
    HsaIoLinkProperties link;
    struct sigaction action = {.sa_handler = verbs, .sa_flags = SA_RESTART};
    struct itimerval timer = {{0, 200}, {0, 200}};
    pthread_t thread;
    reader = pthread_self();
    alarm(60);
    if (hsaKmtOpenKFD() || hsaKmtAcquireSystemProperties(&system) || pthread_create(&thread, NULL, changes, NULL))
        return 1;
    sigaction(SIGPROF, &action, NULL);
    setitimer(ITIMER_PROF, &timer, NULL);
    while (handled < 100)
        for (int i = 0; i < 1000; i++)
            hsaKmtGetNodeIoLinkProperties(1, 1, &link);
    timer = (struct itimerval){0};
    setitimer(ITIMER_PROF, &timer, NULL);
    stop = 1;
    pthread_join(thread, NULL);
    return hsaKmtCloseKFD();
}
