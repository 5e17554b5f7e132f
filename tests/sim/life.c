// What a process, its threads, its children and its successors see of one another through a simulated KFD: raw ioctls,
// no library. Each part prints nothing and exits with 0, or says which line it did not expect and exits with 1.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kfd_ioctl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MUST(condition) \
	do { if (!(condition)) { printf("line %d: %s (errno %d: %s)\n", __LINE__, #condition, errno, strerror(errno)); fflush(stdout); _exit(1); } } while (0)
#define FAILS(call, error) MUST((errno = 0, (call) == -1 && errno == (error)))

#define VA 0x700000000000ull
#define MIB (1ull << 20)

// Requests that the installed header may not know yet.
struct available { uint64_t available; uint32_t gpu_id, pad; };
struct share_out { uint64_t handle; uint32_t share[4]; uint32_t gpu_id, flags; };
struct share_in { uint64_t handle, va_addr, mmap_offset; uint32_t share[4]; uint32_t gpu_id, flags; };
struct dmabuf_out { uint64_t handle; uint32_t flags, fd; };
#define AVAILABLE _IOWR('K', 0x23, struct available)
#define DMABUF_OUT _IOWR('K', 0x24, struct dmabuf_out)
#define SHARE_IN _IOWR('K', 0x80, struct share_in)
#define SHARE_OUT _IOWR('K', 0x81, struct share_out)
#define CREATE_PROCESS _IO('K', 0x27)

static uint32_t gpu;
static int render;

static int version(int kfd) { struct kfd_ioctl_get_version_args args; return ioctl(kfd, AMDKFD_IOC_GET_VERSION, &args); }

static int acquire(int kfd)
{
	struct kfd_process_device_apertures list[8];
	struct kfd_ioctl_get_process_apertures_new_args args = { .kfd_process_device_apertures_ptr = (uintptr_t)list, .num_of_nodes = 8 };
	MUST(ioctl(kfd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &args) == 0 && args.num_of_nodes >= 1);
	gpu = list[0].gpu_id;
	render = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
	MUST(render >= 0);
	struct kfd_ioctl_acquire_vm_args vm = { .drm_fd = render, .gpu_id = gpu };
	MUST(ioctl(kfd, AMDKFD_IOC_ACQUIRE_VM, &vm) == 0);
	return kfd;
}

static int open_kfd(void)
{
	int kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	MUST(kfd >= 0);
	return acquire(kfd);
}

static uint64_t allocate(int kfd, uint64_t va, uint64_t size, uint64_t *offset)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = { .va_addr = va, .size = size, .gpu_id = gpu,
		.flags = KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE };
	MUST(ioctl(kfd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args) == 0 && args.handle);
	if (offset)
		*offset = args.mmap_offset;
	return args.handle;
}

static int release(int kfd, uint64_t handle)
{
	struct kfd_ioctl_free_memory_of_gpu_args args = { .handle = handle };
	return ioctl(kfd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &args);
}

static void map(int kfd, uint64_t handle)
{
	struct kfd_ioctl_map_memory_to_gpu_args args = { .handle = handle, .device_ids_array_ptr = (uintptr_t)&gpu, .n_devices = 1 };
	MUST(ioctl(kfd, AMDKFD_IOC_MAP_MEMORY_TO_GPU, &args) == 0 && args.n_success == 1);
}

static uint64_t available(int kfd)
{
	struct available args = { .gpu_id = gpu };
	MUST(ioctl(kfd, AVAILABLE, &args) == 0);
	return args.available;
}

static unsigned char *show(uint64_t offset, uint64_t size)
{
	unsigned char *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, render, offset);
	MUST(bytes != MAP_FAILED);
	return bytes;
}

static void finish(pid_t child)
{
	int status;
	MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void *thread_version(void *kfd) { return (void *)(intptr_t)version((intptr_t)kfd); }

// A descriptor works in every thread, through every duplicate, and in no child.
static void inherit(void)
{
	int kfd = open_kfd();
	pthread_t thread;
	void *result;
	MUST(pthread_create(&thread, NULL, thread_version, (void *)(intptr_t)kfd) == 0);
	MUST(pthread_join(thread, &result) == 0 && result == NULL);
	MUST(version(dup(kfd)) == 0);
	uint64_t handle = allocate(kfd, VA, MIB, NULL);
	pid_t child = fork();
	if (!child) {
		FAILS(version(kfd), EBADF);
		FAILS(release(kfd, handle), EBADF);
		int own = open_kfd();
		MUST(version(own) == 0);
		FAILS(release(own, handle), EINVAL);
		_exit(0);
	}
	finish(child);
	// A second opening is the same process.
	int second = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	MUST(release(second, handle) == 0);
	FAILS(release(kfd, handle), EINVAL);
	FAILS(version(render), ENOTTY);
	FAILS(version(0x7fffffff), EBADF);
}

// Whatever a process had is free when its parent knows that it is dead.
static void death(void)
{
	int kfd = open_kfd();
	uint64_t all = available(kfd);
	for (int round = 0; round < 20; round++) {
		pid_t child = fork();
		if (!child) {
			int own = open_kfd();
			map(own, allocate(own, VA, 64 * MIB, NULL));
			MUST(available(own) < all);
			if (round & 1)
				raise(SIGKILL);
			_exit(0);
		}
		int status;
		MUST(waitpid(child, &status, 0) == child && (WIFSIGNALED(status) || WEXITSTATUS(status) == 0));
		MUST(available(kfd) == all);
	}
}

// exec ends what the process had, and its descriptor.
static void before_exec(char *self)
{
	int kfd = acquire(open("/dev/kfd", O_RDWR));
	char number[16], before[32];
	snprintf(number, 16, "%d", kfd);
	snprintf(before, 32, "%llu", (unsigned long long)available(kfd));
	map(kfd, allocate(kfd, VA, 64 * MIB, NULL));
	execl(self, self, "after-exec", number, before, NULL);
	MUST(!"exec");
}

static void after_exec(char **argv)
{
	int old = atoi(argv[2]);
	FAILS(version(old), EBADF);
	int kfd = open_kfd();
	MUST(available(kfd) == strtoull(argv[3], NULL, 10));
}

// Bytes and names between processes.
static void share(void)
{
	int kfd = open_kfd();
	uint64_t offset, all = available(kfd);
	uint64_t handle = allocate(kfd, VA, 4 * MIB, &offset);
	unsigned char *bytes = show(offset, 4 * MIB);
	memset(bytes, 0x5a, 4 * MIB);
	struct share_out out = { .handle = handle, .gpu_id = gpu, .flags = 0x2041 };
	MUST(ioctl(kfd, SHARE_OUT, &out) == 0);
	struct dmabuf_out dmabuf = { .handle = handle, .flags = O_CLOEXEC };
	MUST(ioctl(kfd, DMABUF_OUT, &dmabuf) == 0);
	MUST(lseek(dmabuf.fd, 0, SEEK_END) == 4 * (off_t)MIB);
	int ready[2];
	MUST(pipe(ready) == 0);
	pid_t child = fork();
	if (!child) {
		char byte;
		close(ready[1]);
		int own = open_kfd();
		struct share_in in = { .va_addr = VA, .gpu_id = gpu };
		FAILS(ioctl(own, SHARE_IN, &in), EINVAL);
		memcpy(in.share, out.share, 16);
		MUST(ioctl(own, SHARE_IN, &in) == 0 && in.flags == 0x2041);
		unsigned char *theirs = show(in.mmap_offset, 4 * MIB);
		MUST(theirs[0] == 0x5a && theirs[4 * MIB - 1] == 0x5a);
		theirs[1] = 7;
		struct kfd_ioctl_import_dmabuf_args import = { .va_addr = VA + 4 * MIB, .gpu_id = gpu, .dmabuf_fd = dmabuf.fd };
		MUST(ioctl(own, AMDKFD_IOC_IMPORT_DMABUF, &import) == 0);
		map(own, in.handle);
		map(own, import.handle);
		// The exporter lets go; the memory stays.
		MUST(read(ready[0], &byte, 1) == 1);
		MUST(theirs[2] == 9 && available(own) < all);
		_exit(0);
	}
	close(ready[0]);
	while (bytes[1] != 7)
		usleep(1000);
	bytes[2] = 9;
	MUST(release(kfd, handle) == 0);
	close(dmabuf.fd);
	MUST(write(ready[1], "x", 1) == 1);
	finish(child);
	MUST(available(kfd) == all);
	MUST(bytes[0] == 0 && "freed memory is empty");
}

// A context of its own: other handles, no userptrs, gone with its descriptor.
static void secondary(void)
{
	int kfd = open_kfd(), second = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	uint64_t all = available(kfd), handle = allocate(kfd, VA, 8 * MIB, NULL);
	MUST(ioctl(second, CREATE_PROCESS) == 0);
	FAILS(ioctl(second, CREATE_PROCESS), EINVAL);
	FAILS(release(second, handle), EINVAL);
	acquire(second);
	allocate(second, VA, 64 * MIB, NULL);
	struct kfd_ioctl_alloc_memory_of_gpu_args args = { .va_addr = VA, .size = 4096, .gpu_id = gpu, .mmap_offset = (uintptr_t)&args & ~4095ull,
		.flags = KFD_IOC_ALLOC_MEM_FLAGS_USERPTR };
	FAILS(ioctl(second, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args), EOPNOTSUPP);
	close(second);
	MUST(release(kfd, handle) == 0);
	MUST(available(kfd) == all);
}

// Files and directories look as they do beside a real GPU.
static void files(void)
{
	struct stat st;
	MUST(stat("/dev/kfd", &st) == 0 && S_ISCHR(st.st_mode));
	MUST(stat("/dev/dri/renderD129", &st) == 0 && S_ISCHR(st.st_mode) && major(st.st_rdev) == 226 && minor(st.st_rdev) == 129);
	int fd = open("/dev/dri/card1", O_RDWR);
	MUST(fstat(fd, &st) == 0 && minor(st.st_rdev) == 1);
	struct statx stx;
	MUST(statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &stx) == 0 && stx.stx_rdev_minor == 1);
	MUST(access("/dev/kfd", R_OK | W_OK) == 0);
	FAILS(access("/dev/kfd", X_OK), EACCES);
	FAILS(open("/dev/dri/renderD130", O_RDWR), ENOENT);
	const char *topology = "/sys/devices/virtual/kfd/kfd/topology";
	int nodes = 0, directory = open(topology, O_RDONLY | O_DIRECTORY);
	MUST(directory >= 0);
	FAILS(openat(directory, "generation_id", O_RDWR), EACCES);
	MUST(chdir("/sys/devices/virtual/kfd/kfd") == -1 || 1);
	int generation = open("/sys/class/kfd/kfd/topology/../topology//generation_id", O_RDONLY);
	char text[64];
	MUST(generation >= 0 && read(generation, text, 64) > 0);
	DIR *list = opendir("/sys/devices/virtual/kfd/kfd/topology/nodes");
	for (struct dirent *entry; (entry = readdir(list));)
		nodes += entry->d_name[0] != '.';
	MUST(nodes == 3);
	MUST(openat(dirfd(list), "2/properties", O_RDONLY) >= 0);
	ssize_t length = readlink("/sys/class/drm/renderD128", text, sizeof text);
	MUST(length > 0 && strstr(text, "renderD128"));
	FAILS(readlink("/dev/kfd", text, sizeof text), EINVAL);
	MUST(lstat("/sys/dev/char/226:128", &st) == 0 && S_ISLNK(st.st_mode));
	MUST(stat("/sys/dev/char/226:128", &st) == 0 && S_ISDIR(st.st_mode));
	FAILS(open("/sys/devices/virtual/kfd/kfd/topology/none", O_RDONLY), ENOENT);
	// Everything else is the host's.
	MUST(open("/proc/self/status", O_RDONLY) >= 0 && stat("/", &st) == 0 && S_ISDIR(st.st_mode));
	FAILS(open((char *)1, O_RDONLY), EFAULT);
}

static struct kfd_event_data event_data;

static void *wait_for_event(void *argument)
{
	struct kfd_ioctl_wait_events_args args = { .events_ptr = (uintptr_t)&event_data, .num_events = 1, .timeout = 0xffffffff };
	MUST(ioctl((intptr_t)argument, AMDKFD_IOC_WAIT_EVENTS, &args) == 0 && args.wait_result == KFD_IOC_WAIT_RESULT_COMPLETE);
	return NULL;
}

// A wait sleeps until its event, or its time.
static void events(void)
{
	int kfd = open_kfd();
	struct kfd_ioctl_create_event_args event = { .event_type = KFD_IOC_EVENT_SIGNAL, .auto_reset = 1 };
	MUST(ioctl(kfd, AMDKFD_IOC_CREATE_EVENT, &event) == 0);
	event_data.event_id = event.event_id;
	struct kfd_ioctl_wait_events_args args = { .events_ptr = (uintptr_t)&event_data, .num_events = 1, .timeout = 50 };
	struct timespec start, end;
	clock_gettime(CLOCK_MONOTONIC, &start);
	MUST(ioctl(kfd, AMDKFD_IOC_WAIT_EVENTS, &args) == 0 && args.wait_result == KFD_IOC_WAIT_RESULT_TIMEOUT);
	clock_gettime(CLOCK_MONOTONIC, &end);
	MUST((end.tv_sec - start.tv_sec) * 1000 + (end.tv_nsec - start.tv_nsec) / 1000000 >= 49);
	pthread_t thread;
	MUST(pthread_create(&thread, NULL, wait_for_event, (void *)(intptr_t)kfd) == 0);
	usleep(20000);
	struct kfd_ioctl_set_event_args set = { .event_id = event.event_id };
	MUST(ioctl(kfd, AMDKFD_IOC_SET_EVENT, &set) == 0);
	MUST(pthread_join(thread, NULL) == 0);
	// A process that waits for ever can be killed.
	pid_t child = fork();
	if (!child) {
		int own = open_kfd();
		event.event_page_offset = 0;
		MUST(ioctl(own, AMDKFD_IOC_CREATE_EVENT, &event) == 0);
		wait_for_event((void *)(intptr_t)own);
		_exit(1);
	}
	usleep(50000);
	int status;
	MUST(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status));
}

static void *churn(void *argument)
{
	uint64_t va = VA + (uint64_t)(uintptr_t)argument * (1ull << 32);
	int kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	for (int round = 0; round < 300; round++) {
		uint64_t handle = allocate(kfd, va, 4096, NULL);
		map(kfd, handle);
		FAILS(release(kfd, handle), EBUSY);
		struct kfd_ioctl_unmap_memory_from_gpu_args args = { .handle = handle, .device_ids_array_ptr = (uintptr_t)&gpu, .n_devices = 1 };
		MUST(ioctl(kfd, AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, &args) == 0);
		MUST(release(kfd, handle) == 0);
	}
	close(kfd);
	return NULL;
}

// Threads and children side by side.
static void crowd(void)
{
	int kfd = open_kfd();
	uint64_t all = available(kfd);
	pid_t children[3];
	for (int i = 0; i < 3; i++)
		if (!(children[i] = fork())) {
			open_kfd();
			churn((void *)1);
			_exit(0);
		}
	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		MUST(pthread_create(&threads[i], NULL, churn, (void *)(uintptr_t)(i + 1)) == 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 3; i++)
		finish(children[i]);
	MUST(available(kfd) == all);
}

// Shared ranges end with their memory, and only there: what comes to those addresses afterwards is no shared memory.
static void ranges(void)
{
	int kfd = open_kfd();
	struct kfd_ioctl_svm_args *args = calloc(1, sizeof *args + sizeof args->attrs[0]);
	char *memory = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(memory != MAP_FAILED);
	*args = (struct kfd_ioctl_svm_args){ .start_addr = (uintptr_t)memory, .size = 4 * 4096, .nattr = 1 };
	args->attrs[0] = (struct kfd_ioctl_svm_attribute){ KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE, gpu };
	MUST(ioctl(kfd, AMDKFD_IOC_SVM + (sizeof args->attrs[0] << _IOC_SIZESHIFT), args) == 0);
	FAILS(munmap(memory + 1, 4096), EINVAL);
	MUST(munmap(memory + 4096, 4096) == 0);
	MUST(mmap(memory + 4096, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == memory + 4096);
	struct kfd_ioctl_alloc_memory_of_gpu_args buffer = { .size = 4096, .gpu_id = gpu, .flags = KFD_IOC_ALLOC_MEM_FLAGS_VRAM };
	for (int page = 0; page < 4; page++) {
		buffer.va_addr = (uintptr_t)memory + 4096 * page;
		if (page == 1)
			MUST(ioctl(kfd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &buffer) == 0);
		else
			FAILS(ioctl(kfd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &buffer), EADDRINUSE);
	}
	free(args);
}

static void unknown(void)
{
	int kfd = open_kfd();
	MUST(version(kfd) == 0);
	FAILS(ioctl(kfd, _IO('K', 0x7f), NULL), ENOTTY);
	MUST(version(kfd) == 0);
}

int main(int argc, char **argv)
{
	MUST(argc > 1);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(argv[1], "inherit")) inherit();
	else if (!strcmp(argv[1], "death")) death();
	else if (!strcmp(argv[1], "exec")) before_exec(argv[0]);
	else if (!strcmp(argv[1], "after-exec")) after_exec(argv);
	else if (!strcmp(argv[1], "share")) share();
	else if (!strcmp(argv[1], "secondary")) secondary();
	else if (!strcmp(argv[1], "files")) files();
	else if (!strcmp(argv[1], "events")) events();
	else if (!strcmp(argv[1], "crowd")) crowd();
	else if (!strcmp(argv[1], "unknown")) unknown();
	else if (!strcmp(argv[1], "ranges")) ranges();
	else MUST(!"a part by that name");
	return 0;
}
