/* A thread that stops in the middle of a query of a secondary context. The primary context does not notice; changes of the
 * secondary one fail with NO_MEMORY when too much waits for the thread: once after a pause, then at once, until the thread
 * goes on. What ends something works all the while. Started with HSAKMT_MAX_RETIRED_MIB=1. */
#include "hsakmt/hsakmt.h"
#include "hsakmt/hsakmtctx.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Into the query, past its entry: it takes some hundred instructions. */
enum { STEPS = 60, CHANGES = 60000 };

static const HsaMemFlags vram = {.Value = 1};
static HsaKFDContext *contexts[2];
static void *memory[2];
static sem_t stopped, go_on;
static int step;

static void trap(int number) {
    (void)number;
    if (++step == STEPS) {
        sem_post(&stopped);
        while (sem_wait(&go_on))
            ;
    }
}

static void *reader(void *unused) {
    HsaPointerInfo info;
    if (hsaKmtQueryPointerInfoCtx(contexts[1], memory[1], &info))
        exit(10);
    __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
    HSAKMT_STATUS status = hsaKmtQueryPointerInfoCtx(contexts[1], memory[1], &info);
    __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
    if (status || info.SizeInBytes != 0x1000)
        exit(11);
    return unused;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static HSAKMT_STATUS change(int which, uintptr_t word) {
    return hsaKmtSetMemoryUserDataCtx(contexts[which], memory[which], (void *)word);
}

#define EXPECT(condition)                                         \
    do {                                                          \
        if (!(condition)) {                                       \
            printf("line %d: not " #condition "\n", __LINE__);    \
            return 4;                                             \
        }                                                         \
    } while (0)

int main(void) {
    HsaSystemProperties system;
    pthread_t thread;
    void *buffer;
    alarm(60);
    sem_init(&stopped, 0, 0);
    sem_init(&go_on, 0, 0);
    signal(SIGTRAP, trap);
    EXPECT(!hsaKmtOpenKFDCtx(&contexts[0]) && !hsaKmtAcquireSystemProperties(&system));
    EXPECT(!hsaKmtOpenSecondaryKFDCtx(&contexts[1]));
    for (int which = 0; which < 2; which++)
        EXPECT(!hsaKmtAllocMemoryCtx(contexts[which], 1, 0x1000, vram, &memory[which]));
    EXPECT(!hsaKmtAllocMemoryCtx(contexts[1], 1, 0x1000, vram, &buffer));
    pthread_create(&thread, NULL, reader, NULL);
    sem_wait(&stopped);

    double start = now();
    for (uintptr_t word = 0; word < CHANGES; word++)
        EXPECT(change(0, word) == HSAKMT_STATUS_SUCCESS);
    printf("%d changes of the primary context in %.2f s\n", CHANGES, now() - start);

    start = now();
    uintptr_t word = 0;
    while (word < CHANGES && change(1, word) == HSAKMT_STATUS_SUCCESS)
        word++;
    EXPECT(word > 100 && word < CHANGES);
    double first = now() - start;
    EXPECT(first > 1 && first < 20);
    start = now();
    for (int turn = 0; turn < 1000; turn++)
        EXPECT(change(1, 7) == HSAKMT_STATUS_NO_MEMORY);
    double later = now() - start;
    printf("the first refusal after %zu changes and %.2f s, a thousand more in %.4f s\n", (size_t)word, first, later);
    EXPECT(later < 1);
    HsaPointerInfo info;
    EXPECT(!hsaKmtQueryPointerInfoCtx(contexts[1], memory[1], &info) && (uintptr_t)info.UserData == word - 1);
    EXPECT(hsaKmtAllocMemoryCtx(contexts[1], 1, 0x1000, vram, &memory[0]) == HSAKMT_STATUS_NO_MEMORY);
    EXPECT(!hsaKmtFreeMemoryCtx(contexts[1], buffer, 0x1000));

    sem_post(&go_on);
    pthread_join(thread, NULL);
    for (word = 0; word < CHANGES; word++)
        EXPECT(change(1, word) == HSAKMT_STATUS_SUCCESS);
    return 0;
}
