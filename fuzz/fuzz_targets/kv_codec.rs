//! Bytes as a command, a query and a reply of the key-value service.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quorate_kv::fuzzing::decode(data));
