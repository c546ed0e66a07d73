//! The pillar of a group: what an instance does between a request and a decided slot. It has the requests that wait for a batch, the
//! protocol, and the messages that wait for a record. It needs no other instance, no log and no connection, so it can stand on a lane of
//! its own ("pillar" in Behl, Distler and Kapitza, "Consensus-Oriented Parallelization", 2015, section 4).

use super::Pace;
use super::gathering::Gathering;
use super::held::Held;
use crate::witness::Sealed;
use quorate_admit::{Admission, AdmissionLimits};
use quorate_order::{Effect, Effects, Input, Order, OrderMessage, Standing};
use quorate_types::{ClientId, RecordId, ReplicaId, RequestNumber, SessionId, Time, View};
use quorate_wire::{Batch, BatchHeader};
use std::collections::VecDeque;

/// So many sealed batches are kept until a witness asks again.
pub(super) const SEALED_MAX: usize = 256;

/// A request of which execution said that it is no longer in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// An opening of this client, with its nonce.
    Opening(ClientId, RequestNumber),
    /// A request that execution refused.
    Refused(SessionId, RequestNumber),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Pillar {
    /// The requests of clients, while it leads here.
    pub(super) admission: Admission,
    /// How long it waits for more requests, if it agrees on one slot at a time.
    gathering: Gathering,
    pub(super) order: Box<dyn Order>,
    pub(super) held: Held,
    /// The view and the leader that were announced last.
    announced: (View, Option<ReplicaId>),
    /// The batches that were made of requests, for a witness; none before it asked the first time.
    sealed: Option<VecDeque<Sealed>>,
}

impl Pillar {
    pub(super) fn new(order: Box<dyn Order>, limits: AdmissionLimits) -> Self {
        Self {
            admission: Admission::new(limits),
            gathering: Gathering::default(),
            order,
            held: Held::default(),
            announced: (View::ZERO, None),
            sealed: None,
        }
    }

    /// The view that was announced last.
    pub(super) const fn view(&self) -> View {
        self.announced.0
    }

    /// The leader that was announced last.
    pub(super) const fn leader(&self) -> Option<ReplicaId> {
        self.announced.1
    }

    /// Sets what was announced last.
    pub(super) fn is_led(&mut self, view: View, leader: Option<ReplicaId>) {
        self.announced = (view, leader);
    }

    pub(super) fn standing(&self) -> Standing {
        self.order.standing()
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        [self.order.deadline(), self.gathering.deadline()].into_iter().flatten().min()
    }

    /// Starts the protocol. It may go on from a checkpoint that was installed before.
    pub(super) fn start(&mut self, now: Time, installed: Option<Input>, out: &mut Effects) {
        self.order.start(now, out);
        if let Some(installed) = installed {
            self.order.step(now, installed, out);
        }
    }

    /// Carries out an effect of the protocol that concerns only the pillar, or gives it back.
    pub(super) fn settle(&mut self, effect: Effect) -> Option<Effect> {
        match effect {
            Effect::Send { to, message, after: Some(after) } if self.held.holds(after) => {
                self.held.hold(after, to, message);
                return None;
            }
            Effect::LeaderChanged { view, leader, .. } => {
                if std::mem::replace(&mut self.announced, (view, leader)) == (view, leader) {
                    return None;
                }
                self.admission.reset();
                self.gathering.reset();
            }
            _ => {}
        }
        Some(effect)
    }

    /// Its records up to this one are durable.
    pub(super) fn is_durable(&mut self, now: Time, record: RecordId, out: &mut Effects) {
        self.held.durable(record);
        self.order.step(now, Input::Durable(record), out);
    }

    /// The next message whose record is durable.
    pub(super) fn release(&mut self) -> Option<(ReplicaId, OrderMessage)> {
        self.held.release()
    }

    /// A request is no longer in flight, although its outcome is no answer to it.
    pub(super) fn ended(&mut self, request: Ended) {
        match request {
            Ended::Opening(client, nonce) => {
                self.admission.opened(ClientId::number(client), nonce.number());
            }
            Ended::Refused(session, number) => self.admission.refused(session, number),
        }
    }

    /// Whether the next batch waits for more requests. `is_wanted`: something else waits for this instance.
    pub(super) fn gathers(&mut self, now: Time, pace: &Pace, is_wanted: impl FnOnce() -> bool) -> bool {
        if pace.pipelined {
            return false;
        }
        let standing = self.order.standing();
        if !standing.leading {
            self.gathering.reset();
            return false;
        }
        self.gathering.stop();
        if standing.in_flight > 0 {
            return false;
        }
        let waiting = self.admission.waiting();
        self.gathering.idle(now, waiting);
        if self.admission.is_full() || is_wanted() {
            return false;
        }
        self.gathering.waits(now, waiting, pace.gathering_max)
    }

    /// The next batch to propose, while the window allows: only a few small batches, so that later requests gather in larger ones; large
    /// batches up to a limit in bytes.
    pub(super) fn next_batch(
        &mut self,
        now: Time,
        pace: &Pace,
        header: impl FnOnce() -> BatchHeader,
    ) -> Option<Batch> {
        let standing = self.order.standing();
        let few = standing.in_flight < pace.batches_max;
        let large = self.admission.is_full() && standing.in_flight_bytes < pace.bytes_max;
        if (!few && !large) || standing.holds_back {
            return None;
        }
        let batch = self.admission.seal(header())?;
        let BatchHeader { count, seed, .. } = batch.header();
        self.gathering.proposed(now, count);
        if let Some(sealed) = self.sealed.as_mut().filter(|sealed| sealed.len() < SEALED_MAX) {
            sealed.push_back(Sealed { seed, since: self.admission.sealed_since(), at: now });
        }
        Some(batch)
    }

    /// The batches that were made of requests since the last call.
    pub(super) fn take_sealed(&mut self) -> VecDeque<Sealed> {
        self.sealed.replace(VecDeque::new()).unwrap_or_default()
    }

    /// Panics with the name of a broken invariant; `durable`: its last durable record.
    pub(super) fn invariants(&self, thorough: bool, durable: RecordId) {
        self.order.invariants(thorough);
        let first = self.held.awaited();
        assert!(
            first.is_none_or(|after| after > durable),
            "INV-NODE-1 a message waits although {first:?} is durable"
        );
    }
}
