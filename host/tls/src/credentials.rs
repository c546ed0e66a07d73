//! The credentials of one side of a connection: the authorities that it trusts, its own certificate, and the private key. They are read
//! from three files, and read again when those change.
//!
//! INV-TLS-1: credentials that do not work never replace ones that do. They do not work if the key belongs to another certificate, the
//! authority did not sign the certificate, or it is not valid at this time.

use crate::certificate::{Certificate, CertificateError, certificates_in};
use crate::verify::{Incoming, Outgoing};
use quorate_types::{ClusterId, Identity};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig, version};
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The largest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// How often files that do not fit together are read at the start, and how long to wait in between.
const TRIES: u32 = 2;
const TRY_AGAIN: Duration = Duration::from_millis(100);

/// The paths of the three files: the section `[tls]` of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// The certificates of the trusted authorities, PEM. More than one while the authority is replaced.
    pub ca: PathBuf,
    /// The certificate of this side, PEM.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
}

impl TlsFiles {
    /// The same files, with relative paths resolved in this directory.
    #[must_use]
    pub fn relative_to(&self, directory: &Path) -> Self {
        let from = |path: &PathBuf| directory.join(path);
        Self { ca: from(&self.ca), certificate: from(&self.certificate), key: from(&self.key) }
    }

    fn all(&self) -> [&Path; 3] {
        [&self.ca, &self.certificate, &self.key]
    }
}

/// Why there are no credentials. Each text says what to do.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A file can not be read.
    #[error(
        "can not read {path}: {why}. Make certificates with `quorate cert issue`, or correct the path in the section `[tls]`"
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        why: String,
    },
    /// A file does not hold what it should.
    #[error("{path} can not be used: {why}. Make a new one with `quorate cert issue`")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The files do not belong together, or are not valid at this time.
    #[error("the certificate {path} can not be used: {why}")]
    Unfit {
        /// The file of the certificate.
        path: PathBuf,
        /// What is wrong, and what to do.
        why: String,
    },
}

/// The credentials of one side.
#[derive(Clone, Debug)]
pub struct Credentials {
    identity: Identity,
    certificate: Certificate,
    /// When the first of the trusted authorities expires, in seconds since 1970.
    authority_ends: i64,
    pub(crate) server: Arc<ServerConfig>,
    pub(crate) client: Arc<ClientConfig>,
}

impl Credentials {
    /// Reads the files; checks that they belong together and are valid now.
    ///
    /// # Errors
    /// Names the file that is wrong, and what to do.
    pub fn load(files: &TlsFiles) -> Result<Self, CredentialsError> {
        let content = |path: &Path| {
            let path = path.to_owned();
            move |why: String| CredentialsError::Content { path, why }
        };
        let unfit = |why: String| CredentialsError::Unfit { path: files.certificate.clone(), why };
        let authorities = pem(&files.ca)?;
        let chain = pem(&files.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?)
            .map_err(|_| content(&files.key)("there is no private key in it".into()))?;
        let own =
            Certificate::decode(&chain[0]).map_err(|why| content(&files.certificate)(why.to_string()))?;
        let Some(identity) = own.identity.clone() else {
            return Err(unfit(format!("it is for {}; make one with `quorate cert issue`", own.holder())));
        };
        let mut roots = RootCertStore::empty();
        let mut trusted = Vec::new();
        for der in authorities {
            trusted.push(Certificate::decode(&der).map_err(|why| content(&files.ca)(why.to_string()))?);
            roots.add(der).map_err(|why| content(&files.ca)(why.to_string()))?;
        }
        let authority_ends = trusted.iter().map(|ca| ca.not_after).min().unwrap_or(i64::MAX);
        let (roots, provider) = (Arc::new(roots), Arc::new(provider()));
        let incoming = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone()).build();
        let incoming = incoming.map_err(|why| content(&files.ca)(why.to_string()))?;
        incoming
            .verify_client_cert(&chain[0], &chain[1..], UnixTime::now())
            .map_err(|why| unfit(crate::trouble::own(&why, &own, &trusted, &files.ca)))?;
        let outgoing = WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build();
        let outgoing = outgoing.map_err(|why| content(&files.ca)(why.to_string()))?;
        let versions = [&version::TLS13];
        let wrong_key =
            |why: rustls::Error| unfit(format!("it does not go with the key {}: {why}", files.key.display()));
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&versions)
            .map_err(|why| unfit(why.to_string()))?
            .with_client_cert_verifier(Arc::new(Incoming(incoming)))
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(wrong_key)?;
        // Every connection shows its certificate: one that has expired, or whose authority is not trusted any more, must not live on
        // in a resumed one.
        server.send_tls13_tickets = 0;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(|why| unfit(why.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Outgoing(outgoing)))
            .with_client_auth_cert(chain, key)
            .map_err(wrong_key)?;
        client.resumption = Resumption::disabled();
        // The name of the dialed replica is not sent in the clear.
        client.enable_sni = false;
        Ok(Self {
            identity,
            certificate: own,
            authority_ends,
            server: Arc::new(server),
            client: Arc::new(client),
        })
    }

    /// The holder of the certificate.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The cluster of the certificate.
    pub fn cluster(&self) -> ClusterId {
        self.identity.cluster
    }

    /// The certificate of this side.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Whole days until the first of the trusted authorities expires.
    pub fn authority_days_left(&self, now: SystemTime) -> i64 {
        Certificate { not_after: self.authority_ends, ..self.certificate.clone() }.days_left(now)
    }
}

/// The ciphers, the faster one first. Both sides of a connection run this code.
pub(crate) fn provider() -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites = vec![
        aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256,
        aws_lc_rs::cipher_suite::TLS13_AES_256_GCM_SHA384,
        aws_lc_rs::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ];
    provider
}

fn read(path: &Path) -> Result<Vec<u8>, CredentialsError> {
    let error = |why: String| CredentialsError::Read { path: path.to_owned(), why };
    let length = fs::metadata(path).map_err(|why| error(why.to_string()))?.len();
    if length > FILE_BYTES_MAX {
        return Err(error("it is far too large".into()));
    }
    fs::read(path).map_err(|why| error(why.to_string()))
}

fn pem(path: &Path) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
    certificates_in(&read(path)?)
        .map_err(|CertificateError(why)| CredentialsError::Content { path: path.to_owned(), why })
}

/// Changes when any of the files changes; needs no reading.
type Stamp = [Option<(u64, i64, i64, u64)>; 3];

/// Credentials whose files are checked for changes.
#[derive(Debug)]
pub struct Watched {
    files: TlsFiles,
    current: Arc<Credentials>,
    loaded: Stamp,
    /// The changed files as of the last check. They are read once they stay the same, since a key and its certificate are two files.
    seen: Stamp,
    /// Files that do not work and were reported already.
    failed: Option<Stamp>,
}

impl Watched {
    /// Reads the files.
    ///
    /// # Errors
    /// Those of [`Credentials::load`].
    pub fn load(files: TlsFiles) -> Result<Self, CredentialsError> {
        let mut tries = TRIES;
        loop {
            let stamp = stamp(&files);
            match Credentials::load(&files) {
                Ok(current) => {
                    let current = Arc::new(current);
                    return Ok(Self { files, current, loaded: stamp, seen: stamp, failed: None });
                }
                Err(why) if tries == 0 => return Err(why),
                // A key and its certificate are two files, and this may be the moment between the two.
                Err(_) => std::thread::sleep(TRY_AGAIN),
            }
            tries -= 1;
        }
    }

    /// The credentials in force.
    pub fn current(&self) -> &Arc<Credentials> {
        &self.current
    }

    /// Checks whether the files changed. If so, or if `at_once`, they are read. `Ok`: the new credentials, now in force. `Err`: why the old
    /// ones stay in force; the same failure is reported once, except with `at_once`.
    pub fn look(&mut self, at_once: bool) -> Option<Result<Arc<Credentials>, CredentialsError>> {
        let now = stamp(&self.files);
        let resting = std::mem::replace(&mut self.seen, now) == now;
        if !at_once && (now == self.loaded || !resting) {
            return None;
        }
        match Credentials::load(&self.files) {
            Ok(credentials) if credentials.identity != self.current.identity => {
                let why = format!(
                    "it is for {}, and this is {}: put the right files back",
                    credentials.identity, self.current.identity
                );
                self.keep_old(
                    now,
                    at_once,
                    CredentialsError::Unfit { path: self.files.certificate.clone(), why },
                )
            }
            Ok(credentials) => {
                let same = credentials.identity == self.current.identity;
                assert!(same, "INV-TLS-1 {} in place of {}", credentials.identity, self.current.identity);
                self.current = Arc::new(credentials);
                self.loaded = now;
                self.failed = None;
                Some(Ok(self.current.clone()))
            }
            Err(why) => self.keep_old(now, at_once, why),
        }
    }

    fn keep_old(
        &mut self,
        now: Stamp,
        at_once: bool,
        why: CredentialsError,
    ) -> Option<Result<Arc<Credentials>, CredentialsError>> {
        let said = self.failed.replace(now) == Some(now);
        (!said || at_once).then_some(Err(why))
    }
}

fn stamp(files: &TlsFiles) -> Stamp {
    files.all().map(|path| {
        let meta = fs::metadata(path).ok()?;
        Some((meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.size()))
    })
}
