//! The way to the store: sends commands and queries for a caller, and notes the newest revision that clients were told.
//!
//! The kit bundles the commands and strong reads of many callers (`quorate_kit::OwnCluster`). Tests: `tests/all/kv.rs`.

use crate::asker::Asker;
use crate::errors::Refusal;
use crate::hub::Hub;
use bytes::Bytes;
use quorate::{Client, ReplicaId};
use quorate_etcd::{AuthQuery, Command, Etcd, EtcdConfig, EtcdError, Query, RangePage, Reply, proto};
use quorate_kit::{OwnCluster, OwnState, Together};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// The result of a command or query, in memory of its own.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) revision: i64,
    pub(crate) body: Bytes,
}

impl Done {
    fn new(reply: &Bytes) -> Result<Self, Refusal> {
        let done = Reply::decode(reply)?;
        Ok(Self { revision: done.revision, body: reply.slice_ref(done.body) })
    }
}

/// The way to the store. Cheap to clone; clones share everything but the caller.
#[derive(Clone)]
pub(crate) struct Backend {
    cluster: OwnCluster,
    /// The newest revision that a client of this front was told.
    told: Arc<AtomicI64>,
    /// Whether the store has asked who the caller is. Until then no caller is named, which keeps commands short.
    guarded: Arc<AtomicBool>,
    /// Says whether to lie now; for tests of false replicas.
    lies: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
    /// This replica's state, for reads on this thread, and the hub, whose events clients may know. None: the replica is always asked.
    own: Option<(OwnState, Hub)>,
    asker: Asker,
}

/// The most bytes of an answer from the replica's own state. For a longer one the replica is asked.
const ANSWER_BYTES_MAX: usize = 1 << 20;

impl Backend {
    /// Must be called on the runtime that it is to work on.
    pub(crate) fn start(client: Client, own: ReplicaId) -> Self {
        let cluster = OwnCluster::start(client, own, Some(Together { join, split }));
        let (told, guarded, asker) = (Arc::default(), Arc::default(), Asker::default());
        Self { cluster, told, guarded, lies: None, own: None, asker }
    }

    /// This way to the store, but lying when `lies` says so.
    #[must_use]
    pub(crate) fn lying(&self, lies: Option<Box<dyn Fn() -> bool + Send + Sync>>) -> Self {
        Self { lies: lies.map(Arc::from), ..self.clone() }
    }

    /// This way to the store, but reads of this replica are answered from its own state where that is possible. No answer is older than the
    /// events that the hub showed.
    #[must_use]
    pub(crate) fn reading(&self, own: Option<OwnState>, hub: Hub) -> Self {
        Self { own: own.map(|state| (state, hub)), ..self.clone() }
    }

    /// The false answer to a command if it is time to lie: that the command is done.
    fn lie(&self, body: &'static [u8]) -> Option<Done> {
        let lies = self.lies.as_ref().is_some_and(|lies| lies());
        lies.then(|| Done { revision: self.told().max(1), body: Bytes::from_static(body) })
    }

    /// The false answer to a query for keys: that there are none.
    fn lie_about(&self, query: &Query<'_>) -> Option<Done> {
        matches!(query, Query::Range(_)).then(|| self.lie(RangePage::EMPTY)).flatten()
    }

    /// This way to the store, for another caller.
    #[must_use]
    pub(crate) fn on_behalf_of(&self, asker: Asker) -> Self {
        Self { asker, ..self.clone() }
    }

    /// Sets the caller, for this value alone.
    pub(crate) fn speak_for(&mut self, asker: Asker) {
        self.asker = asker;
    }

    /// The bytes that name the caller, to be put in front of a command or query.
    fn who(&self) -> Bytes {
        if self.guarded.load(Ordering::Relaxed) { self.asker.bytes().clone() } else { Bytes::new() }
    }

    /// Whether to send the request again with the caller named. The refused request did nothing.
    fn must_say(&self, who: &Bytes, done: &Result<Done, Refusal>) -> bool {
        let wanted = matches!(done, Err(refusal) if *refusal == EtcdError::UserEmpty.into());
        let says = wanted && who.is_empty() && !self.asker.is_nobody();
        if says {
            self.guarded.store(true, Ordering::Relaxed);
        }
        says
    }

    /// Orders a command and waits for its reply.
    pub(crate) async fn order(&self, command: Command, message: Bytes) -> Result<Done, Refusal> {
        if let Some(lie) = self.lie(&[]) {
            return Ok(lie);
        }
        let who = self.who();
        let done = self.order_as(who.clone(), command, message.clone()).await;
        if self.must_say(&who, &done) { self.order_as(self.who(), command, message).await } else { done }
    }

    async fn order_as(&self, who: Bytes, command: Command, message: Bytes) -> Result<Done, Refusal> {
        let alone = !command.answers_little(&message);
        let command = quorate_kit::Command { head: head(who, command), body: message, alone, line: None };
        self.tell(&self.cluster.order(command).await?)
    }

    fn tell(&self, reply: &Bytes) -> Result<Done, Refusal> {
        let done = Done::new(reply)?;
        self.told.fetch_max(done.revision, Ordering::Relaxed);
        Ok(done)
    }

    /// The newest revision that a client of this front was told. A watch from "now" begins no earlier.
    pub(crate) fn told(&self) -> i64 {
        self.told.load(Ordering::Relaxed)
    }

    /// Reads a state that includes every acknowledged change.
    pub(crate) async fn read(&self, query: &Query<'_>) -> Result<Done, Refusal> {
        if let Some(lie) = self.lie_about(query) {
            return Ok(lie);
        }
        let who = self.who();
        let done = self.read_as(&who, query).await;
        if self.must_say(&who, &done) { self.read_as(&self.who(), query).await } else { done }
    }

    async fn read_as(&self, who: &Bytes, query: &Query<'_>) -> Result<Done, Refusal> {
        match self.tell(&self.cluster.read(encoded(who, query)).await?) {
            // The reply did not fit beside those of other queries.
            Err(refusal) if refusal == EtcdError::ResponseTooLarge.into() => {
                self.tell(&self.cluster.read_alone(encoded(who, query)).await?)
            }
            done => done,
        }
    }

    /// Reads this replica's state, once it is as new as what clients of this front were told.
    pub(crate) async fn read_here(&self, query: &Query<'_>) -> Result<Done, Refusal> {
        if let Some(lie) = self.lie_about(query) {
            return Ok(lie);
        }
        let who = self.who();
        let done = self.read_here_as(&who, query).await;
        if self.must_say(&who, &done) { self.read_here_as(&self.who(), query).await } else { done }
    }

    /// Reads this replica's present state.
    pub(crate) async fn look(&self, query: &Query<'_>) -> Result<Done, Refusal> {
        let who = self.who();
        let done = self.look_as(&who, query).await;
        if self.must_say(&who, &done) { self.look_as(&self.who(), query).await } else { done }
    }

    /// Whether the caller may do what the query asks for, as far as this replica knows.
    pub(crate) async fn may(&self, query: AuthQuery<'_>) -> Result<Done, Refusal> {
        let query = Query::Auth(query);
        match self.look(&query).await {
            // The command that made the caller's token may not be executed here yet.
            Err(refusal) if refusal == EtcdError::InvalidAuthToken.into() => self.read_here(&query).await,
            done => done,
        }
    }

    /// The answer from this replica's own state, on this thread, if that state is as new as what clients of this front know. Otherwise
    /// nothing: then the replica must be asked, which gives the same answer, or the error if there is one.
    fn own_answer(&self, who: &Bytes, query: &Query<'_>) -> Option<Done> {
        let (state, hub) = self.own.as_ref()?;
        if !matches!(query, Query::Range(_) | Query::Auth(_)) {
            return None; // rare, and some of them take long
        }
        let state = state.at_least(self.cluster.newest())?;
        let service = Etcd::new(EtcdConfig::default());
        let reply = state.query(&service, &encoded(who, query), ANSWER_BYTES_MAX).ok()?;
        let done = Done::new(&reply.into()).ok().filter(|done| done.revision >= hub.shown())?;
        self.told.fetch_max(done.revision, Ordering::Relaxed);
        Some(done)
    }

    async fn read_here_as(&self, who: &Bytes, query: &Query<'_>) -> Result<Done, Refusal> {
        if let Some(done) = self.own_answer(who, query) {
            return Ok(done);
        }
        self.tell(&self.cluster.read_here(encoded(who, query)).await?)
    }

    async fn look_as(&self, who: &Bytes, query: &Query<'_>) -> Result<Done, Refusal> {
        if let Some(done) = self.own_answer(who, query) {
            return Ok(done);
        }
        self.tell(&self.cluster.look(encoded(who, query)).await?)
    }
}

/// The bytes in front of a command's message. Nothing is copied if no caller is named.
fn head(who: Bytes, command: Command) -> Bytes {
    if who.is_empty() { Bytes::from_static(command.head()) } else { [&who, command.head()].concat().into() }
}

fn encoded(who: &Bytes, query: &Query<'_>) -> Vec<u8> {
    let mut bytes = who.to_vec();
    query.encode(&mut bytes);
    bytes
}

/// Joins queries into one.
fn join(queries: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Query::Many(queries).encode(&mut bytes);
    bytes
}

/// The replies to the queries of a joined one. If they did not fit together, each query is sent alone.
fn split(bytes: &Bytes, count: usize) -> Vec<Bytes> {
    let failed = |error: EtcdError| Bytes::copy_from_slice(&[error.number()]);
    match Reply::decode(bytes) {
        Ok(done) => {
            let mut rest = done.body;
            let mut next = || proto::read_string(&mut rest).map(|reply| bytes.slice_ref(reply));
            (0..count).map(|_| next().unwrap_or_else(|| failed(EtcdError::Malformed))).collect()
        }
        Err(error) => vec![failed(error); count],
    }
}
