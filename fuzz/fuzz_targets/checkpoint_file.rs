//! Any bytes as checkpoint files: everything the keeper does with them returns, and what it loads is whole.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quorate_state::checkpoint::fuzzing::file(data));
