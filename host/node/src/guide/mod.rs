//! The guide: where a client's requests go. It names the leader that a client is sent to, and binds each connection to an instance that
//! leads here.
//!
//! Each client is sent to the leader of one instance, all together to all of them (`ranks.rs`); what one connection sends goes through one
//! instance, so that it stays in order (`bindings.rs`). Tests: guide/tests.rs, and beside both files; check/sim.

mod bindings;
mod ranks;

use crate::config::NodeConfig;
use crate::effects::{Effect, Effects};
use crate::engine::Engine;
use crate::gate::Gate;
use crate::gate::lane_of;
use crate::group::FIRST;
use crate::group::Group;
use bindings::Bindings;
use quorate_merge::Merge;
use quorate_types::{ClientId, ConnId, View};
use quorate_wire::{Batch, LeaderNotice};
use ranks::Ranks;

/// A border counts for more than all the views before it together, by slot.
pub(crate) const BORDER_VIEWS: u64 = 1 << 16;

/// What this part may know of the others.
#[derive(Clone, Copy)]
pub(crate) struct Look<'a> {
    pub(crate) config: &'a NodeConfig,
    pub(crate) groups: &'a [Group],
    pub(crate) engine: &'a Engine,
    pub(crate) gate: &'a Gate,
}

/// Where clients' requests go; see the module.
#[derive(Debug, Default)]
pub(crate) struct Guide {
    bindings: Bindings,
    ranks: Ranks,
}

/// Whom a client is sent to.
impl Guide {
    /// Where a client finds somebody who leads: one that is connected, or none where nothing is known of it.
    pub(crate) fn notice(&self, look: &Look<'_>, client: Option<ClientId>) -> LeaderNotice {
        notice_to(look, client.map_or(0, |client| self.ranks.of(client)))
    }

    /// Nothing leads here through which a client's requests could go: it is told where to go. A leader that hands over can not say where yet.
    pub(crate) fn send_away(&self, look: &Look<'_>, conn: ConnId, out: &mut Effects) {
        let mut notice = self.notice(look, look.gate.peers().client(conn));
        notice.leader = notice.leader.filter(|leader| *leader != look.config.members.me());
        out.send(conn, notice.frame());
    }

    /// The rank of a connection's client, as far as it is known.
    fn rank_of(&self, look: &Look<'_>, conn: ConnId) -> u64 {
        look.gate.peers().client(conn).map_or(0, |client| self.ranks.of(client))
    }

    /// Clients hear who leads, since one instance has another leader, or since it is about all of them. Those whose requests go through
    /// another one, whose turn it is, hear nothing: for them nothing changed, and they would send everything again.
    pub(crate) fn tell_clients(&mut self, look: &Look<'_>, of: Option<usize>, out: &mut Effects) {
        self.ranks.read(look.engine.executor().sessions());
        let here = Some(look.config.members.me());
        for conn in look.gate.peers().clients() {
            let rank = self.rank_of(look, conn);
            let (notice, turn) = (notice_to(look, rank), instance_in_turn(look, rank));
            if notice.leader != here {
                self.bindings.forget(conn);
            } else if self.rebind(look, conn, turn, out) {
                // It sends everything again, since what is under way goes another way.
            } else if of.is_some_and(|of| self.bindings.goes_on(conn, of)) {
                continue;
            }
            out.send(conn, notice.frame());
        }
    }

    /// An instance has another leader, or none. Gives the connections on which nobody waits here any more: whoever did asks the new leader
    /// again, which then answers.
    pub(crate) fn led(&mut self, look: &Look<'_>, at: usize, out: &mut Effects) -> Vec<ConnId> {
        let many = look.groups.len() > 1;
        if look.config.order.faults.may_lie() {
            // Clients ask all replicas, whoever leads, and some of them the leader first.
            for conn in look.gate.peers().clients() {
                out.send(conn, self.notice(look, look.gate.peers().client(conn)).frame());
            }
            return Vec::new();
        }
        let ask_again = |conn: &ConnId| !many || self.bindings.is_bound(*conn, at);
        let unbound = look.gate.peers().clients().filter(ask_again).collect();
        self.tell_clients(look, many.then_some(at), out);
        self.bindings.forget_instance(at);
        unbound
    }

    /// A batch was executed. Whoever opened a first session with it has a rank from now on, where there are several instances.
    pub(crate) fn executed(&mut self, instances: usize, engine: &Engine) {
        if instances > 1 {
            let conn = |session| engine.conn(session);
            self.ranks.executed(engine.executor().sessions(), engine.outcomes(), conn);
        }
    }

    /// Behind their replies, clients that are new move to whoever's turn it is. Who may stay may have come to another instance: before
    /// its first session nobody knew whose turn it is.
    pub(crate) fn end_turn(&mut self, look: &Look<'_>, out: &mut Effects) {
        if self.ranks.opened.is_empty() {
            return; // in nearly every turn
        }
        for (conn, rank) in std::mem::take(&mut self.ranks.opened) {
            let notice = notice_to(look, rank);
            match notice.leader {
                Some(leader) if leader != look.config.members.me() => {
                    self.bindings.forget(conn);
                    out.send(conn, notice.frame());
                }
                _ => {
                    self.rebind(look, conn, instance_in_turn(look, rank), out);
                }
            }
        }
    }
}

/// Through which instance a client's requests go.
impl Guide {
    /// Through which one, if any leads here.
    pub(crate) fn instance_for(&mut self, look: &Look<'_>, conn: ConnId, out: &mut Effects) -> Option<usize> {
        let lanes = look.config.lanes;
        if let ([one], 1) = (look.groups, lanes) {
            return one.standing().leading.then_some(FIRST);
        }
        let led = led(look);
        if let Some(at) = self.bindings.bound(conn, &led) {
            return Some(at);
        }
        let turn = instance_in_turn(look, self.rank_of(look, conn));
        let at = self.bindings.choose(conn, &led, turn)?;
        if lanes > 1 {
            out.push(Effect::Move { conn, lane: lane_of(at, lanes) });
        }
        Some(at)
    }

    /// A client whose requests go through an instance that leads here takes this one from now on, if it leads here, too. Whether that is
    /// another one.
    fn rebind(&mut self, look: &Look<'_>, conn: ConnId, at: usize, out: &mut Effects) -> bool {
        let led = led(look);
        if !led.contains(&at) || self.bindings.bound(conn, &led).is_none_or(|bound| bound == at) {
            return false;
        }
        self.bindings.bind(conn, at);
        if look.config.lanes > 1 {
            out.push(Effect::Move { conn, lane: lane_of(at, look.config.lanes) });
        }
        true
    }

    /// A client's connection reads. One that no instance has is given a lane, too: what it costs is to be opened and sealed.
    pub(crate) fn place_reader(&mut self, conn: ConnId, lanes: u16, out: &mut Effects) {
        if let Some(lane) = self.bindings.lane_to_read(conn, lanes) {
            out.push(Effect::Move { conn, lane });
        }
    }

    /// How many connections go through an instance.
    pub(crate) fn count(&self, at: usize) -> usize {
        self.bindings.count(at)
    }

    /// A connection is gone.
    pub(crate) fn forget(&mut self, conn: ConnId) {
        self.bindings.forget(conn);
    }

    /// An instance is led elsewhere, or gone.
    pub(crate) fn forget_instance(&mut self, at: usize) {
        self.bindings.forget_instance(at);
    }
}

/// How many instances lead here; with one it does not matter.
pub(crate) fn led_count(groups: &[Group]) -> usize {
    match groups {
        [_] => 1,
        many => many.iter().filter(|group| group.standing().leading).count(),
    }
}

/// The instances that lead here, and go on.
fn led(look: &Look<'_>) -> Vec<usize> {
    let merge = look.engine.merge();
    let led = |(_, group): &(usize, &Group)| group.standing().leading && merge.stays(group.id());
    look.groups.iter().enumerate().filter(led).map(|(at, _)| at).collect()
}

/// How many instances there are before and after whatever border comes.
fn lasting(merge: &Merge<Batch>) -> usize {
    let now = merge.generation().instances;
    usize::from(merge.next_generation().map_or(now, |next| next.instances.min(now)))
}

/// The instance whose turn it is with the client of this rank.
fn instance_in_turn(look: &Look<'_>, rank: u64) -> usize {
    (rank % lasting(look.engine.merge()) as u64) as usize
}

/// Whom the client of this rank is sent to. What orders such words is the sum of all views: views only grow, so whoever says a larger one
/// knows more. Behind a border of the number of instances it begins anew, higher.
fn notice_to(look: &Look<'_>, rank: u64) -> LeaderNotice {
    let (config, generation) = (look.config, look.engine.merge().generation());
    let present = look.groups.iter().take(usize::from(generation.instances));
    let views: u64 = present.map(|group| config.order.rank_of(group.view())).sum();
    let borders = generation.first.previous().number().saturating_mul(BORDER_VIEWS);
    // Whoever leads anything serves whoever comes; but all are told the same, so that they spread.
    let (count, from) = (lasting(look.engine.merge()), instance_in_turn(look, rank));
    let leader = (0..count).find_map(|step| look.groups[(from + step) % count].leader());
    // Where clients believe this of f+1 they send there first, which is of use only if everything goes through one instance.
    let leader = leader.filter(|_| count == 1 || !config.order.faults.may_lie());
    LeaderNotice { view: View::new(views.saturating_add(borders)), leader }
}

#[cfg(test)]
mod tests;
