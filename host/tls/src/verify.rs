//! Decides which certificates are accepted. The checks are the TLS library's own. This module only notes the holder that a refused
//! certificate names, since people need that to find its owner.

use crate::certificate::Certificate;
use quorate_types::{ClusterId, ReplicaId};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    /// The holder that the last refused certificate names, unverified. A step of a handshake runs on one thread, and its caller takes this
    /// before the next step.
    static CLAIM: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The holder that a certificate refused in the last step names.
pub(crate) fn take_claim() -> Option<String> {
    CLAIM.take()
}

fn note(certificate: &CertificateDer<'_>) {
    let claim = Certificate::decode(certificate).map(|certificate| certificate.holder());
    CLAIM.set(claim.ok());
}

/// The name by which a replica's certificate is asked for: the replica and its cluster, wherever it runs. So replicas can move without new
/// certificates. The name is unknown to DNS.
pub(crate) fn replica_name(cluster: ClusterId, replica: ReplicaId) -> String {
    format!("replica-{}.{cluster}.quorate", replica.number())
}

/// Checks the certificates of those that connect.
#[derive(Debug)]
pub(crate) struct Incoming(pub(crate) Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Incoming {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.0.verify_client_cert(end_entity, intermediates, now);
        verified.inspect_err(|_| note(end_entity))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Checks the certificates of those that this side dials.
#[derive(Debug)]
pub(crate) struct Outgoing(pub(crate) Arc<dyn ServerCertVerifier>);

impl ServerCertVerifier for Outgoing {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        verified.inspect_err(|_| note(end_entity))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
