//! The authority of a cluster, which makes certificates.
//!
//! Keys are ECDSA on P-256, which every TLS library supports. A holder's URI names it. A replica's certificate also has the name by which
//! other replicas ask for it (`verify.rs`), and the given hosts, for programs that check those.

use crate::certificate::{Certificate, certificates_in};
use crate::verify::replica_name;
use quorate_types::{ClusterId, Holder, Identity};
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType,
};
use std::net::IpAddr;
use std::time::{Duration, SystemTime};
use time::OffsetDateTime;

/// How long before it was made a certificate becomes valid, since clocks differ.
const BEFORE: Duration = Duration::from_secs(3600);
const DAY_S: u64 = 24 * 3600;

/// Why no certificate could be made.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct IssueError(String);

impl From<rcgen::Error> for IssueError {
    fn from(why: rcgen::Error) -> Self {
        Self(why.to_string())
    }
}

/// When a certificate is valid.
#[derive(Clone, Copy, Debug)]
pub struct Validity {
    /// Start of the validity.
    pub from: SystemTime,
    /// End of the validity.
    pub until: SystemTime,
}

impl Validity {
    /// Valid from now on for a number of days.
    pub fn days(days: u32) -> Self {
        let now = SystemTime::now();
        Self { from: now - BEFORE, until: now + Duration::from_secs(DAY_S * u64::from(days)) }
    }
}

/// A certificate and its key, in PEM.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

/// The certificates of trusted authorities in one PEM text.
#[derive(Clone, Debug, Default)]
pub struct Bundle {
    /// The text.
    pub pem: String,
}

impl Bundle {
    /// Adds the certificates of another PEM text.
    pub fn add(&mut self, pem: &str) {
        if !self.pem.is_empty() && !self.pem.ends_with('\n') {
            self.pem.push('\n');
        }
        self.pem.push_str(pem);
    }
}

/// A cluster's authority, with its key.
pub struct Authority {
    cluster: ClusterId,
    issuer: Issuer<'static, KeyPair>,
    not_after: i64,
    pem: String,
}

impl Authority {
    /// Makes the key and certificate of a new authority for this cluster, in PEM; give them to [`Self::read`] to use them.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn create(cluster: ClusterId, validity: Validity) -> Result<Issued, IssueError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        // Two authorities of one cluster must have different names: a verifier looks for the signer by its name.
        let mark: String =
            key.public_key_raw().iter().skip(1).take(4).map(|byte| format!("{byte:02x}")).collect();
        let name = format!("authority {mark} since {}", date(validity.from));
        let mut params = params(cluster, &name, validity);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Ok(Issued { certificate: params.self_signed(&key)?.pem(), key: key.serialize_pem() })
    }

    /// Takes the key and certificate of an authority, in PEM.
    ///
    /// # Errors
    /// When the texts are not those of an authority.
    pub fn read(files: &Issued) -> Result<Self, IssueError> {
        let wrong = |why: &str| IssueError(why.to_owned());
        let found =
            certificates_in(files.certificate.as_bytes()).map_err(|why| IssueError(why.to_string()))?;
        let own = Certificate::decode(&found[0]).map_err(|why| IssueError(why.to_string()))?;
        if !own.is_authority {
            return Err(wrong("that certificate is no authority's"));
        }
        let cluster = own.cluster.ok_or_else(|| wrong("that authority is of no cluster"))?;
        let key = KeyPair::from_pem(&files.key)?;
        let issuer = Issuer::from_ca_cert_der(&found[0], key)?;
        Ok(Self { cluster, issuer, not_after: own.not_after, pem: files.certificate.clone() })
    }

    /// The cluster of the authority.
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// Its certificate, for those that shall trust it.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Makes a certificate with a new key for a holder. It expires with the authority at the latest.
    ///
    /// # Errors
    /// When a host is neither a name nor an address, or the system has no random numbers.
    pub fn issue(&self, holder: &Holder, hosts: &[String], validity: Validity) -> Result<Issued, IssueError> {
        let mut params = params(self.cluster, &holder.to_string(), validity);
        let end = OffsetDateTime::from_unix_timestamp(self.not_after).unwrap_or(params.not_after);
        params.not_after = params.not_after.min(end);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let identity = Identity { cluster: self.cluster, holder: holder.clone() };
        params.subject_alt_names.push(SanType::URI(text(&identity.uri())?));
        if let Holder::Replica(replica) = holder {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
            let internal = text(&replica_name(self.cluster, *replica))?;
            params.subject_alt_names.push(SanType::DnsName(internal));
        }
        for host in hosts {
            params.subject_alt_names.push(alternative(host)?);
        }
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        Ok(Issued { certificate: params.signed_by(&key, &self.issuer)?.pem(), key: key.serialize_pem() })
    }
}

fn params(cluster: ClusterId, name: &str, validity: Validity) -> CertificateParams {
    let mut params = CertificateParams::default();
    let mut subject = DistinguishedName::new();
    subject.push(DnType::OrganizationName, "Quorate");
    subject.push(DnType::OrganizationalUnitName, cluster.to_string());
    subject.push(DnType::CommonName, name);
    params.distinguished_name = subject;
    params.not_before = OffsetDateTime::from(validity.from);
    params.not_after = OffsetDateTime::from(validity.until);
    params
}

fn text(text: &str) -> Result<Ia5String, IssueError> {
    Ia5String::try_from(text).map_err(|_| IssueError(format!("{text} can not stand in a certificate")))
}

/// A host as a name or an address; addresses may also be written `[::1]` or `fe80::1%eth0`.
fn alternative(host: &str) -> Result<SanType, IssueError> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let bare = bare.split_once('%').map_or(bare, |(address, _)| address);
    match bare.parse::<IpAddr>() {
        Ok(address) => Ok(SanType::IpAddress(address)),
        Err(_) => Ok(SanType::DnsName(text(bare)?)),
    }
}

fn date(time: SystemTime) -> String {
    OffsetDateTime::from(time).date().to_string()
}
