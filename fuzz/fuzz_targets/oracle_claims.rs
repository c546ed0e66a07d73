//! What leaders show an oracle where members may lie.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| drop(quorate_order::fuzzing::claims(data)));
