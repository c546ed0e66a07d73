//! Any bytes as a chunk of objects: what decodes, encodes to the same again, and verifies.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quorate_state::checkpoint::fuzzing::chunk(data));
