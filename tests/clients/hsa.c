/* What a program of AMD's ROCr runtime sees of its libhsakmt: agents, pools, pointers inside and outside of every kind of
 * memory, signals, a queue with barrier packets, copies by the copy engines, memory of another process, and where the runtime
 * has it virtual memory. Prints no address and no time, so that two libraries must print the same. */
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 5 << 20, PAGE = 4096, ROUNDS = 64 };

static hsa_agent_t gpus[8], cpu;
static unsigned gpu_count;

static void require(hsa_status_t status, const char *what) {
    if (status == HSA_STATUS_SUCCESS || status == HSA_STATUS_INFO_BREAK)
        return;
    printf("%s: %#x\n", what, status);
    exit(1);
}
#define REQUIRE(call) require(call, #call)

static hsa_status_t note_agent(hsa_agent_t agent, void *unused) {
    char name[64];
    hsa_device_type_t type;
    uint32_t node;
    (void)unused;
    REQUIRE(hsa_agent_get_info(agent, HSA_AGENT_INFO_NAME, name));
    REQUIRE(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type));
    REQUIRE(hsa_agent_get_info(agent, HSA_AGENT_INFO_NODE, &node));
    printf("agent %s, node %u\n", name, node);
    if (type == HSA_DEVICE_TYPE_GPU && gpu_count < 8)
        gpus[gpu_count++] = agent;
    if (type == HSA_DEVICE_TYPE_CPU)
        cpu = agent;
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t describe_pool(hsa_amd_memory_pool_t pool, void *found) {
    hsa_amd_segment_t segment;
    uint32_t flags = 0;
    size_t size, granule = 0;
    bool can = false;
    REQUIRE(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment));
    REQUIRE(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SIZE, &size));
    REQUIRE(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, &can));
    if (segment == HSA_AMD_SEGMENT_GLOBAL)
        REQUIRE(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags));
    if (can)
        REQUIRE(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_GRANULE, &granule));
    printf("  pool: segment %d, flags %u, %zu bytes, granule %zu\n", segment, flags, size, granule);
    hsa_amd_memory_pool_t *first = found;
    if (segment == HSA_AMD_SEGMENT_GLOBAL && can && !first->handle)
        *first = pool;
    return HSA_STATUS_SUCCESS;
}

static hsa_amd_memory_pool_t pool_of(hsa_agent_t agent) {
    hsa_amd_memory_pool_t pool = {0};
    REQUIRE(hsa_amd_agent_iterate_memory_pools(agent, describe_pool, &pool));
    return pool;
}

static int by_node(const void *left, const void *right) {
    uint32_t a, b;
    REQUIRE(hsa_agent_get_info(*(const hsa_agent_t *)left, HSA_AGENT_INFO_NODE, &a));
    REQUIRE(hsa_agent_get_info(*(const hsa_agent_t *)right, HSA_AGENT_INFO_NODE, &b));
    return (a > b) - (a < b);
}

/* What the runtime knows of an address; places as offsets from `base`. */
static void describe(const char *what, const char *base, long offset) {
    hsa_amd_pointer_info_t info = {.size = sizeof(info)};
    uint32_t count = 0;
    hsa_agent_t *accessible = NULL;
    hsa_status_t status = hsa_amd_pointer_info((void *)(base + offset), &info, malloc, &count, &accessible);
    if (status != HSA_STATUS_SUCCESS) {
        printf("%s + %ld: status %#x\n", what, offset, status);
        return;
    }
    printf("%s + %ld: type %d, %zu bytes", what, offset, info.type, info.sizeInBytes);
    if (info.type != HSA_EXT_POINTER_TYPE_UNKNOWN) {
        uint32_t node = 99;
        if (info.agentOwner.handle)
            REQUIRE(hsa_agent_get_info(info.agentOwner, HSA_AGENT_INFO_NODE, &node));
        printf(", host %s, agent %s, user data %ld, owner node %u, flags %u, accessible by",
               !info.hostBaseAddress ? "none" : (char *)info.hostBaseAddress == base ? "here" : "elsewhere",
               (char *)info.agentBaseAddress == base ? "here" : "elsewhere",
               info.userData ? (long)((char *)info.userData - base) : -1, node, info.global_flags);
        /* The runtime's order follows its objects' addresses. */
        qsort(accessible, count, sizeof(*accessible), by_node);
        for (uint32_t i = 0; i < count; i++) {
            REQUIRE(hsa_agent_get_info(accessible[i], HSA_AGENT_INFO_NODE, &node));
            printf(" %u", node);
        }
    }
    printf("\n");
    free(accessible);
}

static void pointers(hsa_amd_memory_pool_t device, hsa_amd_memory_pool_t host) {
    char *vram, *system, *own = aligned_alloc(PAGE, 4 * PAGE), *locked;
    REQUIRE(hsa_amd_memory_pool_allocate(device, 3 * PAGE, 0, (void **)&vram));
    REQUIRE(hsa_amd_memory_pool_allocate(host, BYTES, 0, (void **)&system));
    for (long offset = 0; offset <= 3 * PAGE; offset += PAGE + 17)
        describe("device memory", vram, offset);
    describe("host memory", system, 0);
    REQUIRE(hsa_amd_agents_allow_access(gpu_count, gpus, NULL, system));
    describe("host memory that all may use", system, BYTES - 1);
    REQUIRE(hsa_amd_agents_allow_access(gpu_count, gpus, NULL, vram));
    describe("device memory that all may use", vram, 1);
    REQUIRE(hsa_amd_pointer_info_set_userdata(vram, vram + 5));
    describe("device memory with user data", vram, 2);
    describe("the program's own", own, 0);
    REQUIRE(hsa_amd_memory_lock(own + PAGE, PAGE + 100, gpus, 1, (void **)&locked));
    describe("locked", own + PAGE, 0);
    describe("locked", own + PAGE, PAGE + 99);
    describe("before locked", own, PAGE - 1);
    describe("where the GPU sees it", locked, 0);
    REQUIRE(hsa_amd_memory_unlock(own + PAGE));
    describe("unlocked", own + PAGE, 0);
    REQUIRE(hsa_amd_memory_pool_free(vram));
    describe("freed", vram, 0);
    REQUIRE(hsa_amd_memory_pool_free(system));
    free(own);
}

static void signals(void) {
    hsa_signal_t signal;
    REQUIRE(hsa_signal_create(3, 0, NULL, &signal));
    long value = hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_LT, 3, 2000000, HSA_WAIT_STATE_BLOCKED);
    printf("after a wait in vain: %ld\n", value);
    hsa_signal_subtract_screlease(signal, 2);
    value = hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_LT, 3, UINT64_MAX, HSA_WAIT_STATE_BLOCKED);
    printf("after a wait: %ld\n", value);
    REQUIRE(hsa_signal_destroy(signal));
}

/* A packet that waits for `before` and then counts `after` down. */
static void barrier(hsa_queue_t *queue, int type, hsa_signal_t before, hsa_signal_t after) {
    uint64_t index = hsa_queue_add_write_index_relaxed(queue, 1);
    hsa_barrier_and_packet_t *packet = (hsa_barrier_and_packet_t *)queue->base_address + index % queue->size;
    memset((char *)packet + 4, 0, sizeof(*packet) - 4);
    packet->dep_signal[2] = before;
    packet->completion_signal = after;
    __atomic_store_n((uint32_t *)packet, type << HSA_PACKET_HEADER_TYPE, __ATOMIC_RELEASE);
    hsa_signal_store_screlease(queue->doorbell_signal, index);
}

static void barriers(void) {
    hsa_queue_t *queue;
    hsa_signal_t before, after;
    long early = 0, late = 0;
    REQUIRE(hsa_queue_create(gpus[0], 64, HSA_QUEUE_TYPE_MULTI, NULL, NULL, UINT32_MAX, UINT32_MAX, &queue));
    REQUIRE(hsa_signal_create(1, 0, NULL, &before));
    REQUIRE(hsa_signal_create(1, 0, NULL, &after));
    for (int round = 0; round < 2 * ROUNDS; round++) {
        hsa_signal_store_relaxed(before, 1);
        hsa_signal_store_relaxed(after, 1);
        barrier(queue, round & 1 ? HSA_PACKET_TYPE_BARRIER_OR : HSA_PACKET_TYPE_BARRIER_AND, before, after);
        if (round < 2)
            early += hsa_signal_wait_scacquire(after, HSA_SIGNAL_CONDITION_LT, 1, 2000000, HSA_WAIT_STATE_BLOCKED);
        hsa_signal_store_screlease(before, 0);
        late += hsa_signal_wait_scacquire(after, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, HSA_WAIT_STATE_BLOCKED);
    }
    printf("barriers: %ld of 2 waited, %ld of %d never ended\n", early, late, 2 * ROUNDS);
    REQUIRE(hsa_queue_destroy(queue));
    REQUIRE(hsa_signal_destroy(before));
    REQUIRE(hsa_signal_destroy(after));
}

static void copy(void *to, hsa_agent_t to_agent, void *from, hsa_agent_t from_agent) {
    hsa_signal_t done;
    REQUIRE(hsa_signal_create(1, 0, NULL, &done));
    REQUIRE(hsa_amd_memory_async_copy(to, to_agent, from, from_agent, BYTES, 0, NULL, done));
    hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, HSA_WAIT_STATE_BLOCKED);
    REQUIRE(hsa_signal_destroy(done));
}

static void copies(hsa_amd_memory_pool_t device, hsa_amd_memory_pool_t host) {
    unsigned char *vram, *there, *back;
    REQUIRE(hsa_amd_memory_pool_allocate(device, BYTES, 0, (void **)&vram));
    REQUIRE(hsa_amd_memory_pool_allocate(host, BYTES, 0, (void **)&there));
    REQUIRE(hsa_amd_memory_pool_allocate(host, BYTES, 0, (void **)&back));
    REQUIRE(hsa_amd_agents_allow_access(1, gpus, NULL, there));
    REQUIRE(hsa_amd_agents_allow_access(1, gpus, NULL, back));
    for (long i = 0; i < BYTES; i++)
        there[i] = i * 13 + (i >> 9);
    copy(vram, gpus[0], there, cpu);
    copy(back, cpu, vram, gpus[0]);
    printf("%d bytes to the GPU and back: %s\n", BYTES, memcmp(there, back, BYTES) ? "different" : "the same");
    REQUIRE(hsa_amd_memory_pool_free(vram));
    REQUIRE(hsa_amd_memory_pool_free(there));
    REQUIRE(hsa_amd_memory_pool_free(back));
}

/* Another process attaches to device memory, and writes there. */
static void between_processes(const char *program, hsa_amd_memory_pool_t device) {
    hsa_amd_ipc_memory_t name;
    char *vram;
    int ends[2], status;
    REQUIRE(hsa_amd_memory_pool_allocate(device, 2 << 20, 0, (void **)&vram));
    vram[5] = 1;
    REQUIRE(hsa_amd_ipc_memory_create(vram, 2 << 20, &name));
    fflush(stdout);
    if (pipe(ends))
        exit(1);
    pid_t child = fork();
    if (!child) {
        dup2(ends[0], 0);
        execl(program, program, "child", (char *)NULL);
        _exit(1);
    }
    if (write(ends[1], &name, sizeof(name)) != sizeof(name))
        exit(1);
    waitpid(child, &status, 0);
    printf("the other process ended with %d and left %d\n", WEXITSTATUS(status), vram[5]);
    close(ends[0]);
    close(ends[1]);
    REQUIRE(hsa_amd_memory_pool_free(vram));
}

static int other_process(void) {
    hsa_amd_ipc_memory_t name;
    char *there;
    if (read(0, &name, sizeof(name)) != sizeof(name))
        return 1;
    REQUIRE(hsa_init());
    REQUIRE(hsa_iterate_agents(note_agent, NULL));
    REQUIRE(hsa_amd_ipc_memory_attach(&name, 2 << 20, 1, gpus, (void **)&there));
    describe("of the other process", there, 0);
    describe("of the other process", there, 4097);
    printf("it holds %d\n", there[5]);
    there[5] = 2;
    REQUIRE(hsa_amd_ipc_memory_detach(there));
    describe("detached", there, 0);
    REQUIRE(hsa_shut_down());
    return 0;
}

#if HSA_AMD_INTERFACE_VERSION_MINOR >= 4
/* Addresses first, then memory for them, then who may use it. */
static void virtual_memory(hsa_amd_memory_pool_t device) {
    const size_t size = 4 << 20;
    hsa_amd_vmem_alloc_handle_t memory;
    hsa_amd_memory_access_desc_t access = {HSA_ACCESS_PERMISSION_RW, gpus[0]};
    hsa_access_permission_t allowed;
    char *at;
    int shared;
    hsa_status_t status = hsa_amd_vmem_address_reserve((void **)&at, size, 0, 0);
    printf("reserve addresses: %#x\n", status);
    /* Not with every kernel interface. */
    if (status)
        return;
    describe("reserved addresses", at, 0);
    REQUIRE(hsa_amd_vmem_handle_create(device, size / 2, MEMORY_TYPE_NONE, 0, &memory));
    REQUIRE(hsa_amd_vmem_map(at, size / 2, 0, memory, 0));
    describe("mapped", at, 0);
    describe("not mapped", at, size / 2);
    REQUIRE(hsa_amd_vmem_set_access(at, size / 2, &access, 1));
    REQUIRE(hsa_amd_vmem_get_access(at, &allowed, gpus[0]));
    describe("accessible", at, 100);
    printf("access %d\n", allowed);
    status = hsa_amd_vmem_export_shareable_handle(&shared, memory, 0);
    printf("a handle to share: %#x, %s\n", status, status ? "none" : close(shared) ? "no file" : "a file");
    REQUIRE(hsa_amd_vmem_unmap(at, size / 2));
    describe("unmapped", at, 0);
    REQUIRE(hsa_amd_vmem_handle_release(memory));
    REQUIRE(hsa_amd_vmem_address_free(at, size));
    describe("given back", at, 0);
}
#endif

int main(int count, char **words) {
    if (count > 1)
        return other_process();
    /* Twice: what the first leaves behind the second may trip over. */
    for (int round = 0; round < 2; round++) {
        gpu_count = 0;
        REQUIRE(hsa_init());
        REQUIRE(hsa_iterate_agents(note_agent, NULL));
        if (!gpu_count)
            return 1;
        puts("pools of the GPU");
        hsa_amd_memory_pool_t device = pool_of(gpus[0]);
        puts("pools of the CPU");
        hsa_amd_memory_pool_t host = pool_of(cpu);
        pointers(device, host);
        signals();
        barriers();
        copies(device, host);
        between_processes(words[0], device);
#if HSA_AMD_INTERFACE_VERSION_MINOR >= 4
        virtual_memory(device);
#endif
        REQUIRE(hsa_shut_down());
    }
    return 0;
}
