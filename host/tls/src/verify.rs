//! Whose certificates are taken. The checks are the TLS library's own; around them stands only what notes whom a certificate
//! that was turned down says it is, since people need that to find out whose it is.

use crate::certificate::Certificate;
use quorate_types::{ClusterId, ReplicaId};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    /// Who the certificate that was turned down last says it is, which nobody vouches for. A handshake's step runs on one
    /// thread, and whoever makes it takes this before the next.
    static CLAIM: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Who the certificate that was turned down in the step before says it is.
pub(crate) fn take_claim() -> Option<String> {
    CLAIM.take()
}

fn note(certificate: &CertificateDer<'_>) {
    let claim = Certificate::decode(certificate).map(|certificate| certificate.holder());
    CLAIM.set(claim.ok());
}

/// The name under which a replica's certificate is asked for: it says which replica of which cluster is meant, wherever it runs,
/// so that replicas can move without new certificates. No network knows it.
pub(crate) fn replica_name(cluster: ClusterId, replica: ReplicaId) -> String {
    format!("replica-{}.{cluster}.quorate", replica.number())
}

/// Checks those who connect.
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

/// Checks those whom this side dials.
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
