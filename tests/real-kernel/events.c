/* Every event call of libhsakmt, on a machine that needs no GPU. Prints statuses, states and ids, one line a call, so that
 * two libraries on the same kernel can be compared line by line. Pointers and times are never printed. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include HSAKMT_H

#define MANY 5000 /* more than the kernel has signal events for one process */

static HsaEvent *create(const char *name, HSA_EVENTTYPE type, int manual, int set) {
	HsaEventDescriptor wanted;
	HsaEvent *event = NULL;
	memset(&wanted, 0, sizeof wanted);
	wanted.EventType = type;
	int status = hsaKmtCreateEvent(&wanted, manual, set, &event);
	printf("create %s: %d", name, status);
	if (!status)
		printf(" id %u type %d", event->EventId, event->EventData.EventType);
	printf("\n");
	return status ? NULL : event;
}

static unsigned long milliseconds(void) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000ul + now.tv_nsec / 1000000;
}

/* The calls on one event, by a program that does what it may do. */
static void one(const char *name, HsaEvent *event) {
	if (!event)
		return;
	printf("%s: query %d\n", name, hsaKmtQueryEventState(event));
	printf("%s: wait 0 %d\n", name, hsaKmtWaitOnEvent(event, 0));
	printf("%s: set %d\n", name, hsaKmtSetEvent(event));
	printf("%s: set again %d\n", name, hsaKmtSetEvent(event));
	printf("%s: query %d\n", name, hsaKmtQueryEventState(event));
	printf("%s: wait %d\n", name, hsaKmtWaitOnEvent(event, 20));
	printf("%s: wait again %d\n", name, hsaKmtWaitOnEvent(event, 20));
	printf("%s: reset %d\n", name, hsaKmtResetEvent(event));
	printf("%s: query %d\n", name, hsaKmtQueryEventState(event));
	printf("%s: wait after reset %d\n", name, hsaKmtWaitOnEvent(event, 20));
	printf("%s: destroy %d\n", name, hsaKmtDestroyEvent(event));
}

static void types(void) {
	static const struct {
		const char *name;
		HSA_EVENTTYPE type;
	} all[] = {
		{"signal", HSA_EVENTTYPE_SIGNAL}, {"node-change", HSA_EVENTTYPE_NODECHANGE},
		{"device-state", HSA_EVENTTYPE_DEVICESTATECHANGE}, {"hw-exception", HSA_EVENTTYPE_HW_EXCEPTION},
		{"system", HSA_EVENTTYPE_SYSTEM_EVENT}, {"debug", HSA_EVENTTYPE_DEBUG_EVENT},
		{"profile", HSA_EVENTTYPE_PROFILE_EVENT}, {"queue", HSA_EVENTTYPE_QUEUE_EVENT},
		{"memory", HSA_EVENTTYPE_MEMORY}, {"type-9", 9}, {"type-10", 10}, {"type-1000", 1000},
	};
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
		for (int form = 0; form < 4; form++) {
			char name[64];
			snprintf(name, sizeof name, "%s%s%s", all[i].name, form & 1 ? " manual" : "", form & 2 ? " set" : "");
			one(name, create(name, all[i].type, form & 1, form & 2 ? 1 : 0));
		}
}

static void several(void) {
	HsaEvent *events[4] = {create("a", HSA_EVENTTYPE_SIGNAL, 0, 0), create("b", HSA_EVENTTYPE_SIGNAL, 1, 0),
			       create("c", HSA_EVENTTYPE_SIGNAL, 0, 1), create("d", HSA_EVENTTYPE_SIGNAL, 1, 1)};
	printf("any of a b: %d\n", hsaKmtWaitOnMultipleEvents(events, 2, 0, 20));
	printf("all of a b: %d\n", hsaKmtWaitOnMultipleEvents(events, 2, 1, 20));
	printf("any of a b c d: %d\n", hsaKmtWaitOnMultipleEvents(events, 4, 0, 20));
	printf("any of a b c: %d\n", hsaKmtWaitOnMultipleEvents(events, 3, 0, 20));
	printf("all of a b c d: %d\n", hsaKmtWaitOnMultipleEvents(events, 4, 1, 20));
	for (int i = 0; i < 3; i++)
		printf("set %c: %d\n", "abc"[i], hsaKmtSetEvent(events[i]));
	printf("all of a b c d: %d\n", hsaKmtWaitOnMultipleEvents(events, 4, 1, 20));
	printf("after it, all: %d\n", hsaKmtWaitOnMultipleEvents(events, 4, 1, 20));
	for (int i = 0; i < 4; i++)
		printf("after it, %c: %d\n", "abcd"[i], hsaKmtWaitOnEvent(events[i], 0));
	HsaEvent *twice[2] = {events[1], events[1]};
	printf("b twice, any: %d\n", hsaKmtWaitOnMultipleEvents(twice, 2, 0, 20));
	printf("b twice, all: %d\n", hsaKmtWaitOnMultipleEvents(twice, 2, 1, 20));
	HsaEvent *same[2] = {events[0], events[0]};
	printf("set a %d\n", hsaKmtSetEvent(events[0]));
	printf("a twice, all: %d\n", hsaKmtWaitOnMultipleEvents(same, 2, 1, 20));
	printf("a after it: %d\n", hsaKmtWaitOnEvent(events[0], 0));
	for (int i = 0; i < 4; i++)
		printf("destroy %c: %d\n", "abcd"[i], hsaKmtDestroyEvent(events[i]));
}

/* Arguments that no caller should pass. */
static void wrong(void) {
	HsaEvent *event = create("e", HSA_EVENTTYPE_SIGNAL, 0, 0), *made = NULL, copy;
	HsaEventDescriptor wanted;
	memset(&wanted, 0, sizeof wanted);
	printf("null: destroy %d set %d reset %d query %d wait %d many %d\n", hsaKmtDestroyEvent(NULL), hsaKmtSetEvent(NULL),
	       hsaKmtResetEvent(NULL), hsaKmtQueryEventState(NULL), hsaKmtWaitOnEvent(NULL, 0),
	       hsaKmtWaitOnMultipleEvents(NULL, 1, 0, 0));
	printf("no events: any %d all %d\n", hsaKmtWaitOnMultipleEvents(&event, 0, 0, 5),
	       hsaKmtWaitOnMultipleEvents(&event, 0, 1, 5));
	wanted.NodeId = 77;
	int status = hsaKmtCreateEvent(&wanted, 0, 0, &made);
	printf("create on node 77: %d\n", status);
	if (!status)
		printf("destroy it: %d\n", hsaKmtDestroyEvent(made));
	copy = *event;
	for (int i = 0; i < 3; i++) {
		copy.EventId = (HSA_EVENTID[]){0, 4000, 0xffffffff}[i];
		HsaEvent *pair[2] = {event, &copy};
		printf("id %x: set %d reset %d wait %d any %d all %d\n", copy.EventId, hsaKmtSetEvent(&copy),
		       hsaKmtResetEvent(&copy), hsaKmtWaitOnEvent(&copy, 0), hsaKmtWaitOnMultipleEvents(pair, 2, 0, 5),
		       hsaKmtWaitOnMultipleEvents(pair, 2, 1, 5));
	}
	printf("destroy e: %d\n", hsaKmtDestroyEvent(event));
}

/* Ids: the lowest free one first, and how many there are. */
static void ids(void) {
	static HsaEvent *events[MANY];
	HsaEventDescriptor wanted;
	int count = 0, status = 0, bad = 0;
	memset(&wanted, 0, sizeof wanted);
	while (count < MANY && !(status = hsaKmtCreateEvent(&wanted, 0, 0, &events[count])))
		count++;
	printf("events of one process: %d, then %d; first id %u last id %u\n", count, status, events[0]->EventId,
	       events[count - 1]->EventId);
	HSA_EVENTID third = events[3]->EventId;
	printf("destroy the fourth: %d\n", hsaKmtDestroyEvent(events[3]));
	status = hsaKmtCreateEvent(&wanted, 0, 0, &events[3]);
	printf("its id again: %d %s\n", status, !status && events[3]->EventId == third ? "yes" : "no");
	/* The kernel waits for hundreds at once. */
	for (int i = 0; i < 300; i += 7)
		bad += hsaKmtSetEvent(events[i]) != 0;
	printf("set: %d bad\n", bad);
	printf("all of 300: %d\n", hsaKmtWaitOnMultipleEvents(events, 300, 1, 20));
	printf("any of 300: %d\n", hsaKmtWaitOnMultipleEvents(events, 300, 0, 20));
	printf("any of 300 again: %d\n", hsaKmtWaitOnMultipleEvents(events, 300, 0, 20));
	for (int i = 0; i < count; i++)
		bad += hsaKmtDestroyEvent(events[i]) != 0;
	printf("destroy all: %d bad\n", bad);
}

static HsaEvent *shared;

static void *waiter(void *result) {
	*(int *)result = hsaKmtWaitOnEvent(shared, 10000);
	return NULL;
}

/* A thread waits while another sets the event, or destroys it. */
static void threads(void) {
	for (int how = 0; how < 2; how++) {
		pthread_t thread[3];
		int results[3] = {-1, -1, -1}, woken = 0;
		shared = create(how ? "destroyed" : "set", HSA_EVENTTYPE_SIGNAL, 1, 0);
		for (int i = 0; i < 3; i++)
			pthread_create(&thread[i], NULL, waiter, &results[i]);
		usleep(300000);
		unsigned long start = milliseconds();
		printf("%s %d\n", how ? "destroy" : "set", how ? hsaKmtDestroyEvent(shared) : hsaKmtSetEvent(shared));
		for (int i = 0; i < 3; i++) {
			pthread_join(thread[i], NULL);
			printf("waiter: %d\n", results[i]);
			woken += milliseconds() - start < 5000;
		}
		printf("woken before the time was over: %d\n", woken);
		if (!how)
			printf("destroy %d\n", hsaKmtDestroyEvent(shared));
	}
}

static void timeouts(void) {
	HsaEvent *event = create("late", HSA_EVENTTYPE_SIGNAL, 0, 0);
	unsigned long start = milliseconds();
	printf("wait 200: %d", hsaKmtWaitOnEvent(event, 200));
	unsigned long took = milliseconds() - start;
	printf(" %s\n", took < 190 ? "too early" : took > 3000 ? "too late" : "in time");
	printf("set %d", hsaKmtSetEvent(event));
	printf(" wait without end %d", hsaKmtWaitOnEvent(event, 0xffffffff));
	printf(" destroy %d\n", hsaKmtDestroyEvent(event));
}

static void child(void) {
	HsaEvent *event = create("parent's", HSA_EVENTTYPE_SIGNAL, 1, 1);
	int status;
	fflush(stdout);
	pid_t pid = fork();
	if (!pid) {
		HsaEventDescriptor wanted;
		HsaEvent *made = NULL;
		memset(&wanted, 0, sizeof wanted);
		printf("child: set %d reset %d query %d wait %d create %d\n", hsaKmtSetEvent(event), hsaKmtResetEvent(event),
		       hsaKmtQueryEventState(event), hsaKmtWaitOnEvent(event, 0), hsaKmtCreateEvent(&wanted, 0, 0, &made));
		printf("child: open %d\n", hsaKmtOpenKFD());
		printf("child: set the parent's %d", hsaKmtSetEvent(event));
		printf(" wait for it %d\n", hsaKmtWaitOnEvent(event, 0));
		HsaEvent *own = create("child's", HSA_EVENTTYPE_SIGNAL, 1, 0);
		if (own) {
			printf("child: set %d", hsaKmtSetEvent(own));
			printf(" wait %d", hsaKmtWaitOnEvent(own, 10));
			printf(" destroy %d\n", hsaKmtDestroyEvent(own));
		}
		printf("child: close %d\n", hsaKmtCloseKFD());
		fflush(stdout);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	printf("child ended: %x", status);
	printf(" wait %d", hsaKmtWaitOnEvent(event, 0));
	printf(" destroy %d\n", hsaKmtDestroyEvent(event));
}

int main(void) {
	HsaEventDescriptor wanted;
	HsaEvent *event = NULL;
	HsaSystemProperties system;
	setvbuf(stdout, NULL, _IONBF, 0);
	memset(&wanted, 0, sizeof wanted);
	printf("before open: create %d\n", hsaKmtCreateEvent(&wanted, 0, 0, &event));
	printf("open %d\n", hsaKmtOpenKFD());
	printf("before acquire: ");
	event = create("early", HSA_EVENTTYPE_SIGNAL, 0, 0);
	int status = hsaKmtAcquireSystemProperties(&system);
	printf("acquire %d nodes %u\n", status, status ? 0 : system.NumNodes);
	one("early", event);
	types();
	several();
	wrong();
	ids();
	threads();
	timeouts();
	child();
	printf("release %d", hsaKmtReleaseSystemProperties());
	printf(" close %d\n", hsaKmtCloseKFD());
	printf("after close: create %d\n", hsaKmtCreateEvent(&wanted, 0, 0, &event));
	return 0;
}
