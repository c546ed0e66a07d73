//! Requests under way in a checkpoint.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quorate_execute::fuzzing::nested_part(data));
