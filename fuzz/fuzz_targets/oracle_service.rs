//! What the service of an oracle is asked.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| drop(quorate_oracle::fuzzing::service(data)));
