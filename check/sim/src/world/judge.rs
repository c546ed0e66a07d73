//! All checkers of a run, and what is known of its replicas beside what they report. It is told what happened, and keeps the first failure.
//!
//! `judge/verdict.rs` has the checks that are made now and then, and in the end.

mod verdict;

use super::adversary::Stands;
use super::cluster::{Cluster, place};
use crate::checks::agreement::Agreement;
use crate::checks::alarm::Alarm;
use crate::checks::answers::Answers;
use crate::checks::checkpoints::Checkpoints;
use crate::checks::eras::Eras;
use crate::checks::instances::Instances;
use crate::checks::levels::Levels;
use crate::checks::members::MembershipCheck;
use crate::checks::once::Once;
use crate::checks::states::States;
use crate::checks::time::Times;
use crate::checks::{Failure, acked, asked, borders, leases, progress};
use crate::client::{Client, Done};
use crate::files::Published;
use crate::plan::Plan;
use crate::replica::{Record, corrupt_since};
use crate::service::{Row, Told};
use crate::timeline::Timeline;
use crate::trace::{Level, name};
use quorate_node::{NextEra, Node, System};
use quorate_state::checkpoint::{Image, Report};
use quorate_types::{AgreedTime, Halt, ReplicaId};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of a replica's state beside what the replica reports.
#[derive(Clone, Debug, Default)]
struct TrueState {
    /// The number of the next command, if that follows from the one before.
    next: Option<usize>,
    /// The seq since which it has something in its state that does not belong there.
    corrupt: Option<u64>,
    /// The last seq that it executed.
    last: u64,
    /// Seqs whose digests may be wrong, both included.
    wrong: Vec<(u64, u64)>,
    /// How many eras it entered.
    era: u64,
    /// The last border that it executed, and the agreed time there.
    border: Option<(u64, AgreedTime)>,
}

impl TrueState {
    /// Whether its report on the state at this seq may be wrong.
    fn may_be_wrong(&self, seq: u64) -> bool {
        self.corrupt.is_some_and(|since| since <= seq)
            || self.wrong.iter().any(|(from, to)| (*from..=*to).contains(&seq))
    }

    /// Its state was replaced, or is gone; earlier reports on it may still arrive.
    fn replaced(&mut self) {
        if let Some(since) = self.corrupt.take() {
            self.wrong.push((since, self.last.max(since)));
        }
        self.next = None;
    }
}

/// What a replica did in a step.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Did {
    ran: bool,
    /// Its whole state was replaced.
    jumped: bool,
}

/// All checkers.
pub(super) struct Judge {
    agreement: Agreement,
    once: Once,
    answers: Answers,
    alarm: Alarm,
    states: States,
    times: Times,
    /// When the service's alarm first rang, by batch.
    rang: BTreeMap<u64, u64>,
    checkpoints: Checkpoints,
    members: MembershipCheck,
    levels: Levels,
    instances: Instances,
    eras: Eras,
    /// By replica.
    true_states: Vec<TrueState>,
    /// Faults are over.
    is_healed: bool,
    failure: Option<Failure>,
    unjudged: Option<String>,
}

impl Judge {
    /// With nothing reported.
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            agreement: Agreement::default(),
            once: Once::default(),
            answers: Answers::default(),
            alarm: Alarm::new(plan.service.alarm),
            states: States::default(),
            times: Times::new(plan.times()),
            rang: BTreeMap::new(),
            checkpoints: Checkpoints::default(),
            members: MembershipCheck::default(),
            levels: Levels::default(),
            instances: Instances::default(),
            eras: Eras::default(),
            true_states: vec![TrueState::default(); plan.replicas],
            is_healed: false,
            failure: None,
            unjudged: None,
        }
    }

    /// Something is wrong.
    pub(super) fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    /// Records the failure, if there is one.
    pub(super) fn note(&mut self, found: Result<(), Failure>) {
        found.unwrap_or_else(|failure| self.fail(failure));
    }

    /// An honest replica enters another era.
    pub(super) fn enters(&mut self, (name, who): (&str, usize), next: &NextEra) {
        self.true_states[who].era = next.notice.era.number;
        let found = self.eras.enters(name, next);
        self.note(found);
    }

    /// How many eras were entered by honest replicas.
    pub(super) fn eras(&self) -> usize {
        self.eras.count()
    }

    /// A replica stopped for good, and no fault explains it.
    pub(super) fn halts(&mut self, name: &str, halt: &Halt) {
        self.fail(Failure::new("halt", format!("{name} halts without a reason: {halt}")));
    }

    /// The first failure.
    pub(super) fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// What could not be judged.
    pub(super) fn unjudged(&self) -> Option<&String> {
        self.unjudged.as_ref()
    }

    /// The commands that were executed, in order.
    pub(super) fn rows(&self) -> &[Row] {
        self.agreement.rows()
    }

    /// When each command was executed first, and at which agreed time.
    pub(super) fn agreed_times(&self) -> &[(u64, u64)] {
        self.times.moments()
    }

    /// When the service's alarm rang.
    pub(super) fn rang(&self) -> Vec<u64> {
        self.rang.values().copied().collect()
    }

    /// The highest level that a leader proposed.
    pub(super) fn level_begun(&self) -> u32 {
        self.levels.begun
    }

    /// The seq since which a replica has something in its state that does not belong there.
    pub(super) fn corrupt(&self, who: usize) -> Option<u64> {
        self.true_states[who].corrupt
    }

    /// Faults are over.
    pub(super) fn heal(&mut self) {
        self.is_healed = true;
    }

    /// From now on enough replicas run to agree on something, or too few.
    pub(super) fn runs(&mut self, now: u64, enough: bool) {
        self.times.runs(now, enough);
    }

    /// A machine is suspended.
    pub(super) fn suspends(&mut self, now: u64) {
        self.times.suspends(now);
    }

    /// A replica's clock jumps ahead.
    pub(super) fn jumps(&mut self, now: u64, who: usize, by: u64) {
        self.times.jumps(now, who, by);
    }

    /// A replica starts from the state at this seq.
    pub(super) fn starts(&mut self, now: u64, who: usize, seq: u64) {
        // A checkpoint was restored if anything was executed before the log's first batch is.
        self.true_states[who].next = (seq == 0).then_some(0);
        self.true_states[who].last = seq;
        self.times.starts(now);
    }

    /// Its process ends, and with it the state.
    pub(super) fn dies(&mut self, who: usize) {
        self.true_states[who].replaced();
    }

    /// Its state came from elsewhere; something in it may not belong there.
    pub(super) fn restored(&mut self, who: usize, node: &Node) {
        self.true_states[who].corrupt = corrupt_since(node);
    }
}

/// After a step of a replica that does not lie.
impl Judge {
    /// Its service reports what it executed.
    pub(super) fn told(
        &mut self,
        cluster: &Cluster,
        who: usize,
        told: &[Told],
        time: &mut Timeline,
    ) -> Result<Did, Failure> {
        let mut did = Did::default();
        for told in told {
            let truth = &mut self.true_states[who];
            match told {
                Told::Ran(row) => {
                    did.ran = true;
                    self.times.goes_on(time.now(), who);
                    truth.last = truth.last.max(row.seq);
                    let index = truth.next.unwrap_or_else(|| self.agreement.first_from(row.seq));
                    truth.next = Some(index + 1);
                    self.executed(cluster, who, (index, row), time)?;
                }
                Told::Corrupted(seq) => {
                    truth.corrupt.get_or_insert(*seq);
                    time.note(Level::Events, Some(who), "corrupt", || format!("at seq {seq}"));
                }
                Told::Rang(seq) => {
                    self.rang.entry(*seq).or_insert_with(|| {
                        self.alarm.rang();
                        time.now()
                    });
                }
                Told::Restored => {
                    did.jumped = true;
                    truth.replaced();
                }
            }
        }
        let Some(node) = cluster.node(who) else { return Ok(did) };
        if did.jumped {
            self.restored(who, node);
        }
        self.levels.look(&time.name(who), node.agreed().seq().number(), node.level())?;
        Ok(did)
    }

    /// A replica ran a command.
    fn executed(
        &mut self,
        cluster: &Cluster,
        who: usize,
        (index, row): (usize, &Row),
        time: &mut Timeline,
    ) -> Result<(), Failure> {
        time.mix(&[row.seq, u64::from(row.op.0) << 32 | u64::from(row.op.1)]);
        if !self.agreement.executed(&time.name(who), index, row)? {
            return Ok(());
        }
        self.alarm.set(time.now());
        let client = cluster.clients.get((row.op.0 as usize).wrapping_sub(1));
        if client.is_some_and(Client::lies) {
            return Ok(());
        }
        asked::judge(row, client.and_then(|client| client.asked(row.op.1)).as_deref())?;
        self.once.ran(index, row)?;
        let called = client.and_then(|client| client.done.get(row.op.1 as usize)).map(|done| done.call);
        let Some(call) = called else { return Ok(()) };
        self.times.executed((time.now(), self.is_healed), call, row.time)
    }

    /// Its state after that.
    pub(super) fn stands(&mut self, name: &str, who: usize, node: &Node, did: Did) -> Result<(), Failure> {
        let seq = node.executor().seq().number();
        let truth = &mut self.true_states[who];
        truth.last = truth.last.max(seq);
        // Comparing states costs more than running: often enough to name the seq where they part.
        if (did.jumped || (did.ran && seq.is_multiple_of(4))) && truth.corrupt.is_none() {
            return self.states.look(name, node.executor());
        }
        Ok(())
    }

    /// Compares with its state in its instances before the step: it may have answered reads by a lease.
    pub(super) fn lease(&mut self, cluster: &Cluster, who: usize, before: &Stands) {
        let name = |who| name(who, cluster.plan.replicas);
        let Some(node) = cluster.node(who) else { return };
        for (at, ((view, _, answered), (.., now))) in before.iter().zip(node.leases()).enumerate() {
            // They begin anew with another stay of the instance.
            if now <= *answered {
                continue;
            }
            let others = (0..cluster.plan.replicas).filter(|other| *other != who).filter_map(|other| {
                let leases = cluster.node(other)?.leases();
                leases
                    .get(at)
                    // In another stay of the instance views mean something else.
                    .filter(|(other, leads, _)| *leads && other.number() >> 40 == view.number() >> 40)
                    .map(|(view, ..)| (name(other), *view))
            });
            if let Err(failure) = leases::judge(&name(who), *view, others) {
                return self.fail(failure);
            }
        }
    }

    /// It proposes a level: every member must have been able to do it.
    pub(super) fn proposed(&mut self, cluster: &Cluster, who: usize, level: u32) {
        let Some(node) = cluster.node(who) else { return };
        let members: BTreeSet<ReplicaId> = node.change().map_or_else(
            || cluster.membership_of(node).members().iter().map(|member| member.replica).collect(),
            |change| change.replicas().into_iter().collect(),
        );
        let able = |member: ReplicaId| (member.to_string(), cluster.replicas[place(member)].once_able);
        let found = self.levels.raised(level, &members.into_iter().map(able).collect::<Vec<_>>());
        self.note(found);
    }

    /// An operation of a client ended.
    pub(super) fn answered(&mut self, done: &Done) {
        self.note(acked::ended(done, &self.once).and_then(|()| progress::patient(done)));
    }
}

/// What its keeper is asked for, and does.
impl Judge {
    /// It must write a checkpoint of a border that the replica reached in this turn.
    pub(super) fn captured(&mut self, cluster: &Cluster, who: usize, image: &Image) {
        let level = self.look_at_level(&name(who, cluster.plan.replicas), image);
        self.note(level);
        let rate = self.look_at_rate(cluster, who, image.seq.number());
        self.note(rate);
    }

    /// The level by which a checkpoint is written.
    fn look_at_level(&mut self, name: &str, image: &Image) -> Result<(), Failure> {
        let system = System::decode(&image.system).map_err(|why| Failure::new("levels", why))?;
        self.levels.look(name, image.seq.number(), system.level)
    }

    /// The distance to the border before. If it has executed more since the border, the time there is not known.
    fn look_at_rate(&mut self, cluster: &Cluster, who: usize, seq: u64) -> Result<(), Failure> {
        let Some(node) = cluster.node(who) else { return Ok(()) };
        let (plan, here) = (&cluster.plan, (seq, node.executor().time()));
        let known = node.executor().seq().number() == seq;
        // The end of an era is a border, too.
        let bounded = plan.fault_model.may_lie() && plan.eras.is_none();
        // After a restart it comes to borders that it has passed before.
        match std::mem::replace(&mut self.true_states[who].border, known.then_some(here)) {
            Some(before) if bounded && before.0 < seq => {
                borders::judge(&name(who, plan.replicas), plan, before, here)
            }
            _ => Ok(()),
        }
    }

    /// A file is durable under its name. Another replica's file of the same border must have the same bytes, if both wrote it in the usual
    /// way.
    pub(super) fn file(
        &mut self,
        (name, who): (&str, usize),
        record: &Record,
        file: &Published,
        reports: &[Report],
    ) {
        let usual = reports.iter().find_map(|report| match report {
            Report::Written { seq, instead: None, .. } => Some(seq.number()),
            _ => None,
        });
        let usual = usual.filter(|seq| record.is_usual(*seq));
        if usual.is_some_and(|seq| !self.true_states[who].may_be_wrong(seq)) {
            let found = self.checkpoints.file(name, file);
            self.note(found);
        }
    }

    /// Its keeper knows the digest of a border.
    pub(super) fn kept(&mut self, (name, who): (&str, usize), report: &Report) {
        let (seq, digest) = match report {
            Report::Digest { seq, digests, .. } => (seq.number(), digests.image),
            Report::Written { seq, digest, .. } => (seq.number(), *digest),
            _ => return,
        };
        if !self.true_states[who].may_be_wrong(seq) {
            let found = self.checkpoints.digest(name, (self.true_states[who].era, seq), digest);
            self.note(found);
        }
    }
}
