/* What the player's files share: its view of the objects, and the names it prints for addresses. */
#ifndef DIFFERENTIAL_PLAYER_H
#define DIFFERENTIAL_PLAYER_H

#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
struct kfd_ioctl_dbg_trap_args; /* some headers name it without declaring it */
#include HSAKMT_H

#define PAGE 4096ul
#define THREADS 4
#define HOSTS 8
#define HOST_BYTES 0x10000ul
#define MOST_SYMBOLS 512
#define MOST_LINES 512
#define MOST_NODES 16

typedef uint64_t u64;

struct symbol { /* an object that a call made */
    int thread, slot, birth;
    u64 start, size;
    bool alive, kept; /* kept: gone, and its range can be used as a dangling address */
};

struct seen { /* where a GPU sees a registered host range; only sure until some object may have ended */
    u64 cpu, size, page;
    bool sure;
};

struct handle {
    HsaSharedMemoryHandle handle;
    bool made;
};

struct player { /* one thread's view */
    int thread;
    bool together; /* other threads are at work */
    char *out;
    size_t used, room;
    struct symbol symbols[MOST_SYMBOLS];
    int count;
    struct seen seen[MOST_SYMBOLS];
    int seen_count;
    struct handle handles[8];
};

struct name {
    char text[160];
};

struct target { /* an address as a script names it */
    u64 address;
    const struct symbol *outside; /* the object it is meant for but lies outside of */
    const char *none;             /* why there is no such address; the call is left out */
    u64 room;                     /* bytes to the end of the object: what lies behind differs */
};

extern struct player players[THREADS];
extern u64 hosts[HOSTS];
extern bool dangling; /* dangling addresses are used */
extern bool placed;   /* print where new objects lie, relative to the first */
extern int openings;  /* how often the library is open */

/* names.c */
__attribute__((format(printf, 2, 3))) void say(struct player *p, const char *format, ...);
bool ask(u64 address, HsaPointerInfo *info);
struct name name_of(struct player *p, u64 address);
struct name name_gpu(struct player *p, u64 cpu, u64 size, u64 gpu);
struct name name_alternate(struct player *p, u64 address);
void bury(struct player *p);
void say_was(struct player *p, u64 address);
struct symbol *bear(struct player *p, int slot, u64 start, u64 size);
struct target target(struct player *p, const char *word);
unsigned nodes(const char *word, HSAuint32 *array, HSAuint32 **pointer);

/* calls.c */
void query(struct player *p, struct target t);
void allocate(struct player *p, int slot, unsigned node, u64 size, u64 flags, u64 alignment, struct target fixed);
void node_properties(struct player *p, unsigned node);
void banks(struct player *p, unsigned node, unsigned count);
void links(struct player *p, unsigned node, unsigned count);
void tile(struct player *p, unsigned node);
void share(struct player *p, int which, struct target t, u64 size);
void import(struct player *p, int slot, int which, const char *list);
void svm(struct player *p, bool get, struct target t, u64 size, const char *list);
void export(struct player *p, struct target t, u64 size, int slot, const char *list);
void forked(struct player *p, struct target t);

#endif
