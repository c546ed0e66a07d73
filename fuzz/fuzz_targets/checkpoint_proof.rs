//! Proofs of checkpoints.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quorate_auth::fuzzing::checkpoint_proof(data));
