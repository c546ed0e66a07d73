//! Errors with certificates, as texts with a remedy.

use crate::certificate::Certificate;
use quorate_types::{ClusterId, Holder};
use rustls::{AlertDescription, CertificateError, Error};
use std::fmt;
use std::path::Path;

/// Why a connection could not be made safe, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The error as text.
    pub text: String,
    /// The other side does not speak TLS, so the error may be sent to it in plain text.
    pub plain: bool,
}

impl Trouble {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), plain: false }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Trouble {}

/// Whether these are the first bytes of a TLS handshake.
pub fn looks_like_tls(first: &[u8]) -> bool {
    matches!(first, [0x16, 0x03, ..])
}

/// The other side does not speak TLS. `dialed`: this side made the connection.
pub(crate) fn no_tls(dialed: bool) -> Trouble {
    let text = if dialed {
        "what answers there speaks no TLS: that replica runs with `plain = true`, or is something else. Give it certificates \
         (`quorate cert issue`), or set `plain = true` on this side, too, if the network between them is safe"
    } else {
        "whoever connected speaks no TLS, and this replica takes nothing else: give that side its certificates (the section \
         `[tls]` of its client.toml or replica.toml; `quorate cert issue` makes them)"
    };
    Trouble { text: text.to_owned(), plain: true }
}

/// The other side speaks TLS, but this replica runs without.
pub fn unexpected_tls() -> Trouble {
    let text = "whoever connected speaks TLS, and this replica runs with `plain = true`: give this replica certificates \
                (`quorate cert issue`) and remove that line, or set `plain = true` on that side, too, if the network between them \
                is safe";
    Trouble { text: text.to_owned(), plain: true }
}

/// The text for an error. `claim`: the holder that a refused certificate of the other side names.
pub(crate) fn explain(error: &Error, claim: Option<String>, dialed: bool, shaking: bool) -> Trouble {
    let who = match &claim {
        Some(claim) => format!("a certificate that says {claim} is refused"),
        None => "its certificate is refused".to_owned(),
    };
    match error {
        Error::InvalidCertificate(why) => Trouble::new(format!("{who}: {}", refused(why))),
        Error::NoCertificatesPresented => Trouble::new(
            "whoever connected has no certificate: name one in the section `[tls]` of its client.toml or replica.toml \
             (`quorate cert issue` makes it)",
        ),
        Error::AlertReceived(alert) => Trouble::new(format!("the other side {}", told(*alert))),
        Error::PeerIncompatible(why) => Trouble::new(format!(
            "the other side speaks TLS, but not as this program does ({why:?}): both need TLS 1.3; use the same version of this \
             program on both sides"
        )),
        Error::InvalidMessage(_) if shaking => no_tls(dialed),
        other => Trouble::new(format!(
            "the connection is not safe: {other}. If it stays so, something between the two changes what they send"
        )),
    }
}

/// The text for a certificate of this side that does not pass with this side's own authorities, which the file `ca` holds.
pub(crate) fn own(error: &Error, own: &Certificate, trusted: &[Certificate], ca: &Path) -> String {
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            of_another_authority(own, trusted, ca)
        }
        other => explain(other, None, true, true).text,
    }
}

/// Which of two it is: another cluster, or an authority that was replaced.
fn of_another_authority(own: &Certificate, trusted: &[Certificate], ca: &Path) -> String {
    let ca = ca.display();
    let flag = match own.identity.as_ref().map(|identity| &identity.holder) {
        Some(Holder::Replica(replica)) => format!("--replica {}", replica.number()),
        Some(Holder::Client(name)) => format!("--client {name}"),
        Some(Holder::Admin(name)) => format!("--admin {name}"),
        None => "--replica N".to_owned(),
    };
    let clusters: Vec<ClusterId> = trusted.iter().filter_map(|authority| authority.cluster).collect();
    match (own.cluster, clusters.first()) {
        (Some(cluster), Some(first)) if !clusters.contains(&cluster) => format!(
            "it is for {}, and {ca} is of another cluster, {first}. Make it anew with the authority of the cluster that this should be part of: \
             `quorate cert issue --ca DIR/ca {flag} --out DIR`, where --out is the directory of these files",
            own.holder()
        ),
        _ => format!(
            "it is for {}, and the authority that signed it is not among those in {ca}. That authority was replaced, and one of the two \
             files was not: write both anew with `quorate cert issue --ca DIR/ca {flag} --out DIR`, where DIR/ca is the directory of the \
             authority and --out the one of these files",
            own.holder()
        ),
    }
}

fn refused(why: &CertificateError) -> String {
    match why {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => "the authority that signed it is not among those that this side trusts. Either it \
             belongs to another cluster, or the authority was replaced and this side's `ca` file does not have the new one \
             yet; compare both with `quorate cert show`"
            .to_owned(),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "it has expired. Renew it (`quorate cert renew`); if it was renewed, correct the clocks of both machines".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet. Correct the clocks of both machines".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is not the replica that was dialed. Correct the addresses in the configuration, or start the right replica there"
                .to_owned()
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "it is for another purpose: a replica needs a replica's certificate (`quorate cert issue --replica`)".to_owned()
        }
        other => format!("{other:?}. Make a new one with `quorate cert issue`"),
    }
}

/// The text for an alert that the other side sent before it closed the connection.
fn told(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::UnknownCA => "does not trust the authority that signed this side's certificate. Either this side \
             belongs to another cluster, or the authority was replaced and the other side's `ca` file does not have the new one \
             yet; compare both with `quorate cert show`"
            .to_owned(),
        AlertDescription::CertificateExpired => "says that this side's certificate has expired or is not valid yet. Renew it \
             (`quorate cert renew`), or correct the clocks of both machines"
            .to_owned(),
        AlertDescription::CertificateRequired => {
            "asks for a certificate, and this side has none: name one in the section `[tls]`".to_owned()
        }
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::DecryptError => format!(
            "refuses this side's certificate ({alert:?}); its log says why. Look at it with `quorate cert show`, and make a new \
             one with `quorate cert issue` if it is for another role"
        ),
        other => format!("refuses the connection ({other:?}); its log says why"),
    }
}
