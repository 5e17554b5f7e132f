/* Node lists on a machine whose only GPU shares its node with the CPU cores. MapMemoryToGPUNodes: of a list of one node
 * nobody reads the node, nor whether there is a list; a longer one is checked as anywhere. RegisterMemoryToNodes: nobody
 * reads any list. */
#include "hsakmt/hsakmt.h"
#include "expect.h"

#include <stdio.h>

static unsigned mapped(const void *memory) {
    HsaPointerInfo info;
    EXPECT(SUCCESS, hsaKmtQueryPointerInfo(memory, &info));
    return info.NMappedNodes;
}

int main(void) {
    HsaSystemProperties system;
    HsaMemFlags vram = {.Value = 1};
    HsaMemMapFlags map = {.Value = 0};
    HSAuint32 itself[] = {0, 0}, nobody[] = {7, 7}, *unreadable = (HSAuint32 *)0x10;
    HSAuint64 by_all = 0, by_none = 1;
    void *memory = NULL;
    EXPECT(KERNEL_IO_CHANNEL_NOT_OPENED, hsaKmtRegisterMemoryToNodes(&wrong, 4, 4, unreadable));
    EXPECT(SUCCESS, hsaKmtOpenKFD());
    EXPECT(NOT_SUPPORTED, hsaKmtRegisterMemoryToNodes(&wrong, 4, 4, unreadable));
    EXPECT(ERROR, hsaKmtMapMemoryToGPUNodes(NULL, 4, &by_none, map, 4, unreadable));
    EXPECT(ERROR, hsaKmtMapMemoryToGPUNodes(&wrong, 4, NULL, map, 1, unreadable));
    EXPECT(SUCCESS, hsaKmtAcquireSystemProperties(&system));
    EXPECT(SUCCESS, hsaKmtAllocMemory(0, 0x4000, vram, &memory));

    EXPECT(SUCCESS, hsaKmtMapMemoryToGPU(memory, 0x4000, &by_all));
    SAME(1, mapped(memory));
    EXPECT(SUCCESS, hsaKmtUnmapMemoryToGPU(memory));
    SAME(0, mapped(memory));

    EXPECT(SUCCESS, hsaKmtMapMemoryToGPUNodes(memory, 0x4000, &by_none, map, 1, NULL));
    SAME(1, mapped(memory));
    SAME(by_all, by_none);
    EXPECT(SUCCESS, hsaKmtUnmapMemoryToGPU(memory));
    EXPECT(SUCCESS, hsaKmtMapMemoryToGPUNodes(memory, 0x4000, NULL, map, 1, nobody));
    SAME(1, mapped(memory));
    EXPECT(SUCCESS, hsaKmtUnmapMemoryToGPU(memory));

    EXPECT(SUCCESS, hsaKmtMapMemoryToGPUNodes(memory, 0x4000, NULL, map, 1, unreadable));
    SAME(1, mapped(memory));
    EXPECT(SUCCESS, hsaKmtUnmapMemoryToGPU(memory));
    EXPECT(NOT_SUPPORTED, hsaKmtRegisterMemoryToNodes(&wrong, 4, 4, unreadable));
    EXPECT(NOT_SUPPORTED, hsaKmtRegisterMemoryToNodes(&wrong, 4, ~0ull, itself));
    EXPECT(ERROR, hsaKmtMapMemoryToGPUNodes(NULL, 0x4000, &by_none, map, 4, unreadable));

    EXPECT(INVALID_PARAMETER, hsaKmtMapMemoryToGPUNodes(memory, 0x4000, &by_none, map, 0, NULL));
    EXPECT(INVALID_PARAMETER, hsaKmtMapMemoryToGPUNodes(memory, 0x4000, &by_none, map, 2, NULL));
    EXPECT(INVALID_NODE_UNIT, hsaKmtMapMemoryToGPUNodes(memory, 0x4000, &by_none, map, 2, nobody));
    EXPECT(ERROR, hsaKmtMapMemoryToGPUNodes(memory, 0x4000, &by_none, map, 2, itself));
    EXPECT(ERROR, hsaKmtMapMemoryToGPUNodes(NULL, 0x4000, &by_none, map, 1, NULL));
    SAME(0, mapped(memory));

    EXPECT(SUCCESS, hsaKmtFreeMemory(memory, 0x4000));
    EXPECT(SUCCESS, hsaKmtCloseKFD());
    return wrong;
}
