//! The judgement: what every member tells of all revisions is the same, and everything that clients saw fits it.

use crate::etcd_kills::clients::{Client, Shared};
use crate::etcd_kills::locks::{GUARDED, LOCKS};
use crate::etcd_kills::watchers::{Change, Seen, Stream, changes_of};
use crate::etcd_kills::writers::{get, revision_of};
use crate::rig::cluster::LIMIT;
use crate::rig::random::Random;
use quorate_etcd_grpc::pb::etcdserverpb::WatchCreateRequest;
use quorate_etcd_grpc::pb::etcdserverpb::kv_client::KvClient;
use quorate_history::report::Conclusion;
use quorate_history::{Event, History, Op, Options, Outcome};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// The last one there is.
pub(crate) async fn revision(shared: &Shared) -> i64 {
    let channel = shared.channels(LIMIT).remove(0);
    let read = KvClient::new(channel).range(get("w/k0")).await.expect("a read of a whole cluster");
    revision_of(read.into_inner().header)
}

/// Fails where something is wrong; says what there was to judge.
pub(crate) async fn judge(shared: &Arc<Shared>, seen: &[Seen]) -> String {
    let end = shared.end();
    let mut histories = Vec::new();
    for at in 0..shared.channels(LIMIT).len() {
        histories
            .push(tokio::time::timeout(LIMIT, tell_all(shared, at, end)).await.expect("a member tells all"));
    }
    let history = histories.remove(0);
    for other in histories {
        assert_same(&history, &other, "what two members tell");
    }
    for seen in seen {
        let what = format!("what there was to see, and what was seen by {:?}", seen.kind);
        // A lease may have ended after the end.
        let changes: Vec<Change> =
            seen.changes.iter().filter(|change| change.revision <= end).cloned().collect();
        assert_same(&seen.expected(&history), &changes, &what);
    }
    let faults = shared.recorder.faults();
    assert!(faults.is_empty(), "{} faults, first: {}", faults.len(), faults[0]);
    judge_values(&history);
    judge_writes(shared, &history);
    judge_reads(shared, &history);
    let guarded = judge_locks(&history);
    let begin = Instant::now();
    let events = settled(shared.recorder.events(), &history);
    let report = quorate_history::check(&History::from_events(events), Options::default());
    assert_eq!(report.conclusion, Conclusion::Ok, "{report}");
    let held = shared.held.load(Ordering::Relaxed);
    assert!(held > 0 && guarded > 0, "nobody held a lock");
    format!(
        "{} changes; {} watchers went on {} times; locks were held {held} times, for {guarded} writes\n{report}(checked in {:?})",
        history.len(),
        seen.len(),
        shared.resumed.load(Ordering::Relaxed),
        begin.elapsed()
    )
}

/// What clients saw, without the writes that nobody answered and whose value never stood anywhere: each value is written once, so these were
/// not done. To leave them open makes the search for an order too hard at times.
fn settled(mut events: Vec<Event>, history: &[Change]) -> Vec<Event> {
    let stood: BTreeSet<(&str, &str)> =
        history.iter().filter_map(|change| Some((change.key.as_str(), change.value.as_deref()?))).collect();
    for event in &mut events {
        if let (Op::Put { value } | Op::Cas { value, .. }, Outcome::Unknown { ret }) =
            (&event.op, &event.outcome)
            && !stood.contains(&(event.key.as_str(), value.as_str()))
        {
            event.outcome = Outcome::Fail { ret: *ret };
        }
    }
    events
}

/// All that ever happened, from one member.
async fn tell_all(shared: &Arc<Shared>, at: usize, end: i64) -> Vec<Change> {
    let mut client = Client::new(shared.clone(), 1, Random::new(0));
    client.go_to(at);
    let create = WatchCreateRequest {
        key: "\0".into(),
        range_end: "\0".into(),
        start_revision: 1,
        ..WatchCreateRequest::default()
    };
    let mut stream = Stream::open(&client, create).await.expect("a stream");
    let mut history: Vec<Change> = Vec::new();
    while history.last().is_none_or(|last| last.revision < end) {
        history.extend(changes_of(stream.next().await.expect("a response")));
    }
    history.retain(|change| change.revision <= end);
    history
}

#[track_caller]
pub(crate) fn assert_same(expected: &[Change], found: &[Change], what: &str) {
    let differs = expected.iter().zip(found).position(|(expected, found)| expected != found);
    let at = differs.unwrap_or(expected.len().min(found.len()));
    assert!(
        differs.is_none() && expected.len() == found.len(),
        "{what}: {} and {} changes, different from number {at} on: {:?} and {:?}",
        expected.len(),
        found.len(),
        expected.get(at),
        found.get(at)
    );
}

/// No value of a writer is there twice.
fn judge_values(history: &[Change]) {
    let mut values = BTreeSet::new();
    for change in
        history.iter().filter(|change| change.key.starts_with("w/") || change.key.starts_with(GUARDED))
    {
        if let Some(value) = &change.value {
            assert!(values.insert((&change.key, value)), "written twice: {change:?}");
        }
    }
}

/// Every acknowledged write stands at its revision, and later ones have later revisions.
fn judge_writes(shared: &Shared, history: &[Change]) {
    let of: BTreeMap<(i64, &str), &Change> =
        history.iter().map(|change| ((change.revision, change.key.as_str()), change)).collect();
    let mut writes = shared.writes();
    for write in &writes {
        let change = of.get(&(write.revision, write.key.as_str()));
        assert_eq!(
            change.map(|change| &change.value),
            Some(&write.value),
            "an acknowledged write: {write:?}"
        );
    }
    // Those that were answered before another was asked for.
    writes.sort_by_key(|write| write.call);
    let mut answered: Vec<(u64, i64)> = writes.iter().map(|write| (write.ret, write.revision)).collect();
    answered.sort_unstable();
    let mut answered = answered.into_iter().peekable();
    let mut newest = 0;
    for write in &writes {
        while let Some((_, revision)) = answered.next_if(|(ret, _)| *ret < write.call) {
            newest = newest.max(revision);
        }
        assert!(write.revision > newest, "after revision {newest} was acknowledged: {write:?}");
    }
}

/// Every strong read saw what stood at its revision, which is no older than what was acknowledged or read before.
fn judge_reads(shared: &Shared, history: &[Change]) {
    let mut by_key: BTreeMap<&str, Vec<&Change>> = BTreeMap::new();
    history.iter().for_each(|change| by_key.entry(&change.key).or_default().push(change));
    let mut reads = shared.reads();
    reads.sort_by_key(|read| read.call);
    let writes = shared.writes();
    let writes = writes.iter().map(|write| (write.ret, write.revision));
    let mut answered: Vec<(u64, i64)> =
        writes.chain(reads.iter().map(|read| (read.ret, read.revision))).collect();
    answered.sort_unstable();
    let mut answered = answered.into_iter().peekable();
    let mut newest = 0;
    for read in &reads {
        let changes = by_key.get(read.key.as_str()).map_or(&[][..], Vec::as_slice);
        let stood = changes[..changes.partition_point(|change| change.revision <= read.revision)].last();
        let stood = stood.and_then(|change| Some((change.value.clone()?, change.revision)));
        assert_eq!(read.found, stood, "what stood at the revision of a read: {read:?}");
        while let Some((_, revision)) = answered.next_if(|(ret, _)| *ret < read.call) {
            newest = newest.max(revision);
        }
        assert!(read.revision >= newest, "after revision {newest} was told: {read:?}");
    }
}

/// Every guarded write was made by whoever was first in the line at that revision; how many there were.
pub(crate) fn judge_locks(history: &[Change]) -> usize {
    let mut lines: BTreeMap<&str, BTreeMap<i64, &str>> = BTreeMap::new();
    let (mut places, mut guarded) = (BTreeMap::new(), 0);
    for change in history {
        let lock = LOCKS.into_iter().find(|lock| change.key.starts_with(&format!("{lock}/")));
        if let Some(lock) = lock {
            let line = lines.entry(lock).or_default();
            if change.value.is_some() {
                places.insert(&change.key, change.made);
                line.insert(change.made, &change.key);
            } else if let Some(made) = places.remove(&change.key) {
                line.remove(&made);
            }
        }
        if let (Some(lock), Some(value)) = (change.key.strip_prefix(GUARDED), &change.value) {
            let fence: i64 =
                value.split('/').next().and_then(|fence| fence.parse().ok()).expect("a revision");
            let first = lines.get(lock).and_then(|line| line.first_key_value());
            assert_eq!(first.map(|(made, _)| *made), Some(fence), "who is first in the line at {change:?}");
            guarded += 1;
        }
    }
    guarded
}
