//! The ports that a replica listens on besides its own: for clients of other protocols, and for probes.

use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout::ServiceChoice;
use std::collections::BTreeMap;

/// The port on which replicas listen, where each has an address of its own.
pub(super) const PORT: u16 = 7000;
/// The usual port of ZooKeeper's admin server.
const ADMIN_PORT: u16 = 8080;

/// A port for clients: a key of a front's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Front {
    /// The front.
    pub(super) table: &'static str,
    /// The key with its address.
    pub(super) key: &'static str,
    /// Its name: at most 15 characters, as Kubernetes wants it.
    pub(super) name: &'static str,
    usual: u16,
}

/// Those of this program.
pub(super) const FRONTS: [Front; 3] = [
    Front { table: "etcd", key: "listen", name: "etcd", usual: usual(ServiceChoice::Etcd) },
    Front { table: "zookeeper", key: "listen", name: "zookeeper", usual: usual(ServiceChoice::Zookeeper) },
    Front { table: "zookeeper", key: "admin", name: "zookeeper-admin", usual: ADMIN_PORT },
];

const fn usual(service: ServiceChoice) -> u16 {
    match service.front() {
        Some((_, port)) => port,
        None => 0,
    }
}

impl Front {
    /// The first port, where `wanted` is the one for clients.
    pub(super) fn port(self, wanted: Option<u16>) -> u16 {
        wanted.filter(|_| self.key == "listen").unwrap_or(self.usual)
    }
}

/// Where a replica listens, and what for; all addresses of a deployment.
#[derive(Default)]
pub(super) struct Taken(BTreeMap<(String, u16), String>);

impl Taken {
    /// Takes a port of a machine, for what it is named.
    ///
    /// # Errors
    /// When something else has it.
    pub(super) fn take(&mut self, host: &str, port: u16, what: String) -> Outcome<()> {
        match self.0.insert((host.to_owned(), port), what.clone()) {
            None => Ok(()),
            Some(other) => Err(Failure::usage(format!(
                "the port {port} of {host} is wanted by {other} and by {what}: name others with --members, --front-port or --health-port"
            ))),
        }
    }
}
