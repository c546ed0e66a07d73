//! TLS for clients of a front: the front shows the replica's own certificate, and a client must show one of the same authority.
//!
//! Files that changed are read again at the next connection. Tests: with real clients, `front/cli/tests/all/etcd.rs`.

use quorate::TlsFiles;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, version};
use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime};
use tokio_rustls::TlsAcceptor;

/// How often the files are checked, at most.
const LOOK: std::time::Duration = std::time::Duration::from_secs(1);

/// Encrypts and authenticates connections.
#[derive(Clone)]
pub(crate) struct Tls {
    front: &'static str,
    files: TlsFiles,
    /// The protocols that are offered, the best first.
    protocols: &'static [&'static [u8]],
    current: Arc<Mutex<Current>>,
}

struct Current {
    config: Arc<ServerConfig>,
    read: Vec<Option<SystemTime>>,
    looked: Instant,
}

impl Tls {
    pub(crate) fn load(
        front: &'static str,
        files: TlsFiles,
        protocols: &'static [&'static [u8]],
    ) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let (read, config) = (times(&files), config(&files, protocols)?);
        let current = Arc::new(Mutex::new(Current { config, read, looked: Instant::now() }));
        Ok(Self { front, files, protocols, current })
    }

    /// The acceptor for the next connection.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.looked.elapsed() > LOOK {
            current.looked = Instant::now();
            let now = times(&self.files);
            if now != current.read {
                // Certificates that do not work never replace ones that do.
                match config(&self.files, self.protocols) {
                    Ok(config) => (current.config, current.read) = (config, now),
                    Err(why) => {
                        let front = self.front;
                        tracing::warn!("the certificates for clients of {front} stay as they were: {why}");
                    }
                }
            }
        }
        TlsAcceptor::from(current.config.clone())
    }
}

fn times(files: &TlsFiles) -> Vec<Option<SystemTime>> {
    let time = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    [&files.ca, &files.certificate, &files.key].map(|path| time(path)).to_vec()
}

fn config(files: &TlsFiles, protocols: &[&[u8]]) -> Result<Arc<ServerConfig>, Box<dyn Error + Send + Sync>> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let certificates =
        |path: &Path| CertificateDer::pem_file_iter(path).and_then(|all| all.collect::<Result<Vec<_>, _>>());
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&files.ca)? {
        roots.add(certificate)?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build()?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates(&files.certificate)?, PrivateKeyDer::from_pem_file(&files.key)?)?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(Arc::new(config))
}
