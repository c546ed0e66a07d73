//! All checks of one history, for people and for machines.

use crate::event::Outcome;
use crate::exactly_once::{self, ExactlyOnce};
use crate::history::History;
use crate::jsonl::ReadError;
use crate::linearizability::{self, Linearizability, Verdict};
use crate::search::Budget;
use serde::Serialize;
use std::fmt;
use std::io::BufRead;

/// What to check, and how hard to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether the store promises linearizability.
    pub linearizability: bool,
    /// The work that the searches of all keys may do together.
    pub budget: Budget,
    /// What the rules about single writes may assume.
    pub exactly_once: exactly_once::Options,
}

impl Default for Options {
    fn default() -> Options {
        let exactly_once = exactly_once::Options::default();
        Options { linearizability: true, budget: Budget::default(), exactly_once }
    }
}

/// The history in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// All operations.
    pub operations: usize,
    /// Those that were answered.
    pub ok: usize,
    /// Those that were certainly not done.
    pub fail: usize,
    /// Those of which nobody knows.
    pub unknown: usize,
}

/// What all checks say together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Conclusion {
    /// Every check passed.
    Ok,
    /// A check failed.
    Violation,
    /// None failed, but one could not decide.
    Unknown,
}

/// The result of all checks.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The checks together.
    pub conclusion: Conclusion,
    /// The history in numbers.
    pub history: Counts,
    /// The order of operations; `None` if not asked for.
    pub linearizability: Option<Linearizability>,
    /// The rules about single writes.
    pub exactly_once: ExactlyOnce,
}

/// Reads a history as JSON lines, and checks it. A line that is no event is an error, not a verdict.
pub fn check_reader(reader: impl BufRead, options: Options) -> Result<Report, ReadError> {
    Ok(check(&History::read(reader)?, options))
}

/// Checks a history.
pub fn check(history: &History, options: Options) -> Report {
    let mut counts = Counts { operations: history.events().len(), ..Counts::default() };
    for event in history.events() {
        match event.outcome {
            Outcome::Ok { .. } => counts.ok += 1,
            Outcome::Fail { .. } => counts.fail += 1,
            Outcome::Unknown { .. } => counts.unknown += 1,
        }
    }
    let linearizability = options.linearizability.then(|| linearizability::check(history, options.budget));
    let exactly_once = exactly_once::check(history, options.exactly_once);
    let order = match linearizability.as_ref().map(|result| &result.verdict) {
        None | Some(Verdict::Ok) => Conclusion::Ok,
        Some(Verdict::Violation { .. }) => Conclusion::Violation,
        Some(Verdict::Unknown { .. }) => Conclusion::Unknown,
    };
    let once = match exactly_once.verdict {
        exactly_once::OnceVerdict::Ok => Conclusion::Ok,
        exactly_once::OnceVerdict::Violation => Conclusion::Violation,
        exactly_once::OnceVerdict::Unknown { .. } => Conclusion::Unknown,
    };
    let conclusion = match (order, once) {
        (Conclusion::Violation, _) | (_, Conclusion::Violation) => Conclusion::Violation,
        (Conclusion::Unknown, _) | (_, Conclusion::Unknown) => Conclusion::Unknown,
        (Conclusion::Ok, Conclusion::Ok) => Conclusion::Ok,
    };
    Report { conclusion, history: counts, linearizability, exactly_once }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { operations, ok, fail, unknown } = self.history;
        let conclusion = match self.conclusion {
            Conclusion::Ok => "ok",
            Conclusion::Violation => "VIOLATION",
            Conclusion::Unknown => "unknown",
        };
        writeln!(f, "{conclusion}: {operations} operations ({ok} ok, {fail} failed, {unknown} unknown)")?;
        match &self.linearizability {
            Some(result) => writeln!(f, "{}", result.to_string().trim_end())?,
            None => writeln!(f, "linearizable: not asked")?,
        }
        writeln!(f, "{}", self.exactly_once)
    }
}
