//! The three kinds of failure, which are never mixed. If a peer or client sent something bad, it is a [`Reject`]. If this replica's disk
//! can not be trusted any more, or the service panicked, it is a [`Halt`]. A bug of this program is an `assert!` with the invariant's name.

use crate::service::ServiceVersion;
use crate::{ClientId, RequestNumber, Seq};
use std::fmt;

/// A peer or client sent something unacceptable. It is counted, answered or dropped, and never fatal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reject {
    /// The bytes can not be decoded; the text says which part of what.
    Malformed(&'static str),
    /// A limit is exceeded.
    TooLarge {
        /// The thing that is too large.
        what: &'static str,
        /// The size that was announced, in bytes or items.
        size: u64,
        /// The largest size accepted.
        max: u64,
    },
    /// The sender may not send this on this connection.
    NotAllowed(&'static str),
    /// The sender is not a member, or not the member that it says it is.
    UnknownPeer,
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(what) => write!(f, "malformed {what}"),
            Self::TooLarge { what, size, max } => write!(f, "{what} of {size} is over the limit of {max}"),
            Self::NotAllowed(what) => write!(f, "{what} is not allowed on this connection"),
            Self::UnknownPeer => write!(f, "the sender is no member of this cluster"),
        }
    }
}

impl std::error::Error for Reject {}

/// This machine's storage can no longer be trusted, or this replica can not go on for another reason. The host stops this replica and prints the remedy; the other replicas continue without
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Halt {
    /// A write or sync of the log failed. It is never retried: what reached the disk is unknown.
    LogWriteFailed {
        /// What the operating system said.
        why: String,
    },
    /// The log is damaged below the highest position that was synced: not a torn tail, but rot.
    LogCorrupt {
        /// Byte position in the log where the damage begins.
        position: u64,
        /// What is wrong there.
        why: String,
    },
    /// The state can not be built from a checkpoint, although its digest is right.
    CheckpointUnusable {
        /// The error as text.
        why: String,
    },
    /// The cluster works at a feature level that this program can not work at.
    FeatureLevel {
        /// The cluster's level.
        cluster: u32,
        /// The lowest level of this program.
        lowest: u32,
        /// The highest.
        highest: u32,
    },
    /// The cluster's service is at a version that this program does not have.
    ServiceLevel {
        /// The cluster's service level.
        level: u32,
        /// The service of this program.
        program: ServiceVersion,
    },
    /// The state on this disk, or the configuration, is that of another service than this program's.
    OtherService {
        /// The service whose state it is.
        state: String,
        /// The service that this replica was to run.
        here: String,
    },
    /// Another era begins, and its first state is durable: this replica has to start again, and goes on in it.
    EraBegins {
        /// The number of the era.
        number: u64,
    },
    /// The service panicked while it executed a command.
    ServicePanicked {
        /// The seq of the command's batch.
        seq: Seq,
        /// The client, and the number of its request, where that is known; none when a deadline was reached.
        request: Option<(ClientId, Option<RequestNumber>)>,
        /// The bytes of the request's commands together.
        bytes: usize,
        /// What the panic said.
        why: String,
    },
    /// A record that was read back contradicts what is known.
    LogInconsistent {
        /// The contradiction.
        why: String,
    },
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LogWriteFailed { why } => write!(
                f,
                "writing the log failed: {why}. This replica stops, since it can not know what reached the disk; the \
                 others go on. Repair or replace the disk, then start the replica again: it reads back what is there"
            ),
            Self::LogCorrupt { position, why } => write!(
                f,
                "the log is damaged at byte {position}: {why}. The damage lies below data that was synced, so votes \
                 may be lost. Do not delete the directory and start again under the same id: the replica could vote \
                 twice. Restore this directory from before the damage only if the replica did not run since, or \
                 set up a replacement"
            ),
            Self::CheckpointUnusable { why } => write!(
                f,
                "{why}. This replica stops; the others go on. If they run another version of this program, start that one here; \
                 otherwise keep the directory for examination and report it"
            ),
            Self::FeatureLevel { cluster, lowest, highest } => {
                let remedy = if cluster > highest {
                    "Start the newer program again: from the moment on at which the level was raised there is no way back"
                } else {
                    "Start a program of the version before, and raise the cluster's level with it first (`quorate upgrade`)"
                };
                write!(
                    f,
                    "the cluster works at feature level {cluster}, this program can work at {lowest} to {highest}. {remedy}"
                )
            }
            Self::ServiceLevel { level, program: ServiceVersion { name, version } } => write!(
                f,
                "the service {name:?} is at version {level}, and this program has version {version} at most: this replica executes nothing. Start \
                 the newer program again: there is no way back behind the raise (`quorate upgrade status` shows what runs where)"
            ),
            Self::OtherService { state, here } => write!(
                f,
                "the state here is that of the service {state}, and this replica was to run the service {here}: start the program of {state}, \
                 with name = \"{state}\" in [service]"
            ),
            Self::EraBegins { number } => write!(
                f,
                "era {number} of the cluster begins, and everything for it is on this disk. Start the replica again: it goes on in that era"
            ),
            Self::ServicePanicked { .. } => self.fmt_panicked(f),
            Self::LogInconsistent { why } => write!(
                f,
                "the log does not fit together: {why}. This replica stops; the others go on. Keep the directory for \
                 examination and report it"
            ),
        }
    }
}

impl Halt {
    fn fmt_panicked(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::ServicePanicked { seq, request, bytes, why } = self else { return Ok(()) };
        write!(f, "the service panicked at seq {}, ", seq.number())?;
        match request {
            Some((client, number)) => {
                let number = number
                    .map_or_else(|| "a request".to_owned(), |number| format!("request {}", number.number()));
                write!(f, "in {number} of client {}, which has {bytes} bytes", client.number())?;
            }
            None => f.write_str("when a deadline was reached")?,
        }
        write!(
            f,
            ": {why}. Each replica that comes to this place stops in the same way, also when it is started again. Start all of them with a \
             program whose service does not panic there: none has executed it, so they go on from there"
        )
    }
}

impl std::error::Error for Halt {}
