//! The C entries as Rust sees them from outside, and the memory that their pointers lead to: [`Room`], [`Place`].
//!
//! A call on a context has two names; a wrapper takes a [`Channel`], which says which is called. What an entry follows is a
//! [`Place`]: null, or the start of a room at any alignment. A room knows which of its bytes an entry may write, and notices
//! others; what is written outside of it altogether the address sanitizer notices.

use std::ffi::c_void;
use std::ptr::{null_mut, with_exposed_provenance_mut};

use hsakmt::ctypes::*;

/// Bytes of a room that nobody has written.
const UNTOUCHED: u8 = 0xa5;

/// Where an entry reads or writes.
#[repr(transparent)]
pub(super) struct Place<T>(*mut T);

impl<T> Place<T> {
    pub(super) fn null() -> Place<T> {
        Place(null_mut())
    }

    /// What an entry has given.
    pub(super) fn at(address: usize) -> Place<T> {
        Place(with_exposed_provenance_mut(address))
    }

    pub(super) fn is_null(&self) -> bool {
        self.0.is_null()
    }
}

/// Memory for the arguments or answers of one call.
pub(super) struct Room {
    bytes: Box<[u8]>,
    start: usize,
    size: usize,
}

impl Room {
    /// Room for `count` of `T`, `start` bytes behind where memory begins, and some more that nobody may write.
    pub(super) fn new<T>(count: usize, start: usize) -> Room {
        let size = count * size_of::<T>();
        Room { bytes: vec![UNTOUCHED; start + size + 5].into(), start, size }
    }

    /// Room that holds these words.
    pub(super) fn of(words: &[u32], start: usize) -> Room {
        let mut room = Room::new::<u32>(words.len(), start);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        room.set(0, &bytes);
        room
    }

    /// Where it begins.
    pub(super) fn place<T>(&mut self) -> Place<T> {
        Place(self.bytes[self.start..].as_mut_ptr().cast())
    }

    /// The same as a number, to stand in another room.
    pub(super) fn address(&mut self) -> u64 {
        self.place::<u8>().0.expose_provenance() as u64
    }

    /// Puts something into it.
    pub(super) fn set(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[self.start + at..][..bytes.len()].copy_from_slice(bytes);
    }

    /// What is in it.
    pub(super) fn get(&self) -> &[u8] {
        &self.bytes[self.start..][..self.size]
    }

    /// Four bytes of it.
    pub(super) fn word(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.get()[at..at + 4].try_into().expect("four"))
    }

    /// Eight bytes of it.
    pub(super) fn long(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.get()[at..at + 8].try_into().expect("eight"))
    }

    /// Nothing around it was written.
    pub(super) fn check(&self, what: &str) {
        let around = self.bytes[..self.start].iter().chain(&self.bytes[self.start + self.size..]);
        assert!(around.copied().all(|byte| byte == UNTOUCHED), "{what} wrote beside its answer");
    }
}

/// Which name is called: the plain one, or the one that is given a context.
pub(super) type Channel = Option<*const c_void>;

/// Declares plain entries.
macro_rules! plain {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        // SAFETY: declared as in the C header: an enum of C is an int, an address that is only compared a number, a
        // struct of one word that word's struct. What they follow is a `Place`, which is null or leads into a room, and
        // is as large as the count beside it says, or as what the entry's documentation says it reads and writes at most.
        unsafe extern "C" {
            $(pub(super) safe fn $name($($argument: $type),*) -> u32;)*
        }
    };
}

/// Declares entries in pairs, and a wrapper.
macro_rules! pairs {
    ($(fn $name:ident = $plain:ident, $twin:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        plain! {
            $(
                fn $plain($($argument: $type),*);
                fn $twin(context: *const c_void, $($argument: $type),*);
            )*
        }

        $(
            pub(super) fn $name(channel: Channel, $($argument: $type),*) -> u32 {
                match channel {
                    None => $plain($($argument),*),
                    Some(context) => $twin(context, $($argument),*),
                }
            }
        )*
    };
}

plain! {
    fn hsaKmtOpenKFD();
    fn hsaKmtCloseKFD();
    fn hsaKmtCloseKFDCtx();
    fn hsaKmtOpenKFDCtx(context: Place<*const c_void>);
    fn hsaKmtOpenSecondaryKFDCtx(context: Place<*const c_void>);
    fn hsaKmtCloseSecondaryKFDCtx(context: *const c_void);
    fn hsaKmtGetVersion(version: Place<HsaVersionInfo>);
    fn hsaKmtSetMemoryPolicy(node: u32, policy: u32, alternate: u32, address: usize, size: u64);
    fn hsaKmtDestroyQueue(queue: u64);
    fn hsaKmtGetQueueInfo(queue: u64, info: Place<HsaQueueInfo>);
    fn hsaKmtProcessVMRead(pid: u32, local: usize, count: u64, remote: usize, remotes: u64, copied: usize);
}

pairs! {
    fn make_event = hsaKmtCreateEvent, hsaKmtCreateEventCtx(
        wanted: Place<HsaEventDescriptor>, manual: u8, set: u8, event: Place<usize>,
    );
    fn end_event = hsaKmtDestroyEvent, hsaKmtDestroyEventCtx(event: Place<HsaEvent>);
    fn set_event = hsaKmtSetEvent, hsaKmtSetEventCtx(event: Place<HsaEvent>);
    fn reset_event = hsaKmtResetEvent, hsaKmtResetEventCtx(event: Place<HsaEvent>);
    fn query_event = hsaKmtQueryEventState, hsaKmtQueryEventStateCtx(event: Place<HsaEvent>);
    fn wait_event = hsaKmtWaitOnEvent, hsaKmtWaitOnEventCtx(event: Place<HsaEvent>, time: u32);
    fn wait_event_age = hsaKmtWaitOnEvent_Ext, hsaKmtWaitOnEvent_ExtCtx(
        event: Place<HsaEvent>, time: u32, age: Place<u64>,
    );
    fn wait_events = hsaKmtWaitOnMultipleEvents, hsaKmtWaitOnMultipleEventsCtx(
        events: Place<usize>, count: u32, all: u8, time: u32,
    );
    fn acquire = hsaKmtAcquireSystemProperties, hsaKmtAcquireSystemPropertiesCtx(answer: Place<HsaSystemProperties>);
    fn release = hsaKmtReleaseSystemProperties, hsaKmtReleaseSystemPropertiesCtx();
    fn node = hsaKmtGetNodeProperties, hsaKmtGetNodePropertiesCtx(node: u32, answer: Place<HsaNodeProperties>);
    fn banks = hsaKmtGetNodeMemoryProperties, hsaKmtGetNodeMemoryPropertiesCtx(
        node: u32, count: u32, answer: Place<HsaMemoryProperties>,
    );
    fn caches = hsaKmtGetNodeCacheProperties, hsaKmtGetNodeCachePropertiesCtx(
        node: u32, processor: u32, count: u32, answer: Place<HsaCacheProperties>,
    );
    fn links = hsaKmtGetNodeIoLinkProperties, hsaKmtGetNodeIoLinkPropertiesCtx(
        node: u32, count: u32, answer: Place<HsaIoLinkProperties>,
    );
    fn clocks = hsaKmtGetClockCounters, hsaKmtGetClockCountersCtx(node: u32, answer: Place<HsaClockCounters>);
    fn tiling = hsaKmtGetTileConfig, hsaKmtGetTileConfigCtx(node: u32, config: Place<HsaGpuTileConfig>);
    fn query = hsaKmtQueryPointerInfo, hsaKmtQueryPointerInfoCtx(address: usize, answer: Place<HsaPointerInfo>);
    fn set_user_data = hsaKmtSetMemoryUserData, hsaKmtSetMemoryUserDataCtx(address: usize, word: usize);
    fn allocate = hsaKmtAllocMemory, hsaKmtAllocMemoryCtx(
        node: u32, size: u64, flags: HsaMemFlags, address: Place<usize>,
    );
    fn allocate_aligned = hsaKmtAllocMemoryAlign, hsaKmtAllocMemoryAlignCtx(
        node: u32, size: u64, alignment: u64, flags: HsaMemFlags, address: Place<usize>,
    );
    fn free = hsaKmtFreeMemory, hsaKmtFreeMemoryCtx(address: usize, size: u64);
    fn register = hsaKmtRegisterMemory, hsaKmtRegisterMemoryCtx(address: usize, size: u64);
    fn register_to_nodes = hsaKmtRegisterMemoryToNodes, hsaKmtRegisterMemoryToNodesCtx(
        address: usize, size: u64, count: u64, nodes: Place<u32>,
    );
    fn register_with_flags = hsaKmtRegisterMemoryWithFlags, hsaKmtRegisterMemoryWithFlagsCtx(
        address: usize, size: u64, flags: HsaMemFlags,
    );
    fn deregister = hsaKmtDeregisterMemory, hsaKmtDeregisterMemoryCtx(address: usize);
    fn map = hsaKmtMapMemoryToGPU, hsaKmtMapMemoryToGPUCtx(address: usize, size: u64, other: Place<u64>);
    fn map_nodes = hsaKmtMapMemoryToGPUNodes, hsaKmtMapMemoryToGPUNodesCtx(
        address: usize, size: u64, other: Place<u64>, flags: HsaMemMapFlags, count: u64, nodes: Place<u32>,
    );
    fn unmap = hsaKmtUnmapMemoryToGPU, hsaKmtUnmapMemoryToGPUCtx(address: usize);
    fn share = hsaKmtShareMemory, hsaKmtShareMemoryCtx(address: usize, size: u64, handle: Place<HsaSharedMemoryHandle>);
    fn import = hsaKmtRegisterSharedHandle, hsaKmtRegisterSharedHandleCtx(
        handle: Place<HsaSharedMemoryHandle>, address: Place<usize>, size: Place<u64>,
    );
    fn import_to_nodes = hsaKmtRegisterSharedHandleToNodes, hsaKmtRegisterSharedHandleToNodesCtx(
        handle: Place<HsaSharedMemoryHandle>, address: Place<usize>, size: Place<u64>, count: u64, nodes: Place<u32>,
    );
    fn graphics = hsaKmtRegisterGraphicsHandleToNodes, hsaKmtRegisterGraphicsHandleToNodesCtx(
        file: u64, answer: Place<HsaGraphicsResourceInfo>, count: u64, nodes: Place<u32>,
    );
    fn graphics_ext = hsaKmtRegisterGraphicsHandleToNodesExt, hsaKmtRegisterGraphicsHandleToNodesExtCtx(
        file: u64, answer: Place<HsaGraphicsResourceInfo>, count: u64, nodes: Place<u32>, flags: HsaRegisterMemFlags,
    );
    fn export = hsaKmtExportDMABufHandle, hsaKmtExportDMABufHandleCtx(
        address: usize, size: u64, file: Place<i32>, offset: Place<u64>,
    );
    fn unmap_graphics = hsaKmtUnmapGraphicHandle, hsaKmtUnmapGraphicHandleCtx(node: u32, address: u64, size: u64);
    fn set_attributes = hsaKmtSVMSetAttr, hsaKmtSVMSetAttrCtx(
        address: usize, size: u64, count: u32, attributes: Place<HSA_SVM_ATTRIBUTE>,
    );
    fn get_attributes = hsaKmtSVMGetAttr, hsaKmtSVMGetAttrCtx(
        address: usize, size: u64, count: u32, attributes: Place<HSA_SVM_ATTRIBUTE>,
    );
    fn set_xnack = hsaKmtSetXNACKMode, hsaKmtSetXNACKModeCtx(mode: i32);
    fn get_xnack = hsaKmtGetXNACKMode, hsaKmtGetXNACKModeCtx(mode: Place<i32>);
    fn available = hsaKmtAvailableMemory, hsaKmtAvailableMemoryCtx(node: u32, bytes: Place<u64>);
    fn replace_header = hsaKmtReplaceAsanHeaderPage, hsaKmtReplaceAsanHeaderPageCtx(address: usize);
    fn return_header = hsaKmtReturnAsanHeaderPage, hsaKmtReturnAsanHeaderPageCtx(address: usize);
}
