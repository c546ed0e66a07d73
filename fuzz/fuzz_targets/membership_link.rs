//! Membership links.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quorate_auth::fuzzing::membership_link(data));
