//! Bytes as a certificate, and as the URI of a holder.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quorate_tls::fuzzing::certificate(data));
