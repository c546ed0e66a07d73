//! Bytes as a batch of requests.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quorate_wire::fuzzing::batch(data));
