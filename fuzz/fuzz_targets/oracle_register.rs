//! What an oracle keeps of one instance.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quorate_order::fuzzing::register(data));
