/* Memory of others and shared virtual memory, on a machine with one CPU node and two GPUs without the SVM API. */
#include "hsakmt/hsakmt.h"
#include "expect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static HsaPointerInfo query(const void *pointer) {
    HsaPointerInfo info;
    hsaKmtQueryPointerInfo(pointer, &info);
    return info;
}

static void open_machine(void) {
    HsaSystemProperties system;
    EXPECT(SUCCESS, hsaKmtOpenKFD());
    EXPECT(SUCCESS, hsaKmtAcquireSystemProperties(&system));
}

/* Another process takes the buffer over, twice: two objects, and the same bytes. */
static void take_over(const HsaSharedMemoryHandle *handle) {
    void *one = NULL, *two = NULL;
    HSAuint64 size = 0;
    HSAuint32 nodes[] = {2};
    open_machine();
    EXPECT(SUCCESS, hsaKmtRegisterSharedHandle(handle, &one, &size));
    EXPECT(SUCCESS, hsaKmtRegisterSharedHandleToNodes(handle, &two, &size, 1, nodes));
    EXPECT(INVALID_PARAMETER, hsaKmtRegisterSharedHandleToNodes(handle, &two, &size, 0, nodes));
    /* No array of some nodes is refused, and leaves nothing; no array of no nodes registers to none in particular. */
    void *none = (void *)5;
    size = 7;
    EXPECT(INVALID_PARAMETER, hsaKmtRegisterSharedHandleToNodes(handle, &none, &size, 1, NULL));
    SAME(5, none);
    SAME(7, size);
    EXPECT(SUCCESS, hsaKmtRegisterSharedHandleToNodes(handle, &none, &size, 0, NULL));
    SAME(HSA_POINTER_REGISTERED_SHARED, query(none).Type);
    SAME(0, query(none).NRegisteredNodes);
    EXPECT(SUCCESS, hsaKmtDeregisterMemory(none));
    EXPECT(INVALID_PARAMETER, hsaKmtRegisterSharedHandle(NULL, &one, &size));
    EXPECT(INVALID_PARAMETER, hsaKmtRegisterSharedHandle(handle, NULL, &size));
    EXPECT(INVALID_PARAMETER, hsaKmtRegisterSharedHandle(handle, &one, NULL));
    SAME(0x4000, size);
    SAME(1, one != two);
    HsaPointerInfo info = query((char *)one + 0x3fff);
    SAME(HSA_POINTER_REGISTERED_SHARED, info.Type);
    SAME(1, info.Node);
    SAME(one, info.GPUAddress);
    SAME(NULL, info.CPUAddress);
    info = query(two);
    SAME(1, info.NRegisteredNodes);
    SAME(2, info.RegisteredNodes[0]);
    SAME(0x5a, ((unsigned char *)one)[0x3fff]);
    EXPECT(SUCCESS, hsaKmtDeregisterMemory(one));
    SAME(HSA_POINTER_UNKNOWN, query(one).Type);
    SAME(HSA_POINTER_REGISTERED_SHARED, query(two).Type);
    EXPECT(SUCCESS, hsaKmtDeregisterMemory(two));
}

static void share(char *vram) {
    HsaSharedMemoryHandle handle;
    EXPECT(INVALID_PARAMETER, hsaKmtShareMemory(vram, 0x4000, NULL));
    EXPECT(INVALID_PARAMETER, hsaKmtShareMemory(vram + 0x1000, 0x4000, &handle));
    EXPECT(INVALID_PARAMETER, hsaKmtShareMemory(vram, 1ull << 44, &handle));
    EXPECT(SUCCESS, hsaKmtShareMemory(vram, 0x4000, &handle));
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        take_over(&handle);
        fflush(stdout);
        _exit(wrong);
    }
    int status = 1;
    waitpid(child, &status, 0);
    SAME(0, status);
    handle[5] = 77;
    handle[4] = 77;
    void *address;
    HSAuint64 size;
    EXPECT(INVALID_PARAMETER, hsaKmtRegisterSharedHandle((const HsaSharedMemoryHandle *)&handle, &address, &size));
}

static void dmabuf(char *vram) {
    int file = -1;
    HSAuint64 offset = 0;
    HSAuint32 nodes[] = {1, 2};
    HsaGraphicsResourceInfo info;
    EXPECT(INVALID_PARAMETER, hsaKmtExportDMABufHandle(vram, 0x1000, NULL, &offset));
    EXPECT(INVALID_PARAMETER, hsaKmtExportDMABufHandle(vram, 0x1000, &file, NULL));
    EXPECT(INVALID_PARAMETER, hsaKmtExportDMABufHandle(vram + 0x1000, 0x4000, &file, &offset));
    EXPECT(INVALID_PARAMETER, hsaKmtExportDMABufHandle(vram + 0x1000, ~0ull, &file, &offset));
    EXPECT(SUCCESS, hsaKmtExportDMABufHandle(vram + 0x1000, 0x1000, &file, &offset));
    SAME(0x1000, offset);
    EXPECT(INVALID_PARAMETER, hsaKmtRegisterGraphicsHandleToNodes(file, NULL, 2, nodes));
    EXPECT(INVALID_PARAMETER, hsaKmtRegisterGraphicsHandleToNodes(file, &info, 2, NULL));
    EXPECT(INVALID_PARAMETER, hsaKmtRegisterGraphicsHandleToNodes(file, &info, 0, nodes));
    EXPECT(ERROR, hsaKmtRegisterGraphicsHandleToNodes(~0ull, &info, 2, nodes));
    EXPECT(SUCCESS, hsaKmtRegisterGraphicsHandleToNodes(file, &info, 2, nodes));
    SAME(1, info.NodeId);
    SAME(0x4000, info.SizeInBytes);
    SAME(0, (uint64_t)info.MemoryAddress % 0x40000);
    HsaPointerInfo found = query(info.MemoryAddress);
    SAME(HSA_POINTER_REGISTERED_GRAPHICS, found.Type);
    SAME(NULL, found.CPUAddress);
    SAME(1, found.MemFlags.ui32.CoarseGrain);
    SAME(2, found.NRegisteredNodes);
    EXPECT(SUCCESS, hsaKmtDeregisterMemory(info.MemoryAddress));
    EXPECT(SUCCESS, hsaKmtRegisterGraphicsHandleToNodes(file, &info, 0, NULL));
    SAME(HSA_POINTER_REGISTERED_GRAPHICS, query(info.MemoryAddress).Type);
    EXPECT(INVALID_PARAMETER, hsaKmtMapMemoryToGPU(info.MemoryAddress, 0x4000, NULL));
    EXPECT(SUCCESS, hsaKmtDeregisterMemory(info.MemoryAddress));
    close(file);
}

static void svm(char *vram) {
    HSA_SVM_ATTRIBUTE cpu[] = {{HSA_SVM_ATTR_ACCESS, 0}}, gpu[] = {{HSA_SVM_ATTR_ACCESS, 1}};
    HSA_SVM_ATTRIBUTE nowhere[] = {{HSA_SVM_ATTR_PREFETCH_LOC, INVALID_NODEID}};
    HSAuint64 available = 0;
    HSAint32 xnack = 7;
    EXPECT(INVALID_PARAMETER, hsaKmtSVMSetAttr(NULL, 0x1000, 1, gpu));
    EXPECT(INVALID_PARAMETER, hsaKmtSVMSetAttr(vram, 0, 1, gpu));
    EXPECT(INVALID_PARAMETER, hsaKmtSVMSetAttr(vram + 1, 0x1000, 1, gpu));
    EXPECT(INVALID_PARAMETER, hsaKmtSVMSetAttr(vram, 0x1000, ~0u, gpu));
    EXPECT(INVALID_PARAMETER, hsaKmtSVMSetAttr(vram, 0x1000, 2050, gpu));
    EXPECT(INVALID_PARAMETER, hsaKmtSVMSetAttr(vram, 0x1000, 1, NULL));
    EXPECT(INVALID_NODE_UNIT, hsaKmtSVMSetAttr(vram, 0x1000, 1, cpu));
    EXPECT(INVALID_NODE_UNIT, hsaKmtSVMSetAttr(vram, 0x1000, 1, nowhere));
    EXPECT(INVALID_NODE_UNIT, hsaKmtSVMGetAttr(vram, 0x1000, 1, cpu));
    EXPECT(INVALID_PARAMETER, hsaKmtSVMGetAttr(vram, 0x1001, 1, gpu));
    EXPECT(INVALID_PARAMETER, hsaKmtSVMGetAttr(vram, 0x1000, 1, NULL));
    EXPECT(INVALID_PARAMETER, hsaKmtGetXNACKMode(NULL));
    if (hsaKmtGetXNACKMode(&xnack) == HSAKMT_STATUS_SUCCESS)
        SAME(1, xnack == 0 || xnack == 1);
    EXPECT(INVALID_PARAMETER, hsaKmtAvailableMemory(1, NULL));
    EXPECT(INVALID_NODE_UNIT, hsaKmtAvailableMemory(9, &available));
    EXPECT(ERROR, hsaKmtAvailableMemory(0, &available));
    EXPECT(SUCCESS, hsaKmtAvailableMemory(1, &available));
    SAME(1, available > 0);
    EXPECT(NOT_SUPPORTED, hsaKmtReplaceAsanHeaderPage(vram));
    EXPECT(SUCCESS, hsaKmtUnmapGraphicHandle(1, (HSAuint64)vram, 0));
}

int main(void) {
    HsaMemFlags flags = {.Value = 0};
    char *vram = NULL;
    flags.ui32.NonPaged = 1;
    flags.ui32.HostAccess = 1;
    open_machine();
    EXPECT(SUCCESS, hsaKmtAllocMemory(1, 0x4000, flags, (void **)&vram));
    memset(vram, 0x5a, 0x4000);
    share(vram);
    dmabuf(vram);
    svm(vram);
    EXPECT(SUCCESS, hsaKmtFreeMemory(vram, 0x4000));
    EXPECT(SUCCESS, hsaKmtCloseKFD());
    EXPECT(KERNEL_IO_CHANNEL_NOT_OPENED, hsaKmtShareMemory(vram, 0x4000, NULL));
    EXPECT(KERNEL_IO_CHANNEL_NOT_OPENED, hsaKmtSVMSetAttr(vram, 0, 0, NULL));
    EXPECT(KERNEL_IO_CHANNEL_NOT_OPENED, hsaKmtAvailableMemory(1, NULL));
    return wrong;
}
