//! The start of a node: it restores what an earlier run has left in its checkpoints and in the log, before it sends anything.

use crate::config::NodeConfig;
use crate::engine::{Engine, EngineConfig};
use crate::eras::Eras;
use crate::gate::{Gate, Lives};
use crate::group::FIRST;
use crate::group::{Admitting, BORN, Birth, Group, Groups, born, index_of, new_instance};
use crate::guide::Guide;
use crate::journal::{Journal, NODE, TRIMMED, Trimmed, Volumes};
use crate::keeping::{self, Keeping, Left};
use crate::leading::Leading;
use crate::memos::{MEMO, Memos};
use crate::node::Node;
use crate::reconfigure::{LEVEL, Levels, Reconfigure, SERVICE_LEVEL};
use crate::recovered::Recovered;
use crate::roster::Roster;
use crate::rulings::Rulings;
use crate::system::System;
use crate::witness::Witness;
use quorate_execute::{CheckpointError, Execution, Executor, Sequential, Service, Verified};
use quorate_log::{Damage, Log, Record};
use quorate_merge::Merge;
use quorate_order::Stored;
use quorate_state::checkpoint::Image;
use quorate_types::{Halt, MembershipId, RecordId, ReplicaId, Seq, Slot, Time};
use quorate_wire::Batch;

/// A node that restores what an earlier run has left in its checkpoints and in the log.
pub struct Restoring {
    config: NodeConfig,
    volumes: Volumes,
    groups: Vec<Group>,
    /// Later stays of instances, whose beginnings are in the log.
    others: Vec<Group>,
    merge: Merge<Batch>,
    lives: Lives,
    levels: Levels,
    trimmed: Trimmed,
    memos: Memos,
    recovered: Recovered,
    /// The system part of the checkpoint that the log goes on from.
    system: Option<System>,
    /// Who hears what happens to batches.
    witness: Option<Box<dyn Witness>>,
    /// The last restored record.
    last: Option<RecordId>,
    /// Whether records between restored ones are missing.
    gap: bool,
}

impl Restoring {
    /// Goes on from a checkpoint, if there is one.
    ///
    /// # Errors
    /// When the checkpoint does not belong to this replica.
    pub fn new(config: NodeConfig, recovered: Recovered) -> Result<Self, Halt> {
        let system = match (&recovered.damaged, &recovered.image) {
            (Some(damaged), _) => Some((damaged.seq, System::decode(&damaged.system))),
            (None, Some(image)) => Some((image.seq, System::decode(&image.system))),
            (None, None) => None,
        };
        let system = match system {
            None => None,
            Some((seq, system)) => {
                let unusable = |why| Halt::CheckpointUnusable {
                    why: format!("the checkpoint of seq {seq:#} can not be used: {why}"),
                };
                let system = system.map_err(unusable)?;
                config.service.check_name(&system.service)?;
                let system = system.check(&config, seq).map_err(unusable)?;
                config.level.check(system.level)?;
                Some(system)
            }
        };
        let checkpoint = system.as_ref().and_then(|system| system.merge(config.merge.window));
        let merge = match checkpoint {
            Some(checkpoint) => Merge::restore(config.merge, &checkpoint),
            None => Merge::new(config.merge, config.instances),
        };
        let merge = merge.map_err(|why| Halt::CheckpointUnusable { why: why.to_string() })?;
        let mut volumes = Volumes::default();
        let groups = match &system {
            Some(system) => restored(&config, &mut volumes, system, &merge, recovered.outdated)?,
            None => (1..=config.instances).map(|id| new_instance(&config, &mut volumes, id, 0)).collect(),
        };
        let (lives, levels) = (Lives::of_era(config.era.lives.clone()), Levels::default());
        Ok(Self {
            config,
            volumes,
            groups,
            others: Vec::new(),
            merge,
            lives,
            levels,
            recovered,
            system,
            trimmed: Trimmed::default(),
            memos: Memos::default(),
            witness: None,
            last: None,
            gap: false,
        })
    }

    /// Sets who hears what happens to batches.
    #[must_use]
    pub fn seen_by(self, witness: Option<Box<dyn Witness>>) -> Self {
        Self { witness, ..self }
    }

    /// Restores one record; call it in the order of the log. Records whose numbers are left out are lost.
    ///
    /// # Errors
    /// When the records contradict each other.
    pub fn record(&mut self, id: RecordId, record: Record) -> Result<(), Halt> {
        let missing = self.last.map_or(0, |last| id.number().saturating_sub(last.next().number()));
        if missing > 0 {
            self.gap = true;
            let asleep = |instance: &&mut Group| !instance.stay().asleep;
            let all = self.groups.iter_mut().filter(asleep).chain(&mut self.others);
            all.for_each(|instance| instance.restore_gap(missing));
        }
        self.last = Some(id);
        match (record.instance, record.kind) {
            (NODE, LEVEL) => self.levels.restore(&record, &self.config.level),
            (NODE, SERVICE_LEVEL) => self.levels.restore_service(&record),
            (NODE, TRIMMED) => self.trimmed.restore(&record),
            (NODE, MEMO) => self.memos.restore(id, &record),
            (NODE, BORN) => self.born(&record),
            (NODE, _) => self.lives.restore(&record),
            _ => self.record_of_instance(id, record),
        }
    }

    /// Restores the beginning of a stay, which the checkpoint may have already.
    fn born(&mut self, record: &Record) -> Result<(), Halt> {
        let birth = Birth::read(record)?;
        let (id, stay) = (birth.id, birth.stay(&self.config.order)?);
        let at = index_of(id);
        let known = self.groups.get(at).is_some_and(|instance| instance.stay().number() >= stay);
        if !known && !self.others.iter().any(|other| (other.id(), other.stay().number()) == (id, stay)) {
            self.others.push(born(birth, &self.config, &mut self.volumes)?);
        }
        Ok(())
    }

    /// Gives a record to the stay that it names. Records of stays before the checkpoint are not needed.
    fn record_of_instance(&mut self, id: RecordId, record: Record) -> Result<(), Halt> {
        let of = record.instance;
        let stored = Stored { kind: record.kind, head: record.head.clone(), payload: record.payload.clone() };
        let stay = self.config.order.stay_of_record(&stored);
        let at = index_of(of);
        match self.groups.get_mut(at) {
            Some(instance) if instance.stay().number() == stay && !instance.stay().asleep => {
                return instance.restore(&mut self.volumes, id, record);
            }
            Some(instance) if instance.stay().number() >= stay => return Ok(()),
            _ => {}
        }
        match self.others.iter_mut().find(|other| (other.id(), other.stay().number()) == (of, stay)) {
            Some(other) => other.restore(&mut self.volumes, id, record),
            None => {
                let why = format!("record {id} belongs to instance {of}, which does not exist here");
                Err(Halt::LogInconsistent { why })
            }
        }
    }

    /// Whether this replica may take part again, now or with a checkpoint of other replicas. It is called after all records, and before
    /// anything is written, so that a replica that may not leaves the disk as it is.
    ///
    /// # Errors
    /// When the lost records may hold a promise of this replica, or when no other replica has what they held.
    pub fn check(&self, damage: &[Damage]) -> Result<(), Halt> {
        let (me, membership) = (self.config.members.me(), self.groups[FIRST].status().membership);
        let alone = membership.replicas() == [me];
        let needs_checkpoint = self.groups.iter().any(|instance| instance.restored().needs_checkpoint);
        if !self.gap && alone && needs_checkpoint {
            let why = "the log begins after a later checkpoint than those that can be read, and there is no other replica that has it. \
                       Restore a backup";
            return Err(Halt::CheckpointUnusable { why: why.into() });
        }
        if !self.gap {
            return Ok(());
        }
        let lost = damage.iter().rev().find(|damage| damage.records() > 0);
        let (position, records) = lost.map_or((0, 0), |damage| (damage.position, damage.records()));
        let corrupt = |what: &str| {
            let why = format!("{records} records are missing there, and {what}");
            Err(Halt::LogCorrupt { position, why })
        };
        // The lives of the first members are written before anything else. Those of later members are in the log and its checkpoint.
        let number = membership.now().number().max(self.config.members.number());
        let members: Vec<ReplicaId> = match number {
            MembershipId::FIRST => membership.now().voters().collect(),
            _ => vec![me],
        };
        if !members.iter().all(|member| self.lives.is_known(*member)) {
            return corrupt("with them what this replica knew of the members, or of itself");
        }
        if !self.groups.iter().chain(&self.others).all(|instance| instance.restored().knows_vote)
            || self.others.iter().any(|other| other.restored().needs_checkpoint)
        {
            return corrupt("none behind them says how this replica voted");
        }
        if alone && needs_checkpoint {
            return corrupt("there is no other replica that has what they held");
        }
        Ok(())
    }

    /// The node, with the log after these records, and its service.
    ///
    /// # Errors
    /// When the checkpoint does not give the service's state, or [`Self::check`] fails.
    pub fn finish(self, log: Log, service: Box<dyn Service>) -> Result<Node, Halt> {
        self.finish_with(log, service, |executor| Box::new(Sequential::new(executor)))
    }

    /// The node with another way to execute.
    ///
    /// # Errors
    /// Those of [`Self::finish`].
    pub fn finish_with(
        self,
        log: Log,
        service: Box<dyn Service>,
        execution: impl FnOnce(Executor) -> Box<dyn Execution>,
    ) -> Result<Node, Halt> {
        self.check(log.damage())?;
        let (lives, levels, witness) = (self.lives, self.levels, self.witness);
        let Self {
            mut config, volumes, groups, others, merge, recovered, system, trimmed, mut memos, ..
        } = self;
        let mut executor = Executor::new(service, config.sessions.clone(), config.start_time);
        let from = serve_from(&mut executor, &mut config, (system.as_ref(), &recovered), &levels)?;
        // If the checkpoint is damaged, its level comes with the fetched one.
        let restored = system.as_ref().filter(|_| recovered.damaged.is_none());
        config.level.cluster = restored.map_or(config.level.cluster, |system| system.level);
        config.level.check(config.level.cluster)?;
        executor.set_level(config.level.cluster);
        let ended = system.as_ref().and_then(|system| system.eras.next.clone());
        let ended = ended.zip(recovered.image.clone().filter(|_| recovered.damaged.is_none()));
        let records = system.as_ref().map(System::records);
        let roster = system.map_or_else(|| Roster::new(config.members.created()), |system| system.roster);
        // A replica that still waits for an instance that is asleep must get the checkpoint in which it fell asleep.
        let asleep = groups.iter().any(|instance| instance.stay().asleep).then(|| merge.seq());
        let (base, rotten) = (merge.seq(), rotten_segment(&log));
        let journal = Journal::new(log, config.log.sync, config.disk_stall, volumes).seen(witness.is_some());
        let mut engine = Engine::new(&engine_config(&config), merge, execution(executor));
        engine.is_seen_by(witness);
        if ended.is_some() {
            engine.stop();
        }
        memos.recall(&journal, engine.verified_mut());
        let left = Left {
            durable: recovered.durable,
            from,
            base,
            records,
            gone: gone(&groups, trimmed, base),
            needed: (trimmed.0, asleep),
            damaged: recovered.damaged,
            partial: recovered.partial,
            rotten_segment: rotten,
            varies: engine.verified().is_some_and(Verified::may_vary),
        };
        let rulings = rulings(&config, &mut engine);
        let mut node = Node {
            rulings,
            memos,
            gate: Gate::new(&config, lives),
            admitting: Admitting::new(),
            intake: crate::intake::intake(&config),
            leading: Leading::default(),
            keeping: Keeping::new(&config, left),
            eras: Eras::new(&config.era, ended),
            now: Time::ZERO,
            groups: Groups::new(groups, others, engine.merge().generation()),
            engine,
            guide: Guide::default(),
            reconfigure: Reconfigure::new(roster, levels, &config),
            journal,
            config,
        };
        for at in 0..node.groups.len() {
            node.on_members(at, node.groups[at].status().membership);
        }
        node.meet_borders();
        Ok(node)
    }
}

/// Takes the state of the newest checkpoint, and the level that the service has there. Without one it has the level of the cluster's begin.
fn serve_from(
    executor: &mut Executor,
    config: &mut NodeConfig,
    (system, recovered): (Option<&System>, &Recovered),
    levels: &Levels,
) -> Result<Option<keeping::Origin>, Halt> {
    config.service.version = executor.service_version();
    executor.begin_service_at(config.service.level);
    let from = begin_from(executor, config, system, recovered)?;
    config.service.level = executor.service_level();
    config.service.check(config.service.level.max(levels.service_noted()))?;
    Ok(from)
}

/// Takes the state of the newest checkpoint, unless it is damaged.
fn begin_from(
    executor: &mut Executor,
    config: &NodeConfig,
    system: Option<&System>,
    recovered: &Recovered,
) -> Result<Option<keeping::Origin>, Halt> {
    let (Some(system), None, Some(image)) = (system, &recovered.damaged, &recovered.image) else {
        return Ok(None);
    };
    restore_image(executor, config, system, image)?;
    let (seq, border, bytes) = (image.seq, image.border, image.objects.bytes());
    Ok(Some(keeping::Origin { seq, border, bytes, time: executor.time() }))
}

/// What is known of results at the beginning; nothing where they are not verified.
fn rulings(config: &NodeConfig, engine: &mut Engine) -> Rulings {
    let (me, patience, extra) = (config.members.me(), config.order.patience(), config.extra_protection);
    let Some(verified) = engine.verified_mut() else { return Rulings::default() };
    if extra > 0 {
        verified.tell_what_ran_again();
    }
    Rulings::new(me, patience, extra)
}

/// The last segment of the log in which there is damage.
fn rotten_segment(log: &Log) -> Option<u64> {
    log.damage().iter().map(|damage| damage.end.saturating_sub(1) / log.segment_bytes()).max()
}

fn engine_config(config: &NodeConfig) -> EngineConfig {
    EngineConfig {
        may_lie: config.order.faults.may_lie(),
        patience: config.order.patience(),
        reads: config.reads.clone(),
        start_time: config.start_time,
        seed: config.seed,
    }
}

/// Execution goes on from a checkpoint.
fn restore_image(
    executor: &mut Executor,
    config: &NodeConfig,
    system: &System,
    image: &Image,
) -> Result<(), Halt> {
    executor.restore_image(&system.executor, &image.objects).map_err(|error| {
        let why = format!("the checkpoint of seq {:#} can not be restored: {error}", image.seq);
        unrestored(config, &error, why)
    })
}

/// Why this replica stops if a checkpoint does not give the service's state; `why` says which checkpoint, and what is wrong.
pub(crate) fn unrestored(config: &NodeConfig, error: &CheckpointError, why: String) -> Halt {
    match error {
        CheckpointError::ServiceTooOld { level, .. } => {
            Halt::ServiceLevel { level: *level, program: config.service.says() }
        }
        _ => Halt::CheckpointUnusable { why },
    }
}

/// The instances as they stand in a checkpoint.
fn restored(
    config: &NodeConfig,
    volumes: &mut Volumes,
    system: &System,
    merge: &Merge<Batch>,
    outdated: bool,
) -> Result<Vec<Group>, Halt> {
    let mut groups = Vec::new();
    for part in &system.instances {
        let stay = config.order.stay_of(part.record, &part.anchor)?;
        let mut instance = new_instance(config, volumes, part.instance.number(), stay);
        instance.restore_anchor(part.record, &part.anchor)?;
        let away = merge.is_away(part.instance).then(|| merge.generation().base);
        (instance.stay_mut().away, instance.stay_mut().asleep) = (away, away.is_some());
        if outdated && !instance.stay().asleep {
            instance.restore_outdated();
        }
        groups.push(instance);
    }
    Ok(groups)
}

/// The seq up to which the log was trimmed. With one instance, its records have the numbers of the seqs.
fn gone(groups: &[Group], trimmed: Trimmed, base: Seq) -> Seq {
    match groups {
        // The record may say more.
        [one] => Seq::new(one.restored().begins_after.number()).max(trimmed.0),
        // The record may be among the lost ones.
        many if many.iter().any(|instance| instance.restored().begins_after > Slot::ZERO) => {
            if trimmed.0 == Seq::ZERO { base } else { trimmed.0 }
        }
        _ => Seq::ZERO,
    }
}
