// What AMD's runtime does with queues on a simulated GPU: AQL barriers that wait for signals, with and without a timeout,
// and asynchronous copies both ways on SDMA. With an argument, also a dispatch, which must end in the queue's error.
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(condition) do { if (!(condition)) { printf("line %d: %s\n", __LINE__, #condition); fflush(stdout); _Exit(1); } } while (0)
#define ROUNDS 100
#define SIZE (5u << 20)

static hsa_agent_t gpu, cpu;
static hsa_status_t error_seen;

static hsa_status_t find_agents(hsa_agent_t agent, void *unused)
{
	hsa_device_type_t type;
	MUST(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type) == HSA_STATUS_SUCCESS);
	if (type == HSA_DEVICE_TYPE_GPU && !gpu.handle)
		gpu = agent;
	if (type == HSA_DEVICE_TYPE_CPU && !cpu.handle)
		cpu = agent;
	return HSA_STATUS_SUCCESS;
}

static hsa_status_t find_pool(hsa_amd_memory_pool_t pool, void *found)
{
	hsa_amd_segment_t segment;
	bool allocatable;
	hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment);
	hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, &allocatable);
	if (segment != HSA_AMD_SEGMENT_GLOBAL || !allocatable)
		return HSA_STATUS_SUCCESS;
	*(hsa_amd_memory_pool_t *)found = pool;
	return HSA_STATUS_INFO_BREAK;
}

static void on_error(hsa_status_t status, hsa_queue_t *queue, void *data) { error_seen = status; }

// Puts one packet into the queue; `type` goes in last.
static void put(hsa_queue_t *queue, int type, hsa_signal_t dependency, hsa_signal_t completion)
{
	uint64_t index = hsa_queue_add_write_index_relaxed(queue, 1);
	hsa_barrier_and_packet_t *packet = (hsa_barrier_and_packet_t *)queue->base_address + index % queue->size;
	memset((char *)packet + 4, 0, sizeof *packet - 4);
	packet->dep_signal[2] = dependency;
	packet->completion_signal = completion;
	__atomic_store_n((uint32_t *)packet, type << HSA_PACKET_HEADER_TYPE, __ATOMIC_RELEASE);
	hsa_signal_store_screlease(queue->doorbell_signal, index);
}

static int64_t wait_for(hsa_signal_t signal, uint64_t timeout)
{
	return hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_LT, 1, timeout, HSA_WAIT_STATE_BLOCKED);
}

static void barriers(hsa_queue_t *queue, hsa_signal_t dependency, hsa_signal_t done)
{
	for (int round = 0; round < ROUNDS; round++) {
		hsa_signal_store_relaxed(dependency, 1);
		hsa_signal_store_relaxed(done, 1);
		put(queue, round % 2 ? HSA_PACKET_TYPE_BARRIER_OR : HSA_PACKET_TYPE_BARRIER_AND, dependency, done);
		if (round < 2)
			MUST(wait_for(done, 20000000) == 1);
		hsa_signal_store_screlease(dependency, 0);
		MUST(wait_for(done, -1) == 0);
	}
}

static void copies(hsa_signal_t dependency, hsa_signal_t done)
{
	hsa_amd_memory_pool_t here, there;
	char *from, *to, *device;
	MUST(hsa_amd_agent_iterate_memory_pools(cpu, find_pool, &here) == HSA_STATUS_INFO_BREAK);
	MUST(hsa_amd_agent_iterate_memory_pools(gpu, find_pool, &there) == HSA_STATUS_INFO_BREAK);
	MUST(hsa_amd_memory_pool_allocate(here, SIZE, 0, (void **)&from) == HSA_STATUS_SUCCESS);
	MUST(hsa_amd_memory_pool_allocate(here, SIZE, 0, (void **)&to) == HSA_STATUS_SUCCESS);
	MUST(hsa_amd_memory_pool_allocate(there, SIZE, 0, (void **)&device) == HSA_STATUS_SUCCESS);
	MUST(hsa_amd_agents_allow_access(1, &gpu, NULL, from) == HSA_STATUS_SUCCESS);
	MUST(hsa_amd_agents_allow_access(1, &gpu, NULL, to) == HSA_STATUS_SUCCESS);
	for (unsigned at = 0; at < SIZE; at++)
		from[at] = at * 13 + (at >> 9);
	MUST(hsa_amd_profiling_async_copy_enable(true) == HSA_STATUS_SUCCESS);
	hsa_signal_store_relaxed(dependency, 1);
	hsa_signal_store_relaxed(done, 1);
	MUST(hsa_amd_memory_async_copy(device, gpu, from, cpu, SIZE, 1, &dependency, done) == HSA_STATUS_SUCCESS);
	MUST(wait_for(done, 20000000) == 1);
	hsa_signal_store_screlease(dependency, 0);
	MUST(wait_for(done, -1) == 0);
	hsa_amd_profiling_async_copy_time_t time;
	MUST(hsa_amd_profiling_get_async_copy_time(done, &time) == HSA_STATUS_SUCCESS && time.end > time.start);
	hsa_signal_store_relaxed(done, 1);
	MUST(hsa_amd_memory_async_copy(to, cpu, device, gpu, SIZE, 0, NULL, done) == HSA_STATUS_SUCCESS);
	MUST(wait_for(done, -1) == 0);
	MUST(!memcmp(from, to, SIZE));
}

int main(int count, char **arguments)
{
	hsa_queue_t *queue;
	hsa_signal_t dependency, done;
	MUST(hsa_init() == HSA_STATUS_SUCCESS);
	MUST(hsa_iterate_agents(find_agents, NULL) == HSA_STATUS_SUCCESS && gpu.handle && cpu.handle);
	MUST(hsa_queue_create(gpu, 64, HSA_QUEUE_TYPE_MULTI, on_error, NULL, 0, 0, &queue) == HSA_STATUS_SUCCESS);
	MUST(hsa_signal_create(1, 0, NULL, &dependency) == HSA_STATUS_SUCCESS);
	MUST(hsa_signal_create(1, 0, NULL, &done) == HSA_STATUS_SUCCESS);
	barriers(queue, dependency, done);
	copies(dependency, done);
	if (count > 1) {
		hsa_signal_store_relaxed(done, 1);
		put(queue, HSA_PACKET_TYPE_KERNEL_DISPATCH, (hsa_signal_t){ 0 }, done);
		for (int wait = 0; wait < 100 && !error_seen; wait++)
			wait_for(done, 20000000);
		if (error_seen != HSA_STATUS_ERROR_INVALID_PACKET_FORMAT) printf("error %#x\n", error_seen);
		MUST(error_seen == HSA_STATUS_ERROR_INVALID_PACKET_FORMAT);
	}
	puts("fine");
	fflush(stdout);
	_Exit(0);
}
