//! What goes into a node and what comes out.

use crate::keeping::SegmentScrub;
use crate::lanes::Part;
use crate::status::NodeStatus;
use bytes::Bytes;
use quorate_log::{DiskFull, Extent, LogEffect, Rot, ScrubOk, SyncId, WriteId};
use quorate_state::checkpoint::{Job, Report};
use quorate_state::store::Version;
use quorate_types::{ConnId, Halt, Identity, InstanceId, ReplicaId, RequestNumber, SessionId};
use quorate_wire::{Frame, OutFrame};
use std::fmt;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

/// One thing that happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// Somebody connected; frames of at most a hello's size are let through until [`Effect::FrameLimit`].
    Accepted {
        /// Its number.
        conn: ConnId,
        /// Where it comes from, where that is known.
        from: Option<IpAddr>,
    },
    /// Somebody who connected showed a certificate, which was verified; comes before its first frame.
    Identified {
        /// Where.
        conn: ConnId,
        /// Who it is.
        identity: Arc<Identity>,
    },
    /// A connection could not be made safe; it is being closed.
    Unsafe {
        /// Which.
        conn: ConnId,
        /// Why, and what to do.
        why: String,
    },
    /// The connection that [`Effect::Dial`] asked for.
    Dialed {
        /// Its number.
        conn: ConnId,
        /// To whom it leads.
        replica: ReplicaId,
        /// Which of the connections there it is.
        link: u16,
    },
    /// No connection came of [`Effect::Dial`].
    DialFailed {
        /// To whom.
        replica: ReplicaId,
        /// Which one.
        link: u16,
    },
    /// A whole frame arrived.
    Frame {
        /// Where.
        conn: ConnId,
        /// The frame.
        frame: Frame,
    },
    /// A connection ended, by the other side or by an error. Never told of one that [`Effect::Close`] ended.
    Closed(ConnId),
    /// A write of the log completed.
    Written(WriteId),
    /// A sync of the log completed.
    Synced(SyncId),
    /// A segment was prepared, or there was no room for it.
    Prepared {
        /// Which.
        segment: u64,
        /// Whether there was room.
        result: Result<(), DiskFull>,
    },
    /// The answer to [`Effect::Load`]: what lies in those places.
    Loaded {
        /// The number in the question.
        load: u64,
        /// The bytes of each place.
        records: Vec<Bytes>,
    },
    /// A segment was read and checked.
    Scrubbed {
        /// Which.
        segment: u64,
        /// What was found.
        result: Result<ScrubOk, Rot>,
    },
    /// The keeper did or found something.
    Kept(Report),
    /// A part that has a lane of its own, or the main lane beside it, has its turn: the answer to [`Effect::Run`].
    Run(Part),
    /// The moment that [`crate::Node::deadline`] named has come.
    Deadline,
    /// Everything that arrived at once was handed in: batches are sealed, replies leave, blocks are written.
    TurnEnd,
}

/// A job for the keeper.
pub struct KeeperWork {
    /// The job.
    pub job: Job,
    /// The lane does nothing else until the keeper has nothing left to do: execution stops while the state is written.
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
            Job::Partial(_) => "Partial",
            Job::ForgetPartial => "ForgetPartial",
            Job::Scrub => "Scrub",
            Job::Repair { .. } => "Repair",
        };
        f.write_str(name)
    }
}

/// A version of the state that nobody needs any more.
pub struct Unneeded(pub Version);

impl fmt::Debug for Unneeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} objects", self.0.len())
    }
}

/// One thing to do.
#[derive(Debug)]
pub enum Effect {
    /// Connect to a member, at its last address.
    Dial {
        /// To whom.
        replica: ReplicaId,
        /// Which of the connections there it is to be.
        link: u16,
    },
    /// Let another lane read and write a connection from here on. What it sends stays in order, and so does what is sent on it.
    Move {
        /// Which.
        conn: ConnId,
        /// The lane, from 0, which is the one that has the node.
        lane: u16,
    },
    /// A member is reached there from now on, whatever the configuration says; none when it is no member any more.
    Address {
        /// Who.
        replica: ReplicaId,
        /// Host and port, resolved at each dial.
        address: Option<String>,
    },
    /// End a connection, after what was sent on it.
    Close(ConnId),
    /// Send a frame. Frames of one connection stay in order.
    Send {
        /// Where.
        conn: ConnId,
        /// The frame.
        frame: OutFrame,
    },
    /// Let frames up to this many bytes through from here on: the other side said who it is.
    FrameLimit {
        /// Where.
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
        /// Where they lie.
        extents: Vec<Extent>,
    },
    /// Work for the keeper of checkpoints, in order; it answers with [`Input::Kept`].
    Keep(KeeperWork),
    /// This version is not needed any more. Let it go where time does not matter: what only it held is freed then.
    Release(Unneeded),
    /// Read a segment of the log that is full, and check it; answered with [`Input::Scrubbed`].
    Scrub(SegmentScrub),
    /// Delete these segments of the log, lowest first.
    RemoveSegments(Range<u64>),
    /// An operator asks; the host adds what it knows of the process and sends the answer.
    Status {
        /// Where the answer goes.
        conn: ConnId,
        /// What the node knows.
        status: Box<NodeStatus>,
    },
    /// Something waits for this part: give its lane a turn, some time.
    Run(Part),
    /// Record what an operator did.
    Audit {
        /// On which connection it was asked for.
        conn: ConnId,
        /// Who, as the certificate says.
        who: String,
        /// What was asked for.
        what: String,
        /// What came of it.
        outcome: String,
    },
    /// Tell the operator.
    Event(Event),
    /// This replica must stop: its disk can not be trusted.
    Halt(Halt),
}

/// Something that an operator wants to read about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Somebody leads now, or nobody.
    Leader {
        /// The view.
        view: u64,
        /// Who leads.
        leader: Option<ReplicaId>,
        /// Of which instance, where there are several.
        instance: Option<InstanceId>,
    },
    /// A member refuses our connection.
    RefusedBy {
        /// Who.
        replica: ReplicaId,
        /// Why, in its words.
        text: String,
    },
    /// No safe connection to a member.
    Unsafe {
        /// To whom.
        replica: ReplicaId,
        /// Why, and what to do.
        text: String,
    },
    /// We refused a connection.
    Refused {
        /// Why, as we said it.
        text: String,
    },
    /// A client's request waits for too long, and all members were told of it: the leader may be faulty.
    Overdue {
        /// Whose session; none when it opens one.
        session: SessionId,
        /// Its number.
        number: RequestNumber,
    },
    /// A connection broke the rules and was closed.
    Rejected {
        /// Which.
        conn: ConnId,
        /// What it did.
        text: String,
    },
    /// A member is connected in both directions.
    PeerUp(ReplicaId),
    /// A member's connection is gone.
    PeerDown(ReplicaId),
    /// Something about the membership.
    Members {
        /// In words.
        text: String,
    },
    /// Something about the number of instances.
    Instances {
        /// In words.
        text: String,
    },
    /// The feature level is raised.
    Level {
        /// To what.
        level: u32,
        /// It is only proposed by this replica; else it was executed.
        begun: bool,
    },
    /// The disk is full: writes are refused until there is room.
    DiskFull,
    /// There is room again.
    DiskHasRoom,
    /// The disk has finished nothing for a long time.
    DiskStalls,
    /// It finishes what it is asked again.
    DiskWorks,
    /// Something about the state that an operator wants to read about, and whether it is bad.
    State {
        /// In words.
        text: String,
        /// Something is wrong.
        bad: bool,
    },
}

/// Effects in order, reused from step to step.
#[derive(Debug, Default)]
pub struct Effects {
    list: Vec<Effect>,
}

impl Effects {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }
    /// Appends one.
    pub fn push(&mut self, effect: Effect) {
        self.list.push(effect);
    }
    /// Takes all, in order.
    pub fn drain(&mut self) -> impl Iterator<Item = Effect> {
        self.list.drain(..)
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
    /// The frame limit that was asked for last for this connection.
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
