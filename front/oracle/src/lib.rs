//! The oracle of a cluster in which few replicas are slow, at a service elsewhere (docs/protocols/visigoth.md).
//!
//! Each kind of service has a file: `own` another Quorate cluster, which runs `service`, `etcd`, `zookeeper`. A register is a key
//! there, whose version is the service's own. Only `service` knows the rule, as is needed where replicas may lie.
//!
//! Tests: tests/all; fuzzing/tests.rs.

mod etcd;
pub mod fuzzing;
mod own;
mod service;
mod zookeeper;

pub use service::Registers;

use quorate_runtime::{Oracle, OracleConfig};
use std::time::Duration;

/// How long a service may take for an answer. The protocol asks again.
const PATIENCE: Duration = Duration::from_secs(1);

/// The oracle that `[oracle]` names, if it names one. Nothing is connected yet: a service that is away now may come later.
///
/// # Errors
/// What is wrong with the files that it names.
pub fn of(config: &OracleConfig) -> Result<Option<Box<dyn Oracle>>, String> {
    Ok(Some(match config {
        OracleConfig::Quorate { cluster, client } => Box::new(own::Own::new(cluster, client)?),
        OracleConfig::Etcd { endpoints, tls } => Box::new(etcd::Etcd::new(endpoints, tls.as_ref())?),
        OracleConfig::Zookeeper { servers } => Box::new(zookeeper::ZooKeeper::new(servers)),
        OracleConfig::None { .. } => return Ok(None),
    }))
}

/// Asks one server after the other, beginning with the one that answered last; `at` is that one's place.
fn one_of<T>(
    servers: &[String],
    at: &mut usize,
    mut ask: impl FnMut(&str) -> Result<T, String>,
) -> Result<T, String> {
    let mut failed = Vec::new();
    for _ in 0..servers.len() {
        let server = &servers[*at % servers.len()];
        match ask(server) {
            Ok(answer) => return Ok(answer),
            Err(why) => failed.push(format!("{server}: {why}")),
        }
        *at = (*at + 1) % servers.len();
    }
    Err(failed.join("; "))
}
