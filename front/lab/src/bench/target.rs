//! The cluster that is measured: one that the benchmark started, or one that runs already.

use super::events::Events;
use super::nets::Nets;
use super::options::Measurement;
use super::temporary::{Settings, Temporary};
use crate::lies::How;
use quorate::client::{BlockingClient, Client};
use quorate_command::arguments;
use quorate_command::cluster::Cluster;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::layout::ServiceChoice;
use quorate_command::ordering::OrderChoice;
use quorate_types::ReplicaId;
use serde::Deserialize;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a cluster may take to elect a leader and answer.
const START: Duration = Duration::from_secs(20);
/// How often that is awaited: a busy machine needs longer, and between two tries a replica that has ended is found.
const TRIES: u32 = 3;
/// The most that a replica may lack while it counts as caught up, since others may use the cluster too.
const LAG_BYTES_MAX: u64 = 1 << 20;

/// A cluster and a client of it.
pub(super) struct Target {
    // Before the processes, so that it ends first.
    pub(super) client: BlockingClient,
    /// More clients, so that all instances are used: one client has one connection to one leader.
    crowd: Vec<BlockingClient>,
    /// Clients that take the place of all others, if there are any.
    many: Vec<Client>,
    pub(super) own: Option<Temporary>,
    pub(super) replicas: Vec<ReplicaId>,
    /// The processes in the order of `replicas`; empty when they are not on this machine.
    pub(super) pids: Vec<u32>,
    /// `group`, `async` or `memory`.
    pub(super) durability: String,
    /// By how much every sync is delayed, in microseconds.
    pub(super) sync_delay_us: u64,
    /// How the replicas agree. Of a running cluster only the faults that it survives are known.
    pub(super) order: OrderChoice,
    /// The processes of the oracle that was started with the cluster.
    pub(super) oracle_pids: Vec<u32>,
    /// What happens to the replicas.
    pub(super) events: Events,
}

/// The part of a replica's status that benchmarks use.
#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    signatures_checked: u64,
    log: LogStatus,
    process: Process,
    replica: u16,
    view: u64,
    /// The leader of the first instance.
    leader: Option<u16>,
    /// The other replicas, as that leader sees them.
    members: Vec<Member>,
}

#[derive(Deserialize)]
struct Member {
    replica: u16,
    lag_bytes: u64,
    active: bool,
}

#[derive(Deserialize)]
struct LogStatus {
    durability: String,
    #[serde(default)]
    sync_delay_us: u64,
}

#[derive(Deserialize)]
struct Process {
    pid: u32,
}

/// The counts of the merge in a replica's status.
#[derive(Deserialize)]
pub(super) struct Merged {
    /// Requests and batches executed.
    pub(super) requests: u64,
    pub(super) batches: u64,
    pub(super) instances: Instances,
}

#[derive(Deserialize)]
pub(super) struct Instances {
    /// The share of the global log that is empty.
    pub(super) noop_share: f64,
    each: Vec<Instance>,
}

#[derive(Deserialize)]
struct Instance {
    decided: u64,
}

impl Instances {
    /// Slots decided in all instances.
    pub(super) fn decided(&self) -> u64 {
        self.each.iter().map(|instance| instance.decided).sum()
    }
}

impl Target {
    /// Starts a cluster with this service, or connects to the one that was named.
    pub(super) fn open(measurement: &Measurement, service: ServiceChoice) -> Outcome<Self> {
        Self::configured(measurement, service, Vec::new())
    }

    /// Like [`Self::open`]; a cluster that is started gets these settings.
    pub(super) fn configured(
        measurement: &Measurement,
        service: ServiceChoice,
        settings: Settings,
    ) -> Outcome<Self> {
        Self::on(measurement, service, settings, None)
    }

    /// Starts a cluster.
    fn started(
        measurement: &Measurement,
        service: ServiceChoice,
        mut settings: Settings,
        nets: Option<&Nets>,
    ) -> Outcome<Self> {
        let (durability, sync_delay_us) = (measurement.durability(), measurement.sync_delay_us);
        if sync_delay_us > 0 {
            let value = toml::Value::Integer(i64::try_from(sync_delay_us).unwrap_or(i64::MAX));
            settings.push(("durability", "sync_delay_us", value));
        }
        let own = Temporary::start(measurement, service, &settings, nets)?;
        let mut target = Self {
            client: connect(&own.cluster)?,
            crowd: Vec::new(),
            many: Vec::new(),
            replicas: own.cluster.members.iter().map(|(replica, _)| *replica).collect(),
            pids: own.pids(),
            oracle_pids: own.oracle_pids(),
            own: Some(own),
            durability: arguments::name(durability),
            sync_delay_us,
            order: measurement.order.choice()?,
            events: Events::default(),
        };
        target.wait()?;
        Ok(target)
    }

    /// Like [`Self::configured`]; a cluster that is started has these links.
    pub(super) fn on(
        measurement: &Measurement,
        service: ServiceChoice,
        settings: Settings,
        nets: Option<&Nets>,
    ) -> Outcome<Self> {
        if measurement.own_cluster() {
            return Self::started(measurement, service, settings, nets);
        }
        let cluster = Cluster::find(&measurement.cluster)?;
        let client = connect(&cluster)?;
        let replicas: Vec<ReplicaId> = cluster.members.iter().map(|(replica, _)| *replica).collect();
        let mut durability = None;
        let mut sync_delay_us = 0;
        let mut pids = Vec::new();
        for (replica, address) in &cluster.members {
            let Ok(text) = client.status(*replica) else { continue };
            let status: Status = serde_json::from_str(&text)
                .doing(format_args!("read the status of {replica}; is it of another version?"))?;
            durability.get_or_insert(status.log.durability);
            sync_delay_us = sync_delay_us.max(status.log.sync_delay_us);
            if is_here(address, status.process.pid) {
                pids.push(status.process.pid);
            }
        }
        let durability = durability.ok_or_else(|| {
            Failure::new("no replica of that cluster answers: see `quorate status` for each of them")
        })?;
        if pids.len() < replicas.len() {
            pids.clear();
        }
        let (own, crowd) = (None, Vec::new());
        let order = OrderChoice { fault_model: cluster.fault_model, ..OrderChoice::default() };
        let mut target = Self {
            client,
            crowd,
            many: Vec::new(),
            own,
            replicas,
            pids,
            durability,
            sync_delay_us,
            order,
            oracle_pids: Vec::new(),
            events: Events::default(),
        };
        target.wait()?;
        Ok(target)
    }

    /// Makes this number of clients, at least one. Each has a connection of its own, and so an instance.
    pub(super) fn have_clients(&mut self, count: usize) -> Outcome<()> {
        let Some(cluster) = self.own.as_ref().map(|own| &own.cluster) else {
            return Err(Failure::new("only a cluster that was started for this gets several clients"));
        };
        while self.crowd.len() + 1 < count {
            self.crowd.push(connect(cluster)?);
        }
        Ok(())
    }

    /// Makes this number of clients, each with connections of its own; they share one thread.
    pub(super) fn have_crowd(&mut self, count: usize, timeout: Duration) -> Outcome<()> {
        let Some(cluster) = self.own.as_ref().map(|own| &own.cluster) else {
            return Err(Failure::new("only a cluster that was started for this gets several clients"));
        };
        self.many = cluster.client().timeout(timeout).build_many(count).doing("start the clients")?;
        Ok(())
    }

    /// Adds this number of clients, which use the links in turn.
    pub(super) fn have_clients_on(&mut self, count: usize, nets: &Nets) -> Outcome<()> {
        let Some(cluster) = self.own.as_ref().map(|own| own.cluster.clone()) else {
            return Err(Failure::new("only a cluster that was started for this has links"));
        };
        for (_, link) in (0..count).zip((0..nets.links()).cycle()) {
            let on = |(replica, _): &(ReplicaId, String)| (*replica, nets.address(replica.number(), link));
            let members = cluster.members.iter().map(on).collect();
            self.crowd.push(connect(&Cluster { members, ..cluster.clone() })?);
        }
        Ok(())
    }

    /// All clients.
    pub(super) fn clients(&self) -> impl Iterator<Item = &Client> + Clone {
        let few = std::iter::once(&self.client).chain(&self.crowd).map(BlockingClient::client);
        let none = if self.many.is_empty() { usize::MAX } else { 0 };
        self.many.iter().chain(few.take(none))
    }

    /// The counts of the merge at the first replica.
    pub(super) fn merged(&self) -> Outcome<Merged> {
        let Some(first) = self.replicas.first() else { return Err(Failure::new("there is no replica")) };
        let text = self.client.status(*first).doing("ask a replica for its status")?;
        serde_json::from_str(&text).doing("read a replica's status")
    }

    /// Signatures of clients that all replicas together checked since they started.
    pub(super) fn signatures_checked(&self) -> Outcome<u64> {
        let mut sum = 0;
        for replica in &self.replicas {
            let text = self.client.status(*replica).doing("ask a replica for its status")?;
            let status: Status = serde_json::from_str(&text).doing("read a replica's status")?;
            sum += status.signatures_checked;
        }
        Ok(sum)
    }

    /// Waits until the cluster answers and the leader replicates to every other replica: a figure for three replicas must
    /// not be one for two.
    fn wait(&mut self) -> Outcome<()> {
        let until = Instant::now() + START * TRIES;
        loop {
            self.check()?;
            let why = match self.client.open_session() {
                // A session that was just opened closes when it is dropped.
                Ok(_) if self.all_follow() => return Ok(()),
                Ok(_) => self.who_is_missing(),
                Err(why) => why.to_string(),
            };
            if Instant::now() >= until {
                return Err(Failure::new(format!("the cluster is not ready to be measured: {why}")));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether the leader says that all other replicas are connected and lack little.
    pub(super) fn all_follow(&self) -> bool {
        self.followers() + 1 == self.replicas.len()
    }

    /// How many replicas are connected and lack little, by what the leader says.
    pub(super) fn followers(&self) -> usize {
        let members = self.as_the_leader_sees_them();
        members.iter().filter(|member| member.active && member.lag_bytes <= LAG_BYTES_MAX).count()
    }

    /// The other replicas as the leader of the first instance sees them. The replica that our client follows may lead another instance.
    fn as_the_leader_sees_them(&self) -> Vec<Member> {
        let statuses = self.replicas.iter().filter_map(|replica| {
            let text = self.client.status(*replica).ok()?;
            serde_json::from_str::<Status>(&text).ok()
        });
        let leader =
            statuses.filter(|status| status.leader == Some(status.replica)).max_by_key(|status| status.view);
        leader.map(|status| status.members).unwrap_or_default()
    }

    fn who_is_missing(&self) -> String {
        let members = self.as_the_leader_sees_them();
        if members.is_empty() {
            return "no replica says that it leads".to_owned();
        }
        let others = members.iter().map(|Member { replica, lag_bytes, active }| {
            let heard = if *active { "was heard of" } else { "was not heard of" };
            format!("r{replica} {heard} and lacks {lag_bytes} bytes")
        });
        format!("the leader does not reach all replicas: {}", others.collect::<Vec<_>>().join(", "))
    }

    /// Stops a follower of the cluster that was started here, and gives its id.
    pub(super) fn take_one_away(&mut self) -> Outcome<ReplicaId> {
        let leader = self.client.client().leader();
        let at = self.replicas.iter().position(|replica| Some(*replica) != leader);
        let (Some(at), Some(own)) = (at, &mut self.own) else {
            return Err(Failure::new(
                "a replica can be taken away only from a cluster that was started for that",
            ));
        };
        own.take_away(at);
        // What it used, and what it held, is not to be found any more.
        self.pids.clear();
        Ok(self.replicas[at])
    }

    /// Lets one follower of the cluster that was started here lie from now on, and waits until it is back. Gives its id.
    pub(super) fn let_one_lie(&mut self, how: How) -> Outcome<ReplicaId> {
        let leader = self.client.client().leader();
        let at = self.replicas.iter().rposition(|replica| Some(*replica) != leader);
        let (Some(at), Some(own)) = (at, &mut self.own) else {
            return Err(Failure::new("only a replica of a cluster that was started for this lies"));
        };
        own.let_lie(at, how)?;
        self.pids = own.pids();
        self.wait()?;
        Ok(self.replicas[at])
    }

    /// The replicas that were not stopped on purpose.
    pub(super) fn here(&self) -> impl Iterator<Item = ReplicaId> {
        let is_here = |at: usize| self.own.as_ref().is_none_or(|own| own.is_here(at));
        self.replicas.iter().enumerate().filter(move |(at, _)| is_here(*at)).map(|(_, replica)| *replica)
    }

    /// The cluster that was started here.
    pub(super) fn cluster(&self) -> Option<&Cluster> {
        self.own.as_ref().map(|own| &own.cluster)
    }

    /// The addresses of the service's front.
    pub(super) fn front(&self) -> Vec<String> {
        self.own.as_ref().map(|own| own.front.clone()).unwrap_or_default()
    }

    /// Fails when a replica that was started here has ended by itself. Lets happen what is due.
    pub(super) fn check(&mut self) -> Outcome<()> {
        self.let_happen(Instant::now())?;
        self.own.as_mut().map_or(Ok(()), Temporary::check)
    }
}

/// Who leads the first instance, by the replica among these that is in the latest view.
pub(super) fn who_leads(client: &BlockingClient, replicas: &[ReplicaId]) -> Option<ReplicaId> {
    let statuses = replicas.iter().filter_map(|replica| {
        let text = client.status(*replica).ok()?;
        serde_json::from_str::<Status>(&text).ok()
    });
    let latest = statuses.max_by_key(|status| status.view)?;
    latest.leader.map(ReplicaId::new)
}

fn connect(cluster: &Cluster) -> Outcome<BlockingClient> {
    cluster
        .client()
        .timeout(START)
        .frame_bytes_max(4 << 20)
        .queue_bytes_max(256 << 20)
        .build_blocking()
        .doing("start the client")
}

/// Whether the process with this id, of a replica with this address, runs on this machine.
fn is_here(address: &str, pid: u32) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let local = host == "localhost" || host == "[::1]" || host.starts_with("127.");
    local && Path::new(&format!("/proc/{pid}")).exists()
}
