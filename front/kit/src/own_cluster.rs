//! The way to the cluster: commands of many callers in few requests, and reads.
//!
//! Commands that wait while others are under way share one request of one session. So not every command costs a round of agreement and an
//! entry in the session table. Under load requests grow by themselves; without load a command leaves at once. A command with a possibly
//! long reply goes alone, since the replies to one request share a limit. Commands are ordered as they were given. Tests: front/kit/tests,
//! and with etcd's clients front/etcd-grpc/tests.

use bytes::Bytes;
use quorate::client::{Encoded, ReadOptions, Replies, Session};
use quorate::{Client, Error, ReplicaId, Seq};
use quorate_types::ItemsBuilder;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use tokio::sync::{Semaphore, mpsc, oneshot};

/// The most requests under way at once.
const IN_FLIGHT: usize = 4;
/// A request takes no more commands once it has this many bytes, or this many commands.
const REQUEST_BYTES: usize = 256 << 10;
const REQUEST_COMMANDS: usize = 4096;
/// The most strong reads under way at once, and the most queries that share one.
const READS_IN_FLIGHT: usize = 4;
const READS_TOGETHER: usize = 256;
/// The most bytes of commands that wait here; more are refused.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// Why a call has no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KitError {
    /// Too many commands wait to be ordered. Nothing was done; try again later.
    #[error("too many commands wait: try again later")]
    Full,
    /// The front is being stopped; whether the command ran is unknown.
    #[error("the front is being stopped: ask another member")]
    Stopped,
    /// A command of the same line before it has no reply, so this one was not sent.
    #[error("not sent, since it is unknown whether a command before it ran")]
    Cut,
    /// An error of the client library; it says whether the command may have run.
    #[error(transparent)]
    Cluster(#[from] Error),
}

/// A command of the service, in two parts: so a front can put bytes before a client's message without copying it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The bytes at its beginning.
    pub head: Bytes,
    /// The rest.
    pub body: Bytes,
    /// Whether its reply may be long. Then it does not share a request.
    pub alone: bool,
    /// The line in which it stands, if any.
    pub line: Option<Line>,
}

/// Commands that make sense only one after the other: once one of them has no reply, those behind it are not sent. All clones are one line.
#[derive(Clone, Debug, Default)]
pub struct Line(Arc<AtomicBool>);

impl Line {
    fn is_cut(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// No command that was not sent yet will be sent.
    pub fn cut(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl PartialEq for Line {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Line {}

impl Command {
    /// A command with a short reply, in one part.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self { head: Bytes::new(), body: bytes.into(), alone: false, line: None }
    }

    fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }
}

/// How to join several queries into one, where the service can answer many at once.
#[derive(Clone, Copy)]
pub struct Together {
    /// Joins these queries into one.
    pub join: fn(&[Vec<u8>]) -> Vec<u8>,
    /// Splits the one reply into the replies to this many queries, in their order. If they did not fit together, each reply may say so.
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

/// The cluster of a front's own member. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct OwnCluster {
    client: Client,
    own: ReplicaId,
    jobs: mpsc::UnboundedSender<Job>,
    questions: mpsc::UnboundedSender<Question>,
    waiting: Arc<AtomicUsize>,
}

impl OwnCluster {
    /// The cluster of the member `own`. With `together`, strong reads share requests. Must be called on the runtime on which it works.
    pub fn start(client: Client, own: ReplicaId, together: Option<Together>) -> Self {
        let (jobs, inbox) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        tokio::spawn(Batcher::new(client.clone(), waiting.clone()).run(inbox));
        let (questions, asked) = mpsc::unbounded_channel();
        tokio::spawn(ask_together(client.clone(), together, asked));
        Self { client, own, jobs, questions, waiting }
    }

    /// Orders a command and waits for its reply, which may share memory with the replies to others.
    ///
    /// # Errors
    /// When there is no reply. The command may have run if the error says that this is unknown.
    pub async fn order(&self, command: Command) -> Result<Bytes, KitError> {
        self.begin(command).await
    }

    /// As [`Self::order`], but the command has its place in the order from this call on, before the future is awaited.
    pub fn begin(&self, command: Command) -> impl Future<Output = Result<Bytes, KitError>> + Send + 'static {
        let bytes = command.len();
        let (reply, answer) = oneshot::channel();
        let begun = if self.waiting.fetch_add(bytes, Ordering::Relaxed) + bytes > WAITING_BYTES_MAX {
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
            command.line.iter().for_each(Line::cut);
            Err(KitError::Full)
        } else {
            self.jobs.send(Job { command, reply }).map_err(|_| KitError::Stopped)
        };
        async move {
            begun?;
            answer.await.map_err(|_| KitError::Stopped)?
        }
    }

    /// Reads a state that includes every acknowledged change. The read may be joined with others that wait.
    ///
    /// # Errors
    /// When there is no reply.
    pub async fn read(&self, query: Vec<u8>) -> Result<Bytes, KitError> {
        let (reply, answer) = oneshot::channel();
        self.questions.send(Question { query, reply }).map_err(|_| KitError::Stopped)?;
        answer.await.map_err(|_| KitError::Stopped)?
    }

    /// As [`Self::read`], but not joined with others, so that there is more room for the reply.
    ///
    /// # Errors
    /// When there is no reply.
    pub async fn read_alone(&self, query: Vec<u8>) -> Result<Bytes, KitError> {
        self.ask(query, ReadOptions::STRONG).await
    }

    /// Reads this member's state, once it is as new as what clients of this front were told.
    ///
    /// # Errors
    /// When there is no reply.
    pub async fn read_here(&self, query: Vec<u8>) -> Result<Bytes, KitError> {
        self.ask(query, ReadOptions { replica: Some(self.own), ..ReadOptions::SESSION }).await
    }

    /// Reads this member's state, however old.
    ///
    /// # Errors
    /// When there is no reply.
    pub async fn look(&self, query: Vec<u8>) -> Result<Bytes, KitError> {
        self.ask(query, ReadOptions { replica: Some(self.own), ..ReadOptions::WEAK }).await
    }

    /// The newest seq of which clients of this front were told.
    pub fn newest(&self) -> Seq {
        self.client.newest()
    }

    async fn ask(&self, query: Vec<u8>, options: ReadOptions) -> Result<Bytes, KitError> {
        Ok(self.client.read(query, options).await?.body)
    }
}

/// Joins strong reads that wait while others are under way. The joined read is correct for each of them, since all began before it is sent.
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

/// Collects commands into requests.
struct Batcher {
    client: Client,
    waiting: Arc<AtomicUsize>,
    permits: Arc<Semaphore>,
    /// The commands of one request; the memory is used again.
    commands: ItemsBuilder,
    session: Option<Arc<Session>>,
    /// How many sessions ended or broke. A session is replaced only once.
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
        // A command that must go alone and came while the request before was filled.
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
            // Before lines are looked at: they may be cut meanwhile.
            let session = match self.session().await {
                Ok(session) => session,
                Err(why) => {
                    let Job { command, reply } = first;
                    self.waiting.fetch_sub(command.len(), Ordering::Relaxed);
                    fail(vec![Caller { reply, line: command.line }], &why);
                    continue;
                }
            };
            let (replies, left) = self.fill(first, &mut inbox);
            next = left;
            if replies.is_empty() {
                continue;
            }
            let mut encoded = Vec::with_capacity(self.commands.encoded_len());
            self.commands.write_to(&mut encoded);
            let mut call = Box::pin(session.call(Encoded::from_bytes(encoded.into())));
            let broken = self.broken.clone();
            let generation = self.replaced;
            let end = move |result: Result<Replies, Error>| {
                if let Err(error) = &result {
                    // Before another request can be made.
                    replies.iter().filter_map(|caller| caller.line.as_ref()).for_each(Line::cut);
                    if is_end_of_session(error) {
                        broken.fetch_max(generation + 1, Ordering::Relaxed);
                    }
                }
                drop(permit);
                answer(replies, result);
            };
            // A call that is refused at once must cut its lines before the next request is filled.
            match poll_fn(|now| Poll::Ready(call.as_mut().poll(now))).await {
                Poll::Ready(result) => end(result),
                Poll::Pending => drop(tokio::spawn(async move { end(call.await) })),
            }
        }
    }

    /// Fills a request, from this command on. Returns who waits for the replies, and a command that must go alone, if that ended it.
    fn fill(&mut self, first: Job, inbox: &mut mpsc::UnboundedReceiver<Job>) -> (Vec<Caller>, Option<Job>) {
        self.commands.clear();
        let (mut callers, mut left, mut bytes, mut job) = (Vec::new(), None, 0, Some(first));
        while let Some(Job { command, reply }) = job.take() {
            if command.line.as_ref().is_some_and(Line::is_cut) {
                self.waiting.fetch_sub(command.len(), Ordering::Relaxed);
                let _ = reply.send(Err(KitError::Cut));
                job = inbox.try_recv().ok();
                continue;
            }
            let alone = command.alone;
            if alone && !callers.is_empty() {
                left = Some(Job { command, reply });
                break;
            }
            bytes += command.len();
            self.commands.push_with(|out| {
                out.extend_from_slice(&command.head);
                out.extend_from_slice(&command.body);
            });
            callers.push(Caller { reply, line: command.line });
            if alone || bytes >= REQUEST_BYTES || callers.len() == REQUEST_COMMANDS {
                break;
            }
            job = inbox.try_recv().ok();
        }
        self.waiting.fetch_sub(bytes, Ordering::Relaxed);
        (callers, left)
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

/// Who waits for a reply.
struct Caller {
    reply: oneshot::Sender<Result<Bytes, KitError>>,
    line: Option<Line>,
}

fn fail(callers: Vec<Caller>, why: &KitError) {
    for caller in callers {
        caller.line.iter().for_each(Line::cut);
        drop(caller.reply.send(Err(why.clone())));
    }
}

fn answer(callers: Vec<Caller>, result: Result<Replies, Error>) {
    match result {
        Ok(replies) => {
            // The replies are not copied: they share one buffer, which lives until the last caller drops its reply.
            let with_replies = callers.into_iter().zip(replies.slices());
            with_replies.for_each(|(caller, reply)| drop(caller.reply.send(Ok(reply))));
        }
        Err(error) => fail(callers, &error.into()),
    }
}
