//! The journal alone: records without room, durable records of each instance, records that are read back, and the disk.

use super::*;
use quorate_log::LogConfig;
use quorate_types::Seq;

const STALL: Span = Span::from_millis(1000);

fn at(millis: u64) -> Time {
    Time::ZERO.plus(Span::from_millis(millis))
}

/// A journal whose segments are ready as soon as they are asked for, unless its disk is full.
struct Host {
    journal: Journal,
    full: bool,
    events: Vec<Event>,
}

impl Host {
    fn new(sync: SyncMode, volumes: Volumes) -> Self {
        let config = LogConfig {
            segment_bytes: 8192,
            block_bytes_max: 2048,
            reserve_bytes: 1024,
            ..LogConfig::default()
        };
        let log = Log::create(1, LogConfig { sync, ..config });
        Self { journal: Journal::new(log, sync, STALL, volumes), full: false, events: Vec::new() }
    }

    /// Ends turns until the disk has nothing to do; `writes`: whether the disk finishes its writes.
    fn run(&mut self, now: Time, writes: bool) {
        loop {
            let mut out = Effects::new();
            self.journal.end_turn(now, &mut out);
            let effects: Vec<Effect> = out.drain().collect();
            let mut any = false;
            for effect in effects {
                any = true;
                let mut out = Effects::new();
                match effect {
                    Effect::Disk(LogEffect::Prepare { segment }) => {
                        let result = if self.full { Err(DiskFull) } else { Ok(()) };
                        self.journal.prepared(now, segment, result, &mut out);
                    }
                    Effect::Disk(LogEffect::Write(write)) if writes => {
                        self.journal.written(now, write.id, &mut out);
                    }
                    Effect::Disk(LogEffect::Sync { id, .. }) if writes => self.journal.synced(id),
                    _ => {}
                }
                self.take(out);
            }
            if !any {
                return;
            }
        }
    }

    fn take(&mut self, mut out: Effects) {
        self.events.extend(out.drain().filter_map(|effect| match effect {
            Effect::Event(event) => Some(event),
            _ => None,
        }));
    }

    fn persist(&mut self, volume: VolumeId, own: u64, bytes: usize) {
        let record = Stored { kind: 1, head: Bytes::from_static(b"head"), payload: vec![7; bytes].into() };
        let mut out = Effects::new();
        let instance = InstanceId::new(1);
        self.journal.persist((volume, RecordId::new(own)), instance, record, false, &mut out);
        self.take(out);
    }
}

/// Two instances; gives the volume of the second.
fn two() -> (Host, VolumeId, VolumeId) {
    let mut volumes = Volumes::default();
    let (one, two) = (volumes.open(InstanceId::new(1)), volumes.open(InstanceId::new(2)));
    let mut host = Host::new(SyncMode::Group, volumes);
    host.run(at(0), true);
    (host, one, two)
}

#[test]
fn each_instance_hears_of_its_own_records_once_they_are_durable() {
    let (mut host, one, two) = two();
    host.persist(one, 1, 10);
    host.persist(two, 1, 10);
    host.persist(one, 2, 10);
    assert_eq!(host.journal.newly_durable(one), None, "nothing was written yet");
    host.run(at(1), true);
    assert_eq!(host.journal.newly_durable(one), Some(RecordId::new(2)));
    assert_eq!(host.journal.newly_durable(one), None, "that is no news any more");
    assert_eq!(
        (host.journal.durable(two), host.journal.locate(two, RecordId::new(1))),
        (RecordId::new(1), Some(RecordId::new(2)))
    );
    host.journal.retain_volumes(|volume| volume == two);
    assert_eq!(host.journal.newly_durable(one), None, "its stay is over");
    host.journal.invariants();
}

#[test]
fn what_finds_no_room_is_written_when_there_is_some_and_in_order() {
    let (mut host, one, _) = two();
    host.full = true;
    for own in 1..=20 {
        host.persist(one, own, 1500);
    }
    host.run(at(1), true);
    let some = host.journal.durable(one);
    assert!(some < RecordId::new(20), "{some:?} of 20 found room");
    assert_eq!(host.events, [Event::DiskFull]);
    assert!(host.journal.disk().is_full() && !host.journal.fits(one, true, || vec![10]));
    assert!(host.journal.fits(one, true, Vec::new), "what brings no batch passes");
    let retry = host.journal.deadline().expect("room is looked for");
    host.full = false;
    host.journal.on_deadline(retry);
    host.run(retry, true);
    assert_eq!(host.journal.durable(one), RecordId::new(20));
    assert_eq!(host.events, [Event::DiskFull, Event::DiskHasRoom]);
}

#[test]
fn an_instance_that_went_writes_nothing_any_more() {
    let (mut host, one, two) = two();
    host.full = true;
    for own in 1..=20 {
        host.persist(one, own, 1500);
    }
    host.run(at(1), true);
    let before = host.journal.durable(one);
    host.journal.leave(one);
    host.full = false;
    host.journal.on_deadline(at(5000));
    host.run(at(5000), true);
    assert_eq!(host.journal.durable(one), before);
    host.persist(two, 1, 10);
    host.run(at(5001), true);
    assert_eq!(host.journal.durable(two), RecordId::new(1), "the others go on");
}

#[test]
fn a_disk_that_finishes_nothing_is_told_of_once() {
    let (mut host, one, _) = two();
    host.persist(one, 1, 10);
    host.run(at(10), false);
    assert_eq!(host.journal.disk().stalls_at(), Some(at(10).plus(STALL)));
    let mut out = Effects::new();
    assert!(!host.journal.stalls(at(1009), &mut out) && host.journal.stalls(at(1010), &mut out));
    assert!(!host.journal.stalls(at(1011), &mut out) && host.journal.disk().is_stalled());
    host.take(out);
    assert_eq!(host.events, [Event::DiskStalls]);
}

/// Records come back as they were persisted, once for each question, and never for a stay that is over.
#[test]
fn what_is_read_back_is_given_to_who_asked() {
    let (mut host, one, two) = two();
    host.persist(one, 1, 100);
    host.persist(one, 2, 200);
    let mut block = Vec::new();
    let mut out = Effects::new();
    host.journal.end_turn(at(1), &mut out);
    for effect in out.drain() {
        if let Effect::Disk(LogEffect::Write(write)) = effect {
            block.push((write.offset, Bytes::from(write.data.concat()), write.segment));
            host.journal.written(at(1), write.id, &mut Effects::new());
        }
    }
    let read = |extents: &[Extent]| -> Vec<Bytes> {
        let of = |extent: &Extent| {
            let (start, bytes, _) = block
                .iter()
                .find(|(start, bytes, segment)| {
                    extent.segment == *segment
                        && extent.offset >= *start
                        && extent.offset + u64::from(extent.len) <= start + bytes.len() as u64
                })
                .expect("it was written");
            let from = (extent.offset - start) as usize;
            bytes.slice(from..from + extent.len as usize)
        };
        extents.iter().map(of).collect()
    };
    let ask = |journal: &mut Journal, load| {
        let mut out = Effects::new();
        journal.load(one, load, &[RecordId::new(2), RecordId::new(1)], &mut out);
        match out.drain().next() {
            Some(Effect::Load { load, extents }) => (load, extents),
            other => panic!("{other:?}"),
        }
    };
    let (question, extents) = ask(&mut host.journal, 7);
    let loaded = host.journal.loaded(question, &read(&extents)).expect("somebody waits").expect("as written");
    assert_eq!((loaded.volume, loaded.load), (one, 7));
    assert_eq!(loaded.records.iter().map(|record| record.payload.len()).collect::<Vec<_>>(), [200, 100]);
    assert!(host.journal.loaded(question, &read(&extents)).is_none(), "once");
    let (question, extents) = ask(&mut host.journal, 8);
    host.journal.retain_volumes(|volume| volume == two);
    assert!(host.journal.loaded(question, &read(&extents)).is_none(), "its stay is over");
}

fn life() -> Record {
    Record {
        instance: crate::journal::NODE,
        kind: 1,
        head: Bytes::from_static(b"life"),
        payload: Bytes::new(),
    }
}

/// A segment is removed once no instance needs a record in it and the node's own records are durable again.
#[test]
fn the_beginning_goes_when_what_counts_of_it_is_durable_again() {
    let (mut host, one, two) = two();
    for own in 1..=20 {
        host.persist(one, own, 1500);
        host.run(at(own), true);
    }
    host.persist(two, 1, 10);
    host.run(at(30), true);
    assert!(host.journal.begin_trim(Seq::new(9), vec![life()]));
    let none: [(VolumeId, RecordId); 0] = [];
    assert_eq!(host.journal.go_on_trimming(none.into_iter(), None), None, "the life is not durable again");
    host.run(at(31), true);
    let all = [(one, RecordId::new(2)), (two, RecordId::new(1))];
    assert_eq!(host.journal.go_on_trimming(all.into_iter(), None), None, "its second record is needed");
    let most = [(one, RecordId::new(19)), (two, RecordId::new(1))];
    let gone = host.journal.go_on_trimming(most.into_iter(), None).expect("what is before goes");
    assert_eq!((gone.start, host.journal.log().first_segment()), (0, gone.end));
    assert!(
        host.journal.locate(one, RecordId::new(1)).is_none()
            && host.journal.locate(one, RecordId::new(19)).is_some()
    );
    host.journal.invariants();
}

#[test]
fn without_room_nothing_is_trimmed() {
    let (mut host, one, _) = two();
    host.full = true;
    for own in 1..=20 {
        host.persist(one, own, 1500);
    }
    host.run(at(1), true);
    let lives = vec![life(); 4096];
    assert!(!host.journal.begin_trim(Seq::new(9), lives), "they do not all fit");
    assert_eq!(host.journal.go_on_trimming([(one, RecordId::new(1))].into_iter(), None), None);
}
