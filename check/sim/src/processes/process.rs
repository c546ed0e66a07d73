//! What replicas and clients have in common: a life, a clock, connections, and what arrived.

use super::lanes::Lanes;
use super::unread::Unread;
use crate::clock::Clock;
use bytes::Bytes;
use quorate_log::{DiskFull, Rot, ScrubOk, SyncId, WriteId};
use quorate_order::visigoth::OracleAnswer;
use quorate_state::checkpoint::Report;
use quorate_types::{ConnId, InstanceId, ReplicaId, Time};
use quorate_wire::Frame;
use std::collections::{BTreeMap, VecDeque};

/// Something that a process will look at in its next turn.
#[derive(Debug)]
pub enum Arrival {
    /// A peer connected.
    Accepted(ConnId),
    /// A dialed connection exists: the replica's own number for it, the peer, the link.
    Dialed(ConnId, ReplicaId, u16),
    /// A connection could not be made.
    DialFailed(ConnId, ReplicaId, u16),
    /// Bytes that arrived.
    Bytes(ConnId, Bytes),
    /// A frame that another lane of the process read.
    Frame(ConnId, Frame),
    /// Everything that this lane passed on until here was this much.
    Heard(u16, u64),
    /// The pillar of this instance has no more turns on a lane.
    Without(InstanceId),
    /// A pillar on another lane sends bytes over a connection that its lane does not have.
    Send(ConnId, Bytes),
    /// Another lane of the process gave a connection back.
    GivenBack(ConnId),
    /// The other side ended the connection.
    End(ConnId),
    /// This many bytes were written to a connection.
    Left(ConnId, usize),
    /// The disk completed a write.
    Written(WriteId),
    /// The disk completed a sync.
    Synced(SyncId),
    /// A segment was prepared, or not.
    Prepared(u64, Result<(), DiskFull>),
    /// Records were read back.
    Loaded(u64, Vec<Bytes>),
    /// A segment was read and checked.
    Scrubbed(u64, Result<ScrubOk, Rot>),
    /// The keeper of checkpoints reports.
    Kept(Report),
    /// Signatures were checked, or nobody did it.
    Checked(u64, Option<Vec<bool>>),
    /// Commands ran on workers, or did not.
    Worked(quorate_execute::Worked),
    /// The oracle answered a question about this instance.
    Oracle(InstanceId, OracleAnswer),
    /// A part of the process that has a lane of its own has its turn.
    Run(quorate_node::Part),
}

/// One process.
#[derive(Debug)]
pub(super) struct Process {
    /// How often it was started.
    pub(super) life: u32,
    /// Whether it runs.
    pub(super) up: bool,
    /// How many faults keep it from doing anything.
    pub(super) pauses: u32,
    /// Whether one of them is so long that for the checks of time the process counts as down.
    pub(super) away: bool,
    /// What its clock showed when it was paused right after reading it. When it continues, it is wrong to take that for the present time.
    pub(super) glimpse: Option<Time>,
    /// Whether it waits for another thread of its own, and does nothing else.
    pub(super) waits: bool,
    /// Its clock.
    pub(super) clock: Clock,
    /// What arrived.
    pub(super) inbox: VecDeque<Arrival>,
    /// Its connections: its own number, and the network's.
    pub(super) conns: BTreeMap<ConnId, u64>,
    /// The next connection's number.
    pub(super) next_conn: u64,
    /// A turn is scheduled.
    pub(super) turn: bool,
    /// The virtual time for which its timer is set.
    pub(super) wake: Option<u64>,
    /// Where messages cost time: what members sent and it has not read yet.
    pub(super) unread: Unread,
    /// It is busy until then.
    pub(super) busy: u64,
    /// How many slots of the global log it has executed.
    pub(super) merged: u64,
    /// Its lanes beside the main one.
    pub(super) lanes: Lanes,
}

impl Process {
    /// A process that does not run yet.
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            life: 0,
            up: false,
            pauses: 0,
            away: false,
            glimpse: None,
            waits: false,
            clock,
            inbox: VecDeque::new(),
            conns: BTreeMap::new(),
            next_conn: 2,
            turn: false,
            wake: None,
            unread: Unread::default(),
            busy: 0,
            merged: 0,
            lanes: Lanes::default(),
        }
    }

    /// Another life begins.
    pub(super) fn start(&mut self, clock: Clock) {
        self.life += 1;
        self.up = true;
        self.away = false;
        self.glimpse = None;
        self.waits = false;
        self.clock = clock;
        self.inbox.clear();
        self.conns.clear();
        self.lanes = Lanes::default();
        self.unread.start();
        self.next_conn = 2;
        self.turn = false;
        self.wake = None;
    }

    /// A number for a new connection.
    pub(super) fn conn(&mut self) -> ConnId {
        self.next_conn += 1;
        ConnId::new(self.next_conn - 1)
    }

    /// Whether it does something when it is woken.
    pub(super) fn runs(&self) -> bool {
        self.up && self.pauses == 0 && !self.waits
    }
}
