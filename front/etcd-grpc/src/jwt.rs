//! Tokens that a member signs and every member can check (JSON Web Tokens), with etcd's claims: the user's name, the revision of users and
//! roles, and the time at which the token ends. The store does not keep them.
//!
//! Source: the needed parts of RFC 7515, 7518 and 7519. The method is the configured one, and a token must name the same. The store
//! compares the revision: a token from before a change of users or roles is worth nothing. Tests: `jwt/tests.rs`, `tests/all/auth.rs`.

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPair as RsaKeyPair;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED,
    ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384,
    RSA_PKCS1_SHA512, RsaEncoding, UnparsedPublicKey, VerificationAlgorithm,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[cfg(test)]
mod tests;

/// The longest token that is checked.
const BYTES_MAX: usize = 4 << 10;

/// Signs and checks tokens.
pub(crate) struct Jwt {
    method: String,
    key: Key,
    ttl: Duration,
}

enum Key {
    Rsa(Box<RsaKeyPair>, &'static dyn RsaEncoding, &'static dyn VerificationAlgorithm),
    Ec(Box<EcdsaKeyPair>, &'static dyn VerificationAlgorithm),
    Secret(Box<hmac::Key>),
}

/// The claims of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claims {
    pub(crate) name: String,
    pub(crate) revision: u64,
}

impl Jwt {
    /// Makes it from the method and the contents of the key's file.
    ///
    /// # Errors
    /// When the method is unknown or the key does not fit it.
    pub(crate) fn new(method: &str, file: &[u8], ttl: Duration) -> Result<Self, String> {
        let key = match method {
            "RS256" => rsa(file, &RSA_PKCS1_SHA256, &RSA_PKCS1_2048_8192_SHA256)?,
            "RS384" => rsa(file, &RSA_PKCS1_SHA384, &RSA_PKCS1_2048_8192_SHA384)?,
            "RS512" => rsa(file, &RSA_PKCS1_SHA512, &RSA_PKCS1_2048_8192_SHA512)?,
            "ES256" => ec(file, &ECDSA_P256_SHA256_FIXED_SIGNING, &ECDSA_P256_SHA256_FIXED)?,
            "ES384" => ec(file, &ECDSA_P384_SHA384_FIXED_SIGNING, &ECDSA_P384_SHA384_FIXED)?,
            "HS256" => secret(file, hmac::HMAC_SHA256)?,
            "HS384" => secret(file, hmac::HMAC_SHA384)?,
            "HS512" => secret(file, hmac::HMAC_SHA512)?,
            other => {
                return Err(format!(
                    "there is no sign_method {other}: RS256, RS384, RS512, ES256, ES384, HS256, HS384 or HS512"
                ));
            }
        };
        Ok(Self { method: method.to_owned(), key, ttl })
    }

    /// A token for a user; `None` if the system has no random numbers.
    pub(crate) fn sign(&self, claims: &Claims) -> Option<String> {
        let head = json!({ "alg": self.method, "typ": "JWT" });
        let end = now().checked_add(self.ttl.as_secs())?;
        let body = json!({ "username": claims.name, "revision": claims.revision, "exp": end });
        let text = format!("{}.{}", encode(head.to_string()), encode(body.to_string()));
        let signature = self.key.sign(text.as_bytes())?;
        Some(format!("{text}.{}", encode(signature)))
    }

    /// The claims of a token that was signed with this key and has not ended.
    pub(crate) fn check(&self, token: &[u8]) -> Option<Claims> {
        let token = std::str::from_utf8(token).ok().filter(|token| token.len() <= BYTES_MAX)?;
        let (text, signature) = token.rsplit_once('.')?;
        let (head, body) = text.split_once('.')?;
        // Nothing of it is read before it is known to be ours.
        if !self.key.fits(text.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).ok()?) {
            return None;
        }
        let (head, body) = (decode(head)?, decode(body)?);
        let is_current = head["alg"] == self.method.as_str() && body["exp"].as_u64()? > now();
        let claims =
            Claims { name: body["username"].as_str()?.to_owned(), revision: body["revision"].as_u64()? };
        is_current.then_some(claims)
    }
}

impl Key {
    fn sign(&self, text: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(pair, encoding, _) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(*encoding, &random, text, &mut signature).ok().map(|()| signature)
            }
            Self::Ec(pair, _) => pair.sign(&random, text).ok().map(|signature| signature.as_ref().to_vec()),
            Self::Secret(key) => Some(hmac::sign(key, text).as_ref().to_vec()),
        }
    }

    fn fits(&self, text: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Rsa(pair, _, how) => {
                UnparsedPublicKey::new(*how, pair.public_key()).verify(text, signature).is_ok()
            }
            Self::Ec(pair, how) => {
                UnparsedPublicKey::new(*how, pair.public_key()).verify(text, signature).is_ok()
            }
            Self::Secret(key) => hmac::verify(key, text, signature).is_ok(),
        }
    }
}

fn rsa(
    file: &[u8],
    encoding: &'static dyn RsaEncoding,
    how: &'static dyn VerificationAlgorithm,
) -> Result<Key, String> {
    let pair = match private(file)? {
        PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
        PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
        _ => return Err("that is no key for RSA".into()),
    };
    pair.map(|pair| Key::Rsa(Box::new(pair), encoding, how)).map_err(|why| format!("no key for RSA: {why}"))
}

fn ec(
    file: &[u8],
    algorithm: &'static aws_lc_rs::signature::EcdsaSigningAlgorithm,
    how: &'static dyn VerificationAlgorithm,
) -> Result<Key, String> {
    let pair = match private(file)? {
        PrivateKeyDer::Pkcs8(der) => EcdsaKeyPair::from_pkcs8(algorithm, der.secret_pkcs8_der()),
        PrivateKeyDer::Sec1(der) => EcdsaKeyPair::from_private_key_der(algorithm, der.secret_sec1_der()),
        _ => return Err("that is no key for ECDSA".into()),
    };
    pair.map(|pair| Key::Ec(Box::new(pair), how)).map_err(|why| format!("no key for ECDSA: {why}"))
}

/// The shortest secret; whoever guesses it can make tokens.
const SECRET_BYTES_MIN: usize = 32;

fn secret(file: &[u8], algorithm: hmac::Algorithm) -> Result<Key, String> {
    if file.len() < SECRET_BYTES_MIN {
        return Err(format!("the secret has {} bytes; it needs {SECRET_BYTES_MIN} at least", file.len()));
    }
    Ok(Key::Secret(Box::new(hmac::Key::new(algorithm, file))))
}

fn private(file: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(file).map_err(|why| format!("there is no private key in PEM: {why}"))
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn decode(text: &str) -> Option<Value> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()
}

/// Seconds since 1970 by this machine's clock, as in etcd.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
