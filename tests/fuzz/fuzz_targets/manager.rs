//! Verbs of a context on the simulated machine, with faults.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hsakmt_tests::fuzz::manager::run(bytes));
