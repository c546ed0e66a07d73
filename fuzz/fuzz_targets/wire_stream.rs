//! A byte stream cut into frames, every payload through its decoder.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quorate_wire::fuzzing::stream(data));
