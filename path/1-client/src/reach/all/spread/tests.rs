//! Sending to all: who is passed over gets what it missed, in order.

use super::Spread;
use crate::effects::{CallId, SessionHandle};
use crate::parts::Parts;
use crate::step::tests::{Desk, ID, ONE, list};
use quorate_types::ReplicaId;

struct Bench {
    desk: Desk,
    parts: Parts,
    spread: Spread,
    next: u64,
}

impl Bench {
    /// Three members, and a session that is open.
    fn new() -> Self {
        let mut desk = Desk::new();
        desk.config.connection_bytes_max = 1000;
        let ids: Vec<ReplicaId> = (1..=3).map(ReplicaId::new).collect();
        let spread = Spread::new(&desk.config, &ids, ids.len());
        let mut parts = desk.parts(3, ONE);
        desk.open(&mut parts.sessions, 1, ID);
        desk.effects();
        Self { desk, parts, spread, next: 2 }
    }

    /// Asks this many calls of 300 bytes; the numbers that each member gets.
    fn ask(&mut self, calls: u64) -> Vec<Vec<u64>> {
        for _ in 0..calls {
            let (call, session) = (CallId(self.next), SessionHandle { index: 0, generation: 1 });
            self.parts.sessions.call(&mut self.desk.step(), call, session, list(&[7; 300]), None, 0);
            self.next += 1;
        }
        self.send(None)
    }

    fn send(&mut self, first: Option<usize>) -> Vec<Vec<u64>> {
        self.spread.send(&mut self.desk.step(), &mut self.parts, first);
        let sent = self.desk.requests(&self.parts.contacts);
        sent.into_iter().map(|got| got.into_iter().map(|(_, number, ..)| number).collect()).collect()
    }

    fn drained(&mut self, contact: usize) {
        let conn = self.parts.contacts.up(contact).expect("connected");
        self.parts.contacts.written(conn, usize::MAX);
    }
}

#[test]
fn all_get_the_same() {
    assert_eq!(Bench::new().ask(2), [[1, 2], [1, 2], [1, 2]]);
}

#[test]
fn who_takes_nothing_holds_nobody_up_and_catches_up_in_order() {
    let mut bench = Bench::new();
    for number in 1..=6 {
        let got = bench.ask(1);
        assert_eq!((&got[0], &got[1]), (&vec![number], &vec![number]));
        (0..2).for_each(|contact| bench.drained(contact));
    }
    bench.drained(2);
    let mut caught = Vec::new();
    for _ in 0..4 {
        let got = bench.send(None);
        assert!(got[0].is_empty() && got[1].is_empty(), "it alone gets what it missed");
        caught.extend(&got[2]);
        bench.drained(2);
    }
    let first = caught.first().copied().expect("it missed something");
    assert_eq!(caught, (first..=6).collect::<Vec<_>>());
    assert_eq!(bench.ask(1), [[7], [7], [7]]);
}

#[test]
fn who_was_not_there_gets_everything_under_way() {
    let mut bench = Bench::new();
    bench.parts.lost(&mut bench.desk.step(), None, 1, "cut".into());
    bench.spread.lost(1);
    assert_eq!(bench.ask(2), [vec![1, 2], vec![], vec![1, 2]]);
    bench.desk.later(5000);
    bench.desk.connect(&mut bench.parts.contacts, 1);
    bench.spread.joined(&mut bench.parts.sessions, 1);
    bench.desk.effects();
    assert_eq!(bench.send(None), [vec![], vec![1, 2], vec![]]);
}

#[test]
fn what_only_the_leader_got_is_told_to_all() {
    let mut bench = Bench::new();
    assert_eq!(bench.ask(1), [[1], [1], [1]], "who never met the session gets one of it");
    let session = SessionHandle { index: 0, generation: 1 };
    let step = &mut bench.desk.step();
    bench.parts.sessions.call(step, CallId(50), session, list(b"x"), None, 0);
    assert_eq!(bench.send(Some(2)), [vec![], vec![], vec![2]]);
    bench.spread.tell_all(&mut bench.parts, 0, Some(2));
    assert_eq!(bench.send(Some(2)), [vec![2], vec![2], vec![]]);
    bench.spread.tell_all(&mut bench.parts, 0, Some(2));
    assert_eq!(bench.send(Some(2)), [[0; 0], [0; 0], [0; 0]], "once");
}
