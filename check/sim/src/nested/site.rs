//! A replica of one of the two clusters: the real node, and a disk that outlives it.

use crate::plan::{Plan, Profile};
use crate::processes::Arrival;
use crate::random::Rng;
use crate::replica::{NoStart, Replica, Side, SideJob, incarnation};
use quorate_admit::{KnownMember, Members};
use quorate_execute::{Schedule, Service};
use quorate_node::{Effect, Effects, Input, LevelConfig, Node, NodeConfig, Placement};
use quorate_state::checkpoint::Step;
use quorate_types::{ClusterId, FaultModel, ReplicaId, Span, Time};
use quorate_wire::{ERAS_LEVEL, Era};

use super::services::{SHOP, bank, shop};

/// One of the two clusters.
#[derive(Clone, Debug)]
pub(super) struct Party {
    pub(super) service: u32,
    pub(super) cluster: ClusterId,
    pub(super) model: FaultModel,
    pub(super) members: u16,
    pub(super) schedule: Schedule,
    pub(super) seed: u64,
}

impl Party {
    pub(super) fn may_lie(&self) -> bool {
        self.model.may_lie()
    }

    fn config(&self, me: u16, life: u32) -> NodeConfig {
        let profile = Profile::calm(self.model, usize::from(self.members));
        let plan = Plan {
            replicas: self.members.into(),
            founders: self.members.into(),
            ..Plan::calm(self.seed, &profile)
        };
        let base = Replica::config(&plan, usize::from(me) - 1, life, None, None);
        let known = |id: u16| KnownMember {
            replica: ReplicaId::new(id),
            address: format!("{}-{id}", self.service),
            incarnation: incarnation(ReplicaId::new(id)),
        };
        let members = (1..=self.members).map(known).collect();
        let mut config = base;
        config.members = Members::new(self.cluster, ReplicaId::new(me), members);
        config.order.cluster = Era::signed_as(self.cluster, 1);
        config.level = LevelConfig::made_with(ERAS_LEVEL);
        (config.placement, config.links) = (Placement::default(), 1);
        config.sessions.ttl = Span::from_secs(3600);
        config.log_id ^= u64::from(self.service) << 56;
        config
    }

    fn service(&self) -> Box<dyn Service> {
        if self.service == SHOP { shop(self.schedule) } else { bank() }
    }
}

/// One replica.
pub(super) struct Site {
    pub(super) side: Party,
    pub(super) me: u16,
    pub(super) replica: Replica,
    pub(super) life: u32,
    /// When its process began: its clock starts then.
    began: u64,
}

impl Site {
    pub(super) fn new(side: Party, me: u16) -> Self {
        let rng = Rng::of(side.seed, 500 + u64::from(me));
        Self { side, me, replica: Replica::new(rng, ERAS_LEVEL), life: 0, began: 0 }
    }

    /// The process starts, with what is on the disk.
    pub(super) fn start(&mut self, now: u64, out: &mut Vec<Effect>) -> Result<(), String> {
        self.life += 1;
        self.began = now;
        let config = self.side.config(self.me, self.life);
        let service = self.side.service();
        match self.replica.recover_with(config, service) {
            Ok(()) => {}
            Err(NoStart::Halt(halt)) => return Err(format!("a replica does not start: {halt}")),
            Err(NoStart::Full | NoStart::Interrupted { .. }) => return Err("a replica does not start".into()),
        }
        let mut effects = Effects::new();
        if let Some(node) = &mut self.replica.node {
            node.start(Time::ZERO, &mut effects);
        }
        out.extend(effects.drain());
        Ok(())
    }

    pub(super) fn node(&self) -> Option<&Node> {
        self.replica.node.as_ref()
    }

    fn local(&self, now: u64) -> Time {
        Time::from_nanos(now - self.began)
    }

    /// When it wants to be woken.
    pub(super) fn wakes(&self) -> Option<u64> {
        let at = self.node()?.deadline()?;
        Some(self.began.saturating_add(at.nanos()))
    }

    /// One turn with these inputs.
    pub(super) fn turn(&mut self, now: u64, inputs: Vec<Input>, out: &mut Vec<Effect>) {
        let local = self.local(now);
        let mut effects = Effects::new();
        let Some(node) = &mut self.replica.node else { return };
        for input in inputs {
            node.step(local, input, &mut effects);
        }
        node.step(local, Input::TurnEnd, &mut effects);
        out.extend(effects.drain());
    }

    /// Takes work for its disk and its keeper. Gives what the node hears at once, or why the replica stops for good.
    pub(super) fn work(&mut self, effect: Effect) -> Result<Vec<Input>, String> {
        let storage = &mut self.replica.storage;
        match effect {
            Effect::Disk(work) => storage.submit(work),
            Effect::Load { load, extents } => storage.help(SideJob::Load(load, extents)),
            Effect::Scrub(scrub) => storage.help(SideJob::Scrub(scrub)),
            Effect::RemoveSegments(segments) => storage.help(SideJob::Remove(segments)),
            Effect::Check(work) => {
                return Ok(vec![Input::Checked { id: work.id, right: Some(work.run()) }]);
            }
            Effect::Keep(work) => {
                let keeping = &mut self.replica.keeping;
                let Some(keeper) = &mut keeping.keeper else { return Ok(Vec::new()) };
                keeper.submit(work.job);
                while keeper.step(&mut keeping.files) != Step::Idle {}
                let reports: Vec<_> = keeper.reports().collect();
                drop(keeping.files.take_published());
                return Ok(reports.into_iter().map(Input::Kept).collect());
            }
            Effect::Halt(halt) => return Err(format!("service {} r{}: {halt}", self.side.service, self.me)),
            _ => {}
        }
        Ok(Vec::new())
    }

    /// The disk does what waits: gives how long the writer and the helper take.
    pub(super) fn disk(&mut self) -> (Option<u64>, Option<u64>) {
        self.replica.storage.begin((100_000, 1_000_000))
    }

    pub(super) fn wrote(&mut self) -> Vec<Input> {
        let done = self.replica.storage.end_writing().unwrap_or_default();
        done.into_iter().filter_map(input).collect()
    }

    pub(super) fn helped(&mut self, segment_bytes: u64) -> Vec<Input> {
        match self.replica.storage.end_helping(segment_bytes) {
            Some(Side::Done(arrival)) => input(arrival).into_iter().collect(),
            Some(Side::Removed) | None => Vec::new(),
        }
    }

    pub(super) fn segment_bytes(&self) -> u64 {
        self.side.config(self.me, self.life).log.segment_bytes
    }
}

fn input(arrival: Arrival) -> Option<Input> {
    Some(match arrival {
        Arrival::Written(id) => Input::Written(id),
        Arrival::Synced(id) => Input::Synced(id),
        Arrival::Prepared(segment, result) => Input::Prepared { segment, result },
        Arrival::Scrubbed(segment, result) => Input::Scrubbed { segment, result },
        Arrival::Loaded(load, records) => Input::Loaded { load, records },
        _ => return None,
    })
}
