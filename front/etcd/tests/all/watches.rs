//! What watches get at a replica that lags, jumps to a checkpoint, is repaired, or has no room: each event once, in order, none from
//! before the watch began, and none late.

use crate::support::{self, PutReq, ROOM, Subject};
use quorate_etcd::proto::Fields;
use quorate_etcd::{
    Etcd, EtcdConfig, EtcdError, EventsPage, LiveEvents, Observer, Query, Wants, WatchName, WatchOutput,
    WatchSpec, Watches,
};
use quorate_execute::{Service as _, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// What was executed and not handed on yet, and what is wanted.
#[derive(Clone, Default)]
struct Queue(Arc<Mutex<(Wants, Vec<LiveEvents>)>>);

impl Observer for Queue {
    fn wants(&self) -> Wants {
        self.0.lock().expect("not poisoned").0
    }
    fn executed(&mut self, events: LiveEvents) {
        self.0.lock().expect("not poisoned").1.push(events);
    }
}

/// A replica and its watches.
struct Replica {
    subject: Subject,
    queue: Queue,
    watches: Watches,
    /// Revisions of the events that each watch got.
    got: BTreeMap<WatchName, Vec<i64>>,
    compacted: BTreeSet<WatchName>,
    progress: Vec<(WatchName, i64)>,
    /// Nothing that is offered finds room.
    is_full: bool,
    /// Reads that nobody answers yet, if they are kept.
    kept: Option<Vec<WatchOutput>>,
}

impl Replica {
    fn new() -> Self {
        let queue = Queue::default();
        let etcd = Etcd::new(EtcdConfig::default()).observed(queue.clone());
        Self {
            subject: Subject::with(etcd),
            queue,
            watches: Watches::new(),
            got: BTreeMap::new(),
            compacted: BTreeSet::new(),
            progress: Vec::new(),
            is_full: false,
            kept: None,
        }
    }

    /// Puts until the store is at this revision.
    fn put_to(&mut self, revision: i64) -> &mut Self {
        while self.revision() < revision {
            self.subject.put(&PutReq::new(b"a", b"")).expect("done");
        }
        self
    }

    fn revision(&self) -> i64 {
        self.subject.ask(&Query::Size, ROOM).expect("an answer").0
    }

    /// The state of another replica takes the place of this one's.
    fn install(&mut self, other: &Self) {
        let objects = other.subject.service.objects().version();
        *self.subject.service.store_mut().expect("it has one") = Store::from_version(&objects);
        self.subject.service.restored();
        self.subject.tell();
    }

    fn watch(&mut self, name: WatchName, from: i64, shown: i64) {
        self.watch_as(name, WatchSpec { key: b"a".to_vec(), ..WatchSpec::default() }, from, shown);
    }

    fn watch_as(&mut self, name: WatchName, spec: WatchSpec, from: i64, shown: i64) {
        let mut out = vec![];
        self.watches.create(name, spec, shown);
        self.queue.0.lock().expect("not poisoned").0 = self.watches.wants();
        self.watches.begin(name, from, self.revision(), &mut out);
        self.perform(out);
    }

    /// Hands on what was executed.
    fn settle(&mut self) {
        let told = std::mem::take(&mut self.queue.0.lock().expect("not poisoned").1);
        for events in told {
            let mut out = vec![];
            self.watches.executed(Arc::new(events), &mut out);
            self.perform(out);
        }
    }

    fn ask_progress(&mut self, stream: u64) {
        let mut out = vec![];
        self.watches.progress(stream, self.revision(), &mut out);
        self.perform(out);
    }

    fn perform(&mut self, mut todo: Vec<WatchOutput>) {
        while !todo.is_empty() {
            for output in std::mem::take(&mut todo) {
                self.perform_one(output, &mut todo);
            }
        }
        self.watches.settled(&mut todo);
        todo.into_iter().for_each(|output| self.perform_one(output, &mut vec![]));
    }

    fn perform_one(&mut self, output: WatchOutput, out: &mut Vec<WatchOutput>) {
        match output {
            WatchOutput::Offer { name, from, .. } if self.is_full => self.watches.no_room(name, from, out),
            WatchOutput::Offer { name, events, .. } => self.take(name, &events),
            WatchOutput::Send { name, turn, events, .. } => {
                self.take(name, &events);
                self.watches.sent(name, turn, out);
            }
            WatchOutput::Read { .. } if self.kept.is_some() => {
                self.kept.iter_mut().for_each(|kept| kept.push(output.clone()))
            }
            WatchOutput::Read { name, turn, revision, sub } => {
                let spec = WatchSpec { key: b"a".to_vec(), ..WatchSpec::default() };
                match self.subject.ask(&Query::Events(spec.query(revision, sub)), 2000) {
                    Ok((newest, body)) => {
                        let page = EventsPage::decode(newest, &body).expect("a page");
                        self.watches.answered(name, turn, &page, out);
                    }
                    Err(EtcdError::Compacted) => self.watches.compacted(name, turn, out),
                    Err(error) => panic!("{error}"),
                }
            }
            WatchOutput::Compacted { name } => _ = self.compacted.insert(name),
            WatchOutput::Progress { name, revision } => self.progress.push((name, revision)),
        }
    }

    /// The reads that were kept are answered.
    fn answer(&mut self) {
        let kept = self.kept.take().unwrap_or_default();
        self.perform(kept);
    }

    fn take(&mut self, name: WatchName, events: &[u8]) {
        for field in Fields::of(events) {
            let (_, value) = field.expect("a field");
            let (_, entry, _) = support::event(value.bytes().expect("an event"));
            self.got.entry(name).or_default().push(entry.modified);
        }
    }

    fn got(&self, name: WatchName) -> Vec<i64> {
        self.got.get(&name).cloned().unwrap_or_default()
    }
}

const ONE: WatchName = (1, 0);
const TWO: WatchName = (1, 1);

#[test]
fn a_watch_that_begins_behind_a_jump_sees_nothing_of_what_was_jumped_over() {
    for compact in [false, true] {
        let (mut ahead, mut lags) = (Replica::new(), Replica::new());
        ahead.put_to(461);
        if compact {
            ahead.subject.compact(400).expect("done");
        }
        // Its client was told of revision 461 by another replica.
        lags.put_to(94).watch(ONE, 462, 461);
        lags.install(&ahead);
        lags.settle();
        assert!(lags.got(ONE).is_empty() && lags.compacted.is_empty());
        lags.put_to(463).settle();
        assert_eq!(lags.got(ONE), [462, 463]);
    }
}

#[test]
fn what_was_dropped_on_the_way_shows_nothing_from_before_a_watch_began() {
    let mut replica = Replica::new();
    replica.put_to(10).watch(ONE, 20, 19);
    replica.put_to(15);
    replica.queue.0.lock().expect("not poisoned").1.clear();
    replica.put_to(22).settle();
    assert_eq!(replica.got(ONE), [20, 21, 22]);
}

#[test]
fn what_a_checkpoint_jumped_over_is_seen_at_once() {
    let (mut ahead, mut lags) = (Replica::new(), Replica::new());
    ahead.put_to(200);
    lags.put_to(94).watch(ONE, 90, 94);
    lags.watch(TWO, 95, 94);
    lags.put_to(96).settle();
    lags.install(&ahead);
    // Nothing is written any more.
    lags.settle();
    assert_eq!(lags.got(ONE), (90..=200).collect::<Vec<_>>());
    assert_eq!(lags.got(TWO), (95..=200).collect::<Vec<_>>());
}

#[test]
fn a_watch_that_lacks_what_is_compacted_ends() {
    let (mut ahead, mut lags) = (Replica::new(), Replica::new());
    ahead.put_to(200).subject.compact(150).expect("done");
    lags.put_to(94).watch(ONE, 95, 94);
    lags.watch(TWO, 150, 149);
    lags.install(&ahead);
    lags.settle();
    assert_eq!(lags.compacted, BTreeSet::from([ONE]));
    assert_eq!(lags.got(TWO), (150..=200).collect::<Vec<_>>());
}

#[test]
fn a_repair_that_leads_back_repeats_nothing_and_misses_nothing_later() {
    let (mut right, mut wrong) = (Replica::new(), Replica::new());
    right.put_to(15);
    wrong.put_to(10).watch(ONE, 11, 10);
    wrong.put_to(20).settle();
    wrong.install(&right);
    wrong.watch(TWO, 16, 15);
    wrong.settle();
    wrong.put_to(18).settle();
    wrong.put_to(23).settle();
    assert_eq!(wrong.got(ONE), (11..=23).collect::<Vec<_>>());
    assert_eq!(wrong.got(TWO), (16..=23).collect::<Vec<_>>());
}

#[test]
fn without_room_or_answers_nothing_is_lost_or_repeated() {
    let (mut ahead, mut lags) = (Replica::new(), Replica::new());
    ahead.put_to(300);
    lags.put_to(50).watch(ONE, 40, 50);
    lags.is_full = true;
    lags.kept = Some(vec![]);
    lags.put_to(60).settle();
    lags.install(&ahead);
    lags.settle();
    lags.answer();
    lags.is_full = false;
    lags.put_to(301).settle();
    assert_eq!(lags.got(ONE), (40..=301).collect::<Vec<_>>());
}

#[test]
fn progress_never_goes_back_behind_what_the_client_was_told() {
    let mut replica = Replica::new();
    replica.put_to(10).watch(ONE, 21, 20);
    replica.ask_progress(1);
    replica.put_to(19).settle();
    assert!(replica.progress.is_empty());
    replica.put_to(20).settle();
    assert_eq!(replica.progress, [((1, -1), 20)]);
}
