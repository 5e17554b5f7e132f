// What a thread remembers of its last questions is its process's own: a forked child whose library counts versions anew
// comes to the parent's number again, and must not be answered with the parent's object.
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "hsakmt/hsakmt.h"

enum { SIZE = 4096, VERSIONS = 64 };

static char *asked;

static int child(void) {
    HsaSystemProperties system;
    HsaPointerInfo info;
    HsaMemFlags flags = {.Value = 1};
    char *own = NULL;
    alarm(60);
    if (hsaKmtQueryPointerInfo(asked, &info) != HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED)
        return 1;
    if (hsaKmtOpenKFD() || hsaKmtAcquireSystemProperties(&system))
        return 2;
    if (hsaKmtQueryPointerInfo(asked, &info) != HSAKMT_STATUS_ERROR)
        return 3;
    if (hsaKmtAllocMemory(1, SIZE, flags, (void **)&own) || own == asked)
        return 4;
    for (uintptr_t i = 0; i < 4 * VERSIONS; i++) {
        if (hsaKmtSetMemoryUserData(own, (void *)i))
            return 5;
        // Often enough that the library does not think it useless to remember.
        for (int again = 0; again < 200; again++)
            if (hsaKmtQueryPointerInfo(own, &info) || info.UserData != (void *)i)
                return 6;
        if (hsaKmtQueryPointerInfo(asked, &info) != HSAKMT_STATUS_ERROR || info.Type != HSA_POINTER_UNKNOWN)
            return 7;
    }
    return 0;
}

int main(void) {
    HsaSystemProperties system;
    HsaPointerInfo info;
    HsaMemFlags flags = {.Value = 1};
    void *buffers[8];
    if (hsaKmtOpenKFD() || hsaKmtAcquireSystemProperties(&system))
        return 1;
    for (int i = 0; i < 8; i++)
        if (hsaKmtAllocMemory(1, SIZE, flags, &buffers[i]))
            return 2;
    asked = buffers[5];
    for (uintptr_t i = 0; i < VERSIONS; i++) {
        if (hsaKmtSetMemoryUserData(asked, (void *)i))
            return 3;
        // Often enough to be remembered whatever was asked before.
        for (int again = 0; again < 200; again++)
            if (hsaKmtQueryPointerInfo(asked + again, &info) || info.UserData != (void *)i)
                return 4;
    }
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(child());
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
        printf("child: status 0x%x\n", status);
        return 5;
    }
    // Another object at the remembered address.
    if (hsaKmtFreeMemory(asked, SIZE) || hsaKmtQueryPointerInfo(asked, &info) != HSAKMT_STATUS_ERROR)
        return 6;
    return hsaKmtCloseKFD() || hsaKmtQueryPointerInfo(asked, &info) != HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED ? 7 : 0;
}
