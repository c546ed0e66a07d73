//! What goes into keeping and what comes out.

use super::transfer::{Found, Installing, Need, Unfit, Why};
use crate::config::NodeConfig;
use crate::effects::KeeperWork;
use crate::engine::Engine;
use crate::group::Groups;
use crate::journal::Journal;
use crate::roster::Roster;
use crate::system::System;
use quorate_log::{Rot, ScrubOk};
use quorate_state::agreement::DigestEvent;
use quorate_state::checkpoint::{Digests, Image, Job, Report};
use quorate_state::store::Version;
use quorate_types::{AgreedTime, ConnId, Digest, Halt, ReplicaId, Seq, Slot};
use quorate_wire::StateMessage;

/// What this part may know of the others.
#[derive(Clone, Copy)]
pub(crate) struct Look<'a> {
    pub(crate) config: &'a NodeConfig,
    pub(crate) groups: &'a Groups,
    pub(crate) engine: &'a Engine,
    pub(crate) journal: &'a Journal,
    pub(crate) roster: &'a Roster,
}

impl Look<'_> {
    /// The little of it that matters.
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

/// How the rest of the replica stands. It is read anew for each step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// This replica takes part in agreement.
    pub(crate) begun: bool,
    /// Who leads the first instance, as was announced last.
    pub(crate) leader: Option<ReplicaId>,
    /// How many instances there are.
    pub(crate) instances: usize,
    /// The last seq that was delivered to execution.
    pub(crate) delivered: Seq,
    /// The agreed time then.
    pub(crate) time: AgreedTime,
    /// The last seq that the merge delivered.
    pub(crate) merged: Seq,
    /// Where the log begins and ends, in bytes.
    pub(crate) log: (u64, u64),
    /// The segment that it begins with.
    pub(crate) first_segment: u64,
    /// There is no room for another segment.
    pub(crate) disk_full: bool,
}

/// What happened.
pub(crate) enum In {
    /// The replica begins.
    Begin,
    /// A batch was delivered to execution.
    Delivered {
        seq: Seq,
        /// How long the batch is.
        bytes: u64,
        /// It asks for a border.
        asks: bool,
    },
    /// The state at a border, which [`Out::Capture`] asked for. `records`: the last record of each instance that is in it.
    Captured { image: Box<Image>, records: Vec<Slot> },
    /// The service can not give its state, in words.
    NotCaptured { seq: Seq, why: String },
    /// The keeper did or found something.
    Kept(Report),
    /// A member says something about the state.
    Heard { from: ReplicaId, message: StateMessage },
    /// An operator asks for a checkpoint, to make a backup: it is served like a member, under a number of its own.
    Asked {
        conn: ConnId,
        /// The ids that are taken.
        members: Vec<ReplicaId>,
        message: StateMessage,
    },
    /// A connection ended; perhaps it was an operator's.
    Left(ConnId),
    /// A member is connected from now on: it hears what this replica said while it was away.
    Connected(ReplicaId),
    /// A member is gone.
    Disconnected(ReplicaId),
    /// Others are members from now on; what the voters say counts.
    Members { voters: Vec<ReplicaId>, others: Vec<ReplicaId> },
    /// A leader does not have the log any more that this replica lacks: without a checkpoint of this seq it does not go on.
    Behind(Seq),
    /// The others went on without what this replica waits for: a checkpoint of this seq or later would do.
    LeftBehind(Seq),
    /// The log does not hold all that this replica acknowledged, or does not begin where a checkpoint ends. A later one than that is
    /// needed.
    Lacks { at_least: Seq, why: Why },
    /// A checkpoint is fetched from now on. The answer to [`Out::Fetch`], with who is connected.
    Fetch { need: Need, connected: Vec<ReplicaId> },
    /// Whether this replica can go on from what was fetched. The answer to [`Out::Examine`].
    Examined { found: Box<Found>, verdict: Result<Box<System>, Unfit> },
    /// Execution goes on from a checkpoint that was fetched. The answer to [`Out::Install`].
    Installed(Installed),
    /// An operator wants everything at rest to be read.
    Scrub,
    /// It may be time to do that anyway.
    ScrubInTurn,
    /// A segment was read.
    Scrubbed { segment: u64, result: Result<ScrubOk, Rot> },
    /// The moment that [`super::Keeping::deadline`] named has come.
    Deadline,
    /// The rest of an input, see [`Out::Then`].
    Rest(Rest),
}

/// What is left to do of an input.
pub(crate) enum Rest {
    /// Of a deadline: repairs, what could not be made durable, borders that are needed.
    Deadline,
    /// A leader does not have the log any more that leads to this seq.
    Behind(Seq),
    /// What else became known at borders.
    Verdicts(Vec<DigestEvent>),
    /// The checkpoint of this seq is durable.
    Written { seq: Seq, digest: Digest },
    /// Perhaps the log may be trimmed.
    Trim,
}

/// A checkpoint from which execution goes on.
pub(crate) struct Installed {
    pub(crate) seq: Seq,
    pub(crate) border: u64,
    pub(crate) digests: Digests,
    /// Why it was fetched.
    pub(crate) why: Why,
    /// What its objects take.
    pub(crate) bytes: u64,
    /// The last record of each instance that is in it.
    pub(crate) records: Vec<Slot>,
}

/// What is to be done, in this order.
pub(crate) enum Out {
    /// Work for the keeper.
    Keep(KeeperWork),
    /// Nobody needs this version any more.
    Release(Version),
    /// A member is to know this.
    Send { to: ReplicaId, message: StateMessage },
    /// An operator is to have this.
    Answer { conn: ConnId, message: StateMessage },
    /// All other members are to know this.
    Tell(StateMessage),
    /// An operator broke the rules.
    Reject { conn: ConnId, why: &'static str },
    /// A member sent wrong bytes: it is counted.
    CountWrong,
    /// Something that an operator wants to read about; `bad`: something is wrong.
    Say { text: String, bad: bool },
    /// This replica must stop.
    Halt(Halt),
    /// A border comes near: a part of what the service keeps by itself is copied ahead.
    CopyAhead,
    /// Capturing begins for the border with this number, from the state as it is now.
    CaptureAhead(u64),
    /// The border with this number is here: say what the state is ([`In::Captured`]).
    Capture { border: u64, seq: Seq },
    /// A checkpoint is needed: add what there is here, and say that it is fetched ([`In::Fetch`]).
    Fetch(Need),
    /// Say whether this replica can go on from this checkpoint ([`In::Examined`]).
    Examine(Box<Found>),
    /// This checkpoint is durable: execution and ordering go on from it ([`In::Installed`]).
    Install(Box<Installing>),
    /// This replica's state is wrong: it leads no longer.
    HandOver,
    /// The log may be trimmed up to this checkpoint ([`super::Keeping::trimmed`]). It holds the records of the instances up to these.
    Trim { seq: Seq, records: Vec<Slot> },
    /// Read this segment of the log, or the first one after it ([`super::Keeping::reads`]).
    ReadSegment(u64),
    /// Step with this once all before it is done: what this part does then depends on that.
    Then(Rest),
}

impl Out {
    /// A job for the keeper, for which nothing waits.
    pub(super) fn job(job: Job) -> Self {
        Self::Keep(KeeperWork { job, stops: false })
    }

    /// What was kept of a transfer is of no use any more.
    pub(super) fn forget_partial() -> Self {
        Self::job(Job::ForgetPartial)
    }

    /// Something is as it should not be.
    pub(super) fn alarm(text: impl Into<String>) -> Self {
        Self::Say { text: text.into(), bad: true }
    }

    /// Something happened.
    pub(super) fn notice(text: impl Into<String>) -> Self {
        Self::Say { text: text.into(), bad: false }
    }
}
