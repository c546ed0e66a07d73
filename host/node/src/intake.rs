//! The node's side of stage 2's intake: its configuration, and the facts that it asks for.

use crate::config::NodeConfig;
use crate::engine::Engine;
use crate::group::{Group, Groups};
use crate::reconfigure::Plan;
use crate::rulings::Rulings;
use quorate_admit::{Facts, HeardLimits, Intake, Place, Sessions, Vouched, VouchedConfig};
use quorate_execute::Verified;
use quorate_types::{AgreedTime, InstanceId, ReplicaId, Slot, Time, View};
use quorate_wire::{Batch, Ruling, SystemCommand};

/// The intake for this configuration.
pub(crate) fn intake(config: &NodeConfig) -> Intake {
    let faults = config.order.faults;
    if !faults.may_lie() {
        return Intake::Plain;
    }
    let bytes_max = config.admission.queue_bytes_max;
    Intake::Vouched(Box::new(Vouched::new(VouchedConfig {
        cluster: config.members.cluster(),
        me: config.members.me(),
        members: config.members.all().iter().map(|member| member.replica).collect(),
        faults,
        instances: config.instances,
        heard: HeardLimits { bytes_max, client_bytes_max: bytes_max / 4, window: config.sessions.window },
        checks: config.order.request_checks(),
        checks_away: config.checks_away,
        signed_only: config.signed_only,
        request_bytes_max: config.admission.request_bytes_max,
        batch_bytes: config.admission.batch_bytes,
        rotates: config.order.nature().rotates,
    })))
}

/// The facts about the node that stage 2 may ask for.
pub(crate) struct Standing<'a> {
    pub(crate) now: Time,
    pub(crate) me: ReplicaId,
    pub(crate) groups: &'a Groups,
    pub(crate) engine: &'a Engine,
    pub(crate) signatures_count: bool,
    pub(crate) rulings: &'a Rulings,
    pub(crate) plan: Plan<'a>,
}

impl Standing<'_> {
    fn of(&self, instance: InstanceId) -> Option<&Group> {
        self.groups.of(instance)
    }
}

impl Facts for Standing<'_> {
    fn sessions(&self) -> &dyn Sessions {
        self.engine.executor()
    }
    fn instances(&self) -> u16 {
        self.groups.len() as u16
    }
    fn leads(&self, instance: InstanceId) -> bool {
        self.of(instance).is_some_and(|instance| instance.standing().leading)
    }
    fn announced(&self, instance: InstanceId) -> bool {
        self.of(instance).is_some_and(|instance| instance.leader() == Some(self.me))
    }
    fn view(&self, instance: InstanceId) -> View {
        self.of(instance).map_or(View::ZERO, |instance| instance.view())
    }
    fn decided(&self, instance: InstanceId) -> Slot {
        self.of(instance).map_or(Slot::ZERO, |instance| instance.decided())
    }
    fn agreed_time(&self) -> AgreedTime {
        self.engine.agreed_time(self.now)
    }
    fn executed_time(&self) -> AgreedTime {
        self.engine.agreed().time()
    }
    fn needs_no_op(&self, instance: InstanceId, target: Slot) -> bool {
        self.engine.merge().is_needed(instance, target)
    }
    fn waits_for(&self) -> Option<(Place, Time)> {
        let waits = self.engine.merge().waits()?;
        Some((Place { slot: waits.slot, instance: waits.instance }, waits.since))
    }
    fn unmerged(&self, instance: InstanceId, each: &mut dyn FnMut(&Batch)) {
        self.engine.merge().held(instance).for_each(each);
    }
    fn unruled(&self, each: &mut dyn FnMut(&Batch)) {
        self.engine.verified().into_iter().flat_map(Verified::unruled).for_each(each);
    }
    fn may_rule(&self, instance: InstanceId, ruling: &Ruling) -> bool {
        instance == InstanceId::new(1) && self.rulings.may_vouch(self.now, ruling)
    }
    fn may_command(&self, instance: InstanceId, command: &SystemCommand) -> bool {
        instance == InstanceId::new(1) && self.plan.may_vouch(command)
    }
    fn signatures_count(&self) -> bool {
        self.signatures_count
    }
}
