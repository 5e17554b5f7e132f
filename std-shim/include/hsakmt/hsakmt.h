/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The calls of the libhsakmt C interface, declared anew.
 *
 * Every call returns an HSAKMT_STATUS, may be made from any thread, and survives any argument. Before the first
 * hsaKmtOpenKFD, after the last hsaKmtCloseKFD and in a forked child that has not opened again, nearly all of them
 * answer KERNEL_IO_CHANNEL_NOT_OPENED. Calls that the library does not have yet answer NOT_IMPLEMENTED; the project's
 * README lists them.
 *
 * A thread that was stopped in the middle of a query holds back the memory that its context has replaced since. At 256 MiB
 * of it (HSAKMT_MAX_RETIRED_MIB, read at open) one change waits for the thread for two seconds; after that changes answer
 * NO_MEMORY at once until it goes on. Calls that free, deregister or unmap work all the while.
 */
#ifndef LIBHSAKMT_HSAKMT_H
#define LIBHSAKMT_HSAKMT_H

#include "hsakmttypes.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kfd_ioctl_dbg_trap_args; /* <linux/kfd_ioctl.h> */

/* ---- Life cycle ------------------------------------------------------------------------------------------------ */

/* Opens /dev/kfd, or counts one more opening (KERNEL_ALREADY_OPENED). Each needs its own close. */
HSAKMT_STATUS HSAKMTAPI hsaKmtOpenKFD(void);
/* The last close frees every object. */
HSAKMT_STATUS HSAKMTAPI hsaKmtCloseKFD(void);
/* The kernel driver's interface version. */
HSAKMT_STATUS HSAKMTAPI hsaKmtGetVersion(HsaVersionInfo *VersionInfo);

/* ---- Topology -------------------------------------------------------------------------------------------------- */

/* Takes the topology snapshot that the node calls answer from, and makes memory calls possible. */
HSAKMT_STATUS HSAKMTAPI hsaKmtAcquireSystemProperties(HsaSystemProperties *SystemProperties);
/* Drops the snapshot; objects stay. */
HSAKMT_STATUS HSAKMTAPI hsaKmtReleaseSystemProperties(void);
HSAKMT_STATUS HSAKMTAPI hsaKmtGetNodeProperties(HSAuint32 NodeId, HsaNodeProperties *NodeProperties);
/* The next three fill arrays of the lengths that the node properties tell. */
HSAKMT_STATUS HSAKMTAPI hsaKmtGetNodeMemoryProperties(HSAuint32 NodeId, HSAuint32 NumBanks,
                                                      HsaMemoryProperties *MemoryProperties);
HSAKMT_STATUS HSAKMTAPI hsaKmtGetNodeCacheProperties(HSAuint32 NodeId, HSAuint32 ProcessorId, HSAuint32 NumCaches,
                                                     HsaCacheProperties *CacheProperties);
HSAKMT_STATUS HSAKMTAPI hsaKmtGetNodeIoLinkProperties(HSAuint32 NodeId, HSAuint32 NumIoLinks,
                                                      HsaIoLinkProperties *IoLinkProperties);
HSAKMT_STATUS HSAKMTAPI hsaKmtGetClockCounters(HSAuint32 NodeId, HsaClockCounters *Counters);
HSAKMT_STATUS HSAKMTAPI hsaKmtGetTileConfig(HSAuint32 NodeId, HsaGpuTileConfig *config);
/* libdrm's amdgpu_device_handle of a GPU. The library owns it, until the last close. INVALID_HANDLE: no libdrm here, or it
 * refuses the GPU. */
HSAKMT_STATUS HSAKMTAPI hsaKmtGetAMDGPUDeviceHandle(HSAuint32 NodeId, HsaAMDGPUDeviceHandle *DeviceHandle);
/* Whether a model stands in for the hardware: writes false. */
HSAKMT_STATUS HSAKMTAPI hsaKmtModelEnabled(bool *enable);

/* ---- Pointers -------------------------------------------------------------------------------------------------- */

/* The allocation that contains an address. ERROR and Type UNKNOWN: none does. Takes no lock, allocates nothing and, but for
 * a thread's first call, makes no system call: fit for signal handlers and allocator hooks. */
HSAKMT_STATUS HSAKMTAPI hsaKmtQueryPointerInfo(const void *Pointer, HsaPointerInfo *PointerInfo);
/* Attaches a value to the object that starts at Pointer, for later queries. */
HSAKMT_STATUS HSAKMTAPI hsaKmtSetMemoryUserData(const void *Pointer, void *UserData);

/* ---- Memory ---------------------------------------------------------------------------------------------------- */

/* SizeInBytes: a multiple of the page size in MemFlags. *MemoryAddress is read only with FixedAddress. */
HSAKMT_STATUS HSAKMTAPI hsaKmtAllocMemory(HSAuint32 PreferredNode, HSAuint64 SizeInBytes, HsaMemFlags MemFlags,
                                          void **MemoryAddress);
/* Alignment: a power of two, at least a page; 0 for the usual one. */
HSAKMT_STATUS HSAKMTAPI hsaKmtAllocMemoryAlign(HSAuint32 PreferredNode, HSAuint64 SizeInBytes, HSAuint64 Alignment,
                                               HsaMemFlags MemFlags, void **MemoryAddress);
/* ERROR while it is mapped. */
HSAKMT_STATUS HSAKMTAPI hsaKmtFreeMemory(void *MemoryAddress, HSAuint64 SizeInBytes);
HSAKMT_STATUS HSAKMTAPI hsaKmtAvailableMemory(HSAuint32 Node, HSAuint64 *AvailableBytes);
HSAKMT_STATUS HSAKMTAPI hsaKmtSetMemoryPolicy(HSAuint32 Node, HSAuint32 DefaultPolicy, HSAuint32 AlternatePolicy,
                                              void *MemoryAddressAlternate, HSAuint64 MemorySizeInBytes);

/* Makes host memory known to the GPUs. The same range twice is one object with a count. */
HSAKMT_STATUS HSAKMTAPI hsaKmtRegisterMemory(void *MemoryAddress, HSAuint64 MemorySizeInBytes);
HSAKMT_STATUS HSAKMTAPI hsaKmtRegisterMemoryToNodes(void *MemoryAddress, HSAuint64 MemorySizeInBytes,
                                                    HSAuint64 NumberOfNodes, HSAuint32 *NodeArray);
HSAKMT_STATUS HSAKMTAPI hsaKmtRegisterMemoryWithFlags(void *MemoryAddress, HSAuint64 MemorySizeInBytes,
                                                      HsaMemFlags MemFlags);
HSAKMT_STATUS HSAKMTAPI hsaKmtDeregisterMemory(void *MemoryAddress);

HSAKMT_STATUS HSAKMTAPI hsaKmtMapMemoryToGPU(void *MemoryAddress, HSAuint64 MemorySizeInBytes,
                                             HSAuint64 *AlternateVAGPU);
/* Afterwards it is mapped on the nodes listed and on no other. */
HSAKMT_STATUS HSAKMTAPI hsaKmtMapMemoryToGPUNodes(void *MemoryAddress, HSAuint64 MemorySizeInBytes,
                                                  HSAuint64 *AlternateVAGPU, HsaMemMapFlags MemMapFlags,
                                                  HSAuint64 NumberOfNodes, HSAuint32 *NodeArray);
HSAKMT_STATUS HSAKMTAPI hsaKmtUnmapMemoryToGPU(void *MemoryAddress);

/* ---- Memory of others ------------------------------------------------------------------------------------------ */

/* Takes over a dmabuf (the handle is its file descriptor). */
HSAKMT_STATUS HSAKMTAPI hsaKmtRegisterGraphicsHandleToNodes(HSAuint64 GraphicsResourceHandle,
                                                            HsaGraphicsResourceInfo *GraphicsResourceInfo,
                                                            HSAuint64 NumberOfNodes, HSAuint32 *NodeArray);
HSAKMT_STATUS HSAKMTAPI hsaKmtRegisterGraphicsHandleToNodesExt(HSAuint64 GraphicsResourceHandle,
                                                               HsaGraphicsResourceInfo *GraphicsResourceInfo,
                                                               HSAuint64 NumberOfNodes, HSAuint32 *NodeArray,
                                                               HSA_REGISTER_MEM_FLAGS RegisterFlags);
HSAKMT_STATUS HSAKMTAPI hsaKmtExportDMABufHandle(void *MemoryAddress, HSAuint64 MemorySizeInBytes, int *DMABufFd,
                                                 HSAuint64 *Offset);
HSAKMT_STATUS HSAKMTAPI hsaKmtShareMemory(void *MemoryAddress, HSAuint64 SizeInBytes,
                                          HsaSharedMemoryHandle *SharedMemoryHandle);
HSAKMT_STATUS HSAKMTAPI hsaKmtRegisterSharedHandle(const HsaSharedMemoryHandle *SharedMemoryHandle,
                                                   void **MemoryAddress, HSAuint64 *SizeInBytes);
HSAKMT_STATUS HSAKMTAPI hsaKmtRegisterSharedHandleToNodes(const HsaSharedMemoryHandle *SharedMemoryHandle,
                                                          void **MemoryAddress, HSAuint64 *SizeInBytes,
                                                          HSAuint64 NumberOfNodes, HSAuint32 *NodeArray);
HSAKMT_STATUS HSAKMTAPI hsaKmtProcessVMRead(HSAuint32 Pid, HsaMemoryRange *LocalMemoryArray,
                                            HSAuint64 LocalMemoryArrayCount, HsaMemoryRange *RemoteMemoryArray,
                                            HSAuint64 RemoteMemoryArrayCount, HSAuint64 *SizeCopied);
HSAKMT_STATUS HSAKMTAPI hsaKmtProcessVMWrite(HSAuint32 Pid, HsaMemoryRange *LocalMemoryArray,
                                             HSAuint64 LocalMemoryArrayCount, HsaMemoryRange *RemoteMemoryArray,
                                             HSAuint64 RemoteMemoryArrayCount, HSAuint64 *SizeCopied);
HSAKMT_STATUS HSAKMTAPI hsaKmtMapGraphicHandle(HSAuint32 NodeId, HSAuint64 GraphicDeviceHandle,
                                               HSAuint64 GraphicResourceHandle, HSAuint64 GraphicResourceOffset,
                                               HSAuint64 GraphicResourceSize, HSAuint64 *FlatMemoryAddress);
HSAKMT_STATUS HSAKMTAPI hsaKmtUnmapGraphicHandle(HSAuint32 NodeId, HSAuint64 FlatMemoryAddress,
                                                 HSAuint64 SizeInBytes);

/* ---- Shared virtual memory ------------------------------------------------------------------------------------- */

HSAKMT_STATUS HSAKMTAPI hsaKmtSVMSetAttr(void *start_addr, HSAuint64 size, unsigned int nattr,
                                         HSA_SVM_ATTRIBUTE *attrs);
HSAKMT_STATUS HSAKMTAPI hsaKmtSVMGetAttr(void *start_addr, HSAuint64 size, unsigned int nattr,
                                         HSA_SVM_ATTRIBUTE *attrs);
HSAKMT_STATUS HSAKMTAPI hsaKmtSetXNACKMode(HSAint32 enable);
HSAKMT_STATUS HSAKMTAPI hsaKmtGetXNACKMode(HSAint32 *enable);
HSAKMT_STATUS HSAKMTAPI hsaKmtReplaceAsanHeaderPage(void *addr);
HSAKMT_STATUS HSAKMTAPI hsaKmtReturnAsanHeaderPage(void *addr);

/* ---- Events ---------------------------------------------------------------------------------------------------- */

HSAKMT_STATUS HSAKMTAPI hsaKmtCreateEvent(HsaEventDescriptor *EventDesc, bool ManualReset, bool IsSignaled,
                                          HsaEvent **Event);
HSAKMT_STATUS HSAKMTAPI hsaKmtDestroyEvent(HsaEvent *Event);
HSAKMT_STATUS HSAKMTAPI hsaKmtSetEvent(HsaEvent *Event);
HSAKMT_STATUS HSAKMTAPI hsaKmtResetEvent(HsaEvent *Event);
HSAKMT_STATUS HSAKMTAPI hsaKmtQueryEventState(HsaEvent *Event);
HSAKMT_STATUS HSAKMTAPI hsaKmtWaitOnEvent(HsaEvent *Event, HSAuint32 Milliseconds);
HSAKMT_STATUS HSAKMTAPI hsaKmtWaitOnEvent_Ext(HsaEvent *Event, HSAuint32 Milliseconds, uint64_t *event_age);
HSAKMT_STATUS HSAKMTAPI hsaKmtWaitOnMultipleEvents(HsaEvent *Events[], HSAuint32 NumEvents, bool WaitOnAll,
                                                   HSAuint32 Milliseconds);
HSAKMT_STATUS HSAKMTAPI hsaKmtWaitOnMultipleEvents_Ext(HsaEvent *Events[], HSAuint32 NumEvents, bool WaitOnAll,
                                                       HSAuint32 Milliseconds, uint64_t *event_age);
HSAKMT_STATUS HSAKMTAPI hsaKmtOpenSMI(HSAuint32 NodeId, int *fd);

/* ---- Queues ---------------------------------------------------------------------------------------------------- */

HSAKMT_STATUS HSAKMTAPI hsaKmtCreateQueue(HSAuint32 NodeId, HSA_QUEUE_TYPE Type, HSAuint32 QueuePercentage,
                                          HSA_QUEUE_PRIORITY Priority, void *QueueAddress, HSAuint64 QueueSizeInBytes,
                                          HsaEvent *Event, HsaQueueResource *QueueResource);
/* SdmaEngineId: which engine, for HSA_QUEUE_SDMA_BY_ENG_ID. */
HSAKMT_STATUS HSAKMTAPI hsaKmtCreateQueueExt(HSAuint32 NodeId, HSA_QUEUE_TYPE Type, HSAuint32 QueuePercentage,
                                             HSA_QUEUE_PRIORITY Priority, HSAuint32 SdmaEngineId, void *QueueAddress,
                                             HSAuint64 QueueSizeInBytes, HsaEvent *Event,
                                             HsaQueueResource *QueueResource);
HSAKMT_STATUS HSAKMTAPI hsaKmtUpdateQueue(HSA_QUEUEID QueueId, HSAuint32 QueuePercentage, HSA_QUEUE_PRIORITY Priority,
                                          void *QueueAddress, HSAuint64 QueueSize, HsaEvent *Event);
HSAKMT_STATUS HSAKMTAPI hsaKmtDestroyQueue(HSA_QUEUEID QueueId);
HSAKMT_STATUS HSAKMTAPI hsaKmtSetQueueCUMask(HSA_QUEUEID QueueId, HSAuint32 CUMaskCount, HSAuint32 *QueueCUMask);
HSAKMT_STATUS HSAKMTAPI hsaKmtGetQueueInfo(HSA_QUEUEID QueueId, HsaQueueInfo *QueueInfo);
HSAKMT_STATUS HSAKMTAPI hsaKmtAllocQueueGWS(HSA_QUEUEID QueueId, HSAuint32 nGWS, HSAuint32 *firstGWS);
HSAKMT_STATUS HSAKMTAPI hsaKmtSetTrapHandler(HSAuint32 NodeId, void *TrapHandlerBaseAddress,
                                             HSAuint64 TrapHandlerSizeInBytes, void *TrapBufferBaseAddress,
                                             HSAuint64 TrapBufferSizeInBytes);

/* ---- Debugger -------------------------------------------------------------------------------------------------- */

HSAKMT_STATUS HSAKMTAPI hsaKmtDbgRegister(HSAuint32 NodeId);
HSAKMT_STATUS HSAKMTAPI hsaKmtDbgUnregister(HSAuint32 NodeId);
HSAKMT_STATUS HSAKMTAPI hsaKmtDbgWavefrontControl(HSAuint32 NodeId, HSA_DBG_WAVEOP Operand, HSA_DBG_WAVEMODE Mode,
                                                  HSAuint32 TrapId, HsaDbgWaveMessage *DbgWaveMsgRing);
HSAKMT_STATUS HSAKMTAPI hsaKmtDbgAddressWatch(HSAuint32 NodeId, HSAuint32 NumWatchPoints,
                                              HSA_DBG_WATCH_MODE WatchMode[], void *WatchAddress[],
                                              HSAuint64 WatchMask[], HsaEvent *WatchEvent[]);
HSAKMT_STATUS HSAKMTAPI hsaKmtRuntimeEnable(void *rDebug, bool setupTtmp);
HSAKMT_STATUS HSAKMTAPI hsaKmtRuntimeDisable(void);
HSAKMT_STATUS HSAKMTAPI hsaKmtGetRuntimeCapabilities(HSAuint32 *caps_mask);
HSAKMT_STATUS HSAKMTAPI hsaKmtCheckRuntimeDebugSupport(void);
HSAKMT_STATUS HSAKMTAPI hsaKmtDbgEnable(void **runtime_info, HSAuint32 *data_size);
HSAKMT_STATUS HSAKMTAPI hsaKmtDbgDisable(void);
HSAKMT_STATUS HSAKMTAPI hsaKmtDbgGetDeviceData(void **data, HSAuint32 *n_entries, HSAuint32 *entry_size);
HSAKMT_STATUS HSAKMTAPI hsaKmtDbgGetQueueData(void **data, HSAuint32 *n_entries, HSAuint32 *entry_size,
                                              bool suspend_queues);
HSAKMT_STATUS HSAKMTAPI hsaKmtDebugTrapIoctl(struct kfd_ioctl_dbg_trap_args *arg, HSA_QUEUEID *Queues,
                                             HSAuint64 *DebugReturn);
#if HSAKMT_ABI < 60204
HSAKMT_STATUS HSAKMTAPI hsaKmtGetKernelDebugTrapVersionInfo(HSAuint32 *Major, HSAuint32 *Minor);
#endif

/* ---- Counters and sampling ------------------------------------------------------------------------------------- */

HSAKMT_STATUS HSAKMTAPI hsaKmtPmcGetCounterProperties(HSAuint32 NodeId, HsaCounterProperties **CounterProperties);
HSAKMT_STATUS HSAKMTAPI hsaKmtPmcRegisterTrace(HSAuint32 NodeId, HSAuint32 NumberOfCounters, HsaCounter *Counters,
                                               HsaPmcTraceRoot *TraceRoot);
HSAKMT_STATUS HSAKMTAPI hsaKmtPmcUnregisterTrace(HSAuint32 NodeId, HSATraceId TraceId);
HSAKMT_STATUS HSAKMTAPI hsaKmtPmcAcquireTraceAccess(HSAuint32 NodeId, HSATraceId TraceId);
HSAKMT_STATUS HSAKMTAPI hsaKmtPmcReleaseTraceAccess(HSAuint32 NodeId, HSATraceId TraceId);
HSAKMT_STATUS HSAKMTAPI hsaKmtPmcStartTrace(HSATraceId TraceId, void *TraceBuffer, HSAuint64 TraceBufferSizeBytes);
HSAKMT_STATUS HSAKMTAPI hsaKmtPmcQueryTrace(HSATraceId TraceId);
HSAKMT_STATUS HSAKMTAPI hsaKmtPmcStopTrace(HSATraceId TraceId);
HSAKMT_STATUS HSAKMTAPI hsaKmtSPMAcquire(HSAuint32 PreferredNode);
HSAKMT_STATUS HSAKMTAPI hsaKmtSPMRelease(HSAuint32 PreferredNode);
HSAKMT_STATUS HSAKMTAPI hsaKmtSPMSetDestBuffer(HSAuint32 PreferredNode, HSAuint32 SizeInBytes, HSAuint32 *timeout,
                                               HSAuint32 *SizeCopied, void *DestMemoryAddress, bool *isSPMDataLoss);
HSAKMT_STATUS HSAKMTAPI hsaKmtPcSamplingSupport(void);
HSAKMT_STATUS HSAKMTAPI hsaKmtPcSamplingQueryCapabilities(HSAuint32 NodeId, void *sample_info,
                                                          HSAuint32 sample_info_sz, HSAuint32 *sz_needed);
HSAKMT_STATUS HSAKMTAPI hsaKmtPcSamplingCreate(HSAuint32 node_id, HsaPcSamplingInfo *sample_info,
                                               HsaPcSamplingTraceId *traceId);
HSAKMT_STATUS HSAKMTAPI hsaKmtPcSamplingDestroy(HSAuint32 NodeId, HsaPcSamplingTraceId traceId);
HSAKMT_STATUS HSAKMTAPI hsaKmtPcSamplingStart(HSAuint32 NodeId, HsaPcSamplingTraceId traceId);
HSAKMT_STATUS HSAKMTAPI hsaKmtPcSamplingStop(HSAuint32 NodeId, HsaPcSamplingTraceId traceId);

#ifdef __cplusplus
}
#endif

#endif
