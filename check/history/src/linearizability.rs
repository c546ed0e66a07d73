//! Linearizability of a history of the store: one search per key, one budget for all.
//!
//! A history is linearizable if and only if its part on each key is (Herlihy and Wing 1990, locality; Horn and
//! Kroening 2015). Not judged here: weak reads, and keys with appends, whose lists [`crate::exactly_once`]
//! judges without a search. The result counts what was left out.
//!
//! Limit: to refuse a key, a search must exhaust the orders of operations that overlap. Where tens of clients
//! hammer one key all the time, that may exceed any budget, and the verdict is `Unknown`: spread a workload
//! over several keys, about as many as clients. To accept such a key costs little.
//! Tests: `tests/all/brute_force.rs`, `tests/all/known_histories.rs`, `tests/all/planted_bug.rs`.

use crate::event::{Event, Op, Outcome};
use crate::explain::{Explanation, explain};
use crate::history::History;
use crate::kv::{Key, Prepared};
use crate::search::{Budget, Finding, Searched, search};
use serde::Serialize;
use std::fmt;

/// The verdict on a history.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Verdict {
    /// Every key has a legal order.
    Ok,
    /// A key has none. Other keys may have none either.
    Violation {
        /// The key.
        key: String,
        /// Why, for people.
        explanation: Box<Explanation>,
    },
    /// No violation was found, but the search did not end for every key.
    Unknown {
        /// What is missing for a verdict.
        why: String,
    },
}

/// The verdict, and what it covers.
#[derive(Clone, Debug, Serialize)]
pub struct Linearizability {
    /// The verdict.
    pub verdict: Verdict,
    /// Keys that were judged.
    pub keys: usize,
    /// Operations that had to be ordered or could be, after dropping those that cannot matter.
    pub operations: usize,
    /// Keys left out since they have appends.
    pub append_keys: usize,
    /// Weak reads left out.
    pub weak_reads: usize,
    /// Candidates looked at by the searches that decide, without those that explain.
    pub steps: u64,
}

/// Checks all keys.
pub fn check(history: &History, budget: Budget) -> Linearizability {
    let mut result = Linearizability {
        verdict: Verdict::Ok,
        keys: 0,
        operations: 0,
        append_keys: 0,
        weak_reads: history.events().iter().filter(|event| event.op == Op::ReadWeak).count(),
        steps: 0,
    };
    let mut open: Vec<(&str, Vec<usize>)> = Vec::new();
    for (key, events) in history.by_key() {
        if events.iter().any(|&index| is_append(&history.events()[index])) {
            result.append_keys += 1;
        } else {
            open.push((key, events));
        }
    }
    result.keys = open.len();
    // Two rounds: a hard key must not eat what the others need, nor must it starve while something is left.
    for round in 0..2 {
        let mut undecided = Vec::new();
        let count = open.len();
        for (position, (key, indices)) in open.into_iter().enumerate() {
            let events: Vec<&Event> = indices.iter().map(|&index| &history.events()[index]).collect();
            let prepared = Prepared::new(&events);
            result.operations += if round == 0 { prepared.ops.len() } else { 0 };
            let left = budget.steps.saturating_sub(result.steps);
            let share = Budget { steps: left / (count - position) as u64, ..budget };
            let searched = decide(&prepared, share);
            result.steps += searched.steps;
            match searched.finding {
                Finding::Ordered(_) => {}
                Finding::Impossible { .. } => {
                    let explanation = explain(history, key, &indices, &prepared, searched.steps, budget);
                    let explanation = Box::new(explanation);
                    result.verdict = Verdict::Violation { key: key.to_owned(), explanation };
                    return result;
                }
                Finding::OutOfBudget { what, .. } => undecided.push((key, indices, what)),
            }
        }
        result.verdict = match undecided.first() {
            None => return result,
            Some((key, _, what)) => Verdict::Unknown {
                why: format!(
                    "{} of {} keys undecided, first key {key:?}: {what}",
                    undecided.len(),
                    result.keys
                ),
            },
        };
        open = undecided.into_iter().map(|(key, indices, _)| (key, indices)).collect();
    }
    result
}

fn is_append(event: &Event) -> bool {
    matches!(event.op, Op::Append { .. }) && !matches!(event.outcome, Outcome::Fail { .. })
}

/// Decides one key.
pub(crate) fn decide(prepared: &Prepared, budget: Budget) -> Searched {
    if prepared.has_value_from_nowhere().is_some() {
        return Searched { finding: Finding::Impossible { longest: Vec::new() }, steps: 1 };
    }
    search::<Key, _>(&prepared.ops, &mut prepared.guide(), budget)
}

impl fmt::Display for Linearizability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let covers = format!("{} keys, {} operations to order", self.keys, self.operations);
        match &self.verdict {
            Verdict::Ok if self.keys == 0 => write!(f, "linearizable: no key to judge")?,
            Verdict::Ok => write!(f, "linearizable: yes ({covers})")?,
            Verdict::Violation { .. } => write!(f, "linearizable: NO ({covers})")?,
            Verdict::Unknown { why } => write!(f, "linearizable: unknown ({covers}); {why}")?,
        }
        if self.append_keys + self.weak_reads > 0 {
            write!(
                f,
                "\n  not judged here: {} append keys, {} weak reads",
                self.append_keys, self.weak_reads
            )?;
        }
        if let Verdict::Violation { explanation, .. } = &self.verdict {
            write!(f, "\n{explanation}")?;
        }
        Ok(())
    }
}
