//! The judgement: everything is read back, all replicas hold the same, and the history is legal.

use super::chains;
use super::cluster::{Cluster, LIMIT};
use super::load::Load;
use super::recorder;
use quorate::client::{BlockingClient, ReadOptions};
use quorate_history::report::Conclusion;
use quorate_history::{Answer, Event, History, Op, Options, Outcome};
use quorate_kv::{KvQuery, KvReply, Scan};
use std::collections::BTreeMap;
use std::time::Instant;

/// Stops the clients of a cluster that is whole again, and judges what they saw. Returns how many operations were answered.
pub(crate) fn finish(cluster: &mut Cluster, load: &mut Load, keys: u64) -> u64 {
    cluster.heal();
    cluster.wait_for_leader();
    // Whatever happened before, clients must find back.
    load.wait_for_progress(200, cluster);
    load.stop();
    let client = cluster.client(LIMIT);
    let mut events = read_back(cluster, load, &client, keys);
    let state = same_state(cluster, &client);
    for (chain, list) in chains::lists(&state) {
        let call = load.recorder.now();
        let answer = Answer::Value(Some(list.join(",")));
        let (key, outcome) = (format!("{}{chain}", chains::CHAIN), Outcome::Ok { ret: call, answer });
        events.push(Event { client: u64::MAX, key, op: Op::Get, call, outcome });
    }
    // A chain of which nothing is there was read, too.
    let absent: Vec<Event> = load
        .recorder
        .events()
        .iter()
        .filter(|event| {
            matches!(event.op, Op::Append { .. }) && !events.iter().any(|read| read.key == event.key)
        })
        .map(|event| Event { key: event.key.clone(), ..empty_read(load.recorder.now()) })
        .collect();
    events.into_iter().chain(absent).for_each(|event| load.recorder.push(event));
    let faults = load.recorder.faults();
    assert!(faults.is_empty(), "{} faults, first: {}", faults.len(), faults[0]);
    judge(load)
}

fn empty_read(at: u64) -> Event {
    let outcome = Outcome::Ok { ret: at, answer: Answer::Value(None) };
    Event { client: u64::MAX, key: String::new(), op: Op::Get, call: at, outcome }
}

fn judge(load: &Load) -> u64 {
    let begin = Instant::now();
    let report = quorate_history::check(&History::from_events(load.recorder.events()), Options::default());
    println!("{report}(checked in {:?})", begin.elapsed());
    assert_eq!(report.conclusion, Conclusion::Ok, "{report}");
    assert!(report.exactly_once.tokens > 0, "chains were appended to");
    report.history.ok as u64
}

/// Reads every key strongly through each replica.
fn read_back(cluster: &Cluster, load: &Load, client: &BlockingClient, keys: u64) -> Vec<Event> {
    let mut events = Vec::new();
    for at in cluster.all() {
        let options = ReadOptions { replica: Some(cluster.replica(at)), ..ReadOptions::STRONG };
        for key in (0..keys).map(|key| format!("k{key}")) {
            let call = load.recorder.now();
            let read = client.read(recorder::get(&key), options).expect("a strong read of a whole cluster");
            let ret = load.recorder.now();
            let Ok(KvReply::Value(value)) = KvReply::decode(&read.body) else { panic!("{:?}", read.body) };
            let outcome = Outcome::Ok { ret, answer: Answer::Value(value.map(recorder::text)) };
            events.push(Event { client: 1000 + at as u64, key, op: Op::Get, call, outcome });
        }
    }
    events
}

/// All replicas executed the same and hold the same. What a caller gave up on may still be executed, and then they are read again.
fn same_state(cluster: &mut Cluster, client: &BlockingClient) -> BTreeMap<String, String> {
    let mut executed = cluster.wait_until_even();
    for _ in 0..100 {
        let states: Vec<_> = cluster.all().into_iter().map(|at| state_of(cluster, client, at)).collect();
        let before = std::mem::replace(&mut executed, cluster.wait_until_even());
        if before == executed {
            return the_same(executed, states);
        }
    }
    panic!("nobody writes, and replicas execute more and more: {executed}");
}

fn state_of(cluster: &Cluster, client: &BlockingClient, at: usize) -> BTreeMap<String, String> {
    scan(client, ReadOptions { replica: Some(cluster.replica(at)), ..ReadOptions::WEAK })
}

/// What all of them hold, which is the same.
fn the_same(executed: u64, mut states: Vec<BTreeMap<String, String>>) -> BTreeMap<String, String> {
    for (at, other) in states.iter().enumerate() {
        let differs = states[0].iter().find(|(key, value)| other.get(*key) != Some(value));
        assert!(
            other.len() == states[0].len() && differs.is_none(),
            "replica {} differs at seq {executed}: {} and {} keys, {differs:?}",
            at + 1,
            other.len(),
            states[0].len()
        );
    }
    states.swap_remove(0)
}

/// Everything in the store.
pub(crate) fn scan(client: &BlockingClient, options: ReadOptions) -> BTreeMap<String, String> {
    let (mut state, mut start) = (BTreeMap::new(), Vec::new());
    loop {
        let mut query = Vec::new();
        KvQuery::Scan(Scan { start: &start, end: b"", limit: 0 }).encode(&mut query);
        let read = client.read(query, options).expect("a read of a whole cluster");
        let Ok(KvReply::Entries { entries, next }) = KvReply::decode(&read.body) else {
            panic!("{:?}", read.body)
        };
        state.extend(entries.iter().map(|(key, value)| (recorder::text(key), recorder::text(value))));
        match next {
            Some(next) => start = next.to_vec(),
            None => return state,
        }
    }
}
