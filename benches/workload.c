// The measured program. One source for every libhsakmt: only the public C interface is used, so the same text is built
// once against each library's own header and linked to it.
//
// In: arguments BUFFERS USERPTRS CPU CPU, then one command a line on standard input. Out: one line each on standard
// output, "ready" first, then numbers. The program does nothing between commands: several of them can share a core.
// What never happens: a call whose answer is not used, or a wrong answer that is timed (each object is checked first).
//
//   hit N       N queries, each inside some buffer           same N   the same eight buffers again and again
//   userptr N   N queries, each inside some userptr          miss N   N queries, each between two userptrs
//   data N      N times hsaKmtSetMemoryUserData              answer: nanoseconds of CPU time of this thread
//   threads T MS   T threads query buffers for MS milliseconds, each on its own CPU; answer: calls, nanoseconds
//   tail MS     one thread queries and times every call while another writes user data without pause; answer:
//               calls, writes, nanoseconds, then nanoseconds a call at 50 %, 99 %, 99.9 %, 99.99 %, at most, of the
//               clock alone; and at 99.9 % of waits as long as half of the calls, without a library: the machine's own
//
// Access pattern: every object once in a random order, at a random place inside it, then all again in another order.
// The addresses stand ready in an array (at least 65,536, then over again): no generator runs in the timed loop, and
// the processor cannot learn the order by heart.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include HSAKMT_H

enum { PAGE = 4096, BUFFER = 4 * PAGE, USERPTR = 2 * PAGE, STRIDE = 4 * PAGE, SAME = 8, LEAST = 65536 };

// Addresses to ask for, and where the next command goes on.
struct list {
	uint64_t *at;
	size_t count, next;
};

static struct list hits, same, misses, userptrs, starts;
static int cpus[2];

static void die(const char *what, long long detail) {
	fprintf(stderr, "workload: %s (%lld)\n", what, detail);
	exit(1);
}

static void must(const char *call, HSAKMT_STATUS status) {
	if (status != HSAKMT_STATUS_SUCCESS)
		die(call, status);
}

static uint64_t random_word(void) {
	static uint64_t state = 0x9e3779b97f4a7c15u;
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static uint64_t nanoseconds(clockid_t clock) {
	struct timespec now;
	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t *room(size_t count) {
	uint64_t *words = malloc(count * sizeof *words);
	if (!words)
		die("out of memory", (long long)count);
	return words;
}

static void shuffle(uint64_t *words, size_t count) {
	for (size_t i = count; i > 1; i--) {
		size_t j = random_word() % i;
		uint64_t swap = words[i - 1];
		words[i - 1] = words[j];
		words[j] = swap;
	}
}

// All `count` bases in a random order, again and again until there are at least LEAST, each plus `from` and a random
// offset below `spread`.
static struct list pattern(const uint64_t *bases, size_t count, uint64_t from, uint64_t spread) {
	if (count == 0)
		return (struct list){NULL, 0, 0};
	size_t total = (LEAST + count - 1) / count * count;
	struct list made = {room(total), total, 0};
	for (size_t pass = 0; pass < total; pass += count) {
		memcpy(made.at + pass, bases, count * sizeof *bases);
		shuffle(made.at + pass, count);
	}
	for (size_t i = 0; i < total; i++)
		made.at[i] += from + random_word() % spread;
	return made;
}

static void allocate(uint64_t *bases, size_t count) {
	HsaMemFlags flags;
	memset(&flags, 0, sizeof flags);
	flags.ui32.NonPaged = 1;
	flags.ui32.CoarseGrain = 1;
	for (size_t i = 0; i < count; i++) {
		void *address = NULL;
		HSAuint64 alternate;
		must("hsaKmtAllocMemory", hsaKmtAllocMemory(1, BUFFER, flags, &address));
		must("hsaKmtMapMemoryToGPU", hsaKmtMapMemoryToGPU(address, BUFFER, &alternate));
		bases[i] = (uint64_t)address;
	}
}

static void register_host(uint64_t *bases, size_t count) {
	if (count == 0)
		return;
	char *host = mmap(NULL, count * STRIDE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (host == MAP_FAILED)
		die("mmap of host memory", (long long)count);
	for (size_t i = 0; i < count; i++) {
		HSAuint64 alternate;
		char *address = host + i * STRIDE;
		*address = 1;
		must("hsaKmtRegisterMemory", hsaKmtRegisterMemory(address, USERPTR));
		must("hsaKmtMapMemoryToGPU", hsaKmtMapMemoryToGPU(address, USERPTR, &alternate));
		bases[i] = (uint64_t)address;
	}
}

// Each address of a list gets the answer it should, once.
static void check(const char *what, const struct list *list, size_t count, HSA_POINTER_TYPE type, uint64_t size) {
	for (size_t i = 0; i < count && i < list->count; i++) {
		HsaPointerInfo info;
		HSAKMT_STATUS status = hsaKmtQueryPointerInfo((void *)list->at[i], &info);
		uint64_t base = type == HSA_POINTER_REGISTERED_USER ? (uint64_t)info.CPUAddress : info.GPUAddress;
		int found = status == HSAKMT_STATUS_SUCCESS && info.Type == type && info.SizeInBytes == size &&
			    list->at[i] - base < size && info.NMappedNodes > 0 && info.MappedNodes;
		int unknown = status == HSAKMT_STATUS_ERROR && info.Type == HSA_POINTER_UNKNOWN;
		if (type == HSA_POINTER_UNKNOWN ? !unknown : !found)
			die(what, (long long)i);
	}
}

static void set_up(size_t buffers, size_t registered) {
	HsaSystemProperties system;
	must("hsaKmtOpenKFD", hsaKmtOpenKFD());
	must("hsaKmtAcquireSystemProperties", hsaKmtAcquireSystemProperties(&system));
	uint64_t *vram = room(buffers + 1), *host = room(registered + 1);
	allocate(vram, buffers);
	register_host(host, registered);
	hits = pattern(vram, buffers, 0, BUFFER);
	same = pattern(vram, buffers < SAME ? buffers : SAME, 0, BUFFER);
	starts = pattern(vram, buffers, 0, 1);
	userptrs = pattern(host, registered, 0, USERPTR);
	misses = pattern(host, registered, USERPTR, STRIDE - USERPTR);
	check("a wrong answer inside a buffer", &hits, buffers, HSA_POINTER_ALLOCATED, BUFFER);
	check("a wrong answer inside a userptr", &userptrs, registered < 1000 ? registered : 1000,
	      HSA_POINTER_REGISTERED_USER, USERPTR);
	check("a wrong answer between userptrs", &misses, registered < 1000 ? registered : 1000, HSA_POINTER_UNKNOWN, 0);
}

// What a caller does with an answer: looks at it. Where the stack happens to be must not matter: the struct is packed, and
// an answer that straddles two pages costs a processor 25 ns to store.
static inline uint64_t ask(uint64_t address) {
	_Alignas(128) HsaPointerInfo info;
	uint64_t status = hsaKmtQueryPointerInfo((void *)address, &info);
	return status + info.Type + info.GPUAddress + info.SizeInBytes + info.NMappedNodes;
}

static volatile uint64_t used;

static uint64_t time_queries(struct list *list, size_t calls) {
	uint64_t sum = 0;
	size_t next = list->next;
	uint64_t begin = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
	for (size_t i = 0; i < calls; i++) {
		sum += ask(list->at[next]);
		next = next + 1 == list->count ? 0 : next + 1;
	}
	uint64_t end = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
	list->next = next;
	used = sum;
	return end - begin;
}

static uint64_t time_writes(struct list *list, size_t calls) {
	uint64_t failures = 0;
	size_t next = list->next;
	uint64_t begin = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
	for (size_t i = 0; i < calls; i++) {
		failures += hsaKmtSetMemoryUserData((void *)list->at[next], (void *)(i + 1));
		next = next + 1 == list->count ? 0 : next + 1;
	}
	uint64_t end = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
	list->next = next;
	if (failures)
		die("hsaKmtSetMemoryUserData failed", (long long)failures);
	return end - begin;
}

// ---- several threads

enum { THREADS = 2, BINS = 1 << 16 };

struct worker {
	pthread_t thread;
	size_t index, calls;
	uint64_t nanoseconds;
};

static pthread_barrier_t gate;
static volatile int stop;
static uint64_t bins[BINS], highest;

static void own_cpu(size_t index) {
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpus[index % 2], &set);
	if (sched_setaffinity(0, sizeof set, &set))
		die("no such CPU", cpus[index % 2]);
	ask(hits.at[0]);
	pthread_barrier_wait(&gate);
}

static void *query_thread(void *argument) {
	struct worker *me = argument;
	own_cpu(me->index);
	size_t next = hits.count / THREADS * me->index, calls = 0;
	uint64_t sum = 0, begin = nanoseconds(CLOCK_MONOTONIC);
	while (!stop) {
		for (size_t i = 0; i < 256; i++) {
			sum += ask(hits.at[next]);
			next = next + 1 == hits.count ? 0 : next + 1;
		}
		calls += 256;
	}
	me->nanoseconds = nanoseconds(CLOCK_MONOTONIC) - begin;
	me->calls = calls;
	used = sum;
	return NULL;
}

static void *write_thread(void *argument) {
	struct worker *me = argument;
	own_cpu(me->index);
	uint64_t begin = nanoseconds(CLOCK_MONOTONIC);
	size_t calls = 0;
	uint64_t failures = 0;
	for (; !stop; calls++)
		failures += hsaKmtSetMemoryUserData((void *)starts.at[calls % starts.count], (void *)calls);
	me->nanoseconds = nanoseconds(CLOCK_MONOTONIC) - begin;
	me->calls = calls;
	if (failures)
		die("hsaKmtSetMemoryUserData failed", (long long)failures);
	return NULL;
}

static inline uint64_t ticks(void) {
#if defined(__x86_64__)
	uint32_t low, high, cpu;
	__asm__ volatile("rdtscp\n\tlfence" : "=a"(low), "=d"(high), "=c"(cpu)::"memory");
	return (uint64_t)high << 32 | low;
#else
	return nanoseconds(CLOCK_MONOTONIC);
#endif
}

static void count(uint64_t took) {
	bins[took < BINS ? took : BINS - 1]++;
	if (took > highest)
		highest = took;
}

static void *timing_thread(void *argument) {
	struct worker *me = argument;
	own_cpu(me->index);
	uint64_t sum = 0;
	size_t next = 0, calls = 0;
	for (; !stop; calls++) {
		uint64_t begin = ticks();
		sum += ask(hits.at[next]);
		count(ticks() - begin);
		next = next + 1 == hits.count ? 0 : next + 1;
	}
	me->calls = calls;
	used = sum;
	return NULL;
}

// How long `waiting_thread` waits.
static uint64_t wait_for;

static void *waiting_thread(void *argument) {
	struct worker *me = argument;
	own_cpu(me->index);
	for (; !stop; me->calls++) {
		uint64_t begin = ticks(), now = begin;
		while (now - begin < wait_for)
			now = ticks();
		count(now - begin);
	}
	return NULL;
}

static void *idle_thread(void *argument) {
	struct worker *me = argument;
	own_cpu(me->index);
	while (!stop)
		me->calls++;
	return NULL;
}

static void run_threads(void *(*const work[])(void *), struct worker *workers, size_t threads, unsigned milliseconds) {
	stop = 0;
	pthread_barrier_init(&gate, NULL, (unsigned)threads + 1);
	for (size_t i = 0; i < threads; i++) {
		workers[i] = (struct worker){.index = i};
		if (pthread_create(&workers[i].thread, NULL, work[i], &workers[i]))
			die("no thread", (long long)i);
	}
	pthread_barrier_wait(&gate);
	struct timespec pause = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
	nanosleep(&pause, NULL);
	stop = 1;
	for (size_t i = 0; i < threads; i++)
		pthread_join(workers[i].thread, NULL);
	pthread_barrier_destroy(&gate);
}

static void throughput(size_t threads, unsigned milliseconds) {
	void *(*const work[THREADS])(void *) = {query_thread, query_thread};
	struct worker workers[THREADS];
	if (threads == 0 || threads > THREADS)
		die("threads: 1 or 2", (long long)threads);
	run_threads(work, workers, threads, milliseconds);
	size_t calls = 0;
	uint64_t longest = 0;
	for (size_t i = 0; i < threads; i++) {
		calls += workers[i].calls;
		if (workers[i].nanoseconds > longest)
			longest = workers[i].nanoseconds;
	}
	printf("%zu %llu\n", calls, (unsigned long long)longest);
}

// Ticks that `share` of all counted calls stayed below.
static uint64_t quantile(double share) {
	uint64_t total = 0, seen = 0;
	for (size_t i = 0; i < BINS; i++)
		total += bins[i];
	for (size_t i = 0; i < BINS; i++) {
		seen += bins[i];
		if ((double)seen >= share * (double)total)
			return i + 1 == BINS ? highest : i;
	}
	return highest;
}

static void tail(unsigned milliseconds) {
	memset(bins, 0, sizeof bins);
	highest = 0;
	for (int i = 0; i < 10000; i++) {
		uint64_t begin = ticks();
		count(ticks() - begin);
	}
	uint64_t clock = quantile(0.5);
	memset(bins, 0, sizeof bins);
	highest = 0;
	uint64_t begin_ticks = ticks(), begin = nanoseconds(CLOCK_MONOTONIC);
	void *(*const work[THREADS])(void *) = {timing_thread, write_thread};
	struct worker workers[THREADS];
	run_threads(work, workers, THREADS, milliseconds);
	double tick = (double)(nanoseconds(CLOCK_MONOTONIC) - begin) / (double)(ticks() - begin_ticks);
	printf("%zu %zu %llu", workers[0].calls, workers[1].calls, (unsigned long long)workers[1].nanoseconds);
	const double shares[] = {0.5, 0.99, 0.999, 0.9999};
	for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
		printf(" %.1f", (double)quantile(shares[i]) * tick);
	printf(" %.1f %.1f", (double)highest * tick, (double)clock * tick);
	wait_for = quantile(0.5);
	memset(bins, 0, sizeof bins);
	highest = 0;
	void *(*const wait[THREADS])(void *) = {waiting_thread, idle_thread};
	run_threads(wait, workers, THREADS, milliseconds);
	printf(" %.1f\n", (double)quantile(0.999) * tick);
}

static struct list *list_of(const char *verb) {
	static const struct {
		const char *verb;
		struct list *list;
	} known[] = {{"hit", &hits}, {"same", &same}, {"userptr", &userptrs}, {"miss", &misses}, {"data", &starts}};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (!strcmp(known[i].verb, verb) && known[i].list->count)
			return known[i].list;
	return NULL;
}

static void obey(const char *verb, unsigned first, unsigned second) {
	struct list *list = list_of(verb);
	if (!strcmp(verb, "threads"))
		throughput(first, second);
	else if (!strcmp(verb, "tail"))
		tail(first);
	else if (!list)
		die("no such command, or nothing to ask it of", first);
	else if (!strcmp(verb, "data"))
		printf("%llu\n", (unsigned long long)time_writes(list, first));
	else
		printf("%llu\n", (unsigned long long)time_queries(list, first));
	fflush(stdout);
}

int main(int count, char **arguments) {
	if (count != 5)
		die("usage: workload BUFFERS USERPTRS CPU CPU, then commands on standard input", count);
	cpus[0] = atoi(arguments[3]);
	cpus[1] = atoi(arguments[4]);
	set_up(strtoul(arguments[1], NULL, 10), strtoul(arguments[2], NULL, 10));
	printf("ready\n");
	fflush(stdout);
	char line[128], verb[32];
	while (fgets(line, sizeof line, stdin)) {
		unsigned first = 0, second = 0;
		if (sscanf(line, "%31s %u %u", verb, &first, &second) < 1 || !strcmp(verb, "quit"))
			break;
		obey(verb, first, second);
	}
	return 0;
}
