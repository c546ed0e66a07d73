//! One replica by itself; the test plays all others, whose keys it has.

use super::world::{batch, replica, value};
use crate::OrderMessage;
use crate::ledger::Proof;
use crate::mod_smart::message::{Collect, Complaint, ModSmartBody as Body, ModSmartMessage};
use crate::mod_smart::{ModSmart, ModSmartConfig};
use crate::{Effect, Effects, Input, Order, Stored, Waited};
use quorate_auth::{Authenticator, Keyed, Trusting};
use quorate_auth::{Signature, Signed, Text};
use quorate_types::{Digest, FaultModel, MembershipId, RecordId, Slot, Span, Time, View};
use quorate_wire::{Batch, Verified};

pub(super) const SEED: u64 = 77;

pub(super) struct One {
    pub(super) order: ModSmart,
    pub(super) now: Time,
    pub(super) disk: Vec<Stored>,
    me: usize,
    members: usize,
    model: FaultModel,
    /// Whether what it writes is durable at once.
    pub(super) autosync: bool,
    /// Whether the host vouches for every proposal at once.
    pub(super) vouches: bool,
    /// Since when what is proposed waits, by its word.
    pub(super) waited: Option<Waited>,
}

impl One {
    /// Member `me` of so many, in its first life.
    pub(super) fn new(me: usize, members: usize, model: FaultModel) -> Self {
        Self::restored(me, members, model, Vec::new())
    }

    pub(super) fn config(me: usize, members: usize, model: FaultModel) -> ModSmartConfig {
        ModSmartConfig::new(replica(me), (0..members).map(replica).collect(), model, 5)
    }

    pub(super) fn fresh(me: usize, members: usize, model: FaultModel) -> ModSmart {
        let auth: Box<dyn Authenticator> = match model {
            FaultModel::Crash => Box::new(Trusting),
            _ => Box::new(Keyed::new(replica(me), SEED)),
        };
        ModSmart::new(Self::config(me, members, model), auth)
    }

    /// With records of an earlier life.
    pub(super) fn restored(me: usize, members: usize, model: FaultModel, disk: Vec<Stored>) -> Self {
        Self::begun(Self::fresh(me, members, model), me, members, model, disk)
    }

    /// The same, with a protocol that perhaps was given a checkpoint before.
    pub(super) fn begun(
        mut order: ModSmart,
        me: usize,
        members: usize,
        model: FaultModel,
        disk: Vec<Stored>,
    ) -> Self {
        for (id, record) in (1..).zip(&disk) {
            order.restore(RecordId::new(id), record.clone()).expect("records of ours");
        }
        let mut one = Self {
            order,
            now: Time::from_nanos(1 << 40),
            disk,
            me,
            members,
            model,
            autosync: true,
            vouches: true,
            waited: None,
        };
        let mut out = Effects::new();
        one.order.start(one.now, &mut out);
        one.finish(out);
        one
    }

    fn finish(&mut self, mut out: Effects) -> Vec<Effect> {
        let mut list = Vec::new();
        loop {
            let effects: Vec<_> = out.drain().collect();
            if effects.is_empty() {
                break;
            }
            for effect in &effects {
                if let Effect::Persist { record, .. } = effect {
                    self.disk.push(record.clone());
                }
            }
            for effect in &effects {
                if let Effect::Examine { slot, digest, .. } = effect
                    && self.vouches
                {
                    let (slot, digest, waited) = (*slot, *digest, self.waited);
                    self.order.step(self.now, Input::Vouched { slot, digest, waited }, &mut out);
                }
            }
            let wrote = effects.iter().any(|effect| matches!(effect, Effect::Persist { .. }));
            list.extend(effects);
            if wrote && self.autosync {
                let durable = Input::Durable(RecordId::new(self.disk.len() as u64));
                self.order.step(self.now, durable, &mut out);
            }
        }
        self.order.invariants(true);
        list
    }

    pub(super) fn step(&mut self, input: Input) -> Vec<Effect> {
        let mut out = Effects::new();
        self.order.step(self.now, input, &mut out);
        self.finish(out)
    }

    pub(super) fn sync(&mut self) -> Vec<Effect> {
        self.step(Input::Durable(RecordId::new(self.disk.len() as u64)))
    }

    /// Time passes, tick by tick.
    pub(super) fn pass(&mut self, span: Span) -> Vec<Effect> {
        let end = self.now.plus(span);
        let mut list = Vec::new();
        while let Some(due) = self.order.deadline().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            list.extend(self.step(Input::Deadline));
        }
        self.now = end;
        list
    }

    pub(super) fn hear(&mut self, from: usize, view: u64, body: Body) -> Vec<Effect> {
        self.hear_in(1, from, view, body)
    }

    /// The same from who is in this membership.
    pub(super) fn hear_in(&mut self, membership: u64, from: usize, view: u64, body: Body) -> Vec<Effect> {
        let (membership, view) = (MembershipId::new(membership), View::new(view));
        let message = OrderMessage::of(ModSmartMessage { membership, view, body });
        self.step(Input::Receive(Verified::vouch(replica(from), message)))
    }

    pub(super) fn sign(&self, from: usize, statement: &Text) -> Signature {
        match self.model {
            FaultModel::Crash => Signature::NONE,
            _ => Keyed::new(replica(from), SEED).sign(statement),
        }
    }

    pub(super) fn accept(&self, from: usize, view: u64, slot: u64, digest: Digest) -> Body {
        let (view, slot) = (View::new(view), Slot::new(slot));
        let signature = self.sign(from, &self.order.core.accept_statement(view, slot, digest));
        Body::Accept { slot, digest, signature }
    }

    pub(super) fn stop(&self, from: usize, asked: u64, why: Complaint) -> Body {
        let asked = View::new(asked);
        let signature = self.sign(from, &self.order.core.stop_statement(asked));
        Body::Stop { asked, why, decided: Slot::ZERO, signature }
    }

    pub(super) fn stops(&self, view: u64, members: &[usize]) -> Signed {
        let statement = self.order.core.stop_statement(View::new(view));
        members.iter().map(|id| (replica(*id), self.sign(*id, &statement))).collect()
    }

    pub(super) fn proof(&self, view: u64, slot: u64, batch: &Batch, members: &[usize]) -> Proof {
        let (view, slot, digest) = (View::new(view), Slot::new(slot), value(batch));
        let statement = self.order.core.accept_statement(view, slot, digest);
        let accepts = members.iter().map(|id| (replica(*id), self.sign(*id, &statement))).collect();
        Proof { slot, view, digest, accepts }
    }

    pub(super) fn collect(
        &self,
        from: usize,
        view: u64,
        decided: u64,
        lock: Option<(u64, Digest)>,
        writes: &[(u64, Digest)],
    ) -> Collect {
        let value = |(view, digest): &(u64, Digest)| (View::new(*view), *digest);
        let mut collect = Collect {
            from: replica(from),
            decided: Slot::new(decided),
            lock: lock.as_ref().map(value),
            writes: writes.iter().map(value).collect(),
            signature: Signature::NONE,
        };
        collect.signature = self.sign(from, &self.order.core.collect_statement(View::new(view), &collect));
        collect
    }

    /// The others decide a slot in a view whose leader is `leader`, and this replica with them.
    pub(super) fn decide(&mut self, view: u64, slot: u64, leader: usize, batch: &Batch) -> Vec<Effect> {
        let digest = value(batch);
        let slot_id = Slot::new(slot);
        let mut list = self.hear(leader, view, Body::Propose { slot: slot_id, batch: batch.clone() });
        let others: Vec<_> = (0..self.members).filter(|other| *other != self.me).collect();
        for other in others.iter().copied() {
            if self.model == FaultModel::Byzantine {
                list.extend(self.hear(other, view, Body::Write { slot: slot_id, digest }));
            }
        }
        for other in others {
            let accept = self.accept(other, view, slot, digest);
            list.extend(self.hear(other, view, accept));
        }
        list
    }
}

/// What was sent to a member, without what waits.
pub(super) fn sent(effects: &[Effect], to: usize) -> Vec<Body> {
    let body = |effect: &Effect| match effect {
        Effect::Send { to: whom, message, .. } if *whom == replica(to) => {
            message.get().map(|message: &ModSmartMessage| message.body.clone())
        }
        _ => None,
    };
    effects.iter().filter_map(body).collect()
}

pub(super) fn rejected(effects: &[Effect]) -> usize {
    effects.iter().filter(|effect| matches!(effect, Effect::Rejected { .. })).count()
}

pub(super) fn decisions(effects: &[Effect]) -> Vec<(u64, Batch)> {
    let decided = |effect: &Effect| match effect {
        Effect::Decided { slot, batch } => Some((slot.number(), batch.clone())),
        _ => None,
    };
    effects.iter().filter_map(decided).collect()
}

/// A batch by number.
pub(super) fn some(number: u64) -> Batch {
    batch(number, 10)
}

/// How long things may take at present.
pub(super) fn patience(order: &ModSmart) -> Span {
    order.watch.patience(&order.core.config)
}

/// How much a leader may add to what the group needs, if that is known.
pub(super) fn rate_limit(order: &ModSmart) -> Option<Span> {
    order.rates.limit(&order.core)
}

/// Whether the leader is found slow.
pub(super) fn is_slow(order: &ModSmart) -> bool {
    order.rates.is_slow(&order.core)
}

/// Whether nothing failed before the present view.
pub(super) fn follows_no_failure(order: &ModSmart) -> bool {
    order.rotation.follows_no_failure(&order.core)
}
