//! Entries that left the memory, and come back.

use super::one::{One, append, at, decided, entries_to, entry, matched, sent_to, start_of, view};
use super::world::replica;
use crate::raft::RaftConfig;
use crate::raft::message::RaftMessage;
use crate::{Effect, Input, Order};
use quorate_types::{Halt, Span};

fn tiny(config: RaftConfig) -> RaftConfig {
    RaftConfig { cache_bytes: 0, ..config }
}
fn tiny_memory(config: RaftConfig) -> RaftConfig {
    RaftConfig { cache_bytes: 0, reload: false, ..config }
}
fn loads(effects: &[Effect]) -> usize {
    effects.iter().filter(|effect| matches!(effect, Effect::Load { .. })).count()
}

/// After a restart everything is decided again, in order, from the disk.
#[test]
fn a_restarted_replica_reads_its_log_back() {
    let mut one = One::new(3);
    let entries = (1..=50).map(|seed| entry(1, seed));
    one.receive(1, append(1, at(0, 0), 0, std::iter::once(start_of(1)).chain(entries).collect()));
    let mut again = One::restored(3, one.disk, tiny);
    assert_eq!(again.raft.store.log().kept_bytes(), 0);
    let effects = again.receive(1, append(1, at(51, 1), 51, vec![]));
    assert_eq!(loads(&effects), 1);
    assert_eq!(loads(&again.receive(1, append(1, at(51, 1), 51, vec![]))), 0, "one question at a time");
    let mut all = Vec::new();
    let mut effects = effects;
    while loads(&effects) > 0 {
        effects = again.answer_load(&effects);
        all.extend(decided(&effects));
    }
    assert_eq!(all, (1..=50).collect::<Vec<_>>());
}

/// A leader reads back what a lagging follower lacks.
#[test]
fn a_leader_reads_back_for_a_follower() {
    let mut one = One::with(3, tiny);
    one.elect();
    one.receive(1, matched(1, 1));
    for seed in 1..=30 {
        one.propose(seed);
    }
    one.sync();
    let mut effects = one.receive(1, matched(1, 31));
    let mut all = decided(&effects);
    while loads(&effects) > 0 {
        effects = one.answer_load(&effects);
        all.extend(decided(&effects));
    }
    assert_eq!(all, (1..=30).collect::<Vec<_>>());
    assert_eq!(one.raft.store.log().kept_bytes(), 0, "nobody needs them in memory");
    // The other follower appears with an empty log: probed without entries, then served from the disk.
    one.step(Input::Connected(replica(2)));
    let effects = one.receive(2, matched(1, 0));
    assert_eq!(loads(&effects), 1);
    assert_eq!(entries_to(&effects, 2), 0);
    let mut effects = one.answer_load(&effects);
    let mut got = entries_to(&effects, 2);
    while loads(&effects) > 0 {
        effects = one.answer_load(&effects);
        got += entries_to(&effects, 2);
    }
    assert_eq!(got, 31);
}

/// Sizes of entries that left the memory are estimates that change as the log grows: they never keep a window closed when all
/// that was sent is acknowledged.
#[test]
fn a_small_window_opens_when_all_is_acknowledged() {
    let mut one = One::with(3, |config| RaftConfig { window_bytes: 1, ..tiny(config) });
    one.elect();
    one.sync();
    one.receive(1, matched(1, 1));
    let mut next = 1;
    let mut got = 0;
    for round in 1..=20 {
        let mut effects = one.receive(2, matched(1, got));
        while loads(&effects) > 0 {
            effects = one.answer_load(&effects);
            got += entries_to(&effects, 2) as u64;
        }
        assert!(
            got >= round,
            "round {round}: everything up to {got} is acknowledged, and nothing more was sent"
        );
        for _ in 0..3 {
            one.step(Input::Propose(super::world::batch(next, 10_000 - 100 * next as usize)));
            next += 1;
        }
        one.sync();
        let mut effects = one.receive(1, matched(1, next));
        while loads(&effects) > 0 {
            effects = one.answer_load(&effects);
            got += entries_to(&effects, 2) as u64;
        }
    }
}

/// Without a disk to read from the follower needs a checkpoint, and the status says so; the others go on.
#[test]
fn without_reload_a_late_follower_needs_a_checkpoint() {
    let mut one = One::with(3, tiny_memory);
    one.elect();
    one.sync();
    one.receive(1, matched(1, 1));
    one.propose(1);
    one.sync();
    assert_eq!(decided(&one.receive(1, matched(1, 2))), vec![1]);
    let effects = one.receive(2, matched(1, 0));
    assert_eq!(loads(&effects), 0);
    let status = one.raft.status();
    assert_eq!(status.members[1].1, u64::MAX, "{status:?}");
    assert_eq!(status.members[0].1, 0);
    one.expire();
    let (_, heartbeat) = sent_to(&one.expire(), 2);
    let reach = RaftMessage::NeedsCheckpoint { view: view(1), previous: at(2, 1), round: 0, slot: 1 };
    assert_eq!(heartbeat, reach);
}

/// Before a live follower would be cut off, the leader waits for it; a silent one holds nobody up.
#[test]
fn without_reload_a_leader_holds_back_for_a_live_follower() {
    let mut one = One::with(3, |config| RaftConfig {
        cache_bytes: 10_000,
        reload: false,
        election_max: Span::from_secs(1),
        ..config
    });
    one.elect();
    one.sync();
    one.receive(1, matched(1, 1));
    one.receive(2, matched(1, 1));
    let mut proposed = 0;
    while !one.raft.standing().holds_back {
        assert!(proposed < 100_000, "it never holds back");
        one.propose(proposed);
        proposed += 1;
        one.sync();
        one.receive(1, matched(1, 1 + proposed));
    }
    assert!(proposed > 10, "half of the cache holds more than {proposed} batches");
    // The follower acknowledges: on we go.
    one.receive(2, matched(1, 1 + proposed));
    assert!(!one.raft.standing().holds_back);
    // It falls silent: after a while nobody waits for it.
    while !one.raft.standing().holds_back {
        one.propose(proposed);
        proposed += 1;
        one.sync();
        one.receive(1, matched(1, 1 + proposed));
    }
    for _ in 0..100 {
        one.expire();
        one.receive(1, matched(1, 1 + proposed));
    }
    assert!(!one.raft.standing().holds_back, "a silent follower holds up the others");
}

/// A disk that gives back something else is not to be trusted.
#[test]
fn a_wrong_answer_of_the_disk_halts() {
    for change in 0..3 {
        let mut one = One::with(1, tiny);
        one.sync();
        one.sync();
        for seed in 1..4 {
            one.propose(seed);
        }
        one.sync();
        let mut again = One::restored(1, one.disk, tiny);
        again.sync();
        let effects = again.sync();
        let Some(Effect::Load { load, records }) =
            effects.iter().find(|effect| matches!(effect, Effect::Load { .. }))
        else {
            panic!("{effects:?}")
        };
        let mut read: Vec<_> =
            records.iter().map(|id| again.disk[id.number() as usize - 1].clone()).collect();
        match change {
            0 => drop(read.pop()),
            1 => read.reverse(),
            _ => read[0] = again.disk[0].clone(),
        }
        let last = read.len() > 1;
        let effects = again.step(Input::Loaded { load: *load, records: read });
        assert!(
            matches!(effects.as_slice(), [Effect::Halt(Halt::LogInconsistent { .. })]),
            "{change} {last}"
        );
        assert!(again.step(Input::Deadline).is_empty(), "it does nothing any more");
        assert_eq!(again.raft.deadline(), None);
    }
}
