//! What others may know of an instance. This file changes nothing.

use super::leading::progress::{Flow, Progress};
use super::message::Index;
use super::{Raft, Role};
use crate::{Restored, Standing, Status};
use quorate_types::{ReplicaId, Slot, planted};

/// The protocol's standing after a step.
pub(super) fn standing(raft: &Raft) -> Standing {
    let store = &raft.store;
    let view = store.view();
    let Role::Leader(lead) = &raft.role else { return Standing { view, ..Standing::default() } };
    let leading = lead.may_propose() && !raft.life.halted;
    // The first record of a view follows everything that was committed before.
    let handed_on = store.log().view_at(store.delivered()) == Some(view);
    let settled = leading && handed_on;
    let (in_flight, in_flight_bytes) = lead.proposed_and_open(store);
    let holds_back = lead.strains_a_follower(raft.life.now, &raft.config, store);
    Standing {
        view,
        leading,
        handed_on,
        settled,
        holds_back,
        alone: lead.is_alone(),
        in_flight,
        in_flight_bytes,
    }
}

/// The full status.
pub(super) fn status(raft: &Raft) -> Status {
    let (store, peers) = (&raft.store, peers(raft));
    let heard = |peer: &&Progress| is_heard(raft, peer);
    let near = |peer: &&Progress| peer.caught_up && peer.flow == Flow::Stream;
    let accepted = peers.iter().filter(|peer| peer.matched > Index::ZERO);
    Status {
        view: store.view(),
        leader: store.term().leader(),
        decided: store.slot(),
        knows_decision: false,
        members: peers.iter().map(|peer| member(raft, peer)).collect(),
        // [raft L124]
        caught_up: peers.iter().filter(heard).filter(near).map(|peer| peer.id).collect(),
        // A new leader at first takes all replicas for alive; those that accepted something from it are.
        there: accepted.filter(heard).map(|peer| peer.id).collect(),
        lost: raft.counts.lost.iter().map(|(replica, entries)| (*replica, *entries)).collect(),
        open: Vec::new(),
        small_quorums: None,
        counts: None,
        lease: raft.config.lease_drift_percent.map(|_| holds_lease(raft)),
        answered_by_lease: raft.counts.leased,
        membership: store.membership().clone(),
        committed_membership: store.committed_number(),
        memberships: store.named_members(),
    }
}

/// What can be concluded from the restored records, before the start.
pub(super) fn restored(raft: &Raft) -> Restored {
    Restored {
        knows_vote: raft.replay.knows_vote(),
        needs_checkpoint: raft.replay.misses_entries(raft.store.log()),
        begins_after: begins_after(raft),
    }
}

/// The slot after which the log begins.
fn begins_after(raft: &Raft) -> Slot {
    if planted("floor-as-stated") {
        return raft.store.records().stated();
    }
    let log = raft.store.log();
    if raft.life.started { Slot::new(log.floor_slots()) } else { raft.replay.forgotten_before(log) }
}

/// The followers, if this replica leads.
fn peers(raft: &Raft) -> &[Progress] {
    match &raft.role {
        Role::Leader(lead) => lead.peers(),
        _ => &[],
    }
}

fn is_heard(raft: &Raft, peer: &Progress) -> bool {
    raft.life.now.since(peer.heard) < raft.config.election_max
}

fn member(raft: &Raft, peer: &Progress) -> (ReplicaId, u64, bool) {
    let log = raft.store.log();
    let lacks = log.bytes().saturating_sub(log.bytes_at(peer.matched));
    (peer.id, if peer.flow == Flow::Checkpoint { u64::MAX } else { lacks }, is_heard(raft, peer))
}

fn holds_lease(raft: &Raft) -> bool {
    matches!(&raft.role, Role::Leader(lead) if lead.holds_lease(raft.life.now, &raft.config, &raft.store))
}
