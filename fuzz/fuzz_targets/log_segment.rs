//! Any bytes as the segments of a log: recovery returns, and a second one finds the same.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quorate_log::fuzzing::fuzz_segment(data));
