/* The runtime that a debugger finds, where no GPU's firmware stands in the way: on a machine without GPUs. */
#include "hsakmt/hsakmt.h"
#include "expect.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    HSAuint32 capabilities = 5;
    EXPECT(SUCCESS, hsaKmtGetRuntimeCapabilities(&capabilities));
    EXPECT(ERROR, hsaKmtRuntimeEnable(&wrong, true));
    EXPECT(SUCCESS, hsaKmtOpenKFD());
    /* It takes the topology snapshot by itself. */
    EXPECT(SUCCESS, hsaKmtCheckRuntimeDebugSupport());
    EXPECT(SUCCESS, hsaKmtRuntimeEnable(&wrong, true));
    EXPECT(UNAVAILABLE, hsaKmtRuntimeEnable(&wrong, false));
    EXPECT(SUCCESS, hsaKmtRuntimeDisable());
    EXPECT(SUCCESS, hsaKmtRuntimeEnable(NULL, false));
    EXPECT(SUCCESS, hsaKmtGetRuntimeCapabilities(&capabilities));
    if (capabilities) {
        puts("capabilities that are not there");
        wrong = 1;
    }
    if (!fork()) {
        EXPECT(KERNEL_IO_CHANNEL_NOT_OPENED, hsaKmtSetTrapHandler(0, NULL, 0, NULL, 0));
        EXPECT(SUCCESS, hsaKmtOpenKFD());
        EXPECT(SUCCESS, hsaKmtRuntimeEnable(NULL, false));
        EXPECT(SUCCESS, hsaKmtCloseKFD());
        fflush(stdout);
        _exit(wrong);
    }
    int status;
    wait(&status);
    wrong |= status != 0;
    EXPECT(SUCCESS, hsaKmtRuntimeDisable());
    EXPECT(SUCCESS, hsaKmtCloseKFD());
    EXPECT(ERROR, hsaKmtRuntimeDisable());
    return wrong;
}
