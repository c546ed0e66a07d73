//! The feature level: what the cluster does that older programs can not do. Everything that is new on disk, in checkpoints or between
//! replicas, and that a program of the level before would not understand, begins with a level (docs/operations/upgrades.md).
//!
//! The level is agreed on in the log: an ordered command raises it, so that all replicas work by it from the same seq on, whatever
//! their programs could do before. A leader proposes the command only when every member, learners too, is connected and said in its
//! handshake that it can: by itself after a time in which that did not change, or when an operator asks. Until then each replica can go
//! back to the program before; afterwards a program that can not do the level stops, and is refused by the others.
//!
//! INV-LEVEL-1: what depends on the level follows from the executed commands, never from the own program. Tests: `levels/tests.rs`,
//! check/sim, front/cli/tests/hurt/upgrades.rs.

use crate::effects::{Effect, Effects, Event};
use crate::lives::NODE;
use crate::node::Node;
use crate::status::{LevelStatus, MemberLevel};
use bytes::Bytes;
use quorate_admit::Ids;
use quorate_log::Record;
use quorate_types::{ConnId, Halt, ReplicaId, Span, Time, View, planted};
use quorate_wire::{
    FEATURE_LEVEL, FEATURE_LEVEL_MIN, Frame, FrameKind, Hello, OutFrame, Refusal, RefusalReason, Role,
    SystemCommand, read_upgrade_request,
};

/// A record of the node that says which level it works at: a program that can not do it stops before it takes part.
pub(crate) const LEVEL: u8 = 2;
/// From this level on a checkpoint says at which level the cluster works.
pub(crate) const IN_CHECKPOINTS: u32 = 2;

/// From this level on the membership changes where there are several instances, and their number does.
pub(crate) const WITH_INSTANCES: u32 = 3;

/// From this level on borders that somebody asks for come only so often, where replicas may lie.
pub(crate) const WITH_FEW_BORDERS: u32 = 4;

/// From this level on clients show from what their ids were made.
const WITH_PROVEN_IDS: u32 = 4;

/// What a replica is told about feature levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelConfig {
    /// The level that the cluster works at: at the start of a replica the one that the cluster was made with, then as it was executed.
    pub cluster: u32,
    /// The highest that this program can work at.
    pub highest: u32,
    /// A leader raises it by itself when all members could do more for so long.
    pub raise_after: Option<Span>,
}

impl LevelConfig {
    /// A cluster that was made with this level, and a program that can do what it can.
    pub fn made_with(cluster: u32) -> Self {
        Self { cluster, highest: FEATURE_LEVEL, raise_after: None }
    }

    /// The same for a program that can work at this level at most.
    pub fn limit(&mut self, highest: Option<u32>) {
        self.highest = self.highest.min(highest.unwrap_or(self.highest));
    }

    /// What clients have to show of their ids.
    pub(crate) const fn ids(&self) -> Ids {
        if self.cluster >= WITH_PROVEN_IDS { Ids::Proven } else { Ids::Named }
    }

    /// Whether this program can work at a level.
    ///
    /// # Errors
    /// When it can not.
    pub(crate) fn check(&self, level: u32) -> Result<(), Halt> {
        let (lowest, highest) = (FEATURE_LEVEL_MIN, self.highest);
        if (lowest..=highest).contains(&level) {
            return Ok(());
        }
        Err(Halt::FeatureLevel { cluster: level, lowest, highest })
    }
}

/// What a replica knows of levels beside the executed one.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    /// The view in which a raise was proposed that was not executed here yet.
    pub(crate) begun: Option<View>,
    /// Since when all members can do more, at a leader that raises by itself.
    since: Option<(u32, Time)>,
    /// What a record of this log says.
    noted: u32,
}

impl Levels {
    /// Takes back what an earlier run wrote down.
    pub(crate) fn restore(&mut self, record: &Record, config: &LevelConfig) -> Result<(), Halt> {
        let Some(level) = record.head.first_chunk::<4>().filter(|_| record.head.len() == 4) else {
            return Err(Halt::LogInconsistent { why: "a record about the feature level is none".into() });
        };
        self.noted = u32::from_le_bytes(*level);
        config.check(self.noted)
    }
}

/// A member that can not do what the cluster does is of no use to it.
pub(crate) fn check_level(hello: &Hello, level: &LevelConfig) -> Result<(), Refusal> {
    match hello.role {
        Role::Peer { replica, .. } if hello.feature_level < level.cluster => {
            let text = too_low(replica, hello.feature_level, level.cluster);
            Err(Refusal { reason: RefusalReason::Format, text })
        }
        Role::Peer { .. } | Role::Client(_) | Role::Admin => Ok(()),
    }
}

pub(crate) fn too_low(replica: ReplicaId, can: u32, cluster: u32) -> String {
    format!(
        "the cluster works at feature level {cluster}, and the program of {replica} can work at {can} at most: start a newer program there \
         (`quorate upgrade status` shows what runs where)"
    )
}

impl Node {
    /// The feature level that the cluster works at, as it was executed here.
    pub fn level(&self) -> u32 {
        self.config.level.cluster
    }

    /// The level by which a checkpoint is written.
    pub(crate) fn level_of_checkpoints(&self) -> u32 {
        if planted("level-by-own-binary") { self.config.level.highest } else { self.level() }
    }

    /// The level was raised by an ordered command.
    pub(crate) fn on_raise(&mut self, level: u32, out: &mut Effects) {
        self.levels.begun = None;
        if level <= self.level() {
            return;
        }
        // Also where this program can not do it: what it executes until it stops is not right, but it is not called level 1 either.
        self.set_level(level);
        if let Err(halt) = self.config.level.check(level) {
            return out.push(Effect::Halt(halt));
        }
        out.event(Event::Level { level, begun: false });
        self.note_level();
    }

    /// The state of a checkpoint took the place of what was executed here.
    pub(crate) fn take_level(&mut self, level: u32) {
        self.set_level(level);
        self.note_level();
    }

    fn set_level(&mut self, level: u32) {
        self.config.level.cluster = level;
        self.engine.set_level(if planted("service-level-by-own-binary") {
            self.config.level.highest
        } else {
            level
        });
    }

    /// Writes the level down, so that an older program stops before it says a word. Without room there is no such record: then it stops
    /// when it hears of the level.
    fn note_level(&mut self) {
        let level = self.level();
        if self.levels.noted >= level {
            return;
        }
        let head = Bytes::copy_from_slice(&level.to_le_bytes());
        let record = Record { instance: NODE, kind: LEVEL, head, payload: Bytes::new() };
        if self.journal.note(record).is_ok() {
            self.levels.noted = level;
        }
    }

    /// The members, as ordered.
    fn ordered_members(&self) -> Vec<ReplicaId> {
        match self.roster.current() {
            Some(current) => current.members().iter().map(|member| member.replica).collect(),
            None => self.config.members.all().iter().map(|member| member.replica).collect(),
        }
    }

    /// What a member can do, if it is connected.
    fn level_of(&self, member: ReplicaId) -> Option<u32> {
        let me = self.config.members.me();
        if member == me { Some(self.config.level.highest) } else { self.peers.level(member) }
    }

    /// The highest level that all members can work at.
    fn highest_of_all(&self) -> Result<u32, String> {
        let mut highest = self.config.level.highest;
        for member in self.ordered_members() {
            match self.level_of(member) {
                Some(level) => highest = highest.min(level),
                None if planted("raised-without-all") => {}
                None => {
                    return Err(format!(
                        "{member} is not connected, so nobody knows what its program can do: bring it back, or remove it, first"
                    ));
                }
            }
        }
        Ok(if planted("raised-without-all") { self.config.level.highest } else { highest })
    }

    /// Whether this replica may propose anything about the level now.
    fn may_raise(&self) -> Result<(), String> {
        self.may_command()?;
        let view = self.first().standing().view;
        if self.roster.change().is_some() || self.standing.has_begun(view) {
            return Err("a change of the membership is under way, try again when it is over".into());
        }
        self.no_instances_change(view)?;
        if self.levels.begun == Some(view) {
            return Err("a raise is about to happen: look at `quorate upgrade status`".into());
        }
        Ok(())
    }

    /// The level to raise to; `wanted` is 0 for the highest possible.
    fn plan_raise(&self, wanted: u32) -> Result<u32, String> {
        if self.may_lie() {
            return Err("a cluster that survives Byzantine faults keeps the feature level that it was made with: make a new one from a backup \
                        (`quorate backup`)"
                .into());
        }
        self.may_raise()?;
        let (now, all) = (self.level(), self.highest_of_all()?);
        let level = if wanted == 0 { all } else { wanted };
        if level == now {
            let why = format!("the cluster works at feature level {now} already");
            return Err(if wanted == 0 {
                format!("{why}, the highest that all members can do")
            } else {
                why
            });
        }
        if level < now {
            return Err(format!("the cluster works at feature level {now}, and there is no way back"));
        }
        let members = self.ordered_members();
        let lacking = members.into_iter().find(|member| self.level_of(*member).is_none_or(|l| l < level));
        match lacking.filter(|_| !planted("raised-without-all")) {
            Some(member) => Err(too_low(member, self.level_of(member).unwrap_or_default(), level)),
            None => Ok(level),
        }
    }

    fn raise(&mut self, now: Time, level: u32, out: &mut Effects) {
        self.levels.begun = Some(self.first().standing().view);
        out.event(Event::Level { level, begun: true });
        self.propose_system(now, &SystemCommand::Raise(level), out);
    }

    /// An operator asks for a level.
    pub(crate) fn on_upgrade_request(&mut self, now: Time, conn: ConnId, frame: Frame, out: &mut Effects) {
        let wanted = match read_upgrade_request(frame.payload) {
            Ok(wanted) => wanted,
            Err(why) => return self.reject(now, conn, why.to_string(), out),
        };
        let text = match self.plan_raise(wanted) {
            Ok(level) => {
                self.raise(now, level, out);
                format!("begun {level}")
            }
            Err(why) => format!("error: {why}"),
        };
        self.audit(
            conn,
            format!("raise the feature level to {wanted} (0: as far as possible)"),
            text.clone(),
            out,
        );
        out.send(conn, OutFrame::new(FrameKind::UpgradeReply, text.as_bytes(), vec![]));
    }

    /// A leader that is to raise the level by itself does so when all could do more for long enough.
    pub(crate) fn raise_in_turn(&mut self, now: Time, out: &mut Effects) {
        let Some(after) = self.config.level.raise_after else { return };
        if self.level() >= self.config.level.highest {
            return;
        }
        self.levels.since = match self.plan_raise(0) {
            Err(_) => None,
            Ok(level) => Some(self.levels.since.filter(|since| since.0 == level).unwrap_or((level, now))),
        };
        if let Some((level, _)) = self.levels.since.filter(|(_, since)| now.since(*since) >= after) {
            self.levels.since = None;
            self.raise(now, level, out);
        }
    }

    /// When that is, if nothing changes.
    pub(crate) fn raise_deadline(&self) -> Option<Time> {
        Some(self.levels.since?.1.plus(self.config.level.raise_after?))
    }

    /// What `status` shows of levels.
    pub(crate) fn level_status(&self) -> LevelStatus {
        let member =
            |replica: ReplicaId| MemberLevel { replica: replica.number(), highest: self.level_of(replica) };
        LevelStatus {
            cluster: self.level(),
            lowest: FEATURE_LEVEL_MIN,
            highest: self.config.level.highest,
            automatic: self.config.level.raise_after.is_some(),
            members: self.ordered_members().into_iter().map(member).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
