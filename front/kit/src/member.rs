//! What the program passes to any front: the member that the front serves for, and the ways to that member.

use crate::backups::{self, MakeBackup};
use crate::seen::{See, Seen};
use quorate::client::{Authentication, ClientBuilder};
use quorate::{Client, ReplicaId, TlsFiles};
use quorate_runtime::{Config, FrontCalls, Newest, Running};
use quorate_types::{ClusterId, Span};

/// Says whether this member lies to clients now; for experiments.
pub type Lies = Box<dyn Fn() -> bool + Send + Sync>;

/// The member that a front serves for.
pub struct Member {
    /// Its cluster.
    pub cluster: ClusterId,
    /// Its id.
    pub replica: ReplicaId,
    /// Its certificates for clients and for other members; none where connections are plain.
    pub tls: Option<TlsFiles>,
    /// Its client of its own cluster, which reaches the leader.
    pub client: Client,
    /// Asks it for its status.
    pub see: See,
    /// The place of its newest state. None where members may lie, since one member's word is not enough there.
    pub newest: Option<Newest>,
    /// Where the front counts the calls of its clients.
    pub calls: FrontCalls,
    /// Makes backups; none if it makes none.
    pub backup: Option<MakeBackup>,
    /// Says whether to lie; none if it never lies.
    pub lies: Option<Lies>,
}

/// A front's name, and what it needs of the way to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The front's name, such as `etcd`.
    pub front: &'static str,
    /// The largest frame, in bytes: the largest request or reply of the front's protocol, with what encloses it.
    pub frame_bytes_max: u32,
    /// How long a command is tried again while the members' disks are full, before its client is told. None: as long as any call.
    pub full_patience: Option<Span>,
    /// Whether nothing that clients asked for later may be done without what came before: see `Line`.
    pub in_order: bool,
}

/// Why no front can serve for a member.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    /// The configuration names no cluster.
    #[error("{0}")]
    Config(#[from] quorate_runtime::ConfigError),
    /// The member can not be a client of its own cluster.
    #[error("this replica can not be a client of its own cluster: {0}")]
    Client(#[from] quorate::client::BuildError),
}

impl Member {
    /// The replica that runs in this process with this configuration. It never lies unless `lies` is set afterwards.
    ///
    /// # Errors
    /// When no front can serve for it.
    pub fn of(config: &Config, running: &Running, needs: Needs) -> Result<Self, MemberError> {
        let asker = running.asker();
        let place = config.data.join(format!("{}-backup", needs.front));
        Ok(Self {
            cluster: config.cluster_id()?,
            replica: ReplicaId::new(config.replica),
            tls: config.tls.clone(),
            client: client(config, needs)?,
            newest: (!config.fault_model.may_lie()).then(|| running.newest()),
            calls: running.calls(),
            see: Box::new(move || asker.ask().map(|status| Seen::of(&status))),
            backup: Some(backups::of_member(config, running, &place)?),
            lies: None,
        })
    }
}

fn client(config: &Config, needs: Needs) -> Result<Client, MemberError> {
    let members =
        config.members.iter().map(|member| (ReplicaId::new(member.replica), member.address.clone()));
    let builder = Client::builder().members(members).cluster(config.cluster_id()?);
    let builder = builder.fault_model(config.fault_model).frame_bytes_max(needs.frame_bytes_max);
    let builder = config.faults.into_iter().fold(builder, ClientBuilder::faults);
    let mut builder = builder.configure(|config| {
        (config.full_patience, config.in_order) = (needs.full_patience, needs.in_order);
    });
    if config.sessions.require_signed {
        builder = builder.authentication(Authentication::Signatures);
    }
    if let Some(tls) = &config.tls {
        builder = builder.tls(tls.clone());
    }
    Ok(builder.build()?)
}
