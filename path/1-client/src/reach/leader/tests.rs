//! The reach to the leader alone: who leads, when it is doubted, and what is sent again.

use super::ToLeader;
use crate::effects::CallId;
use crate::parts::Parts;
use crate::reach::Reach;
use crate::step::tests::{Desk, Got, PROBE, list};
use bytes::Bytes;
use quorate_types::{ReplicaId, RequestNumber, SessionId, Span, View};
use quorate_wire::{Reply, ReplyStatus, RequestKind};

struct Bench {
    desk: Desk,
    parts: Parts,
    reach: ToLeader,
}

impl Bench {
    fn new() -> Self {
        let mut desk = Desk::new();
        let parts = desk.parts(3, ToLeader::rules());
        Self { desk, parts, reach: ToLeader::new(PROBE) }
    }

    fn notice(&mut self, from: usize, view: u64, leader: Option<u16>) {
        let leader = leader.map(ReplicaId::new);
        self.reach.notice(&mut self.desk.step(), &mut self.parts, from, View::new(view), leader);
    }

    fn send(&mut self) -> Vec<Vec<Got>> {
        self.reach.send(&mut self.desk.step(), &mut self.parts);
        self.desk.requests(&self.parts.contacts)
    }

    fn counts(&mut self) -> Vec<usize> {
        self.send().iter().map(Vec::len).collect()
    }

    /// Lets the frames leave, goes on to the reach's next timer, and does what is due.
    fn due(&mut self) {
        for contact in 0..3 {
            let conn = self.parts.contacts.up(contact).expect("connected");
            self.parts.contacts.written(conn, usize::MAX);
        }
        self.desk.now = self.reach.deadline().expect("a timer");
        self.reach.due(&mut self.desk.step(), &mut self.parts);
    }

    fn open(&mut self) {
        self.parts.sessions.open(&mut self.desk.step(), CallId(1), None);
    }
}

#[test]
fn requests_follow_the_highest_view() {
    let mut bench = Bench::new();
    bench.open();
    assert_eq!(bench.counts(), [0, 0, 0], "nobody is known");
    bench.notice(0, 4, Some(2));
    assert_eq!(bench.counts(), [0, 1, 0]);
    bench.notice(0, 3, Some(3));
    assert_eq!(bench.counts(), [0, 0, 0], "an older view");
    bench.notice(2, 5, Some(3));
    assert_eq!((bench.counts(), bench.reach.leader()), (vec![0, 0, 1], Some(2)), "all is sent again");
    bench.notice(0, 6, None);
    assert_eq!(bench.reach.leader(), Some(2), "who is cut off knows nothing");
    bench.notice(2, 6, None);
    assert_eq!(bench.reach.leader(), None, "it knows best");
}

#[test]
fn a_leader_that_leads_anew_gets_everything_again() {
    let mut bench = Bench::new();
    bench.open();
    bench.notice(0, 4, Some(1));
    assert_eq!(bench.counts(), [1, 0, 0]);
    bench.notice(1, 5, Some(1));
    assert_eq!(bench.counts(), [0, 0, 0], "what others say of it is about other clients, too");
    bench.notice(0, 6, Some(1));
    assert_eq!(bench.counts(), [1, 0, 0]);
}

#[test]
fn who_does_not_know_yet_that_it_leads_is_left_alone_for_a_while() {
    let mut bench = Bench::new();
    bench.open();
    bench.notice(1, 4, Some(1));
    bench.send();
    bench.notice(0, 3, None);
    assert_eq!(bench.counts(), [0, 0, 0], "held");
    bench.due();
    assert_eq!(bench.counts(), [1, 0, 0]);
}

#[test]
fn a_silent_leader_is_doubted_and_forgotten_in_the_end() {
    let mut bench = Bench::new();
    bench.open();
    bench.notice(0, 4, Some(1));
    bench.send();
    for _ in 0..4 {
        let before = bench.desk.now;
        bench.due();
        assert!(bench.desk.now.since(before) == bench.desk.config.suspect_after);
        let asked = bench.desk.requests(&bench.parts.contacts);
        let probe = [(SessionId::NONE, PROBE, RequestKind::Empty, Vec::new())];
        assert!(asked[0].is_empty() && asked[1] == probe && asked[2] == probe, "the others are asked");
    }
    bench.notice(1, 1, Some(2));
    assert_eq!(bench.counts(), [0, 1, 0], "any view is news");
}

#[test]
fn who_takes_a_question_leads() {
    let mut bench = Bench::new();
    bench.open();
    bench.send();
    bench.due();
    let number = RequestNumber::new(PROBE);
    let reply = Reply { session: SessionId::NONE, number, status: ReplyStatus::Overloaded, body: b"" };
    let taken = bench.reach.reply(&mut bench.desk.step(), &mut bench.parts, 2, &reply, &Bytes::new());
    assert!(taken);
    assert_eq!(bench.reach.leader(), Some(2));
}

/// The one that is left may lead its instance since long, so that it has no news of a view.
#[test]
fn who_takes_a_question_leads_once_the_leader_is_gone() {
    let mut bench = Bench::new();
    bench.open();
    bench.notice(0, 4, Some(1));
    bench.send();
    let number = RequestNumber::new(PROBE);
    let reply = Reply { session: SessionId::NONE, number, status: ReplyStatus::SessionExpired, body: b"" };
    bench.reach.reply(&mut bench.desk.step(), &mut bench.parts, 2, &reply, &Bytes::new());
    assert_eq!(bench.reach.leader(), Some(0), "the leader is there, and may only be slow");
    bench.parts.contacts.lost(&mut bench.desk.step(), 0, "it died".to_owned());
    bench.reach.reply(&mut bench.desk.step(), &mut bench.parts, 2, &reply, &Bytes::new());
    assert_eq!((bench.counts(), bench.reach.leader()), (vec![0, 0, 1], Some(2)), "all is sent again");
}

#[test]
fn one_answer_is_the_answer() {
    let mut bench = Bench::new();
    bench.open();
    bench.notice(0, 4, Some(1));
    let nonce = bench.send()[0][0].1;
    let say = |bench: &mut Bench, number: u64, status, body: &[u8]| {
        let (number, payload) = (RequestNumber::new(number), Bytes::copy_from_slice(body));
        let session = crate::step::tests::ID;
        let reply = Reply { session, number, status, body: &payload };
        assert!(bench.reach.reply(&mut bench.desk.step(), &mut bench.parts, 0, &reply, &payload));
        bench.desk.ended()
    };
    let ended = say(&mut bench, nonce, ReplyStatus::SessionOpened, b"");
    let Some((1, Ok(crate::effects::Completion::Opened(handle, _)))) = ended.first().cloned() else {
        panic!("{ended:?}")
    };
    let step = &mut bench.desk.step();
    bench.parts.sessions.call(step, CallId(2), handle, list(b"x"), None, 0);
    assert_eq!(bench.counts(), [1, 0, 0]);
    bench.desk.now = bench.desk.now.plus(Span::from_millis(400));
    assert_eq!(say(&mut bench, 1, ReplyStatus::Done, &list(b"r")).len(), 1);
    let suspect = bench.desk.now.plus(bench.desk.config.suspect_after);
    assert_eq!(bench.reach.deadline(), Some(suspect), "whom we follow does lead");
}
