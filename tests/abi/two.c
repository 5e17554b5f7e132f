/* A program with two Rust archives in it. */
#include "hsakmt/hsakmt.h"

unsigned beside(void);

int main(void) {
    HSAuint64 address;
    if (beside() != 7)
        return 1;
    return hsaKmtMapGraphicHandle(0, 0, 0, 0, 0, &address) != HSAKMT_STATUS_NOT_IMPLEMENTED;
}
