//! The guide decides where the requests of clients go. It names the leader that a client is sent to, and binds each connection to an
//! instance that leads here.
//!
//! Each client is sent to the leader of one instance, and clients are spread over all instances (`ranks.rs`). The requests of one
//! connection go through one instance, so that they stay in order (`bindings.rs`). Tests: guide/tests.rs, and beside both files; check/sim.

mod bindings;
mod ranks;

use crate::config::NodeConfig;
use crate::effects::{Effect, Effects};
use crate::engine::Engine;
use crate::gate::Gate;
use crate::gate::link_of;
use crate::group::FIRST;
use crate::group::Group;
use bindings::Bindings;
use quorate_merge::Merge;
use quorate_types::{ClientId, ConnId, View};
use quorate_wire::{Batch, LeaderNotice};
use ranks::Ranks;

/// How much a notice counts for a generation border, beside its views: more for each slot than all views before it together.
pub(crate) const BORDER_VIEWS: u64 = 1 << 16;

/// The other parts, as the guide may read them.
#[derive(Clone, Copy)]
pub(crate) struct Look<'a> {
    pub(crate) config: &'a NodeConfig,
    pub(crate) groups: &'a [Group],
    pub(crate) engine: &'a Engine,
    pub(crate) gate: &'a Gate,
}

/// Where the requests of clients go; see the module.
#[derive(Debug, Default)]
pub(crate) struct Guide {
    bindings: Bindings,
    ranks: Ranks,
}

/// The leader that a client is sent to.
impl Guide {
    /// The notice that tells a client where to send its requests. Without a client it is that of rank 0.
    pub(crate) fn notice(&self, look: &Look<'_>, client: Option<ClientId>) -> LeaderNotice {
        notice_to(look, client.map_or(0, |client| self.ranks.of(client)))
    }

    /// Sends a client away, because no instance leads here for its requests. A leader that hands over does not know the next one yet.
    pub(crate) fn send_away(&self, look: &Look<'_>, conn: ConnId, out: &mut Effects) {
        let mut notice = self.notice(look, look.gate.peers().client(conn));
        notice.leader = notice.leader.filter(|leader| *leader != look.config.members.me());
        out.send(conn, notice.frame());
    }

    /// The rank of the client on a connection, if it is known.
    fn rank_of(&self, look: &Look<'_>, conn: ConnId) -> u64 {
        look.gate.peers().client(conn).map_or(0, |client| self.ranks.of(client))
    }

    /// Tells clients which replica leads: for an instance with a new leader, or for all. A client whose requests go through another
    /// instance in its turn is not told: nothing has changed for it, and it would send everything again.
    pub(crate) fn tell_clients(&mut self, look: &Look<'_>, of: Option<usize>, out: &mut Effects) {
        self.ranks.read(look.engine.executor().sessions());
        let here = Some(look.config.members.me());
        for conn in look.gate.peers().clients() {
            let rank = self.rank_of(look, conn);
            let (notice, turn) = (notice_to(look, rank), instance_in_turn(look, rank));
            if notice.leader != here {
                self.bindings.forget(conn);
            } else if self.rebind(look, conn, turn, out) {
                // The client sends everything again, since its requests go through another instance now.
            } else if of.is_some_and(|of| self.bindings.goes_on(conn, of)) {
                continue;
            }
            out.send(conn, notice.frame());
        }
    }

    /// An instance has another leader, or none. Gives the connections that are no longer answered here: their clients ask the new leader
    /// again, which answers.
    pub(crate) fn led(&mut self, look: &Look<'_>, at: usize, out: &mut Effects) -> Vec<ConnId> {
        let many = look.groups.len() > 1;
        if look.config.order.faults.may_lie() {
            // Clients ask all replicas, whichever leads, and some clients ask the leader first.
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

    /// A batch was executed. With several instances, clients that opened their first session in it have ranks from now on.
    pub(crate) fn executed(&mut self, instances: usize, engine: &Engine) {
        if instances > 1 {
            let conn = |session| engine.conn(session);
            self.ranks.executed(engine.executor().sessions(), engine.outcomes(), conn);
        }
    }

    /// After the replies, new clients move to the instance whose turn it is. Even a client that stays may have come to another instance:
    /// before its first session its turn was unknown.
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

/// The instance through which a client's requests go.
impl Guide {
    /// The instance through which a client's requests go, if one leads here.
    pub(crate) fn instance_for(&mut self, look: &Look<'_>, conn: ConnId, out: &mut Effects) -> Option<usize> {
        let links = look.config.links;
        if let ([one], 1) = (look.groups, links) {
            return one.standing().leading.then_some(FIRST);
        }
        let led = led(look);
        if let Some(at) = self.bindings.bound(conn, &led) {
            return Some(at);
        }
        let turn = instance_in_turn(look, self.rank_of(look, conn));
        let at = self.bindings.choose(conn, &led, turn)?;
        if links > 1 {
            out.push(Effect::Move { conn, link: link_of(at, links) });
        }
        Some(at)
    }

    /// Binds a client's connection to this instance, if the connection is bound to an instance and this one leads here. Whether it is
    /// another instance than before.
    fn rebind(&mut self, look: &Look<'_>, conn: ConnId, at: usize, out: &mut Effects) -> bool {
        let led = led(look);
        if !led.contains(&at) || self.bindings.bound(conn, &led).is_none_or(|bound| bound == at) {
            return false;
        }
        self.bindings.bind(conn, at);
        if look.config.links > 1 {
            out.push(Effect::Move { conn, link: link_of(at, look.config.links) });
        }
        true
    }

    /// A client's connection reads. A connection that is bound to no instance gets a link, too: opening and sealing its frames is the work.
    pub(crate) fn place_reader(&mut self, conn: ConnId, links: u16, out: &mut Effects) {
        if let Some(link) = self.bindings.link_to_read(conn, links) {
            out.push(Effect::Move { conn, link });
        }
    }

    /// How many connections are bound to an instance.
    pub(crate) fn count(&self, at: usize) -> usize {
        self.bindings.count(at)
    }

    /// A connection is gone.
    pub(crate) fn forget(&mut self, conn: ConnId) {
        self.bindings.forget(conn);
    }

    /// The connections that are bound no more to an instance, since the last call; none at the first one.
    pub(crate) fn left(&mut self) -> Vec<(ConnId, usize)> {
        self.bindings.left()
    }

    /// An instance is led elsewhere, or has left.
    pub(crate) fn forget_instance(&mut self, at: usize) {
        self.bindings.forget_instance(at);
    }
}

/// How many instances lead here; if there is only one instance, 1.
pub(crate) fn led_count(groups: &[Group]) -> usize {
    match groups {
        [_] => 1,
        many => many.iter().filter(|group| group.standing().leading).count(),
    }
}

/// The instances that lead here and do not leave with the coming generation border.
fn led(look: &Look<'_>) -> Vec<usize> {
    let merge = look.engine.merge();
    let led = |(_, group): &(usize, &Group)| group.standing().leading && merge.stays(group.id());
    look.groups.iter().enumerate().filter(led).map(|(at, _)| at).collect()
}

/// How many instances stay across the coming generation border, if there is one.
fn lasting(merge: &Merge<Batch>) -> usize {
    let now = merge.generation().instances;
    usize::from(merge.next_generation().map_or(now, |next| next.instances.min(now)))
}

/// The instance whose turn it is for the client of this rank.
fn instance_in_turn(look: &Look<'_>, rank: u64) -> usize {
    (rank % lasting(look.engine.merge()) as u64) as usize
}

/// The notice for the client of this rank. Notices are ordered by the sum of all views: views only grow, so a replica with a larger sum
/// knows more. After a generation border the sum begins anew, at a higher value.
fn notice_to(look: &Look<'_>, rank: u64) -> LeaderNotice {
    let (config, generation) = (look.config, look.engine.merge().generation());
    let present = look.groups.iter().take(usize::from(generation.instances));
    let views: u64 = present.map(|group| config.order.rank_of(group.view())).sum();
    let borders = generation.first.previous().number().saturating_mul(BORDER_VIEWS);
    // A leader of any instance serves any client. But all replicas name the same leader to a client, so that clients spread.
    let (count, from) = (lasting(look.engine.merge()), instance_in_turn(look, rank));
    let leader = (0..count).find_map(|step| look.groups[(from + step) % count].leader());
    // Where clients believe a notice of f+1 replicas, they send to that leader first. This helps only if everything goes through one
    // instance.
    let leader = leader.filter(|_| count == 1 || !config.order.faults.may_lie());
    LeaderNotice { view: View::new(views.saturating_add(borders)), leader }
}

#[cfg(test)]
mod tests;
