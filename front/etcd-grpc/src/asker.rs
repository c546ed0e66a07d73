//! On whose behalf a call comes: the token that it brings, or else the name in its connection's certificate, as in etcd.
//!
//! Tests: `tests/auth.rs`, and with certificates `front/cli/tests/all/etcd/auth.rs`.

use crate::jwt::Jwt;
use bytes::Bytes;
use http::HeaderMap;
use quorate_etcd::{TOKEN_BYTES, Who};
use quorate_types::{Holder, Identity};
use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

/// What the digests of tokens are made for.
const PURPOSE: &str = "quorate etcd 2026-11 digest of a token";

/// Who asks. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asker {
    /// As it stands before commands and queries; nothing where nobody says so.
    bytes: Bytes,
    /// Whether the certificate is one of an operator.
    is_operator: bool,
}

impl Asker {
    fn new(who: Who<'_>, is_operator: bool) -> Self {
        let mut bytes = Vec::new();
        who.encode(&mut bytes);
        Self { bytes: bytes.into(), is_operator }
    }

    /// Whoever the client's certificate names.
    pub(crate) fn of_certificate(certificate: &CertificateDer<'_>) -> Self {
        let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return Self::default() };
        let is_operator = is_operator(&certificate);
        let name = certificate.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
        match name {
            Some(name) => Self::new(Who::Named(name.as_bytes()), is_operator),
            None => Self { is_operator, ..Self::default() },
        }
    }

    /// Whoever a call's token stands for; without one, whoever the connection is.
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

    /// Whether the connection shows an operator's certificate, whoever the call itself says it is.
    pub(crate) const fn is_operator(&self) -> bool {
        self.is_operator
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

/// Whether a certificate is one of an operator of the cluster. Its authority signs for no other one.
fn is_operator(certificate: &X509Certificate<'_>) -> bool {
    let Ok(Some(names)) = certificate.subject_alternative_name() else { return false };
    names.value.general_names.iter().any(|name| match name {
        GeneralName::URI(uri) => {
            Identity::parse(uri).is_some_and(|identity| matches!(identity.holder, Holder::Admin(_)))
        }
        _ => false,
    })
}

/// What the store keeps of a token.
pub(crate) fn digest(token: &[u8]) -> [u8; TOKEN_BYTES] {
    let mut hasher = blake3::Hasher::new_derive_key(PURPOSE);
    let mut digest = [0; TOKEN_BYTES];
    hasher.update(token).finalize_xof().fill(&mut digest);
    digest
}
