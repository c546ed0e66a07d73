//! Faults that wait for a moment (`plan/moments.rs`).

use super::{Phase, World};
use crate::plan::{Fault, Moment};
use crate::queue::Event;
use quorate_order::mod_smart::message::{ModSmartBody as Body, ModSmartMessage};
use quorate_order::protocols;
use quorate_order::raft::message::RaftMessage;
use quorate_types::{ConnId, View};
use quorate_wire::{FRAME_HEADER, FrameKind, OutFrame};

/// Whether a replica votes with this: for who is to lead, or for what is to be decided.
fn votes(frame: &OutFrame) -> bool {
    let payload = || bytes::Bytes::from(frame.to_vec()).slice(FRAME_HEADER..);
    if frame.kind() != FrameKind::Order {
        return false;
    }
    let Ok((_, message)) = protocols::decode(payload()) else { return false };
    if let Some(RaftMessage::RequestVoteReply { granted, pre, .. }) = message.get() {
        return *granted && !pre;
    }
    let said = message.get().map(|message: &ModSmartMessage| &message.body);
    matches!(said, Some(Body::Accept { .. } | Body::StopData { .. }))
}

/// The slot that a replica says it decided, where a view changes.
fn claims(frame: &OutFrame) -> Option<(usize, u64)> {
    let payload = || bytes::Bytes::from(frame.to_vec()).slice(FRAME_HEADER..);
    if frame.kind() != FrameKind::Order {
        return None;
    }
    let (instance, message) = protocols::decode(payload()).ok()?;
    let Body::StopData { collect, .. } = &message.get::<ModSmartMessage>()?.body else { return None };
    Some((usize::from(instance.number()) - 1, collect.decided.number()))
}

impl World {
    /// Takes the first of those that wait for such a moment.
    fn take_moment(&mut self, is: impl Fn(&Moment) -> bool) -> Option<Moment> {
        let at = self.moments.iter().position(is)?;
        Some(self.moments.remove(at))
    }

    /// A fault begins so much later, unless faults are over by then.
    fn strike_after(&mut self, after: u64, fault: Fault) {
        let at = self.now + after;
        if self.phase == Phase::Safety && at < self.plan.heal_at {
            self.plan.faults.push((at, fault));
            self.queue.push(at, Event::Fault { index: self.plan.faults.len() - 1 });
        }
    }

    /// A replica sends something.
    pub(super) fn look_for_votes(&mut self, who: usize, conn: ConnId, frame: &OutFrame) {
        let waits = |moment: &Moment| matches!(moment, Moment::Voted { .. });
        if !self.moments.iter().any(waits) || !votes(frame) {
            return;
        }
        let Some(to) = self.other_end(who, conn) else { return };
        if let Some(Moment::Voted { after, time, cut }) = self.take_moment(waits) {
            self.strike_after(after, Fault::PowerLoss { who, time });
            self.strike_after(after, Fault::Partition { group: 1 << to, time: cut });
        }
    }

    /// How far an instance is decided at a replica that runs.
    fn decided(&self, who: usize, at: usize) -> u64 {
        let status = self.replicas[who].node.as_ref().map(quorate_node::Node::status);
        let each = status.as_ref().and_then(|status| status.instances.each.get(at));
        each.map_or(0, |instance| instance.decided)
    }

    /// How far it is decided at the other ones.
    fn decided_elsewhere(&self, who: usize, at: usize) -> u64 {
        let others = (0..self.plan.replicas).filter(|other| *other != who);
        others.map(|other| self.decided(other, at)).max().unwrap_or(0)
    }

    /// A replica says, where a view changes, what it decided.
    pub(super) fn look_for_claims(&mut self, who: usize, frame: &OutFrame) {
        let waits = |moment: &Moment| matches!(moment, Moment::ClaimsAlone { .. });
        if !self.moments.iter().any(waits) {
            return;
        }
        let Some((at, slot)) = claims(frame) else { return };
        if slot > self.decided_elsewhere(who, at)
            && let Some(Moment::ClaimsAlone { after }) = self.take_moment(waits)
        {
            self.strike_after(after, Fault::Lose { who });
        }
    }

    /// A replica had a turn: whether it leads, and decided what no other one did.
    pub(super) fn look_for_decisions(&mut self, who: usize) {
        let waits = |moment: &Moment| matches!(moment, Moment::DecidesAlone);
        let Some(node) = self.replicas[who].node.as_ref().filter(|_| self.moments.iter().any(waits)) else {
            return;
        };
        let leads: Vec<bool> = node.leases().iter().map(|(_, leads, _)| *leads).collect();
        let mut led = (0..leads.len()).filter(|at| leads[*at]);
        if led.any(|at| self.decided(who, at) > self.decided_elsewhere(who, at)) {
            self.take_moment(waits);
            for other in (0..self.plan.replicas).filter(|other| *other != who) {
                self.strike_after(0, Fault::Reset { a: who, b: other });
            }
            self.strike_after(0, Fault::Transfer { who, to: 0 });
        }
    }

    /// A replica that stood like that in its instances before had a turn.
    pub(super) fn look_for_leaders(&mut self, who: usize, before: &[(View, bool, u64)]) {
        let waits = |moment: &Moment| matches!(moment, Moment::Leads { .. });
        let Some(node) = self.replicas[who].node.as_ref().filter(|_| self.moments.iter().any(waits)) else {
            return;
        };
        let mut both = before.iter().zip(node.leases());
        let begins = both.any(|((view, led, _), (now, leads, _))| leads && (!led || *view != now));
        if begins && let Some(Moment::Leads { after, time }) = self.take_moment(waits) {
            self.strike_after(after, Fault::Partition { group: 1 << who, time });
        }
    }
}
