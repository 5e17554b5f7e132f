//! Bytes become operations: the bodies of the fuzz targets, as ordinary functions.
//!
//! ```text
//! input     bytes -> numbers and choices; when they end, the run ends
//! objects   the core's objects API beside a dumb twin (twin)
//! manager   verbs of a context on the simulated machine (bench), with faults: all or nothing, and nothing left
//! c_abi     the C entries (entries) with arguments no sane caller passes, on the same bench
//! ```
//! Comes in: any bytes, from libFuzzer (`tests/fuzz`), a committed file, or a generator (`tests/fuzz_replay.rs`). Goes out:
//! nothing, or a panic that names what does not hold. What never happens: two runs of the same bytes that do different
//! things because of time or chance. Addresses are the kernel's choice, so inputs name objects by their place in a list.

mod bench;
pub mod c_abi;
mod entries;
mod input;
pub mod manager;
pub mod objects;
mod twin;

/// The body of a target.
pub type Target = fn(&[u8]);

/// Every target by the name of its file in `tests/fuzz/fuzz_targets`.
pub const TARGETS: &[(&str, Target)] = &[("objects", objects::run), ("manager", manager::run), ("c_abi", c_abi::run)];
