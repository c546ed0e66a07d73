//! The front: one thread with an event loop, on which the server, its connections and its clocks are.

use crate::members::{Members, Wanted};
use crate::outbox::Outbox;
use crate::secrets::{self, Real};
use crate::settings::{Reads, ZooKeeperSettings};
use crate::{admin, connection};
use bytes::Bytes;
use quorate_kit::{
    Calls, Command, Connection, Line, Listen, Listener, Look, Member, Operator, OwnCluster, Running, Seen,
    StartError, Together,
};
use quorate_runtime::{Newest, NewestReader};
use quorate_types::{ReplicaId, Span, Time};
use quorate_zookeeper::feed::Feed;
use quorate_zookeeper::server::{
    Admin, Around, ConnId, Now, Output, REQUEST_KINDS, Role, SaslUsers, Server, ServerConfig,
};
use quorate_zookeeper::tree::Id;
use serde_json::Value;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::{Notify, oneshot, watch};

/// Connections at once.
const CONNECTIONS_MAX: usize = 50_000;
/// The most requests of one connection that wait at once, and the most bytes.
const WAITING_MAX: (usize, usize) = (1000, 4 << 20);

/// All questions are the same: how far the cluster is. One answer is one for all that wait.
const SAME: Together =
    Together { join: |queries| queries[0].clone(), split: |answer, count| vec![answer.clone(); count] };

/// The configuration of the front.
pub struct FrontConfig {
    /// What the replica's configuration says.
    pub settings: ZooKeeperSettings,
    /// ZooKeeper's unit of time, in milliseconds, as the service has it.
    pub tick_ms: u64,
    /// The replica that the front works for.
    pub member: Member,
    /// Where its newest state is.
    pub newest: Newest,
    /// What its service tells.
    pub feed: Feed,
    /// The directory of the replica's files, for the word `dirs`.
    pub data: PathBuf,
    /// Whether clients may change the members.
    pub may_reconfigure: bool,
}

/// Starts fronts.
pub struct Front;

impl Front {
    /// Listens, and serves clients on a thread of its own.
    ///
    /// # Errors
    /// When it can not listen, or can not read the file of users.
    pub fn start(config: FrontConfig) -> Result<Running, StartError> {
        let users = config.settings.users()?;
        let listen = Listen {
            front: "zookeeper",
            address: config.settings.listen.clone(),
            tls: config.member.tls.clone(),
            plain_too: config.settings.plain,
            protocols: &[],
            connections_max: CONNECTIONS_MAX,
            helpers: 1,
        };
        let (tell_admin, told) = oneshot::channel();
        let admin = config.settings.admin.clone();
        let admin = admin.map(|address| admin::start(&listen, address, told)).transpose()?;
        listen.start(async move |listener: Listener| {
            // It ends with the front.
            let _admin = admin;
            let most = config.settings.connections_per_address;
            let shared = Shared::start(config, users);
            let _ = tell_admin.send(shared.clone());
            let addresses = Addresses::new(most);
            let serve = move |Connection { stream, shown, peer }| {
                let (shared, addresses) = (shared.clone(), addresses.clone());
                async move {
                    let ip = peer.ip().to_canonical();
                    let Some(_place) = addresses.enter(ip) else { return };
                    let mut ids = vec![Id { scheme: b"ip".into(), id: ip.to_string().into() }];
                    ids.extend(shown.name.map(|name| Id { scheme: b"x509".into(), id: name.into() }));
                    connection::serve(shared, stream, peer, ids).await;
                }
            };
            listener.each(serve).await;
        })
    }
}

/// How many connections each address has.
#[derive(Clone)]
struct Addresses {
    most: u32,
    now: Arc<Mutex<HashMap<IpAddr, u32>>>,
}

/// A connection of an address, while it lasts.
struct Place {
    of: Addresses,
    ip: IpAddr,
}

impl Addresses {
    fn new(most: u32) -> Self {
        Self { most, now: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, u32>> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more connection; none if the address has too many.
    fn enter(&self, ip: IpAddr) -> Option<Place> {
        let mut all = self.lock();
        let now = all.entry(ip).or_default();
        if self.most > 0 && *now >= self.most {
            tracing::debug!("{ip} has {now} connections to zookeeper already: one more is refused");
            return None;
        }
        *now += 1;
        Some(Place { of: self.clone(), ip })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.of.lock();
        if let Some(now) = all.get_mut(&self.ip) {
            *now -= 1;
            if *now == 0 {
                all.remove(&self.ip);
            }
        }
    }
}

/// The bytes of all files below a directory; of what can not be read, none.
fn bytes_below(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)));
    sizes.map(|(path, about)| if about.is_dir() { bytes_below(&path) } else { about.len() }).sum()
}

/// A connection's ends here.
#[derive(Clone, Default)]
struct End {
    outbox: Arc<Outbox>,
    /// Its commands, one behind the other.
    line: Line,
    peer: Option<SocketAddr>,
    /// Whether it has TLS.
    is_safe: bool,
}

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) frame_bytes: usize,
    settings: ZooKeeperSettings,
    tick_ms: u64,
    replica: ReplicaId,
    data: PathBuf,
    look: Look,
    cluster: OwnCluster,
    /// The same, for what the server says of itself.
    words: OwnCluster,
    pub(crate) members: Members,
    server: Mutex<Server>,
    ends: Mutex<(ConnId, HashMap<ConnId, End>)>,
    calls: Arc<Calls>,
    started: Instant,
}

impl Shared {
    /// Must be called on the front's event loop.
    fn start(config: FrontConfig, sasl_users: SaslUsers) -> Arc<Self> {
        let FrontConfig { settings, tick_ms, member, newest, feed, data, may_reconfigure } = config;
        let mut life = [0; 8];
        secrets::fill(&mut life);
        let server = ServerConfig {
            server: i64::from_be_bytes(life),
            tick: Span::from_millis(tick_ms),
            timeout_ms: settings.timeouts_ms(tick_ms),
            waiting_max: WAITING_MAX,
            super_digest: settings.super_digest.clone().map(String::into_bytes),
            sasl_users,
            linearizable: settings.reads == Reads::Linearizable,
            may_reconfigure,
            read_only: settings.read_only,
        };
        let look = Look::start(member.see);
        let who = (member.cluster, member.replica);
        let words = OwnCluster::start(member.client.clone(), member.replica, None);
        let members = Members {
            cluster: member.cluster,
            replica: member.replica,
            settings: settings.clone(),
            look: look.clone(),
            operator: Operator::new("zookeeper", who, member.tls, look.clone()),
            words: words.clone(),
            said: watch::Sender::new(false),
            wanted: Wanted::default(),
        };
        let shared = Arc::new(Self {
            frame_bytes: settings.frame_bytes as usize,
            settings,
            tick_ms,
            data,
            replica: member.replica,
            look,
            words,
            members: members.clone(),
            cluster: OwnCluster::start(member.client, member.replica, Some(SAME)),
            server: Mutex::new(Server::new(server, Box::new(Real))),
            ends: Mutex::default(),
            calls: member.calls.of("zookeeper", REQUEST_KINDS),
            started: Instant::now(),
        });
        feed.listen();
        tokio::spawn(shared.clone().follow(newest, feed));
        tokio::spawn(members.always());
        tokio::spawn(shared.clone().watch_the_clock(Duration::from_millis(tick_ms)));
        shared
    }

    fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let passed = self.started.elapsed().as_nanos() as u64;
        Now { time: Time::from_nanos(passed), wall_ms: wall.as_millis() as i64 }
    }

    /// Adopts what the replica publishes.
    async fn follow(self: Arc<Self>, newest: Newest, feed: Feed) {
        let changed = Arc::new(Notify::new());
        let wakes = changed.clone();
        let reader: NewestReader = newest.read_and_wake(Arc::new(move || wakes.notify_one()));
        loop {
            // The version first: everything up to it was told before it was published.
            let version = reader.newest();
            let heard = feed.take();
            self.input(|server, now| server.turn(heard, version.as_ref(), now));
            changed.notified().await;
        }
    }

    async fn watch_the_clock(self: Arc<Self>, tick: Duration) {
        loop {
            tokio::time::sleep(tick / 6).await;
            self.input(|server, now| server.tick(now));
            let took = self.lock().took();
            took.into_iter().enumerate().for_each(|(kind, took)| self.calls.all(kind, took));
            if self.settings.read_only
                && let Some(seen) = self.look.now().await
            {
                self.input(|server, now| server.led(seen.leader.is_some(), now));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the server an input, and does what follows.
    fn input(self: &Arc<Self>, input: impl FnOnce(&mut Server, Now)) {
        let outputs = {
            let mut server = self.lock();
            input(&mut server, self.now());
            server.take_outputs()
        };
        outputs.into_iter().for_each(|output| self.perform(output));
    }

    fn ends(&self) -> MutexGuard<'_, (ConnId, HashMap<ConnId, End>)> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, conn: ConnId) -> Option<End> {
        self.ends().1.get(&conn).cloned()
    }

    fn perform(self: &Arc<Self>, output: Output) {
        match output {
            Output::Send { conn, frame } => {
                if let Some(end) = self.ends().1.get(&conn) {
                    end.outbox.push(&frame);
                }
            }
            Output::Close { conn } => {
                if let Some(end) = self.end(conn) {
                    end.outbox.end();
                }
            }
            Output::Resume { conn } => {
                if let Some(end) = self.end(conn) {
                    end.outbox.look();
                }
            }
            Output::Order { token, conn, alone, command } => {
                let line = conn.and_then(|conn| self.end(conn)).map(|end| end.line);
                // What keeps all sessions alive does not wait behind what clients send.
                let cluster = if conn.is_some() { &self.cluster } else { &self.words };
                let asked = cluster.begin(Command { line, alone, ..Command::new(command) });
                let shared = self.clone();
                tokio::spawn(async move {
                    let answer = asked.await.ok();
                    shared.input(|server, now| server.ordered(token, answer, now));
                });
            }
            Output::Reconfigure { token, change } => {
                let shared = self.clone();
                tokio::spawn(async move {
                    let done = shared.members.change(&change).await;
                    shared.input(|server, now| server.reconfigured(token, done, now));
                });
            }
            Output::Ask { token, query } => {
                let shared = self.clone();
                tokio::spawn(async move {
                    let answer: Option<Bytes> = shared.cluster.read(query).await.ok();
                    shared.input(|server, now| server.asked(token, answer, now));
                });
            }
        }
    }
}

/// For connections.
impl Shared {
    pub(crate) fn connected(
        self: &Arc<Self>,
        peer: SocketAddr,
        is_safe: bool,
        ids: Vec<Id>,
    ) -> (ConnId, Arc<Outbox>) {
        let end = End { peer: Some(peer), is_safe, ..End::default() };
        let id = {
            let mut ends = self.ends();
            ends.0 += 1;
            let id = ends.0;
            ends.1.insert(id, end.clone());
            id
        };
        self.input(|server, now| server.connected(id, ids, now));
        (id, end.outbox)
    }

    pub(crate) fn closed(self: &Arc<Self>, conn: ConnId) {
        self.ends().1.remove(&conn);
        self.input(|server, _| server.closed(conn));
    }

    pub(crate) fn received(self: &Arc<Self>, conn: ConnId, frame: Bytes) {
        self.input(|server, now| server.received(conn, frame, now));
    }

    /// Answers a four-letter word, and ends the connection.
    pub(crate) fn word(self: &Arc<Self>, conn: ConnId, word: [u8; 4]) {
        let shared = self.clone();
        tokio::spawn(async move {
            let name = String::from_utf8_lossy(&word).into_owned();
            let around = shared.look_around(&word == b"dirs").await;
            let mut answer = None;
            if shared.settings.answers(&name) {
                // The connection itself is none of those that it asks about.
                shared.input(|server, now| {
                    server.closed(conn);
                    answer = server.word(word, &around, now);
                });
            }
            let refused = || format!("{name} is not executed because it is not in the whitelist.\n");
            if let Some(end) = shared.end(conn) {
                end.outbox.push(&answer.unwrap_or_else(refused).into());
                end.outbox.end();
            }
        });
    }

    /// What the server does not know of itself. The bytes of files are counted only for who asks: each file is looked at.
    async fn look_around(&self, counts_bytes: bool) -> Around {
        let seen = self.look.now().await.unwrap_or_default();
        let mut around = self.around(&seen);
        if counts_bytes {
            let data = self.data.clone();
            around.data_bytes = tokio::task::spawn_blocking(move || bytes_below(&data)).await.unwrap_or(0);
        }
        around
    }

    fn around(&self, seen: &Seen) -> Around {
        let own = self.replica.number();
        let role = match seen.member(own) {
            _ if self.settings.read_only && seen.leader.is_none() => Role::ReadOnly,
            _ if seen.members.len() == 1 => Role::Standalone,
            Some(member) if member.learner => Role::Observer,
            _ if seen.leader == Some(own) => Role::Leader,
            _ => Role::Follower,
        };
        let (min, max) = self.settings.timeouts_ms(self.tick_ms);
        let port = self.settings.listen.rsplit_once(':').map_or("", |(_, port)| port);
        let settings = [
            ("clientPort", port.to_owned()),
            ("tickTime", self.tick_ms.to_string()),
            ("maxClientCnxns", self.settings.connections_per_address.to_string()),
            ("minSessionTimeout", min.to_string()),
            ("maxSessionTimeout", max.to_string()),
            ("serverId", own.to_string()),
        ];
        let address = |id| seen.member(id).map_or_else(String::new, |member| member.address.clone());
        let observers = seen.members.iter().filter(|member| role == Role::Leader && member.caught_up);
        let observers = observers.filter(|member| member.learner);
        let ends = self.ends();
        let addresses = ends.1.iter().filter_map(|(conn, end)| Some((*conn, end.peer?.to_string())));
        Around {
            replica: own,
            role,
            leader: seen.leader.map(|leader| (leader, address(leader))),
            followers: seen.members.iter().filter(|member| !member.learner).count().saturating_sub(1),
            observers: observers.map(|member| (member.replica, member.address.clone())).collect(),
            settings: settings.into(),
            data_bytes: 0,
            uptime_ms: self.started.elapsed().as_millis() as u64,
            addresses: addresses.collect(),
            safe: ends.1.iter().filter(|(_, end)| end.is_safe).map(|(conn, _)| *conn).collect(),
        }
    }

    pub(crate) fn is_full(&self, conn: ConnId) -> bool {
        self.lock().is_full(conn)
    }
}

/// For the admin server, which has a thread of its own.
impl Shared {
    /// The answer to a command.
    pub(crate) async fn admin(&self, command: Admin) -> Value {
        let around = self.look_around(command.counts_bytes()).await;
        self.lock().admin(command, &around)
    }

    /// All numbers, as Prometheus reads them.
    pub(crate) async fn metrics(&self) -> String {
        let around = self.look_around(false).await;
        self.lock().metrics(&around)
    }
}
