//! Decodes certificates. The bytes may come from anybody: all are checked, and nothing is trusted before it is verified.

use quorate_types::{ClusterId, Holder, Identity};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use std::fmt::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

const DAY: Duration = Duration::from_secs(24 * 3600);
/// The largest certificate that is decoded, in bytes.
const BYTES_MAX: usize = 64 << 10;
/// The most names of one certificate that are kept.
const NAMES_MAX: usize = 64;

/// Why bytes are no certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateError(pub(crate) String);

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CertificateError {}

/// The contents of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The holder that it names, if it is a replica, client or operator of a cluster.
    pub identity: Option<Identity>,
    /// Other hosts and addresses in it.
    pub hosts: Vec<String>,
    /// The start of its validity, in seconds since 1970.
    pub not_before: i64,
    /// The end of its validity, in seconds since 1970.
    pub not_after: i64,
    /// Its serial number, in hexadecimal digits.
    pub serial: String,
    /// Its subject, as text.
    pub subject: String,
    /// The authority that signed it, as text.
    pub issuer: String,
    /// Whether it may sign other certificates.
    pub is_authority: bool,
    /// The cluster that it belongs to.
    pub cluster: Option<ClusterId>,
}

impl Certificate {
    /// Decodes the DER form.
    ///
    /// # Errors
    /// When the bytes are no certificate, or name two holders.
    pub fn decode(der: &[u8]) -> Result<Self, CertificateError> {
        let wrong = |what: &str| CertificateError(what.to_owned());
        if der.len() > BYTES_MAX {
            return Err(wrong("it is too large to be a certificate"));
        }
        let (rest, x509) = X509Certificate::from_der(der).map_err(|_| wrong("it is no certificate"))?;
        if !rest.is_empty() {
            return Err(wrong("something follows the certificate"));
        }
        let mut identity = None;
        let mut hosts = Vec::new();
        let names = x509.subject_alternative_name().map_err(|_| wrong("its names can not be read"))?;
        for name in names.iter().flat_map(|names| &names.value.general_names) {
            match name {
                GeneralName::URI(uri) => match Identity::parse(uri) {
                    Some(found) if identity.is_none() => identity = Some(found),
                    Some(_) => return Err(wrong("it names two holders")),
                    None => {}
                },
                GeneralName::DNSName(host) if hosts.len() < NAMES_MAX => hosts.push((*host).to_owned()),
                GeneralName::IPAddress(bytes) if hosts.len() < NAMES_MAX => hosts.extend(address(bytes)),
                _ => {}
            }
        }
        let is_authority = matches!(x509.basic_constraints(), Ok(Some(constraints)) if constraints.value.ca);
        let unit = x509.subject().iter_organizational_unit().next().and_then(|unit| unit.as_str().ok());
        let cluster = identity.as_ref().map(|identity| identity.cluster);
        Ok(Self {
            cluster: cluster.or(unit.and_then(ClusterId::parse)),
            identity,
            hosts,
            not_before: x509.validity().not_before.timestamp(),
            not_after: x509.validity().not_after.timestamp(),
            serial: x509.raw_serial().iter().fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            }),
            subject: x509.subject().to_string(),
            issuer: x509.issuer().to_string(),
            is_authority,
        })
    }

    /// Whole days until it is no longer valid; negative afterwards.
    pub fn days_left(&self, now: SystemTime) -> i64 {
        self.not_after.saturating_sub(seconds(now)).div_euclid(DAY.as_secs() as i64)
    }

    /// The holder as text.
    pub fn holder(&self) -> String {
        match &self.identity {
            Some(identity) => identity.to_string(),
            None => format!("\"{}\", which is no replica, client or admin of a cluster", self.subject),
        }
    }

    /// The hosts that were asked for when it was made, without the name of the replica itself.
    pub fn own_hosts(&self) -> Vec<String> {
        let internal = match &self.identity {
            Some(Identity { cluster, holder: Holder::Replica(replica) }) => {
                crate::verify::replica_name(*cluster, *replica)
            }
            _ => String::new(),
        };
        self.hosts.iter().filter(|host| **host != internal).cloned().collect()
    }
}

/// Seconds since 1970, as certificates count time.
pub(crate) fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    i64::try_from(since).unwrap_or(i64::MAX)
}

fn address(bytes: &[u8]) -> Option<String> {
    let address = match (<[u8; 4]>::try_from(bytes), <[u8; 16]>::try_from(bytes)) {
        (Ok(v4), _) => IpAddr::from(Ipv4Addr::from(v4)),
        (_, Ok(v6)) => IpAddr::from(Ipv6Addr::from(v6)),
        _ => return None,
    };
    Some(address.to_string())
}

/// The certificates in a PEM text, in order.
///
/// # Errors
/// When a part of the text is damaged, or it has no certificate.
pub fn certificates_in(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|why| CertificateError(format!("it is no PEM file: {why}")))?;
    if found.is_empty() {
        return Err(CertificateError("there is no certificate in it".into()));
    }
    Ok(found)
}
