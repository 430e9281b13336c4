//! See the target of this name in `src/targets.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| photofinish_fuzz::run("catalogue", bytes));
