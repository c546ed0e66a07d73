//! Reads that wait, run, fail and are dropped.

use super::{Asked, ReadKey, ReadLimits, ReadPath};
use proptest::collection::vec;
use proptest::prelude::*;
use quorate_types::{ConnId, Seq, Span, Time};
use quorate_wire::{ReadConsistency, ReadRequest};
use std::collections::BTreeMap;

fn limits() -> ReadLimits {
    ReadLimits { reads_max: 100, bytes_max: 1000, patience: Span::from_nanos(50) }
}

fn at(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

fn seq(number: u64) -> Seq {
    Seq::new(number)
}

fn conn(number: u64) -> ConnId {
    ConnId::new(number)
}

fn strong(read: u64, query: &[u8]) -> ReadRequest<'_> {
    ReadRequest { read, seen: Seq::ZERO, consistency: ReadConsistency::Strong, query }
}

fn weak(read: u64, seen: u64, query: &[u8]) -> ReadRequest<'_> {
    ReadRequest { read, seen: seq(seen), consistency: ReadConsistency::Weak, query }
}

fn ready(path: &mut ReadPath, executed: u64) -> Vec<(u64, Vec<u8>)> {
    let mut ran = vec![];
    path.ready(seq(executed), |_| usize::MAX, |read| ran.push((read.key.read, read.query.to_vec())));
    path.invariants(true);
    ran
}

fn expired(path: &mut ReadPath, now: u64) -> Vec<u64> {
    let mut failed = vec![];
    path.expire(at(now), |key| failed.push(key.read));
    path.invariants(true);
    failed
}

/// A weak read runs at once when the state is as new as what its client saw, and otherwise when it is.
#[test]
fn a_weak_read_waits_for_what_its_client_saw() {
    let mut path = ReadPath::new(limits());
    assert_eq!(path.ask(at(0), seq(5), conn(1), &weak(1, 5, b"a")), Asked::Now);
    assert_eq!(path.ask(at(0), seq(5), conn(1), &weak(2, 8, b"b")), Asked::Waits);
    assert_eq!(path.ask(at(0), seq(5), conn(1), &weak(3, 6, b"c")), Asked::Waits);
    assert!(ready(&mut path, 5).is_empty());
    assert_eq!(ready(&mut path, 7), [(3, b"c".to_vec())]);
    assert_eq!(ready(&mut path, 8), [(2, b"b".to_vec())]);
    assert!(path.is_empty() && path.byte_len() == 0 && path.deadline().is_none());
}

/// Strong reads of one turn share a group. It runs once it is confirmed and the state has got there, not before.
#[test]
fn a_strong_read_waits_for_its_confirmed_seq() {
    let mut path = ReadPath::new(limits());
    assert_eq!(path.take_group(), None);
    assert_eq!(path.ask(at(0), seq(9), conn(1), &strong(1, b"a")), Asked::Waits);
    assert_eq!(path.ask(at(0), seq(9), conn(2), &strong(2, b"b")), Asked::Waits);
    let first = path.take_group().expect("two reads wait");
    assert_eq!(path.take_group(), None);
    assert_eq!(path.ask(at(1), seq(9), conn(1), &strong(3, b"c")), Asked::Waits);
    let second = path.take_group().expect("one read waits");
    assert!(ready(&mut path, 100).is_empty(), "nothing is confirmed");
    path.confirmed(second, seq(12));
    assert!(ready(&mut path, 11).is_empty());
    assert_eq!(ready(&mut path, 12), [(3, b"c".to_vec())]);
    path.confirmed(first, seq(10));
    path.confirmed(first, seq(99));
    assert_eq!(ready(&mut path, 12), [(1, b"a".to_vec()), (2, b"b".to_vec())], "the first word counts");
    path.confirmed(first, seq(10));
    assert!(ready(&mut path, 100).is_empty(), "a read runs once");
}

/// A strong read of a client that saw more than was confirmed waits for that, too.
#[test]
fn a_strong_read_is_no_older_than_what_its_client_saw() {
    let mut path = ReadPath::new(limits());
    let read = ReadRequest { seen: seq(20), ..strong(1, b"a") };
    assert_eq!(path.ask(at(0), seq(9), conn(1), &read), Asked::Waits);
    assert_eq!(path.ask(at(0), seq(9), conn(1), &strong(2, b"b")), Asked::Waits);
    let group = path.take_group().expect("two reads wait");
    path.confirmed(group, seq(10));
    assert_eq!(ready(&mut path, 10), [(2, b"b".to_vec())]);
    assert_eq!(path.deadline(), Some(at(50)));
    assert_eq!(ready(&mut path, 20), [(1, b"a".to_vec())]);
}

/// Patience ends for each read by itself, wherever it waits.
#[test]
fn reads_fail_when_their_patience_is_over() {
    let mut path = ReadPath::new(limits());
    assert_eq!(path.ask(at(0), seq(1), conn(1), &strong(1, b"a")), Asked::Waits);
    assert_eq!(path.ask(at(5), seq(1), conn(1), &strong(2, b"b")), Asked::Waits);
    let group = path.take_group().expect("two reads wait");
    assert_eq!(path.ask(at(7), seq(1), conn(1), &weak(3, 4, b"c")), Asked::Waits);
    assert_eq!(path.ask(at(9), seq(1), conn(1), &strong(4, b"d")), Asked::Waits);
    assert_eq!(path.deadline(), Some(at(50)));
    assert!(expired(&mut path, 49).is_empty());
    assert_eq!(expired(&mut path, 50), [1]);
    assert_eq!(path.deadline(), Some(at(55)));
    path.confirmed(group, seq(1));
    assert_eq!(ready(&mut path, 1), [(2, b"b".to_vec())], "the rest of the group goes on");
    assert_eq!(expired(&mut path, 59), [3, 4]);
    assert!(path.is_empty() && path.deadline().is_none());
    assert_eq!(path.take_group(), None, "what failed asks for no confirmation");
}

/// When nobody confirms, the group's reads are told; others are not touched.
#[test]
fn a_failed_group_ends() {
    let mut path = ReadPath::new(limits());
    let mut groups = vec![];
    for read in 1..4 {
        assert_eq!(path.ask(at(0), seq(1), conn(read), &strong(read, b"q")), Asked::Waits);
        groups.extend(path.take_group());
    }
    let mut failed = vec![];
    path.failed(groups[1], |key| failed.push(key));
    path.failed(groups[1], |key| failed.push(key));
    assert_eq!(failed, [ReadKey { conn: conn(2), read: 2 }]);
    groups.iter().for_each(|group| path.confirmed(*group, seq(1)));
    assert_eq!(ready(&mut path, 1).len(), 2);
}

/// Count and bytes are bounded; what is refused leaves no trace, and room comes back.
#[test]
fn waiting_reads_are_bounded() {
    let mut path = ReadPath::new(limits());
    assert_eq!(path.ask(at(0), seq(1), conn(1), &strong(1, &[0; 1001])), Asked::Overloaded);
    assert_eq!(path.ask(at(0), seq(1), conn(1), &strong(1, &[0; 600])), Asked::Waits);
    assert_eq!(path.ask(at(0), seq(1), conn(1), &weak(2, 9, &[0; 401])), Asked::Overloaded);
    assert_eq!(path.ask(at(0), seq(1), conn(1), &weak(2, 0, &[0; 401])), Asked::Now, "needs no room");
    let taken =
        (0..200).filter(|n| path.ask(at(0), seq(1), conn(1), &strong(*n, b"")) == Asked::Waits).count();
    assert_eq!((taken, path.len()), (99, 100));
    path.invariants(true);
    let group = path.take_group().expect("reads wait");
    path.confirmed(group, seq(1));
    assert_eq!(ready(&mut path, 1).len(), 100);
    assert_eq!(path.ask(at(0), seq(1), conn(1), &strong(1, &[0; 1000])), Asked::Waits);
}

/// Reads of a closed connection never run and are never answered; those of others are.
#[test]
fn a_closed_connection_is_not_answered() {
    let mut path = ReadPath::new(limits());
    for read in 0..6 {
        assert_eq!(path.ask(at(0), seq(1), conn(read % 2), &strong(read, b"q")), Asked::Waits);
        assert_eq!(path.ask(at(0), seq(1), conn(read % 2), &weak(read + 10, 2, b"q")), Asked::Waits);
    }
    path.drop_conn(conn(0));
    path.drop_conn(conn(7));
    let group = path.take_group().expect("reads wait");
    path.confirmed(group, seq(1));
    let ran: Vec<u64> = ready(&mut path, 1).iter().map(|(read, _)| *read).collect();
    assert_eq!(ran, [1, 3, 5]);
    assert_eq!(expired(&mut path, 50), [11, 13, 15]);
    assert!(path.is_empty() && path.conns.is_empty());
}

#[derive(Clone, Debug)]
enum Step {
    Strong { conn: u64, seen: u64 },
    Weak { conn: u64, seen: u64 },
    Take,
    Confirm { group: usize, ahead: u64 },
    Fail { group: usize },
    Execute(u64),
    Pass(u64),
    Close(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..3u64, 0..9u64).prop_map(|(conn, seen)| Step::Strong { conn, seen }),
        3 => (0..3u64, 0..9u64).prop_map(|(conn, seen)| Step::Weak { conn, seen }),
        3 => Just(Step::Take),
        3 => (0..4usize, 0..3u64).prop_map(|(group, ahead)| Step::Confirm { group, ahead }),
        1 => (0..4usize).prop_map(|group| Step::Fail { group }),
        3 => (0..3u64).prop_map(Step::Execute),
        2 => (0..30u64).prop_map(Step::Pass),
        1 => (0..3u64).prop_map(Step::Close),
    ]
}

/// What the test itself knows of a read: what it waits for, and until when.
#[derive(Clone, Debug)]
struct ExpectedRead {
    conn: u64,
    seen: u64,
    strong: bool,
    group: Option<u64>,
    deadline: u64,
}

/// What ran and what failed was still owed an answer, and what ran was not too early.
fn settle(
    open: &mut BTreeMap<u64, ExpectedRead>,
    confirmed: &BTreeMap<u64, u64>,
    executed: u64,
    ran: &[u64],
    failed: &[u64],
) -> Result<(), TestCaseError> {
    for read in ran {
        let known = open.remove(read).expect("it was asked, is not closed, and did not end before");
        prop_assert!(known.seen <= executed);
        if known.strong {
            let at = known.group.and_then(|group| confirmed.get(&group)).expect("it is confirmed");
            prop_assert!(*at <= executed);
        }
    }
    for read in failed {
        prop_assert!(open.remove(read).is_some(), "it was asked, is not closed, and did not end before");
    }
    Ok(())
}

proptest! {
    /// Whatever happens in whatever order: no read runs too early, none runs or fails twice, a closed connection's are never
    /// heard of again, and after its deadline none is left.
    #[test]
    fn reads_run_in_time_and_once(steps in vec(step(), 1..120)) {
        let mut path = ReadPath::new(ReadLimits { reads_max: 20, ..limits() });
        let (mut now, mut executed, mut next_read, mut next_conn) = (0, 0, 0, [0u64, 1, 2]);
        let mut open: BTreeMap<u64, ExpectedRead> = BTreeMap::new();
        let (mut groups, mut confirmed): (Vec<u64>, BTreeMap<u64, u64>) = (vec![], BTreeMap::new());
        for step in steps {
            let mut ran = vec![];
            let mut failed = vec![];
            match step {
                Step::Strong { conn: c, seen } | Step::Weak { conn: c, seen } => {
                    let is_strong = matches!(step, Step::Strong { .. });
                    let conn_id = next_conn[c as usize];
                    let consistency = if is_strong { ReadConsistency::Strong } else { ReadConsistency::Weak };
                    next_read += 1;
                    let request = ReadRequest { read: next_read, seen: seq(seen), consistency, query: b"q" };
                    match path.ask(at(now), seq(executed), conn(conn_id), &request) {
                        Asked::Now => prop_assert!(!is_strong && seen <= executed),
                        Asked::Overloaded => prop_assert_eq!(path.len(), 20),
                        Asked::Waits => {
                            let deadline = now + 50;
                            open.insert(next_read, ExpectedRead { conn: conn_id, seen, strong: is_strong, group: None, deadline });
                        }
                    }
                }
                Step::Take => if let Some(group) = path.take_group() {
                    groups.push(group);
                    open.values_mut().filter(|read| read.strong && read.group.is_none()).for_each(|read| read.group = Some(group));
                },
                Step::Confirm { group, ahead } => if let Some(group) = groups.iter().rev().nth(group) {
                    path.confirmed(*group, seq(executed + ahead));
                    confirmed.entry(*group).or_insert(executed + ahead);
                },
                Step::Fail { group } => if let Some(group) = groups.iter().rev().nth(group) {
                    path.failed(*group, |key| failed.push(key.read));
                    for read in &failed {
                        prop_assert_eq!(open[read].group, Some(*group));
                    }
                },
                Step::Execute(count) => {
                    executed += count;
                    path.ready(seq(executed), |_| usize::MAX, |read| ran.push(read.key.read));
                }
                Step::Pass(span) => {
                    now += span;
                    path.expire(at(now), |key| failed.push(key.read));
                    let due = open.iter().filter(|(_, known)| known.deadline <= now).map(|(read, _)| *read);
                    failed.sort_unstable();
                    prop_assert_eq!(&failed, &due.collect::<Vec<_>>());
                }
                Step::Close(c) => {
                    let gone = next_conn[c as usize];
                    path.drop_conn(conn(gone));
                    next_conn[c as usize] = gone + 3;
                    open.retain(|_, known| known.conn != gone);
                }
            }
            settle(&mut open, &confirmed, executed, &ran, &failed)?;
            path.invariants(true);
        }
        let mut left: Vec<u64> = vec![];
        path.expire(at(now + 50), |key| left.push(key.read));
        left.sort_unstable();
        prop_assert_eq!(left, open.keys().copied().collect::<Vec<_>>());
        prop_assert!(path.is_empty());
    }
}

#[test]
fn reads_that_run_together_are_shown_before() {
    let mut path = ReadPath::new(ReadLimits::default());
    let queries: Vec<String> = (0..5).map(|number| format!("query {number}")).collect();
    for (number, query) in (1..).zip(&queries) {
        assert_eq!(path.ask(at(1), seq(0), conn(1), &strong(number, query.as_bytes())), Asked::Waits);
    }
    let group = path.take_group().unwrap();
    path.confirmed(group, seq(1));
    let order = std::cell::RefCell::new(Vec::new());
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    path.ready(
        seq(1),
        |queries| {
            let window: Vec<String> = queries.take(2).map(text).collect();
            order.borrow_mut().push(format!("ahead of {}", window.join(" and ")));
            2
        },
        |read| order.borrow_mut().push(text(read.query)),
    );
    let expected = [
        "ahead of query 0 and query 1",
        "query 0",
        "query 1",
        "ahead of query 2 and query 3",
        "query 2",
        "query 3",
        "ahead of query 4",
        "query 4",
    ];
    assert_eq!(order.into_inner(), expected);
}
