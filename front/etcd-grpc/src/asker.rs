//! The caller of a request: the user of its token, or else the name in the certificate of its connection, as in etcd.
//!
//! Tests: `tests/all/auth.rs`, and with certificates `front/cli/tests/all/etcd/auth.rs`.

use crate::jwt::Jwt;
use bytes::Bytes;
use http::HeaderMap;
use quorate_etcd::{TOKEN_BYTES, Who};
use quorate_kit::Shown;

/// What the digests of tokens are derived for.
const PURPOSE: &str = "quorate etcd 2026-11 digest of a token";

/// The caller of a request. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asker {
    /// The bytes that name the caller, as they stand in front of commands and queries; empty if no caller is named.
    bytes: Bytes,
    /// Whether the certificate is an operator's.
    is_operator: bool,
}

impl Asker {
    fn new(who: Who<'_>, is_operator: bool) -> Self {
        let mut bytes = Vec::new();
        who.encode(&mut bytes);
        Self { bytes: bytes.into(), is_operator }
    }

    /// The caller that the client's certificate names.
    pub(crate) fn of_connection(shown: &Shown) -> Self {
        match &shown.name {
            Some(name) => Self::new(Who::Named(name.as_bytes()), shown.is_operator),
            None => Self { is_operator: shown.is_operator, ..Self::default() },
        }
    }

    /// The caller that the request's token names; without a token, the caller of the connection.
    pub(crate) fn of_call(headers: &HeaderMap, connection: &Self, jwt: Option<&Jwt>) -> Self {
        match headers.get("token").or_else(|| headers.get("authorization")) {
            Some(token) => {
                let token = token.as_bytes();
                let token = token.strip_prefix(b"Bearer ").unwrap_or(token);
                let is_operator = connection.is_operator;
                match jwt.and_then(|jwt| jwt.check(token)) {
                    Some(claims) => {
                        Self::new(Who::Signed(claims.name.as_bytes(), claims.revision), is_operator)
                    }
                    None => Self::new(Who::Token(&digest(token)), is_operator),
                }
            }
            None => connection.clone(),
        }
    }

    pub(crate) fn is_nobody(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether the connection shows an operator's certificate, whatever caller the token names.
    pub(crate) const fn is_operator(&self) -> bool {
        self.is_operator
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

/// The digest of a token, which the store keeps instead of it.
pub(crate) fn digest(token: &[u8]) -> [u8; TOKEN_BYTES] {
    let mut hasher = blake3::Hasher::new_derive_key(PURPOSE);
    let mut digest = [0; TOKEN_BYTES];
    hasher.update(token).finalize_xof().fill(&mut digest);
    digest
}
