//! Makes the directory of a replica that joins: like one from `quorate init`, but with the present members.

use super::Making;
use super::view::View;
use crate::dev;
use crate::etcd;
use crate::services::read_config;
use quorate::client::TlsFiles;
use quorate_auth::Ed25519;
use quorate_command::authority::{Destination, Office};
use quorate_command::cluster::Cluster;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::layout::{
    AUTHORITY, REPLICA_FILE, SIGNING, parse_own_service, refuse_used, replica_directory,
};
use quorate_command::random;
use quorate_runtime::{Config, DataDirectory, Identity, MemberConfig, SigningConfig, SigningKey};
use quorate_tls::write_private;
use quorate_types::{Holder, Incarnation, ReplicaId};
use std::path::{Path, PathBuf};
use toml::Value;

/// The directory of a replica's certificates, inside its own.
const TLS: &str = "tls";

/// A directory that was made.
pub(super) struct Joiner {
    replica: u16,
    address: String,
    directory: PathBuf,
    pub(super) incarnation: Incarnation,
    /// Its public key, where replicas may lie.
    pub(super) key: Option<[u8; 32]>,
    signing: Option<SigningKey>,
}

impl Joiner {
    /// Makes the directory.
    ///
    /// # Errors
    /// When something that it needs is missing; then no directory is left.
    pub(super) fn make(
        cluster: &Cluster,
        view: &View,
        making: &Making,
        replica: u16,
        address: &str,
    ) -> Outcome<Self> {
        let incarnation = Incarnation::new(random::number()?);
        Self::make_with(cluster, view, making, (replica, address, incarnation))
    }

    /// Makes the directory of a learner that is a member already but never ran.
    ///
    /// # Errors
    /// Those of [`Self::make`], and when there is no such learner.
    pub(super) fn of_member(cluster: &Cluster, view: &View, making: &Making, replica: u16) -> Outcome<Self> {
        let member = view.waiting(replica)?;
        let incarnation = Incarnation::parse(&member.incarnation)
            .ok_or_else(|| Failure::new("its status is of another version of this program"))?;
        Self::make_with(cluster, view, making, (replica, &member.address, incarnation))
    }

    fn make_with(
        cluster: &Cluster,
        view: &View,
        making: &Making,
        (replica, address, incarnation): (u16, &str, Incarnation),
    ) -> Outcome<Self> {
        let directory = making.out.clone().unwrap_or_else(|| replica_directory(&cluster.directory, replica));
        refuse_used(&directory)?;
        // Keys where nothing is signed are for an era in which replicas may lie.
        let signs = cluster.fault_model.may_lie() || !cluster.keys.is_empty();
        let secret = signs.then(random::secret).transpose()?;
        let (key, signing) = (secret.map(|key| *Ed25519::public(key).bytes()), secret.map(SigningKey::new));
        let joiner = Self { replica, address: address.to_owned(), directory, incarnation, key, signing };
        joiner.fill(cluster, view, making).inspect_err(|_| joiner.discard())?;
        Ok(joiner)
    }

    fn fill(&self, cluster: &Cluster, view: &View, making: &Making) -> Outcome<()> {
        let like = making.like.clone().or_else(|| beside(&cluster.directory)).ok_or_else(|| {
            Failure::usage(format!(
                "a new replica needs the settings of the others, and there is no replica-*/{REPLICA_FILE} in {}: name the \
                 configuration of one with --like",
                cluster.directory.display()
            ))
        })?;
        let mut config = read_config(&like)?;
        let mut members: Vec<MemberConfig> = view
            .members
            .iter()
            .map(|member| MemberConfig {
                replica: member.replica,
                address: member.address.clone(),
                links: Vec::new(),
                incarnation: member.incarnation.clone(),
                key: member.key.clone(),
            })
            .collect();
        let mut membership = view.number;
        if members.iter().all(|member| member.replica != self.replica) {
            membership += 1;
            members.push(MemberConfig {
                replica: self.replica,
                address: self.address.clone(),
                links: Vec::new(),
                incarnation: self.incarnation.to_string(),
                key: self.signing.as_ref().map(SigningKey::public),
            });
        }
        (config.replica, config.members, config.listen) = (self.replica, members, None);
        config.data = PathBuf::from("data");
        (config.membership, config.created) = (membership, Some(view.created));
        for (name, front) in &mut config.front {
            let listen = self.front(name, front.get("listen").and_then(Value::as_str), making)?;
            front.extend(listen.map(|listen| ("listen".to_owned(), listen.into())));
            // It is where the other replica is reached.
            front.remove("announce");
            if name == etcd::FRONT {
                etcd::take_along(front, like.parent().unwrap_or(Path::new("")));
            }
        }
        config.health = config.health.map(|like| self.health(like, view)).transpose()?;
        config.tls = if config.plain { None } else { Some(self.certificates(cluster, making)?) };
        if let Some(key) = &self.signing {
            config.signing = Some(SigningConfig { key: PathBuf::from(SIGNING) });
            let file = self.directory.join(SIGNING);
            std::fs::create_dir_all(&self.directory)
                .doing(format_args!("make {}", self.directory.display()))?;
            write_private(&file, &key.to_text()).doing(format_args!("write {}", file.display()))?;
        }
        let identity = Identity {
            cluster: cluster.id,
            replica: self.replica,
            incarnation: self.incarnation,
            log_id: random::number()?,
            start_time_ns: view.start_time_ns,
        };
        DataDirectory::create(&self.directory.join("data"), &identity)
            .map_err(|why| Failure::new(why.to_string()))?;
        let file = self.directory.join(REPLICA_FILE);
        let text = format!(
            "# Replica {}; made by `quorate member add`. docs/configuration.md explains every key.\n{}",
            self.replica,
            config.to_toml()
        );
        std::fs::write(&file, text).doing(format_args!("write {}", file.display()))
    }

    /// Its front's address: the port of the other replicas, unless another replica uses that on the same host.
    fn front(&self, name: &str, like: Option<&str>, making: &Making) -> Outcome<Option<String>> {
        let Some((host, port)) = like.and_then(|like| like.rsplit_once(':')) else { return Ok(None) };
        if making.front.is_some() {
            return Ok(making.front.clone());
        }
        let own = self.address.rsplit_once(':').map_or(self.address.as_str(), |(host, _)| host);
        if own == host {
            return Err(Failure::usage(format!(
                "the cluster serves clients of {name}, and {own} has other replicas that do: say with --front where this one does"
            )));
        }
        Ok(Some(format!("{own}:{port}")))
    }

    /// Where it answers probes: at the port of the other replicas, unless one of them is on the same host.
    fn health(&self, like: String, view: &View) -> Outcome<String> {
        let host = |address: &str| address.rsplit_once(':').map(|(host, _)| host.to_owned());
        let others = view.members.iter().filter(|member| member.replica != self.replica);
        let is_shared = others.map(|member| host(&member.address)).any(|other| other == host(&self.address));
        match (is_shared, host(&like)) {
            (true, Some(host)) => Ok(format!("{host}:{}", dev::free_ports(1)?[0])),
            _ => Ok(like),
        }
    }

    /// Lets the authority sign its certificates; the paths are relative to its directory.
    fn certificates(&self, cluster: &Cluster, making: &Making) -> Outcome<TlsFiles> {
        let ca = making.ca.clone().unwrap_or_else(|| cluster.directory.join(AUTHORITY));
        let office = Office::open(&ca)?;
        let holder = Holder::Replica(ReplicaId::new(self.replica));
        let host = self.address.rsplit_once(':').map_or(self.address.as_str(), |(host, _)| host);
        let place = self.directory.join(TLS);
        office.issue(
            &Destination { directory: &place, name: "replica" },
            &holder,
            &[host.to_owned()],
            making.days,
        )?;
        Ok(TlsFiles {
            ca: Path::new(TLS).join("ca.pem"),
            certificate: Path::new(TLS).join("replica.pem"),
            key: Path::new(TLS).join("replica.key"),
        })
    }

    /// Removes the directory after the cluster refused the replica. Errors are ignored, since nothing uses the directory.
    pub(super) fn discard(&self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }

    /// What to do next, as text.
    pub(super) fn text(&self) -> String {
        let directory = self.directory.display();
        let config = Config::read(&self.directory.join(REPLICA_FILE)).ok();
        let own = config.and_then(|config| parse_own_service(&config.service.name).ok());
        let (what, command) = match own {
            Some(own) => {
                (format!("the program of {own} there, as PROGRAM FILE, where FILE is"), String::new())
            }
            None => ("it there:".to_owned(), "quorate serve --config ".to_owned()),
        };
        format!(
            "replica {} joins as a learner. Copy {directory} to its machine ({}) and start {what}\n  {command}{directory}/{REPLICA_FILE}",
            self.replica, self.address
        )
    }
}

/// The configuration of a replica in the cluster's directory.
fn beside(directory: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?;
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("replica-"))
        .map(|entry| entry.path().join(REPLICA_FILE))
        .filter(|file| file.exists())
        .collect();
    files.sort();
    files.into_iter().next()
}
