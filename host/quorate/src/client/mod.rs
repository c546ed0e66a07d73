//! The client: sessions that run commands exactly once, reads, and operators' requests.
//!
//! One thread owns all connections (`thread.rs`, `driver.rs`); the logic is the crate `quorate-client`. Futures need no particular
//! runtime; [`BlockingClient`] waits on the calling thread; [`Client::submit`] with a [`CompletionQueue`] serves programs
//! with thousands of calls under way.
//!
//! An [`Error`] says whether the commands may have run ([`Error::is_outcome_unknown`]). Tests: tests/all/client.rs.

mod admin;
mod authentication;
mod blocking;
mod builder;
mod commands;
mod completions;
mod driver;
mod file;
mod follow;
mod letters;
mod oneshot;
mod replies;
mod resolve;
mod session;
mod socket;
mod thread;
mod tls;
mod typed;

pub use admin::{AdminConnection, AdminSender, REFUSED};
pub use authentication::Authentication;
pub use blocking::{BlockingClient, BlockingSession};
pub use builder::{BuildError, ClientBuilder};
pub use commands::{Commands, Encoded, Replies};
pub use completions::{Answer, Completed, CompletionQueue};
pub use file::{ClientFile, ClientFileError, ClientFiles};
pub use follow::{History, NotFollowed};
pub use letters::{LetterQueue, NextLetter, ReceivedLetter};
pub use quorate_client::{Combiner, Error, LetterLimits, ReadConsistency, ReplicaReply};
pub use quorate_tls::{Credentials, CredentialsError, TlsFiles};
pub use quorate_types::{ClientId, ClusterId, FaultModel, ReplicaId, RequestNumber, Seq, SessionId};
pub use quorate_wire::ReplyStatus;
pub use replies::{ReplyListener, ReplyWatch, WatchedReply};
pub use session::{CallFuture, Session};
pub use typed::{BlockingTypedSession, TypedCallError, TypedSession};

use admin::Question;
use bytes::Bytes;
use driver::{Ask, Handle, Waiter};
use oneshot::Waiting;
use quorate_client::Completion;
use quorate_types::ServiceName;
use quorate_wire::FrameKind;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use tls::ClientTls;

/// How to read.
///
/// Where replicas may lie ([`ClientBuilder::fault_model`]) all reads are as strong as strong ones: a quorum gives the same answer, or they
/// are ordered like commands and f+1 replicas give the same answer. The exception are weak reads of one [replica](Self::replica), whose
/// answer is that replica's own word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOptions {
    /// How up to date the answer must be.
    pub consistency: ReadConsistency,
    /// The answer must be at least as new as this seq. Passes on what another client has seen.
    pub after: Seq,
    /// Read only from this replica; from any if `None`.
    pub replica: Option<ReplicaId>,
    /// How long to wait for the answer; the client's own time-out if `None`.
    pub timeout: Option<Duration>,
}

impl ReadOptions {
    /// Sees every write, of any client, that was acknowledged before the read began. Needs a majority.
    pub const STRONG: Self = Self::with(ReadConsistency::Strong);
    /// Sees every acknowledged write of this client (of its clones and sessions), and nothing older than its earlier reads saw, whichever
    /// replica answers. One replica suffices; a replica that is behind waits until it has executed as much, or another one answers.
    pub const SESSION: Self = Self::with(ReadConsistency::Session);
    /// The state of one replica, however old; [`ReadResult::seq`] says how old. One replica suffices, and it waits for nothing.
    pub const WEAK: Self = Self::with(ReadConsistency::Weak);

    const fn with(consistency: ReadConsistency) -> Self {
        Self { consistency, after: Seq::ZERO, replica: None, timeout: None }
    }
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self::STRONG
    }
}

/// The answer to a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadResult {
    /// The state that was read: everything up to this seq had been executed.
    pub seq: Seq,
    /// The service's answer.
    pub body: Bytes,
}

/// A connection to a cluster. Cheap to clone; clones share everything. Its thread ends with the last clone, session and
/// unfinished call.
#[derive(Clone, Debug)]
pub struct Client {
    handle: Arc<Handle>,
    members: Arc<Vec<(ReplicaId, String)>>,
    cluster: Option<ClusterId>,
    timeout: Duration,
    admin_tls: Option<ClientTls>,
}

impl Client {
    /// Begins to describe a client.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// The members that this client was given.
    pub fn members(&self) -> impl Iterator<Item = (ReplicaId, &str)> {
        self.members.iter().map(|(id, address)| (*id, address.as_str()))
    }

    /// The leader, as far as this client knows.
    pub fn leader(&self) -> Option<ReplicaId> {
        Some(self.handle.shared.leader.load(Ordering::Relaxed)).filter(|id| *id != 0).map(ReplicaId::new)
    }

    /// What the cluster calls its service, once a call was answered; `None`: nothing, or it is not known. Where replicas may lie it is never
    /// known: name the service with [`ClientBuilder::service`].
    pub fn service(&self) -> Option<&str> {
        self.handle.shared.service.get().map(ServiceName::as_str)
    }

    /// Ends a call that another service answered than the one that the caller means, if it means one.
    fn means(&self, name: &str) -> Result<(), Error> {
        match self.service().filter(|runs| !name.is_empty() && *runs != name) {
            None => Ok(()),
            Some(runs) => Err(Error::Refused {
                replica: self.leader().unwrap_or(ReplicaId::new(1)),
                text: format!("this cluster runs the service {runs}, and the client means {name}"),
            }),
        }
    }

    /// The newest state that this client knows of: a read that is not older sees all of its acknowledged writes, and what its reads saw.
    /// Give it to another client as [`ReadOptions::after`].
    pub fn newest(&self) -> Seq {
        Seq::new(self.handle.shared.newest.load(Ordering::Acquire))
    }

    /// Opens a session.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn open_session(&self) -> Result<Session, Error> {
        let deadline = self.handle.shared.deadline(self.timeout);
        match self.ask(Ask::Open { deadline }).await? {
            Completion::Opened(session, id) => Ok(Session::new(self.clone(), session, id)),
            _ => Err(Error::SessionClosed),
        }
    }

    /// Reads. The request is under way when this returns; the future waits for the answer.
    pub fn read(&self, query: impl Into<Bytes>, options: ReadOptions) -> ReadFuture {
        ReadFuture { waiting: self.ask(self.question_of(query.into(), options)) }
    }

    /// Asks each of these replicas by itself, weakly: the answer of each is the state of that replica, however old, and its own word. For
    /// comparing them; a read that must be true asks for another consistency and names no replica. All are under way when this returns.
    /// `options`: its `after` and `timeout` count.
    pub fn read_each(
        &self,
        query: impl Into<Bytes>,
        replicas: impl IntoIterator<Item = ReplicaId>,
        options: ReadOptions,
    ) -> Vec<(ReplicaId, ReadFuture)> {
        let query = query.into();
        let ask = |replica| {
            let options =
                ReadOptions { consistency: ReadConsistency::Weak, replica: Some(replica), ..options };
            (replica, self.read(query.clone(), options))
        };
        replicas.into_iter().map(ask).collect()
    }

    /// Reads and reports the end to `queue` under this tag: for many reads from one thread.
    pub fn submit_read(
        &self,
        query: impl Into<Bytes>,
        options: ReadOptions,
        tag: u64,
        queue: &CompletionQueue,
    ) {
        let ask = self.question_of(query.into(), options);
        self.handle.shared.ask(ask, Waiter::Queue { queue: Arc::clone(&queue.shared), tag });
    }

    fn question_of(&self, query: Bytes, options: ReadOptions) -> Ask {
        let deadline = self.handle.shared.deadline(options.timeout.unwrap_or(self.timeout));
        let ReadOptions { consistency, after, replica, .. } = options;
        Ask::Read { consistency, after, replica, query, deadline }
    }

    /// Runs commands in a session and reports the end to `queue` under this tag: for many calls from one thread.
    pub fn submit(&self, session: &Session, commands: impl Into<Encoded>, tag: u64, queue: &CompletionQueue) {
        let deadline = self.handle.shared.deadline(session.timeout());
        let ask = Ask::Call { session: session.handle(), commands: commands.into().0, deadline };
        self.handle.shared.ask(ask, Waiter::Queue { queue: Arc::clone(&queue.shared), tag });
    }

    /// Asks one replica for its status, a JSON document.
    ///
    /// # Errors
    /// When it can not be reached, or does not answer in time.
    pub async fn status(&self, replica: ReplicaId) -> Result<String, Error> {
        let body = self.question(replica, FrameKind::StatusRequest, Vec::new(), FrameKind::Status).await?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// Asks the leader to hand over to this member, or to the one that lacks least. Returns the leader's answer, a line of text.
    ///
    /// # Errors
    /// When no leader is known, it can not be reached, or does not answer in time.
    pub async fn transfer(&self, to: Option<ReplicaId>) -> Result<String, Error> {
        let detail = "no leader is known".to_owned();
        let leader = self.leader().ok_or(Error::DeadlineExceeded { outcome_unknown: false, detail })?;
        let payload = to.map_or(0, ReplicaId::number).to_le_bytes().to_vec();
        let body =
            self.question(leader, FrameKind::TransferRequest, payload, FrameKind::TransferReply).await?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    async fn question(
        &self,
        replica: ReplicaId,
        kind: FrameKind,
        payload: Vec<u8>,
        answer: FrameKind,
    ) -> Result<Bytes, Error> {
        let (_, address) =
            self.members.iter().find(|(id, _)| *id == replica).ok_or(Error::UnknownReplica(replica))?;
        let (address, cluster, timeout) = (address.clone(), self.cluster, self.timeout);
        let credentials = self.admin_tls.as_ref().map(ClientTls::current);
        let question = Question { replica, address, cluster, kind, payload, answer, timeout, credentials };
        let (waiting, shot) = Waiting::new(Arc::clone(&self.handle));
        quorate_tls::start_thread("quorate-admin", move || {
            let body = question.ask().map(|body| Completion::Read { seq: Seq::ZERO, body });
            // The caller may be gone by now.
            drop(shot.deliver(body));
        })
        .map_err(|error| Error::Connection { replica, text: format!("no thread to ask it: {error}") })?;
        match waiting.await? {
            Completion::Read { body, .. } => Ok(body),
            _ => Err(Error::SessionClosed),
        }
    }

    /// Queues something; the future waits for its end.
    fn ask(&self, ask: Ask) -> Waiting {
        let (waiting, shot) = Waiting::new(Arc::clone(&self.handle));
        self.handle.shared.ask(ask, Waiter::Future(shot));
        waiting
    }
}

/// Waits for the answer to one read.
#[derive(Debug)]
#[must_use = "the read is under way, but nobody gets its answer"]
pub struct ReadFuture {
    waiting: Waiting,
}

impl Future for ReadFuture {
    type Output = Result<ReadResult, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.waiting).poll(cx).map(|outcome| match outcome? {
            Completion::Read { seq, body } => Ok(ReadResult { seq, body }),
            _ => Err(Error::SessionClosed),
        })
    }
}
