//! The log compared with the simplest list that could be one.

use super::one::{entry, index, start_of, view};
use crate::Random;
use crate::raft::log::{EntryLog, RUN_BYTES, entry_bytes};
use crate::raft::message::{Entry, EntryBody, Index, Position};
use quorate_types::{RecordId, View};

struct Model {
    entries: Vec<(Entry, RecordId)>,
    durable: usize,
    /// Entries that were forgotten.
    floor: usize,
}

fn compare(log: &EntryLog, model: &Model) {
    log.check();
    let count = model.entries.len() as u64;
    assert_eq!(log.last().index, index(count));
    assert_eq!(log.durable(), index(model.durable as u64));
    let (mut slots, mut before) = (0, View::ZERO);
    for (at, (entry, record)) in model.entries.iter().enumerate() {
        let here = index(at as u64 + 1);
        let batch = matches!(entry.body, EntryBody::Batch(_));
        slots += u64::from(batch);
        if at < model.floor {
            before = entry.view;
            let last = at + 1 == model.floor;
            assert_eq!(log.view_at(here), last.then_some(entry.view));
            assert!(!last || (log.slots_at(here) == slots && log.slot_from(here) == slots));
            assert_eq!(log.record_at(here), RecordId::ZERO);
            assert!(log.holds(log.floor()) && (last || log.holds(Position::new(here, view(99)))));
            assert!(last || log.index_of(slots).is_none_or(|index| index == log.floor().index));
            continue;
        }
        assert_eq!(log.slot_from(here), if batch { slots } else { slots + 1 });
        assert!(!batch || log.index_of(slots) == Some(here));
        assert_eq!(log.view_at(here), Some(entry.view));
        assert_eq!(log.record_at(here), *record);
        assert_eq!(log.slots_at(here), slots);
        assert!(entry.view >= before);
        before = entry.view;
        if here >= log.first_kept() {
            assert_eq!(log.get(here).map(|kept| &kept.entry), Some(entry));
        }
    }
    assert_eq!(log.view_at(index(count + 1)), None);
    assert_eq!(log.slots(), slots);
    for wanted in 0..5 {
        let limit = index(count / 2 + wanted);
        let fits = |(entry, _): &&(Entry, RecordId)| entry.view <= view(wanted);
        let expected = model.entries.iter().take(limit.number() as usize).take_while(fits).count();
        let expected = (expected >= model.floor).then_some(index(expected as u64));
        assert_eq!(log.last_with_view_up_to(limit, view(wanted)), expected);
    }
    assert_eq!(log.index_of(slots + 1), None);
    assert_eq!(log.floor().index, index(model.floor as u64));
}

/// Entries come, are replaced, become durable, leave the memory and are forgotten in any order; every question has the right
/// answer.
#[test]
fn the_log_is_a_list() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let (mut log, mut model) = (EntryLog::new(), Model { entries: Vec::new(), durable: 0, floor: 0 });
        let (mut record, mut durable_record) = (0, 0);
        for _ in 0..120 {
            match random.below(11) {
                0..=5 => {
                    let last = log.last().view.number().max(1);
                    let in_view = last + random.below(8) / 7;
                    let new = if random.below(4) == 0 { start_of(in_view) } else { entry(in_view, 1) };
                    // A record of another kind lies between them now and then.
                    record += 1 + random.below(10) / 9;
                    log.push(new.clone(), RecordId::new(record));
                    model.entries.push((new, RecordId::new(record)));
                }
                6 => {
                    let keep = (model.entries.len() as u64).saturating_sub(random.below(6));
                    let keep = keep.max(model.floor as u64);
                    log.truncate(index(keep));
                    model.entries.truncate(keep as usize);
                    model.durable = model.durable.min(keep as usize);
                }
                7 | 8 => {
                    durable_record = (durable_record + random.below(5)).min(record);
                    log.advance_durable(RecordId::new(durable_record));
                    let durable = |(_, id): &&(Entry, RecordId)| *id <= RecordId::new(durable_record);
                    model.durable = model.entries.iter().take_while(durable).count().max(model.floor);
                }
                9 => {
                    // Mostly little by little, sometimes everything.
                    let most = model.entries.len() - model.floor;
                    let limit = if random.below(8) == 0 { most } else { most.min(8) };
                    let more = random.below(limit as u64 + 1);
                    model.floor += more as usize;
                    model.durable = model.durable.max(model.floor);
                    log.raise_floor(index(model.floor as u64));
                }
                _ => {
                    while log.first_kept() <= log.durable() && random.below(4) > 0 {
                        log.evict_first();
                    }
                }
            }
            compare(&log, &model);
        }
    }
}

/// A log that begins after a checkpoint counts on from there.
#[test]
fn a_log_begins_after_a_checkpoint() {
    let mut log = EntryLog::new();
    (1..=3).for_each(|seed| log.push(entry(1, seed), RecordId::new(seed)));
    log.reset(Position::new(index(100), view(4)), 90, None);
    log.check();
    assert_eq!((log.last(), log.durable()), (Position::new(index(100), view(4)), index(100)));
    assert_eq!((log.slots(), log.floor_slots(), log.kept_bytes()), (90, 90, 0));
    log.push(start_of(5), RecordId::new(9));
    log.push(entry(5, 1), RecordId::new(10));
    log.check();
    assert_eq!((log.slots_at(index(102)), log.index_of(91)), (91, Some(index(102))));
    assert_eq!((log.index_of(90), log.index_of(89)), (Some(index(100)), None));
    log.raise_floor(index(102));
    log.check();
    assert_eq!((log.floor(), log.floor_slots()), (Position::new(index(102), view(5)), 91));
    assert_eq!(log.first_kept(), index(103));
}

/// A question to the disk takes about one run's bytes, and the questions together take everything.
#[test]
fn questions_to_the_disk_are_bounded() {
    let mut log = EntryLog::new();
    let large = Entry { view: view(1), body: EntryBody::Batch(super::world::batch(1, 1 << 20)) };
    let (mut expected, mut record) = (Vec::new(), 0);
    for at in 0..40_u64 {
        record += 1 + at % 3 / 2;
        let entry = if at % 10 == 0 { start_of(1) } else { large.clone() };
        log.push(entry, RecordId::new(record));
        expected.push(RecordId::new(record));
    }
    let mut asked = Vec::new();
    while asked.len() < expected.len() {
        let from = index(asked.len() as u64 + 1);
        let records = log.records_to_load(from, index(40));
        assert!(!records.is_empty());
        let bytes = log.bytes_at(from.plus(records.len() as u64 - 1)) - log.bytes_at(from.previous());
        assert!(bytes <= RUN_BYTES + entry_bytes(&large), "{bytes} from {from}");
        asked.extend(records);
    }
    assert_eq!(asked, expected);
    assert_eq!(log.records_to_load(index(3), index(4)).len(), 2, "not beyond what was wanted");
    assert!(log.records_to_load(index(41), index(50)).is_empty());
    assert_eq!(log.position(Index::ZERO).view, View::ZERO);
}

/// A message takes at least one entry, and then no more than its bytes.
#[test]
fn messages_are_bounded() {
    let mut log = EntryLog::new();
    for at in 1..=10 {
        log.push(entry(1, at), RecordId::new(at));
    }
    let size = entry_bytes(&entry(1, 1)) as usize;
    assert_eq!(log.take(index(1), 0, 100).len(), 1);
    assert_eq!(log.take(index(1), 3 * size, 100).len(), 3);
    assert_eq!(log.take(index(1), 3 * size + 1, 2).len(), 2);
    assert_eq!(log.take(index(10), 1 << 20, 100).len(), 1);
    assert!(log.take(index(11), 1 << 20, 100).is_empty());
}
