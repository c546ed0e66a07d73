//! `client.toml`: the addresses of a cluster, and its clients' certificates. `quorate init` writes it, docs/configuration.md explains it.

use super::{Authentication, ClientBuilder};
use quorate_auth::PublicKey;
use quorate_tls::TlsFiles;
use quorate_types::{ClusterId, FaultModel, Faults, MembershipId, ReplicaId};
use quorate_wire::{Member, MemberRole, Membership};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// The contents of a `client.toml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFile {
    /// The cluster.
    pub cluster: ClusterId,
    /// Its replicas and their addresses.
    pub members: Vec<(ReplicaId, String)>,
    /// Those of them that do not vote.
    pub learners: Vec<ReplicaId>,
    /// Where replicas may lie: the number of the membership that these members are. With the keys it is where a client begins that follows
    /// the chain of memberships.
    pub membership: Option<MembershipId>,
    /// The public keys of members' signatures, as far as the file has them.
    pub keys: BTreeMap<ReplicaId, [u8; 32]>,
    /// The number of the era that this is about, from 1. A client follows the cluster to later ones.
    pub era: u64,
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
    #[serde(default = "first", skip_serializing_if = "is_first")]
    era: u64,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    membership: Option<u64>,
    members: Vec<MemberText>,
}

const fn first() -> u64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_first(era: &u64) -> bool {
    *era == 1
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
    #[serde(default, skip_serializing_if = "is_false")]
    learner: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

fn read_key(text: &str) -> Option<[u8; 32]> {
    let digits = text.len() == 64 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate().filter(|_| digits) {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    // A key of small order is none.
    PublicKey::new(bytes).ok().filter(|_| digits).map(|key| *key.bytes())
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

/// The public keys of those members that have one there.
fn read_keys(members: &[MemberText]) -> Result<BTreeMap<ReplicaId, [u8; 32]>, String> {
    let mut keys = BTreeMap::new();
    for MemberText { replica, key, .. } in members {
        if let Some(key) = key {
            let key = read_key(key).ok_or(format!(
                "members: the key of replica {replica} is none: a public key has 64 hexadecimal digits"
            ))?;
            keys.insert(ReplicaId::new(*replica), key);
        }
    }
    Ok(keys)
}

/// The number of the membership that the file names, if it has one, and these keys.
fn read_membership(
    text: &Text,
    keys: &BTreeMap<ReplicaId, [u8; 32]>,
) -> Result<Option<MembershipId>, String> {
    let Some(number) = text.membership else { return Ok(None) };
    if !text.fault_model.may_lie() || keys.len() != text.members.len() {
        return Err("membership: a number stands only where replicas may lie, and beside a key of each member: leave it out, or take a \
                    client.toml that has both (`quorate member history` writes one)"
            .into());
    }
    if text.weighted {
        return Err("membership: where the votes of some replicas count more, no chain leads to later memberships: leave it out, and clients \
                    follow what f+1 of the members tell"
            .into());
    }
    Ok(Some(MembershipId::new(number)))
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
        let keys = read_keys(&text.members)?;
        let membership = read_membership(&text, &keys)?;
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
        let learners = text.members.iter().filter(|member| member.learner);
        let learners: Vec<ReplicaId> = learners.map(|member| ReplicaId::new(member.replica)).collect();
        if learners.len() == text.members.len() {
            return Err("members: none of them votes".into());
        }
        let members = text.members.into_iter().map(|member| (ReplicaId::new(member.replica), member.address));
        let Text { fault_model, faults, weighted, authentication, era, .. } = text;
        if era == 0 {
            return Err("era: they are counted from 1".into());
        }
        if !fault_model.may_lie() && authentication != Authentication::Links {
            return Err("authentication: where no replica lies nobody checks it: leave it out".into());
        }
        if let Some(numbers) = fault_model.visigoth() {
            if faults.is_some() {
                return Err(
                    "faults: with fault_model \"visigoth\" the number of faults is u: leave it out".into()
                );
            }
            numbers
                .check_members((members.len() - learners.len()) as u32)
                .map_err(|why| format!("members: {why}"))?;
        }
        let members = members.collect();
        let file = Self {
            cluster,
            members,
            learners,
            membership,
            keys,
            era,
            fault_model,
            faults,
            weighted,
            authentication,
            tls,
        };
        match file.membership.is_some() && file.known().is_none() {
            true => {
                Err("membership: these members are none: each has an id of its own, and one of them votes"
                    .into())
            }
            false => Ok(file),
        }
    }

    /// The text of the file.
    pub fn to_toml(&self) -> String {
        let member = |(replica, address): &(ReplicaId, String)| MemberText {
            replica: replica.number(),
            address: address.clone(),
            learner: self.learners.contains(replica),
            key: self.keys.get(replica).map(Self::write_key),
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
            era: self.era,
            fault_model: self.fault_model,
            faults: self.faults,
            weighted: self.weighted,
            authentication: self.authentication,
            plain: tls.is_none(),
            tls,
            membership: self.known().map(|known| known.number().number()),
            members: self.members.iter().map(member).collect(),
        };
        // Strings and lists of them can always be written.
        let text = toml::to_string(&text).unwrap_or_default();
        format!(
            "# Where the cluster is, for clients: `quorate --config` and QUORATE_CONFIG name this file.\n{text}"
        )
    }

    /// A public key in the form in which configuration files name it: 64 hexadecimal digits. `None` if it is none.
    pub fn parse_key(text: &str) -> Option<[u8; 32]> {
        read_key(text)
    }

    fn write_key(key: &[u8; 32]) -> String {
        key.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The faults that the cluster is made for.
    pub fn faults_of_cluster(&self) -> Faults {
        let faults = Faults::of(self.fault_model);
        let faults = self.faults.map_or(faults, |most| faults.at_most(most));
        if self.weighted { faults.weighted() } else { faults }
    }

    /// The membership from which a client begins that follows the chain of memberships; `None` if the number or the key of a member is not
    /// known.
    pub fn known(&self) -> Option<Membership> {
        let member = |(replica, address): &(ReplicaId, String)| {
            let key = Some(*self.keys.get(replica)?);
            let learns = self.learners.contains(replica);
            let bare = if learns { Member::learner(*replica) } else { Member::voter(*replica) };
            Some(Member { address: address.clone(), key, ..bare })
        };
        let members = self.members.iter().map(member).collect::<Option<Vec<_>>>()?;
        Membership::new(self.membership?, members).ok()
    }

    /// The members are those of this membership from now on. Addresses that it does not name stay.
    pub fn have(&mut self, membership: &Membership) {
        let before = std::mem::take(&mut self.members);
        let address = |member: &Member| match member.address.is_empty() {
            false => member.address.clone(),
            true => {
                let named = before.iter().find(|(replica, _)| *replica == member.replica);
                named.map(|(_, address)| address.clone()).unwrap_or_default()
            }
        };
        let members = membership.members();
        self.members = members.iter().map(|member| (member.replica, address(member))).collect();
        let learners = members.iter().filter(|member| member.role == MemberRole::Learner);
        self.learners = learners.map(|member| member.replica).collect();
        self.keys = members.iter().filter_map(|member| Some((member.replica, member.key?))).collect();
        self.membership = Some(membership.number());
    }

    /// Describes a client of this cluster with these certificates.
    pub fn builder(&self) -> ClientBuilder {
        let builder = ClientBuilder::default().members(self.members.clone()).cluster(self.cluster);
        let builder = builder.learners(self.learners.clone()).known(self.known());
        let builder = builder.era(self.era).fault_model(self.fault_model).authentication(self.authentication);
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
