//! Programs are replaced, by newer and by older ones, and the feature level is raised.

use super::{MS, World};
use crate::checks::Failure;
use crate::queue::Event;
use crate::trace::Level;
use bytes::Bytes;
use quorate_node::{LevelConfig, System};
use quorate_state::checkpoint::Job;
use quorate_types::{ReplicaId, Span};
use quorate_wire::{FRAME_HEADER, FrameKind, upgrade_request};
use std::collections::BTreeSet;

impl World {
    /// What a replica is told about levels.
    pub(super) fn level_config(&self, who: usize) -> LevelConfig {
        let raise_after = self.plan.upgrades.raise_after.map(Span::from_millis);
        let made = LevelConfig::made_with(self.plan.upgrades.made_with);
        LevelConfig { highest: self.replicas[who].able, raise_after, ..made }
    }

    /// A replica's program is replaced. Operators know that there is no way back once a raise was proposed.
    pub(super) fn change_program(&mut self, who: usize, level: u32, time: u64) -> Option<u64> {
        let able = self.replicas[who].able;
        let too_late = level < able && self.levels.begun > level && !self.plan.upgrades.careless;
        if self.replicas[who].halt.is_some() || too_late || level == able {
            return None;
        }
        self.give_program(who, level);
        if self.processes[who].up { self.crash(who, false, time) } else { None }
    }

    fn give_program(&mut self, who: usize, level: u32) {
        self.trace.line(Level::Events, self.now, Some(who), "program", || format!("level {level}"));
        let replica = &mut self.replicas[who];
        replica.able = level;
        replica.once_able = replica.once_able.max(level);
    }

    /// An operator asks for the highest level that there is.
    pub(super) fn ask_to_raise(&mut self) {
        let payload = Bytes::from(upgrade_request(0).to_vec()).slice(FRAME_HEADER..);
        self.operate(self.leader(), FrameKind::UpgradeRequest, payload);
    }

    /// This replica proposes a level: every member must have been able to do it.
    pub(super) fn proposed_level(&mut self, who: usize, level: u32) -> Result<(), Failure> {
        let Some(node) = &self.replicas[who].node else { return Ok(()) };
        let members: BTreeSet<ReplicaId> = node.change().map_or_else(
            || self.membership_of(node).members().iter().map(|member| member.replica).collect(),
            |change| change.replicas().into_iter().collect(),
        );
        let able = members.into_iter().map(|member| {
            let who = usize::from(member.number()).saturating_sub(1);
            (member.to_string(), self.replicas[who].once_able)
        });
        self.levels.raised(level, &able.collect::<Vec<_>>())
    }

    /// A replica stopped since its program can not do what was proposed when it was an older one: it gets a newer one again.
    pub(super) fn gets_newer_program(&mut self, who: usize) -> bool {
        let begun = self.levels.begun;
        if begun <= self.replicas[who].able {
            return false;
        }
        self.end_life(who, false);
        self.give_program(who, begun);
        let life = self.processes[who].life;
        self.queue.push(self.now + 300 * MS, Event::Start { who, life });
        true
    }

    /// In the end nobody is left with a program that can not do what was proposed.
    pub(super) fn end_upgrades(&mut self, who: usize) {
        if self.levels.begun > self.replicas[who].able {
            self.give_program(who, self.levels.begun);
            self.crash(who, false, 50 * MS);
        }
    }

    /// At which level a replica works now.
    pub(super) fn look_at_level(&mut self, who: usize) -> Result<(), Failure> {
        let Some(node) = &self.replicas[who].node else { return Ok(()) };
        self.levels.look(&self.trace.name(who), node.executor().seq().number(), node.level())
    }

    /// By which level a checkpoint is written.
    pub(super) fn look_at_image(&mut self, who: usize, job: &Job) -> Result<(), Failure> {
        let Job::Border { image, .. } = job else { return Ok(()) };
        let system = System::decode(&image.system).map_err(|why| Failure::new("levels", why))?;
        self.levels.look(&self.trace.name(who), image.seq.number(), system.level)
    }
}
