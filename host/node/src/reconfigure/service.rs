//! The level of the service, which is raised as the feature level is (`levels.rs`): by an ordered command, once the programs of all members
//! have the version. It rises where the command is executed, not where it is delivered, since the service makes its state that of the newer
//! version there, and may fail.
//!
//! INV-LEVEL-2, path/5-execute/src/executor/served.rs. Tests: path/5-execute/tests/all/served.rs, host/quorate/tests/all/evolution.rs.

use super::planning::Plan;
use super::{Look, Out, Reconfigure, say};
use crate::config::ServiceConfig;
use crate::effects::Event;
use crate::status::{MemberVersion, ServiceStatus};
use quorate_execute::ServiceRaise;
use quorate_types::ReplicaId;
use quorate_wire::{SERVICE_LEVELS, SystemCommand};

impl Reconfigure {
    /// An ordered command raises the level of the service. All replicas give the same answer: whether the level is a later one, execution sees.
    pub(super) fn service_raised(&mut self, look: &Look<'_>, level: u32, out: &mut Vec<Out>) {
        self.begun.raise = None;
        match service_can_rise(look) {
            Ok(()) => out.push(Out::Service(level)),
            Err(why) => {
                out.push(say(format!("a raise of the service to version {level} was refused: {why}")))
            }
        }
    }

    /// An operator asks for a level; 0 stands for the highest possible.
    pub(super) fn raise_service(&mut self, look: &Look<'_>, wanted: u32, out: &mut Vec<Out>) -> String {
        if look.config.order.faults.may_lie() {
            return "error: where replicas may lie, administrators sign this (`quorate admin`)".into();
        }
        match Plan::new(self, look).raise_service(wanted) {
            Ok(level) => {
                self.begun.raise = Some(look.view());
                out.push(Out::Say(Event::ServiceLevel { level, end: None }));
                out.push(Out::Propose(SystemCommand::RaiseService(level)));
                format!("begun {level}")
            }
            Err(why) => format!("error: {why}"),
        }
    }

    /// How the last raise ended, if nobody was told yet.
    pub(crate) fn news_of_service(&mut self, last: Option<&ServiceRaise>) -> Option<ServiceRaise> {
        if self.service_raise.as_ref() == last {
            return None;
        }
        self.service_raise = last.cloned();
        last.cloned()
    }
}

/// Whether the level can be raised at all; all replicas give the same answer.
fn service_can_rise(look: &Look<'_>) -> Result<(), String> {
    let level = look.config.level.cluster;
    if level < SERVICE_LEVELS {
        return Err(format!(
            "the cluster works at feature level {level}, and services have levels from level {SERVICE_LEVELS} on: raise it first (`quorate \
             upgrade raise`)"
        ));
    }
    if look.engine.raises_service() {
        return Ok(());
    }
    Err("commands run before their turn here, and would have begun at another level: only with the executor \"sequential\", and a service \
         that asks no others, can the level rise"
        .into())
}

impl Plan<'_> {
    /// The level of the service to raise to; `wanted` is 0 for the highest possible.
    pub(super) fn raise_service(&self, wanted: u32) -> Result<u32, String> {
        self.may_raise()?;
        let all = self.service_version_of_all()?;
        let level = if wanted == 0 { all } else { wanted };
        self.service_may_reach(level)?;
        Ok(level)
    }

    /// Whether the service can rise to this level now: it is a later one, and all members' programs have the version.
    pub(super) fn service_may_reach(&self, level: u32) -> Result<(), String> {
        service_can_rise(self.look)?;
        let (now, all) = (self.look.config.service.level, self.service_version_of_all()?);
        if level <= now {
            let rest = if all > now { "there is no way back" } else { "all programs have no later one" };
            return Err(format!("the service is at version {now} already, and {rest}"));
        }
        if level <= all {
            return Ok(());
        }
        let lacking = |member: &ReplicaId| self.service_version_of(*member).is_some_and(|has| has < level);
        let lacking = self.of.ordered_members(self.look).into_iter().find(lacking);
        let who = lacking.map_or_else(|| "a member".to_owned(), |member| member.to_string());
        Err(format!(
            "the program of {who} does not have version {level} of the service: start a newer program there (`quorate upgrade status` shows \
             what runs where)"
        ))
    }

    /// The highest version that all members' programs have.
    fn service_version_of_all(&self) -> Result<u32, String> {
        let own = self.look.config.service.version;
        self.of.ordered_members(self.look).into_iter().try_fold(own, |all, member| {
            let unknown = || {
                format!(
                    "{member} is not connected, so nobody knows what its program can do: bring it back, or remove it, first"
                )
            };
            Ok(all.min(self.service_version_of(member).ok_or_else(unknown)?))
        })
    }

    /// The highest version of a member's program, if the member is connected.
    fn service_version_of(&self, member: ReplicaId) -> Option<u32> {
        if member == self.look.me() {
            return Some(self.look.config.service.version);
        }
        self.look.gate.peers().service_version(member)
    }

    /// The service in `status`.
    pub(crate) fn service_status(&self) -> ServiceStatus {
        let ServiceConfig { name, level, version } = self.look.config.service;
        let last = self.of.service_raise.as_ref();
        let member = |replica: ReplicaId| MemberVersion {
            replica: replica.number(),
            version: self.service_version_of(replica),
        };
        ServiceStatus {
            name: name.to_string(),
            level,
            version,
            raise_failed: last.and_then(|last| last.failed.clone()),
            raise_failed_at: last.filter(|last| last.failed.is_some()).map(|last| last.seq.number()),
            members: self.of.ordered_members(self.look).into_iter().map(member).collect(),
        }
    }
}
