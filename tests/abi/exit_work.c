/* No C entry registers work for the end of its thread: a library that does stays loaded for as long as the thread lives,
 * and a call after that work was done would die.
 *
 * Arguments: the names of all exports. Each is called on a thread of its own, and what it registers is counted. Exports that
 * do something are called with arguments that let them; of the rest, without a line here, only the answer NOT_IMPLEMENTED
 * is accepted. */
#define _GNU_SOURCE
#include "calls.h"

#include <pthread.h>

static int registered;

/* What the C++ ABI calls to have a function run at the end of a thread. */
int __cxa_thread_atexit_impl(void (*function)(void *), void *argument, void *library) {
    (void)function, (void)argument, (void)library;
    __atomic_add_fetch(&registered, 1, __ATOMIC_RELAXED);
    return 0;
}

static void *run(void *argument) {
    struct call *call = argument;
    call->status = run_entry(call);
    return NULL;
}

static long fresh(struct call call) {
    pthread_t thread;
    int before = registered;
    call.entry = (Entry)dlsym(RTLD_DEFAULT, call.name);
    if (!call.entry || pthread_create(&thread, NULL, run, &call) || pthread_join(thread, NULL)) {
        printf("%s: cannot be called\n", call.name);
        wrong = 1;
        return -1;
    }
    if (registered != before) {
        printf("%s registered %d functions for the end of its thread\n", call.name, registered - before);
        wrong = 1;
    }
    return call.status;
}

int main(int count, char **names) {
    call_every_entry(count - 1, names + 1);
    /* The count counts. */
    int before = registered;
    __cxa_thread_atexit_impl(NULL, NULL, NULL);
    if (registered != before + 1)
        wrong = 1;
    printf("%d entries called\n", calls);
    return wrong;
}
