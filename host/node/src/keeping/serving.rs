//! Checkpoints that this replica sends to others: members that lag, and operators who make backups. A checkpoint stays while a peer fetches
//! it (`holds.rs`). Tests: `serving/tests.rs`.

use super::holds::Holds;
use super::inout::Out;
use super::own::Own;
use quorate_state::checkpoint::Job;
use quorate_state::transfer::{Serve, ServeEffect, ServeInput, ServeLimits};
use quorate_types::{ConnId, ReplicaId, Seq, Time};
use quorate_wire::StateMessage;
use std::collections::BTreeMap;

/// The most operators that may fetch checkpoints at once.
const OPERATORS_MAX: usize = 16;

/// What is sent to which peer, and what is held back for it.
pub(super) struct Serving {
    serve: Serve,
    holds: Holds,
    /// Operators who make backups, by the ids under which they are served.
    operators: BTreeMap<ReplicaId, ConnId>,
}

impl Serving {
    /// Nothing has been asked for yet.
    pub(super) fn new(limits: ServeLimits) -> Self {
        Self { serve: Serve::new(limits), holds: Holds::default(), operators: BTreeMap::new() }
    }

    /// The id under which an operator is served; no member has it.
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

    /// A peer asks for a part of a checkpoint, which is held for it. `here`: whether this replica has the checkpoint.
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

    /// A peer is gone.
    pub(super) fn left(&mut self, now: Time, who: ReplicaId, out: &mut Vec<Out>) {
        self.change(|holds| holds.left(who), out);
        self.step(now, ServeInput::Disconnected(who), out);
    }

    /// A member has the state at a border; `newest` is the newest durable checkpoint here.
    pub(super) fn reached(&mut self, by: ReplicaId, seq: Seq, newest: Seq, out: &mut Vec<Out>) {
        self.change(|holds| holds.reached(by, seq, newest), out);
    }

    /// The deadline of this file, or another one, has come.
    pub(super) fn on_deadline(&mut self, now: Time, out: &mut Vec<Out>) {
        if self.holds.deadline().is_some_and(|at| at <= now) {
            self.change(|holds| holds.expire(now), out);
        }
        self.step(now, ServeInput::Deadline, out);
    }

    /// Gives an input to the sender.
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

    /// A message to a member, or to an operator under its id.
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

    /// How far the log may be trimmed, if everything else allows `to`: see [`Holds::hold_back`].
    pub(super) fn hold_back<'a>(
        &self,
        to: Own,
        own: impl DoubleEndedIterator<Item = &'a Own>,
        log: (u64, u64),
        log_bytes_max: u64,
    ) -> Option<Own> {
        self.holds.hold_back(to, own, log, log_bytes_max)
    }

    /// The peers for which the log is held back.
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

/// An id that no member and no operator has; none if there are too many operators.
fn free_number(
    operators: &BTreeMap<ReplicaId, ConnId>,
    is_member: impl Fn(ReplicaId) -> bool,
) -> Option<ReplicaId> {
    let free = |number: &ReplicaId| !operators.contains_key(number) && !is_member(*number);
    if operators.len() < OPERATORS_MAX { (1..u16::MAX).rev().map(ReplicaId::new).find(free) } else { None }
}

#[cfg(test)]
mod tests;
