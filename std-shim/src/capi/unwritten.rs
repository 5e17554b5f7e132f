//! Names that exist and answer NOT_IMPLEMENTED.
//!
//! A program that links to one of them loads and runs; only the call is refused. Nothing is read or written. The list
//! stands here once: README repeats it for readers, and a test compares the two.

use core::ffi::c_void;

use crate::ctypes::*;
use crate::status::Status;

/// Declares refusing entries, and the list of their names.
macro_rules! refusing {
    ($(#[$doc:meta])* $list:ident: $($name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        $(#[$doc])*
        pub const $list: &[&str] = &[$(stringify!($name),)*];

        $(
            #[allow(non_snake_case, reason = "the C name")]
            #[unsafe(no_mangle)]
            extern "C" fn $name($(_: $type),*) -> Status {
                Status::NotImplemented
            }
        )*
    };
}

refusing! {
    /// Not written yet.
    UNWRITTEN:
    // topology
    hsaKmtGetAMDGPUDeviceHandle(NodeId: u32, DeviceHandle: *mut HsaAMDGPUDeviceHandle);
    // memory
    hsaKmtSetMemoryPolicy(
        Node: u32,
        DefaultPolicy: u32,
        AlternatePolicy: u32,
        MemoryAddressAlternate: *mut c_void,
        MemorySizeInBytes: u64,
    );
    // events
    hsaKmtCreateEvent(
        EventDesc: *mut HsaEventDescriptor,
        ManualReset: CBool,
        IsSignaled: CBool,
        Event: *mut *mut HsaEvent,
    );
    hsaKmtDestroyEvent(Event: *mut HsaEvent);
    hsaKmtSetEvent(Event: *mut HsaEvent);
    hsaKmtResetEvent(Event: *mut HsaEvent);
    hsaKmtQueryEventState(Event: *mut HsaEvent);
    hsaKmtWaitOnEvent(Event: *mut HsaEvent, Milliseconds: u32);
    hsaKmtWaitOnEvent_Ext(Event: *mut HsaEvent, Milliseconds: u32, event_age: *mut u64);
    hsaKmtWaitOnMultipleEvents(Events: *mut *mut HsaEvent, NumEvents: u32, WaitOnAll: CBool, Milliseconds: u32);
    hsaKmtWaitOnMultipleEvents_Ext(
        Events: *mut *mut HsaEvent,
        NumEvents: u32,
        WaitOnAll: CBool,
        Milliseconds: u32,
        event_age: *mut u64,
    );
    hsaKmtOpenSMI(NodeId: u32, fd: *mut i32);
    hsaKmtSetTrapHandler(
        NodeId: u32,
        TrapHandlerBaseAddress: *mut c_void,
        TrapHandlerSizeInBytes: u64,
        TrapBufferBaseAddress: *mut c_void,
        TrapBufferSizeInBytes: u64,
    );
    // debugger
    hsaKmtDbgRegister(NodeId: u32);
    hsaKmtDbgUnregister(NodeId: u32);
    hsaKmtDbgWavefrontControl(
        NodeId: u32,
        Operand: CEnum,
        Mode: CEnum,
        TrapId: u32,
        DbgWaveMsgRing: *mut HsaDbgWaveMessage,
    );
    hsaKmtDbgAddressWatch(
        NodeId: u32,
        NumWatchPoints: u32,
        WatchMode: *mut CEnum,
        WatchAddress: *mut *mut c_void,
        WatchMask: *mut u64,
        WatchEvent: *mut *mut HsaEvent,
    );
    hsaKmtRuntimeEnable(rDebug: *mut c_void, setupTtmp: CBool);
    hsaKmtRuntimeDisable();
    hsaKmtGetRuntimeCapabilities(caps_mask: *mut u32);
    hsaKmtCheckRuntimeDebugSupport();
    hsaKmtDbgEnable(runtime_info: *mut *mut c_void, data_size: *mut u32);
    hsaKmtDbgDisable();
    hsaKmtDbgGetDeviceData(data: *mut *mut c_void, n_entries: *mut u32, entry_size: *mut u32);
    hsaKmtDbgGetQueueData(data: *mut *mut c_void, n_entries: *mut u32, entry_size: *mut u32, suspend_queues: CBool);
    hsaKmtDebugTrapIoctl(arg: *mut kfd_ioctl_dbg_trap_args, Queues: *mut u64, DebugReturn: *mut u64);
    // counters and sampling
    hsaKmtPmcGetCounterProperties(NodeId: u32, CounterProperties: *mut *mut HsaCounterProperties);
    hsaKmtPmcRegisterTrace(
        NodeId: u32,
        NumberOfCounters: u32,
        Counters: *mut HsaCounter,
        TraceRoot: *mut HsaPmcTraceRoot,
    );
    hsaKmtPmcUnregisterTrace(NodeId: u32, TraceId: u64);
    hsaKmtPmcAcquireTraceAccess(NodeId: u32, TraceId: u64);
    hsaKmtPmcReleaseTraceAccess(NodeId: u32, TraceId: u64);
    hsaKmtPmcStartTrace(TraceId: u64, TraceBuffer: *mut c_void, TraceBufferSizeBytes: u64);
    hsaKmtPmcQueryTrace(TraceId: u64);
    hsaKmtPmcStopTrace(TraceId: u64);
    hsaKmtSPMAcquire(PreferredNode: u32);
    hsaKmtSPMRelease(PreferredNode: u32);
    hsaKmtSPMSetDestBuffer(
        PreferredNode: u32,
        SizeInBytes: u32,
        timeout: *mut u32,
        SizeCopied: *mut u32,
        DestMemoryAddress: *mut c_void,
        isSPMDataLoss: *mut CBool,
    );
    hsaKmtPcSamplingSupport();
    hsaKmtPcSamplingQueryCapabilities(NodeId: u32, sample_info: *mut c_void, sample_info_sz: u32, sz_needed: *mut u32);
    hsaKmtPcSamplingCreate(node_id: u32, sample_info: *mut HsaPcSamplingInfo, traceId: *mut u32);
    hsaKmtPcSamplingDestroy(NodeId: u32, traceId: u32);
    hsaKmtPcSamplingStart(NodeId: u32, traceId: u32);
    hsaKmtPcSamplingStop(NodeId: u32, traceId: u32);
}

refusing! {
    /// Refused for good: the original answers NOT_IMPLEMENTED too.
    RETIRED:
    hsaKmtProcessVMRead(
        Pid: u32,
        LocalMemoryArray: *mut HsaMemoryRange,
        LocalMemoryArrayCount: u64,
        RemoteMemoryArray: *mut HsaMemoryRange,
        RemoteMemoryArrayCount: u64,
        SizeCopied: *mut u64,
    );
    hsaKmtProcessVMWrite(
        Pid: u32,
        LocalMemoryArray: *mut HsaMemoryRange,
        LocalMemoryArrayCount: u64,
        RemoteMemoryArray: *mut HsaMemoryRange,
        RemoteMemoryArrayCount: u64,
        SizeCopied: *mut u64,
    );
    hsaKmtMapGraphicHandle(
        NodeId: u32,
        GraphicDeviceHandle: u64,
        GraphicResourceHandle: u64,
        GraphicResourceOffset: u64,
        GraphicResourceSize: u64,
        FlatMemoryAddress: *mut u64,
    );
}

#[cfg(feature = "abi-5-2-3")]
refusing! {
    /// What only the older library exports; it asks about a debugger interface that kernels no longer have.
    OLDER:
    hsaKmtGetKernelDebugTrapVersionInfo(Major: *mut u32, Minor: *mut u32);
}
