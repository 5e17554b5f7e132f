/* libdtif.so as ROCr's loader uses it: dlopen, each name by dlsym, DtifCreate, the channel, DtifDestroy, dlclose. Arguments:
 * the library, then names. Names after "--" answer NOT_SUPPORTED. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static void *library;

static void *get(const char *name) {
    void *found = dlsym(library, name);
    if (!found)
        printf("%s is missing\n", name);
    return found;
}

#define CALL(type, name) ((type)get(name))

int main(int argc, char **argv) {
    if (argc < 3 || !(library = dlopen(argv[1], RTLD_LAZY))) {
        printf("%s\n", dlerror());
        return 1;
    }
    int wrong = 0, refused = 0;
    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "--")) {
            refused = 1;
            continue;
        }
        void *found = get(argv[i]);
        if (!found || (refused && ((int (*)(long, long, long, long, long, long))found)(0, 0, 0, 0, 0, 0) != 11))
            wrong++;
    }
    bool model = true;
    if (wrong || !CALL(void *(*)(const char *), "DtifCreate")("HSA") || CALL(int (*)(bool *), "hsaKmtModelEnabled")(&model) ||
        model)
        return 1;
    unsigned system[4];
    if (CALL(int (*)(void), "hsaKmtOpenKFD")() || CALL(int (*)(unsigned *), "hsaKmtAcquireSystemProperties")(system) ||
        system[0] != 3)
        return 1;
    /* libdrm's calls take the handle. */
    void *handle = NULL;
    unsigned char info[4096];
    if (CALL(int (*)(unsigned, void **), "hsaKmtGetAMDGPUDeviceHandle")(1, &handle) ||
        CALL(int (*)(void *, void *), "amdgpu_query_gpu_info")(handle, info))
        return 1;
    if (CALL(int (*)(void), "hsaKmtCloseKFD")())
        return 1;
    CALL(void (*)(void), "DtifDestroy")();
    return dlclose(library) != 0;
}
