// Paged host memory is shared with a forked child, at every size; memory that is not paged stays with the parent.
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "hsakmt/hsakmt.h"
#include "expect.h"

static const size_t sizes[] = {4096, 1 << 20, 2 << 20, 8 << 20};

static int is_mapped(void *address) {
    unsigned char resident;
    return !mincore(address, 4096, &resident) || errno != ENOMEM;
}

static char *allocate(HSAuint32 node, size_t size, HsaMemFlags flags) {
    void *buffer = NULL;
    EXPECT(SUCCESS, hsaKmtAllocMemory(node, size, flags, &buffer));
    return buffer;
}

/* What a child finds at the first and last byte of `buffer`; it changes the first one. */
static int in_a_child(volatile char *buffer, size_t size) {
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        if (!is_mapped((void *)buffer))
            _exit(100);
        if (buffer[0] != 1 || buffer[size - 1] != 2)
            _exit(101);
        buffer[0] = 3;
        _exit(0);
    }
    REQUIRE(pid > 0 && waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int main(void) {
    HsaSystemProperties system;
    HsaMemFlags paged = {.Value = 0}, fine = {.Value = 0}, pinned = {.Value = 0};
    paged.ui32.HostAccess = fine.ui32.HostAccess = pinned.ui32.HostAccess = 1;
    paged.ui32.CoarseGrain = pinned.ui32.NonPaged = 1;
    REQUIRE(!hsaKmtOpenKFD() && !hsaKmtAcquireSystemProperties(&system));
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t size = sizes[i];
        HsaMemFlags kinds[] = {paged, fine, pinned};
        for (int kind = 0; kind < 3; kind++) {
            HSAuint64 gpu;
            char *buffer = allocate(0, size, kinds[kind]);
            REQUIRE(buffer);
            EXPECT(SUCCESS, hsaKmtMapMemoryToGPU(buffer, size, &gpu));
            buffer[0] = 1;
            buffer[size - 1] = 2;
            SAME(kind == 2 ? 100 : 0, in_a_child(buffer, size));
            SAME(kind == 2 ? 1 : 3, buffer[0]);
            EXPECT(SUCCESS, hsaKmtUnmapMemoryToGPU(buffer));
            EXPECT(SUCCESS, hsaKmtFreeMemory(buffer, size));
        }
    }
    EXPECT(SUCCESS, hsaKmtCloseKFD());
    return wrong;
}
