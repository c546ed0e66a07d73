//! What a cluster does about a fault: how replicas were before it and after it.

use quorate_command::admin::{self, Admin, Answer};
use quorate_types::ReplicaId;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How often to ask for a leader.
const ASK_AGAIN: Duration = Duration::from_millis(10);

/// The replicas at one moment.
#[derive(Debug, Default)]
pub(crate) struct Look {
    /// The highest view of each instance.
    views: BTreeMap<u64, u64>,
    /// How often a replica suspected another one, and of what.
    suspects: BTreeMap<(u16, u64), (u64, String)>,
    /// What `quorate status` says of each.
    problems: Vec<(u16, String)>,
}

/// What changed between two moments.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Reaction {
    /// How many views further all instances together are.
    pub(crate) view_changes: u64,
    /// Who suspects whom of what.
    pub(crate) suspicions: Vec<(u16, u64, String)>,
    /// What `quorate status` says now and did not say before, with the replica that says it.
    pub(crate) problems: Vec<(u16, String)>,
}

impl Look {
    pub(crate) fn of(answers: &[Answer]) -> Self {
        let mut look = Self::default();
        for answer in answers {
            let Ok(status) = &answer.status else { continue };
            let replica = answer.replica.number();
            look.take(replica, &status.raw, status.view);
            look.problems.extend(status.problems.iter().map(|problem| (replica, problem.clone())));
        }
        look
    }

    fn take(&mut self, replica: u16, status: &Value, view: u64) {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        let mut views: Vec<(u64, u64)> = list(&status["instances"]["each"])
            .iter()
            .map(|each| (number(&each["instance"]), number(&each["view"])))
            .collect();
        if views.is_empty() {
            views.push((1, view));
        }
        for (instance, view) in views {
            let highest = self.views.entry(instance).or_default();
            *highest = view.max(*highest);
        }
        for suspect in list(&status["suspects"]) {
            let what = suspect["what"].as_str().unwrap_or_default().to_owned();
            let whom = (replica, number(&suspect["replica"]));
            self.suspects.insert(whom, (number(&suspect["times"]), what));
        }
    }

    /// What changed from this moment to the other one.
    pub(crate) fn until(&self, after: &Self) -> Reaction {
        let changes = after.views.iter().map(|(instance, view)| {
            // An instance that nobody told of before: who could, could not answer.
            self.views.get(instance).map_or(0, |before| view.saturating_sub(*before))
        });
        let grown = after
            .suspects
            .iter()
            .filter(|(whom, (times, _))| self.suspects.get(whom).is_none_or(|(before, _)| times > before));
        let known: BTreeSet<(u16, String)> =
            self.problems.iter().map(|(replica, text)| (*replica, without_numbers(text))).collect();
        let new = |problem: &&(u16, String)| !known.contains(&(problem.0, without_numbers(&problem.1)));
        Reaction {
            view_changes: changes.sum(),
            suspicions: grown.map(|((by, whom), (_, what))| (*by, *whom, what.clone())).collect(),
            problems: after.problems.iter().filter(new).cloned().collect(),
        }
    }
}

/// A problem without its numbers, which may grow while it stays the same one. Names of replicas stay.
fn without_numbers(text: &str) -> String {
    let words = text.split_whitespace().map(|word| match word.trim_matches(',').parse::<f64>() {
        Ok(_) => "#",
        Err(_) => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Waits until one of these replicas leads.
pub(super) fn leader_of(admin: &Admin, serving: &[u16], limit: Duration) -> Option<ReplicaId> {
    let until = Instant::now() + limit;
    loop {
        let mut answers = admin.ask_all();
        answers.retain(|answer| serving.contains(&answer.replica.number()));
        let leader = admin::leader(&answers);
        if leader.is_some() || Instant::now() >= until {
            return leader;
        }
        std::thread::sleep(ASK_AGAIN);
    }
}

#[cfg(test)]
mod tests;
