//! Where there are several instances: of which ones a member hears the leader, and what leaders do that do not hear each other.
//!
//! Each leader may reach a majority, and the cluster stand still all the same: what one of them orders has to wait for what the other one
//! orders, and neither hears of it. Members tell each other whose leaders they hear. Who leads, and does not hear a leader that another
//! member hears, hands over to the member that hears the most of them; of several to one that leads already, then to the one with the lowest
//! number. Whoever takes over does the same, so that leaders gather until each hears all. docs/protocols/merge.md.
//! Tests: `sights/tests.rs`, check/sim/tests/all/ring.rs.
//!
//! With Mod-SMaRt nobody gathers: who does not hear a leader gets what it decided from whoever has it. Where replicas may lie nothing of this is
//! done: a liar could draw every instance to itself.

use crate::effects::Effects;
use crate::node::Node;
use quorate_order::Input as OrderInput;
use quorate_types::{ConnId, ReplicaId, Time, planted};
use quorate_wire::Sight;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Programs that can do this feature level are told. What they agree on does not depend on it.
const TOLD_FROM: u32 = 4;

/// What is known of the members' sight.
#[derive(Debug, Default)]
pub(crate) struct Sights {
    /// What this replica told the others last.
    told: Sight,
    /// What the connected members told.
    others: BTreeMap<ReplicaId, Sight>,
    /// Since when another member hears a leader that is not heard here.
    blind_since: Option<Time>,
    /// When a leader here looked last for somebody who hears more, if nothing was heard since.
    looked: Option<Time>,
    /// Whether a majority is connected, once that was looked at since connections and members changed.
    reaches: Option<bool>,
}

impl Sights {
    /// Whether a member hears a leader that is not heard here.
    fn is_blind(&self, own: &Sight, present: &Sight) -> bool {
        self.others.values().any(|sight| own.misses(sight, present))
    }

    /// Who hears more leaders than this replica, which leads: the most, and of several who hear as many one that leads, too, then the first.
    fn best(
        &self,
        (me, own): (ReplicaId, &Sight),
        present: &Sight,
        able: impl Fn(ReplicaId) -> bool,
        leads: impl Fn(ReplicaId) -> bool,
    ) -> Option<ReplicaId> {
        let rank = |id: ReplicaId, sight: &Sight| (sight.shared(present), id == me || leads(id), Reverse(id));
        let others = self.others.iter().filter(|(id, _)| able(**id));
        let best = others.map(|(id, sight)| rank(*id, sight)).max()?;
        (best > rank(me, own)).then_some(best.2.0)
    }

    /// Others are members, or connected.
    pub(crate) fn majority_changed(&mut self) {
        self.reaches = None;
    }

    /// Whether a member hears all leaders, as far as it said.
    fn hears_all(&self, member: ReplicaId, present: &Sight) -> bool {
        self.others.get(&member).is_none_or(|sight| sight.shared(present) == present.shared(present))
    }
}

impl Node {
    /// The instances that take part, where their leaders have to hear each other.
    fn seen_together(&self) -> Sight {
        if self.groups.len() == 1 || self.may_lie() {
            return Sight::default();
        }
        let here = usize::from(self.engine.merge().generation().instances);
        let present = self.groups.iter().take(here).filter(|instance| instance.stay().is_present());
        present.map(|instance| instance.id()).collect()
    }

    /// Whose leaders are heard here. Who reaches no majority can not lead: it says that it hears nobody.
    fn sight(&mut self) -> Sight {
        if !self.reaches_majority() {
            return Sight::default();
        }
        let heard = self.groups.iter().filter(|instance| instance.leader().is_some());
        heard.map(|instance| instance.id()).collect()
    }

    fn reaches_majority(&mut self) -> bool {
        if let Some(reaches) = self.sights.reaches {
            return reaches;
        }
        let (first, me) = (self.first(), self.config.members.me());
        let members = first.status().membership;
        let reaches = members.has_quorum(0, |id| id == me || first.is_connected(id));
        self.sights.reaches = Some(reaches);
        reaches
    }

    /// Tells the members whose leaders are heard here, if that changed.
    pub(crate) fn tell_sight(&mut self, now: Time, out: &mut Effects) {
        let present = self.seen_together();
        if present.is_empty() {
            return;
        }
        let own = self.sight();
        if own != self.sights.told {
            self.sights.told = own;
            let members: Vec<ReplicaId> = self.config.members.others().map(|member| member.replica).collect();
            members.into_iter().for_each(|member| self.tell_sight_to(member, out));
        }
        let blind = self.sights.is_blind(&own, &present);
        self.sights.blind_since = blind.then(|| self.sights.blind_since.unwrap_or(now));
    }

    fn tell_sight_to(&self, member: ReplicaId, out: &mut Effects) {
        let knows = self.peers.level(member).is_some_and(|level| level >= TOLD_FROM);
        if let Some(conn) = self.peers.to(member).filter(|_| knows) {
            out.send(conn, self.sights.told.frame());
        }
    }

    /// A member is connected from now on.
    pub(crate) fn greet_with_sight(&mut self, member: ReplicaId, out: &mut Effects) {
        if !self.seen_together().is_empty() {
            self.tell_sight_to(member, out);
        }
    }

    /// A member says whose leaders it hears.
    pub(crate) fn on_sight(
        &mut self,
        now: Time,
        (conn, from): (ConnId, ReplicaId),
        payload: &[u8],
        out: &mut Effects,
    ) {
        match Sight::decode(payload) {
            Ok(_) if self.may_lie() => {}
            Ok(sight) => {
                self.sights.others.insert(from, sight);
                self.sights.looked = None;
            }
            Err(why) => self.reject(now, conn, why.to_string(), out),
        }
    }

    /// A member's connection is gone, and it will say so again.
    pub(crate) fn forget_sight(&mut self, member: ReplicaId) {
        self.sights.others.remove(&member);
    }

    /// Whether a member hears the leaders of all instances.
    pub(crate) fn hears_all(&self, member: ReplicaId) -> bool {
        self.sights.hears_all(member, &self.seen_together())
    }

    /// When a leader here looks for a member that hears more leaders. It waits for a moment: of an election one hears sooner than another.
    pub(crate) fn gathers_at(&self) -> Option<Time> {
        let since = self.sights.blind_since?;
        let gather = !self.nature.fetches && !planted("leaders-apart");
        if !gather || !self.groups.iter().any(|instance| instance.standing().leading) {
            return None;
        }
        let patience = self.config.order.patience();
        let due = since.plus(patience.divided(4));
        Some(self.sights.looked.map_or(due, |looked| due.max(looked.plus(patience))))
    }

    /// Hands what leads here to the member that hears the most leaders.
    pub(crate) fn gather(&mut self, now: Time, out: &mut Effects) {
        if self.gathers_at().is_none_or(|at| at > now) {
            return;
        }
        self.sights.looked = Some(now);
        let (present, own, me) = (self.seen_together(), self.sight(), self.config.members.me());
        let leaders: BTreeSet<ReplicaId> =
            self.groups.iter().filter_map(|instance| instance.leader()).collect();
        for at in 0..self.groups.len() {
            if !self.groups[at].standing().leading {
                continue;
            }
            let (able, leads) = (|id| self.may_lead(at, id), |id| leaders.contains(&id));
            if let Some(to) = self.sights.best((me, &own), &present, able, leads) {
                self.step_in(at, now, OrderInput::Transfer(Some(to)));
            }
        }
        self.after_order(now, out);
    }
}

#[cfg(test)]
mod tests;
