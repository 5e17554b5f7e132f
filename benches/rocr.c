/* What two calls cost a program of AMD's ROCr runtime, over whatever libhsakmt the dynamic linker finds.
 *
 * rocr pointers   nanoseconds of hsa_amd_pointer_info: with 1,000 pool buffers, and with 1,000 locked ranges beside them
 * rocr start      nanoseconds from the first call of the thunk to its first answer about a pointer */
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <hsakmt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BUFFERS = 1000, CALLS = 20000, BYTES = 3 << 20, PAGE = 4096 };

static char *buffers[BUFFERS];
static hsa_agent_t gpu;
static hsa_amd_memory_pool_t pool;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static void require(int good, const char *what) {
    if (!good) {
        fprintf(stderr, "rocr: %s failed\n", what);
        exit(1);
    }
}
#define REQUIRE(good) require(good, #good)

static hsa_status_t find_gpu(hsa_agent_t agent, void *unused) {
    hsa_device_type_t type;
    (void)unused;
    if (!hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type) && type == HSA_DEVICE_TYPE_GPU && !gpu.handle)
        gpu = agent;
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t find_pool(hsa_amd_memory_pool_t found, void *unused) {
    bool can = false;
    (void)unused;
    if (!hsa_amd_memory_pool_get_info(found, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, &can) && can && !pool.handle)
        pool = found;
    return HSA_STATUS_SUCCESS;
}

/* The same addresses in the same order over each library. */
static double pointer_info(void) {
    unsigned random = 1;
    double began = now();
    for (int call = 0; call < CALLS; call++) {
        hsa_amd_pointer_info_t info = {.size = sizeof(info)};
        random = random * 1664525 + 1013904223;
        char *address = buffers[(random >> 8) % BUFFERS] + (random & 0xfff);
        REQUIRE(!hsa_amd_pointer_info(address, &info, NULL, NULL, NULL) && info.type == HSA_EXT_POINTER_TYPE_HSA);
    }
    return (now() - began) / CALLS;
}

static void pointers(void) {
    char *own = aligned_alloc(PAGE, 2L * BUFFERS * PAGE);
    void *locked;
    REQUIRE(!hsa_init() && !hsa_iterate_agents(find_gpu, NULL) && gpu.handle);
    hsa_amd_agent_iterate_memory_pools(gpu, find_pool, NULL);
    for (int i = 0; i < BUFFERS; i++)
        REQUIRE(!hsa_amd_memory_pool_allocate(pool, BYTES, 0, (void **)&buffers[i]));
    pointer_info();
    double alone = pointer_info();
    memset(own, 0, 2L * BUFFERS * PAGE);
    for (long i = 0; i < BUFFERS; i++)
        REQUIRE(!hsa_amd_memory_lock(own + 2 * i * PAGE, PAGE, &gpu, 1, &locked));
    pointer_info();
    printf("%f %f\n", alone, pointer_info());
}

static void start(void) {
    HsaSystemProperties system;
    HsaPointerInfo info;
    double began = now();
    REQUIRE(!hsaKmtOpenKFD() && !hsaKmtAcquireSystemProperties(&system));
    hsaKmtQueryPointerInfo(&info, &info);
    printf("%f\n", now() - began);
}

int main(int count, char **arguments) {
    if (count == 2 && !strcmp(arguments[1], "pointers"))
        pointers();
    else if (count == 2 && !strcmp(arguments[1], "start"))
        start();
    else
        return 2;
    return 0;
}
