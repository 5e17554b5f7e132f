/* The smallest program on the library: it links, loads, and before an open every call says what it should. */
#include "hsakmt/hsakmt.h"

#include <stdio.h>
#include <string.h>

static int wrong;

static void expect(const char *call, HSAKMT_STATUS want, HSAKMT_STATUS got) {
    if (want != got) {
        printf("%s: %d instead of %d\n", call, (int)got, (int)want);
        wrong = 1;
    }
}

#define EXPECT(want, call) expect(#call, HSAKMT_STATUS_##want, call)

int main(void) {
    HsaPointerInfo info, untouched;
    HSAuint64 address = 1;
    memset(&untouched, 0xaa, sizeof untouched);
    info = untouched;
    EXPECT(NOT_IMPLEMENTED, hsaKmtMapGraphicHandle(0, 0, 0, 0, 0, &address));
    EXPECT(KERNEL_IO_CHANNEL_NOT_OPENED, hsaKmtQueryPointerInfo(&address, &info));
    EXPECT(KERNEL_IO_CHANNEL_NOT_OPENED, hsaKmtSetMemoryUserData(&address, &info));
    EXPECT(KERNEL_IO_CHANNEL_NOT_OPENED, hsaKmtCloseKFD());
    if (memcmp(&info, &untouched, sizeof info) || address != 1) {
        puts("a refused call wrote");
        wrong = 1;
    }
    return wrong;
}
