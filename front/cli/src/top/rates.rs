//! What two looks at a cluster say together: how much happened per second between them. A pure function of both.

use super::look::{Call, Facts, Instance, Look, Seen};
use super::took::{Bound, Took};
use std::collections::BTreeMap;

/// Two looks that are closer than this many seconds say nothing of speed.
const APART_S: f64 = 0.005;

/// What happened between two looks, and how it is at the second one.
pub(super) struct Rates<'a> {
    /// Requests that the cluster executed per second.
    pub(super) requests: Option<f64>,
    /// Reads that all replicas together answered per second.
    pub(super) reads: Option<f64>,
    /// How long ordering took, of all leaders together.
    pub(super) ordered: Took,
    pub(super) rows: Vec<Row<'a>>,
    pub(super) instances: Vec<Led>,
    pub(super) calls: Vec<Called>,
}

/// A replica.
pub(super) struct Row<'a> {
    pub(super) seen: &'a Seen,
    pub(super) role: Role,
    pub(super) requests: Option<f64>,
    pub(super) reads: Option<f64>,
    pub(super) log_bytes: Option<f64>,
    /// Processor time per second, so 1 is a whole core.
    pub(super) cpu: Option<f64>,
    /// How long writes of its log took.
    pub(super) written: Option<Bound>,
    /// What it lacks of the leader's log, as the leader sees it, in bytes; the largest number: it needs a checkpoint.
    pub(super) lag: Option<u64>,
}

/// What a replica does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It leads so many instances.
    Leader(usize),
    Follower,
    Learner,
    Removed,
    /// It does not answer.
    Away,
}

/// An instance, as most replicas see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Led {
    pub(super) instance: u16,
    pub(super) view: u64,
    pub(super) leader: Option<u16>,
    /// Whether that replica answers.
    pub(super) is_there: bool,
}

/// One kind of calls, at all replicas together.
pub(super) struct Called {
    pub(super) front: String,
    pub(super) name: String,
    pub(super) per_s: f64,
    /// None where the front does not count them.
    pub(super) failed_per_s: Option<f64>,
    pub(super) took: Took,
}

impl<'a> Rates<'a> {
    pub(super) fn between(before: Option<&Look>, now: &'a Look) -> Self {
        let same = |look: &&Look| match (&look.found, &now.found) {
            (Ok(then), Ok(now)) => then.cluster == now.cluster,
            _ => false,
        };
        let before = before.filter(same);
        let pairs: Vec<Pair<'_>> = now.replicas().iter().map(|seen| Pair::of(before, seen)).collect();
        let instances = leaders(now.replicas());
        let lags = lags(now.replicas(), &instances);
        let rows: Vec<Row<'a>> = now
            .replicas()
            .iter()
            .zip(&pairs)
            .map(|(seen, pair)| row(seen, pair, &instances, &lags))
            .collect();
        let mut ordered = Took::default();
        pairs.iter().filter_map(|pair| pair.took(|facts| &facts.ordered)).for_each(|took| ordered.add(&took));
        Self {
            requests: middle(rows.iter().filter_map(|row| row.requests).collect()),
            reads: rows.iter().filter_map(|row| row.reads).reduce(|sum, one| sum + one),
            ordered,
            rows,
            instances,
            calls: calls(&pairs),
        }
    }

    /// How many replicas answer.
    pub(super) fn answered(&self) -> usize {
        self.rows.iter().filter(|row| row.role != Role::Away).count()
    }
}

/// The same process of a replica at two looks, so many seconds apart.
struct Pair<'a>(Option<(&'a Facts, &'a Facts, f64)>);

impl<'a> Pair<'a> {
    fn of(before: Option<&'a Look>, seen: &'a Seen) -> Self {
        let find = || {
            let then = before?.replicas().iter().find(|then| then.id == seen.id)?;
            let seconds = seen.at.saturating_duration_since(then.at).as_secs_f64();
            let (old, new) = (then.facts.as_ref().ok()?, seen.facts.as_ref().ok()?);
            (seconds >= APART_S && new.same_process(old)).then_some((old, new, seconds))
        };
        Self(find())
    }

    /// How much a counter rose per second; none if it fell.
    fn rate(&self, of: impl Fn(&Facts) -> Option<u64>) -> Option<f64> {
        let (old, new, seconds) = self.0?;
        of(new)?.checked_sub(of(old)?).map(|more| more as f64 / seconds)
    }

    fn took(&self, of: impl Fn(&Facts) -> &Took) -> Option<Took> {
        let (old, new, _) = self.0?;
        of(new).since(of(old))
    }

    fn cpu(&self) -> Option<f64> {
        let (old, new, seconds) = self.0?;
        let used = new.cpu_s? - old.cpu_s?;
        (used >= 0.0).then_some(used / seconds)
    }
}

fn row<'a>(seen: &'a Seen, pair: &Pair<'_>, instances: &[Led], lags: &BTreeMap<u16, u64>) -> Row<'a> {
    Row {
        seen,
        role: role(seen, instances),
        requests: pair.rate(|facts| facts.requests),
        reads: pair.rate(|facts| facts.reads),
        log_bytes: pair.rate(|facts| facts.log_bytes),
        cpu: pair.cpu(),
        written: pair.took(|facts| &facts.written).and_then(|took| took.percentile(99)),
        lag: lags.get(&seen.id).copied(),
    }
}

fn role(seen: &Seen, instances: &[Led]) -> Role {
    let Ok(facts) = &seen.facts else { return Role::Away };
    match instances.iter().filter(|led| led.leader == Some(seen.id)).count() {
        0 if facts.removed => Role::Removed,
        0 if facts.learner => Role::Learner,
        0 => Role::Follower,
        leads => Role::Leader(leads),
    }
}

/// Who leads which instance: what most replicas say, so that one that lies does not decide it; of two with as many voices, the higher view.
fn leaders(replicas: &[Seen]) -> Vec<Led> {
    let mut voices: BTreeMap<u16, BTreeMap<(u64, Option<u16>), usize>> = BTreeMap::new();
    let answered = replicas.iter().filter_map(|seen| seen.facts.as_ref().ok());
    for Instance { number, view, leader } in answered.flat_map(|facts| facts.instances.iter().copied()) {
        *voices.entry(number).or_default().entry((view, leader)).or_default() += 1;
    }
    let is_there = |id: u16| replicas.iter().any(|seen| seen.id == id && seen.facts.is_ok());
    let most = |(instance, said): (u16, BTreeMap<(u64, Option<u16>), usize>)| {
        let ((view, leader), _) =
            said.into_iter().max_by_key(|((view, leader), voices)| (*voices, *view, leader.is_some()))?;
        Some(Led { instance, view, leader, is_there: leader.is_some_and(is_there) })
    };
    voices.into_iter().filter_map(most).collect()
}

/// What replicas lack of the log of the leader of the first instance, by what it says.
fn lags(replicas: &[Seen], instances: &[Led]) -> BTreeMap<u16, u64> {
    let first = instances.first().and_then(|led| led.leader);
    let said = |seen: &&Seen| seen.facts.as_ref().is_ok_and(|facts| !facts.lags.is_empty());
    let leader = replicas.iter().filter(|seen| Some(seen.id) == first).find(said);
    let facts = leader.and_then(|seen| seen.facts.as_ref().ok());
    facts.map(|facts| facts.lags.iter().copied().collect()).unwrap_or_default()
}

/// The middle one: all replicas execute the same, but some may catch up, or lie.
fn middle(mut rates: Vec<f64>) -> Option<f64> {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied()
}

/// Calls of all replicas by their kinds: those that are called most come first.
fn calls(pairs: &[Pair<'_>]) -> Vec<Called> {
    let mut all: BTreeMap<(&str, &str), Called> = BTreeMap::new();
    for (old, new, seconds) in pairs.iter().filter_map(|pair| pair.0) {
        for call in &new.calls {
            let is_it = |then: &&Call| then.front == call.front && then.name == call.name;
            let then = old.calls.iter().find(is_it);
            // A kind that was not called is not named.
            let none = Took::default();
            let Some(took) = call.took.since(then.map_or(&none, |then| &then.took)) else { continue };
            let before = then.map_or(Some(0), |then| then.failed);
            let failed = call.failed.zip(before).and_then(|(now, then)| now.checked_sub(then));
            let key = (call.front.as_str(), call.name.as_str());
            let sum = all.entry(key).or_insert_with(|| Called {
                front: call.front.clone(),
                name: call.name.clone(),
                per_s: 0.0,
                failed_per_s: None,
                took: Took::default(),
            });
            sum.per_s += took.count() as f64 / seconds;
            if let Some(failed) = failed {
                *sum.failed_per_s.get_or_insert(0.0) += failed as f64 / seconds;
            }
            sum.took.add(&took);
        }
    }
    let mut calls: Vec<Called> = all.into_values().collect();
    calls.sort_by(|one, other| other.per_s.total_cmp(&one.per_s));
    calls
}
