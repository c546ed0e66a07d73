//! The holder of a client's certificate. The cluster's own authority signed it, which signs for no other cluster.

use quorate_types::{Holder, Identity};
use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

/// The holder of a client's certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The name in the certificate (the subject's common name); none without such a name or without a certificate.
    pub name: Option<String>,
    /// Whether the holder is an operator of the cluster.
    pub is_operator: bool,
}

impl Shown {
    /// The holder of this certificate.
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
