//! Files of evidence.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quorate_order::fuzzing::evidence(data));
