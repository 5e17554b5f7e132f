/* A debugger and the process that it traces, with the driver's own calls: needs no library and no GPU, so that it also runs on
 * the real driver. What it prints there on Linux 6.12 is in attach.txt. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

/* <linux/kfd_ioctl.h>, as far as it is used here. */
struct runtime_enable { uint64_t r_debug; uint32_t mode, capabilities; };
struct trap { uint32_t pid, op; uint64_t word[3]; };
struct runtime_info { uint64_t r_debug; uint32_t state, ttmp; };
enum { ENABLE, DISABLE, SEND_RUNTIME_EVENT, SET_EXCEPTIONS, LAUNCH_MODE = 5, QUERY_EVENT = 11, QUERY_INFO };
enum { PROCESS_RUNTIME = 48 };
#define RUNTIME_ENABLE _IOWR('K', 0x25, struct runtime_enable)
#define DBG_TRAP _IOWR('K', 0x26, struct trap)
#define PAIR(low, high) ((uint64_t)(uint32_t)(low) | (uint64_t)(high) << 32)
#define RUNTIME (1ull << (PROCESS_RUNTIME - 1))

static int kfd, bytes[2];
static struct runtime_info info;
/* What the traced process is at: shared with it. */
static volatile struct { int allowed, step, result, error; } *target;

static struct trap trap(const char *what, pid_t pid, uint32_t op, uint64_t a, uint64_t b, uint64_t c) {
    struct trap args = {pid, op, {a, b, c}};
    errno = 0;
    int result = ioctl(kfd, DBG_TRAP, &args);
    printf("%s: %d%s%s\n", what, result, result < 0 ? ", " : "", result < 0 ? strerror(errno) : "");
    return args;
}

static void enable(const char *what, pid_t pid, int fd) {
    memset(&info, 0xff, sizeof info);
    struct trap args = trap(what, pid, ENABLE, RUNTIME, (uint64_t)(uintptr_t)&info, PAIR(sizeof info, fd));
    printf("  runtime %d, at %lx, %u bytes\n", (int)info.state, (unsigned long)info.r_debug, (unsigned)args.word[2]);
}

/* How many bytes the debugger was told of since the last time. */
static void told(void) {
    char many[16];
    struct pollfd ready = {bytes[0], POLLIN, 0};
    long count = poll(&ready, 1, 500) > 0 ? read(bytes[0], many, sizeof many) : 0;
    printf("  told with %ld bytes\n", count);
}

static void wait_for(int step) {
    for (int i = 0; target->step < step; i++) {
        if (i == 10000) {
            printf("the process is still at %d\n", target->step);
            exit(1);
        }
        usleep(1000);
    }
}

static void asleep(void) {
    int step = target->step;
    usleep(100000);
    printf("  the process %s\n", target->step == step ? "waits" : "went on");
}

static void handler(int signal) { (void)signal; }

static void runtime(int number, int on) {
    struct runtime_enable args = {on ? 0x1234000 : 0, on ? 3 : 0, 0};
    while (target->allowed < number)
        usleep(1000);
    target->step++;
    do {
        target->result = ioctl(kfd, RUNTIME_ENABLE, &args);
        target->error = target->result < 0 ? errno : 0;
    } while (target->result < 0 && errno == EINTR && ++target->step);
    target->step++;
}

static void traced(void) {
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    raise(SIGSTOP);
    kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
    runtime(1, 1);
    runtime(2, 1);
    runtime(3, 0);
    for (;;)
        pause();
}

static void answered(const char *what, pid_t pid) {
    int step = target->step;
    trap("answer", pid, SEND_RUNTIME_EVENT, RUNTIME, 0, 0);
    wait_for(step + 1);
    printf("  %s: %d, %s\n", what, target->result, strerror(target->error));
}

static void query(pid_t pid, uint64_t clear) {
    struct trap event = trap("query an event", pid, QUERY_EVENT, clear, 0, 0);
    printf("  %lx\n", (unsigned long)event.word[0]);
}

static void strangers(void) {
    int ready[2];
    char byte = 0;
    trap("a process without the device", 1, LAUNCH_MODE, 0, 0, 0);
    trap("no process", 0x3ffffff, ENABLE, 0, 0, 0);
    if (pipe(ready))
        exit(1);
    pid_t other = fork();
    if (!other) {
        kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
        if (write(ready[1], &byte, 1) == 1)
            pause();
        _exit(0);
    }
    if (read(ready[0], &byte, 1) == 1)
        enable("a process that is not traced", other, bytes[1]);
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
}

int main(void) {
    int status;
    setbuf(stdout, NULL);
    target = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid = fork();
    if (!pid)
        traced();
    kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
    if (pid < 0 || kfd < 0 || pipe(bytes) || waitpid(pid, &status, 0) != pid)
        return 1;
    strangers();
    trap("before the debugger is there", pid, SET_EXCEPTIONS, 0, 0, 0);
    enable("no descriptor", pid, 999);
    enable("attach", pid, bytes[1]);
    enable("attach again", pid, bytes[1]);
    trap("launch mode without a runtime", pid, LAUNCH_MODE, 0, 0, 0);
    ptrace(PTRACE_CONT, pid, 0, 0);
    target->allowed = 1;
    wait_for(1);
    puts("the runtime begins");
    told();
    asleep();
    query(pid, 0);
    struct trap about = trap("its state", pid, QUERY_INFO, (uint64_t)(uintptr_t)&info, PAIR(sizeof info, 0),
                             PAIR(PROCESS_RUNTIME, 1));
    printf("  %u bytes: runtime %d, at %lx, temporaries %u\n", (unsigned)about.word[1], (int)info.state,
           (unsigned long)info.r_debug, info.ttmp);
    query(pid, 0);
    answered("began", pid);
    target->allowed = 2;
    wait_for(4);
    printf("it begins again: %d, %s\n", target->result, strerror(target->error));
    target->allowed = 3;
    wait_for(5);
    puts("the runtime ends");
    told();
    kill(pid, SIGUSR1);
    waitpid(pid, &status, 0);
    printf("  stopped by a signal: %d\n", WIFSTOPPED(status) && WSTOPSIG(status) == SIGUSR1);
    ptrace(PTRACE_CONT, pid, 0, SIGUSR1);
    wait_for(6);
    puts("  interrupted");
    told();
    asleep();
    trap("wait for nothing that was raised", pid, SET_EXCEPTIONS, 0, 0, 0);
    told();
    trap("wait for what was raised", pid, SET_EXCEPTIONS, RUNTIME, 0, 0);
    told();
    query(pid, RUNTIME);
    query(pid, RUNTIME);
    answered("ended", pid);
    trap("leave", pid, DISABLE, 0, 0, 0);
    trap("leave again", pid, DISABLE, 0, 0, 0);
    kill(pid, SIGSTOP);
    waitpid(pid, &status, 0);
    printf("detach: %ld\n", ptrace(PTRACE_DETACH, pid, 0, 0));
    pid_t debugger = fork();
    if (!debugger) {
        kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
        printf("another debugger: %ld\n", ptrace(PTRACE_SEIZE, pid, 0, 0));
        enable("attaches", pid, bytes[1]);
        _exit(0);
    }
    waitpid(debugger, NULL, 0);
    printf("it ended; another: %ld\n", ptrace(PTRACE_SEIZE, pid, 0, 0));
    enable("attach", pid, bytes[1]);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    trap("the process has ended", pid, SET_EXCEPTIONS, 0, 0, 0);
    return 0;
}
