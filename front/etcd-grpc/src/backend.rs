//! The way to the cluster: commands of many callers as few requests, and reads.
//!
//! Commands that wait while others are under way go together in one request of one session: no round of agreement, no entry of a
//! session's table for each. Under load requests grow by themselves; an idle one goes at once. What may have a long reply goes alone,
//! since the replies to one request have a limit together. Tests: `tests/kv.rs`.

use crate::asker::Asker;
use crate::errors::Refusal;
use bytes::Bytes;
use quorate::client::{Encoded, ReadOptions, Replies, Session};
use quorate::{Client, ReplicaId};
use quorate_etcd::{AuthQuery, Command, EtcdError, Query, RangePage, Reply, proto};
use quorate_types::ItemsBuilder;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use tokio::sync::{Semaphore, mpsc, oneshot};

/// Requests under way at once.
const IN_FLIGHT: usize = 4;
/// A request takes commands up to so many bytes, and so many.
const REQUEST_BYTES: usize = 256 << 10;
const REQUEST_COMMANDS: usize = 4096;
/// Strong reads under way at once, and how many go together.
const READS_IN_FLIGHT: usize = 4;
const READS_TOGETHER: usize = 256;
/// What waits here may have so many bytes; more is refused.
const WAITING_BYTES_MAX: usize = 64 << 20;

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

struct Job {
    who: Bytes,
    command: Command,
    message: Bytes,
    reply: oneshot::Sender<Result<Bytes, Refusal>>,
}

/// Cheap to clone; clones share everything.
#[derive(Clone)]
pub(crate) struct Backend {
    client: Client,
    own: ReplicaId,
    jobs: mpsc::UnboundedSender<Job>,
    questions: mpsc::UnboundedSender<Question>,
    waiting: Arc<AtomicUsize>,
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
        let (jobs, inbox) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        tokio::spawn(Batcher::new(client.clone(), waiting.clone()).run(inbox));
        let (questions, asked) = mpsc::unbounded_channel();
        tokio::spawn(ask_together(client.clone(), asked));
        Self {
            client,
            own,
            jobs,
            questions,
            waiting,
            told: Arc::default(),
            guarded: Arc::default(),
            lies: None,
            asker: Asker::default(),
        }
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
        let bytes = who.len() + message.len();
        if self.waiting.fetch_add(bytes, Ordering::Relaxed) + bytes > WAITING_BYTES_MAX {
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Refusal::TOO_MANY);
        }
        let (reply, answer) = oneshot::channel();
        self.jobs.send(Job { who, command, message, reply }).map_err(|_| Refusal::STOPPED)?;
        self.tell(&answer.await.map_err(|_| Refusal::STOPPED)??)
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
        let (reply, answer) = oneshot::channel();
        self.questions.send(Question { query: encoded(who, query), reply }).map_err(|_| Refusal::STOPPED)?;
        let answer = answer.await.map_err(|_| Refusal::STOPPED)??;
        match self.tell(&answer) {
            // Beside others there was too little room.
            Err(refusal) if refusal == EtcdError::ResponseTooLarge.into() => {
                self.ask_as(who, query, ReadOptions::STRONG).await
            }
            done => done,
        }
    }

    /// Reads what this replica has, and nothing older than what clients of this front were told.
    pub(crate) async fn read_here(&self, query: &Query<'_>) -> Result<Done, Refusal> {
        if let Some(lie) = self.lie_about(query) {
            return Ok(lie);
        }
        self.ask(query, ReadOptions { replica: Some(self.own), ..ReadOptions::SESSION }).await
    }

    /// Reads what this replica has.
    pub(crate) async fn look(&self, query: &Query<'_>) -> Result<Done, Refusal> {
        self.ask(query, ReadOptions { replica: Some(self.own), ..ReadOptions::WEAK }).await
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

    async fn ask(&self, query: &Query<'_>, options: ReadOptions) -> Result<Done, Refusal> {
        let who = self.who();
        let done = self.ask_as(&who, query, options).await;
        if self.must_say(&who, &done) { self.ask_as(&self.who(), query, options).await } else { done }
    }

    async fn ask_as(&self, who: &Bytes, query: &Query<'_>, options: ReadOptions) -> Result<Done, Refusal> {
        self.tell(&self.client.read(encoded(who, query), options).await?.body)
    }
}

fn encoded(who: &Bytes, query: &Query<'_>) -> Vec<u8> {
    let mut bytes = who.to_vec();
    query.encode(&mut bytes);
    bytes
}

/// A strong read that waits.
struct Question {
    query: Vec<u8>,
    reply: oneshot::Sender<Result<Bytes, Refusal>>,
}

/// Strong reads that wait while others are under way go together, as one: each of them began before it is asked.
async fn ask_together(client: Client, mut inbox: mpsc::UnboundedReceiver<Question>) {
    let permits = Arc::new(Semaphore::new(READS_IN_FLIGHT));
    while let Some(first) = inbox.recv().await {
        let Ok(permit) = permits.clone().acquire_owned().await else { return };
        let (mut queries, mut callers) = (vec![first.query], vec![first.reply]);
        while queries.len() < READS_TOGETHER
            && let Ok(next) = inbox.try_recv()
        {
            queries.push(next.query);
            callers.push(next.reply);
        }
        let asked = if let [one] = queries.as_slice() {
            client.read(one.clone(), ReadOptions::STRONG)
        } else {
            let mut bytes = Vec::new();
            Query::Many(&queries).encode(&mut bytes);
            client.read(bytes, ReadOptions::STRONG)
        };
        tokio::spawn(async move {
            let answer = asked.await.map(|answer| answer.body);
            drop(permit);
            answer_each(callers, answer.map_err(Refusal::from));
        });
    }
}

fn answer_each(callers: Vec<oneshot::Sender<Result<Bytes, Refusal>>>, answer: Result<Bytes, Refusal>) {
    let (Ok(bytes), [_, _, ..]) = (&answer, callers.as_slice()) else {
        return callers.into_iter().for_each(|caller| drop(caller.send(answer.clone())));
    };
    // Where all together did not fit, each is asked alone.
    let failed = |error: EtcdError| Ok(Bytes::copy_from_slice(&[error.number()]));
    let done = Reply::decode(bytes);
    let mut rest = done.map_or(&[][..], |done| done.body);
    for caller in callers {
        let reply = match done {
            Ok(_) => proto::read_string(&mut rest).map(|reply| Ok(bytes.slice_ref(reply))),
            Err(error) => Some(failed(error)),
        };
        let _ = caller.send(reply.unwrap_or_else(|| failed(EtcdError::Malformed)));
    }
}

/// Puts requests together.
struct Batcher {
    client: Client,
    waiting: Arc<AtomicUsize>,
    permits: Arc<Semaphore>,
    /// Those of one request; the memory is used again.
    commands: ItemsBuilder,
    session: Option<Arc<Session>>,
    /// How many sessions turned out to be of no use: one is replaced only once.
    broken: Arc<AtomicUsize>,
    replaced: usize,
}

impl Batcher {
    fn new(client: Client, waiting: Arc<AtomicUsize>) -> Self {
        let permits = Arc::new(Semaphore::new(IN_FLIGHT));
        let commands = ItemsBuilder::new();
        Self { client, waiting, permits, commands, session: None, broken: Arc::default(), replaced: 0 }
    }

    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Job>) {
        // One that did not fit into the request before.
        let mut next: Option<Job> = None;
        loop {
            let first = match next.take() {
                Some(job) => job,
                None => match inbox.recv().await {
                    Some(job) => job,
                    None => return,
                },
            };
            let Ok(permit) = self.permits.clone().acquire_owned().await else { return };
            let mut replies = Vec::new();
            self.commands.clear();
            let mut bytes = 0;
            let mut job = Some(first);
            while let Some(one) = job.take() {
                let alone = !one.command.answers_little(&one.message);
                if alone && !replies.is_empty() {
                    next = Some(one);
                    break;
                }
                bytes += one.who.len() + one.message.len();
                self.commands.push_with(|out| {
                    out.extend_from_slice(&one.who);
                    one.command.encode(&one.message, out);
                });
                replies.push(one.reply);
                if alone || bytes >= REQUEST_BYTES || replies.len() == REQUEST_COMMANDS {
                    break;
                }
                job = inbox.try_recv().ok();
            }
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
            let session = match self.session().await {
                Ok(session) => session,
                Err(refusal) => {
                    replies.into_iter().for_each(|reply| drop(reply.send(Err(refusal.clone()))));
                    continue;
                }
            };
            let mut encoded = Vec::with_capacity(self.commands.encoded_len());
            self.commands.write_to(&mut encoded);
            let call = session.call(Encoded::from_bytes(encoded.into()));
            let broken = self.broken.clone();
            let generation = self.replaced;
            tokio::spawn(async move {
                let result = call.await;
                drop(permit);
                if let Err(error) = &result
                    && is_end_of_session(error)
                {
                    broken.fetch_max(generation + 1, Ordering::Relaxed);
                }
                answer(replies, result);
            });
        }
    }

    /// The session in use, or a new one.
    async fn session(&mut self) -> Result<Arc<Session>, Refusal> {
        let broken = self.broken.load(Ordering::Relaxed);
        if broken > self.replaced {
            (self.replaced, self.session) = (broken, None);
        }
        match &self.session {
            Some(session) => Ok(session.clone()),
            None => {
                let session = Arc::new(self.client.open_session().await?);
                self.session = Some(session.clone());
                Ok(session)
            }
        }
    }
}

const fn is_end_of_session(error: &quorate::Error) -> bool {
    use quorate::Error;
    matches!(error, Error::SessionExpired { .. } | Error::SessionClosed | Error::SessionBroken { .. })
}

fn answer(callers: Vec<oneshot::Sender<Result<Bytes, Refusal>>>, result: Result<Replies, quorate::Error>) {
    match result {
        Ok(replies) => {
            // The replies' own memory goes with them: they share one buffer, which lives as long as the slowest caller needs it.
            callers
                .into_iter()
                .zip(replies.slices())
                .for_each(|(caller, reply)| drop(caller.send(Ok(reply))));
        }
        Err(error) => {
            let refusal = Refusal::from(error);
            callers.into_iter().for_each(|caller| drop(caller.send(Err(refusal.clone()))));
        }
    }
}
