/* How much stack every entry needs: each is called on a thread of its own whose stack was filled with a pattern. None may
 * need more than LIMIT bytes below its caller's frame: the smallest stack that a thread may have is 16 KiB, and half of
 * that is the caller's. All symbols are bound when the program starts, so the dynamic linker takes none of it.
 *
 * Arguments: the names of all exports. Prints a line for each, the largest last when sorted. With HIGH_TREES set, edits of
 * high trees are measured too; with ANY_STATUS set, the entries may be refused. */
#define _GNU_SOURCE
#include "calls.h"

#include <pthread.h>
#include <stdint.h>

enum { STACK = 256 << 10, GUARD = 4096, OWN = 512, LIMIT = 8 << 10 };

static long most, limit = LIMIT;
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
    if (bytes > limit)
        wrong = 1;
    most = bytes > most ? bytes : most;
    if (table || bytes > limit)
        printf("%6ld %s%s\n", bytes, call.name, bytes > limit ? " needs too much" : "");
    munmap(measured.stack, STACK);
    return measured.call.status;
}

#define FRESH(entry, ...) fresh((struct call){#entry, NULL, {__VA_ARGS__}, 0})

/* One call of so many is measured. */
#define MEASURED(number, entry, arguments, ...) \
    ((number) % 5 ? (int)entry arguments : (int)FRESH(entry, __VA_ARGS__))

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

/* The edit of a tree recurses, so that what a verb needs grows with the height. Two trees of height 3 and 4 grow and shrink:
 * one in ascending order, which fills its nodes, one in scattered order, which leaves them half full. The limit leaves room
 * for 11 more levels of 300 bytes: no tree is higher. */
static void high_trees(void) {
    enum { OBJECTS = 4096, STEP = 1531, PAGE = 4096 };
    static HsaSystemProperties system;
    static void *memory[OBJECTS];
    HsaMemFlags handle = {.ui32 = {.NonPaged = 1, .NoAddress = 1}};
    char *host = mmap(NULL, 2L * OBJECTS * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    table = 0;
    limit = 4608;
    hsaKmtOpenKFD();
    if (hsaKmtAcquireSystemProperties(&system) != HSAKMT_STATUS_SUCCESS || host == MAP_FAILED)
        wrong = 1;
    for (int object = 0; object < OBJECTS; object++) {
        char *range = host + 2L * PAGE * (object * (long)STEP % OBJECTS);
        void **place = &memory[object];
        wrong |= MEASURED(object, hsaKmtAllocMemory, (1, PAGE, handle, place), 1, PAGE, (long)handle.Value, (long)place);
        wrong |= MEASURED(object, hsaKmtRegisterMemory, (range, PAGE), (long)range, PAGE);
    }
    for (int object = 0; object < OBJECTS; object++) {
        char *range = host + 2L * PAGE * (object * 37L % OBJECTS);
        void *place = memory[object * 37L % OBJECTS];
        wrong |= MEASURED(object, hsaKmtDeregisterMemory, (range), (long)range);
        wrong |= MEASURED(object, hsaKmtFreeMemory, (place, PAGE), (long)place, PAGE);
    }
    hsaKmtCloseKFD();
}

int main(int count, char **names) {
    pthread_t thread;
    pthread_attr_t attributes;
    int failed = 1;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 16384);
    if (pthread_create(&thread, &attributes, smallest, &failed) || pthread_join(thread, NULL) ||
        (failed && !getenv("ANY_STATUS"))) {
        puts("16 KiB of stack do not do");
        return 1;
    }
    call_every_entry(count - 1, names + 1);
    if (getenv("HIGH_TREES"))
        high_trees();
    printf("%d entries called, %ld bytes of stack at most\n", calls, most);
    return wrong || most < OWN;
}
