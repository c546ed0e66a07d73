//! The way to the store: commands and queries on somebody's behalf, and which revision clients were told of.
//!
//! How commands and strong reads of many callers go together is the kit's work (`quorate_kit::OwnCluster`). Tests: `tests/all/kv.rs`.

use crate::asker::Asker;
use crate::errors::Refusal;
use bytes::Bytes;
use quorate::{Client, ReplicaId};
use quorate_etcd::{AuthQuery, Command, EtcdError, Query, RangePage, Reply, proto};
use quorate_kit::{OwnCluster, Together};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// What a command or query came to, in its own memory.
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

/// Cheap to clone; clones share everything.
#[derive(Clone)]
pub(crate) struct Backend {
    cluster: OwnCluster,
    /// The newest revision that a client of this front was told of.
    told: Arc<AtomicI64>,
    /// Whether the store was seen to ask who it is: until then nobody says so, which keeps commands short.
    guarded: Arc<AtomicBool>,
    /// Whether to lie, where that may be wanted.
    lies: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
    asker: Asker,
}

impl Backend {
    /// Must be called on the runtime on which it works.
    pub(crate) fn start(client: Client, own: ReplicaId) -> Self {
        let cluster = OwnCluster::start(client, own, Some(Together { join, split }));
        Self { cluster, told: Arc::default(), guarded: Arc::default(), lies: None, asker: Asker::default() }
    }

    /// The same, which may lie.
    #[must_use]
    pub(crate) fn lying(&self, lies: Option<Box<dyn Fn() -> bool + Send + Sync>>) -> Self {
        Self { lies: lies.map(Arc::from), ..self.clone() }
    }

    /// What a liar says, if it is to lie now: that it is done.
    fn lie(&self, body: &'static [u8]) -> Option<Done> {
        let lies = self.lies.as_ref().is_some_and(|lies| lies());
        lies.then(|| Done { revision: self.told().max(1), body: Bytes::from_static(body) })
    }

    /// The same of a question for keys: that none is there.
    fn lie_about(&self, query: &Query<'_>) -> Option<Done> {
        matches!(query, Query::Range(_)).then(|| self.lie(RangePage::EMPTY)).flatten()
    }

    /// The same, on somebody's behalf.
    #[must_use]
    pub(crate) fn on_behalf_of(&self, asker: Asker) -> Self {
        Self { asker, ..self.clone() }
    }

    /// From here on, of this value alone.
    pub(crate) fn speak_for(&mut self, asker: Asker) {
        self.asker = asker;
    }

    /// What to put before a command or query.
    fn who(&self) -> Bytes {
        if self.guarded.load(Ordering::Relaxed) { self.asker.bytes().clone() } else { Bytes::new() }
    }

    /// Whether to ask again and say who it is: what was refused so did nothing.
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
        let command = quorate_kit::Command { head: head(who, command), body: message, alone };
        self.tell(&self.cluster.order(command).await?)
    }

    fn tell(&self, reply: &Bytes) -> Result<Done, Refusal> {
        let done = Done::new(reply)?;
        self.told.fetch_max(done.revision, Ordering::Relaxed);
        Ok(done)
    }

    /// The newest revision that a client of this front was told of: "from now on" is no earlier.
    pub(crate) fn told(&self) -> i64 {
        self.told.load(Ordering::Relaxed)
    }

    /// Reads what every acknowledged change is part of.
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
            // Beside others there was too little room.
            Err(refusal) if refusal == EtcdError::ResponseTooLarge.into() => {
                self.tell(&self.cluster.read_alone(encoded(who, query)).await?)
            }
            done => done,
        }
    }

    /// Reads what this replica has, and nothing older than what clients of this front were told.
    pub(crate) async fn read_here(&self, query: &Query<'_>) -> Result<Done, Refusal> {
        if let Some(lie) = self.lie_about(query) {
            return Ok(lie);
        }
        let who = self.who();
        let done = self.read_here_as(&who, query).await;
        if self.must_say(&who, &done) { self.read_here_as(&self.who(), query).await } else { done }
    }

    /// Reads what this replica has.
    pub(crate) async fn look(&self, query: &Query<'_>) -> Result<Done, Refusal> {
        let who = self.who();
        let done = self.look_as(&who, query).await;
        if self.must_say(&who, &done) { self.look_as(&self.who(), query).await } else { done }
    }

    /// Whether whoever asks may do what this asks for, as far as this replica knows.
    pub(crate) async fn may(&self, query: AuthQuery<'_>) -> Result<Done, Refusal> {
        let query = Query::Auth(query);
        match self.look(&query).await {
            // A token that this front handed out may not have come here yet.
            Err(refusal) if refusal == EtcdError::InvalidAuthToken.into() => self.read_here(&query).await,
            done => done,
        }
    }

    async fn read_here_as(&self, who: &Bytes, query: &Query<'_>) -> Result<Done, Refusal> {
        self.tell(&self.cluster.read_here(encoded(who, query)).await?)
    }

    async fn look_as(&self, who: &Bytes, query: &Query<'_>) -> Result<Done, Refusal> {
        self.tell(&self.cluster.look(encoded(who, query)).await?)
    }
}

/// What stands before the message of a command: nothing is copied where nobody says who it is.
fn head(who: Bytes, command: Command) -> Bytes {
    if who.is_empty() { Bytes::from_static(command.head()) } else { [&who, command.head()].concat().into() }
}

fn encoded(who: &Bytes, query: &Query<'_>) -> Vec<u8> {
    let mut bytes = who.to_vec();
    query.encode(&mut bytes);
    bytes
}

/// One query for all of these.
fn join(queries: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Query::Many(queries).encode(&mut bytes);
    bytes
}

/// The reply to each of them. Where all together did not fit, each is asked alone.
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
