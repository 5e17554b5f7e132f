/* How much stack every entry needs: each is called on a thread of its own whose stack was filled with a pattern. None may
 * need more than LIMIT bytes below its caller's frame: the smallest stack that a thread may have is 16 KiB, and half of
 * that is the caller's. All symbols are bound when the program starts, so the dynamic linker takes none of it.
 *
 * Arguments: the names of all exports. Prints a line for each, the largest last when sorted. */
#define _GNU_SOURCE
#include "calls.h"

#include <pthread.h>
#include <stdint.h>

enum { STACK = 256 << 10, GUARD = 4096, OWN = 512, LIMIT = 8 << 10 };

static long most;
static int table = 1;

struct measured {
    struct call call;
    unsigned char *stack;
    unsigned char *top;
};

static __attribute__((noinline)) void *run(void *argument) {
    struct measured *measured = argument;
    unsigned char here;
    measured->top = &here;
    /* Not the part that this function and the call itself use. */
    for (volatile unsigned char *byte = measured->stack; byte < measured->top - OWN; byte++)
        *byte = 0xa5;
    measured->call.status = run_entry(&measured->call);
    return NULL;
}

static long fresh(struct call call) {
    pthread_t thread;
    pthread_attr_t attributes;
    struct measured measured = {.call = call};
    measured.call.entry = (Entry)dlsym(RTLD_DEFAULT, call.name);
    measured.stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_init(&attributes);
    if (!measured.call.entry || pthread_attr_setstack(&attributes, measured.stack, STACK) ||
        pthread_create(&thread, &attributes, run, &measured) || pthread_join(thread, NULL)) {
        printf("%s: cannot be called\n", call.name);
        wrong = 1;
        return -1;
    }
    const unsigned char *deepest = measured.stack;
    while (deepest < measured.top && *deepest == 0xa5)
        deepest++;
    long bytes = measured.top - deepest;
    if (bytes > LIMIT)
        wrong = 1;
    most = bytes > most ? bytes : most;
    if (table || bytes > LIMIT)
        printf("%6ld %s%s\n", bytes, call.name, bytes > LIMIT ? " needs too much" : "");
    munmap(measured.stack, STACK);
    return measured.call.status;
}

/* The entries that need most, on the smallest stack that there is. */
static void *smallest(void *argument) {
    static HsaSystemProperties system;
    void *memory;
    HsaMemFlags vram = {.Value = 1};
    *(int *)argument = hsaKmtOpenKFD() || hsaKmtAcquireSystemProperties(&system) ||
                       hsaKmtAllocMemory(1, 0x4000, vram, &memory) || hsaKmtFreeMemory(memory, 0x4000) ||
                       hsaKmtReleaseSystemProperties() || hsaKmtCloseKFD();
    return NULL;
}

/* Objects come and go until the trees split and join: what a verb needs most. */
static void many(void) {
    enum { OBJECTS = 600 };
    static HsaSystemProperties system;
    static void *memory[OBJECTS];
    table = 0;
    CALL(0, hsaKmtOpenKFD, 0);
    CALL(0, hsaKmtAcquireSystemProperties, (long)&system);
    calls -= 2;
    for (int object = 0; object < OBJECTS; object++) {
        CALL(0, hsaKmtAllocMemory, 1, 0x1000, 1, (long)&memory[object]);
        calls--;
    }
    for (int object = 0; object < OBJECTS; object++) {
        CALL(0, hsaKmtFreeMemory, (long)memory[(object * 7) % OBJECTS], 0x1000);
        calls--;
    }
}

int main(int count, char **names) {
    pthread_t thread;
    pthread_attr_t attributes;
    int failed = 1;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 16384);
    if (pthread_create(&thread, &attributes, smallest, &failed) || pthread_join(thread, NULL) || failed) {
        puts("16 KiB of stack do not do");
        return 1;
    }
    call_every_entry(count - 1, names + 1);
    many();
    printf("%d entries called, %ld bytes of stack at most\n", calls, most);
    return wrong || most < OWN;
}
