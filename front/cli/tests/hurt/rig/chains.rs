//! Lists that show when a command ran twice, or out of its session's order.
//!
//! A chain is a number that grows by one with each command: a transaction that replaces n-1 by n and leaves the token n behind.
//! Run a second time, it finds another number, and leaves the mark "bad" instead. Several are under way in one session at
//! once, so they succeed only if they run in the order in which they were handed in.
//!
//! In the history a chain is a key with appends; its list is read from the tokens, and a bad mark of a token that is there
//! is that token again.

use super::load::{Worker, is_over};
use quorate::client::{CompletionQueue, Encoded, Session};
use quorate_history::{Answer, Event, Op, Outcome};
use quorate_kv::{Compare, Condition, KvCommand, KvReply, Operation};
use std::collections::BTreeMap;
use std::time::Duration;

/// In front of a chain's number.
const LAST: &str = "last/";
/// In front of what a command that fitted left behind.
pub(crate) const TOKEN: &str = "tok/";
/// In front of what a command that did not fit left behind.
pub(crate) const BAD: &str = "bad/";
/// In front of a chain's name in the history.
pub(crate) const CHAIN: &str = "chain/";

const UNDER_WAY: usize = 5;
/// Then another chain begins.
const LENGTH_MAX: u64 = 400;

pub(crate) fn run(mut worker: Worker) {
    let queue = CompletionQueue::new();
    let mut chain = 0;
    while let Some(session) = worker.open() {
        // A chain ends when something of it failed. The session goes on if it can.
        while !worker.recorder.is_stopped() {
            chain += 1;
            let name = format!("{}.{chain}", worker.number);
            if one_chain(&mut worker, session.session(), &queue, &name) {
                break;
            }
        }
    }
}

/// Appends to one chain until something fails. Whether the session is of no use any more.
fn one_chain(worker: &mut Worker, session: &Session, queue: &CompletionQueue, name: &str) -> bool {
    let mut under_way: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut next, mut failed, mut over, mut batch) = (1, false, false, Vec::new());
    // All up to this one succeeded.
    let mut good = 0;
    loop {
        let goes_on = !failed && !worker.recorder.is_stopped();
        while goes_on && next <= LENGTH_MAX && under_way.len() < UNDER_WAY {
            under_way.insert(next, worker.recorder.now());
            worker.client.client().submit(session, Encoded::one(&append(name, next)), next, queue);
            next += 1;
        }
        if under_way.is_empty() {
            return over;
        }
        queue.recv_batch(&mut batch, Duration::from_millis(100));
        batch.sort_by_key(|completed| completed.tag);
        for completed in batch.drain(..) {
            let number = completed.tag;
            let call = under_way.remove(&number).expect("each tag ends once");
            let ret = worker.recorder.now();
            let outcome = match &completed.result {
                Err(error) => {
                    over |= is_over(error);
                    worker.recorder.failed(error)
                }
                Ok(replies) => match replies.first().map(KvReply::decode) {
                    Some(Ok(KvReply::Transaction { succeeded: true, .. })) => {
                        Outcome::Ok { ret, answer: Answer::Done }
                    }
                    Some(Ok(KvReply::Transaction { succeeded: false, replies })) => {
                        if good + 1 == number {
                            worker.recorder.fault(format!(
                                "chain {name}: {number} came after {good}, and was refused: {replies:?}"
                            ));
                        }
                        Outcome::Fail { ret: Some(ret) }
                    }
                    other => {
                        worker.recorder.fault(format!("a transaction was answered with {other:?}"));
                        Outcome::Unknown { ret: Some(ret) }
                    }
                },
            };
            match outcome {
                Outcome::Ok { .. } if good + 1 == number => good = number,
                Outcome::Ok { .. } => {}
                _ => failed = true,
            }
            let (key, op) = (format!("{CHAIN}{name}"), Op::Append { value: token(number) });
            worker.recorder.push(Event { client: worker.number, key, op, call, outcome });
        }
        worker.rest();
    }
}

/// Tokens of one chain sort as their numbers do.
fn token(number: u64) -> String {
    format!("{number:06}")
}

fn append(name: &str, number: u64) -> Vec<u8> {
    let last = format!("{LAST}{name}");
    let before = (number - 1).to_string();
    let now = number.to_string();
    let (good, bad) = (format!("{TOKEN}{name}/{}", token(number)), format!("{BAD}{name}/{}", token(number)));
    let condition = if number == 1 { Condition::Absent } else { Condition::Equals(before.as_bytes()) };
    let mut bytes = Vec::new();
    KvCommand::Transaction {
        compares: vec![Compare { key: last.as_bytes(), condition }],
        then: vec![
            Operation::Put { key: last.as_bytes(), value: now.as_bytes() },
            Operation::Put { key: good.as_bytes(), value: b"" },
        ],
        otherwise: vec![
            Operation::Get { key: last.as_bytes() },
            Operation::Put { key: bad.as_bytes(), value: b"" },
        ],
    }
    .encode(&mut bytes);
    bytes
}

/// The lists of all chains, from everything that is in the store.
pub(crate) fn lists(state: &BTreeMap<String, String>) -> BTreeMap<String, Vec<String>> {
    let mut lists: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for key in state.keys().filter_map(|key| key.strip_prefix(TOKEN)) {
        let (name, token) = key.split_once('/').expect("a chain and a number");
        lists.entry(name.to_owned()).or_default().push(token.to_owned());
    }
    for key in state.keys().filter_map(|key| key.strip_prefix(BAD)) {
        let (name, token) = key.split_once('/').expect("a chain and a number");
        let list = lists.entry(name.to_owned()).or_default();
        // Both marks: the command ran twice. Only the bad one: it ran once and did not fit, as its client was told.
        if list.iter().any(|there| there == token) {
            list.push(token.to_owned());
        }
    }
    lists
}
