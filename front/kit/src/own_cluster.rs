//! The way to the cluster: commands of many callers as few requests, and reads.
//!
//! Commands that wait while others are under way go together in one request of one session: no round of agreement, no entry of a
//! session's table for each. Under load requests grow by themselves; an idle one goes at once. What may have a long reply goes alone,
//! since the replies to one request have a limit together. They are ordered as they were given. Tests: front/kit/tests, and with etcd's
//! clients front/etcd-grpc/tests.

use bytes::Bytes;
use quorate::client::{Encoded, ReadOptions, Replies, Session};
use quorate::{Client, Error, ReplicaId, Seq};
use quorate_types::ItemsBuilder;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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

/// Why there is no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KitError {
    /// Too much waits to be ordered; nothing was done. Try again later.
    #[error("too many commands wait: try again later")]
    Full,
    /// The front is being stopped; whether the command ran is unknown.
    #[error("the front is being stopped: ask another member")]
    Stopped,
    /// What the client library says; it tells whether the command may have run.
    #[error(transparent)]
    Cluster(#[from] Error),
}

/// A command of the service, in two parts so that what a client sent need not be copied to put something before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// How it begins.
    pub head: Bytes,
    /// The rest.
    pub body: Bytes,
    /// Whether its reply may be long: then it does not share a request.
    pub alone: bool,
}

impl Command {
    /// One with a short reply, in one part.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self { head: Bytes::new(), body: bytes.into(), alone: false }
    }

    fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }
}

/// How several queries become one, where the service can answer many at once.
#[derive(Clone, Copy)]
pub struct Together {
    /// One query for all of these.
    pub join: fn(&[Vec<u8>]) -> Vec<u8>,
    /// The reply to each of so many, in their order, from the one reply; which can be that they did not fit together, for example.
    pub split: fn(&Bytes, usize) -> Vec<Bytes>,
}

struct Job {
    command: Command,
    reply: oneshot::Sender<Result<Bytes, KitError>>,
}

/// A strong read that waits.
struct Question {
    query: Vec<u8>,
    reply: oneshot::Sender<Result<Bytes, KitError>>,
}

/// The cluster that a front's own member is in. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct OwnCluster {
    client: Client,
    own: ReplicaId,
    jobs: mpsc::UnboundedSender<Job>,
    questions: mpsc::UnboundedSender<Question>,
    waiting: Arc<AtomicUsize>,
}

impl OwnCluster {
    /// For the member `own`. Strong reads go together if it is said how. Must be called on the runtime on which it works.
    pub fn start(client: Client, own: ReplicaId, together: Option<Together>) -> Self {
        let (jobs, inbox) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        tokio::spawn(Batcher::new(client.clone(), waiting.clone()).run(inbox));
        let (questions, asked) = mpsc::unbounded_channel();
        tokio::spawn(ask_together(client.clone(), together, asked));
        Self { client, own, jobs, questions, waiting }
    }

    /// Orders a command and waits for its reply, which may share memory with those to others.
    ///
    /// # Errors
    /// Why there is none; the command may have run if the error says that this is unknown.
    pub async fn order(&self, command: Command) -> Result<Bytes, KitError> {
        let bytes = command.len();
        if self.waiting.fetch_add(bytes, Ordering::Relaxed) + bytes > WAITING_BYTES_MAX {
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
            return Err(KitError::Full);
        }
        let (reply, answer) = oneshot::channel();
        self.jobs.send(Job { command, reply }).map_err(|_| KitError::Stopped)?;
        answer.await.map_err(|_| KitError::Stopped)?
    }

    /// Reads what every acknowledged change is part of, together with others who ask meanwhile.
    ///
    /// # Errors
    /// Why there is no reply.
    pub async fn read(&self, query: Vec<u8>) -> Result<Bytes, KitError> {
        let (reply, answer) = oneshot::channel();
        self.questions.send(Question { query, reply }).map_err(|_| KitError::Stopped)?;
        answer.await.map_err(|_| KitError::Stopped)?
    }

    /// The same, alone: there is more room for the reply.
    ///
    /// # Errors
    /// Why there is no reply.
    pub async fn read_alone(&self, query: Vec<u8>) -> Result<Bytes, KitError> {
        self.ask(query, ReadOptions::STRONG).await
    }

    /// Reads what this member has, and nothing older than what clients of this front were told.
    ///
    /// # Errors
    /// Why there is no reply.
    pub async fn read_here(&self, query: Vec<u8>) -> Result<Bytes, KitError> {
        self.ask(query, ReadOptions { replica: Some(self.own), ..ReadOptions::SESSION }).await
    }

    /// Reads what this member has, however old.
    ///
    /// # Errors
    /// Why there is no reply.
    pub async fn look(&self, query: Vec<u8>) -> Result<Bytes, KitError> {
        self.ask(query, ReadOptions { replica: Some(self.own), ..ReadOptions::WEAK }).await
    }

    /// The newest seq that clients of this front were told of.
    pub fn newest(&self) -> Seq {
        self.client.newest()
    }

    async fn ask(&self, query: Vec<u8>, options: ReadOptions) -> Result<Bytes, KitError> {
        Ok(self.client.read(query, options).await?.body)
    }
}

/// Strong reads that wait while others are under way go together, as one: each of them began before it is asked.
async fn ask_together(
    client: Client,
    together: Option<Together>,
    mut inbox: mpsc::UnboundedReceiver<Question>,
) {
    let permits = Arc::new(Semaphore::new(READS_IN_FLIGHT));
    let most = if together.is_some() { READS_TOGETHER } else { 1 };
    while let Some(first) = inbox.recv().await {
        let Ok(permit) = permits.clone().acquire_owned().await else { return };
        let (mut queries, mut callers) = (vec![first.query], vec![first.reply]);
        while queries.len() < most
            && let Ok(next) = inbox.try_recv()
        {
            queries.push(next.query);
            callers.push(next.reply);
        }
        let joined = together.filter(|_| queries.len() > 1);
        let query = match joined {
            Some(together) => (together.join)(&queries),
            None => queries.swap_remove(0),
        };
        let asked = client.read(query, ReadOptions::STRONG);
        tokio::spawn(async move {
            let answer = asked.await.map(|answer| answer.body).map_err(KitError::from);
            drop(permit);
            match (joined, answer) {
                (Some(together), Ok(bytes)) => {
                    let replies = (together.split)(&bytes, callers.len());
                    callers.into_iter().zip(replies).for_each(|(caller, reply)| drop(caller.send(Ok(reply))));
                }
                (_, answer) => callers.into_iter().for_each(|caller| drop(caller.send(answer.clone()))),
            }
        });
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
            while let Some(Job { command, reply }) = job.take() {
                let alone = command.alone;
                if alone && !replies.is_empty() {
                    next = Some(Job { command, reply });
                    break;
                }
                bytes += command.len();
                self.commands.push_with(|out| {
                    out.extend_from_slice(&command.head);
                    out.extend_from_slice(&command.body);
                });
                replies.push(reply);
                if alone || bytes >= REQUEST_BYTES || replies.len() == REQUEST_COMMANDS {
                    break;
                }
                job = inbox.try_recv().ok();
            }
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
            let session = match self.session().await {
                Ok(session) => session,
                Err(why) => {
                    replies.into_iter().for_each(|reply| drop(reply.send(Err(why.clone()))));
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
    async fn session(&mut self) -> Result<Arc<Session>, KitError> {
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

const fn is_end_of_session(error: &Error) -> bool {
    matches!(error, Error::SessionExpired { .. } | Error::SessionClosed | Error::SessionBroken { .. })
}

fn answer(callers: Vec<oneshot::Sender<Result<Bytes, KitError>>>, result: Result<Replies, Error>) {
    match result {
        Ok(replies) => {
            // The replies' own memory goes with them: they share one buffer, which lives as long as the slowest caller needs it.
            callers
                .into_iter()
                .zip(replies.slices())
                .for_each(|(caller, reply)| drop(caller.send(Ok(reply))));
        }
        Err(error) => {
            callers.into_iter().for_each(|caller| drop(caller.send(Err(error.clone().into()))));
        }
    }
}
