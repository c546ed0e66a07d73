//! What members sent to a replica and it has not read yet, where messages cost time. The members share its turns as in host/runtime.
//!
//! Checking signatures is expensive; the rest counts as looking at the message. The prices are those of one core that checks 20,000
//! signatures in a second. A price is paid when a message is read, whether or not the protocol looks at the signature.

use super::process::Arrival;
use quorate_node::{Costs, Had};
use quorate_order::mod_smart::message::{ModSmartBody as Body, ModSmartMessage};
use quorate_order::protocols;
use quorate_types::{ConnId, Span, Time};
use quorate_wire::{Frame, FrameKind};
use std::collections::{BTreeMap, VecDeque};

/// The price of checking one signature, in nanoseconds.
const SIGNATURE: u64 = 50_000;
/// The price of looking at a message.
const MESSAGE: u64 = 2_000;
/// This many bytes of a message cost a nanosecond more.
const BYTES: u64 = 4;

/// The price of reading a frame.
fn price(frame: &Frame) -> u64 {
    let mut signatures = 0;
    if frame.kind == FrameKind::Order
        && let Ok((_, message)) = protocols::decode(frame.payload.clone())
        && let Some(message) = message.get::<ModSmartMessage>()
    {
        signatures = match &message.body {
            Body::Accept { .. } | Body::Stop { .. } => 1,
            Body::Certificate { stops } => stops.len(),
            Body::StopData { last, .. } => 1 + last.as_ref().map_or(0, |proof| proof.accepts.len()),
            Body::Sync { stops, collects, last, .. } => {
                stops.len() + collects.len() + last.as_ref().map_or(0, |proof| proof.accepts.len())
            }
            Body::Decision { proof, .. } => proof.accepts.len(),
            Body::Gone { proof, .. } => proof.as_ref().map_or(0, |proof| proof.accepts.len()),
            _ => 0,
        };
    }
    MESSAGE + frame.payload.len() as u64 / BYTES + SIGNATURE * signatures as u64
}

/// What waits, by connection.
#[derive(Debug, Default)]
pub struct Unread {
    waits: BTreeMap<ConnId, VecDeque<Arrival>>,
    costs: Costs,
    /// The price of everything that was read, in nanoseconds.
    paid: u64,
    /// The same when the turn began.
    before: u64,
}

impl Unread {
    /// Another life begins.
    pub(super) fn start(&mut self) {
        self.costs = Costs::default();
        self.waits.clear();
    }

    /// A turn begins.
    pub fn begin(&mut self) {
        self.before = self.paid;
    }

    /// How long the turn has lasted so far.
    pub fn took(&self) -> Span {
        Span::from_nanos(self.paid - self.before)
    }

    /// A frame is read, so its price is paid.
    pub fn pay(&mut self, frame: &Frame) {
        self.paid += price(frame);
    }

    /// Whether something of this connection waits.
    pub fn has(&self, conn: ConnId) -> bool {
        self.waits.contains_key(&conn)
    }

    /// Something arrived and waits.
    pub fn push(&mut self, conn: ConnId, arrival: Arrival) {
        self.waits.entry(conn).or_default().push_back(arrival);
    }

    /// The connections of which something waits.
    pub fn conns(&self) -> Vec<ConnId> {
        self.waits.keys().copied().collect()
    }

    /// A member's part of the turn, if it has one.
    pub fn part(&self, now: Time, conn: ConnId) -> Option<Part> {
        let (had, read) = (self.costs.begin(conn), 0);
        self.costs.may(now, conn).then_some(Part { conn, had, read, paid: self.paid })
    }

    /// The next piece of a member's part.
    pub fn next(&mut self, part: &mut Part) -> Option<Arrival> {
        let piece = self.costs.piece(part.conn);
        let queue = self.waits.get_mut(&part.conn).filter(|_| part.had.may_have_more())?;
        let mut arrival = queue.pop_front()?;
        (part.paid, part.read) = (self.paid, 0);
        if let Arrival::Bytes(conn, bytes) = &mut arrival {
            if bytes.len() > piece {
                queue.push_front(Arrival::Bytes(*conn, bytes.split_off(piece)));
            }
            part.read = bytes.len();
        }
        Some(arrival)
    }

    /// That piece was read.
    pub fn read(&mut self, part: &mut Part) {
        let took = Span::from_nanos(self.paid - part.paid);
        self.costs.read(part.conn, &mut part.had, part.read, took);
    }

    /// A member has had its part of the turn.
    pub fn served(&mut self, now: Time, part: &Part, suspect: bool) {
        self.costs.served(now, part.conn, part.had, suspect);
    }

    /// How long a member has to wait for its next part, in nanoseconds, if more of it waits.
    pub fn opens_in(&mut self, now: Time, conn: ConnId) -> Option<u64> {
        if self.waits.get(&conn).is_some_and(VecDeque::is_empty) {
            self.waits.remove(&conn);
            return None;
        }
        Some(self.costs.opens_in(now, conn).nanos())
    }

    /// The turn is over. Returns how long it lasted, in nanoseconds.
    pub fn end(&mut self) -> u64 {
        self.costs.turned();
        self.took().nanos()
    }
}

/// A member's part of a turn.
#[derive(Debug)]
pub struct Part {
    conn: ConnId,
    had: Had,
    /// Bytes of the last piece, and what had been paid before it.
    read: usize,
    paid: u64,
}
