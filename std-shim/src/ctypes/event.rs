//! Events.

use super::c_struct;

c_struct! {
    /// What the caller notes beside an event.
    HsaSyncVar = 16 {
        SyncVar: u64 = 0,
        SyncVarSize: u64 = 8,
    }
}

c_struct! {
    /// What a new event is to be.
    HsaEventDescriptor = 24 {
        EventType: u32 = 0,
        NodeId: u32 = 4,
        SyncVar: HsaSyncVar = 8,
    }
}

c_struct! {
    /// A GPU's access that failed. `Failure` is a word of bits.
    HsaMemoryAccessFault = 20 {
        NodeId: u32 = 0,
        VirtualAddress: u64 = 4,
        Failure: u32 = 12,
        Flags: u32 = 16,
    }
}

c_struct! {
    /// A GPU that was reset.
    HsaHwException = 16 {
        NodeId: u32 = 0,
        ResetType: u32 = 4,
        MemoryLost: u32 = 8,
        ResetCause: u32 = 12,
    }
}

c_struct! {
    /// What an event is. `EventData` is a union: [`HsaSyncVar`], [`HsaMemoryAccessFault`] or [`HsaHwException`].
    HsaEventData = 44 {
        EventType: u32 = 0,
        EventData: [u32; 5] = 4,
        HWData1: u64 = 24,
        HWData2: u64 = 32,
        HWData3: u32 = 40,
    }
}

c_struct! {
    /// An event. Made by this library, which also ends it.
    HsaEvent = 48 {
        EventId: u32 = 0,
        EventData: HsaEventData = 4,
    }
}
