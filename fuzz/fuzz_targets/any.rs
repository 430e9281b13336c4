//! The program of cargo-fuzz for every target of `src/targets.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| photofinish_fuzz::run(bytes));
