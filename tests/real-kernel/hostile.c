/* More hostile calls on /dev/kfd of a machine without a GPU, one line each: counts and sizes between the extremes of
 * errnos.c, system calls other than ioctl, and ioctls of other drivers. A fresh child makes each, on its own descriptor. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define KFD(number, size) (3u << 30 | (unsigned)(size) << 16 | 'K' << 8 | (number))

static int kfd;
static union {
	uint32_t u32[64];
	uint64_t u64[32];
} argument;

static void report(const char *name, long result) {
	printf("%-44s %s errno %d\n", name, result == -1 ? "-1" : "ok", result == -1 ? errno : 0);
	fflush(stdout);
}

/* Runs `call` in a child that has opened /dev/kfd. */
#define CALL(name, call)                                                                                               \
	do {                                                                                                           \
		fflush(stdout);                                                                                        \
		pid_t pid = fork();                                                                                    \
		int status;                                                                                            \
		if (!pid) {                                                                                            \
			alarm(5);                                                                                      \
			kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);                                                    \
			memset(&argument, 0, sizeof argument);                                                         \
			errno = 0;                                                                                     \
			report(name, (long)(call));                                                                    \
			_exit(0);                                                                                      \
		}                                                                                                      \
		waitpid(pid, &status, 0);                                                                              \
		if (status)                                                                                            \
			printf("%-44s status %x\n", name, status);                                                     \
	} while (0)

static uint32_t room[1024];

static int apertures(uint32_t count, int with_room) {
	argument.u64[0] = with_room ? (uintptr_t)room : 0;
	argument.u32[2] = count;
	return ioctl(kfd, KFD(0x14, 16), &argument);
}

static int map(unsigned number, uint32_t count, uint32_t done) {
	argument.u64[1] = (uintptr_t)room;
	argument.u32[4] = count;
	argument.u32[5] = done;
	return ioctl(kfd, KFD(number, 24), &argument);
}

static int criu(uint32_t op) {
	argument.u32[12] = op;
	return ioctl(kfd, KFD(0x22, 56), &argument);
}

static int update_queue(uint32_t ring_size, uint32_t percentage, uint32_t priority) {
	argument.u32[3] = ring_size;
	argument.u32[4] = percentage;
	argument.u32[5] = priority;
	return ioctl(kfd, 1u << 30 | 24u << 16 | 'K' << 8 | 0x07, &argument);
}

static int cu_mask(uint32_t bits) {
	argument.u32[1] = bits;
	argument.u64[1] = (uintptr_t)room;
	return ioctl(kfd, 1u << 30 | 16u << 16 | 'K' << 8 | 0x1a, &argument);
}

static int xnack(int32_t mode) {
	argument.u32[0] = (uint32_t)mode;
	return ioctl(kfd, KFD(0x21, 4), &argument);
}

static int svm(uint64_t start, uint64_t size, uint32_t attributes, unsigned bytes) {
	argument.u64[0] = start;
	argument.u64[1] = size;
	argument.u32[5] = attributes;
	return ioctl(kfd, KFD(0x20, bytes), &argument);
}

static int event(uint32_t type) {
	argument.u32[3] = type;
	return ioctl(kfd, KFD(0x08, 32), &argument);
}

/* An event's page, with so many bytes. */
static void *event_page(size_t bytes) {
	event(0);
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, kfd, (off_t)argument.u64[0]);
}

static void *show(int flags, uint64_t offset) {
	return mmap(NULL, 4096, PROT_READ | PROT_WRITE, flags, kfd, (off_t)offset);
}

static int polled(void) {
	struct pollfd wanted = {.fd = kfd, .events = POLLIN | POLLOUT};
	errno = 0x1000;
	return poll(&wanted, 1, 0) == 1 && wanted.revents == (POLLIN | POLLOUT) ? 0 : -1;
}

static int is_device(void) {
	struct stat found;
	return fstat(kfd, &found) == 0 && S_ISCHR(found.st_mode) && found.st_size == 0 ? 0 : -1;
}

int main(void) {
	static char text[8];
	struct termios terminal;
	int on = 1;
	CALL("apertures: 1", apertures(1, 1));
	CALL("apertures: 2", apertures(2, 1));
	CALL("apertures: 7", apertures(7, 1));
	CALL("apertures: 70000", apertures(70000, 1));
	CALL("apertures: 80000", apertures(80000, 1));
	CALL("apertures: 1, no room", apertures(1, 0));
	CALL("map: 1", map(0x18, 1, 0));
	CALL("map: 1 of 1 done", map(0x18, 1, 1));
	CALL("map: 2 of 1 done", map(0x18, 1, 2));
	CALL("map: 0", map(0x18, 0, 0));
	CALL("map: 100000", map(0x18, 100000, 0));
	CALL("map: 2000000", map(0x18, 2000000, 0));
	CALL("unmap: 1", map(0x19, 1, 0));
	CALL("unmap: 2 of 1 done", map(0x19, 1, 2));
	CALL("unmap: 2000000", map(0x19, 2000000, 0));
	CALL("criu: process info", criu(0));
	CALL("criu: checkpoint", criu(1));
	CALL("criu: unpause", criu(2));
	CALL("criu: restore", criu(3));
	CALL("criu: resume", criu(4));
	CALL("criu: 5", criu(5));
	CALL("update queue: 100 percent", update_queue(0, 100, 0));
	CALL("update queue: 101 percent", update_queue(0, 101, 0));
	CALL("update queue: priority 16", update_queue(0, 100, 16));
	CALL("update queue: 3 bytes", update_queue(3, 100, 0));
	CALL("cu mask: 32 bits", cu_mask(32));
	CALL("cu mask: 33 bits", cu_mask(33));
	CALL("xnack: off", xnack(0));
	CALL("xnack: on", xnack(1));
	CALL("xnack: asked", xnack(-1));
	CALL("svm: a page, no attributes", svm(4096, 4096, 0, 24));
	CALL("svm: one attribute, no room for it", svm(4096, 4096, 1, 24));
	CALL("svm: one attribute", svm(4096, 4096, 1, 32));
	CALL("svm: half a page", svm(4096, 2048, 0, 24));
	CALL("event: type 9", event(9));
	CALL("event page: 32768 bytes", event_page(32768));
	CALL("event page: 4096 bytes", event_page(4096));
	CALL("event page: 65536 bytes", event_page(65536));
	CALL("mmap: shared, 0", show(MAP_SHARED, 0));
	CALL("mmap: private, 0", show(MAP_PRIVATE, 0));
	CALL("mmap: shared, 4096", show(MAP_SHARED, 4096));
	CALL("mmap: shared, 1 MiB", show(MAP_SHARED, 1 << 20));
	CALL("ioctl: TCGETS", ioctl(kfd, TCGETS, &terminal));
	CALL("ioctl: FIONBIO", ioctl(kfd, FIONBIO, &on));
	CALL("ioctl: FIOCLEX", ioctl(kfd, FIOCLEX, 0));
	CALL("ioctl: FIONREAD", ioctl(kfd, FIONREAD, &on));
	CALL("ioctl: 0", ioctl(kfd, 0, &argument));
	CALL("ioctl: a DRM driver's version", ioctl(kfd, 0xc0406400, &argument));
	CALL("ioctl: d, 5", ioctl(kfd, 0xc0406405, &argument));
	CALL("pread", pread(kfd, text, 1, 0));
	CALL("pwrite", pwrite(kfd, text, 1, 0));
	CALL("read nothing", read(kfd, text, 0));
	CALL("ftruncate", ftruncate(kfd, 4096));
	CALL("fsync", fsync(kfd));
	CALL("poll: readable and writable", polled());
	CALL("fstat: a device", is_device());
	CALL("open: truncate", open("/dev/kfd", O_RDWR | O_TRUNC));
	CALL("open: create, exclusive", open("/dev/kfd", O_RDWR | O_CREAT | O_EXCL, 0600));
	CALL("open: directory", open("/dev/kfd", O_RDONLY | O_DIRECTORY));
	CALL("open: path below it", open("/dev/kfd/x", O_RDONLY));
	return 0;
}
