//! What goes into a client and what comes out.

use crate::Error;
use bytes::Bytes;
use quorate_types::{ConnId, ReplicaId, Seq, Time};
use quorate_wire::{Frame, OutFrame};

/// The caller's own number for something it asked; comes back with the answer, exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallId(pub u64);

/// A session as this client knows it. The handle of a session that ended never names another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionHandle {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// How up to date a read is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadConsistency {
    /// Linearizable: sees every write that was acknowledged before the read was asked, whoever wrote it.
    Strong,
    /// Sees every write that this client knows to be done, and nothing older than what it read before, also at another replica.
    /// Others' newest writes may be missing.
    Session,
    /// A consistent state of one replica, however old; the answer says of which seq.
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
    /// Run commands, all or nothing, after everything that was asked in this session before.
    Call {
        /// The caller's number for it.
        call: CallId,
        /// In which session.
        session: SessionHandle,
        /// An encoded item list ([`quorate_types::Items`]).
        commands: Bytes,
        /// When the caller gives up.
        deadline: Option<Time>,
    },
    /// Close a session, after everything that was asked in it before.
    Close {
        /// The caller's number for it, if it cares.
        call: Option<CallId>,
        /// Which session.
        session: SessionHandle,
        /// When to forget the session even if the cluster did not answer; it expires there by itself.
        deadline: Option<Time>,
    },
    /// Read.
    Read {
        /// The caller's number for it.
        call: CallId,
        /// Whose reads these are: the session reads of one reader never go back in time.
        reader: u64,
        /// How up to date.
        consistency: ReadConsistency,
        /// The answer is at least as new as this, whoever saw it.
        after: Seq,
        /// Only from this replica. Where replicas may lie, weak reads only: all others are ordered, and answered by several.
        replica: Option<ReplicaId>,
        /// What the service is asked.
        query: Bytes,
        /// When the caller gives up.
        deadline: Option<Time>,
    },
    /// This reader ends; what it saw may be forgotten.
    ForgetReader(u64),
    /// Nothing more will be read: what is kept in the cluster for reads is given up. Reading anew is no mistake.
    EndReads,
    /// A connection that was dialed exists.
    Connected(ConnId),
    /// A connection could not be made, or is gone.
    Closed {
        /// Which.
        conn: ConnId,
        /// Why, for people.
        why: String,
    },
    /// A frame arrived.
    Frame {
        /// On which connection.
        conn: ConnId,
        /// The frame.
        frame: Frame,
    },
    /// So many bytes of what was sent left for the socket.
    Written {
        /// On which connection.
        conn: ConnId,
        /// How many bytes, headers of frames included.
        bytes: usize,
    },
    /// The moment that [`crate::ClientCore::deadline`] named has come.
    Deadline,
    /// Answer everything now: the client ends.
    Stop,
}

/// How something that was asked ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The session is open.
    Opened(SessionHandle),
    /// The commands ran; an encoded item list of their replies. It shares the memory of the frame it came in.
    Replies(Bytes),
    /// The session is closed.
    Closed,
    /// The read was answered.
    Read {
        /// Everything up to this seq had been executed.
        seq: Seq,
        /// What the service answered.
        body: Bytes,
    },
}

/// One thing that the host is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Make a connection; answer with [`Input::Connected`] or [`Input::Closed`].
    Dial {
        /// The number of the connection; never used twice.
        conn: ConnId,
        /// To whom.
        replica: ReplicaId,
    },
    /// A replica is reached there from now on.
    Address {
        /// Who; perhaps nobody knew it before.
        replica: ReplicaId,
        /// Host and port.
        address: String,
    },
    /// Close this connection, or stop making it; nothing more is said about it.
    Close(ConnId),
    /// Send a frame.
    Send {
        /// On which connection.
        conn: ConnId,
        /// The frame.
        frame: OutFrame,
    },
    /// Something that was asked has ended.
    Completed {
        /// The caller's number.
        call: CallId,
        /// How.
        result: Result<Completion, Error>,
    },
    /// A replica could not be reached, refused, or misbehaved. For logs: the client goes on by itself.
    Problem {
        /// Who.
        replica: ReplicaId,
        /// What happened.
        text: String,
    },
    /// Requests go to this replica from now on, or to nobody yet.
    Leader(Option<ReplicaId>),
}

/// The list of effects that one or several steps appended, reused from step to step.
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
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
    pub(crate) fn complete(&mut self, call: Option<CallId>, result: Result<Completion, Error>) {
        if let Some(call) = call {
            self.push(Effect::Completed { call, result });
        }
    }
}
