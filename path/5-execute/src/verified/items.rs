//! What was delivered and is not final, and how it ran.

use super::Chain;
use super::memo::Memo;
use crate::execution::Ordered;
use crate::executor::Executor;
use crate::outcomes::Outcomes;
use quorate_state::store::Changed;
use quorate_types::{Digest, Seq};
use quorate_wire::{Batch, RequestKind};

/// An item that is not final: delivered, or foreseen.
pub(super) struct Item {
    pub(super) ordered: Ordered,
    /// Whether it has no commands. Then it is final with what is before it, since nobody waits for a result.
    pub(super) quiet: bool,
    /// At a border: what a checkpoint has of rulings there.
    pub(super) chain: Option<Chain>,
    /// How it ran ahead.
    pub(super) ran: Option<Box<Ran>>,
}

impl Item {
    /// Whether it is the batch of this seq.
    pub(super) fn is_at(&self, seq: Seq) -> bool {
        matches!(self.ordered, Ordered::Batch(at, ..) if at == seq)
    }
}

/// How an item ran.
pub(super) struct Ran {
    pub(super) outcomes: Outcomes,
    pub(super) changed: Changed,
    /// What it did, and the token after it.
    pub(super) did: Digest,
    pub(super) token: Digest,
    /// What did it, if that may come out differently when it runs again.
    pub(super) memo: Option<Memo>,
}

/// What the delivered rulings say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ruled {
    /// How often everything that was not final was run again.
    pub attempt: u64,
    /// The last final seq.
    pub seq: Seq,
    /// Its token, if the last ruling named one.
    pub token: Option<Digest>,
}

/// This replica's result is another one than the order says, also when the commands ran again one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Differs {
    /// The first seq of the results. A checkpoint of this one or later is something to go on from.
    pub from: Seq,
    /// The last seq of the results.
    pub seq: Seq,
    /// The token here.
    pub own: Digest,
    /// The token that was ruled.
    pub ruled: Digest,
}

/// Numbers for the status. Counts are since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// How often everything that is not final was run again, since the cluster began.
    pub attempt: u64,
    /// The last seq that a ruling made final.
    pub ruled: Seq,
    /// Batches with commands that wait for a ruling.
    pub waiting: usize,
    /// Rulings that were carried out.
    pub rulings: u64,
    /// Rulings that came too late or were about nothing.
    pub ignored: u64,
    /// Runs of commands one after the other, because results did not agree.
    pub reruns: u64,
    /// How often this replica took over from another one what was ruled.
    pub learnt: u64,
    /// Batches that had run when they were delivered.
    pub early: u64,
    /// How often something else was delivered than what ran early.
    pub strayed: u64,
}

/// A ruling that was delivered and is not carried out.
#[derive(Clone, Copy, Debug)]
pub(super) enum Judged {
    Final(Seq, Digest),
    Redo(Seq),
}

/// A state takes over how the next item ran. What comes with a batch has no result of its own.
pub(super) fn follow(state: &mut Executor, ordered: &Ordered, ran: Option<&Ran>) {
    match (ordered, ran) {
        (Ordered::Batch(seq, moment, batch), Some(ran)) => {
            return state.follow((*seq, *moment), batch, &ran.outcomes, &ran.changed);
        }
        (Ordered::Pass(seq), _) => state.pass_over(*seq),
        (Ordered::Level(level), _) => state.read_at(*level),
        (Ordered::Neighbour(command), _) => drop(state.neighbour(command)),
        _ => {}
    }
    if let Some(ran) = ran {
        state.apply(&ran.changed);
    }
}

/// Whether a batch has no commands and no queries.
pub(super) fn is_quiet(batch: &Batch) -> bool {
    let waits = |kind| matches!(kind, RequestKind::Commands | RequestKind::Query | RequestKind::Nested);
    !batch.requests().flatten().any(|(header, ..)| waits(header.kind))
}
