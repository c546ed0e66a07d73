//! Rules for keys that are put, swapped and deleted.
//!
//! A sighting of a value is an operation during which the key held it for certain: a get that returned it, a
//! successful cas that expected it. The rules need no order of all operations, only strict real time:
//! - what is seen was written, by a write that did not fail and was called before the sighting returned;
//! - a value with one writer is swapped by at most one successful cas;
//! - a value with one writer is not there, then not there, then there again: let `e` be the first return of a
//!   sighting or of its write, and `l` the last call of a sighting; no operation strictly between `e` and `l`
//!   shows that the key held something else;
//! - the spans from `e` to `l` of two such values have no moment in common.
//!
//! The last two are conditions on zones as in Gibbons and Korach, "Testing shared memories", SIAM J. Comput.
//! 1997: necessary, not sufficient, but they see most faults of a busy key where a search gives up.

use super::{Findings, Options, Rule, Seen};
use crate::event::{Answer, Op, shown};
use std::collections::HashMap;

/// All that is known about one value of a key.
#[derive(Default)]
struct Value {
    writers: usize,
    failed_writers: usize,
    first_write_call: Option<u64>,
    /// The first return of its write or of a sighting.
    there_by: Option<u64>,
    /// The last call of a sighting, with its line.
    seen_from: Option<(u64, u64)>,
    /// The line of a successful cas that replaced it.
    swapped_at: Option<u64>,
}

/// An operation during which the key held `value` for some time.
struct Showing<'a> {
    call: u64,
    ret: u64,
    line: u64,
    value: Option<&'a str>,
}

pub(super) fn check(key: &str, events: &[Seen<'_>], options: Options, findings: &mut Findings) {
    let mut values: HashMap<&str, Value> = HashMap::new();
    for seen in events {
        note_write(seen, &mut values);
    }
    findings.values_repeated += values.values().filter(|value| value.writers > 1).count();
    for seen in events {
        sight(key, seen, options, &mut values, findings);
    }
    if options.strong_reads {
        came_back(key, events, &values, findings);
        two_at_once(key, &values, findings);
    }
}

fn note_write<'a>(seen: &Seen<'a>, values: &mut HashMap<&'a str, Value>) {
    let Some(written) = seen.event.written() else { return };
    let value = values.entry(written).or_default();
    if seen.is_failed() {
        value.failed_writers += 1;
        return;
    }
    value.writers += 1;
    value.first_write_call =
        Some(value.first_write_call.map_or(seen.event.call, |at| at.min(seen.event.call)));
    if let Some(ret) = seen.event.ok_return() {
        value.there_by = Some(value.there_by.map_or(ret, |at| at.min(ret)));
    }
}

/// The value that the key certainly held at some time during the operation, before its own effect.
fn sighted<'a>(seen: &Seen<'a>) -> Option<&'a str> {
    match (&seen.event.op, seen.event.answer()) {
        (Op::Cas { expect, .. }, Some(Answer::Flag(true))) => expect.as_deref(),
        _ => seen.event.read().flatten(),
    }
}

fn sight<'a>(
    key: &str,
    seen: &Seen<'a>,
    options: Options,
    values: &mut HashMap<&'a str, Value>,
    findings: &mut Findings,
) {
    let (Some(text), Some(ret)) = (sighted(seen), seen.event.ok_return()) else { return };
    findings.values_seen += 1;
    let mut fault = |rule, what: &str| {
        let event = seen.event;
        let by = format!("{} by client {} saw {}", event.op.name(), event.client, shown(Some(text)));
        findings.fault(key, seen.line, rule, format!("{by}, {what}"));
    };
    let Some(value) = values.get_mut(text) else {
        return fault(Rule::FromNowhere, "which nobody wrote");
    };
    let Some(first_call) = value.first_write_call else {
        return fault(Rule::FailedWriteSeen, "whose write had failed");
    };
    if first_call > ret {
        fault(Rule::FromTheFuture, "before its write was called");
    }
    if value.writers != 1 {
        return;
    }
    if let (Op::Cas { value: to, .. }, true) = (&seen.event.op, value.swapped_at.is_none())
        && to != text
    {
        value.swapped_at = Some(seen.line);
    } else if let (Op::Cas { value: to, .. }, Some(line)) = (&seen.event.op, value.swapped_at)
        && to != text
    {
        fault(Rule::SwappedTwice, &format!("which was written once and swapped already (line {line})"));
    }
    if seen.is_strong_get(options) || matches!(seen.event.op, Op::Cas { .. }) {
        value.there_by = Some(value.there_by.map_or(ret, |at| at.min(ret)));
        value.seen_from = value.seen_from.max(Some((seen.event.call, seen.line)));
    }
}

/// What the key held at some time during the operation, as far as its answer tells.
fn showing<'a>(seen: &Seen<'a>) -> Option<Showing<'a>> {
    let ret = seen.event.ok_return()?;
    let value = match (&seen.event.op, seen.event.answer()?) {
        (Op::Get, Answer::Value(value)) => value.as_deref(),
        (Op::Put { value }, _) | (Op::Cas { value, .. }, Answer::Flag(true)) => Some(value.as_str()),
        (Op::Delete, _) => None,
        _ => return None,
    };
    Some(Showing { call: seen.event.call, ret, line: seen.line, value })
}

fn came_back(key: &str, events: &[Seen<'_>], values: &HashMap<&str, Value>, findings: &mut Findings) {
    let mut showings: Vec<Showing<'_>> = events.iter().filter_map(showing).collect();
    showings.sort_by_key(|showing| showing.call);
    let earliest = earliest_returns(&showings);
    for (&text, value) in values {
        let (Some(there_by), Some((seen_from, line))) = (value.there_by, value.seen_from) else { continue };
        if value.writers != 1 {
            continue;
        }
        let after = showings.partition_point(|showing| showing.call <= there_by);
        let other = earliest[after].iter().flatten().find(|&&at| showings[at].value != Some(text));
        if let Some(&at) = other
            && showings[at].ret < seen_from
        {
            let what = shown(Some(text));
            let instead = format!("{} (line {})", shown(showings[at].value), showings[at].line);
            let text = format!("{what} is there again after {instead}, though it was written only once");
            findings.fault(key, line, Rule::CameBack, text);
        }
    }
}

/// Of spans sorted by start, two overlap only if one overlaps the span before it that ends last.
fn two_at_once(key: &str, values: &HashMap<&str, Value>, findings: &mut Findings) {
    let span = |(&text, value): (&&'_ str, &Value)| {
        let (from, (to, line)) = (value.there_by?, value.seen_from?);
        (value.writers == 1 && from < to).then(|| (from, to, line, text.to_owned()))
    };
    let mut spans: Vec<(u64, u64, u64, String)> = values.iter().filter_map(span).collect();
    spans.sort();
    let mut last: Option<(u64, u64, String)> = None;
    for (from, to, line, text) in spans {
        if let Some((end, other_line, other)) = &last
            && from < *end
        {
            let (first, second) = (shown(Some(other)), shown(Some(&text)));
            let until = to.min(*end);
            let what = format!(
                "{first} (seen until line {other_line}) and {second} are both there from {from} to {until}"
            );
            findings.fault(key, line, Rule::TwoAtOnce, what);
        }
        if last.as_ref().is_none_or(|(end, _, _)| to > *end) {
            last = Some((to, line, text));
        }
    }
}

/// For each suffix of the showings: the one that returns first, and the one of another value that does.
fn earliest_returns(showings: &[Showing<'_>]) -> Vec<[Option<usize>; 2]> {
    let mut all = vec![[None; 2]; showings.len() + 1];
    for at in (0..showings.len()).rev() {
        let [first, second] = all[at + 1];
        let is_before =
            |other: Option<usize>| other.is_none_or(|other| showings[at].ret < showings[other].ret);
        let is_same = |other: Option<usize>| {
            other.is_some_and(|other: usize| showings[other].value == showings[at].value)
        };
        all[at] = match () {
            () if is_same(first) => [if is_before(first) { Some(at) } else { first }, second],
            () if is_before(first) => [Some(at), first],
            () if is_before(second) => [first, Some(at)],
            () => [first, second],
        };
    }
    all
}
