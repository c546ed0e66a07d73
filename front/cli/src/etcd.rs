//! What `serve` does for clients of etcd: the service, and the front that speaks their protocol.

use crate::backup;
use quorate::Client;
use quorate::client::{Authentication, ClientFiles};
use quorate_command::cluster::Cluster;
use quorate_command::failure::{Failure, Outcome};
use quorate_etcd::{Etcd, EtcdConfig};
use quorate_etcd_grpc::saved::MakeBackup;
use quorate_etcd_grpc::{Front, FrontConfig, Hub, Running, Seen, SeenMember, TokenConfig};
use quorate_execute::{InStore, Service};
use quorate_lab::lies::{How, Told};
use quorate_runtime::{Config, EtcdTokens, NodeStatus};
use quorate_types::{ReplicaId, Span};
use std::path::PathBuf;

/// The largest frame of the front: a request of etcd's size and what is around it.
const FRAME_BYTES_MAX: u32 = 3 << 20;
/// Clients of etcd are told so early that the disks are full. A leader whose own disk is the only full one has handed over by then.
const FULL_PATIENCE: Span = Span::from_millis(500);

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
    lies: Option<Told>,
) -> Outcome<Option<Running>> {
    let Some(listen) = config.etcd.clone() else { return Ok(None) };
    backup::discard(&backups(config));
    let cluster = config.cluster_id().map_err(|why| Failure::usage(why.to_string()))?;
    let asker = replica.asker();
    let tokens = config.etcd_tokens.as_ref().map(tokens).transpose()?;
    let front = FrontConfig {
        listen,
        tls: config.tls.clone(),
        cluster,
        replica: ReplicaId::new(config.replica),
        client: client(config)?,
        hub,
        lies: lies.map(|told| Box::new(move || told.is(How::Replies)) as Box<_>),
        tokens,
        backup: Some(make_backup(config, replica)?),
        seen: Box::new(move || asker.ask().map(|status| seen(&status))),
    };
    Front::start(front).map(Some).map_err(|why| Failure::new(why.to_string()))
}

/// The key with which members sign tokens.
fn tokens(config: &EtcdTokens) -> Outcome<TokenConfig> {
    let key = std::fs::read(&config.key).map_err(|why| {
        Failure::usage(format!("etcd_tokens: the key {} can not be read: {why}", config.key.display()))
    })?;
    let ttl = std::time::Duration::from_secs(config.ttl_s);
    Ok(TokenConfig { method: config.sign_method.clone(), key, ttl })
}

/// Where backups are made for clients of etcd.
fn backups(config: &Config) -> PathBuf {
    config.data.join("etcd-backup")
}

/// Makes backups as an operator does, of the members of that moment.
fn make_backup(config: &Config, replica: &quorate_runtime::Running) -> Outcome<MakeBackup> {
    let asker = replica.asker();
    let directory = backups(config);
    let id = config.cluster_id().map_err(|why| Failure::usage(why.to_string()))?;
    let fault_model = config.fault_model;
    let tls = config.tls.clone().map(|client| ClientFiles { client, admin: None });
    let make = move || {
        let members = asker.ask().map(|status| status.membership.members).unwrap_or_default();
        let voters = members.into_iter().filter(|member| member.role == "voter");
        let members = voters.map(|member| (ReplicaId::new(member.replica), member.address));
        let (members, tls, directory) = (members.collect(), tls.clone(), directory.clone());
        // It asks as an operator only.
        let authentication = Authentication::Links;
        let cluster = Cluster { id, members, fault_model, authentication, tls, directory };
        backup::unnamed(&cluster, &cluster.directory).map_err(|why| why.to_string())
    };
    Ok(Box::new(make))
}

/// The replica as a client of its own cluster: it reaches whoever leads.
fn client(config: &Config) -> Outcome<Client> {
    let members =
        config.members.iter().map(|member| (ReplicaId::new(member.replica), member.address.clone()));
    let cluster = config.cluster_id().map_err(|why| Failure::usage(why.to_string()))?;
    let builder = Client::builder().members(members).cluster(cluster).fault_model(config.fault_model);
    let builder = builder.configure(|config| config.full_patience = Some(FULL_PATIENCE));
    let mut builder = builder.frame_bytes_max(FRAME_BYTES_MAX);
    if config.sessions.require_signed {
        builder = builder.authentication(Authentication::Signatures);
    }
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
        caught_up: member.caught_up,
    });
    let membership = &status.membership;
    Seen {
        view: status.view,
        leader: status.leader,
        decided: status.decided,
        executed: status.executed,
        membership: membership.number,
        is_changing: membership.changing_to.is_some(),
        members: members.collect(),
        used: membership.used.iter().copied().collect(),
        full: status.log.full.clone(),
    }
}
