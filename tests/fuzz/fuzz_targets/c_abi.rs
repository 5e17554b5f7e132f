//! The C entries with arguments no sane caller passes.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hsakmt_tests::fuzz::c_abi::run(bytes));
