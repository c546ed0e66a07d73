//! Any bytes as a manifest: what decodes, encodes to the same again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quorate_state::checkpoint::fuzzing::manifest(data));
