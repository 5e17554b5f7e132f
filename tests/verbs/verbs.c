// Random verbs, the same for every library: `verbs SEED COUNT` prints what each call answered. Addresses are printed by
// the object they lie in, or, where the library places them itself (HSA_RESERVE_SVM=1, mem handles), as they are.
//
// Kept out, since our library answers differently on purpose or the C library crashes: freeing what is mapped, a GPU
// twice in a list, a map that fails half-way, importing to unknown nodes or into mem handles, sharing scratch.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "hsakmt/hsakmt.h"

typedef uint64_t u64;
#define P 4096ull

static u64 seed;
static u64 below(u64 n) { seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17; return (seed >> 11) % n; }

static struct { u64 at, size; } object[1024];
static int objects, placed;

static int born(u64 at, u64 size) { object[objects].at = at; object[objects].size = size; return objects++; }
static void gone(int index) { object[index].at = 1; object[index].size = 0; }

static const char *name(u64 at) {
	static char names[8][64];
	static int next;
	char *out = names[next++ & 7];
	if (!at) return "0";
	if (at >= 1ull << 47 || (placed && at >= 0x1000000 && at < 1ull << 40)) { snprintf(out, 64, "@%lx", at); return out; }
	for (int i = objects - 1; i >= 0; i--)
		if (at >= object[i].at && at - object[i].at < object[i].size) { snprintf(out, 64, "O%d+%lx", i, at - object[i].at); return out; }
	snprintf(out, 64, "?+%lx", at & (P - 1));
	return out;
}

static void ask(u64 at) {
	HsaPointerInfo info;
	memset(&info, 0xaa, sizeof info);
	int status = hsaKmtQueryPointerInfo((void *)at, &info);
	printf("  query %s: %d type %d", status ? "-" : name(at), status, info.Type);
	if (!status) {
		printf(" node %u flags %x cpu %s gpu %s size %lx", info.Node, info.MemFlags.Value, name((u64)info.CPUAddress), name(info.GPUAddress), (u64)info.SizeInBytes);
		for (unsigned i = 0; i < info.NRegisteredNodes; i++) printf("%s%u", i ? "," : " registered ", info.RegisteredNodes[i]);
		for (unsigned i = 0; i < info.NMappedNodes; i++) printf("%s%u", i ? "," : " mapped ", info.MappedNodes[i]);
		printf(" user %lx", (u64)info.UserData);
	}
	printf("\n");
}

static void ask_around(u64 at, u64 size) { ask(at); ask(at + 1); ask(at + size / 2); ask(at + size - 1); ask(at + size); }

static HSAuint32 list[8][2] = {{1}, {2}, {1, 2}, {2, 1}, {0}, {9}, {2}, {0, 2}};
static int list_size[8] = {1, 1, 2, 2, 1, 1, 1, 2};

static void change(u64 start, u64 size, int count) {
	while (count--) {
		u64 at = start + (below(3) ? 0 : below(size < 2 * P ? size : 2 * P)), length = below(4) ? size : below(2) ? 0 : below(3 * P);
		int what = below(6), nodes = below(8);
		HSAuint64 other = 0xdead;
		HsaMemMapFlags flags = {0};
		if (what < 2) {
			int status = hsaKmtMapMemoryToGPU((void *)at, length, &other);
			printf(" map %s %lx: %d other %s\n", name(at), length, status, other == 0xdead ? "untouched" : name(other));
		} else if (what < 4) {
			int status = hsaKmtMapMemoryToGPUNodes((void *)at, length, &other, flags, list_size[nodes], list[nodes]);
			printf(" map %s %lx to list %d: %d other %s\n", name(at), length, nodes, status, other == 0xdead ? "untouched" : name(other));
		} else if (what == 4) {
			printf(" unmap %s: %d\n", name(at), hsaKmtUnmapMemoryToGPU((void *)at));
		} else {
			u64 word = below(1000);
			printf(" user data %s %lx: %d\n", name(at), word, hsaKmtSetMemoryUserData((void *)at, (void *)word));
		}
		ask(start);
	}
}

static void end_import(u64 at, int index) {
	int unmapped = hsaKmtUnmapMemoryToGPU((void *)at), ended = hsaKmtDeregisterMemory((void *)at);
	printf(" unmap %d deregister %d\n", unmapped, ended);
	ask(at);
	gone(index);
}

static void graphics(u64 start, u64 size) {
	int fd = -1, nodes = below(9);
	HSAuint64 offset = 99;
	u64 skip = below(size), length = below(size + 2);
	int status = hsaKmtExportDMABufHandle((void *)(start + skip), length, &fd, &offset);
	printf(" export +%lx %lx: %d offset %lx\n", skip, length, status, (u64)offset);
	if (status) return;
	HsaGraphicsResourceInfo info;
	memset(&info, 0, sizeof info);
	if (nodes == 8) status = hsaKmtRegisterGraphicsHandleToNodes(fd, &info, 0, NULL);
	else status = hsaKmtRegisterGraphicsHandleToNodes(fd, &info, list_size[nodes], list[nodes]);
	u64 at = (u64)info.MemoryAddress;
	int index = status ? 0 : born(at, info.SizeInBytes);
	printf(" graphics to list %d: %d %s size %lx metadata %d %lx node %u\n", nodes, status, status ? "" : name(at), (u64)info.SizeInBytes, info.Metadata != 0, (u64)info.MetadataSizeInBytes, info.NodeId);
	close(fd);
	if (status) return;
	ask_around(at, info.SizeInBytes);
	change(at, info.SizeInBytes, below(4));
	end_import(at, index);
}

static void share(u64 start, u64 size) {
	HsaSharedMemoryHandle handle;
	memset(&handle, 0, sizeof handle);
	int status = hsaKmtShareMemory((void *)(start + (below(4) ? 0 : P)), size, &handle), nodes = below(9);
	uint32_t *word = (uint32_t *)&handle;
	printf(" share: %d aperture %u %u pages %u gpu %d\n", status, word[4], word[5], word[6], word[7] != 0);
	if (status) return;
	void *at = NULL;
	HSAuint64 seen = 0;
	if (nodes == 5) nodes = 0;
	if (nodes == 8) status = hsaKmtRegisterSharedHandle(&handle, &at, &seen);
	else status = hsaKmtRegisterSharedHandleToNodes(&handle, &at, &seen, list_size[nodes], list[nodes]);
	int index = status ? 0 : born((u64)at, seen);
	printf(" import to list %d: %d %s size %lx\n", nodes, status, status ? "" : name((u64)at), (u64)seen);
	if (status) return;
	ask_around((u64)at, seen);
	change((u64)at, seen, below(4));
	end_import((u64)at, index);
}

static HsaMemFlags some_flags(void) {
	HsaMemFlags flags = {0};
	flags.ui32.NonPaged = below(3) != 0;
	flags.ui32.HostAccess = below(2);
	flags.ui32.CoarseGrain = below(2);
	flags.ui32.ReadOnly = !below(6);
	flags.ui32.ExecuteAccess = below(2);
	flags.ui32.AQLQueueMemory = !below(6);
	flags.ui32.Uncached = !below(8);
	flags.ui32.ExtendedCoherent = !below(8);
	if (!below(6)) flags.ui32.OnlyAddress = 1;
	else if (!below(6)) flags.ui32.NoAddress = 1;
	flags.ui32.GTTAccess = !below(8);
	flags.ui32.Contiguous = !below(8);
	flags.ui32.NoNUMABind = !below(10);
	if (!below(9)) flags.ui32.PageSize = below(4);
	return flags;
}

static void allocate(void) {
	u64 size = (1 + below(below(3) ? 8 : 3000)) * P, align = below(4) ? 0 : below(2) ? P << below(12) : below(9000);
	if (!below(12)) size = below(9000);
	HsaMemFlags flags = some_flags();
	int node = below(8) ? below(3) : below(12);
	void *place = (void *)0x1234;
	int status = hsaKmtAllocMemoryAlign(node, size, align, flags, &place);
	u64 at = (u64)place, whole = flags.ui32.AQLQueueMemory ? 2 * size : size, grown = align > P ? align : P;
	int index = status ? 0 : born(at, whole);
	while (grown < 2 << 20 && whole >= 2 * grown) grown *= 2;
	printf("allocate on %d, %lx at multiple of %lx, flags %x: %d %s\n", node, size, align, flags.Value, status, status ? (place ? "untouched" : "null") : name(at));
	if (status) return;
	if (!placed && at < 1ull << 47 && at & (grown - 1)) printf(" not at a multiple of %lx\n", grown);
	ask_around(at, whole);
	if (flags.ui32.HostAccess && !flags.ui32.OnlyAddress && !flags.ui32.NoAddress) ((char *)at)[0] = ((char *)at)[size - 1] = 1;
	change(at, whole, below(6));
	int registered = hsaKmtRegisterMemory(place, whole);
	printf(" register %d deregister %d\n", registered, hsaKmtDeregisterMemory(place));
	if (!below(3)) graphics(at, whole);
	if (!below(3) && !flags.ui32.NoAddress) share(at, whole);
	if (!below(3)) return;
	int unmapped = hsaKmtUnmapMemoryToGPU(place), freed = hsaKmtFreeMemory((char *)place + below(3) * 2048, 0);
	printf(" unmap %d free %d\n", unmapped, freed);
	ask(at);
	if (!freed) gone(index);
}

static u64 host;

static void userptrs(void) {
	u64 base = host, at[4], size[4];
	int count = 1 + below(4), registered[4];
	host += 0x20000;
	for (int i = 0; i < count; i++) {
		int fresh;
		do {
			at[i] = base + (below(2) ? below(0x4000) : below(4) * P);
			size[i] = 1 + (below(2) ? below(0x3000) : below(3) * P);
			fresh = 1;
			for (int k = 0; k < i; k++) fresh &= at[k] != at[i];
		} while (!fresh);
		int to_nodes = !below(4), nodes = below(5), plain = below(3), times = 1 + below(3);
		HsaMemFlags flags = {0};
		flags.ui32.HostAccess = 1;
		flags.ui32.CoarseGrain = below(2);
		for (registered[i] = 0; times--;) {
			int status;
			if (to_nodes) status = hsaKmtRegisterMemoryToNodes((void *)at[i], size[i], list_size[nodes], list[nodes]);
			else if (plain) status = hsaKmtRegisterMemory((void *)at[i], size[i]);
			else status = hsaKmtRegisterMemoryWithFlags((void *)at[i], size[i], flags);
			printf("register +%lx %lx %s %d: %d\n", at[i] - base, size[i], to_nodes ? "to list" : plain ? "plain" : "with flags", nodes, status);
			registered[i] += !status;
		}
		for (int k = 0; k < 4; k++) ask(base + below(0x8000));
		ask(at[i]);
		ask(at[i] + size[i] - 1);
		ask(at[i] + size[i]);
	}
	for (int i = 0; i < count; i++)
		for (int times = below(4); times--;) {
			HSAuint64 other = 7;
			HsaMemMapFlags flags = {0};
			int all = below(3), nodes = below(5), status;
			u64 length = below(5) ? size[i] : below(2) ? 0 : 5;
			if (all) status = hsaKmtMapMemoryToGPU((void *)at[i], length, &other);
			else status = hsaKmtMapMemoryToGPUNodes((void *)at[i], length, &other, flags, list_size[nodes], list[nodes]);
			printf(" map %d %s: %d other +%lx\n", i, all ? "all" : "list", status, (u64)other & (P - 1));
			ask(at[i]);
			u64 word = below(99);
			printf(" user data %d\n", hsaKmtSetMemoryUserData((void *)at[i], (void *)word));
			ask(at[i] + size[i] / 2);
		}
	for (int i = 0; i < count; i++) {
		HsaPointerInfo info;
		u64 gpu = 0;
		if (!hsaKmtQueryPointerInfo((void *)at[i], &info) && info.Type == HSA_POINTER_REGISTERED_USER) gpu = info.GPUAddress;
		for (int times = 4; times--;) printf(" unmap %d\n", hsaKmtUnmapMemoryToGPU((void *)at[i]));
		for (int times = registered[i] + 1; times--;) {
			int by_gpu = gpu && below(2), as_memory = !below(3);
			void *which = (void *)(by_gpu ? gpu : at[i]);
			int status = as_memory ? hsaKmtFreeMemory(which, 0) : hsaKmtDeregisterMemory(which);
			printf(" %s by %s: %d\n", as_memory ? "free" : "deregister", by_gpu ? "gpu" : "cpu", status);
			ask(at[i]);
		}
	}
}

static void fixed(void) {
	HsaMemFlags flags = {0};
	flags.ui32.NonPaged = below(2);
	flags.ui32.HostAccess = flags.ui32.FixedAddress = flags.ui32.CoarseGrain = 1;
	u64 wanted = (placed ? 0x6000000000ull : 0x600000000000ull) + below(8) * 0x10000;
	void *place = (void *)wanted, *again = (void *)wanted;
	int node = below(3), status = hsaKmtAllocMemory(node, 3 * P, flags, &place);
	printf("allocate on %d at %lx: %d %s\n", node, wanted, status, status ? (place ? "untouched" : "null") : place == (void *)wanted ? "there" : "elsewhere");
	if (status) return;
	ask(wanted);
	status = hsaKmtAllocMemory(1, P, flags, &again);
	printf(" again: %d %s\n", status, again ? "untouched" : "null");
	ask(wanted);
	if (below(2)) printf(" free %d\n", hsaKmtFreeMemory(place, 0));
}

static void scratch(void) {
	HsaMemFlags flags = {0};
	flags.ui32.Scratch = 1;
	void *place = NULL, *second = NULL;
	u64 size = (1 + below(40)) * P;
	int node = below(3), status = hsaKmtAllocMemory(node, size, flags, &place);
	printf("scratch on %d, %lx: %d\n", node, size, status);
	if (status) return;
	char *at = place;
	int index = born((u64)at, size), pieces = below(4);
	ask((u64)at);
	printf(" second %d\n", hsaKmtAllocMemory(node, size, flags, &second));
	for (int i = 0; i < pieces; i++) {
		HSAuint64 other = 5;
		int mapped = hsaKmtMapMemoryToGPU(at + i * 3 * P, 2 * P, &other);
		printf(" map +%llx: %d other %lx\n", i * 3 * P, mapped, (u64)other);
		ask((u64)at + i * 3 * P);
	}
	printf(" beyond %d\n", hsaKmtMapMemoryToGPU(at + size, 1 << 20, NULL));
	if (pieces && below(2)) {
		printf(" unmap %d\n", hsaKmtUnmapMemoryToGPU(at));
		printf(" unmap again %d\n", hsaKmtUnmapMemoryToGPU(at));
	}
	printf(" free %d\n", hsaKmtFreeMemory(at + below(size), 0));
	ask((u64)at);
	printf(" free again %d\n", hsaKmtFreeMemory(at, 0));
	gone(index);
}

int main(int argc, char **argv) {
	if (argc != 3) return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	seed = strtoull(argv[1], NULL, 0) * 0x9e3779b97f4a7c15ull + 1;
	placed = getenv("HSA_RESERVE_SVM") != NULL;
	host = (u64)mmap((void *)0x200000000000, 0x4000000, PROT_READ | PROT_WRITE, MAP_FIXED_NOREPLACE | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	HsaSystemProperties system;
	printf("open %d\n", hsaKmtOpenKFD());
	printf("acquire %d\n", hsaKmtAcquireSystemProperties(&system));
	for (int count = atoi(argv[2]); count--;) {
		int what = below(10);
		if (what < 5) allocate();
		else if (what < 8) userptrs();
		else if (what < 9) fixed();
		else scratch();
	}
	printf("close %d\n", hsaKmtCloseKFD());
	return 0;
}
