/* The handle is one that libdrm's own calls take, and its file is the one that this process has acquired for KFD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/kcmp.h>
#include <hsakmt/hsakmt.h>

int main(void) {
    HsaSystemProperties system;
    HsaAMDGPUDeviceHandle handle;
    if (hsaKmtOpenKFD() || hsaKmtAcquireSystemProperties(&system) || hsaKmtGetAMDGPUDeviceHandle(1, &handle))
        return 1;
    int (*get_fd)(void *) = (int (*)(void *))dlsym(dlopen("libdrm_amdgpu.so.1", RTLD_NOW), "amdgpu_device_get_fd");
    if (!get_fd) {
        puts("this libdrm has no amdgpu_device_get_fd");
        return 0;
    }
    int fd = get_fd(handle), same = 0;
    for (int other = 0; other < 100; other++)
        same += other != fd && syscall(SYS_kcmp, getpid(), getpid(), KCMP_FILE, (long)fd, (long)other) == 0;
    printf("same %d\n", same);
    return hsaKmtCloseKFD() || same != 1;
}
