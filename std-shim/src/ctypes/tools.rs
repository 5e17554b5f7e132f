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
