/* Waits beside other calls: they hold nothing up, signals neither end nor prolong them, a close does not cut them short, and a
 * forked child has nothing of its parent's events. */
#define _GNU_SOURCE
#include "hsakmt/hsakmt.h"
#include "expect.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static HSAuint32 gpu;

static long milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static HsaEvent *new_event(HSA_EVENTTYPE type, bool manual) {
    HsaEventDescriptor wanted;
    HsaEvent *event = NULL;
    memset(&wanted, 0, sizeof wanted);
    wanted.EventType = type;
    EXPECT(SUCCESS, hsaKmtCreateEvent(&wanted, manual, false, &event));
    return event;
}

struct waiter {
    pthread_t thread;
    HsaEvent *event;
    HSAuint32 timeout;
    volatile int began;
    long status;
};

static void *wait_for(void *argument) {
    struct waiter *waiter = argument;
    waiter->began = 1;
    waiter->status = hsaKmtWaitOnEvent(waiter->event, waiter->timeout);
    return NULL;
}

static void begin(struct waiter *waiter) {
    pthread_create(&waiter->thread, NULL, wait_for, waiter);
    while (!waiter->began)
        usleep(1000);
    usleep(50000);
}

static void beside_a_writer(void) {
    struct waiter waiter = {.event = new_event(HSA_EVENTTYPE_SIGNAL, true), .timeout = HSA_EVENTTIMEOUT_INFINITE};
    HsaMemFlags vram = {.Value = 1};
    HSAuint64 other;
    void *address;
    begin(&waiter);
    EXPECT(SUCCESS, hsaKmtAllocMemory(gpu, 0x1000, vram, &address));
    EXPECT(SUCCESS, hsaKmtMapMemoryToGPU(address, 0x1000, &other));
    EXPECT(SUCCESS, hsaKmtUnmapMemoryToGPU(address));
    EXPECT(SUCCESS, hsaKmtFreeMemory(address, 0x1000));
    EXPECT(SUCCESS, hsaKmtSetEvent(waiter.event));
    pthread_join(waiter.thread, NULL);
    EXPECT(SUCCESS, waiter.status);
    EXPECT(SUCCESS, hsaKmtDestroyEvent(waiter.event));
}

static volatile int ticks;

static void tick(int number) {
    (void)number;
    ticks++;
}

static void interrupted(void) {
    struct sigaction action = {.sa_handler = tick};
    struct itimerval often = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
    HsaEvent *event = new_event(HSA_EVENTTYPE_SIGNAL, true);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    long before = milliseconds();
    EXPECT(WAIT_TIMEOUT, hsaKmtWaitOnEvent(event, 200));
    long took = milliseconds() - before;
    setitimer(ITIMER_REAL, &never, NULL);
    if (!ticks || took < 199) {
        printf("%d signals, %ld ms instead of 200\n", ticks, took);
        wrong = 1;
    }
    EXPECT(SUCCESS, hsaKmtDestroyEvent(event));
}

static void ages(void) {
    HsaEvent *event = new_event(HSA_EVENTTYPE_SIGNAL, false), *memory = new_event(HSA_EVENTTYPE_MEMORY, true);
    HsaEvent *both[] = {event, memory};
    HSAuint64 age[] = {1, 77};
    EXPECT(SUCCESS, hsaKmtSetEvent(event));
    EXPECT(SUCCESS, hsaKmtWaitOnMultipleEvents_Ext(both, 2, false, 1000, age));
    check(__LINE__, "the age", 2, (long)age[0]);
    check(__LINE__, "the age of an event without one", 77, (long)age[1]);
    /* Not signalled any more, and signalled since the caller looked. */
    age[0] = 1;
    EXPECT(SUCCESS, hsaKmtWaitOnEvent_Ext(event, 1000, age));
    check(__LINE__, "the age", 2, (long)age[0]);
    EXPECT(WAIT_TIMEOUT, hsaKmtWaitOnEvent_Ext(event, 1, age));
    EXPECT(SUCCESS, hsaKmtDestroyEvent(event));
    EXPECT(SUCCESS, hsaKmtDestroyEvent(memory));
}

/* One slot each, on a page that the CPU can read and write. */
static void slots(void) {
    HsaEvent *one = new_event(HSA_EVENTTYPE_SIGNAL, true), *two = new_event(HSA_EVENTTYPE_SIGNAL, true);
    volatile HSAuint64 *slot = (HSAuint64 *)(void *)(size_t)one->EventData.HWData2;
    if (!slot || one->EventData.HWData2 == two->EventData.HWData2) {
        puts("events without slots of their own");
        wrong = 1;
    } else {
        *slot = 5;
        *slot = ~0ull;
    }
    EXPECT(SUCCESS, hsaKmtDestroyEvent(one));
    EXPECT(SUCCESS, hsaKmtDestroyEvent(two));
}

static void in_a_child(void) {
    HsaSystemProperties system;
    HsaEvent *event = new_event(HSA_EVENTTYPE_SIGNAL, true);
    fflush(stdout);
    if (!fork()) {
        EXPECT(KERNEL_IO_CHANNEL_NOT_OPENED, hsaKmtSetEvent(event));
        EXPECT(KERNEL_IO_CHANNEL_NOT_OPENED, hsaKmtWaitOnEvent(event, 1));
        EXPECT(SUCCESS, hsaKmtOpenKFD());
        EXPECT(SUCCESS, hsaKmtAcquireSystemProperties(&system));
        slots();
        EXPECT(SUCCESS, hsaKmtCloseKFD());
        fflush(stdout);
        _exit(wrong);
    }
    int status;
    wait(&status);
    wrong |= status != 0;
    EXPECT(SUCCESS, hsaKmtSetEvent(event));
    EXPECT(SUCCESS, hsaKmtWaitOnEvent(event, 1));
    EXPECT(SUCCESS, hsaKmtDestroyEvent(event));
}

int main(void) {
    HsaSystemProperties system;
    for (int opening = 0; opening < 3; opening++) {
        EXPECT(SUCCESS, hsaKmtOpenKFD());
        EXPECT(SUCCESS, hsaKmtAcquireSystemProperties(&system));
        gpu = system.NumNodes - 1;
        slots();
        beside_a_writer();
        ages();
        interrupted();
        in_a_child();
        struct waiter waiter = {.event = new_event(HSA_EVENTTYPE_SIGNAL, true), .timeout = 300};
        begin(&waiter);
        long before = milliseconds();
        EXPECT(SUCCESS, hsaKmtCloseKFD());
        if (milliseconds() - before > 200)
            puts("the close waited"), wrong = 1;
        pthread_join(waiter.thread, NULL);
        EXPECT(WAIT_TIMEOUT, waiter.status);
    }
    return wrong;
}
