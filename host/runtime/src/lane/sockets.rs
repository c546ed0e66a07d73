//! The connections of one lane: the order of reading, the frames to write, and the memory that they hold.
//!
//! [`Core`] is what they serve: the node on the main lane, the way to the main lane on others.

use super::apart::Partition;
use super::blocks::Blocks;
use super::door::Door;
use super::fair::Fair;
use super::hurt::Hurt;
use super::late::Lateness;
use super::pace::Pace;
use super::pressure::{LaneLimits, Pressure};
use crate::clock::Clock;
use crate::connection::{Class, Connection, READ_MAX};
use crate::throttle::Throttle;
use mio::event::Event;
use mio::{Interest, Poll, Token};
use quorate_node::{ConnClass, Costs, Input};
use quorate_types::{ConnId, ReplicaId, Span, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The most connections that are being closed; beyond it the oldest ones end at once.
const CLOSING_MAX: usize = 1024;
/// How long the other side of a connection that is being closed may take to close it, too.
pub(super) const CLOSING: Span = Span::from_millis(1000);
/// How long the last bytes may take to leave when the lane ends.
const LINGER: Duration = Duration::from_millis(200);

/// What connections serve.
pub(super) trait Core {
    /// Takes an input.
    fn take(&mut self, now: Time, input: Input);
    /// The frame limit of the connection, if one was set since the end of the last turn.
    fn frame_limit(&self, conn: ConnId) -> Option<u32>;
    /// Whether there is room for more from clients that send much.
    fn takes_more(&self, contended: bool) -> bool;
    /// Whether there is room for any input.
    fn takes_any(&self) -> bool;
    /// The kind of a connection, as far as known.
    fn class(&self, conn: ConnId) -> ConnClass;
    /// The member at the other end, as far as known.
    fn member(&self, conn: ConnId) -> Option<ReplicaId>;
    /// Whether the member at the other end lately did something that no honest one does.
    fn suspects(&self, now: Time, conn: ConnId) -> bool;
}

/// The connections of a lane.
pub(super) struct Sockets {
    pub(super) poll: Poll,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) limits: LaneLimits,
    pub(super) connections: BTreeMap<ConnId, Connection>,
    /// Members with bytes to read, and connections that are being closed.
    pub(super) first: Vec<ConnId>,
    /// The measured costs of members.
    pub(super) costs: Costs,
    pub(super) fair: Fair,
    pub(super) pace: Pace,
    pub(super) door: Door,
    pub(super) pressure: Pressure,
    /// There was other work in this turn than accepting connections.
    pub(super) busy: bool,
    /// Connections that wait for the other side to close, too, and until when.
    pub(super) closing: VecDeque<(Time, ConnId)>,
    /// Scratch space for encrypted input, shared by all connections.
    pub(super) scratch: Vec<u8>,
    /// Memory for what arrives, shared by all connections.
    blocks: Arc<Blocks>,
    /// How late leaves what is for members; `None` in real replicas.
    pub(super) lateness: Option<Lateness>,
    /// Connections that hold frames back for that.
    pub(super) holding: BTreeSet<ConnId>,
    /// From whom this replica is cut off; `None` in real replicas.
    pub(super) partition: Option<Partition>,
    /// Connections over which something would pass if it were not.
    pub(super) apart: BTreeSet<ConnId>,
    /// Bytes that went to members, since the start of the lane.
    pub(super) member_bytes: u64,
    /// Limits the lines that repeated failed connections write to the log.
    pub(super) refusals: Throttle,
}

impl Sockets {
    /// No connections. `safe`: there is TLS.
    pub(super) fn new(poll: Poll, clock: Arc<dyn Clock>, limits: LaneLimits, safe: bool) -> Self {
        Self {
            poll,
            clock,
            limits,
            connections: BTreeMap::new(),
            first: Vec::new(),
            costs: Costs::default(),
            fair: Fair::default(),
            pace: Pace::default(),
            door: Door::default(),
            pressure: Pressure::default(),
            busy: false,
            closing: VecDeque::new(),
            scratch: if safe { vec![0; READ_MAX] } else { Vec::new() },
            blocks: Arc::default(),
            lateness: None,
            holding: BTreeSet::new(),
            partition: None,
            apart: BTreeSet::new(),
            member_bytes: 0,
            refusals: Throttle::default(),
        }
    }

    /// The same, with this done to its connections to members.
    pub(super) fn hurt(self, hurt: &Hurt) -> Self {
        Self { lateness: hurt.lateness.clone(), partition: hurt.partition.clone(), ..self }
    }

    /// Adds a connection. Says whether the system can report its events.
    pub(super) fn add(&mut self, conn: ConnId, mut connection: Connection) -> bool {
        let Ok(token) = usize::try_from(conn.number()) else { return false };
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self.poll.registry().register(&mut connection.stream, Token(token), interest) {
            tracing::warn!("registering a connection: {error}");
            return false;
        }
        connection.use_memory(self.blocks.clone());
        if connection.holds_since().is_some() {
            self.holding.insert(conn);
        }
        self.connections.insert(conn, connection);
        true
    }

    /// Gives a connection away to another lane.
    pub(super) fn release(&mut self, conn: ConnId) -> Option<Connection> {
        let mut connection = self.connections.remove(&conn)?;
        self.forget(conn, &connection);
        let _ = self.poll.registry().deregister(&mut connection.stream);
        (connection.counted, connection.queued) = (0, false);
        Some(connection)
    }

    /// Takes a connection from another lane. Says whether it is here now.
    pub(super) fn receive(
        &mut self,
        now: Time,
        conn: ConnId,
        connection: Connection,
        core: &mut impl Core,
    ) -> bool {
        if !self.add(conn, connection) {
            core.take(now, Input::Closed(conn));
            return false;
        }
        self.settle(conn);
        // What came before is no event here.
        self.wants_read(conn);
        true
    }

    /// Handles an event of the system.
    pub(super) fn on_event(&mut self, now: Time, event: &Event, core: &mut impl Core) {
        let Token(number) = event.token();
        let conn = ConnId::new(number as u64);
        if event.is_writable()
            && let Some(connection) = self.connections.get_mut(&conn)
        {
            connection.on_writable();
            self.write(now, conn, core);
        }
        if event.is_read_closed()
            && let Some(connection) = self.connections.get_mut(&conn)
        {
            connection.ending = true;
        }
        if event.is_readable() || event.is_error() {
            self.wants_read(conn);
        }
    }

    /// Ends a connection after its frames are sent.
    pub(super) fn close(&mut self, now: Time, conn: ConnId) {
        if let Some(connection) = self.connections.get_mut(&conn) {
            connection.closing = true;
            self.closing.push_back((now.plus(CLOSING), conn));
        }
    }

    /// Ends connections whose time to close is over.
    pub(super) fn end_closing(&mut self, now: Time) {
        while self.closing.front().is_some_and(|(until, _)| *until <= now || self.closing.len() > CLOSING_MAX)
        {
            if let Some((_, conn)) = self.closing.pop_front() {
                self.drop_connection(conn);
            }
        }
    }

    /// Writes the frames that wait for these connections.
    pub(super) fn write_all(&mut self, now: Time, mut written: Vec<ConnId>, core: &mut impl Core) {
        written.sort_unstable();
        written.dedup();
        for conn in written {
            self.write(now, conn, core);
        }
    }

    pub(super) fn write(&mut self, now: Time, conn: ConnId, core: &mut impl Core) {
        let apart = self.partition.is_some() && self.connections.get(&conn).is_some_and(|c| self.is_apart(c));
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        let failed = !apart && connection.write().is_err();
        if apart {
            self.apart.insert(conn);
        }
        let (class, waits) = (connection.class, connection.out_bytes());
        let sent = std::mem::take(&mut connection.sent);
        self.member_bytes += if class == Class::Member { sent } else { 0 };
        let ended = failed || class == Class::Member && self.is_too_much(waits);
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        let goes_on = connection.unread && connection.out_bytes() <= self.limits.unsent_bytes;
        if connection.closing {
            if ended {
                self.drop_connection(conn);
            } else if !apart && connection.out_bytes() == 0 {
                connection.finish();
            }
        } else if ended {
            self.drop_connection(conn);
            core.take(now, Input::Closed(conn));
        } else {
            if goes_on {
                self.wants_read(conn);
            }
            self.wrote(now, conn, core);
        }
    }

    pub(super) fn drop_connection(&mut self, conn: ConnId) {
        if let Some(mut connection) = self.connections.remove(&conn) {
            tracing::debug!("{conn} ends");
            self.forget(conn, &connection);
            let _ = self.poll.registry().deregister(&mut connection.stream);
        }
    }

    /// Waits a moment for the last bytes to leave.
    pub(super) fn linger(&mut self) {
        let until = std::time::Instant::now() + LINGER;
        while std::time::Instant::now() < until {
            let mut left = false;
            let parted = self.partition.clone();
            let reached = |connection: &&mut Connection| {
                let parted = parted.as_ref().zip(connection.member);
                !parted.is_some_and(|(partition, member)| partition.parts_from(member))
            };
            for connection in self.connections.values_mut().filter(reached) {
                connection.on_writable();
                left |= connection.write().is_ok() && connection.out_bytes() > 0;
            }
            if !left {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
