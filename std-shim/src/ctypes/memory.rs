//! Structs that memory calls take and fill.

use core::ffi::c_void;

use super::c_struct;

/// What one process shares and another registers.
pub type HsaSharedMemoryHandle = [u32; 8];

c_struct! {
    /// How memory is wanted; passed by value. The core's `MemFlags` names the bits.
    HsaMemFlags = 4 {
        Value: u32 = 0,
    }
}

c_struct! {
    /// How a mapping is wanted; passed by value, and ignored.
    HsaMemMapFlags = 4 {
        Value: u32 = 0,
    }
}

c_struct! {
    /// `HSA_REGISTER_MEM_FLAGS`: how a buffer is taken over; passed by value. Bit 0: give it an address.
    HsaRegisterMemFlags = 4 {
        Value: u32 = 0,
    }
}

c_struct! {
    /// An imported buffer.
    HsaGraphicsResourceInfo = 32, {
        MemoryAddress: *mut c_void,
        SizeInBytes: u64,
        Metadata: *const c_void,
        MetadataSizeInBytes: u32,
        #[cfg(feature = "abi-5-2-3")]
        Reserved: u32,
        #[cfg(not(feature = "abi-5-2-3"))]
        NodeId: u32,
    }
}

c_struct! {
    /// What an address belongs to.
    HsaPointerInfo = 68 {
        Type: u32 = 0,
        Node: u32 = 4,
        MemFlags: HsaMemFlags = 8,
        CPUAddress: *mut c_void = 12,
        GPUAddress: u64 = 20,
        SizeInBytes: u64 = 28,
        NRegisteredNodes: u32 = 36,
        NMappedNodes: u32 = 40,
        RegisteredNodes: *const u32 = 44,
        MappedNodes: *const u32 = 52,
        UserData: *mut c_void = 60,
    }
}

c_struct! {
    /// A piece of a process's memory.
    HsaMemoryRange = 16 {
        MemoryAddress: *mut c_void = 0,
        SizeInBytes: u64 = 8,
    }
}

c_struct! {
    /// One attribute of a range of shared virtual memory.
    HSA_SVM_ATTRIBUTE = 8 {
        r#type: u32 = 0,
        value: u32 = 4,
    }
}
