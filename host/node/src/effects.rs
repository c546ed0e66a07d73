//! The inputs and effects of a node.

use crate::eras::NextEra;
use crate::keeping::SegmentScrub;
use crate::lanes::Part;
use crate::status::NodeStatus;
use bytes::Bytes;
use quorate_auth::{CheckWork, Secret};
use quorate_execute::{Work, Worked};
use quorate_log::{DiskFull, Extent, LogEffect, Rot, ScrubOk, SyncId, WriteId};
use quorate_order::visigoth::{OracleAnswer, OracleRequest};
use quorate_state::checkpoint::{Job, Report};
use quorate_state::store::Version;
use quorate_types::{ConnId, Halt, Identity, InstanceId, ReplicaId, RequestNumber, SessionId};
use quorate_wire::{Frame, OutFrame};
use std::fmt;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

/// An event for the node.
#[derive(Debug)]
pub enum Input {
    /// A connection was accepted. Frames of at most a hello's size are let through until [`Effect::FrameLimit`].
    Accepted {
        /// The connection.
        conn: ConnId,
        /// The address it comes from, if that is known.
        from: Option<IpAddr>,
    },
    /// The other end of an accepted connection showed a certificate, which was verified. Comes before the connection's first frame.
    Identified {
        /// The connection.
        conn: ConnId,
        /// The identity in the certificate.
        identity: Arc<Identity>,
    },
    /// A connection could not be secured; it is being closed.
    Unsafe {
        /// The connection.
        conn: ConnId,
        /// The reason, and what to do.
        why: String,
    },
    /// The connection that [`Effect::Dial`] asked for is open.
    Dialed {
        /// The connection.
        conn: ConnId,
        /// The member at the other end.
        replica: ReplicaId,
        /// The link to that member, as in [`Effect::Dial`].
        link: u16,
    },
    /// The connection that [`Effect::Dial`] asked for could not be opened.
    DialFailed {
        /// The member.
        replica: ReplicaId,
        /// The link, as in [`Effect::Dial`].
        link: u16,
    },
    /// The connection that [`Effect::DialService`] asked for is open.
    ServiceDialed {
        /// The connection.
        conn: ConnId,
        /// The backend.
        service: u32,
        /// Its member at the other end.
        replica: ReplicaId,
    },
    /// The connection that [`Effect::DialService`] asked for could not be opened.
    ServiceDialFailed {
        /// The backend.
        service: u32,
        /// Its member.
        replica: ReplicaId,
    },
    /// A whole frame arrived.
    Frame {
        /// The connection.
        conn: ConnId,
        /// The frame.
        frame: Frame,
    },
    /// A connection was closed by the other end or by an error. The host does not report a connection that [`Effect::Close`] closes.
    Closed(ConnId),
    /// A write of the log completed.
    Written(WriteId),
    /// A sync of the log completed.
    Synced(SyncId),
    /// A segment was prepared, or there was no room for it.
    Prepared {
        /// The segment.
        segment: u64,
        /// Whether there was room.
        result: Result<(), DiskFull>,
    },
    /// The answer to [`Effect::Load`].
    Loaded {
        /// The number of the question.
        load: u64,
        /// The bytes at each extent.
        records: Vec<Bytes>,
    },
    /// A segment was read and checked.
    Scrubbed {
        /// The segment.
        segment: u64,
        /// What was found.
        result: Result<ScrubOk, Rot>,
    },
    /// A report of the keeper.
    Kept(Report),
    /// The answer to [`Effect::Check`].
    Checked {
        /// The number of the work.
        id: u64,
        /// Which of its signatures are right; `None` if nobody checked them.
        right: Option<Vec<bool>>,
    },
    /// The answer to [`Effect::Work`].
    Worked(Worked),
    /// The answer to [`Effect::Oracle`].
    Oracle {
        /// The instance in the question.
        instance: InstanceId,
        /// What the register holds.
        answer: OracleAnswer,
    },
    /// This replica was given a secret key, with which it perhaps signs from some membership on.
    Secret(Secret),
    /// The lane of this part has a turn: the answer to [`Effect::Run`].
    Run(Part),
    /// The moment that [`crate::Node::deadline`] named has come.
    Deadline,
    /// The turn ends: everything that arrived at once was handed in. Batches are sealed, replies leave, blocks are written.
    TurnEnd,
}

/// A question to the oracle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OracleWork {
    /// The instance that it is about.
    pub instance: InstanceId,
    /// Whether its register is to be read or swapped.
    pub request: OracleRequest,
}

/// A job for the keeper.
pub struct KeeperWork {
    /// The job.
    pub job: Job,
    /// Whether the lane waits until the keeper has finished everything: execution stops while the state is written.
    pub stops: bool,
}

impl fmt::Debug for KeeperWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &self.job {
            Job::Ahead { border, .. } => return write!(f, "Ahead({border})"),
            Job::Border { image, write } => return write!(f, "Border({}, {write:?})", image.seq),
            Job::Install { image } => return write!(f, "Install({})", image.seq),
            Job::Forget { keep } => return write!(f, "Forget({keep})"),
            Job::Pin { seqs } => return write!(f, "Pin({seqs:?})"),
            Job::Discard { above } => return write!(f, "Discard({above})"),
            Job::ReadManifest { .. } => "ReadManifest",
            Job::ReadChunk { .. } => "ReadChunk",
            Job::Grow(_) => "Grow",
            Job::ForgetPartial => "ForgetPartial",
            Job::Scrub => "Scrub",
            Job::Repair { .. } => "Repair",
        };
        f.write_str(name)
    }
}

/// A version of the state that is no longer needed.
pub struct Unneeded(pub Version);

impl fmt::Debug for Unneeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} objects", self.0.len())
    }
}

/// Work for the host.
#[derive(Debug)]
pub enum Effect {
    /// Connect to a member, at its last address.
    Dial {
        /// The member.
        replica: ReplicaId,
        /// The link to that member: the number of the connection, among those to it.
        link: u16,
    },
    /// Connect to a member of another service's cluster, as a client of it: under the name that [`quorate_wire::member_name`] gives, where
    /// connections are secured.
    DialService {
        /// The service.
        service: u32,
        /// Its member.
        replica: ReplicaId,
        /// Host and port, resolved at each dial.
        address: String,
    },
    /// The connection belongs to this link from now on, as do others: the host has all of them on one lane. Frames stay in order, in both
    /// directions.
    Move {
        /// The connection.
        conn: ConnId,
        /// The link, from 1.
        link: u16,
    },
    /// A member has another address from now on, whatever the configuration says. There is no address if it is no longer a member.
    Address {
        /// The member.
        replica: ReplicaId,
        /// Host and port, resolved at each dial.
        address: Option<String>,
    },
    /// Close a connection after everything that was sent on it.
    Close(ConnId),
    /// Send a frame. Frames of one connection stay in order.
    Send {
        /// The connection.
        conn: ConnId,
        /// The frame.
        frame: OutFrame,
    },
    /// Let frames up to this size through from now on: the other end has introduced itself.
    FrameLimit {
        /// The connection.
        conn: ConnId,
        /// Bytes of payload.
        bytes: u32,
    },
    /// Work for the disk.
    Disk(LogEffect),
    /// Read records back.
    Load {
        /// The number of this question.
        load: u64,
        /// Where the records are.
        extents: Vec<Extent>,
    },
    /// Check these signatures on another thread, at any time and in any order; answered with [`Input::Checked`]. An answer that does not
    /// come costs time, and nothing else.
    Check(CheckWork),
    /// Run these commands on another thread, at any time and in any order; answered with [`Input::Worked`]. Everything waits for an answer.
    Work(Work),
    /// Ask the oracle, at any time and in any order; answered with [`Input::Oracle`]. Questions that are not answered are asked again. Only
    /// where few members are slow.
    Oracle(OracleWork),
    /// Work for the keeper, in order; answered with [`Input::Kept`].
    Keep(KeeperWork),
    /// Drop a version that is no longer needed, on a thread where time does not matter: what only this version held is freed then.
    Release(Unneeded),
    /// Read a full segment of the log and check it; answered with [`Input::Scrubbed`].
    Scrub(SegmentScrub),
    /// Delete these segments of the log, lowest first.
    RemoveSegments(Range<u64>),
    /// An operator asks for the status. The host adds what it knows of the process, and sends the answer.
    Status {
        /// The connection that the answer goes to.
        conn: ConnId,
        /// The status of the node.
        status: Box<NodeStatus>,
    },
    /// An operator wants instances on these lanes, counted from 1; if there are none, the host decides by itself again. The host answers with
    /// a frame of [`quorate_wire::FrameKind::LanesReply`].
    Lanes {
        /// The connection that the answer goes to.
        conn: ConnId,
        /// Instances, and the lane of each.
        wish: Vec<(InstanceId, u16)>,
    },
    /// Something waits for this part: give the part's lane a turn, at any time.
    Run(Part),
    /// Record an operator's action in the audit log.
    Audit {
        /// The connection on which the operator asked.
        conn: ConnId,
        /// The name in the operator's certificate.
        who: String,
        /// The action.
        what: String,
        /// The result.
        outcome: String,
    },
    /// Keep this evidence in a file, at any time: it is found once, and given back at the next start. It is kept here until then.
    Proved {
        /// What it proves, in words.
        text: String,
        /// The name of the file.
        name: String,
        /// Its bytes.
        bytes: Bytes,
    },
    /// Keep this membership link in a file, at any time, and give it back at the next start. It is kept here until then.
    Link {
        /// The name of the file.
        name: String,
        /// Its bytes.
        bytes: Bytes,
    },
    /// Tell the operator.
    Event(Event),
    /// Another era begins: make this state durable in a place of its own, give up what was before, and start anew from it. The node does
    /// nothing more.
    EnterEra(Box<NextEra>),
    /// Stop this replica: its disk can not be trusted, or going on would be wrong.
    Halt(Halt),
}

/// A message for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An instance has another leader, or none.
    Leader {
        /// The view.
        view: u64,
        /// The leader.
        leader: Option<ReplicaId>,
        /// The instance, if there are several.
        instance: Option<InstanceId>,
    },
    /// An era ends, or another one is entered.
    Era {
        /// What happens, in words.
        text: String,
    },
    /// A member refuses our connection.
    RefusedBy {
        /// The member.
        replica: ReplicaId,
        /// The member's reason.
        text: String,
    },
    /// There is no secure connection to a member.
    Unsafe {
        /// The member.
        replica: ReplicaId,
        /// The reason, and what to do.
        text: String,
    },
    /// We refused a connection.
    Refused {
        /// The reason that we gave.
        text: String,
    },
    /// A client's request has waited for too long, and all members were told of it: the leader may be faulty.
    Overdue {
        /// The session; none if the request opens one.
        session: SessionId,
        /// The request's number.
        number: RequestNumber,
    },
    /// A connection broke the rules and was closed.
    Rejected {
        /// The connection.
        conn: ConnId,
        /// What the other end did.
        text: String,
    },
    /// A member is connected in both directions.
    PeerUp(ReplicaId),
    /// A member is no longer connected.
    PeerDown(ReplicaId),
    /// News about the membership.
    Members {
        /// The text.
        text: String,
    },
    /// News about the number of instances.
    Instances {
        /// The text.
        text: String,
    },
    /// The feature level is raised.
    Level {
        /// The new level.
        level: u32,
        /// Whether this replica has only proposed the level; otherwise the level was executed.
        begun: bool,
    },
    /// The level of the service is raised.
    ServiceLevel {
        /// The new level.
        level: u32,
        /// How it ended: why the level stayed as it was, if it did; not there if this replica has only proposed it.
        end: Option<Result<(), String>>,
    },
    /// The disk is full: writes are refused until there is room.
    DiskFull,
    /// The disk has room again.
    DiskHasRoom,
    /// The disk has finished nothing for a long time.
    DiskStalls,
    /// The disk works again.
    DiskWorks,
    /// News about the state.
    State {
        /// The text.
        text: String,
        /// Whether something is wrong.
        bad: bool,
    },
}

/// A list of effects in order, reused from step to step.
#[derive(Debug, Default)]
pub struct Effects {
    list: Vec<Effect>,
}

impl Effects {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }
    /// Appends an effect.
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
    /// The last frame limit in the list for this connection.
    pub fn frame_limit(&self, of: ConnId) -> Option<u32> {
        self.list.iter().rev().find_map(|effect| match effect {
            Effect::FrameLimit { conn, bytes } if *conn == of => Some(*bytes),
            _ => None,
        })
    }
    pub(crate) fn send(&mut self, conn: ConnId, frame: OutFrame) {
        self.push(Effect::Send { conn, frame });
    }
    pub(crate) fn event(&mut self, event: Event) {
        self.push(Effect::Event(event));
    }
}
