//! What an observer sees is what a watch of the past would see.

use crate::support::{self, DeleteReq, Event, OpReq, PutReq, ROOM, RangeReq, Subject, TxnReq};
use quorate_etcd::{Command, Etcd, EtcdConfig, EventsQuery, LiveEvents, Observer, Wants};
use quorate_types::Span;
use std::sync::{Arc, Mutex};

/// Keeps what it was told.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<(Wants, Vec<LiveEvents>)>>);

impl Observer for Notes {
    fn wants(&self) -> Wants {
        self.0.lock().expect("not poisoned").0
    }
    fn executed(&mut self, events: LiveEvents) {
        self.0.lock().expect("not poisoned").1.push(events);
    }
}

impl Notes {
    fn set(&self, wants: Wants) {
        self.0.lock().expect("not poisoned").0 = wants;
    }
    fn take(&self) -> Vec<LiveEvents> {
        std::mem::take(&mut self.0.lock().expect("not poisoned").1)
    }
}

fn busy(subject: &mut Subject) {
    subject.put(&PutReq::new(b"a", b"1")).expect("done");
    subject.put(&PutReq::new(b"a", b"2")).expect("done");
    let delete = DeleteReq { key: b"a".to_vec(), ..DeleteReq::default() };
    let txn = TxnReq {
        success: vec![
            OpReq::Delete(delete),
            OpReq::Put(PutReq::new(b"b", b"3")),
            OpReq::Put(PutReq::new(b"c", b"")),
        ],
        ..TxnReq::default()
    };
    subject.txn(&txn).expect("done");
    subject
        .run(Command::LeaseGrant, |out| {
            quorate_etcd::proto::int_field(out, 1, 5);
            quorate_etcd::proto::int_field(out, 2, 1);
        })
        .expect("granted");
    subject.put(&PutReq { lease: 1, ..PutReq::new(b"d", b"") }).expect("done");
    subject.pass(Span::from_secs(6), 1);
}

fn live(notes: &[LiveEvents], with_before: bool) -> Vec<Event> {
    let mut all = vec![];
    for events in notes {
        for event in events.iter() {
            let mut message = vec![];
            event.write(with_before, &mut message);
            let shown = support::event(&message);
            assert_eq!((event.revision, event.key), (shown.1.modified, shown.1.key.as_slice()));
            assert!(event.revision > events.before && event.revision <= events.revision);
            all.push(shown);
        }
    }
    all
}

#[test]
fn live_events_are_those_of_the_past() {
    for wants in [Wants::Events, Wants::EventsAndBefore] {
        let notes = Notes::default();
        notes.set(wants);
        let mut subject = Subject::with(Etcd::new(EtcdConfig::default()).observed(notes.clone()));
        busy(&mut subject);
        let prev_kv = wants == Wants::EventsAndBefore;
        let query =
            EventsQuery { revision: 1, key: &[0], range_end: &[0], prev_kv, ..EventsQuery::default() };
        let told = notes.take();
        assert_eq!(live(&told, prev_kv), subject.events(&query, ROOM).expect("there"));
        assert_eq!(live(&told, prev_kv).len(), 7);
        // Each goes on where the one before ended.
        assert!(told.windows(2).all(|pair| pair[0].revision == pair[1].before));
    }
}

#[test]
fn whoever_wants_nothing_gets_the_numbers() {
    let notes = Notes::default();
    let mut subject = Subject::with(Etcd::new(EtcdConfig::default()).observed(notes.clone()));
    busy(&mut subject);
    subject.compact(3).expect("done");
    let told = notes.take();
    assert!(told.iter().all(|events| events.iter().next().is_none() && events.wants == Wants::Nothing));
    let last = told.last().expect("it was told");
    assert_eq!((last.revision, last.compacted), (6, 3));
}

#[test]
fn what_was_undone_is_not_seen() {
    let notes = Notes::default();
    notes.set(Wants::EventsAndBefore);
    let mut subject = Subject::with(Etcd::new(EtcdConfig::default()).observed(notes.clone()));
    subject.put(&PutReq::new(b"a", &[0; 1000])).expect("done");
    let range = RangeReq { key: b"a".to_vec(), ..RangeReq::default() };
    let txn = TxnReq {
        success: vec![OpReq::Put(PutReq::new(b"b", b"")), OpReq::Range(range)],
        ..TxnReq::default()
    };
    let mut command = vec![Command::Txn as u8];
    txn.encode(&mut command);
    subject.raw(&command, 700);
    subject.put(&PutReq::new(b"c", b"")).expect("done");
    let keys: Vec<Vec<u8>> = live(&notes.take(), true).into_iter().map(|event| event.1.key).collect();
    assert_eq!(keys, [b"a".to_vec(), b"c".to_vec()]);
}
