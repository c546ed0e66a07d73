//! Payloads of every kind, past the checksums.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quorate_wire::fuzzing::any_payload(data));
