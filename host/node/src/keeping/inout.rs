//! The inputs and effects of keeping.

use super::transfer::{Found, Installing, Need, Unfit, Why};
use crate::config::NodeConfig;
use crate::effects::KeeperWork;
use crate::engine::Engine;
use crate::eras::Eras;
use crate::group::Groups;
use crate::journal::Journal;
use crate::roster::Roster;
use crate::system::System;
use quorate_execute::Differs;
use quorate_log::{Rot, ScrubOk};
use quorate_state::agreement::DigestEvent;
use quorate_state::checkpoint::{Digests, Image, Job, Report};
use quorate_state::store::Version;
use quorate_types::{AgreedTime, ConnId, Digest, Halt, ReplicaId, Seq, Slot};
use quorate_wire::StateMessage;

/// The other parts, as keeping may read them.
#[derive(Clone, Copy)]
pub(crate) struct Look<'a> {
    pub(crate) config: &'a NodeConfig,
    pub(crate) eras: &'a Eras,
    pub(crate) groups: &'a Groups,
    pub(crate) engine: &'a Engine,
    pub(crate) journal: &'a Journal,
    pub(crate) roster: &'a Roster,
}

impl Look<'_> {
    /// The facts about them that keeping needs.
    pub(crate) fn facts(&self) -> Facts {
        let (log, first) = (self.journal.log(), self.groups.first());
        let first_segment = log.first_segment();
        Facts {
            begun: first.has_started(),
            leader: first.leader(),
            instances: self.groups.len(),
            delivered: self.engine.agreed().seq(),
            time: self.engine.agreed().time(),
            merged: self.engine.merge().seq(),
            log: (first_segment * log.segment_bytes(), log.position()),
            first_segment,
            disk_full: self.journal.disk().is_full(),
        }
    }
}

/// Facts about the rest of the replica, read anew for each step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// Whether this replica takes part in agreement.
    pub(crate) begun: bool,
    /// The leader that the first instance announced last.
    pub(crate) leader: Option<ReplicaId>,
    /// How many instances there are.
    pub(crate) instances: usize,
    /// The last seq that was delivered to execution.
    pub(crate) delivered: Seq,
    /// The agreed time there.
    pub(crate) time: AgreedTime,
    /// The last seq that the merge delivered.
    pub(crate) merged: Seq,
    /// The bytes at which the log begins and ends.
    pub(crate) log: (u64, u64),
    /// The first segment of the log.
    pub(crate) first_segment: u64,
    /// Whether there is no room for another segment.
    pub(crate) disk_full: bool,
}

/// An input of keeping.
pub(crate) enum In {
    /// The replica begins.
    Begin,
    /// A batch was delivered to execution.
    Delivered {
        seq: Seq,
        /// The size of the batch.
        bytes: u64,
        /// Whether it asks for a border.
        asks: bool,
        /// Whether a border may come here: the state at the one before is an image already.
        settled: bool,
        /// Whether an era ends here, and a border comes whatever was before.
        ends: bool,
    },
    /// The results here are not those that were ruled.
    Differs(Differs),
    /// The state at a border: the answer to [`Out::Capture`]. `records`: the last record of each instance in it.
    Captured { image: Box<Image>, records: Vec<Slot> },
    /// The service can not give its state, for the reason in words.
    NotCaptured { seq: Seq, why: String },
    /// A report of the keeper.
    Kept(Report),
    /// A message of a member.
    Heard { from: ReplicaId, message: StateMessage },
    /// An operator asks for a checkpoint, to make a backup. The operator is served like a member, under an id of its own.
    Asked {
        conn: ConnId,
        /// The ids of the members, which are taken.
        members: Vec<ReplicaId>,
        message: StateMessage,
    },
    /// A connection ended; it may be an operator's.
    Left(ConnId),
    /// A member is connected: it is told what this replica said while it was away.
    Connected(ReplicaId),
    /// A member is gone.
    Disconnected(ReplicaId),
    /// The members have changed. What the voters say counts.
    Members { voters: Vec<ReplicaId>, others: Vec<ReplicaId> },
    /// Other sets of few members are enough for now than before; see [`super::Keeping::few_are_enough`].
    Few,
    /// A leader's log does not go back to what this replica lacks: it needs a checkpoint of this seq or later.
    Behind(Seq),
    /// The other replicas went on without something that this one waits for: a checkpoint of this seq or later would do.
    LeftBehind(Seq),
    /// The log does not hold everything that this replica acknowledged, or does not begin where a checkpoint ends. A checkpoint of this seq
    /// or later is needed.
    Lacks { at_least: Seq, why: Why },
    /// Begin to fetch a checkpoint from these connected members: the answer to [`Out::Fetch`].
    Fetch { need: Need, connected: Vec<ReplicaId> },
    /// Whether this replica can go on from a fetched checkpoint: the answer to [`Out::Examine`].
    Examined { found: Box<Found>, verdict: Result<Box<System>, Unfit> },
    /// Execution goes on from a fetched checkpoint: the answer to [`Out::Install`].
    Installed(Installed),
    /// An operator asks to read everything at rest.
    Scrub,
    /// It may be time to read everything at rest without a request.
    ScrubInTurn,
    /// A segment of the log was read.
    Scrubbed { segment: u64, result: Result<ScrubOk, Rot> },
    /// The moment that [`super::Keeping::deadline`] named has come.
    Deadline,
    /// The rest of an input; see [`Out::Then`].
    Rest(Rest),
}

/// What is left to do of an input.
pub(crate) enum Rest {
    /// The rest of a deadline: repairs, checkpoints that could not be made durable, borders that are needed.
    Deadline,
    /// The rest of [`In::Behind`] for this seq.
    Behind(Seq),
    /// More facts about borders.
    Verdicts(Vec<DigestEvent>),
    /// The checkpoint of this seq is durable.
    Written { seq: Seq, digest: Digest },
    /// The log may be ready to be trimmed.
    Trim,
}

/// A checkpoint from which execution goes on.
pub(crate) struct Installed {
    pub(crate) seq: Seq,
    pub(crate) border: u64,
    pub(crate) digests: Digests,
    /// Why the checkpoint was fetched.
    pub(crate) why: Why,
    /// The bytes of its objects.
    pub(crate) bytes: u64,
    /// The last record of each instance in it.
    pub(crate) records: Vec<Slot>,
}

/// An effect; effects are carried out in order.
pub(crate) enum Out {
    /// Work for the keeper.
    Keep(KeeperWork),
    /// Drop a version that is no longer needed.
    Release(Version),
    /// Send a message to a member.
    Send { to: ReplicaId, message: StateMessage },
    /// Send a message to an operator.
    Answer { conn: ConnId, message: StateMessage },
    /// Send a message to all other members.
    Tell(StateMessage),
    /// Close the connection of an operator that broke the rules.
    Reject { conn: ConnId, why: &'static str },
    /// Count wrong bytes of a member.
    CountWrong,
    /// Tell operators; `bad`: something is wrong.
    Say { text: String, bad: bool },
    /// Stop this replica.
    Halt(Halt),
    /// A border comes near: copy a part of the state that the service keeps by itself.
    CopyAhead,
    /// Begin to capture the present state for the border with this number.
    CaptureAhead(u64),
    /// The border with this number is reached: give the state ([`In::Captured`]).
    Capture { border: u64, seq: Seq },
    /// A checkpoint is needed: add what is here already, and begin to fetch it ([`In::Fetch`]).
    Fetch(Need),
    /// Check whether this replica can go on from this checkpoint ([`In::Examined`]).
    Examine(Box<Found>),
    /// This checkpoint is durable: go on from it ([`In::Installed`]).
    Install(Box<Installing>),
    /// This replica's state is wrong: hand its instances over.
    HandOver,
    /// Trim the log up to this checkpoint ([`super::Keeping::trimmed`]), which holds these last records of the instances.
    Trim { seq: Seq, records: Vec<Slot> },
    /// Read this segment of the log, or the first one if it is gone ([`super::Keeping::reads`]).
    ReadSegment(u64),
    /// Step keeping with this once all effects before it are carried out: the rest depends on them.
    Then(Rest),
}

impl Out {
    /// A job for the keeper during which the lane goes on.
    pub(super) fn job(job: Job) -> Self {
        Self::Keep(KeeperWork { job, stops: false })
    }

    /// The job to drop the stored parts of a transfer.
    pub(super) fn forget_partial() -> Self {
        Self::job(Job::ForgetPartial)
    }

    /// A message for operators that something is wrong.
    pub(super) fn alarm(text: impl Into<String>) -> Self {
        Self::Say { text: text.into(), bad: true }
    }

    /// A message for operators.
    pub(super) fn notice(text: impl Into<String>) -> Self {
        Self::Say { text: text.into(), bad: false }
    }
}
