//! Whom the certificate names that a client shows. Its authority is the cluster's, which signs for no other one.

use quorate_types::{Holder, Identity};
use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

/// What a client showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The name in its certificate (the subject's common name); none where there is none, or no certificate.
    pub name: Option<String>,
    /// Whether the certificate is one of an operator of the cluster.
    pub is_operator: bool,
}

impl Shown {
    /// What this certificate says.
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return Self::default() };
        let name = certificate.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
        Self { name: name.map(str::to_owned), is_operator: is_operator(&certificate) }
    }
}

fn is_operator(certificate: &X509Certificate<'_>) -> bool {
    let Ok(Some(names)) = certificate.subject_alternative_name() else { return false };
    names.value.general_names.iter().any(|name| match name {
        GeneralName::URI(uri) => {
            Identity::parse(uri).is_some_and(|identity| matches!(identity.holder, Holder::Admin(_)))
        }
        _ => false,
    })
}
