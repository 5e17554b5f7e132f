/* Calls beside memory, one line each: what they answer, in the order and with the arguments of this file. Runs on this library
 * and on the original of 5.2.3. What that one lacks, or answers otherwise than the one of 2025-08, is not here. */
#include HSAKMT_H

#include <stdio.h>
#include <string.h>

#define SAY(call) printf("%d: " #call " = %d\n", __LINE__, (int)(call))

static void runtime(void) {
    SAY(hsaKmtSetTrapHandler(1, (void *)0x10000, 0x1000, (void *)0x20000, 0x1000));
    SAY(hsaKmtSetTrapHandler(1, 0, 0, 0, 0));
    SAY(hsaKmtSetTrapHandler(0, (void *)0x10000, 0x1000, (void *)0x20000, 0x1000));
    SAY(hsaKmtSetTrapHandler(99, (void *)0x10000, 0x1000, (void *)0x20000, 0x1000));
    SAY(hsaKmtSetMemoryPolicy(1, HSA_CACHING_CACHED, HSA_CACHING_CACHED, 0, 0));
    SAY(hsaKmtSetMemoryPolicy(0, HSA_CACHING_CACHED, HSA_CACHING_CACHED, 0, 0));
    SAY(hsaKmtSetMemoryPolicy(99, HSA_CACHING_CACHED, HSA_CACHING_CACHED, 0, 0));
}

static void show(const HsaEvent *event, const HsaEvent *first) {
    const HsaEventData *data = &event->EventData;
    printf("id %u type %u data %llx %llx words %llx %x, slots apart %lld\n", event->EventId, data->EventType,
           (unsigned long long)data->EventData.SyncVar.SyncVar.UserData,
           (unsigned long long)data->EventData.SyncVar.SyncVarSize, (unsigned long long)data->HWData1, data->HWData3,
           data->HWData2 ? (long long)(data->HWData2 - first->EventData.HWData2) : -1);
}

static void events(void) {
    HsaEventDescriptor wanted;
    HsaEvent *signal, *again, *memory, *reset, *all[4];
    memset(&wanted, 0, sizeof wanted);
    wanted.EventType = HSA_EVENTTYPE_SIGNAL;
    wanted.NodeId = 1;
    wanted.SyncVar.SyncVar.UserData = (void *)0x123456789abcull;
    wanted.SyncVar.SyncVarSize = 0x1122334455667788ull;
    SAY(hsaKmtCreateEvent(&wanted, true, false, &signal));
    SAY(hsaKmtCreateEvent(&wanted, false, true, &again));
    SAY(signal->EventData.HWData2 / 8 & 511);
    wanted.EventType = HSA_EVENTTYPE_MEMORY;
    SAY(hsaKmtCreateEvent(&wanted, true, false, &memory));
    wanted.EventType = HSA_EVENTTYPE_HW_EXCEPTION;
    SAY(hsaKmtCreateEvent(&wanted, true, true, &reset));
    wanted.EventType = HSA_EVENTTYPE_MAXID;
    SAY(hsaKmtCreateEvent(&wanted, true, true, &reset));
    show(signal, signal);
    show(again, signal);
    show(memory, signal);
    show(reset, signal);
    all[0] = signal, all[1] = again, all[2] = memory, all[3] = reset;
    SAY(hsaKmtQueryEventState(signal));
    SAY(hsaKmtQueryEventState(NULL));
    SAY(hsaKmtWaitOnEvent(signal, 1));
    SAY(hsaKmtWaitOnEvent(signal, 0));
    SAY(hsaKmtWaitOnEvent(again, 1));
    SAY(hsaKmtWaitOnEvent(again, 1));
    SAY(hsaKmtSetEvent(again));
    SAY(hsaKmtWaitOnMultipleEvents(all, 2, true, 1));
    /* That wait has reset it, though it timed out. */
    SAY(hsaKmtWaitOnEvent(again, 0));
    SAY(hsaKmtSetEvent(again));
    SAY(hsaKmtWaitOnMultipleEvents(all, 4, false, HSA_EVENTTIMEOUT_INFINITE));
    SAY(hsaKmtSetEvent(signal));
    SAY(hsaKmtSetEvent(again));
    SAY(hsaKmtWaitOnMultipleEvents(all, 2, true, HSA_EVENTTIMEOUT_INFINITE));
    SAY(hsaKmtWaitOnMultipleEvents(all, 0, true, 0));
    SAY(hsaKmtSetEvent(memory));
    SAY(hsaKmtResetEvent(reset));
    SAY(hsaKmtResetEvent(signal));
    SAY(hsaKmtWaitOnEvent(signal, 0));
    SAY(hsaKmtSetEvent(NULL));
    SAY(hsaKmtWaitOnMultipleEvents(NULL, 1, true, 0));
    SAY(hsaKmtDestroyEvent(NULL));
    for (int i = 0; i < 4; i++)
        SAY(hsaKmtDestroyEvent(all[i]));
}

static void debugger(void) {
    SAY(hsaKmtDbgRegister(1));
    SAY(hsaKmtDbgRegister(0));
    SAY(hsaKmtDbgRegister(99));
    SAY(hsaKmtDbgUnregister(1));
    SAY(hsaKmtDbgUnregister(99));
    SAY(hsaKmtSPMAcquire(99));
    SAY(hsaKmtSPMRelease(99));
}

int main(void) {
    HsaSystemProperties system;
    SAY(hsaKmtSetTrapHandler(1, 0, 0, 0, 0));
    SAY(hsaKmtSetMemoryPolicy(1, 0, 0, 0, 0));
    SAY(hsaKmtOpenKFD());
    SAY(hsaKmtSetTrapHandler(1, 0, 0, 0, 0));
    SAY(hsaKmtAcquireSystemProperties(&system));
    runtime();
    events();
    debugger();
    SAY(hsaKmtReleaseSystemProperties());
    SAY(hsaKmtSetTrapHandler(1, 0, 0, 0, 0));
    SAY(hsaKmtCloseKFD());
    return 0;
}
