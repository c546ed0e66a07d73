//! `client.toml`: the addresses of a cluster, and its clients' certificates. `quorate init` writes it, docs/configuration.md explains it.

use super::{Authentication, ClientBuilder};
use quorate_tls::TlsFiles;
use quorate_types::{ClusterId, FaultModel, ReplicaId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};

/// The contents of a `client.toml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFile {
    /// The cluster.
    pub cluster: ClusterId,
    /// Its replicas and their addresses.
    pub members: Vec<(ReplicaId, String)>,
    /// The faults that its replicas may have; it decides how many equal answers are believed.
    pub fault_model: FaultModel,
    /// How many replicas may be faulty, if the cluster is configured for fewer than its members allow.
    pub faults: Option<u32>,
    /// Whether the votes of some replicas count more: their configuration has `heavy`. A read that is not ordered then asks more of them.
    pub weighted: bool,
    /// How requests prove which client sent them.
    pub authentication: Authentication,
    /// The certificates; `None` where connections are plain.
    pub tls: Option<ClientFiles>,
}

/// The files of a client's certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFiles {
    /// The client's own.
    pub client: TlsFiles,
    /// An operator's, if this machine has them.
    pub admin: Option<TlsFiles>,
}

/// Why a `client.toml` can not be used.
#[derive(Clone, Debug)]
pub struct ClientFileError(String);

impl fmt::Display for ClientFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ClientFileError {}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    cluster: String,
    #[serde(default, skip_serializing_if = "is_crash")]
    fault_model: FaultModel,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    faults: Option<u32>,
    #[serde(default, skip_serializing_if = "is_false")]
    weighted: bool,
    #[serde(default, skip_serializing_if = "is_links")]
    authentication: Authentication,
    #[serde(default, skip_serializing_if = "is_false")]
    plain: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tls: Option<TlsText>,
    members: Vec<MemberText>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TlsText {
    ca: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    admin_certificate: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    admin_key: Option<PathBuf>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MemberText {
    replica: u16,
    address: String,
}

fn is_crash(model: &FaultModel) -> bool {
    !model.may_lie() && model.visigoth().is_none()
}

fn is_links(authentication: &Authentication) -> bool {
    *authentication == Authentication::Links
}

fn is_false(value: &bool) -> bool {
    !value
}

impl ClientFile {
    /// Reads a file. Relative paths in it begin in its directory.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn read(path: &Path) -> Result<Self, ClientFileError> {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|why| ClientFileError(format!("can not read {shown}: {why}")))?;
        Self::parse(&text, path.parent().unwrap_or(Path::new("")))
            .map_err(|why| ClientFileError(format!("{shown} is not usable: {why}")))
    }

    fn parse(text: &str, directory: &Path) -> Result<Self, String> {
        let text: Text = toml::from_str(text).map_err(|why| why.to_string())?;
        let cluster = ClusterId::parse(&text.cluster).ok_or("cluster: an id has 32 hexadecimal digits")?;
        if text.members.is_empty() {
            return Err("members: there are none".into());
        }
        let tls = match (text.tls, text.plain) {
            (Some(tls), false) => Some(ClientFiles::of(tls, directory)),
            (None, true) => None,
            (Some(_), true) => {
                return Err("plain: with `plain = true` the certificates in `[tls]` are not used: remove one of the two".into());
            }
            (None, false) => {
                return Err("tls: there are no certificates: name them in the section `[tls]` (`quorate cert issue` makes them), or \
                     write `plain = true` if the replicas run so, too"
                    .into());
            }
        };
        let members = text.members.into_iter().map(|member| (ReplicaId::new(member.replica), member.address));
        let Text { fault_model, faults, weighted, authentication, .. } = text;
        if !fault_model.may_lie() && authentication != Authentication::Links {
            return Err("authentication: where no replica lies nobody checks it: leave it out".into());
        }
        if let Some(numbers) = fault_model.visigoth() {
            if faults.is_some() {
                return Err(
                    "faults: with fault_model \"visigoth\" the number of faults is u: leave it out".into()
                );
            }
            numbers.check_members(members.len() as u32).map_err(|why| format!("members: {why}"))?;
        }
        Ok(Self { cluster, members: members.collect(), fault_model, faults, weighted, authentication, tls })
    }

    /// The text of the file.
    pub fn to_toml(&self) -> String {
        let member = |(replica, address): &(ReplicaId, String)| MemberText {
            replica: replica.number(),
            address: address.clone(),
        };
        let tls = self.tls.clone().map(|ClientFiles { client, admin }| TlsText {
            ca: client.ca,
            certificate: client.certificate,
            key: client.key,
            admin_certificate: admin.clone().map(|admin| admin.certificate),
            admin_key: admin.map(|admin| admin.key),
        });
        let text = Text {
            cluster: self.cluster.to_string(),
            fault_model: self.fault_model,
            faults: self.faults,
            weighted: self.weighted,
            authentication: self.authentication,
            plain: tls.is_none(),
            tls,
            members: self.members.iter().map(member).collect(),
        };
        // Strings and lists of them can always be written.
        let text = toml::to_string(&text).unwrap_or_default();
        format!(
            "# Where the cluster is, for clients: `quorate --config` and QUORATE_CONFIG name this file.\n{text}"
        )
    }

    /// Describes a client of this cluster with these certificates.
    pub fn builder(&self) -> ClientBuilder {
        let builder = ClientBuilder::default().members(self.members.clone()).cluster(self.cluster);
        let builder = builder.fault_model(self.fault_model).authentication(self.authentication);
        let builder = self.faults.into_iter().fold(builder, ClientBuilder::faults);
        let builder = if self.weighted { builder.weighted() } else { builder };
        let Some(tls) = &self.tls else { return builder };
        let builder = builder.tls(tls.client.clone());
        match tls.for_operators() {
            Some(admin) => builder.admin_tls(admin.clone()),
            None => builder,
        }
    }
}

impl ClientFiles {
    fn of(text: TlsText, directory: &Path) -> Self {
        let client = TlsFiles { ca: text.ca.clone(), certificate: text.certificate, key: text.key };
        let admin = text.admin_certificate.zip(text.admin_key);
        let admin = admin.map(|(certificate, key)| TlsFiles { ca: text.ca, certificate, key });
        Self { client: client.relative_to(directory), admin: admin.map(|admin| admin.relative_to(directory)) }
    }

    /// The same files, with relative paths resolved in this directory.
    #[must_use]
    pub fn relative_to(&self, directory: &Path) -> Self {
        let admin = self.admin.as_ref().map(|admin| admin.relative_to(directory));
        Self { client: self.client.relative_to(directory), admin }
    }

    /// The operator's certificates, if their files exist.
    pub fn for_operators(&self) -> Option<&TlsFiles> {
        self.admin.as_ref().filter(|admin| admin.certificate.exists() && admin.key.exists())
    }
}

#[cfg(test)]
mod tests;
