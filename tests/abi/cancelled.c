/* Every entry on a thread that was told to end before the call. The entry answers as ever; then the thread ends at its next
 * cancellation point, with its clean-up handlers, and no lock is left taken: later entries work. A forced unwind from
 * inside open(2) or read(2) would abort the process, or leave the entry without an answer.
 *
 * Arguments: the names of all exports. */
#define _GNU_SOURCE
#include "calls.h"

#include <pthread.h>

static int cleaned;

static void clean(void *call) {
    (void)call;
    cleaned++;
}

static void *run(void *argument) {
    struct call *call = argument;
    pthread_cleanup_push(clean, call);
    pthread_cancel(pthread_self());
    call->status = run_entry(call);
    pthread_testcancel();
    pthread_cleanup_pop(0);
    return NULL;
}

static long fresh(struct call call) {
    pthread_t thread;
    void *end = NULL;
    int before = cleaned;
    call.status = -2;
    call.entry = (Entry)dlsym(RTLD_DEFAULT, call.name);
    if (!call.entry || pthread_create(&thread, NULL, run, &call) || pthread_join(thread, &end)) {
        printf("%s: cannot be called\n", call.name);
        wrong = 1;
        return -1;
    }
    if (call.status == -2 || end != PTHREAD_CANCELED || cleaned != before + 1) {
        printf("%s: %s\n", call.name, call.status == -2 ? "ended in its middle" : "the request to end is lost");
        wrong = 1;
    }
    return call.status;
}

int main(int count, char **names) {
    alarm(60);
    call_every_entry(count - 1, names + 1);
    printf("%d entries called\n", calls);
    return wrong;
}
