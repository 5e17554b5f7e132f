/* Case 96: signals while the topology is read cost no node, no cache and no status.
 *
 * First opendir and readdir themselves say that a signal interrupted them, then a timer interrupts whatever it meets. */
#define _GNU_SOURCE
#include "hsakmt/hsakmt.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

static int wrong, disturb;
/* How often a directory was opened, and how often one of both was interrupted. */
static int streams, interrupted;
static int entries;
static volatile sig_atomic_t signals;

/* Of three openings of a directory the first is interrupted, the second while it is read. */
DIR *opendir(const char *path) {
    DIR *(*original)(const char *) = (DIR * (*)(const char *)) dlsym(RTLD_NEXT, "opendir");
    entries = 0;
    if (disturb && ++streams % 3 == 1) {
        interrupted++;
        errno = EINTR;
        return NULL;
    }
    return original(path);
}

struct dirent64 *readdir64(DIR *stream) {
    struct dirent64 *(*original)(DIR *) = (struct dirent64 * (*)(DIR *)) dlsym(RTLD_NEXT, "readdir64");
    if (disturb && streams % 3 == 2 && ++entries == 4) {
        interrupted++;
        errno = EINTR;
        return NULL;
    }
    return original(stream);
}

static void count(int signal) {
    (void)signal;
    signals++;
}

struct counts {
    HSAuint32 nodes, memory[8], caches[8], links[8];
};

static void read_topology(struct counts *counts) {
    HsaSystemProperties system = {0};
    memset(counts, 0, sizeof *counts);
    int status = hsaKmtAcquireSystemProperties(&system);
    if (status != HSAKMT_STATUS_SUCCESS) {
        printf("acquire: %d\n", status);
        wrong = 1;
        return;
    }
    counts->nodes = system.NumNodes;
    for (HSAuint32 node = 0; node < system.NumNodes && node < 8; node++) {
        HsaNodeProperties properties;
        hsaKmtGetNodeProperties(node, &properties);
        counts->memory[node] = properties.NumMemoryBanks;
        counts->caches[node] = properties.NumCaches;
        counts->links[node] = properties.NumIOLinks;
    }
    hsaKmtReleaseSystemProperties();
}

static void compare(const char *what, const struct counts *all) {
    struct counts now;
    read_topology(&now);
    for (HSAuint32 node = 0; node < 8; node++)
        if (all->caches[node] != now.caches[node])
            printf("%s: node %u has %u caches instead of %u\n", what, node, now.caches[node], all->caches[node]);
    if (memcmp(all, &now, sizeof now)) {
        printf("%s: %u nodes instead of %u, or other banks, caches or links\n", what, now.nodes, all->nodes);
        wrong = 1;
    }
}

int main(void) {
    struct counts all;
    if (hsaKmtOpenKFD())
        return 1;
    read_topology(&all);
    disturb = 1;
    for (int i = 0; i < 5; i++)
        compare("directories", &all);
    disturb = 0;
    if (interrupted < 10) {
        printf("only %d directories were interrupted\n", interrupted);
        wrong = 1;
    }
    struct sigaction action = {.sa_handler = count};
    struct itimerval timer = {{0, 300}, {0, 300}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    for (int i = 0; i < 40; i++)
        compare("timer", &all);
    memset(&timer, 0, sizeof timer);
    setitimer(ITIMER_REAL, &timer, NULL);
    if (signals < 10) {
        printf("only %d signals\n", (int)signals);
        wrong = 1;
    }
    /* The first node's caches come from the host, which may have none. */
    printf("%u nodes, %u caches of node 0\n", all.nodes, all.caches[0]);
    return wrong || hsaKmtCloseKFD();
}
