//! The reach to all alone: to whom requests go, and how many answers it takes.

use super::ToAll;
use crate::effects::{CallId, Completion, SessionHandle};
use crate::error::Error;
use crate::parts::Parts;
use crate::reach::Reach;
use crate::step::tests::{Desk, Got, ID, list};
use bytes::Bytes;
use quorate_types::{FaultModel, ReplicaId, RequestNumber, SessionId, View};
use quorate_wire::{Reply, ReplyStatus};

struct Bench {
    desk: Desk,
    parts: Parts,
    reach: ToAll,
    session: SessionHandle,
}

impl Bench {
    /// Four members, two of which are needed, and an open session.
    fn new() -> Self {
        let mut desk = Desk::new();
        desk.config.faults = FaultModel::Byzantine.into();
        let ids: Vec<ReplicaId> = (1..=4).map(ReplicaId::new).collect();
        let reach = ToAll::new(&desk.config, &ids, ids.len());
        let parts = desk.parts(4, reach.rules());
        let session = SessionHandle { index: 0, generation: 1 };
        let mut bench = Self { desk, parts, reach, session };
        bench.parts.sessions.open(&mut bench.desk.step(), CallId(1), None);
        let sent = bench.send();
        assert!(sent.iter().all(|got| *got == sent[0]), "an opening goes to all");
        let nonce = sent[0][0].1;
        assert!(bench.say(0, nonce, ReplyStatus::SessionOpened, b""));
        assert_eq!(bench.desk.ended(), [], "one may lie");
        assert!(bench.say(3, nonce, ReplyStatus::SessionOpened, b""));
        assert_eq!(bench.desk.ended(), [(1, Ok(Completion::Opened(session, ID)))]);
        bench
    }

    fn send(&mut self) -> Vec<Vec<Got>> {
        self.reach.send(&mut self.desk.step(), &mut self.parts);
        self.desk.requests(&self.parts.contacts)
    }

    fn call(&mut self, call: u64) -> Vec<Vec<Got>> {
        let others = self.parts.reads.queued();
        let (call, step) = (CallId(call), &mut self.desk.step());
        self.parts.sessions.call(step, call, self.session, list(b"x"), None, others);
        self.send()
    }

    fn say_of(
        &mut self,
        from: usize,
        session: SessionId,
        number: u64,
        status: ReplyStatus,
        body: &[u8],
    ) -> bool {
        let (number, payload) = (RequestNumber::new(number), Bytes::copy_from_slice(body));
        let reply = Reply { session, number, status, body: &payload };
        self.reach.reply(&mut self.desk.step(), &mut self.parts, from, &reply, &payload)
    }

    fn say(&mut self, from: usize, number: u64, status: ReplyStatus, body: &[u8]) -> bool {
        self.say_of(from, ID, number, status, body)
    }
}

#[test]
fn an_answer_is_true_when_enough_gave_it() {
    let mut bench = Bench::new();
    let sent = bench.call(2);
    assert!(sent.iter().all(|got| got.len() == 1 && *got == sent[0]), "the same bytes to all");
    assert!(bench.say(0, 1, ReplyStatus::Done, &list(b"lie")));
    assert!(bench.say(1, 1, ReplyStatus::Done, &list(b"r")));
    assert!(!bench.say(0, 1, ReplyStatus::Done, &list(b"r")), "it said something else");
    assert_eq!((bench.desk.ended(), bench.parts.stats.contradictions), (vec![], 1));
    assert!(bench.say(2, 1, ReplyStatus::Done, &list(b"r")));
    assert_eq!(bench.desk.ended(), [(2, Ok(Completion::Replies(list(b"r"))))]);
    assert!(bench.say(3, 1, ReplyStatus::Done, &list(b"r")), "others answered faster");
    bench.parts.sessions.check(8);
}

#[test]
fn a_session_ends_when_enough_say_so() {
    let mut bench = Bench::new();
    bench.call(2);
    assert!(bench.say(0, 1, ReplyStatus::SessionExpired, b""));
    assert!(bench.say(0, 1, ReplyStatus::SessionExpired, b""), "one member's word, however often");
    assert_eq!(bench.desk.ended(), []);
    assert!(bench.say(1, 1, ReplyStatus::SessionExpired, b""));
    assert_eq!(bench.desk.ended(), [(2, Err(Error::SessionExpired { outcome_unknown: true }))]);
}

#[test]
fn positions_count_when_enough_reached_them() {
    let mut bench = Bench::new();
    let newest = |bench: &mut Bench, from, seq| {
        assert!(bench.say_of(from, SessionId::NONE, seq, ReplyStatus::Position, b""));
        bench.parts.reads.newest().number()
    };
    assert_eq!(newest(&mut bench, 0, 1 << 40), 0);
    assert_eq!(newest(&mut bench, 1, 6), 6);
    assert_eq!(newest(&mut bench, 2, 9), 9);
    assert_eq!(newest(&mut bench, 1, 4), 9, "it does not go back");
}

#[test]
fn the_leader_is_whom_enough_name() {
    let mut bench = Bench::new();
    let notice = |bench: &mut Bench, from, leader: u16| {
        let leader = Some(ReplicaId::new(leader));
        bench.reach.notice(&mut bench.desk.step(), &mut bench.parts, from, View::new(3), leader);
        bench.reach.leader()
    };
    assert_eq!(notice(&mut bench, 0, 1), None);
    assert_eq!(notice(&mut bench, 1, 2), None);
    assert_eq!(notice(&mut bench, 2, 2), Some(1));
    bench.reach.closed(&mut bench.parts, 1);
    assert_eq!(bench.reach.leader(), Some(1), "it is still the leader");
}
