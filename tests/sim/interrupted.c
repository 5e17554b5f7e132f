/* Signals for a thread that sleeps in the driver: what the call answers, with and without SA_RESTART, and what is left of its
 * time. Needs no library and no GPU, so that it also runs on the real driver. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* <linux/kfd_ioctl.h>, as far as it is used here. */
struct create { uint64_t page; uint32_t trigger, type, auto_reset, node, id, slot; };
struct data { uint64_t payload[4], next; uint32_t id, pad; };
struct waits { uint64_t events; uint32_t count, all, timeout, result; };
#define CREATE_EVENT _IOWR('K', 0x08, struct create)
#define WAIT_EVENTS _IOWR('K', 0x0c, struct waits)

static volatile sig_atomic_t handled;
static void handler(int signal) { handled += signal == SIGUSR1; }

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

struct job { int kfd; uint32_t id, timeout; };

static void *sleeper(void *pointer) {
    struct job *job = pointer;
    struct data data = {.id = job->id};
    struct waits waits = {(uintptr_t)&data, 1, 0, job->timeout, 0};
    double begin = now();
    errno = 0;
    int result = ioctl(job->kfd, WAIT_EVENTS, &waits);
    int error = errno;
    double took = now() - begin;
    printf("%d, %s, result %u, %s\n", result, strerror(error), waits.result,
           took < 0.25 ? "at once" : took < 0.75 ? "when the signal came" : "after its time");
    if (result && error == EINTR)
        printf("  %s is left\n", waits.timeout < 100 ? "nothing" : waits.timeout < 1100 ? "a part" : "all");
    return NULL;
}

static void in_thread(const char *what, struct job *job, int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    pthread_t thread;
    sigaction(SIGUSR1, &action, NULL);
    handled = 0;
    printf("%s: ", what);
    pthread_create(&thread, NULL, sleeper, job);
    usleep(400000);
    pthread_kill(thread, SIGUSR1);
    usleep(200000);
    int soon = handled;
    pthread_join(thread, NULL);
    printf("  handled %s\n", soon ? "soon" : handled ? "late" : "never");
}

static void alone(const char *what, struct job *job, int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags < 0 ? 0 : flags};
    int status;
    printf("%s: ", what);
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        struct create event = {0};
        job->kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
        ioctl(job->kfd, CREATE_EVENT, &event);
        job->id = event.id;
        handled = 0;
        if (flags < 0)
            action.sa_handler = SIG_DFL;
        sigaction(SIGUSR1, &action, NULL);
        sleeper(job);
        printf("  handled %d\n", (int)handled);
        fflush(stdout);
        _exit(0);
    }
    usleep(500000);
    double begin = now();
    kill(pid, SIGUSR1);
    waitpid(pid, &status, 0);
    if (WIFSIGNALED(status))
        printf("ended by it %s\n", now() - begin < 0.5 ? "at once" : "late");
}

static void stopped(const char *what, struct job *job) {
    int status;
    double begin = now();
    printf("%s: ", what);
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        struct create event = {0};
        job->kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
        ioctl(job->kfd, CREATE_EVENT, &event);
        job->id = event.id;
        sleeper(job);
        fflush(stdout);
        _exit(0);
    }
    usleep(300000);
    kill(pid, SIGSTOP);
    waitpid(pid, &status, WUNTRACED);
    printf("stopped %s, then ", now() - begin < 0.8 ? "at once" : "late");
    fflush(stdout);
    kill(pid, SIGCONT);
    waitpid(pid, &status, 0);
}

int main(void) {
    struct create event = {0};
    struct job job = {open("/dev/kfd", O_RDWR | O_CLOEXEC), 0, 1200};
    if (job.kfd < 0 || ioctl(job.kfd, CREATE_EVENT, &event))
        return 1;
    job.id = event.id;
    in_thread("a thread, without SA_RESTART", &job, 0);
    in_thread("a thread, with SA_RESTART", &job, SA_RESTART);
    alone("a process, without SA_RESTART", &job, 0);
    alone("a process, with SA_RESTART", &job, SA_RESTART);
    alone("a process without a handler", &job, -1);
    stopped("a process that stops", &job);
    return 0;
}
