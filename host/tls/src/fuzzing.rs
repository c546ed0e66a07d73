//! The body of the fuzz target for certificates: decoding returns, whatever the bytes are. Ordinary tests run it over the corpus.

use crate::Certificate;
use quorate_types::Identity;
use std::time::SystemTime;

/// Decodes the bytes as a certificate, and as the URI of a holder.
pub fn certificate(data: &[u8]) {
    if let Ok(certificate) = Certificate::decode(data) {
        let _ =
            (certificate.days_left(SystemTime::UNIX_EPOCH), certificate.holder(), certificate.own_hosts());
        if let Some(identity) = certificate.identity {
            assert_eq!(Identity::parse(&identity.uri()), Some(identity));
        }
    }
    if let Ok(text) = std::str::from_utf8(data)
        && let Some(identity) = Identity::parse(text)
    {
        assert_eq!(identity.uri(), text);
    }
}
