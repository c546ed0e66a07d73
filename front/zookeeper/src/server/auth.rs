//! Who a client is, by what it shows with `addauth`.
//!
//! Source: `DigestAuthenticationProvider` and `IPAuthenticationProvider` of Apache ZooKeeper 3.9.4. Tests: tests/all/server.rs.

use crate::tree::Id;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The identity of a name and a password: the name, and a digest of both (SHA-1).
pub fn digest_id(name_and_password: &[u8]) -> Vec<u8> {
    let name = name_and_password.split(|byte| *byte == b':').next().unwrap_or_default();
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY, name_and_password);
    [name, b":", STANDARD.encode(digest).as_bytes()].concat()
}

/// The identities that a proof adds; `None` if it proves nothing.
pub(super) fn ids(scheme: &[u8], proof: &[u8], super_digest: Option<&[u8]>) -> Option<Vec<Id>> {
    match scheme {
        b"digest" => {
            let id = digest_id(proof);
            let is_super = super_digest.is_some_and(|digest| digest == id);
            let mut ids = Vec::new();
            if is_super {
                ids.push(Id { scheme: b"super".into(), id: Vec::new() });
            }
            ids.push(Id { scheme: b"digest".into(), id });
            Some(ids)
        }
        // An address is an identity from the beginning.
        b"ip" => Some(Vec::new()),
        _ => None,
    }
}
