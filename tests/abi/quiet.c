/* The installed library under a caller that may do nothing: no system call, no malloc, no free.
 *
 * "quiet" runs on a machine with a GPU and without the SVM API. A writer works at full speed; one thread asks five
 * million times each inside a buffer, inside a userptr, and where there is nothing. From its second question on, that
 * thread gets SIGSYS for any system call (the filter is one instruction), and its calls of malloc's family are counted:
 * this program has them all. "quiet malloc" and "quiet syscall" plant one of each, which must be noticed.
 *
 * The reader never ends, since ending takes system calls; the main thread ends the process.
 */
#define _GNU_SOURCE
#include "hsakmt/hsakmt.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { READS = 5000000, BUFFERS = 256, PAGE = 4096 };

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void __libc_free(void *);

static _Thread_local unsigned long calls;

void *malloc(size_t size) { return calls++, __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return calls++, __libc_calloc(count, size); }
void *realloc(void *block, size_t size) { return calls++, __libc_realloc(block, size); }
void free(void *block) { calls++, __libc_free(block); }

static char *buffers[BUFFERS];
static _Alignas(4096) char host[16 * PAGE];
static atomic_ulong writes;
static unsigned long wrong, allocated;
static atomic_int done, called;
static const char *plant = "";

static void *write_on(void *unused) {
    for (unsigned long turn = 0;; turn++) {
        unsigned long bad = hsaKmtSetMemoryUserData(buffers[turn % BUFFERS], (void *)turn);
        bad |= hsaKmtSetMemoryUserData(host + 100, (void *)turn);
        if (turn % 64 == 0) {
            bad |= hsaKmtRegisterMemory(host + 8 * PAGE, PAGE);
            bad |= hsaKmtDeregisterMemory(host + 8 * PAGE);
        }
        if (bad)
            _exit(2);
        atomic_fetch_add_explicit(&writes, 2, memory_order_relaxed);
    }
    return unused;
}

static void stay(void) {
    for (;;)
        __asm__ volatile("");
}

static void on_system_call(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    atomic_store(&called, info->si_syscall + 1);
    stay();
}

static void forbid_system_calls(void) {
    struct sigaction action = {.sa_sigaction = on_system_call, .sa_flags = SA_SIGINFO};
    struct sock_filter trap = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
    struct sock_fprog program = {1, &trap};
    if (sigaction(SIGSYS, &action, NULL) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))
        _exit(3);
}

static void ask(const void *address, HSAKMT_STATUS status, HSA_POINTER_TYPE type) {
    HsaPointerInfo info;
    wrong += hsaKmtQueryPointerInfo(address, &info) != status || info.Type != type;
}

static void malloc_once(void) {
    void *volatile block = malloc(8);
    free(block);
}

static void *read_on(void *unused) {
    /* A thread's first malloc asks the kernel for memory. */
    malloc_once();
    ask(host, HSAKMT_STATUS_ERROR, HSA_POINTER_UNKNOWN);
    forbid_system_calls();
    calls = 0;
    for (unsigned long turn = 0; turn < READS; turn++) {
        ask(buffers[turn % BUFFERS] + 123, HSAKMT_STATUS_SUCCESS, HSA_POINTER_ALLOCATED);
        ask(host + 100 + turn % PAGE, HSAKMT_STATUS_SUCCESS, HSA_POINTER_REGISTERED_USER);
        ask(host + 12 * PAGE + turn % PAGE, HSAKMT_STATUS_ERROR, HSA_POINTER_UNKNOWN);
        if (!strcmp(plant, "malloc"))
            malloc_once();
        if (!strcmp(plant, "syscall"))
            getppid();
    }
    allocated = calls;
    atomic_store(&done, 1);
    stay();
    return unused;
}

int main(int count, char **arguments) {
    HsaSystemProperties properties;
    HsaMemFlags vram = {0};
    pthread_t reader, writer;
    plant = count > 1 ? arguments[1] : "";
    vram.ui32.NonPaged = 1;
    if (hsaKmtOpenKFD() || hsaKmtAcquireSystemProperties(&properties) || hsaKmtRegisterMemory(host + 100, 2 * PAGE))
        return 4;
    /* It has allocated by now, and if that was not counted, nothing is. */
    if (calls == 0)
        return 7;
    for (int n = 0; n < BUFFERS; n++)
        if (hsaKmtAllocMemory(1, PAGE, vram, (void **)&buffers[n]))
            return 5;
    if (pthread_create(&writer, NULL, write_on, NULL) || pthread_create(&reader, NULL, read_on, NULL))
        return 6;
    while (!atomic_load(&done) && !atomic_load(&called))
        usleep(5000);
    if (atomic_load(&called)) {
        printf("system call %d\n", atomic_load(&called) - 1);
        fflush(stdout);
        _exit(1);
    }
    printf("wrong answers: %lu, allocated or freed %lu times, beside %lu writes\n", wrong, allocated, atomic_load(&writes));
    fflush(stdout);
    _exit(wrong || allocated || atomic_load(&writes) < 20000);
}
