//! What goes wrong, and when: the faults of the plan, and those that wait for a moment (`plan/moments.rs`). It watches, and returns which
//! faults begin; `world/faults.rs` carries them out.

use super::cluster::Cluster;
use crate::plan::{DiskFault, Fault, Moment, Plan};
use crate::queue::Event;
use quorate_order::mod_smart::message::{ModSmartBody as Body, ModSmartMessage};
use quorate_order::protocols;
use quorate_order::raft::message::RaftMessage;
use quorate_types::View;
use quorate_wire::{FRAME_HEADER, FrameKind, OutFrame};

/// The state of a replica in each of its instances: the view, whether it leads, how many reads it answered by its lease.
pub(super) type Stands = [(View, bool, u64)];

/// Whether this frame is a vote, for a leader or for a decision.
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

/// The last decided slot that this frame claims, where a view changes.
fn claims(frame: &OutFrame) -> Option<(usize, u64)> {
    let payload = || bytes::Bytes::from(frame.to_vec()).slice(FRAME_HEADER..);
    if frame.kind() != FrameKind::Order {
        return None;
    }
    let (instance, message) = protocols::decode(payload()).ok()?;
    let Body::StopData { collect, .. } = &message.get::<ModSmartMessage>()?.body else { return None };
    Some((usize::from(instance.number()) - 1, collect.decided.number()))
}

/// The part that decides what goes wrong.
#[derive(Debug)]
pub(super) struct Adversary {
    /// All faults, with their times. One that waited for its moment is added at the end.
    faults: Vec<(u64, Fault)>,
    /// Faults that wait for their moment.
    moments: Vec<Moment>,
    /// When faults are over, and whether they are.
    end: u64,
    is_over: bool,
}

impl Adversary {
    pub(super) fn new(plan: &Plan) -> Self {
        Self { faults: plan.faults.clone(), moments: Vec::new(), end: plan.heal_at, is_over: false }
    }

    /// When the faults of the plan begin.
    pub(super) fn events(&self) -> Vec<(u64, Event)> {
        let event = |(index, (at, _)): (usize, &(u64, Fault))| (*at, Event::Fault { index });
        self.faults.iter().enumerate().map(event).collect()
    }

    /// A fault begins. If it is aimed at the leader, it is now fixed which replica that is.
    pub(super) fn begin(&mut self, index: usize, cluster: &Cluster) -> Fault {
        let fault = &mut self.faults[index].1;
        *fault = fault.resolved(cluster.leader(), cluster.plan.founders);
        *fault
    }

    /// The fault that ends; none once all faults are over.
    pub(super) fn end(&self, index: usize) -> Option<Fault> {
        (!self.is_over).then(|| self.faults[index].1)
    }

    /// A fault waits for its moment.
    pub(super) fn wait_for(&mut self, moment: Moment) {
        self.moments.push(moment);
    }

    /// Faults are over.
    pub(super) fn heal(&mut self) {
        self.is_over = true;
        self.moments.clear();
    }

    /// Whether bits flip in this replica's checkpoints during this run.
    pub(super) fn has_rot(&self, who: usize) -> bool {
        let rotten =
            |fault: &Fault| matches!(fault, Fault::RotCheckpoint { who: rotten, .. } if *rotten == who);
        self.faults.iter().any(|(_, fault)| rotten(fault))
    }

    /// Whether a fault may make this replica stop for good. `checkpoint`: because it has no usable checkpoint.
    pub(super) fn may_halt(&self, who: usize, checkpoint: bool) -> bool {
        self.faults.iter().any(|(_, fault)| match fault {
            Fault::Rot { who: rotten, .. } => *rotten == who,
            Fault::Disk(fault) => fault.damages() && fault.who() == who,
            Fault::RotCheckpoint { who: rotten, .. } => *rotten == who && checkpoint,
            _ => false,
        })
    }

    /// How long a replica is down after its sync failed.
    pub(super) fn down_after_failed_sync(&self, who: usize) -> Option<u64> {
        self.faults.iter().find_map(|(_, fault)| match fault {
            Fault::Disk(DiskFault::FailedSync { who: of, time }) if *of == who => Some(*time),
            _ => None,
        })
    }

    /// Whether such a moment is awaited.
    fn waits(&self, is: fn(&Moment) -> bool) -> bool {
        self.moments.iter().any(is)
    }

    /// Takes the first of those that wait for such a moment.
    fn take(&mut self, is: fn(&Moment) -> bool) -> Option<Moment> {
        let at = self.moments.iter().position(is)?;
        Some(self.moments.remove(at))
    }

    /// A fault begins then, unless faults are over by that time.
    fn strike(&mut self, at: u64, fault: Fault) -> Option<(u64, Event)> {
        if self.is_over || at >= self.end {
            return None;
        }
        self.faults.push((at, fault));
        Some((at, Event::Fault { index: self.faults.len() - 1 }))
    }

    /// A replica sends something to this process. Returns the faults that begin with it, and when.
    pub(super) fn sent(
        &mut self,
        cluster: &Cluster,
        (now, who): (u64, usize),
        to: Option<usize>,
        frame: &OutFrame,
    ) -> Vec<(u64, Event)> {
        let mut begin = Vec::new();
        let voted: fn(&Moment) -> bool = |moment| matches!(moment, Moment::Voted { .. });
        if self.waits(voted)
            && votes(frame)
            && let Some(to) = to
            && let Some(Moment::Voted { after, time, cut }) = self.take(voted)
        {
            begin.extend(self.strike(now + after, Fault::PowerLoss { who, time }));
            begin.extend(self.strike(now + after, Fault::Partition { group: 1 << to, time: cut }));
        }
        let alone: fn(&Moment) -> bool = |moment| matches!(moment, Moment::ClaimsAlone { .. });
        if self.waits(alone)
            && let Some((at, slot)) = claims(frame)
            && slot > cluster.decided_elsewhere(who, at)
            && let Some(Moment::ClaimsAlone { after }) = self.take(alone)
        {
            begin.extend(self.strike(now + after, Fault::Lose { who }));
        }
        begin
    }

    /// A replica that was in this state had a turn. Returns the faults that begin with it, and when.
    pub(super) fn had_turn(
        &mut self,
        cluster: &Cluster,
        (now, who): (u64, usize),
        before: &Stands,
    ) -> Vec<(u64, Event)> {
        let mut begin = Vec::new();
        let Some(node) = cluster.node(who).filter(|_| !self.moments.is_empty()) else { return begin };
        let leads: fn(&Moment) -> bool = |moment| matches!(moment, Moment::Leads { .. });
        let mut both = before.iter().zip(node.leases());
        if self.waits(leads)
            && both.any(|((view, led, _), (now, leads, _))| leads && (!led || *view != now))
            && let Some(Moment::Leads { after, time }) = self.take(leads)
        {
            begin.extend(self.strike(now + after, Fault::Partition { group: 1 << who, time }));
        }
        let alone: fn(&Moment) -> bool = |moment| matches!(moment, Moment::DecidesAlone);
        if self.waits(alone) && decides_alone(cluster, who) {
            self.take(alone);
            for other in (0..cluster.plan.replicas).filter(|other| *other != who) {
                begin.extend(self.strike(now, Fault::Reset { a: who, b: other }));
            }
            begin.extend(self.strike(now, Fault::Transfer { who, to: 0 }));
        }
        begin
    }
}

/// Whether a replica leads an instance, and has decided there what no other one has.
fn decides_alone(cluster: &Cluster, who: usize) -> bool {
    let leases = cluster.node(who).map(|node| node.leases()).unwrap_or_default();
    let mut led = (0..leases.len()).filter(|at| leases[*at].1);
    led.any(|at| cluster.decided(who, at) > cluster.decided_elsewhere(who, at))
}
