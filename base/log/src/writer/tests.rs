//! Group commit, room, full disk, and the modes, one behaviour per test.

use super::*;
use crate::SECTOR;
use quorate_types::{Halt, InstanceId};

fn config() -> LogConfig {
    LogConfig { segment_bytes: 8192, block_bytes_max: 2048, reserve_bytes: 1024, ..LogConfig::default() }
}

fn record(payload: usize) -> Record {
    Record {
        instance: InstanceId::new(1),
        kind: 4,
        head: Bytes::from_static(b"head"),
        payload: vec![7; payload].into(),
    }
}

fn polled(log: &mut Log) -> Vec<LogEffect> {
    let effects = std::iter::from_fn(|| log.poll()).collect();
    log.invariants();
    effects
}

fn writes(log: &mut Log) -> Vec<Write> {
    let only_writes = |effect| match effect {
        LogEffect::Write(write) => Some(write),
        LogEffect::Prepare { .. } | LogEffect::Sync { .. } => None,
    };
    polled(log).into_iter().filter_map(only_writes).collect()
}

/// A log whose first two segments are ready.
fn ready(config: LogConfig) -> Log {
    let mut log = Log::create(1, config);
    for segment in 0..2 {
        assert_eq!(polled(&mut log), [LogEffect::Prepare { segment }]);
        log.prepared(segment, Ok(()));
    }
    assert_eq!(polled(&mut log), []);
    log
}

fn append(log: &mut Log, payload: usize) -> RecordId {
    log.append(record(payload), Class::Data).unwrap()
}

#[test]
fn what_piled_up_while_the_disk_was_busy_goes_into_one_block() {
    let mut log = ready(LogConfig { in_flight_max: 1, ..config() });
    append(&mut log, 10);
    let first = writes(&mut log);
    assert_eq!(first.len(), 1);
    assert_eq!((first[0].segment, first[0].offset, first[0].end, first[0].sync), (0, 0, 512, true));
    for _ in 0..3 {
        append(&mut log, 10);
    }
    assert_eq!(polled(&mut log), [], "one write is at the disk");
    assert_eq!(log.durable(), RecordId::ZERO);
    log.written(first[0].id);
    assert_eq!(log.durable(), RecordId::new(1));
    let second = writes(&mut log);
    assert_eq!((second.len(), second[0].offset, second[0].last), (1, 512, RecordId::new(4)));
    log.written(second[0].id);
    assert_eq!((log.durable(), log.synced_to()), (RecordId::new(4), 1024));
}

#[test]
fn no_more_writes_at_the_disk_than_configured() {
    let mut log = ready(config());
    append(&mut log, 10);
    let first = writes(&mut log);
    append(&mut log, 10);
    let second = writes(&mut log);
    append(&mut log, 10);
    assert_eq!((first.len(), second.len(), polled(&mut log).len()), (1, 1, 0), "INV-LOG-5");
    log.written(first[0].id);
    assert_eq!(writes(&mut log).len(), 1);
}

#[test]
#[should_panic(expected = "INV-LOG-4")]
fn writes_that_complete_out_of_order_are_our_bug() {
    let mut log = ready(config());
    append(&mut log, 10);
    writes(&mut log);
    append(&mut log, 10);
    let second = writes(&mut log);
    log.written(second[0].id);
}

#[test]
fn blocks_end_at_their_limit_and_never_span_segments() {
    let mut log = ready(LogConfig { in_flight_max: 100, ..config() });
    let mut ends = Vec::new();
    for _ in 0..13 {
        append(&mut log, 900);
    }
    for write in writes(&mut log) {
        let len: usize = write.data.iter().map(Bytes::len).sum();
        assert!(len <= 2048 && len.is_multiple_of(SECTOR));
        assert_eq!(write.segment * 8192 + write.offset + len as u64, write.end);
        assert!(write.offset + len as u64 <= 8192);
        ends.push(write.end);
    }
    assert_eq!(ends, [2048, 4096, 6144, 8192, 10240, 12288, 13312]);
}

#[test]
fn large_payloads_are_handed_on_and_small_ones_are_copied() {
    let mut log = ready(config());
    let large = record(500);
    let at = large.payload.as_ptr();
    log.append(record(20), Class::Data).unwrap();
    log.append(large, Class::Data).unwrap();
    log.append(record(0), Class::Data).unwrap();
    let write = writes(&mut log).remove(0);
    let lens: Vec<usize> = write.data.iter().map(Bytes::len).collect();
    assert_eq!(lens, [64 + 28 + 20 + 28, 500, 28, 1024 - 668]);
    assert_eq!(write.data[1].as_ptr(), at, "the very bytes that were appended");
}

#[test]
fn a_record_over_the_limit_is_refused_and_takes_no_number() {
    let mut log = ready(config());
    let max = log.record_bytes_max();
    assert_eq!(max, 2048 - 64 - 24);
    let over = log.append(record(max as usize - 4 + 1), Class::Vital);
    assert_eq!(over, Err(AppendError::TooLarge { size: max + 1, max }));
    assert_eq!(append(&mut log, max as usize - 4), RecordId::new(1));
    assert_eq!(writes(&mut log)[0].end, 2048);
}

/// Fills the log with data until it refuses; gives how many records it took.
fn fill(log: &mut Log, class: Class) -> u64 {
    let before = log.appended();
    while log.append(record(400), class).is_ok() {
        for write in writes(log) {
            log.written(write.id);
        }
    }
    log.appended().since(before)
}

#[test]
fn a_full_disk_refuses_data_first_and_votes_last_and_recovers() {
    let mut log = ready(config());
    assert!(log.has_room());
    // Segments 0 and 1 are ready; there will be no third one.
    let mut asked = 0;
    while log.append(record(400), Class::Data).is_ok() {
        for effect in polled(&mut log) {
            match effect {
                LogEffect::Write(write) => log.written(write.id),
                LogEffect::Prepare { segment } => {
                    asked += 1;
                    log.prepared(segment, Err(DiskFull));
                }
                LogEffect::Sync { .. } => panic!("no syncs of their own in group mode"),
            }
        }
    }
    assert_eq!((asked, log.is_disk_full()), (1, true), "asked once, then waits to be told");
    assert_eq!(log.appended(), RecordId::new(16 + 16 - 1), "all but half of the reserve");
    assert_eq!(log.room(), Room::Full);
    assert_eq!(fill(&mut log, Class::Vital), 1, "votes use the reserve");
    assert_eq!(log.append(record(400), Class::Vital), Err(AppendError::NoRoom));
    assert_eq!(log.durable(), log.appended(), "INV-LOG-6: what was accepted was written");
    log.retry_prepare();
    assert_eq!(polled(&mut log), [LogEffect::Prepare { segment: 2 }]);
    log.prepared(2, Ok(()));
    assert!(log.has_room() && !log.is_disk_full());
    append(&mut log, 400);
    assert_eq!(writes(&mut log)[0].segment, 2);
}

#[test]
fn has_room_goes_false_before_any_data_is_refused() {
    let mut log = ready(config());
    let mut warned = false;
    loop {
        let room = log.has_room();
        warned |= !room;
        match log.append(record(log.record_bytes_max() as usize - 4), Class::Data) {
            Ok(_) => drop(writes(&mut log)),
            Err(_) => break assert!(!room, "has_room promised the largest record"),
        }
    }
    assert!(warned);
}

/// Whoever looks at the room before it takes anything leaves half of the reserve to what was under way by then.
#[test]
fn room_shrinks_from_all_to_what_frees_to_none_while_data_is_still_taken() {
    let mut log = ready(config());
    let mut seen = vec![log.room()];
    let mut late = 0;
    while log.append(record(400), Class::Data).is_ok() {
        drop(writes(&mut log));
        late += u64::from(log.room() == Room::Full);
        if seen.last() != Some(&log.room()) {
            seen.push(log.room());
        }
    }
    assert_eq!(seen, [Room::Data, Room::Frees, Room::Full]);
    assert_eq!(late, 1, "of two sectors that are kept one is for votes");
}

#[test]
fn has_room_for_keeps_its_promise_and_reaches_further_than_has_room() {
    let (mut kept, mut further) = (0, 0);
    for seed in 0..300u64 {
        let mut log = ready(config());
        fill_up_to(&mut log, 16 + seed % 14);
        let sizes: Vec<u64> = (0..1 + seed % 5).map(|i| (seed * 37 + i * 613) % 700).collect();
        if !log.has_room_for(sizes.iter().map(|size| size + 4)) {
            continue;
        }
        kept += 1;
        further += u64::from(!log.has_room());
        for size in &sizes {
            append(&mut log, *size as usize);
        }
    }
    assert!(kept > 50 && further > 5, "{kept} {further}");
    assert!(!ready(config()).has_room_for([u64::MAX, 1].into_iter()));
}

fn fill_up_to(log: &mut Log, records: u64) {
    for _ in 0..records {
        append(log, 400);
        for write in writes(log) {
            log.written(write.id);
        }
    }
}

#[test]
fn a_queue_of_mixed_sizes_that_was_accepted_always_fits() {
    // Nothing is written before the queue refuses, and no segment is added: INV-LOG-6 is asserted in poll.
    for seed in 0..200u64 {
        let mut log = ready(LogConfig { in_flight_max: 1000, ..config() });
        let mut size = seed;
        loop {
            size = (size * 7 + 131) % 1900;
            if log.append(record(size as usize), Class::Vital).is_err() {
                break;
            }
        }
        let last = writes(&mut log).last().map(|write| write.last);
        assert_eq!(last, Some(log.appended()));
    }
}

#[test]
fn async_mode_counts_what_was_written_and_syncs_later() {
    let mut log = ready(LogConfig { sync: SyncMode::Async, unsynced_bytes_max: 1024, ..config() });
    let step = |log: &mut Log| {
        append(log, 10);
        let write = writes(log).remove(0);
        assert!(!write.sync);
        log.written(write.id);
    };
    step(&mut log);
    assert_eq!((log.durable(), log.synced_to()), (RecordId::new(1), 0));
    log.sync_soon();
    let effects = polled(&mut log);
    let [LogEffect::Sync { id, segments }] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(*segments, 0..=0);
    step(&mut log);
    log.synced(*id);
    assert_eq!(log.synced_to(), 512, "not what was written after the sync began");
    step(&mut log);
    assert_eq!(polled(&mut log), []);
    step(&mut log);
    assert!(matches!(polled(&mut log)[..], [LogEffect::Sync { .. }]), "over the limit: by itself");
}

#[test]
fn a_sync_covers_every_segment_that_was_written_to() {
    let mut log = ready(LogConfig { sync: SyncMode::Async, ..config() });
    fill(&mut log, Class::Vital);
    log.sync_soon();
    let effects = polled(&mut log);
    assert!(
        effects.iter().any(|e| matches!(e, LogEffect::Sync { segments, .. } if *segments == (0..=1))),
        "{effects:?}"
    );
}

#[test]
fn in_memory_everything_is_durable_at_once_and_nothing_is_written() {
    let mut log = Log::create(1, LogConfig { sync: SyncMode::Memory, ..config() });
    for number in 1..1000 {
        assert!(log.has_room());
        assert_eq!(append(&mut log, 1000), RecordId::new(number));
        assert_eq!(log.durable(), RecordId::new(number));
    }
    log.sync_soon();
    assert_eq!(polled(&mut log), []);
    assert_eq!(log.locate(RecordId::new(1)), None);
}

#[test]
fn a_record_is_found_once_it_is_written_and_until_it_is_trimmed() {
    let mut log = ready(config());
    let id = append(&mut log, 10);
    let write = writes(&mut log).remove(0);
    assert_eq!(log.locate(id), None, "not before its write completed");
    log.written(write.id);
    let extent = log.locate(id).unwrap();
    assert_eq!((extent.segment, extent.offset, extent.len, extent.position), (0, 64, 38, 64));
    let block = Bytes::from(write.data.concat());
    let bytes = block.slice(64..102);
    assert_eq!(extent.parse(&bytes, InstanceId::new(1)), Ok(record(10)));
    let corrupt = |result| matches!(result, Err(Halt::LogCorrupt { position: 64, .. }));
    assert!(corrupt(extent.parse(&bytes, InstanceId::new(2))), "another instance's record");
    assert!(corrupt(extent.parse(&block.slice(64..101), InstanceId::new(1))), "cut off");
    assert!(corrupt(extent.parse(&block.slice(64..103), InstanceId::new(1))), "more than it is");
    assert!(
        corrupt(Extent { id: RecordId::new(2), ..extent }.parse(&bytes, InstanceId::new(1))),
        "another record"
    );
    assert_eq!((log.locate(RecordId::ZERO), log.locate(RecordId::new(2))), (None, None));
}

#[test]
fn trim_keeps_the_record_asked_for_and_the_last_synced_block() {
    let mut log = ready(config());
    for segment in 2..5 {
        fill(&mut log, Class::Vital);
        for effect in polled(&mut log) {
            assert_eq!(
                effect,
                LogEffect::Prepare { segment },
                "asked for when segment {} began",
                segment - 1
            );
        }
        log.prepared(segment, Ok(()));
    }
    // Sixteen records fill a segment.
    fill(&mut log, Class::Vital);
    assert_eq!(log.appended(), RecordId::new(80));
    assert_eq!(log.trim(RecordId::new(16)), 0..0);
    assert_eq!(log.trim(RecordId::new(33)), 0..2);
    assert_eq!(log.first_record(), Some(RecordId::new(33)));
    assert_eq!((log.locate(RecordId::new(32)), log.locate(RecordId::new(33)).is_some()), (None, true));
    assert_eq!(log.trim(RecordId::new(5)), 2..2, "what is gone can not be kept");
    assert_eq!(log.trim(RecordId::new(1000)), 2..4, "the last synced block stays");
    log.invariants();
}

/// What makes a record superfluous may be lost with the machine, as long as it is not synced.
#[test]
fn trim_waits_for_a_sync_in_async_mode() {
    let mut log = ready(LogConfig { sync: SyncMode::Async, unsynced_bytes_max: 1 << 20, ..config() });
    for segment in 2..4 {
        fill(&mut log, Class::Vital);
        polled(&mut log);
        log.prepared(segment, Ok(()));
    }
    assert_eq!((log.durable(), log.synced_to()), (RecordId::new(48), 0));
    assert_eq!(log.trim(RecordId::new(20)), 0..0);
    let sync = |effects: Vec<LogEffect>| {
        let syncs = effects.into_iter().filter_map(|effect| match effect {
            LogEffect::Sync { id, segments } => Some((id, segments)),
            LogEffect::Write(_) | LogEffect::Prepare { .. } => None,
        });
        syncs.last().expect("it asks for a sync")
    };
    let (id, segments) = sync(polled(&mut log));
    assert_eq!(segments, 0..=2);
    log.prepared(4, Ok(()));
    append(&mut log, 10);
    let write = writes(&mut log).remove(0);
    log.written(write.id);
    log.synced(id);
    assert_eq!(log.trim(RecordId::new(33)), 0..1, "as much as was asked for when what is synced was written");
    assert_eq!(log.trim(RecordId::new(33)), 1..1);
    let (id, _) = sync(polled(&mut log));
    log.synced(id);
    assert_eq!(log.trim(RecordId::new(33)), 1..2);
    log.invariants();
}

/// A scrub is told what must be there, for segments to which nothing is written any more.
#[test]
fn only_full_and_synced_segments_are_sealed() {
    let mut log = ready(config());
    for segment in 2..4 {
        fill(&mut log, Class::Vital);
        polled(&mut log);
        log.prepared(segment, Ok(()));
    }
    append(&mut log, 10);
    let write = writes(&mut log).remove(0);
    let sealed = |log: &Log| -> Vec<Option<Range<u64>>> {
        let range = |range: Range<RecordId>| range.start.number()..range.end.number();
        (0..4).map(|segment| log.sealed_records(segment).map(range)).collect()
    };
    assert_eq!(sealed(&log), [Some(1..17), Some(17..33), Some(33..49), None]);
    log.written(write.id);
    assert_eq!(sealed(&log)[3], None, "it is being filled");
    assert_eq!((log.trim(RecordId::new(17)), log.first_segment()), (0..1, 1));
    assert_eq!(sealed(&log), [None, Some(17..33), Some(33..49), None]);
    assert_eq!(log.sealed_records(u64::MAX), None);
}

#[test]
fn sizes_that_can_not_work_are_refused() {
    assert_eq!(LogConfig::default().check(), Ok(()));
    let wrong: [fn(&mut LogConfig); 8] = [
        |c| c.segment_bytes = 1 << 19,
        |c| c.segment_bytes += 1,
        |c| c.segment_bytes = 2 << 30,
        |c| c.block_bytes_max = 100,
        |c| c.block_bytes_max = 16 << 20,
        |c| c.reserve_bytes = 20 << 20,
        |c| c.in_flight_max = 0,
        |c| c.segments_ahead = 0,
    ];
    for (number, change) in wrong.into_iter().enumerate() {
        let mut config = LogConfig::default();
        change(&mut config);
        assert!(config.check().is_err(), "{number}: {config:?}");
    }
}
