/* Opens, acquires, opens a secondary context; prints each status. Files can be exchanged: REDIRECT=SUFFIX=FILE has every open
 * of a path with this ending open FILE. With ROOM set a page in the middle of what can be reserved for SVM is in use. */
#define _GNU_SOURCE
#include "hsakmt/hsakmt.h"
#include "hsakmt/hsakmtctx.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static long maps;

static const char *exchanged(const char *path) {
    const char *redirect = getenv("REDIRECT");
    const char *file = redirect ? strchr(redirect, '=') : NULL;
    if (!file)
        return path;
    size_t suffix = file - redirect, length = strlen(path);
    int ends = length >= suffix && !memcmp(path + length - suffix, redirect, suffix);
    return ends ? file + 1 : path;
}

/* Declared here: what the library calls. */
int open64(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    int mode = va_arg(more, int);
    va_end(more);
    int (*original)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open64");
    return original(exchanged(path), flags, mode);
}

void *mmap64(void *address, size_t length, int access, int flags, int file, off64_t offset) {
    void *(*original)(void *, size_t, int, int, int, off64_t) =
        (void *(*)(void *, size_t, int, int, int, off64_t))dlsym(RTLD_NEXT, "mmap64");
    maps++;
    return original(address, length, access, flags, file, offset);
}

int main(void) {
    HsaSystemProperties system = {0};
    HsaKFDContext *second = NULL;
    if (getenv("ROOM"))
        mmap((void *)(1l << 39), 0x1000, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    printf("open %d\n", hsaKmtOpenKFD());
    printf("acquire %d\n", hsaKmtAcquireSystemProperties(&system));
    printf("nodes %u\n", system.NumNodes);
    maps = 0;
    printf("second %d\n", hsaKmtOpenSecondaryKFDCtx(&second));
    printf("maps %ld\n", maps);
    void *memory = NULL;
    HsaMemFlags flags = {.Value = 1};
    printf("allocate %d\n", hsaKmtAllocMemoryCtx(second, 1, 0x1000, flags, &memory));
    printf("gigabytes %ld\n", (long)memory >> 30);
    return 0;
}
