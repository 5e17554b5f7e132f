//! Micro-benchmarks.
//!
//! | what | command |
//! |---|---|
//! | [`compare`]: our C interface against another `libhsakmt.so.1`, same program, same run | `cargo run --release -p hsakmt-benches` |
//! | [`floor`]: what entering a look-up costs, against the walk alone | `cargo run --release -p hsakmt-benches --bin floor` |
//! | [`verbs`]: what each write verb costs without the device, by how many objects there are | `cargo run --release -p hsakmt-benches --bin verbs` |
//! | [`rocr`]: look-up and start of AMD's runtime, over Debian's library and ours | `cargo run --release -p hsakmt-benches --bin rocr` |
//! | `benches/*.rs`: the parts by themselves, in this process, with criterion, on one [`workload`] | `cargo bench -p hsakmt-benches --bench lookup`, `--bench edit`; without a name both, after [`compare`] |
//!
//! Instruction counts, which do not depend on how busy a machine is, are in the package `hsakmt-perf`.
mod busy;
pub mod compare;
pub mod floor;
mod needs;
pub mod rocr;
mod spread;
pub mod verbs;
pub mod workload;
