//! Checkpoints of this replica on their way to others: members that lag, and operators who make backups. What somebody fetches stays
//! meanwhile (`holds.rs`). Tests: `serving/tests.rs`.

use super::holds::Holds;
use super::inout::Out;
use super::own::Own;
use quorate_state::checkpoint::Job;
use quorate_state::transfer::{Serve, ServeEffect, ServeInput, ServeLimits};
use quorate_types::{ConnId, ReplicaId, Seq, Time};
use quorate_wire::StateMessage;
use std::collections::BTreeMap;

/// So many operators at once may fetch checkpoints.
const OPERATORS_MAX: usize = 16;

/// Who is sent what, and what is held back for them.
pub(super) struct Serving {
    serve: Serve,
    holds: Holds,
    /// Operators who make backups, by the numbers under which they are served.
    operators: BTreeMap<ReplicaId, ConnId>,
}

impl Serving {
    /// Nobody asked yet.
    pub(super) fn new(limits: ServeLimits) -> Self {
        Self { serve: Serve::new(limits), holds: Holds::default(), operators: BTreeMap::new() }
    }

    /// The number under which an operator is served: no member's.
    pub(super) fn operator(&mut self, conn: ConnId, members: &[ReplicaId]) -> Option<ReplicaId> {
        let known = self.number_of(conn);
        if known.is_some() {
            return known;
        }
        let free = free_number(&self.operators, |number| members.contains(&number))?;
        self.operators.insert(free, conn);
        Some(free)
    }

    fn number_of(&self, conn: ConnId) -> Option<ReplicaId> {
        self.operators.iter().find(|(_, of)| **of == conn).map(|(number, _)| *number)
    }

    /// A connection ended. If it was an operator's, nothing is held for it any more.
    pub(super) fn operator_left(&mut self, now: Time, conn: ConnId, out: &mut Vec<Out>) {
        if let Some(number) = self.number_of(conn) {
            self.operators.remove(&number);
            self.left(now, number, out);
        }
    }

    /// Somebody asks for a part of a checkpoint: it stays meanwhile. `here`: this replica has it.
    pub(super) fn asked(
        &mut self,
        now: Time,
        from: ReplicaId,
        message: StateMessage,
        here: bool,
        out: &mut Vec<Out>,
    ) {
        let (seq, _) = message.about();
        self.change(|holds| holds.asked(now, from, seq, here), out);
        self.step(now, ServeInput::Asked { from, message }, out);
    }

    /// Somebody is gone.
    pub(super) fn left(&mut self, now: Time, who: ReplicaId, out: &mut Vec<Out>) {
        self.change(|holds| holds.left(who), out);
        self.step(now, ServeInput::Disconnected(who), out);
    }

    /// Somebody has the state at a border; `newest` is the newest one that is durable here.
    pub(super) fn reached(&mut self, by: ReplicaId, seq: Seq, newest: Seq, out: &mut Vec<Out>) {
        self.change(|holds| holds.reached(by, seq, newest), out);
    }

    /// Its deadline has come, or another one.
    pub(super) fn on_deadline(&mut self, now: Time, out: &mut Vec<Out>) {
        if self.holds.deadline().is_some_and(|at| at <= now) {
            self.change(|holds| holds.expire(now), out);
        }
        self.step(now, ServeInput::Deadline, out);
    }

    /// Something happened that sending reacts to.
    pub(super) fn step(&mut self, now: Time, input: ServeInput, out: &mut Vec<Out>) {
        let mut effects = Vec::new();
        self.serve.step(now, input, &mut effects);
        for effect in effects {
            out.push(match effect {
                ServeEffect::Send { to, message } => self.send(to, message),
                ServeEffect::ReadManifest { ticket, seq, digest, offset, len } => {
                    Out::job(Job::ReadManifest { ticket, seq, digest, offset, max: len as usize })
                }
                ServeEffect::ReadChunk { ticket, seq, digest, chunk } => {
                    Out::job(Job::ReadChunk { ticket, seq, digest, chunk })
                }
            });
        }
    }

    /// Sends to a member, or to an operator under its number.
    pub(super) fn send(&self, to: ReplicaId, message: StateMessage) -> Out {
        match self.operators.get(&to) {
            Some(conn) => Out::Answer { conn: *conn, message },
            None => Out::Send { to, message },
        }
    }

    /// Changes what is held back, and tells the keeper.
    fn change(&mut self, change: impl FnOnce(&mut Holds), out: &mut Vec<Out>) {
        let before = self.holds.fetched();
        change(&mut self.holds);
        let seqs = self.holds.fetched();
        if seqs != before {
            out.push(Out::job(Job::Pin { seqs }));
        }
    }

    /// How far the log may be trimmed, where all else would let it be trimmed up to `to`: see [`Holds::hold_back`].
    pub(super) fn hold_back<'a>(
        &self,
        to: Own,
        own: impl DoubleEndedIterator<Item = &'a Own>,
        log: (u64, u64),
        log_bytes_max: u64,
    ) -> Option<Own> {
        self.holds.hold_back(to, own, log, log_bytes_max)
    }

    /// For whom the log is held back.
    pub(super) fn held_for(&self) -> impl Iterator<Item = ReplicaId> {
        self.holds.members()
    }

    /// Bytes of checkpoints that were sent.
    pub(super) fn sent(&self) -> u64 {
        self.serve.sent()
    }

    /// When to call [`Self::on_deadline`].
    pub(super) fn deadline(&self) -> Option<Time> {
        [self.serve.deadline(), self.holds.deadline()].into_iter().flatten().min()
    }
}

/// A number that is neither a member's nor an operator's, unless there are too many operators.
fn free_number(
    operators: &BTreeMap<ReplicaId, ConnId>,
    is_member: impl Fn(ReplicaId) -> bool,
) -> Option<ReplicaId> {
    let free = |number: &ReplicaId| !operators.contains_key(number) && !is_member(*number);
    if operators.len() < OPERATORS_MAX { (1..u16::MAX).rev().map(ReplicaId::new).find(free) } else { None }
}

#[cfg(test)]
mod tests;
