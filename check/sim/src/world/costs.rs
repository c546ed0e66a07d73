//! Where messages cost time: a turn lasts as long as what a replica does with what it reads, and its members share that as in host/runtime.
//!
//! What is expensive is to check signatures; the rest counts like a look at the message. The prices are those of one core that checks 20,000
//! signatures in a second. A price is paid where a message is read, whether the protocol looks at the signature or not.
//!
//! A replica may get little of a core: it has one for a while, then the machine's other work has it.

use super::{Phase, World};
use crate::checks::{Failure, borders};
use crate::process::Arrival;
use quorate_node::Place;
use quorate_types::{AgreedTime, ConnId, Span, Time};
use quorate_wire::mod_smart::ModSmartBody as Body;
use quorate_wire::{Frame, FrameKind, OrderMessage};
use std::collections::VecDeque;

/// To check one signature, in nanoseconds.
const SIGNATURE: u64 = 50_000;
/// To look at a message.
const MESSAGE: u64 = 2_000;
/// For every so many bytes of it a nanosecond more.
const BYTES: u64 = 4;

/// For each turn.
const TURN: u64 = 2_000;

/// What a frame costs who reads it.
pub(super) fn price(frame: &Frame) -> u64 {
    let mut signatures = 0;
    if frame.kind == FrameKind::Order
        && let Ok((_, OrderMessage::ModSmart(message))) = OrderMessage::decode(frame.payload.clone())
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

impl World {
    /// A replica reads what arrived, of each member as much as it may have. What is left waits for the next turn, and for so long at least, in
    /// nanoseconds.
    pub(super) fn read_by_cost(&mut self, who: usize, local: Time, arrived: Vec<Arrival>) -> Option<u64> {
        let began = self.processes[who].cost;
        for arrival in arrived {
            match self.member_of(who, &arrival) {
                Some(conn) => self.processes[who].unread.entry(conn).or_default().push_back(arrival),
                None => self.replica_arrival(who, local, arrival),
            }
        }
        let unread: Vec<ConnId> = self.processes[who].unread.keys().copied().collect();
        let mut wait = None;
        for conn in unread {
            let now = local.plus(Span::from_nanos(self.processes[who].cost - began));
            if self.processes[who].costs.may(now, conn) {
                self.read_member(who, conn, local, began);
            }
            let process = &mut self.processes[who];
            if process.unread.get(&conn).is_some_and(VecDeque::is_empty) {
                process.unread.remove(&conn);
            } else {
                let opens = process.costs.opens_in(now, conn).nanos();
                wait = Some(wait.unwrap_or(u64::MAX).min(opens));
            }
        }
        let process = &mut self.processes[who];
        process.costs.turned();
        let cost = process.cost - began;
        self.works(who, TURN + cost);
        wait
    }

    /// From now on a process has so much to do.
    pub(super) fn works(&mut self, who: usize, work: u64) {
        let (mut at, mut left) = (self.has_core(who, self.now), work);
        while let Some(rest) = self.core_left(who, at).filter(|rest| left > *rest) {
            left -= rest;
            at = self.has_core(who, at + rest);
        }
        self.processes[who].busy = at + left;
    }

    /// When a process has a core from that time on.
    pub(super) fn has_core(&self, who: usize, at: u64) -> u64 {
        let Some((_, of)) = self.plan.starved else { return at };
        let waits = self.core_left(who, at) == Some(0);
        if waits { at + of - self.in_round(who, at, of) } else { at }
    }

    /// For how long a process that gets little of a core has it from that time on, if it has it then.
    fn core_left(&self, who: usize, at: u64) -> Option<u64> {
        let is_starved = who < self.plan.replicas && self.phase == Phase::Safety;
        let (runs, of) = self.plan.starved.filter(|_| is_starved)?;
        Some(runs.saturating_sub(self.in_round(who, at, of)))
    }

    /// How long ago its turn at the core began; each has its own.
    fn in_round(&self, who: usize, at: u64, of: u64) -> u64 {
        (at + of * who as u64 / self.plan.replicas as u64) % of
    }

    /// The connection of a member that something came from.
    fn member_of(&self, who: usize, arrival: &Arrival) -> Option<ConnId> {
        let (Arrival::Bytes(conn, _) | Arrival::End(conn)) = arrival else { return None };
        let is_member = |place| place == Place::Member;
        let node = self.replicas[who].node.as_ref()?;
        let waits = self.processes[who].unread.contains_key(conn);
        (waits || is_member(node.place(*conn))).then_some(*conn)
    }

    /// One member has its part of a turn.
    fn read_member(&mut self, who: usize, conn: ConnId, local: Time, began: u64) {
        let mut had = self.processes[who].costs.begin(conn);
        let mut now = local;
        while had.may_have_more() {
            let process = &mut self.processes[who];
            let (before, piece) = (process.cost, process.costs.piece(conn));
            let Some(queue) = process.unread.get_mut(&conn) else { break };
            let Some(mut arrival) = queue.pop_front() else { break };
            let mut read = 0;
            if let Arrival::Bytes(_, bytes) = &mut arrival {
                if bytes.len() > piece {
                    queue.push_front(Arrival::Bytes(conn, bytes.split_off(piece)));
                }
                read = bytes.len();
            }
            self.replica_arrival(who, local, arrival);
            let process = &mut self.processes[who];
            process.costs.read(conn, &mut had, read, Span::from_nanos(process.cost - before));
            now = local.plus(Span::from_nanos(process.cost - began));
        }
        let node = self.replicas[who].node.as_ref();
        let suspect = node.is_some_and(|node| node.suspects_lately(now, conn));
        self.processes[who].costs.served(now, conn, had, suspect);
    }

    /// A replica came to a border in this turn. It may have executed more since: then the time of that border is not known.
    pub(super) fn look_at_border_rate(&mut self, who: usize, seq: u64) -> Result<(), Failure> {
        let name = self.trace.name(who);
        let replica = &mut self.replicas[who];
        let Some(node) = &replica.node else { return Ok(()) };
        let here = (seq, node.executor().time());
        let known = node.executor().seq().number() == seq;
        let liars = self.plan.fault_model.may_lie();
        let bounded = liars && self.plan.upgrades.made_with >= 4 && node.level() >= 4;
        // After a restart it comes to borders that it has passed before.
        match std::mem::replace(&mut replica.keeping.border, known.then_some(here)) {
            Some(before) if bounded && before.0 < seq => borders::judge(&name, &self.plan, before, here),
            _ => Ok(()),
        }
    }
}

/// Where a border was: its seq, and the agreed time.
pub type At = (u64, AgreedTime);
