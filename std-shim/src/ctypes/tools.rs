//! Structs of tools.

use super::c_struct;

c_struct! {
    /// One way of sampling program counters.
    HsaPcSamplingInfo = 40 {
        value: u64 = 0,
        value_min: u64 = 8,
        value_max: u64 = 16,
        flags: u64 = 24,
        method: u32 = 32,
        units: u32 = 36,
    }
}

c_struct! {
    /// A performance counter.
    HsaCounter = 32 {
        Type: u32 = 0,
        CounterId: u64 = 4,
        CounterSizeInBits: u32 = 12,
        CounterMask: u64 = 16,
        Flags: u32 = 24,
        BlockIndex: u32 = 28,
    }
}

c_struct! {
    /// A trace of counters.
    HsaPmcTraceRoot = 20 {
        TraceBufferMinSizeBytes: u64 = 0,
        NumberOfPasses: u32 = 8,
        TraceId: u64 = 12,
    }
}

c_struct! {
    /// A message to waves.
    HsaDbgWaveMessage = 16 {
        MemoryVA: u64 = 0,
        DbgWaveMsg: u64 = 8,
    }
}
