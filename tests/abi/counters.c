/* A GPU's performance counters and what the calls about traces answer, one line each. A block's counters are folded into
 * one number. */
#include "hsakmt/hsakmt.h"
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static void describe(HSAuint32 node) {
    HsaCounterProperties *properties = NULL;
    printf("node %u: %d\n", node, hsaKmtPmcGetCounterProperties(node, &properties));
    if (!properties)
        return;
    printf("  %u blocks, %u at once\n", properties->NumBlocks, properties->NumConcurrent);
    unsigned char *at = (unsigned char *)&properties->Blocks[0];
    for (HSAuint32 i = 0; i < properties->NumBlocks; i++) {
        HsaCounterBlockProperties *block = (HsaCounterBlockProperties *)at;
        uint64_t folded = 0xcbf29ce484222325;
        const unsigned char *counters = (unsigned char *)&block->Counters[0];
        for (size_t byte = 0; byte < block->NumCounters * sizeof(HsaCounter); byte++) {
            /* Of the flags the C library writes one bit, the lowest; the others are what was in its memory. */
            size_t field = byte % sizeof(HsaCounter);
            unsigned char value = field == 24 ? counters[byte] & 1 : field > 24 && field < 28 ? 0 : counters[byte];
            folded = (folded ^ value) * 0x100000001b3;
        }
        printf("  %08x-%04x, %u counters, %u at once: %016lx\n", block->BlockId.Data1, block->BlockId.Data2,
               block->NumCounters, block->NumConcurrent, (unsigned long)folded);
        /* Traces of one counter too many, and of as many as can be. */
        HsaCounter wanted[64];
        HsaPmcTraceRoot root;
        for (HSAuint32 count = block->NumConcurrent; count <= block->NumConcurrent + 1 && count <= 64; count++) {
            memset(wanted, 0, sizeof(wanted));
            for (HSAuint32 slot = 0; slot < count; slot++) {
                wanted[slot] = block->Counters[0];
                wanted[slot].Type = HSA_PROFILE_TYPE_PRIVILEGED_IMMEDIATE;
            }
            memset(&root, 0, sizeof(root));
            int status = hsaKmtPmcRegisterTrace(node, count, wanted, &root);
            printf("    %u: %d", count, status);
            if (status == HSAKMT_STATUS_SUCCESS) {
                printf(", %lu bytes, %u passes", root.TraceBufferMinSizeBytes, root.NumberOfPasses);
                printf(", access %d", hsaKmtPmcAcquireTraceAccess(node, root.TraceId));
                printf(", start %d", hsaKmtPmcStartTrace(root.TraceId, wanted, sizeof(wanted)));
                printf(", query %d", hsaKmtPmcQueryTrace(root.TraceId));
                printf(", stop %d", hsaKmtPmcStopTrace(root.TraceId));
                printf(", end of access %d", hsaKmtPmcReleaseTraceAccess(node, root.TraceId));
                printf(", end %d", hsaKmtPmcUnregisterTrace(node, root.TraceId));
            }
            printf("\n");
        }
        at = (unsigned char *)&block->Counters[block->NumCounters];
    }
}

static void traces(void) {
    HsaCounterProperties *properties;
    HsaCounter counters[4] = {{0}};
    HsaPmcTraceRoot root;
    printf("no place %d, no node %d %d\n", hsaKmtPmcGetCounterProperties(1, NULL),
           hsaKmtPmcGetCounterProperties(99, &properties), hsaKmtPmcRegisterTrace(99, 1, counters, &root));
    printf("no counters %d %d, no root %d\n", hsaKmtPmcRegisterTrace(1, 0, counters, &root),
           hsaKmtPmcRegisterTrace(1, 1, NULL, &root), hsaKmtPmcRegisterTrace(1, 1, counters, NULL));
    counters[0].BlockIndex = 99;
    printf("no block %d\n", hsaKmtPmcRegisterTrace(1, 1, counters, &root));
    counters[0].BlockIndex = 14;
    counters[0].Type = HSA_PROFILE_TYPE_NONPRIV_IMMEDIATE;
    printf("not privileged %d\n", hsaKmtPmcRegisterTrace(1, 1, counters, &root));
    printf("trace 0: %d %d %d %d %d %d\n", hsaKmtPmcUnregisterTrace(1, 0), hsaKmtPmcAcquireTraceAccess(1, 0),
           hsaKmtPmcReleaseTraceAccess(1, 0), hsaKmtPmcStartTrace(0, counters, 8), hsaKmtPmcQueryTrace(0),
           hsaKmtPmcStopTrace(0));
}

int main(void) {
    HsaSystemProperties system;
    HsaCounterProperties *properties = NULL;
    HsaPmcTraceRoot root;
    HsaCounter counter = {0};
    printf("closed %d %d\n", hsaKmtPmcGetCounterProperties(1, &properties), hsaKmtPmcRegisterTrace(1, 1, &counter, &root));
    hsaKmtOpenKFD();
    printf("without a topology %d\n", hsaKmtPmcGetCounterProperties(1, &properties));
    if (hsaKmtAcquireSystemProperties(&system) != HSAKMT_STATUS_SUCCESS)
        return 1;
    for (HSAuint32 node = 0; node < system.NumNodes; node++)
        describe(node);
    traces();
    hsaKmtReleaseSystemProperties();
    hsaKmtCloseKFD();
    printf("closed again %d\n", hsaKmtPmcGetCounterProperties(1, &properties));
    return 0;
}
