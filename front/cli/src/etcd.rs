//! What `serve` does for clients of etcd: the service, and the front that speaks their protocol.

use crate::failure::{Failure, Outcome};
use quorate::Client;
use quorate_etcd::{Etcd, EtcdConfig};
use quorate_etcd_grpc::{Front, FrontConfig, Hub, Running, Seen, SeenMember};
use quorate_execute::{InStore, Service};
use quorate_runtime::{Config, NodeStatus};
use quorate_types::ReplicaId;

/// The largest frame of the front: a request of etcd's size and what is around it.
const FRAME_BYTES_MAX: u32 = 3 << 20;

/// The store, which tells the hub what it executes.
pub(crate) fn service(hub: &Hub) -> Box<dyn Service> {
    Box::new(InStore::new(Etcd::new(EtcdConfig::default()).observed(Box::new(hub.clone()))))
}

/// The front, if the configuration wants one.
///
/// # Errors
/// When it can not listen.
pub(crate) fn front(
    config: &Config,
    replica: &quorate_runtime::Running,
    hub: Hub,
) -> Outcome<Option<Running>> {
    let Some(listen) = config.etcd.clone() else { return Ok(None) };
    let cluster = config.cluster_id().map_err(|why| Failure::usage(why.to_string()))?;
    let asker = replica.asker();
    let front = FrontConfig {
        listen,
        tls: config.tls.clone(),
        cluster,
        replica: ReplicaId::new(config.replica),
        client: client(config)?,
        hub,
        seen: Box::new(move || asker.ask().map(|status| seen(&status))),
    };
    Front::start(front).map(Some).map_err(|why| Failure::new(why.to_string()))
}

/// The replica as a client of its own cluster: it reaches whoever leads.
fn client(config: &Config) -> Outcome<Client> {
    let members =
        config.members.iter().map(|member| (ReplicaId::new(member.replica), member.address.clone()));
    let cluster = config.cluster_id().map_err(|why| Failure::usage(why.to_string()))?;
    let mut builder = Client::builder().members(members).cluster(cluster).frame_bytes_max(FRAME_BYTES_MAX);
    if let Some(tls) = &config.tls {
        builder = builder.tls(tls.clone());
    }
    builder.build().map_err(|why| Failure::new(format!("clients of etcd can not be served: {why}")))
}

fn seen(status: &NodeStatus) -> Seen {
    let members = status.membership.members.iter().map(|member| SeenMember {
        replica: member.replica,
        address: member.address.clone(),
        learner: member.role == "learner",
    });
    Seen {
        view: status.view,
        leader: status.leader,
        decided: status.decided,
        executed: status.executed,
        members: members.collect(),
    }
}
