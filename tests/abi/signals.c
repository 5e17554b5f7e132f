/* Signal handlers that call the library, at any instruction of a verb: two threads change words of user data in two
 * contexts as fast as they can, and each is interrupted 50 us after its last interruption by a handler that does the
 * same. A query is answered there; a verb is done, or is ERROR if the thread was inside one. Nobody waits for ever.
 *
 * The handler asks for the next signal when it is done, and for a later one if a thread has not moved since the last:
 * signals at a fixed pace would let a busy machine run nothing but handlers, or never let a call to the kernel end. */
#include "hsakmt/hsakmt.h"
#include "hsakmt/hsakmtctx.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS = 2, PACE = 50, SLOWEST_PACE = 20000 };

static const HsaMemFlags vram = {.Value = 1};
static HsaKFDContext *contexts[2];
static void *memory[2];
static pthread_t threads[2];
static atomic_ulong hits, done, refused, wrong;
/* What each thread has done outside of handlers, and what it had done at the last signal. */
static atomic_ulong moved[2], moved_before[2];
static long pace = PACE;

static void query(int which, int known_word) {
    HsaPointerInfo info;
    if (hsaKmtQueryPointerInfoCtx(contexts[which], memory[which], &info) || info.SizeInBytes != 0x1000)
        wrong++;
    if (known_word && !info.UserData)
        wrong++;
}

static void signal_in(long microseconds) {
    struct itimerval once = {.it_value = {.tv_usec = microseconds}};
    setitimer(ITIMER_REAL, &once, NULL);
}

static int has_moved(int thread) {
    unsigned long now = moved[thread];
    return atomic_exchange(&moved_before[thread], now) != now;
}

static void ask_for_the_next(void) {
    int both = has_moved(0) & has_moved(1);
    pace = both ? PACE : pace < SLOWEST_PACE ? pace * 2 : pace;
    signal_in(pace);
}

static void hang(int number) {
    char line[200];
    int length = snprintf(line, sizeof line, "signals.c hangs in signal %lu, pace %ld us; its threads did %lu and %lu turns\n",
                          hits, pace, moved[0], moved[1]);
    (void)number;
    _exit(write(2, line, (size_t)length) < 0 ? 6 : 5);
}

static void handler(int number) {
    hits++;
    /* The timer's signals go to the first thread; the second's handler runs beside its. */
    if (pthread_equal(pthread_self(), threads[0]))
        pthread_kill(threads[1], SIGUSR1);
    /* Long enough that the two handlers overlap. */
    for (int turn = 0; turn < 40; turn++) {
        int which = turn % 2;
        query(which, 0);
        HSAKMT_STATUS status = hsaKmtSetMemoryUserDataCtx(contexts[which], memory[which], (void *)(uintptr_t)hits);
        if (status == HSAKMT_STATUS_SUCCESS)
            done++;
        else if (status == HSAKMT_STATUS_ERROR)
            refused++;
        else
            wrong++;
    }
    if (number == SIGALRM)
        ask_for_the_next();
}

static void *churn(void *first) {
    time_t end = time(NULL) + SECONDS;
    while (time(NULL) < end) {
        for (uintptr_t turn = 1; turn <= 1000; turn++) {
            moved[(uintptr_t)first]++;
            int which = (int)((turn / 7 + (uintptr_t)first) % 2);
            if (hsaKmtSetMemoryUserDataCtx(contexts[which], memory[which], (void *)turn))
                wrong++;
            query(which, 1);
            /* A verb that waits for the kernel, with its context's lock. */
            void *buffer;
            if (turn % 100 == 0 && (hsaKmtAllocMemoryCtx(contexts[which], 1, 0x1000, vram, &buffer) ||
                                    hsaKmtFreeMemoryCtx(contexts[which], buffer, 0x1000)))
                wrong++;
        }
    }
    return NULL;
}

int main(void) {
    HsaSystemProperties system;
    /* A hang is ended by a signal of its own: the timer has taken SIGALRM. */
    struct itimerspec limit = {.it_value = {.tv_sec = 60}};
    struct sigevent death = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
    timer_t deadline;
    signal(SIGUSR2, hang);
    if (timer_create(CLOCK_MONOTONIC, &death, &deadline) || timer_settime(deadline, 0, &limit, NULL))
        return 3;
    if (hsaKmtOpenKFDCtx(&contexts[0]) || hsaKmtAcquireSystemProperties(&system) ||
        hsaKmtOpenSecondaryKFDCtx(&contexts[1]))
        return 1;
    for (int which = 0; which < 2; which++)
        if (hsaKmtAllocMemoryCtx(contexts[which], 1, 0x1000, vram, &memory[which]) ||
            hsaKmtSetMemoryUserDataCtx(contexts[which], memory[which], memory))
            return 2;
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    threads[0] = pthread_self();
    sigset_t timer;
    sigemptyset(&timer);
    sigaddset(&timer, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &timer, NULL);
    pthread_create(&threads[1], NULL, churn, (void *)1);
    pthread_sigmask(SIG_UNBLOCK, &timer, NULL);
    signal_in(PACE);
    churn((void *)0);
    pthread_sigmask(SIG_BLOCK, &timer, NULL);
    /* Joined only now: its last signals come from this thread's handler. */
    pthread_join(threads[1], NULL);
    printf("%lu signals: %lu done, %lu refused, %lu wrong\n", hits, done, refused, wrong);
    return wrong || !hits || !done || !refused ? 4 : 0;
}
