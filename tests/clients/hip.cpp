/* What a HIP program sees of its libhsakmt: devices, memory of every kind, pointers inside and outside of it, IPC between
 * two processes; with the argument `shader` also copies, streams and events. Prints no address and no time, so that two libraries must print the same. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <hip/hip_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

static const size_t BYTES = 3 << 20;

/* Prints what a call returns, and whether it went well. */
static bool said(const char *what, hipError_t status) {
    printf("%s: %s\n", what, hipGetErrorName(status));
    (void)hipGetLastError();
    return status == hipSuccess;
}
#define SAID(call) said(#call, call)

static void devices() {
    int count = 0;
    SAID(hipGetDeviceCount(&count));
    for (int device = 0; device < count; device++) {
        hipDeviceProp_t about;
        size_t left = 0, all = 0;
        int peer = 0;
        if (!SAID(hipGetDeviceProperties(&about, device)))
            continue;
        printf("  %s, %s: %zu bytes, %d units, wave %d, clocks %d and %d kHz, bus %d bit, cache %d, LDS %zu, pci %d:%d:%d\n",
               about.name, about.gcnArchName, about.totalGlobalMem, about.multiProcessorCount, about.warpSize,
               about.clockRate, about.memoryClockRate, about.memoryBusWidth, about.l2CacheSize, about.sharedMemPerBlock,
               about.pciDomainID, about.pciBusID, about.pciDeviceID);
        printf("  large BAR %d, managed %d, concurrent %d, cooperative %d\n", about.isLargeBar, about.managedMemory,
               about.concurrentManagedAccess, about.cooperativeLaunch);
        SAID(hipSetDevice(device));
        SAID(hipMemGetInfo(&left, &all));
        printf("  %zu of %zu bytes are free\n", left, all);
        SAID(hipDeviceCanAccessPeer(&peer, device, (device + 1) % count));
        printf("  peer access %d\n", peer);
    }
    SAID(hipSetDevice(0));
}

static void about(const char *what, const void *base, long offset) {
    hipPointerAttribute_t told;
    memset(&told, 0, sizeof told);
    const char *at = (const char *)base + offset;
    hipError_t status = hipPointerGetAttributes(&told, at);
    (void)hipGetLastError();
    printf("%s + %ld: %s", what, offset, hipGetErrorName(status));
    if (status == hipSuccess)
        printf(", type %d, device %d, on the device %s, on the host %s, managed %d, flags %u", (int)told.memoryType,
               told.device, told.devicePointer == at ? "here" : told.devicePointer ? "elsewhere" : "none",
               told.hostPointer == at ? "here" : told.hostPointer ? "elsewhere" : "none", told.isManaged,
               told.allocationFlags);
    hipDeviceptr_t start = nullptr;
    size_t size = 0;
    status = hipMemGetAddressRange(&start, &size, (hipDeviceptr_t)at);
    (void)hipGetLastError();
    printf("; range %s", hipGetErrorName(status));
    if (status == hipSuccess)
        printf(", %zu bytes, starts %s", size, start == at - offset ? "here" : "elsewhere");
    puts("");
}

static void inside(const char *what, const void *base) {
    about(what, base, 0);
    about(what, base, 4097);
    about(what, base, BYTES - 1);
}

static void around(const char *what, const void *base) {
    about(what, base, -1);
    inside(what, base);
    about(what, base, BYTES);
}

static void memory(char **device, char **host) {
    char *fine, *managed, *own = (char *)aligned_alloc(4096, BYTES), *here;
    SAID(hipMalloc((void **)device, BYTES));
    around("device", *device);
    SAID(hipHostMalloc((void **)host, BYTES, hipHostMallocDefault));
    around("host", *host);
    if (SAID(hipExtMallocWithFlags((void **)&fine, BYTES, hipDeviceMallocFinegrained))) {
        around("fine-grained", fine);
        SAID(hipFree(fine));
    }
    if (SAID(hipMallocManaged((void **)&managed, BYTES, hipMemAttachGlobal))) {
        // Chance decides what is beside it.
        inside("managed", managed);
        SAID(hipFree(managed));
    }
    memset(own, 1, BYTES);
    about("not registered", own, 0);
    SAID(hipHostRegister(own, BYTES, hipHostRegisterMapped));
    SAID(hipHostGetDevicePointer((void **)&here, own, 0));
    around("registered", own);
    SAID(hipHostRegister(own, BYTES, hipHostRegisterMapped));
    SAID(hipHostUnregister(own));
    SAID(hipHostUnregister(own));
    about("not registered any more", own, 0);
    about("null", nullptr, 0);
    about("a function", (const void *)memory, 0);
    SAID(hipFree(own));
    free(own);
}

static void between_processes(const char *program, char *device) {
    hipIpcMemHandle_t handle;
    if (!SAID(hipIpcGetMemHandle(&handle, device)))
        return;
    fflush(stdout);
    int ends[2];
    if (pipe(ends))
        exit(1);
    pid_t child = fork();
    if (!child) {
        dup2(ends[0], 0);
        execl(program, program, "child", (char *)nullptr);
        _exit(1);
    }
    if (write(ends[1], &handle, sizeof handle) != sizeof handle)
        exit(1);
    int status;
    waitpid(child, &status, 0);
    printf("the other process ended with %d\n", WEXITSTATUS(status));
}

static int other_process() {
    hipIpcMemHandle_t handle;
    char *there = nullptr;
    if (read(0, &handle, sizeof handle) != sizeof handle)
        return 1;
    SAID(hipSetDevice(0));
    if (SAID(hipIpcOpenMemHandle((void **)&there, handle, hipIpcMemLazyEnablePeerAccess))) {
        around("of the other process", there);
        SAID(hipIpcCloseMemHandle(there));
    }
    return 0;
}

static void copies(char *device, char *host) {
    char *back;
    hipStream_t stream;
    hipEvent_t event;
    SAID(hipHostMalloc((void **)&back, BYTES, hipHostMallocDefault));
    for (size_t i = 0; i < BYTES; i++)
        host[i] = (char)(i * 7 + (i >> 11));
    SAID(hipStreamCreate(&stream));
    SAID(hipEventCreate(&event));
    SAID(hipMemcpyAsync(device, host, BYTES, hipMemcpyHostToDevice, stream));
    SAID(hipMemcpyAsync(back, device, BYTES, hipMemcpyDeviceToHost, stream));
    SAID(hipEventRecord(event, stream));
    SAID(hipEventSynchronize(event));
    SAID(hipStreamSynchronize(stream));
    printf("%zu bytes there and back: %s\n", BYTES, memcmp(host, back, BYTES) ? "different" : "the same");
    memset(back, 0, BYTES);
    SAID(hipMemcpy(device, host, BYTES, hipMemcpyHostToDevice));
    SAID(hipMemcpy(back, device, BYTES, hipMemcpyDeviceToHost));
    printf("and without a stream: %s\n", memcmp(host, back, BYTES) ? "different" : "the same");
    SAID(hipEventDestroy(event));
    SAID(hipStreamDestroy(stream));
    SAID(hipHostFree(back));
}

int main(int count, char **words) {
    char *device, *host;
    setvbuf(stdout, nullptr, _IOLBF, 0);
    if (count > 1 && !strcmp(words[1], "child"))
        return other_process();
    devices();
    memory(&device, &host);
    between_processes(words[0], device);
    // HIP loads its own programs with the first stream, and the runtime copies them by a shader.
    if (count > 1 && !strcmp(words[1], "shader"))
        copies(device, host);
    SAID(hipFree(device));
    SAID(hipHostFree(host));
    about("freed", device, 0);
    return 0;
}
