//! Faults that wait for a moment (`plan/moments.rs`).

use super::{Phase, World};
use crate::plan::{Fault, Moment};
use crate::queue::Event;
use quorate_types::{ConnId, View};
use quorate_wire::mod_smart::ModSmartBody as Body;
use quorate_wire::raft::RaftMessage;
use quorate_wire::{FRAME_HEADER, FrameKind, OrderMessage, OutFrame};

/// Whether a replica votes with this: for who is to lead, or for what is to be decided.
fn votes(frame: &OutFrame) -> bool {
    let payload = || bytes::Bytes::from(frame.to_vec()).slice(FRAME_HEADER..);
    if frame.kind() != FrameKind::Order {
        return false;
    }
    match OrderMessage::decode(payload()) {
        Ok((_, OrderMessage::Raft(RaftMessage::RequestVoteReply { granted, pre, .. }))) => granted && !pre,
        Ok((_, OrderMessage::ModSmart(message))) => {
            matches!(message.body, Body::Accept { .. } | Body::StopData { .. })
        }
        _ => false,
    }
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
