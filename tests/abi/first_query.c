/* A thread's first query from a signal handler that interrupted malloc: first_query LIBRARY [KEYS].
 *
 * The library is loaded by dlopen, as Python loads it, and KEYS pthread keys exist before it is. Nothing on the way of a
 * query may come to malloc or to a lock. In turn 300 threads are single-stepped through an allocation, each to another
 * instruction, where the handler of the trap makes the thread's first query. Then 300 threads allocate and free in a loop
 * while a timer's handler queries. A hang is ended by the alarm. */
#include "hsakmt/hsakmt.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 300, BESIDE = 6, STRIDE = 3, BEFORE_MALLOC = 4 };

static HSAKMT_STATUS (*query)(const void *, HsaPointerInfo *);
static void *memory;
static atomic_ulong queries, wrong;
static _Thread_local long step;
static _Thread_local long stop_at;
static _Thread_local atomic_int asked;

static void ask(void) {
    HsaPointerInfo info;
    if (query(memory, &info) || info.SizeInBytes != 0x1000)
        wrong++;
    queries++;
    asked = 1;
}

static void trap(int number) {
    (void)number;
    if (++step == stop_at)
        ask();
}

static void tick(int number) {
    (void)number;
    ask();
}

static void *stepped(void *at) {
    stop_at = (long)at * STRIDE + BEFORE_MALLOC;
    step = 0;
    __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
    void *volatile block = malloc(1000);
    void *volatile large = malloc(70000);
    free(block);
    free(large);
    __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
    return NULL;
}

static void *looped(void *unused) {
    sigset_t timer;
    sigemptyset(&timer);
    sigaddset(&timer, SIGPROF);
    asked = 0;
    pthread_sigmask(SIG_UNBLOCK, &timer, NULL);
    for (unsigned turn = 0; !asked; turn++)
        free(malloc(turn * 37 % 5000 + 1));
    pthread_sigmask(SIG_BLOCK, &timer, NULL);
    return unused;
}

static void hang(int number) {
    static const char line[] = "first_query.c hangs\n";
    (void)number;
    _exit(write(2, line, sizeof line - 1) < 0 ? 6 : 5);
}

static void on(int number, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(number, &action, NULL);
}

int main(int count, char **arguments) {
    int keys = count > 2 ? atoi(arguments[2]) : 0;
    for (int key = 0; key < keys; key++) {
        pthread_key_t made;
        if (pthread_key_create(&made, NULL)) {
            printf("only %d keys\n", key);
            break;
        }
    }
    void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        puts(dlerror());
        return 1;
    }
    HSAKMT_STATUS (*open_kfd)(void) = dlsym(library, "hsaKmtOpenKFD");
    HSAKMT_STATUS (*acquire)(HsaSystemProperties *) = dlsym(library, "hsaKmtAcquireSystemProperties");
    HSAKMT_STATUS (*allocate)(HSAuint32, HSAuint64, HsaMemFlags, void **) = dlsym(library, "hsaKmtAllocMemory");
    query = (HSAKMT_STATUS(*)(const void *, HsaPointerInfo *))dlsym(library, "hsaKmtQueryPointerInfo");
    HsaSystemProperties system;
    HsaMemFlags vram = {.Value = 1};
    on(SIGALRM, hang);
    alarm(60);
    if (open_kfd() || acquire(&system) || allocate(1, 0x1000, vram, &memory))
        return 2;

    on(SIGTRAP, trap);
    for (long at = 0; at < THREADS; at++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, stepped, (void *)at))
            return 3;
        pthread_join(thread, NULL);
    }
    unsigned long in_steps = queries;

    sigset_t timer;
    sigemptyset(&timer);
    sigaddset(&timer, SIGPROF);
    pthread_sigmask(SIG_BLOCK, &timer, NULL);
    on(SIGPROF, tick);
    struct itimerval pace = {{.tv_usec = 300}, {.tv_usec = 300}};
    setitimer(ITIMER_PROF, &pace, NULL);
    for (int group = 0; group < THREADS / BESIDE; group++) {
        pthread_t threads[BESIDE];
        for (int thread = 0; thread < BESIDE; thread++)
            if (pthread_create(&threads[thread], NULL, looped, NULL))
                return 3;
        for (int thread = 0; thread < BESIDE; thread++)
            pthread_join(threads[thread], NULL);
    }
    printf("%lu first queries in single steps, %lu beside a timer, %lu wrong\n", in_steps, queries - in_steps, wrong);
    return wrong || in_steps < THREADS * 9 / 10 || queries - in_steps < THREADS ? 4 : 0;
}
