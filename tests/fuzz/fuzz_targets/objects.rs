//! The core's objects API beside its dumb twin.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hsakmt_tests::fuzz::objects::run(bytes));
