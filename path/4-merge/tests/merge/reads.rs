//! Strong reads: where a read waits is compared with brute force over all small interleavings.
//!
//! A read comes when its instance has decided `p` records. What may have been executed anywhere by then is what the merge gives when
//! that instance stops there and all others have decided as much as one likes. A read that runs earlier misses some of it in some run;
//! one that runs later waits for nothing. Both directions are checked in every state.

use crate::common::{Logs, NOW, Naive, Rec, Replica, instance};
use quorate_merge::{ReadEnd, RecordIndex};
use quorate_types::InstanceId;

/// How far anybody can be when instance `at` has decided `records` records.
fn bound(window: u64, instances: u16, logs: &Logs, at: usize, records: usize) -> usize {
    let mut most = logs.clone();
    most[at].truncate(records);
    for (other, log) in most.iter_mut().enumerate().filter(|(other, _)| *other != at) {
        log.extend((0..8).map(|n| Rec::Work(1000 + 100 * other as u32 + n)));
    }
    Naive::of(window, instances, &most).log.len()
}

/// One kind of cluster: all its logs, and what a read through each instance waits for.
struct Case {
    logs: Logs,
    /// For each instance, by its decided records.
    bounds: Vec<Vec<usize>>,
    /// Instances that leave: what they answer may prove nothing.
    leaves: Vec<bool>,
    states: u64,
    ready: u64,
    refused: u64,
}

impl Case {
    fn new(window: u64, instances: u16, logs: Logs, leaves: Vec<bool>) -> Self {
        let of = |at: usize| (0..=logs[at].len()).map(move |p| (at, p)).collect::<Vec<_>>();
        let bounds = (0..logs.len())
            .map(|at| of(at).into_iter().map(|(at, p)| bound(window, instances, &logs, at, p)).collect())
            .collect();
        Self { logs, bounds, leaves, states: 0, ready: 0, refused: 0 }
    }

    /// All orders in which the rest may arrive; the read's answer may come at any moment.
    fn all_orders(&mut self, replica: &Replica, read: Option<(usize, usize)>) {
        if read.is_none() {
            for at in 0..replica.known() {
                for records in 0..=self.logs[at].len() {
                    let mut asked = replica.clone();
                    asked.merge.read_confirmed(7, instance(at), RecordIndex(records as u64));
                    if !self.ends(&mut asked, at, records) {
                        self.all_orders(&asked, Some((at, records)));
                    }
                }
            }
        }
        for at in 0..replica.known() {
            let mut further = replica.clone();
            if !further.give(&self.logs, at) {
                continue;
            }
            further.pull(usize::MAX);
            let ended = read.is_some_and(|(at, records)| self.ends(&mut further, at, records));
            if !ended {
                self.all_orders(&further, read);
            }
        }
    }

    /// Whether the read ends here, and whether it should.
    fn ends(&mut self, replica: &mut Replica, at: usize, records: usize) -> bool {
        self.states += 1;
        let mut end = None;
        replica.merge.reads(|read, how| assert!(read == 7 && end.replace(how).is_none()));
        let (delivered, bound) = (replica.log.len(), self.bounds[at][records]);
        // It must know the record that the leader named.
        let may = delivered >= bound && replica.given[at] >= records;
        match end {
            Some(ReadEnd::Ready) => {
                assert!(
                    delivered >= bound,
                    "a read through {at} after {records} runs at {delivered}, not {bound}"
                );
                self.ready += 1;
            }
            Some(ReadEnd::AskAnother) => {
                assert!(self.leaves[at], "instance {at} stays, and its word counts");
                self.refused += 1;
            }
            None => assert!(!may, "a read through {at} after {records} waits at {delivered}, for nothing"),
        }
        end.is_some()
    }
}

fn all_orders(window: u64, instances: u16, logs: Logs, leaves: Vec<bool>) -> Case {
    let mut case = Case::new(window, instances, logs, leaves);
    case.all_orders(&Replica::new(window, instances), None);
    assert!(case.ready > 0);
    case
}

/// Records for three slots, in all the ways that matter.
const SHAPES: [&[Rec]; 6] = [
    &[Rec::Work(1), Rec::Work(2), Rec::Work(3)],
    &[Rec::Noop(3)],
    &[Rec::Work(1), Rec::Noop(3)],
    &[Rec::Noop(2), Rec::Work(2)],
    &[Rec::Noop(1), Rec::Noop(1), Rec::Work(2)],
    &[Rec::Work(1), Rec::Noop(1), Rec::Noop(2)],
];

fn shape(at: usize, shape: usize) -> Vec<Rec> {
    let number = |record: &Rec| match record {
        Rec::Work(number) => Rec::Work(*number + 10 * at as u32),
        other => *other,
    };
    SHAPES[shape].iter().map(number).collect()
}

pub(crate) fn exhaustive() -> u64 {
    let mut states = 0;
    for a in 0..SHAPES.len() {
        states += all_orders(9, 1, vec![shape(0, a)], vec![false]).states;
        for b in 0..SHAPES.len() {
            states += all_orders(9, 2, vec![shape(0, a), shape(1, b)], vec![false; 2]).states;
        }
    }
    // With three instances, two records each.
    for kinds in 0..SHAPES.len().pow(3) {
        let kind = |at: usize| kinds / SHAPES.len().pow(at as u32) % SHAPES.len();
        let logs = (0..3).map(|at| shape(at, kind(at)).into_iter().take(2).collect());
        states += all_orders(9, 3, logs.collect(), vec![false; 3]).states;
    }
    states += all_orders(9, 3, (0..3).map(|at| shape(at, 0)).collect(), vec![false; 3]).states;
    let one = |at: usize| shape(at, [0, 1, 3, 0][at]).into_iter().take(1).collect();
    states += all_orders(9, 4, (0..4).map(one).collect(), vec![false; 4]).states;
    states
}

#[test]
fn a_read_waits_for_exactly_what_anybody_may_have_executed() {
    let states = exhaustive();
    assert!(states > 1_000_000, "all interleavings: {states}");
}

/// Across a border, with instances that stay, leave and come.
#[test]
fn reads_across_a_border_wait_for_the_same() {
    let work = |from: u32, count: u32| (from..from + count).map(Rec::Work);
    let with = |change: Rec, from: u32, count: u32| [change].into_iter().chain(work(from, count)).collect();
    // Slot 1 of instance 1 changes the number of instances; slot 3 is the last of the first generation.
    let fewer: Logs = vec![with(Rec::Change(1, 1), 2, 4), vec![Rec::Work(11), Rec::Noop(3)]];
    let case = all_orders(2, 2, fewer, vec![false, true]);
    assert!(case.refused > 0, "who has left proves nothing");
    let fewer: Logs =
        vec![with(Rec::Change(1, 2), 2, 3), vec![Rec::Noop(3), Rec::Work(11)], vec![Rec::Noop(3)]];
    assert!(all_orders(2, 3, fewer, vec![false, false, true]).refused > 0);
    let more: Logs = vec![with(Rec::Change(1, 2), 2, 4), work(11, 2).collect()];
    assert_eq!(all_orders(2, 1, more, vec![false; 2]).refused, 0);
    let first = vec![Rec::Change(1, 3), Rec::Noop(3), Rec::Work(2)];
    let more: Logs = vec![first, vec![Rec::Noop(3), Rec::Work(12)], vec![Rec::Noop(4)]];
    assert_eq!(all_orders(2, 2, more, vec![false; 3]).refused, 0);
}

/// The instance that the merge waits for answers for everything that is delivered: such a read never waits in a cluster at rest.
#[test]
fn a_cluster_at_rest_answers_through_the_next_instance() {
    for count in 1..=8 {
        let mut replica = Replica::new(9, count);
        for done in 0..usize::from(count) {
            let next = replica.merge.read_through(|_| true).expect("an instance");
            assert_eq!(next, instance(done));
            replica.merge.read_confirmed(1, next, RecordIndex(0));
            let mut ready = 0;
            replica.merge.reads(|_, end| ready += u32::from(end == ReadEnd::Ready));
            assert_eq!(ready, 1);
            let mut logs: Logs = vec![vec![]; usize::from(count)];
            logs[done] = vec![Rec::Work(done as u32)];
            replica.give(&logs, done);
            replica.pull(usize::MAX);
        }
    }
}

/// Through any other instance it asks for what is missing, from those who lack it, and no further.
#[test]
fn a_read_through_another_instance_asks_for_filling() {
    let mut replica = Replica::new(9, 4);
    let logs: Logs = vec![vec![Rec::Work(1)], vec![], vec![], vec![]];
    replica.give(&logs, 0);
    replica.pull(usize::MAX);
    replica.merge.asks(|_, _| panic!("nothing waits"));
    replica.merge.read_confirmed(1, instance(2), RecordIndex(0));
    replica.merge.reads(|_, _| panic!("instance 2 may have decided slot 1"));
    let mut asked = vec![];
    replica.merge.asks(|whom, place| asked.push((whom, place)));
    let place = quorate_merge::Place::new(1, 2);
    assert_eq!(asked, [(instance(1), place)]);
    replica.merge.asks(|_, _| panic!("it was asked"));
    // Its leader may have changed: then whoever leads now is asked.
    replica.merge.leader(instance(1), quorate_merge::Leader::Elsewhere);
    asked.clear();
    replica.merge.asks(|whom, place| asked.push((whom, place)));
    assert_eq!(asked, [(instance(1), place)]);
    let logs: Logs = vec![vec![Rec::Work(1)], vec![Rec::Noop(1)], vec![], vec![]];
    replica.give(&logs, 1);
    replica.pull(usize::MAX);
    let mut ends = vec![];
    replica.merge.reads(|read, end| ends.push((read, end)));
    assert_eq!(ends, [(1, ReadEnd::Ready)]);
    replica.merge.leader(instance(1), quorate_merge::Leader::Elsewhere);
    replica.merge.asks(|_, _| panic!("nothing waits any more"));
}

#[test]
fn a_read_that_nobody_waits_for_any_more_asks_for_nothing() {
    let mut replica = Replica::new(9, 2);
    replica.merge.read_confirmed(1, instance(1), RecordIndex(5));
    replica.merge.read_confirmed(2, InstanceId::new(3), RecordIndex(5));
    replica.merge.drop_read(1);
    let mut ends = vec![];
    replica.merge.reads(|read, end| ends.push((read, end)));
    assert_eq!(ends, [(2, ReadEnd::AskAnother)], "there is no third instance");
    replica.merge.asks(|_, _| panic!("nothing waits"));
    assert_eq!(replica.merge.next(NOW), None);
    assert_eq!(replica.merge.read_through(|instance| instance.number() == 2), Some(instance(1)));
    assert_eq!(replica.merge.read_through(|_| false), None);
}
