//! Every write was done once, or never if it failed: rules that need no search.
//!
//! Two kinds of workload are judged, key by key:
//! - values (put, cas, delete): `values.rs` checks that reads see only values that somebody wrote, and that a
//!   value that was replaced does not come back;
//! - lists (append): `appends.rs` checks that every acknowledged token is in the list exactly once, an unknown
//!   one at most once, a failed one never, and all in a legal order.
//!
//! Each rule is sound: a history of a correct store never breaks it. A rule that can not be checked (values
//! that were written twice, a list that nobody read in the end) makes the verdict `Unknown` or is counted,
//! and never passes in silence.
//! Tests: `tests/all/exactly_once.rs`, `tests/all/known_histories.rs`.

mod appends;
mod values;

use crate::event::{Event, Op, Outcome};
use crate::history::History;
use serde::Serialize;
use std::fmt;

/// Faults that a result lists at most; all are counted.
const FAULTS_MAX: usize = 20;

/// What the store promises, where stores differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// A get sees all that was acknowledged before its call. If false, gets count as weak reads.
    pub strong_reads: bool,
    /// Appends of one client take effect in the order of their calls, even if they overlap.
    pub client_order: bool,
    /// An append that returned before another one was called stands before it.
    pub real_time: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { strong_reads: true, client_order: true, real_time: true }
    }
}

/// A rule that a history can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Rule {
    /// A value or token was seen that nobody wrote.
    FromNowhere,
    /// A value or token was seen whose write had failed.
    FailedWriteSeen,
    /// A value or token was seen before its write was called.
    FromTheFuture,
    /// A value written once was there, was replaced, and was there again.
    CameBack,
    /// Two values written once were both there, seen before and after one common moment.
    TwoAtOnce,
    /// A value written once was swapped by two successful cas.
    SwappedTwice,
    /// An acknowledged token is not in a list that was read afterwards.
    TokenLost,
    /// A token is in a list more than once.
    TokenDoubled,
    /// Tokens of one client are not in the order of their calls.
    ClientOrder,
    /// Tokens of two clients are not in the order of real time.
    RealTimeOrder,
    /// Two reads of a list disagree: neither is the beginning of the other.
    NotAPrefix,
    /// A read of a list returned something that is no list.
    NotAList,
}

/// A rule, and where it is broken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Fault {
    /// The key.
    pub key: String,
    /// The line of the event that shows it.
    pub line: u64,
    /// The rule.
    pub rule: Rule,
    /// What is wrong, for people.
    pub text: String,
}

/// The verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum OnceVerdict {
    /// No rule is broken.
    Ok,
    /// Some are.
    Violation,
    /// No rule is broken, but some could not be checked.
    Unknown {
        /// The reason.
        why: String,
    },
}

/// The verdict, its reasons, and what it covers.
#[derive(Clone, Debug, Serialize)]
pub struct ExactlyOnce {
    /// The verdict.
    pub verdict: OnceVerdict,
    /// The first faults, by key and line.
    pub faults: Vec<Fault>,
    /// How many there are in all.
    pub fault_count: usize,
    /// Reads and successful cas whose value was looked up among the writes.
    pub values_seen: usize,
    /// Values written by more than one operation: whether they came back cannot be told.
    pub values_repeated: usize,
    /// Tokens of all lists that were judged.
    pub tokens: usize,
    /// Reads of lists.
    pub list_reads: usize,
}

/// What the rules find, before the verdict.
#[derive(Default)]
struct Findings {
    faults: Vec<Fault>,
    /// Why something could not be judged.
    unjudged: Vec<String>,
    values_seen: usize,
    values_repeated: usize,
    tokens: usize,
    list_reads: usize,
}

/// An event with its line.
#[derive(Clone, Copy)]
struct Seen<'a> {
    line: u64,
    event: &'a Event,
}

/// Applies all rules.
pub fn check(history: &History, options: Options) -> ExactlyOnce {
    let mut findings = Findings::default();
    for (key, indices) in history.by_key() {
        let events: Vec<Seen<'_>> = indices
            .into_iter()
            .map(|index| Seen { line: history.line(index), event: &history.events()[index] })
            .collect();
        if events.iter().any(|seen| matches!(seen.event.op, Op::Append { .. })) {
            appends::check(key, &events, options, &mut findings);
        } else {
            values::check(key, &events, options, &mut findings);
        }
    }
    findings.into_result()
}

impl Findings {
    fn fault(&mut self, key: &str, line: u64, rule: Rule, text: String) {
        self.faults.push(Fault { key: key.to_owned(), line, rule, text });
    }

    fn into_result(mut self) -> ExactlyOnce {
        self.faults.sort();
        self.faults.dedup();
        let fault_count = self.faults.len();
        let verdict = match self.unjudged.first() {
            _ if fault_count > 0 => OnceVerdict::Violation,
            None => OnceVerdict::Ok,
            Some(first) if self.unjudged.len() == 1 => OnceVerdict::Unknown { why: first.clone() },
            Some(first) => {
                OnceVerdict::Unknown { why: format!("{first}; and {} more keys", self.unjudged.len() - 1) }
            }
        };
        self.faults.truncate(FAULTS_MAX);
        ExactlyOnce {
            verdict,
            faults: self.faults,
            fault_count,
            values_seen: self.values_seen,
            values_repeated: self.values_repeated,
            tokens: self.tokens,
            list_reads: self.list_reads,
        }
    }
}

impl Seen<'_> {
    fn is_failed(&self) -> bool {
        matches!(self.event.outcome, Outcome::Fail { .. })
    }

    fn is_strong_get(&self, options: Options) -> bool {
        options.strong_reads && self.event.op == Op::Get
    }
}

impl fmt::Display for ExactlyOnce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let covers = format!(
            "{} values seen, {} tokens in {} list reads",
            self.values_seen, self.tokens, self.list_reads
        );
        match &self.verdict {
            OnceVerdict::Ok => write!(f, "exactly once: yes ({covers})")?,
            OnceVerdict::Violation => write!(f, "exactly once: NO ({covers}), {} faults", self.fault_count)?,
            OnceVerdict::Unknown { why } => write!(f, "exactly once: unknown ({covers}); {why}")?,
        }
        if self.values_repeated > 0 {
            write!(
                f,
                "\n  {} values were written more than once: not judged for coming back",
                self.values_repeated
            )?;
        }
        for fault in &self.faults {
            write!(f, "\n  key {:?}, line {}: {}", fault.key, fault.line, fault.text)?;
        }
        if self.fault_count > self.faults.len() {
            write!(f, "\n  and {} more", self.fault_count - self.faults.len())?;
        }
        Ok(())
    }
}
