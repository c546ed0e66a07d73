//! Why a call ended without its replies. Every error says whether the commands may have run.

use quorate_types::ReplicaId;
use std::fmt;

/// Why a call, read or session did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// No answer came in time.
    DeadlineExceeded {
        /// The commands may have run, or may still run.
        outcome_unknown: bool,
        /// Why there was no answer, as far as the client knows.
        detail: String,
    },
    /// The cluster, or this client's own queue, had no room until the deadline.
    Overloaded {
        /// The commands may have run, or may still run.
        outcome_unknown: bool,
    },
    /// The disks of the cluster had no room for writes until the deadline.
    DiskFull {
        /// The commands may have run, or may still run.
        outcome_unknown: bool,
    },
    /// The session is over: it was idle for too long, or had to make room. Nothing of it is ever repeated.
    SessionExpired {
        /// The commands may have run.
        outcome_unknown: bool,
    },
    /// The session was closed here before.
    SessionClosed,
    /// The cluster opens no more sessions now, for this client or for any.
    SessionLimit,
    /// Replica and client disagree about what the session did, so the client gives the session up.
    SessionBroken {
        /// The commands may have run.
        outcome_unknown: bool,
        /// What they disagree about.
        detail: String,
    },
    /// The commands or the query are over a size limit.
    TooLarge {
        /// The commands may have run.
        outcome_unknown: bool,
        /// The limit, as text.
        detail: String,
    },
    /// This client has no right to do that. An operator grants rights (`[access]` in the replicas' configuration).
    Forbidden {
        /// The commands may have run.
        outcome_unknown: bool,
    },
    /// The commands ran, and their replies are lost.
    ReplyForgotten,
    /// The bytes that were handed in are not a list of commands.
    Malformed(&'static str),
    /// There is no such member.
    UnknownReplica(ReplicaId),
    /// Every replica refused the connection.
    Refused {
        /// The last replica that refused.
        replica: ReplicaId,
        /// Its reason, and what to do.
        text: String,
    },
    /// A replica could not be reached, or did not answer as it must.
    Connection {
        /// The replica.
        replica: ReplicaId,
        /// The event, as text.
        text: String,
    },
    /// The client was stopped.
    Stopped {
        /// The commands may have run, or may still run.
        outcome_unknown: bool,
    },
}

impl Error {
    /// Whether the commands may have run in spite of the error. If not, they did not run and never will, except after
    /// [`Error::ReplyForgotten`]: then they did run.
    pub const fn is_outcome_unknown(&self) -> bool {
        match self {
            Self::DeadlineExceeded { outcome_unknown, .. }
            | Self::Overloaded { outcome_unknown }
            | Self::DiskFull { outcome_unknown }
            | Self::SessionExpired { outcome_unknown }
            | Self::SessionBroken { outcome_unknown, .. }
            | Self::TooLarge { outcome_unknown, .. }
            | Self::Forbidden { outcome_unknown }
            | Self::Stopped { outcome_unknown } => *outcome_unknown,
            Self::SessionClosed
            | Self::SessionLimit
            | Self::ReplyForgotten
            | Self::Malformed(_)
            | Self::UnknownReplica(_)
            | Self::Refused { .. }
            | Self::Connection { .. } => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DeadlineExceeded { detail, .. } if detail.is_empty() => write!(f, "no answer in time"),
            Self::DeadlineExceeded { detail, .. } => write!(f, "no answer in time: {detail}"),
            Self::Overloaded { .. } => write!(f, "no room for more requests now; try again later"),
            Self::DiskFull { .. } => write!(f, "the cluster's disks have no room for writes; free some"),
            Self::SessionExpired { .. } => write!(f, "the session expired; open a new one"),
            Self::SessionClosed => write!(f, "the session is closed"),
            Self::SessionLimit => {
                write!(
                    f,
                    "the cluster opens no more sessions now; close some, or wait until idle ones expire"
                )
            }
            Self::SessionBroken { detail, .. } => write!(f, "the session is of no use any more: {detail}"),
            Self::TooLarge { detail, .. } => write!(f, "too large: {detail}"),
            Self::Forbidden { .. } => {
                write!(
                    f,
                    "this client may not do that; `[access]` in the replicas' configuration says who may do what"
                )
            }
            Self::ReplyForgotten => {
                write!(f, "the commands ran, but the cluster no longer has their replies")
            }
            Self::Malformed(what) => write!(f, "malformed commands: {what}"),
            Self::UnknownReplica(replica) => write!(f, "{replica} is no member of the cluster"),
            Self::Refused { replica, text } => write!(f, "{replica} refused the connection: {text}"),
            Self::Connection { replica, text } => write!(f, "{replica}: {text}"),
            Self::Stopped { .. } => write!(f, "the client was stopped"),
        }?;
        if self.is_outcome_unknown() { write!(f, " (the commands may have run)") } else { Ok(()) }
    }
}

impl std::error::Error for Error {}
