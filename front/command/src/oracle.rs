//! The oracle of a new cluster in which few replicas are slow: the argument of `init` and `backup restore`.

use crate::failure::{Failure, Outcome};
use quorate::client::ClientFile;
use quorate_runtime::{NEEDS_THE_RULE, OracleConfig};
use quorate_types::FaultModel;
use std::path::{Path, PathBuf};
use std::str::FromStr;

#[cfg(test)]
mod tests;

/// The option for it.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct OracleArgs {
    /// With visigoth faults and s below u: the service that decides between halves of the replicas. Another Quorate cluster by its
    /// client.toml, an etcd or a ZooKeeper by addresses: quorate:FILE, etcd:HOST:PORT,... or zookeeper:HOST:PORT,...
    #[arg(long, value_name = "KIND:WHERE")]
    oracle: Option<OracleWord>,
}

/// An oracle, on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OracleWord {
    Quorate(PathBuf),
    Etcd(Vec<String>),
    Zookeeper(Vec<String>),
}

impl FromStr for OracleWord {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let usual = "write quorate:FILE, etcd:HOST:PORT,... or zookeeper:HOST:PORT,...";
        let (kind, place) = word.split_once(':').filter(|(_, place)| !place.is_empty()).ok_or(usual)?;
        let addresses = || place.split(',').map(|address| address.trim().to_owned()).collect();
        match kind {
            "quorate" => Ok(Self::Quorate(place.into())),
            "etcd" => Ok(Self::Etcd(addresses())),
            "zookeeper" => Ok(Self::Zookeeper(addresses())),
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
