//! The status of a replica, in words and figures, as `quorate status` shows it. This file reads everything and changes nothing.

use crate::gate::link_of;
use crate::group::index_of;
use crate::node::{Node, look};
use crate::problems::Situation;
use crate::reconfigure::Plan;
use crate::status::{
    EraStatus, GrantStatus, InstanceStatus, InstancesStatus, LatencyStatus, LogStatus, MemberStatus,
    NodeStatus, PeerStatus, SeatsStatus, SmallQuorumsStatus, SuspectStatus, VerificationStatus,
};
use quorate_admit::Suspect;
use quorate_log::SyncMode;
use quorate_order::Status as OrderStatus;
use quorate_order::visigoth::SmallQuorums;
use quorate_types::{InstanceId, ReplicaId, Time};
use quorate_wire::{AdminCommand, FaultsRequest, MemberRequest, Memberships};
use std::sync::Arc;

/// How results are verified.
fn verification(node: &Node) -> Option<VerificationStatus> {
    let verified = node.engine.verified()?;
    let counts = verified.counts();
    Some(VerificationStatus {
        attempt: counts.attempt,
        ruled: counts.ruled.number(),
        waiting: counts.waiting,
        rulings: counts.rulings,
        ignored: counts.ignored,
        reruns: counts.reruns,
        learnt: counts.learnt,
        early: counts.early,
        strayed: counts.strayed,
        refused: node.rulings.refused(),
        all: node.rulings.asks_all(),
        differs: verified.wrong().map(|differs| differs.seq.number()),
    })
}

/// What a change of membership would be at this replica, for administrators to sign, and the number of their next command.
///
/// # Errors
/// Why it can not be now.
pub fn draft(node: &Node, request: &MemberRequest) -> Result<(u64, Memberships), String> {
    Plan::new(&node.reconfigure, &look!(node, reconfigure)).drafted(request)
}

/// What the command would be that ends the era at this replica, for administrators to sign, and its number.
///
/// # Errors
/// Why it can not be now.
pub fn draft_era(node: &Node, request: &FaultsRequest) -> Result<(u64, AdminCommand), String> {
    Plan::new(&node.reconfigure, &look!(node, reconfigure)).drafted_era(request)
}

/// The memberships in force in a replica's instances, as far back as their logs know them.
pub fn memberships_in_force(node: &Node) -> Vec<Arc<Memberships>> {
    node.groups.iter().flat_map(|group| group.status().memberships).collect()
}

/// The whole status.
pub(crate) fn status(node: &Node) -> NodeStatus {
    let (order, look) = (node.groups.first().status(), look!(node, reconfigure));
    let plan = Plan::new(&node.reconfigure, &look);
    let (peers, seats) = (peers(node), node.gate.peers().seats_status());
    let (executor, counts) = (node.engine.executor(), node.engine.counts());
    NodeStatus {
        replica: node.config.members.me().number(),
        cluster: node.config.members.cluster().to_string(),
        view: order.view.number(),
        leader: order.leader.map(ReplicaId::number),
        leading: node.groups.lead_here(),
        decided: order.decided.number(),
        executed: executor.seq().number(),
        agreed_time_ns: node.engine.agreed().time().nanos(),
        sessions: executor.session_count(),
        connections: node.gate.peers().others(),
        seats: seats.clone(),
        queue_bytes: node.groups.queue_bytes().max(node.intake.byte_len()),
        instances: instances(node),
        log: log(node),
        members: order
            .members
            .iter()
            .map(|(replica, lag_bytes, active)| MemberStatus {
                replica: replica.number(),
                lag_bytes: *lag_bytes,
                active: *active,
            })
            .collect(),
        membership: plan.membership_status(),
        level: plan.level_status(),
        service: plan.service_status(),
        era: era(node),
        checkpoints: node.keeping.status(node.now),
        requests: counts.requests,
        batches: counts.batches,
        reads: counts.reads,
        execution: node.engine.parallelism(),
        verification: verification(node),
        lease: order.lease,
        rejected: node.gate.rejected(),
        problems: problems(node, &peers, &order, &seats),
        suspects: suspects(node),
        evidence: node.gate.proofs().status(),
        signatures_checked: node.intake.signatures_checked(),
        held_back: node.intake.held_back(),
        latencies: LatencyStatus { ordered: *node.engine.ordered(), written: *node.journal.disk().took() },
        peers,
    }
}

fn era(node: &Node) -> EraStatus {
    let (order, config) = (&node.config.order, &node.config.era);
    let began = config.notice.as_ref().map(|notice| notice.began.number());
    let faults = config.notice.as_ref().map(|notice| notice.era.faults);
    let model = faults.map(|faults| faults.model.to_string());
    EraStatus {
        number: config.number,
        protocol: order.protocol.name(),
        model: model.unwrap_or_else(|| if order.faults.may_lie() { "byzantine" } else { "crash" }.into()),
        faults: node.trust().faults(),
        may_lie: order.faults.may_lie(),
        began,
        ends: node.era().1,
    }
}

fn peers(node: &Node) -> Vec<PeerStatus> {
    let all = node.gate.peers().peers();
    all.map(|(replica, address, connected, refusal)| PeerStatus {
        replica: replica.number(),
        address: address.to_owned(),
        connected,
        links: node.gate.peers().standing(replica),
        refusal: refusal.map(str::to_owned),
    })
    .collect()
}

fn log(node: &Node) -> LogStatus {
    let (log, disk) = (node.journal.log(), node.journal.disk());
    LogStatus {
        durability: match node.config.log.sync {
            SyncMode::Group => "group",
            SyncMode::Async => "async",
            SyncMode::Memory => "memory",
        },
        sync_delay_us: node.config.sync_delay.nanos() / 1000,
        write_us: disk.write_time().nanos() / 1000,
        durable: log.durable().number(),
        appended: log.appended().number(),
        position: log.position(),
        disk_full: disk.is_full(),
        full: node.leading.full_disks(&look!(node, leading)),
        takes_writes: node.leading.takes_writes(&look!(node, leading)),
        scrubbing: node.keeping.scrubbing(),
        rotten: node.keeping.rotten_segment(),
    }
}

fn small_quorums(small: SmallQuorums, now: Time) -> SmallQuorumsStatus {
    let grants = small.grants.into_iter().map(|grant| GrantStatus {
        view: grant.view.number(),
        members: grant.set.into_iter().map(ReplicaId::number).collect(),
    });
    SmallQuorumsStatus { ms: now.since(small.since).millis(), grants: grants.collect() }
}

fn instances(node: &Node) -> InstancesStatus {
    let all = node.engine.merge();
    let (merge, counts) = (all.status(node.now), all.counts());
    let each = node.groups.iter().zip(&merge.instances).map(|(group, at)| InstanceStatus {
        instance: group.id().number(),
        link: link_of(index_of(group.id()), node.config.links),
        view: group.view().number(),
        leader: group.leader().map(ReplicaId::number),
        leading: group.standing().leading,
        clients: node.guide.count(index_of(group.id())),
        decided: at.decided.number(),
        waited_ms: at.waited.millis(),
        small_quorums: group.status().small_quorums.map(|small| small_quorums(small, node.now)),
        counts: group.status().counts,
        state: state_of(node, group.id()),
    });
    let next = all.next_generation();
    InstancesStatus {
        count: all.generation().instances,
        changing_to: next.map(|next| next.instances),
        border: next.map(|next| next.first.previous().number()),
        noop_share: counts.noop_share(),
        skew: merge.skew,
        waits_for: merge.waits.map(|waits| waits.instance.number()),
        each: each.collect(),
    }
}

fn state_of(node: &Node, id: InstanceId) -> &'static str {
    let merge = node.engine.merge();
    match (id.number() <= merge.generation().instances, merge.stays(id)) {
        (true, true) => "here",
        (true, false) => "leaves",
        (false, true) => "comes",
        (false, false) => "away",
    }
}

fn suspects(node: &Node) -> Vec<SuspectStatus> {
    let suspect = |Suspect { replica, times, what }| SuspectStatus { replica: replica.number(), times, what };
    node.intake.suspects().into_iter().map(suspect).collect()
}

fn problems(node: &Node, peers: &[PeerStatus], order: &OrderStatus, seats: &SeatsStatus) -> Vec<String> {
    let sessions = node.engine.executor().sessions();
    let limits = sessions.limits();
    let checkpoints = node.keeping.status(node.now);
    // Who left the cluster is no problem of it any more. The evidence stays where it is.
    let stays = |id: u16| node.config.members.all().iter().any(|member| member.replica.number() == id);
    let mut suspects = suspects(node);
    suspects.retain(|suspect| stays(suspect.replica));
    let mut evidence = node.gate.proofs().status();
    evidence.retain(|evidence| stays(evidence.replica));
    let (disk, me) = (node.journal.disk(), node.config.members.me());
    let situation = Situation {
        unknown: node.unknown_members(),
        order,
        leading: node.leads(),
        disk_full: disk.is_full(),
        rotten: node.keeping.rotten_segment(),
        without_room: node.leading.without_room(&look!(node, leading)),
        stalled: disk.is_stalled(),
        write_time: disk.write_time(),
        removed: node.reconfigure.is_removed(me),
        transfer: checkpoints.transfer.as_ref(),
        seats,
        sessions: (sessions.len(), limits.sessions_max as usize),
        queue: (node.groups.queue_bytes(), node.config.admission.queue_bytes_max),
        kept: (sessions.kept_bytes(), limits.reply_bytes_total_max),
        peers,
        suspects: &suspects,
        evidence: &evidence,
        few: node
            .groups
            .iter()
            .filter_map(|group| Some((group.id(), group.status().small_quorums?)))
            .collect(),
        uncounted: node
            .groups
            .iter()
            .filter(|group| group.status().counts == Some(false))
            .map(|group| group.id())
            .collect(),
        oracle: node.config.order.oracle,
        lacks_key: node.reconfigure.lacks_key(&node.config),
    };
    situation.problems(|problems| node.keeping.problems(problems))
}
