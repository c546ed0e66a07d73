//! The inputs and effects of a client.

use crate::Error;
use crate::votes::is_final;
use bytes::Bytes;
use quorate_types::{ConnId, Digest, ReplicaId, RequestNumber, Seq, SessionId, Time};
use quorate_wire::{Frame, OutFrame, Reply, ReplyStatus, reply_digest};

/// The caller's own number for something it asked. The answer carries it, and it comes exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallId(pub u64);

/// A session of this client. A handle is never used again for another session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionHandle {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// How recent the state is from which a read is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadConsistency {
    /// Linearizable: sees every write, of any client, that was acknowledged before the read began.
    Strong,
    /// Sees every write that this client knows to be done, and nothing older than its earlier reads saw, even at another replica. Other
    /// clients' newest writes may be missing.
    Session,
    /// A consistent state of one replica, however old. The answer names its seq.
    Weak,
}

/// What a client reacts to.
#[derive(Clone, Debug)]
pub enum Input {
    /// Open a session.
    Open {
        /// The caller's number for it.
        call: CallId,
        /// When the caller gives up.
        deadline: Option<Time>,
    },
    /// Run commands, all or none, after everything asked earlier in this session.
    Call {
        /// The caller's number for it.
        call: CallId,
        /// The session.
        session: SessionHandle,
        /// An encoded item list ([`quorate_types::Items`]).
        commands: Bytes,
        /// When the caller gives up.
        deadline: Option<Time>,
    },
    /// Close a session, after everything asked earlier in it.
    Close {
        /// The caller's number for it, if the caller wants an answer.
        call: Option<CallId>,
        /// The session.
        session: SessionHandle,
        /// When to forget the session even without an answer; the cluster then lets it expire.
        deadline: Option<Time>,
    },
    /// Read.
    Read {
        /// The caller's number for it.
        call: CallId,
        /// The reader; one reader's session reads never go back in time.
        reader: u64,
        /// How recent the state must be.
        consistency: ReadConsistency,
        /// The answer must be at least as new as this seq.
        after: Seq,
        /// Ask only this replica. Where replicas may lie, only for weak reads: all other reads are ordered, and answered by several
        /// replicas.
        replica: Option<ReplicaId>,
        /// The query for the service.
        query: Bytes,
        /// When the caller gives up.
        deadline: Option<Time>,
    },
    /// This reader ends, so what it saw may be forgotten.
    ForgetReader(u64),
    /// No more reads will come: what the client keeps in the cluster for reads is closed. Reading again later is allowed.
    EndReads,
    /// A dialed connection exists.
    Connected(ConnId),
    /// A connection could not be made, or is lost.
    Closed {
        /// The connection.
        conn: ConnId,
        /// The reason, as text.
        why: String,
    },
    /// A frame arrived.
    Frame {
        /// The connection.
        conn: ConnId,
        /// The frame.
        frame: Frame,
    },
    /// This many bytes of what was sent were written to the socket.
    Written {
        /// The connection.
        conn: ConnId,
        /// How many bytes, with the headers of frames.
        bytes: usize,
    },
    /// The moment that [`crate::ClientCore::deadline`] named has come.
    Deadline,
    /// The client ends: answer everything now.
    Stop,
}

/// The result of something that was asked and succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The session is open, and this is its id in the cluster.
    Opened(SessionHandle, SessionId),
    /// The commands ran. This is an encoded item list of their replies, which shares the memory of the frame it came in.
    Replies(Bytes),
    /// The session is closed.
    Closed,
    /// The read was answered.
    Read {
        /// The seq of the state: everything up to it had been executed.
        seq: Seq,
        /// The service's answer.
        body: Bytes,
    },
}

/// One member's reply to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaReply {
    /// The member.
    pub replica: ReplicaId,
    /// The session of the request.
    pub session: SessionId,
    /// The number of the request in the session. A session's calls are numbered from 1, in the order in which they were made.
    pub number: RequestNumber,
    /// How the member says that the request ended. A refusal is not the end: the request is sent again.
    pub status: ReplyStatus,
    /// The encoded list of replies ([`quorate_types::Items`]), its digest ([`ReplyStatus::DoneDigest`]), or what belongs to the status.
    pub body: Bytes,
}

impl ReplicaReply {
    /// Whether the member says how the request ended, rather than that it does not take it now.
    pub fn is_end(&self) -> bool {
        is_final(&self.reply())
    }

    /// The digest of what the member said: of its replies, if it sent those or their digest.
    pub fn digest(&self) -> Digest {
        match (self.status, <[u8; Digest::BYTES]>::try_from(&self.body[..])) {
            (ReplyStatus::DoneDigest, Ok(digest)) => Digest::new(digest),
            _ => reply_digest(&self.body),
        }
    }

    fn reply(&self) -> Reply<'_> {
        let Self { session, number, status, ref body, .. } = *self;
        Reply { session, number, status, body }
    }
}

/// One thing that the host is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Make a connection; answer with [`Input::Connected`] or [`Input::Closed`].
    Dial {
        /// The number of the connection, which is never used again.
        conn: ConnId,
        /// The replica.
        replica: ReplicaId,
    },
    /// From now on a replica is reached at this address.
    Address {
        /// The replica, which may be new to the host.
        replica: ReplicaId,
        /// Host and port.
        address: String,
    },
    /// Close this connection, or stop making it. The host need not report anything more about it.
    Close(ConnId),
    /// Send a frame.
    Send {
        /// The connection.
        conn: ConnId,
        /// The frame.
        frame: OutFrame,
    },
    /// Something that was asked has ended.
    Completed {
        /// The caller's number.
        call: CallId,
        /// The result.
        result: Result<Completion, Error>,
    },
    /// A replica could not be reached, refused the client, or misbehaved. For logs; the client handles it.
    Problem {
        /// The replica.
        replica: ReplicaId,
        /// The event, as text.
        text: String,
    },
    /// A member answered a request of this client, if [`Config::tells_replies`](crate::Config::tells_replies). It may lie, and it may come after the answer that
    /// counts.
    Replied(ReplicaReply),
    /// This is the answer that counts to a request of this client, if [`Config::tells_replies`](crate::Config::tells_replies).
    Believed {
        /// The session of the request.
        session: SessionId,
        /// Its number there.
        number: RequestNumber,
        /// The encoded list of replies, unless the request ended without.
        replies: Option<Bytes>,
    },
    /// A letter of the service to a session of this client, if [`Config::letters`](crate::Config::letters).
    Letter {
        /// The session.
        session: SessionId,
        /// The number of the letter in the session, from 1.
        number: u64,
        /// How many letters before it, and after the one that was passed on last, are lost.
        missed: u64,
        /// What the service says.
        body: Bytes,
    },
    /// From now on requests go to this replica first, or no leader is known.
    Leader(Option<ReplicaId>),
}

/// The list to which one or several steps append their effects. It is reused from step to step.
#[derive(Debug, Default)]
pub struct Effects {
    list: Vec<Effect>,
}

impl Effects {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }
    /// Appends one effect.
    pub fn push(&mut self, effect: Effect) {
        self.list.push(effect);
    }
    /// Takes all effects, in order.
    pub fn drain(&mut self) -> impl Iterator<Item = Effect> {
        self.list.drain(..)
    }
    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
    pub(crate) fn complete(&mut self, call: Option<CallId>, result: Result<Completion, Error>) {
        if let Some(call) = call {
            self.push(Effect::Completed { call, result });
        }
    }
}
