//! The command that ends an era: whether it can be, and what the next era is.
//!
//! The era after this one has the members that there are, in a first membership of its own, with their lives and, where replicas may lie,
//! their public keys. Everything that a replica must know of it is in the command, so that all replicas enter the same era.
//! Tests: signed/tests.rs, front/cli/tests/all/faults.rs.

use super::planning::Plan;
use super::{Look, Out, Reconfigure};
use crate::eras::protocol_of;
use quorate_order::{Feature, Nature, Protocol};
use quorate_types::{MembershipId, ReplicaId};
use quorate_wire::{AdminCommand, ERAS_LEVEL, Era, EraFaults, FaultsRequest, Member, MemberRole, Membership};

/// What is checked before the command is ordered. [E1, E2]
impl Plan<'_> {
    /// The era that an operator asks for, if it can begin now, as far as this replica knows.
    pub(super) fn era(&self, request: &FaultsRequest) -> Result<Era, String> {
        self.may_end_era()?;
        let FaultsRequest { protocol, faults } = *request;
        let protocol = match protocol {
            Some(number) => Protocol::ALL.into_iter().find(|protocol| protocol.row().number == number),
            None => Some(suits(faults)),
        };
        let protocol = protocol.ok_or("this program does not have that protocol")?;
        self.can_work(protocol, faults)?;
        let lies = faults.model.may_lie();
        let era = Era {
            number: self.look.config.era.number + 1,
            protocol: protocol.row().number,
            faults,
            members: self.members_of_era(lies)?,
            administrators: if lies { Some(self.administrators_of_era()?) } else { None },
        };
        self.has_enough(&era)?;
        (self.look.config.era.judge)(&era)?;
        Ok(era)
    }

    /// Whether anything is under way that has to be over first.
    fn may_end_era(&self) -> Result<(), String> {
        let (look, view) = (self.look, self.look.view());
        let level = look.config.level.cluster;
        if level < ERAS_LEVEL {
            return Err(format!(
                "the cluster works at feature level {level}, and other faults can be chosen from level {ERAS_LEVEL} on: raise it \
                 (`quorate upgrade raise`)"
            ));
        }
        if look.eras.has_ended() {
            return Err("this era is ending already: look at `quorate faults show`".into());
        }
        if self.of.roster.change().is_some() || self.of.begun.change == Some(view) {
            return Err("a change of the membership is under way: wait until it is over (`quorate member list` shows it)".into());
        }
        if self.of.begun.raise == Some(view) {
            return Err("the feature level is about to be raised, try again".into());
        }
        self.no_instances_change(view)?;
        if look.engine.verified().is_some() {
            return Err("results are verified in this cluster (`verify` in `[execution]`), and the ruling about the last ones would come behind the \
                        end of the era"
                .into());
        }
        Ok(())
    }

    /// Whether the protocol can work with these faults.
    fn can_work(&self, protocol: Protocol, faults: EraFaults) -> Result<(), String> {
        let order = &self.look.config.order;
        let able: Nature = protocol.able();
        if faults.model.may_lie() {
            able.can(Feature::SurviveLies)?;
        }
        if faults.model.few_are_slow() {
            able.can(Feature::CountOnFast)?;
        }
        let leases = order.lease_drift_percent.is_some() && able.leases;
        if leases && order.protocol == protocol {
            return Err("leaders have leases (`lease` in `[reads]`), and one that does not know of the end could still answer by its own: \
                        write lease = false first"
                .into());
        }
        Ok(())
    }

    /// The members, with what the next era must know of them.
    fn members_of_era(&self, lies: bool) -> Result<Membership, String> {
        let config = self.look.config;
        let mut members: Vec<Member> = self.before_a_change()?.members().to_vec();
        for member in &mut members {
            let id = member.replica;
            if member.role != MemberRole::Voter {
                return Err(format!("{id} is a learner: promote or remove it first"));
            }
            if member.life == 0 {
                return Err(format!("{id} was never connected to the leader: start it first"));
            }
            member.key = member.key.or_else(|| config.era.keys.get(&id).copied());
            if lies && member.key.is_none() {
                return Err(format!(
                    "{id} has no public key, and replicas that may lie sign: name its `key` under `members` in the configurations, and the file \
                     of its own in `[signing]` (`quorate init --signing` does so for a new cluster)"
                ));
            }
        }
        Membership::new(MembershipId::FIRST, members).map_err(|why| why.to_string())
    }

    fn administrators_of_era(&self) -> Result<quorate_wire::Administrators, String> {
        let config = self.look.config;
        let made_with = config.administrators.as_ref().or(config.era.administrators.as_ref());
        self.of.roster.administration().administrators(made_with).cloned().ok_or_else(|| {
            "nobody administers the cluster, and where replicas may lie nothing changes without administrators, not even the faults: name their \
             keys in `[administration]`"
                .into()
        })
    }

    /// Whether there are members enough, and enough of them are here.
    fn has_enough(&self, era: &Era) -> Result<(), String> {
        let (look, me) = (self.look, self.look.me());
        let count = era.members.members().len() as u32;
        let (counted, model) = (era.faults.counted(), era.faults.model);
        if let Some(sizes) = model.visigoth() {
            sizes.check().and_then(|()| sizes.check_members(count)).map_err(|why| why.to_string())?;
        } else if !counted.fit(count) {
            return Err(format!(
                "to survive one replica that lies, a cluster needs 4; here are {count}: add members first"
            ));
        }
        let most = quorate_types::Faults::of(model).among(count).faults();
        if let Some(faults) = era.faults.most.filter(|faults| model.visigoth().is_none() && *faults > most) {
            let needed = if model.may_lie() { 3 * faults + 1 } else { 2 * faults + 1 };
            return Err(format!(
                "{faults} {model} faults take {needed} members, and here are {count}: add members first"
            ));
        }
        let caught_up = look.gate.peers();
        let (here, missing): (Vec<ReplicaId>, Vec<ReplicaId>) = era
            .members
            .voters()
            .partition(|id| *id == me || caught_up.to(*id).is_some() && self.has_caught_up(*id));
        let needed = counted.among(count).agreement().max(look.config.order.faults.among(count).agreement());
        if (here.len() as u32) < needed {
            let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
            return Err(format!(
                "{} can not be reached or has not caught up, and {needed} members are needed to begin: bring back who is missing first",
                missing.join(", ")
            ));
        }
        Ok(())
    }

    /// Whether a member has caught up, as far as this replica knows: who leads knows it of the others.
    fn has_caught_up(&self, id: ReplicaId) -> bool {
        let lag = self.look.first().status().members.iter().find(|(member, ..)| *member == id).copied();
        lag.is_none_or(|(_, _, active)| active)
    }

    /// Whether the era of a command is the one that this replica would begin itself.
    pub(super) fn may_begin_era(&self, era: &Era) -> Result<(), String> {
        let own = self.era(&FaultsRequest { protocol: Some(era.protocol), faults: era.faults })?;
        let known = |era: &Era| -> Vec<_> {
            era.members.members().iter().map(|member| (member.replica, member.life, member.key)).collect()
        };
        if known(&own) != known(era) || own.number != era.number || own.administrators != era.administrators {
            return Err("these are not the members, keys or administrators that this replica knows".into());
        }
        Ok(())
    }

    /// The answer to an operator who asks what the command would be, for administrators to sign.
    pub(super) fn draft_era(&self, request: &FaultsRequest) -> Result<String, String> {
        let era = self.era(request)?;
        Ok(format!(
            "plan {} {}",
            self.of.roster.administration().executed() + 1,
            super::signed::hex(era.encode())
        ))
    }

    /// The command of administrators that ends this era, for tests and tools.
    pub(crate) fn drafted_era(&self, request: &FaultsRequest) -> Result<(u64, AdminCommand), String> {
        Ok((self.of.roster.administration().executed() + 1, AdminCommand::Era(self.era(request)?)))
    }
}

/// The protocol that suits faults best, where an operator names none.
fn suits(faults: EraFaults) -> Protocol {
    let lies = faults.model.may_lie() || faults.model.visigoth().is_some();
    if lies { Protocol::MOD_SMART } else { Protocol::RAFT }
}

impl Reconfigure {
    /// An operator asks for other faults.
    pub(super) fn faults(&self, look: &Look<'_>, request: &FaultsRequest, out: &mut Vec<Out>) -> String {
        let plan = Plan::new(self, look);
        if look.config.order.faults.may_lie() {
            return plan.draft_era(request).unwrap_or_else(|why| format!("error: {why}"));
        }
        match plan.may_command().and_then(|()| plan.era(request)) {
            Ok(era) => {
                let number = era.number;
                out.push(Out::Propose(quorate_wire::SystemCommand::Era(era)));
                format!("begun {number}")
            }
            Err(why) => format!("error: {why}"),
        }
    }

    /// The command was executed. All replicas give the same answer. [E4]
    pub(super) fn end_era(&self, look: &Look<'_>, era: Era, out: &mut Vec<Out>) -> Result<(), String> {
        let config = look.config;
        if config.level.cluster < ERAS_LEVEL {
            return Err(format!("eras begin with feature level {ERAS_LEVEL}"));
        }
        if era.number != config.era.number + 1 || look.eras.has_ended() {
            return Err("it does not follow this era".into());
        }
        if self.roster.change().is_some() {
            return Err("a change of the membership is under way".into());
        }
        if look.engine.merge().next_generation().is_some() {
            return Err("the number of instances is changing".into());
        }
        if look.engine.verified().is_some() {
            return Err("results are verified".into());
        }
        let voters: Vec<ReplicaId> = era.members.voters().collect();
        if self.ordered_members(look) != voters || !era.faults.counted().fit(voters.len() as u32) {
            return Err("these are not the members, or too few".into());
        }
        let protocol = protocol_of(&era).filter(|protocol| {
            let able = protocol.able();
            (able.lies || !era.faults.model.may_lie()) && (able.few || !era.faults.model.few_are_slow())
        });
        if protocol.is_none() {
            return Err("its protocol can not survive these faults".into());
        }
        out.push(Out::EndEra(Box::new(era)));
        Ok(())
    }
}
