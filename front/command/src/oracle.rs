//! The oracle of a new cluster in which few replicas are slow: the argument of `init` and `backup restore`, and an oracle of its own for a
//! cluster on one machine.

use crate::cluster::CLIENT_FILE;
use crate::execution::ExecutionChoice;
use crate::failure::{Failure, Outcome};
use crate::layout::{self, DurabilityChoice, Plan, ServiceChoice};
use crate::ordering::OrderChoice;
use quorate::client::ClientFile;
use quorate_runtime::{NEEDS_AN_ORACLE, NEEDS_THE_RULE, OracleConfig};
use quorate_types::FaultModel;
use std::path::{Path, PathBuf};
use std::str::FromStr;

#[cfg(test)]
mod tests;

/// The option for it.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct OracleArgs {
    /// With visigoth faults and s below u: the service that decides between halves of the replicas. Another Quorate cluster by its
    /// client.toml, an etcd or a ZooKeeper by addresses: quorate:FILE, etcd:HOST:PORT,... or zookeeper:HOST:PORT,... With o = 0 a cluster
    /// can do without: none:WHY, and if ever more than s replicas are slow, it splits, and both parts acknowledge writes
    #[arg(long, value_name = "KIND:WHERE")]
    oracle: Option<OracleWord>,
}

/// An oracle, on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OracleWord {
    Quorate(PathBuf),
    Etcd(Vec<String>),
    Zookeeper(Vec<String>),
    None(String),
}

impl FromStr for OracleWord {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let usual = "write quorate:FILE, etcd:HOST:PORT,..., zookeeper:HOST:PORT,..., or none:WHY";
        let (kind, place) = word.split_once(':').filter(|(_, place)| !place.is_empty()).ok_or(usual)?;
        let addresses = || place.split(',').map(|address| address.trim().to_owned()).collect();
        match kind {
            "quorate" => Ok(Self::Quorate(place.into())),
            "etcd" => Ok(Self::Etcd(addresses())),
            "zookeeper" => Ok(Self::Zookeeper(addresses())),
            "none" => Ok(Self::None(place.to_owned())),
            other => Err(format!("there is no oracle of the kind {other:?}: {usual}")),
        }
    }
}

impl OracleArgs {
    /// The oracle for a cluster with this fault model.
    ///
    /// # Errors
    /// When it needs one and none is named, or the other way around, or the file of a client can not be used.
    pub fn of(self, model: FaultModel) -> Outcome<Option<OracleConfig>> {
        match self.oracle {
            None if model.few_are_slow() => Err(Failure::usage(
                "with s below u two halves of the replicas could each take the other for stopped: name a service that decides between them \
                 with --oracle, or give --faults an s as large as u",
            )),
            Some(_) if !model.few_are_slow() => Err(Failure::usage(
                "only --fault-model visigoth with s below u asks an oracle: leave --oracle out",
            )),
            Some(OracleWord::Etcd(_) | OracleWord::Zookeeper(_)) if model.may_lie() => {
                Err(Failure::usage(NEEDS_THE_RULE))
            }
            Some(OracleWord::None(_)) if model.may_lie() => Err(Failure::usage(NEEDS_AN_ORACLE)),
            Some(OracleWord::None(because)) => Ok(Some(OracleConfig::None { because })),
            None => Ok(None),
            Some(OracleWord::Quorate(file)) => quorate(&file).map(Some),
            Some(OracleWord::Etcd(endpoints)) => Ok(Some(OracleConfig::Etcd { endpoints, tls: None })),
            Some(OracleWord::Zookeeper(servers)) => Ok(Some(OracleConfig::Zookeeper { servers })),
        }
    }
}

/// The cluster of this `client.toml` as the oracle. Each replica needs the file at this place.
fn quorate(file: &Path) -> Outcome<OracleConfig> {
    let read = ClientFile::read(file).map_err(|why| Failure::usage(why.to_string()))?;
    let client = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    Ok(OracleConfig::Quorate { cluster: read.cluster.to_string(), client })
}

/// The directory of a cluster's own oracle, in the directory of that cluster.
pub const OWN: &str = "oracle";
/// How many replicas it has: as many as survive one that stops.
pub const OWN_REPLICAS: u16 = 3;

/// An oracle that is made together with a cluster, on the same machine.
pub struct Own {
    /// The addresses of its replicas; [`OWN_REPLICAS`] of them.
    pub addresses: Vec<String>,
    /// When a write counts as durable.
    pub durability: DurabilityChoice,
    /// How long certificates are valid, in days; `None`: connections are plain.
    pub certificates: Option<u32>,
    /// The command that makes it, for the first line of the files.
    pub made_by: &'static str,
}

/// Makes the cluster that decides between halves of the replicas of the cluster in `path`. Gives the configuration for those replicas, whose
/// directories are in `path`, too.
///
/// # Errors
/// Those of [`layout::make`].
pub fn make_own(path: &Path, own: Own) -> Outcome<OracleConfig> {
    let plan = Plan {
        members: (1..=OWN_REPLICAS).zip(own.addresses).collect(),
        durability: own.durability,
        service: ServiceChoice::Oracle,
        own_service: None,
        service_level: 1,
        front: Vec::new(),
        front_plain: false,
        health: Vec::new(),
        instances: 1,
        lanes: 1,
        execution: ExecutionChoice::default(),
        pillars: None,
        placement: None,
        order: OrderChoice::default(),
        oracle: None,
        certificates: own.certificates,
        signing: false,
        made_by: own.made_by,
    };
    let cluster = layout::make(&path.join(OWN), &plan)?;
    let client = Path::new("..").join(OWN).join(CLIENT_FILE);
    Ok(OracleConfig::Quorate { cluster: cluster.id.to_string(), client })
}
