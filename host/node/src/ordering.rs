//! The instances: what their protocols want done is done here; what they decide goes to the merge (`merging.rs`).

use crate::effects::{Effect, Effects, Event};
use crate::engine;
use crate::group::role_of;
use crate::journal::{Loaded, VolumeId};
use crate::merging::FIRST;
use crate::node::Node;
use bytes::Bytes;
use quorate_log::DiskFull;
use quorate_order::OrderMessage;
use quorate_order::{Effect as OrderEffect, Input as OrderInput};
use quorate_types::{ReplicaId, Time, View};
use std::collections::BTreeSet;

impl Node {
    /// Hands an instance an input. What it wants done then is done by [`Self::after_order`].
    pub(crate) fn step_in(&mut self, at: usize, now: Time, input: OrderInput) {
        self.groups[at].step(now, input);
    }

    /// The same, of all instances that lead here.
    pub(crate) fn step_led(&mut self, now: Time, input: &OrderInput) {
        for instance in self.groups.iter_mut().filter(|instance| instance.standing().leading) {
            instance.step(now, input.clone());
        }
    }

    /// The same, of all that take part in the cluster.
    pub(crate) fn step_present(&mut self, now: Time, input: &OrderInput) {
        for instance in self.groups.iter_mut().filter(|instance| instance.stay().is_present()) {
            instance.step(now, input.clone());
        }
    }

    /// Does what the protocols want done, until nothing is left.
    pub(crate) fn after_order(&mut self, now: Time, out: &mut Effects) {
        let mut quiet = 0;
        let mut at = 0;
        while quiet < self.groups.len() {
            quiet = if self.drain(at, now, out) { 0 } else { quiet + 1 };
            at = (at + 1) % self.groups.len();
        }
        for at in 0..self.groups.len() {
            self.release(at, out);
        }
    }

    /// Does what one protocol wants done. Whether there was anything.
    fn drain(&mut self, at: usize, now: Time, out: &mut Effects) -> bool {
        let durable = self.journal.log().durable();
        if !self.groups[at].has_news(durable) {
            return false;
        }
        let mut any = false;
        loop {
            let mut effects = self.groups[at].take();
            let stay = self.groups[at].stay().number();
            for effect in effects.drain() {
                any = true;
                // What was decided may have begun another stay: what this one wants does not matter any more.
                if self.groups[at].stay().number() == stay
                    && let Some(effect) = self.groups[at].settle(now, effect)
                {
                    self.on_order_effect(at, now, effect, out);
                }
            }
            let group = &mut self.groups[at];
            group.put_back(effects);
            if group.sees(self.journal.log().durable())
                && let Some(durable) = self.journal.newly_durable(group.volume())
            {
                group.is_durable(now, durable);
            }
            if group.is_quiet() {
                break;
            }
        }
        let group = &mut self.groups[at];
        if group.rest() {
            self.engine.step(engine::In::Settled(group.id()));
        }
        any
    }

    fn on_order_effect(&mut self, at: usize, now: Time, effect: OrderEffect, out: &mut Effects) {
        let (id, volume) = (self.groups[at].id(), self.groups[at].volume());
        match effect {
            OrderEffect::Persist { id: own, record, vital } => {
                self.journal.persist((volume, own), id, record, vital, out);
            }
            OrderEffect::Send { to, message, .. } => self.send(at, to, &message, out),
            OrderEffect::Decided { slot, batch } => self.on_decided(at, now, slot, batch, out),
            OrderEffect::Behind { slot } => self.on_behind(at, now, slot, out),
            OrderEffect::Examine { slot, digest, batch } => self.on_examine(at, slot, digest, batch, out),
            OrderEffect::Overdue { request } => self.on_overdue(request, out),
            OrderEffect::Members { memberships, .. } => self.on_members(at, memberships),
            OrderEffect::LeaderChanged { view, leader, rotated } => {
                self.on_leader_changed(at, now, (view, leader), rotated, out);
            }
            OrderEffect::ReadConfirmed { read, slot } => self.on_read_confirmed(at, read, slot),
            OrderEffect::ReadFailed { read } => self.engine.step(engine::In::ReadFailed(read)),
            OrderEffect::Load { load, records } => self.journal.load(volume, load, &records, out),
            OrderEffect::Rejected { from, why } => {
                self.gate.count_wrong();
                self.intake.note(now, from, &why);
                out.event(Event::Refused {
                    text: format!("{from} sent what the protocol does not know: {why}"),
                });
            }
            OrderEffect::Halt(halt) => out.push(Effect::Halt(halt)),
        }
    }

    fn send(&self, at: usize, to: ReplicaId, message: &OrderMessage, out: &mut Effects) {
        // A message to somebody who is not connected is lost, as it would be on the way.
        if let Some(conn) = self.gate.peers().way(to, at) {
            out.send(conn, message.frame(self.groups[at].id()));
        }
    }

    /// Lets the messages go whose records are durable.
    fn release(&mut self, at: usize, out: &mut Effects) {
        while let Some((to, message)) = self.groups[at].release() {
            self.send(at, to, &message, out);
        }
    }

    /// Something was written or synced.
    pub(crate) fn on_durable(&mut self, now: Time, out: &mut Effects) {
        self.after_order(now, out);
        self.trim_log(out);
    }

    pub(crate) fn on_prepared(
        &mut self,
        now: Time,
        segment: u64,
        result: Result<(), DiskFull>,
        out: &mut Effects,
    ) {
        self.journal.prepared(now, segment, result, out);
        self.after_order(now, out);
    }

    pub(crate) fn on_loaded(&mut self, now: Time, load: u64, records: &[Bytes], out: &mut Effects) {
        match self.journal.loaded(load, records) {
            None => {}
            Some(Ok(Loaded { volume, load, records })) => {
                let all = self.groups.iter_mut();
                for instance in all.filter(|instance| instance.volume() == volume) {
                    instance.step(now, OrderInput::Loaded { load, records: records.clone() });
                }
                self.after_order(now, out);
            }
            Some(Err(halt)) => out.push(Effect::Halt(halt)),
        }
    }

    /// Volumes of stays that nobody knows any more go.
    pub(crate) fn close_volumes(&mut self) {
        let live: BTreeSet<VolumeId> = self.groups.stays().map(|instance| instance.volume()).collect();
        self.journal.retain_volumes(|volume| live.contains(&volume));
    }

    fn on_leader_changed(
        &mut self,
        at: usize,
        now: Time,
        (view, leader): (View, Option<ReplicaId>),
        rotated: bool,
        out: &mut Effects,
    ) {
        let many = self.groups.len() > 1;
        if at == FIRST {
            self.engine.led(now, leader.is_some());
        }
        let id = self.groups[at].id();
        self.engine.step(engine::In::Led(id, role_of(leader, self.config.members.me())));
        out.event(Event::Leader { view: view.number(), leader, instance: many.then_some(id) });
        self.intake_led(now, at, rotated);
        if self.may_lie() {
            // Clients ask all replicas, whoever leads, and some of them the leader first.
            for conn in self.gate.peers().clients() {
                out.send(conn, self.leader_notice(conn).frame());
            }
            return;
        }
        for conn in self.gate.peers().clients() {
            // Whoever waits here asks the new leader again, which then answers.
            if !many || self.guide.is_bound(conn, at) {
                self.engine.step(engine::In::Unbound(conn));
            }
        }
        self.tell_clients(many.then_some(at), out);
        self.guide.forget_instance(at);
    }
}
