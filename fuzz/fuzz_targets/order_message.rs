//! Messages of the ordering protocols.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quorate_order::fuzzing::message(data));
