/* A libdrm_amdgpu.so.1 that counts. With -DNEWER it is one of 2.4.124 and later. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct device {
    int alive;
};

static struct device devices[16];
int fake_made, fake_alive, fake_refuse, fake_deduplicated, fake_bad_fd;

static int make(int fd, uint32_t *major, uint32_t *minor, void **handle) {
    struct stat file;
    if (fake_refuse)
        return -fake_refuse;
    if (fstat(fd, &file) || !S_ISCHR(file.st_mode))
        fake_bad_fd = 1;
    *major = 3;
    *minor = 0;
    struct device *device = &devices[fake_made++ % 16];
    device->alive = 1;
    fake_alive++;
    *handle = device;
    return 0;
}

#ifdef NEWER
int amdgpu_device_initialize2(int fd, bool deduplicate, uint32_t *major, uint32_t *minor, void **handle) {
    fake_deduplicated += deduplicate;
    return make(fd, major, minor, handle);
}
#endif

int amdgpu_device_initialize(int fd, uint32_t *major, uint32_t *minor, void **handle) {
    fake_deduplicated++;
    return make(fd, major, minor, handle);
}

int amdgpu_device_deinitialize(void *handle) {
    struct device *device = handle;
    fake_alive -= device->alive;
    device->alive = 0;
    return 0;
}
