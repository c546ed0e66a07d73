//! The log's beginning: what is forgotten, what a restart finds, who is told to fetch a checkpoint, and what becomes of a log
//! when one is installed.

use super::one::{
    One, anchor, append, ask_vote, at, decided, entries_to, entry, index, matched, matched_in, pre_vote,
    rejected, sent, sent_to, start_of, view, vote,
};
use super::world::replica;
use crate::raft::message::{AppendOutcome, Position, RaftMessage};
use crate::raft::persist::{entry_record, floor_record, vote_record};
use crate::raft::{RECORD_FLOOR, Raft, RaftConfig};
use crate::{Anchor, Effect, Effects, Input, Order, Stored};
use quorate_types::{Halt, RecordId, Slot, Time};

fn same(config: RaftConfig) -> RaftConfig {
    config
}
fn tiny(config: RaftConfig) -> RaftConfig {
    RaftConfig { cache_bytes: 0, ..config }
}
fn needs(in_view: u64, previous: Position, round: u64, slot: u64) -> RaftMessage {
    RaftMessage::NeedsCheckpoint { view: view(in_view), previous, round, slot }
}
fn behind(effects: &[Effect]) -> Option<u64> {
    effects.iter().find_map(|effect| match effect {
        Effect::Behind { slot } => Some(slot.number()),
        _ => None,
    })
}
fn halts(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Halt(Halt::LogInconsistent { .. })))
}
/// A follower with 1@1 start, slots 1 to 3 at 2@1 to 4@1, 5@2 start, slots 4 and 5 at 6@2 and 7@2; slots up to 4 decided.
fn follower() -> One {
    let mut one = One::new(3);
    let of = |view: u64, seeds: std::ops::RangeInclusive<u64>| {
        std::iter::once(start_of(view)).chain(seeds.map(move |seed| entry(view, seed))).collect()
    };
    one.receive(1, append(1, at(0, 0), 2, of(1, 1..=3)));
    one.receive(2, append(2, at(4, 1), 6, of(2, 4..=5)));
    one.sync();
    one
}
/// A leader in view 1 with four slots, at 2@1 to 5@1, all decided by the vote of replica 1.
fn leader() -> One {
    let mut one = One::new(3);
    one.elect();
    (1..=4).for_each(|seed| drop(one.propose(seed)));
    one.sync();
    one.receive(1, matched(1, 5));
    one
}

/// A slot's anchor is the position of the entry that holds it, from the floor to the last slot decided.
#[test]
fn an_anchor_names_the_entry_of_a_slot() {
    let mut one = follower();
    let anchors =
        |one: &One| -> Vec<Option<Anchor>> { (0..=5).map(|slot| one.raft.anchor(Slot::new(slot))).collect() };
    let all = [at(0, 0), at(2, 1), at(3, 1), at(4, 1), at(6, 2)].map(|position| Some(anchor(position)));
    assert_eq!(anchors(&one), [&all[..], &[None]].concat());
    one.trim(3);
    assert_eq!(anchors(&one), [&[None, None, None], &all[3..], &[None]].concat());
    one.trim(4);
    assert_eq!(anchors(&one)[4], all[4]);
}

/// Old records may go when the new one that repeats the vote is durable, and a restart needs no others.
#[test]
fn what_is_forgotten_is_not_needed_any_more() {
    let mut one = follower();
    assert_eq!(one.raft.keep_from(), Some(RecordId::FIRST));
    let effects = one.trim(3);
    let floor = one.disk.len() as u64;
    let [Effect::Persist { id, record, vital: true }] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!((id.number(), record.kind), (floor, RECORD_FLOOR));
    assert_eq!(one.raft.keep_from(), Some(RecordId::FIRST), "its vote is not durable yet");
    one.sync();
    // VOTE, four entries, VOTE: the next record holds 5@2.
    assert_eq!(one.raft.keep_from(), Some(RecordId::new(7)));
    assert_eq!(one.trim(2), [], "that is forgotten already");
    assert_eq!(one.trim(3), [], "that, too, and it was written down");
    let rest = one.disk[6..].to_vec();
    let mut again = One::anchored(3, Some((3, anchor(at(4, 1)))), rest.clone(), same);
    assert_eq!(again.raft.store.log().last(), at(7, 2));
    assert_eq!(again.raft.status().decided, Slot::new(3));
    assert_eq!(decided(&again.receive(2, append(2, at(7, 2), 7, vec![]))), [4, 5]);
    let refused = RaftMessage::RequestVoteReply { view: view(2), granted: false, pre: false };
    assert_eq!(sent_to(&again.receive(1, ask_vote(2, at(9, 1))), 1), (None, refused), "of an old log");
    // With everything forgotten the record of the floor is all that is needed.
    again.trim(5);
    again.sync();
    assert_eq!(again.raft.keep_from(), Some(RecordId::new(rest.len() as u64 + 1)));
    let last = again.disk.last().expect("a record").clone();
    let empty = One::anchored(3, Some((5, anchor(at(7, 2)))), vec![last], same);
    assert_eq!((empty.raft.store.log().last(), empty.raft.status().view), (at(7, 2), view(2)));
}

/// Entries that are replaced in memory are still what a restart finds, until the replacement is durable.
#[test]
fn records_that_are_being_replaced_stay() {
    let mut one = follower();
    one.trim(4);
    one.sync();
    assert_eq!(one.raft.keep_from(), Some(RecordId::new(9)), "the entry 7@2");
    one.receive(1, append(3, at(6, 2), 6, vec![start_of(3)]));
    assert_eq!(one.raft.keep_from(), Some(RecordId::new(9)));
    one.sync();
    assert_eq!(one.raft.keep_from(), Some(RecordId::new(10)), "the floor's record comes before 7@3");
}

/// What a follower is being sent from the disk stays there until it was read.
#[test]
fn records_that_are_being_read_stay() {
    let mut one = One::with(3, tiny);
    one.elect();
    (1..=4).for_each(|seed| drop(one.propose(seed)));
    one.sync();
    let effects = one.receive(1, matched(1, 5));
    one.answer_load(&effects);
    let asked = one.receive(2, matched(1, 1));
    assert!(asked.iter().any(|effect| matches!(effect, Effect::Load { records, .. } if records.len() == 4)));
    one.trim(4);
    one.sync();
    assert_eq!(one.raft.keep_from(), Some(RecordId::new(3)), "the entry 2@1");
    assert_eq!(entries_to(&one.answer_load(&asked), 2), 0, "it needs a checkpoint now");
    assert_eq!(one.raft.keep_from(), Some(RecordId::new(7)));
}

/// A follower whose next entry is forgotten is told so with every heartbeat, counts as alive, and is sent entries as soon as
/// its log reaches the leader's.
#[test]
fn a_follower_that_lacks_forgotten_entries_is_told() {
    let mut one = leader();
    one.trim(3);
    assert_eq!(one.raft.status().members[1].1, u64::MAX);
    assert_eq!(sent(&one.expire()).len(), 1, "only the other one is told of the commit");
    let (_, heartbeat) = sent_to(&one.expire(), 2);
    assert_eq!(heartbeat, needs(1, at(4, 1), 0, 3));
    let lost = RaftMessage::AppendEntriesReply {
        view: view(1),
        round: 0,
        outcome: AppendOutcome::Rejected { asked: index(4), hint: at(1, 1) },
    };
    assert_eq!(one.receive(2, lost.clone()), [], "nothing can be done before it has a checkpoint");
    assert_eq!(one.propose(5).len(), 2, "a record, and a message to the other one");
    // Its answers confirm reads.
    let effects = one.step(Input::Read(7));
    assert_eq!(sent_to(&effects, 2).1, needs(1, at(4, 1), 1, 3));
    let outcome = AppendOutcome::Rejected { asked: index(4), hint: at(1, 1) };
    let effects = one.receive(2, RaftMessage::AppendEntriesReply { view: view(1), round: 1, outcome });
    assert_eq!(effects, [Effect::ReadConfirmed { read: 7, slot: Slot::new(4) }]);
    // Less than the floor does not help.
    assert_eq!(one.receive(2, matched(1, 3)), []);
    assert_eq!(one.raft.status().members[1].1, u64::MAX);
    let effects = one.receive(2, matched(1, 4));
    assert_eq!(entries_to(&effects, 2), 2);
    assert_ne!(one.raft.status().members[1].1, u64::MAX);
}

/// A new leader finds out by a rejection; an old rejection changes nothing for a follower that got on since.
#[test]
fn a_rejection_from_below_the_floor_asks_for_a_checkpoint() {
    let mut one = leader();
    one.receive(2, matched(1, 1));
    one.receive(2, matched(1, 5));
    one.trim(4);
    one.step(Input::Connected(replica(2)));
    let effects = one.receive(2, rejected(1, 5, at(1, 1)));
    assert_eq!(one.raft.status().members[1].1, 0, "it has acknowledged all of that");
    let [(to, _, RaftMessage::AppendEntries { round: 1, entries, .. })] = &sent(&effects)[..] else {
        panic!("{effects:?}")
    };
    assert!(*to == replica(2) && entries.is_empty(), "it is asked again, whether that was late");
    let mut one = leader();
    one.trim(4);
    one.step(Input::Disconnected(replica(2)));
    one.step(Input::Connected(replica(2)));
    one.receive(2, rejected(1, 5, at(1, 1)));
    assert_eq!(one.raft.status().members[1].1, u64::MAX);
}

/// It follows whoever tells it, asks the host for a checkpoint, and says what it has.
#[test]
fn a_follower_asks_for_a_checkpoint() {
    let mut one = One::new(3);
    one.receive(1, append(1, at(0, 0), 0, vec![start_of(1), entry(1, 1)]));
    one.sync();
    one.wait(250);
    let before = one.raft.deadline();
    let effects = one.receive(2, needs(3, at(9, 2), 5, 7));
    assert_eq!(behind(&effects), Some(7));
    assert!(one.raft.deadline() > before, "the time-out starts anew");
    assert_eq!(one.raft.status().leader, Some(replica(2)));
    let outcome = AppendOutcome::Rejected { asked: index(9), hint: at(2, 1) };
    let answer = RaftMessage::AppendEntriesReply { view: view(3), round: 5, outcome };
    let record = one.disk.len() as u64;
    assert_eq!(sent_to(&effects, 2), (Some(record), answer));
    assert_eq!(behind(&one.receive(1, needs(2, at(9, 2), 0, 7))), None, "of a lower view");
    // With the checkpoint of slot 8 it has more than is asked for.
    let effects = one.install(8, at(10, 2));
    assert_eq!(decided(&effects), Vec::<u64>::new());
    assert_eq!((one.raft.store.log().last(), one.raft.status().decided), (at(10, 2), Slot::new(8)));
    let effects = one.receive(2, needs(3, at(9, 2), 6, 7));
    assert_eq!(behind(&effects), None);
    assert_eq!(
        sent_to(&effects, 2).1,
        matched_in(3, 10, 6),
        "the checkpoint is durable, whatever the log is"
    );
}

/// Entries up to the log's beginning are skipped, and what follows is taken.
#[test]
fn a_message_may_begin_before_the_log() {
    let mut one = One::new(3);
    one.install(3, at(4, 1));
    let entries = vec![entry(1, 2), entry(1, 3), entry(1, 4), start_of(2)];
    let effects = one.receive(1, append(2, at(2, 1), 5, entries));
    assert_eq!(sent_to(&effects, 1).1, matched(2, 6));
    assert_eq!(decided(&effects), [4]);
    assert_eq!(one.raft.store.log().last(), at(6, 2));
    let effects = one.receive(1, append(2, at(1, 1), 5, vec![entry(1, 1)]));
    assert_eq!(sent_to(&effects, 1).1, matched(2, 4), "all of it lies in the checkpoint");
    let effects = one.receive(1, append(2, at(2, 1), 5, vec![entry(2, 2), entry(2, 3)]));
    assert!(
        matches!(effects.last(), Some(Effect::Rejected { .. })),
        "another entry where the checkpoint ends"
    );
}

/// A checkpoint that the log agrees with changes what is handed on and nothing else: entries after it stay.
#[test]
fn a_checkpoint_inside_the_log_keeps_what_follows() {
    let mut one = follower();
    let records = one.disk.len();
    // Forward: slot 5 is committed by it.
    assert_eq!(decided(&one.install(5, at(7, 2))), Vec::<u64>::new());
    assert_eq!((one.raft.status().decided, one.raft.store.commit()), (Slot::new(5), index(7)));
    // Back: slots are handed on again.
    assert_eq!(decided(&one.install(2, at(3, 1))), [3, 4, 5]);
    assert_eq!((one.raft.store.log().last(), one.raft.store.log().floor()), (at(7, 2), at(0, 0)));
    assert_eq!(one.disk.len(), records, "nothing is written");
    let effects = one.receive(2, append(2, at(7, 2), 7, vec![]));
    assert_eq!(sent_to(&effects, 2), (None, matched(2, 7)));
}

/// A checkpoint that the log departs from, or does not reach, leaves nothing of it.
#[test]
fn a_checkpoint_outside_the_log_replaces_it() {
    for (slot, position) in [(6, at(7, 3)), (20, at(30, 4)), (5, at(6, 1))] {
        let mut one = follower();
        let before = one.raft.status().view;
        let effects = one.install(slot, position);
        assert_eq!(decided(&effects), Vec::<u64>::new());
        let after = one.raft.status();
        assert_eq!((one.raft.store.log().last(), one.raft.store.log().floor()), (position, position));
        assert_eq!((after.decided, one.raft.store.commit()), (Slot::new(slot), position.index));
        assert_eq!(after.view, before.max(position.view), "views never go back, and reach the log's");
        let wanted = floor_record(position, slot, true, (after.view, one.raft.store.term().voted()));
        assert_eq!(one.disk.last(), Some(&wanted));
        assert_eq!(one.raft.keep_from(), Some(RecordId::FIRST));
        // The next start finds the same, with that record and without.
        let without = One::anchored(3, Some((slot, anchor(position))), one.disk[..8].to_vec(), same);
        one.sync();
        assert_eq!(one.raft.keep_from(), Some(RecordId::new(one.disk.len() as u64)));
        let with = One::anchored(3, Some((slot, anchor(position))), one.disk, same);
        for again in [without, with] {
            assert_eq!((again.raft.store.log().last(), again.raft.status().view), (position, after.view));
        }
    }
}

/// Whoever asks for votes with a log that is gone gives up; a leader whose log is gone leads no more.
#[test]
fn a_candidate_or_leader_without_its_log_is_none() {
    let mut one = follower();
    one.expire();
    one.receive(1, pre_vote(3, true));
    one.install(20, at(30, 2));
    one.sync();
    assert_eq!(sent(&one.receive(1, vote(3, true))), []);
    assert!(!one.raft.standing().leading);
    let mut one = leader();
    one.step(Input::Read(3));
    let effects = one.install(20, at(30, 2));
    assert!(effects.contains(&Effect::ReadFailed { read: 3 }));
    assert_eq!((one.raft.status().leader, one.raft.status().view), (None, view(2)));
    // One that its log agrees with leaves a leader in office.
    let mut one = leader();
    assert_eq!(decided(&one.install(2, at(3, 1))), [3, 4]);
    assert!(one.raft.standing().leading && one.raft.standing().settled);
}

/// What was being read back for delivery is not what comes next.
#[test]
fn a_late_answer_of_the_disk_is_nobodys() {
    let mut one = One::restored(3, follower().disk, tiny);
    let asked = one.receive(2, append(2, at(7, 2), 7, vec![]));
    let effects = one.install(4, at(6, 2));
    assert_eq!(decided(&one.answer_load(&asked)), Vec::<u64>::new());
    assert_eq!(decided(&one.answer_load(&effects)), [5]);
}

/// A replica alone goes on from its checkpoint.
#[test]
fn a_replica_alone_starts_from_its_checkpoint() {
    let mut one = One::new(1);
    one.sync();
    one.sync();
    (1..=3).for_each(|seed| drop(one.propose(seed)));
    assert_eq!(decided(&one.sync()), [1, 2, 3]);
    one.trim(2);
    one.sync();
    let from = one.raft.keep_from().expect("records").number() as usize - 1;
    let mut again = One::anchored(1, Some((2, anchor(at(3, 1)))), one.disk[from..].to_vec(), same);
    again.sync();
    assert_eq!(decided(&again.sync()), [3]);
    assert!(again.raft.standing().leading && again.raft.standing().settled);
}

/// Starts with a checkpoint and records; gives the log's end, or says that the replica halts.
fn start(slot: u64, position: Position, records: &[Stored]) -> Result<Position, Halt> {
    let mut raft = Raft::new(RaftConfig::new(replica(0), vec![replica(0), replica(1)], 1));
    raft.restore_anchor(Slot::new(slot), &anchor(position))?;
    for (id, record) in (1..).zip(records) {
        raft.restore(RecordId::new(id), record.clone())?;
    }
    let mut out = Effects::new();
    raft.start(Time::ZERO, &mut out);
    if let Some(why) =
        out.drain().find_map(|effect| if let Effect::Halt(why) = effect { Some(why) } else { None })
    {
        return Err(why);
    }
    raft.invariants(true);
    Ok(raft.store.log().last())
}
fn record(number: u64, in_view: u64) -> Stored {
    entry_record(index(number), &entry(in_view, number))
}
fn in_view(number: u64) -> Stored {
    vote_record(view(number), None)
}
fn floor(position: Position, slot: u64, cleared: bool, in_view: u64) -> Stored {
    floor_record(position, slot, cleared, (view(in_view), None))
}

/// What was replaced, or belongs to a log that a checkpoint took the place of, is skipped; what continues the checkpoint stays.
#[test]
fn a_start_takes_what_continues_the_checkpoint() {
    let five = at(5, 2);
    let good: [(&str, Position, Vec<Stored>); 12] = [
        ("nothing but the checkpoint", five, vec![]),
        ("a vote", five, vec![in_view(3)]),
        ("entries that continue it", at(7, 3), vec![in_view(3), record(6, 2), record(7, 3)]),
        (
            "entries before it, too",
            at(6, 2),
            vec![in_view(2), record(3, 1), record(4, 2), record(5, 2), record(6, 2)],
        ),
        ("a vote that comes later", at(7, 3), vec![record(6, 2), record(7, 3), floor(five, 4, false, 3)]),
        (
            "left-overs of a log that was replaced",
            at(6, 3),
            vec![record(8, 1), record(9, 1), in_view(3), record(5, 2), record(6, 3)],
        ),
        ("a log that ends before it", five, vec![in_view(2), record(2, 1), record(3, 1)]),
        ("a log that departs from it", five, vec![in_view(1), record(4, 1), record(5, 1), record(6, 1)]),
        ("what follows is of a lower view", five, vec![in_view(1), record(6, 1), record(7, 1)]),
        (
            "a log that was dropped",
            at(6, 3),
            vec![in_view(2), record(6, 2), record(7, 2), in_view(3), floor(five, 4, true, 3), record(6, 3)],
        ),
        (
            "a log that was dropped earlier",
            at(6, 3),
            vec![
                record(9, 1),
                floor(at(3, 1), 2, true, 2),
                record(4, 2),
                record(5, 2),
                in_view(3),
                record(6, 3),
            ],
        ),
        (
            "a departing log that was replaced",
            at(6, 4),
            vec![in_view(3), record(5, 3), record(6, 3), in_view(4), record(5, 2), record(6, 4)],
        ),
    ];
    for (what, last, records) in good {
        assert_eq!(start(4, five, &records), Ok(last), "{what}");
    }
}

/// Who has the checkpoint of the place after which the log begins is sent all that follows: after a restart, too.
#[test]
fn a_restart_knows_where_its_log_begins() {
    let begins = |records: Vec<Stored>| {
        let mut raft = Raft::new(RaftConfig::new(replica(0), vec![replica(0), replica(1), replica(2)], 1));
        raft.restore_anchor(Slot::new(7), &anchor(at(8, 1))).expect("an anchor");
        for (id, record) in (1..).zip(records) {
            raft.restore(RecordId::new(id), record).expect("it fits");
        }
        let forgotten = raft.restored().begins_after;
        raft.start(Time::ZERO, &mut Effects::new());
        raft.invariants(true);
        let first = raft.store.log().record_at(raft.store.log().floor().index.next());
        let floor = (raft.store.log().floor(), raft.store.log().floor_slots());
        if forgotten != raft.restored().begins_after {
            assert_eq!(forgotten, Slot::new(7), "nobody knows what a checkpoint before ours leads to");
        }
        (floor.0, floor.1, first.number(), forgotten.number())
    };
    let log = |from: u64| (from..10).map(|number| record(number, 1));
    let stated = |number: u64| floor(at(number, 1), number - 1, false, 1);
    let then =
        |from: u64, stated: Stored| [in_view(1)].into_iter().chain(log(from)).chain([stated]).collect();
    assert_eq!(begins(then(5, stated(4))), (at(4, 1), 3, 2, 3));
    assert_eq!(begins([stated(4)].into_iter().chain(log(5)).collect()), (at(4, 1), 3, 2, 3), "stated before");
    assert_eq!(begins(then(8, stated(7))), (at(7, 1), 6, 2, 6), "the anchor's own entry");
    // What the first one follows is not known.
    assert_eq!(begins([in_view(1)].into_iter().chain(log(5)).collect()), (at(5, 1), 4, 3, 7));
    assert_eq!(begins(then(5, stated(3))), (at(5, 1), 4, 3, 7), "one is missing");
    assert_eq!(begins(then(4, stated(4))), (at(4, 1), 3, 3, 7), "more is there than is needed");
    let replaced =
        [in_view(1)].into_iter().chain(log(6)).chain([stated(5), in_view(2), record(5, 1)]).chain(log(6));
    assert_eq!(begins(replaced.collect()), (at(5, 1), 4, 9, 7), "it was replaced");
}

/// A log that begins with a checkpoint says after which one: whoever has no later one is sent all of it, also what has no slot.
#[test]
fn a_log_that_a_checkpoint_founds_says_so() {
    let restored = |slot: u64, position: Position, records: &[Stored]| {
        let mut raft = Raft::new(RaftConfig::new(replica(0), vec![replica(0), replica(1), replica(2)], 1));
        raft.restore_anchor(Slot::new(slot), &anchor(position)).expect("an anchor");
        for (id, record) in (1..).zip(records) {
            raft.restore(RecordId::new(id), record.clone()).expect("it fits");
        }
        let mut out = Effects::new();
        raft.start(Time::ZERO, &mut out);
        let persisted = out.drain().filter_map(|effect| match effect {
            Effect::Persist { record, .. } => Some(record),
            _ => None,
        });
        let persisted: Vec<Stored> = persisted.collect();
        (raft, persisted)
    };
    let (_, mut disk) = restored(4, at(5, 2), &[]);
    assert_eq!(disk, [in_view(2), floor(at(5, 2), 4, false, 2)]);
    assert_eq!(restored(4, at(5, 2), &disk).1, [], "it is said once");
    disk.extend([in_view(3), record(6, 3), record(7, 3)]);
    let (raft, _) = restored(6, at(7, 3), &disk);
    assert_eq!((raft.store.log().floor(), raft.restored().begins_after), (at(5, 2), Slot::new(4)));
}

/// What can not continue the checkpoint must not take part.
#[test]
fn a_start_without_what_is_needed_halts() {
    let five = at(5, 2);
    let torn = Stored { head: floor(five, 4, false, 2).head.slice(..35), ..floor(five, 4, false, 2) };
    let bad: [(&str, Vec<Stored>); 10] = [
        ("a gap after the checkpoint", vec![in_view(2), record(7, 2)]),
        ("a gap in the log", vec![in_view(2), record(6, 2), record(8, 2)]),
        ("a gap before it", vec![in_view(2), record(3, 1), record(5, 2)]),
        ("entries without a vote", vec![record(6, 2)]),
        ("a view below that of entries", vec![record(6, 3), in_view(2)]),
        ("a log that begins later", vec![floor(at(7, 2), 6, false, 2)]),
        ("a log that begins elsewhere", vec![floor(at(5, 1), 4, false, 2)]),
        ("a log that begins at another slot", vec![floor(at(5, 2), 3, false, 2)]),
        ("another vote stated again", vec![in_view(3), floor(five, 4, false, 2)]),
        ("a torn record", vec![torn]),
    ];
    for (what, records) in bad {
        assert!(matches!(start(4, five, &records), Err(Halt::LogInconsistent { .. })), "{what}");
    }
    // Nor what is no anchor.
    let wrong = [
        (1, at(0, 0)),
        (0, at(1, 1)),
        (1, at(1, 0)),
        (3, at(2, 1)),
        (1, at(u64::MAX, 1)),
        (1, at(1, u64::MAX)),
    ];
    for (slot, position) in wrong {
        assert!(start(slot, position, &[]).is_err(), "slot {slot} at {position}");
        let mut one = One::new(3);
        assert!(halts(&one.install(slot, position)), "slot {slot} at {position}");
    }
    let mut raft = Raft::new(RaftConfig::new(replica(0), vec![replica(0)], 1));
    let short = Anchor::decode(&[1; 15]).expect("short");
    assert!(raft.restore_anchor(Slot::new(1), &short).is_err());
    let mut one = follower();
    assert!(halts(&one.install(4, at(7, 2))), "the log has another slot there");
}

/// A host that forgets what was not decided, or goes back to what is forgotten, is stopped.
#[test]
fn a_wrong_host_is_stopped() {
    let stops = |act: fn(&mut One)| {
        let caught = std::panic::catch_unwind(|| act(&mut follower()));
        let text = caught.expect_err("it goes on");
        text.downcast_ref::<String>().cloned().or(text.downcast_ref::<&str>().map(ToString::to_string))
    };
    let trim = stops(|one| drop(one.trim(5)));
    assert!(trim.is_some_and(|text| text.contains("INV-RAFT-15")));
    let install = stops(|one| {
        one.trim(4);
        one.install(3, at(4, 1));
    });
    assert!(install.is_some_and(|text| text.contains("INV-RAFT-16")));
}
