//! Outcomes of a real executor, routed to connections.

use super::{RouteLimits, Routes};
use quorate_execute::{
    CheckpointError, CheckpointSink, CheckpointSource, Context, Executor, Outcomes, OwnReplies, ReplySink,
    Service, SessionLimits,
};
use quorate_types::{AgreedTime, ClientId, ConnId, ItemsBuilder, RequestNumber, SessionId};
use quorate_wire::{
    AnswerMode, Batch, BatchHeader, Reply, ReplyStatus, RequestHeader, RequestKind, RequestProof,
};
use std::collections::BTreeMap;

/// Answers each command with itself.
struct Mirror;

impl Service for Mirror {
    fn execute(&mut self, command: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        reply.write(command);
    }
    fn query(&self, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
    fn own_replies(&self) -> Option<&dyn OwnReplies> {
        Some(self)
    }
    fn checkpoint(&self, _: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        Ok(())
    }
    fn restore(&mut self, _: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        Ok(())
    }
}

impl OwnReplies for Mirror {
    fn own(&self, reply: &[u8], own: &mut Vec<u8>) {
        own.extend([reply, &[7; 500]].concat());
    }
}

struct World {
    executor: Executor,
    out: Outcomes,
    routes: Routes,
    requests: Vec<u8>,
    count: u32,
}

/// What a connection got: its frames, each as (session, number, status, length of the body).
type Got = BTreeMap<ConnId, Vec<Vec<(SessionId, u64, ReplyStatus, usize)>>>;

impl World {
    fn new(limits: RouteLimits) -> Self {
        let executor = Executor::new(Box::new(Mirror), SessionLimits::default(), AgreedTime::ZERO);
        let mut world =
            Self { executor, out: Outcomes::new(), routes: Routes::new(limits), requests: vec![], count: 0 };
        Batch::begin(&mut world.requests);
        world
    }
    fn push(&mut self, session: SessionId, number: u64, kind: RequestKind, body: &[u8]) {
        let number = RequestNumber::new(number);
        let len = body.len() as u32;
        RequestHeader { session, number, lowest_unanswered: number, kind, len, proof: RequestProof::None }
            .write_to(&mut self.requests);
        self.requests.extend_from_slice(body);
        self.count += 1;
    }
    fn open(&mut self, client: u64, nonce: u64) {
        self.push(SessionId::NONE, nonce, RequestKind::OpenSession, &client.to_le_bytes());
    }
    fn say(&mut self, session: SessionId, number: u64, len: usize) {
        let mut commands = ItemsBuilder::new();
        commands.push(&vec![1; len]);
        let mut body = vec![];
        commands.write_to(&mut body);
        self.push(session, number, RequestKind::Commands, &body);
    }
    /// Executes what was asked, routes the outcomes, and takes the turn's frames.
    fn turn(&mut self) -> Got {
        self.turn_of(true)
    }
    /// The same, of a batch that was proposed here or elsewhere.
    fn turn_of(&mut self, own: bool) -> Got {
        self.turn_with(own, false)
    }
    /// The same where replies leave as this replica's own.
    fn turn_with(&mut self, own: bool, owns: bool) -> Got {
        let mut requests = vec![];
        Batch::begin(&mut requests);
        std::mem::swap(&mut requests, &mut self.requests);
        let header = BatchHeader { count: std::mem::take(&mut self.count), ..BatchHeader::default() };
        let batch = Batch::seal(requests, header);
        self.executor.execute(self.executor.seq().next(), &batch, &mut self.out);
        self.routes.route(&self.out, own, |_| true, Some(&self.executor).filter(|_| owns));
        self.drain()
    }
    fn drain(&mut self) -> Got {
        let mut got = Got::new();
        let expected = self.routes.byte_len();
        let mut bytes = 0;
        for (conn, frame) in self.routes.drain() {
            bytes += frame.len();
            let replies = Reply::walk(&frame).map(|reply| {
                let reply = reply.expect("what is sent decodes");
                (reply.session, reply.number.number(), reply.status, reply.body.len())
            });
            got.entry(conn).or_default().push(replies.collect());
        }
        assert_eq!(bytes, expected);
        assert!(self.routes.is_empty());
        got
    }
}

fn conn(number: u64) -> ConnId {
    ConnId::new(number)
}

fn id(index: u32, generation: u32) -> SessionId {
    SessionId { index, generation }
}

/// Opened sessions are bound to whoever asked; their replies follow, and other connections get theirs.
#[test]
fn replies_find_their_connections() {
    let mut world = World::new(RouteLimits::default());
    for (client, on) in [(1, 10), (2, 20), (3, 30)] {
        assert!(world.routes.bind_opening(ClientId::new(client), RequestNumber::new(7), conn(on)));
        world.open(client, 7);
    }
    world.open(4, 7);
    let got = world.turn();
    assert_eq!(got.len(), 3, "nobody here asked for client 4");
    assert_eq!(got[&conn(20)], [vec![(id(1, 1), 7, ReplyStatus::SessionOpened, 0)]]);
    for (index, len) in [(2, 5), (0, 3), (2, 6), (3, 9)] {
        let number = world.executor.last_number(id(index, 1)).map_or(1, |last| last.number() + 1);
        world.say(id(index, 1), number + u64::from(len == 6), len);
    }
    let got = world.turn();
    assert_eq!(got.len(), 2);
    assert_eq!(got[&conn(10)], [vec![(id(0, 1), 1, ReplyStatus::Done, 11)]]);
    let both = vec![(id(2, 1), 1, ReplyStatus::Done, 13), (id(2, 1), 2, ReplyStatus::Done, 14)];
    assert_eq!(got[&conn(30)], [both]);
    assert!(world.drain().is_empty());
}

/// A client with connections to several replicas hears from one of them only that a copy of a request was not taken: else it takes one
/// such word for one about the copy that it sent meanwhile, and tells its caller that what runs did not.
#[test]
fn refusals_come_from_whoever_proposed() {
    let mut world = World::new(RouteLimits::default());
    assert!(world.routes.bind_opening(ClientId::new(1), RequestNumber::new(7), conn(10)));
    world.open(1, 7);
    assert_eq!(world.turn_of(false).len(), 1, "the opening is answered by all who know of it");
    world.say(id(0, 1), 2, 5);
    world.say(id(0, 1), 1, 5);
    let done = (id(0, 1), 1, ReplyStatus::Done, 13);
    assert_eq!(world.turn_of(false)[&conn(10)], [vec![done]], "and so is what ran");
    world.say(id(0, 1), 3, 5);
    world.say(id(0, 1), 2, 5);
    let refused = (id(0, 1), 3, ReplyStatus::ExpectedNumber, 8);
    let done = (id(0, 1), 2, ReplyStatus::Done, 13);
    assert_eq!(world.turn_of(true)[&conn(10)], [vec![refused, done]]);
}

/// A replica that goes on from another one's checkpoint answers what its clients wait for: the requests that ran meanwhile and whose
/// replies the sessions keep, and the openings. It does not answer again what it answered, nor what nobody asked here.
#[test]
fn what_a_checkpoint_covers_is_answered() {
    let both = |world: &mut World, other: &mut World, step: &dyn Fn(&mut World)| {
        [world, other].into_iter().for_each(|world| {
            step(world);
            world.turn();
        });
    };
    let (mut here, mut there) = (World::new(RouteLimits::default()), World::new(RouteLimits::default()));
    assert!(here.routes.bind_opening(ClientId::new(1), RequestNumber::new(7), conn(10)));
    both(&mut here, &mut there, &|world| (1..4).for_each(|client| world.open(client, 7)));
    let mut fresh = World::new(RouteLimits::default());
    both(&mut fresh, &mut World::new(RouteLimits::default()), &|world| {
        (1..4).for_each(|client| world.open(client, 7))
    });
    both(&mut here, &mut there, &|world| world.say(id(0, 1), 1, 5));
    assert!(here.routes.bind_opening(ClientId::new(4), RequestNumber::new(8), conn(40)));
    assert!(here.routes.bind_opening(ClientId::new(5), RequestNumber::new(8), conn(40)), "nobody ordered it");
    there.open(4, 8);
    there.say(id(0, 1), 2, 6);
    there.say(id(0, 1), 3, 7);
    there.say(id(1, 1), 1, 8);
    there.turn();
    let before = here.routes.reached(&here.executor);
    here.routes.covered(&before, &there.executor, |_| true, false);
    let got = here.drain();
    assert_eq!(got.keys().collect::<Vec<_>>(), [&conn(10), &conn(40)]);
    let kept = vec![(id(0, 1), 3, ReplyStatus::Done, 15)];
    assert_eq!(got[&conn(10)], [kept], "with request 3 its client says that it has every reply before");
    assert_eq!(got[&conn(40)], [vec![(id(3, 1), 8, ReplyStatus::SessionOpened, 0)]]);
    let before = here.routes.reached(&there.executor);
    here.routes.covered(&before, &there.executor, |_| true, false);
    assert!(here.drain().is_empty(), "once");
    assert_eq!(here.routes.conn(id(3, 1)), Some(conn(40)), "the new session's replies find it");
    // The sessions here were wrong: the same one is another client's.
    let mut right = World::new(RouteLimits::default());
    (8..12).for_each(|client| right.open(client, 7));
    right.turn();
    right.say(id(0, 1), 1, 5);
    right.turn();
    let before = here.routes.reached(&World::new(RouteLimits::default()).executor);
    assert!(before.is_empty(), "no session is known");
    let before = here.routes.reached(&fresh.executor);
    here.routes.covered(&before, &right.executor, |_| true, false);
    assert!(here.drain().is_empty(), "not this client's replies");
}

/// A session that turns up on another connection gets its replies there; a closed connection gets nothing, and its
/// place can be taken by another.
#[test]
fn a_session_moves_and_a_connection_goes() {
    let mut world = World::new(RouteLimits::default());
    world.open(1, 1);
    world.open(1, 2);
    world.turn();
    assert!(world.routes.bind(id(0, 1), conn(1)) && world.routes.bind(id(1, 1), conn(2)));
    assert!(world.routes.bind(id(0, 1), conn(2)));
    assert_eq!(world.routes.conn(id(0, 1)), Some(conn(2)));
    world.say(id(0, 1), 1, 1);
    assert_eq!(world.turn().keys().collect::<Vec<_>>(), [&conn(2)]);
    world.routes.unbind_conn(conn(2));
    assert_eq!(world.routes.conn(id(0, 1)), None);
    // Connection 3 takes the place that connection 2 had; what was bound to 2 must not reach 3.
    world.routes.answer(
        conn(3),
        &Reply {
            session: id(9, 9),
            number: RequestNumber::new(1),
            status: ReplyStatus::Overloaded,
            body: b"",
        },
    );
    world.say(id(0, 1), 2, 1);
    world.say(id(1, 1), 1, 1);
    let got = world.turn();
    assert_eq!(got.len(), 1);
    assert_eq!(got[&conn(3)], [vec![(id(9, 9), 1, ReplyStatus::Overloaded, 0)]]);
    assert!(world.routes.bind(id(0, 1), conn(3)));
    assert_eq!(world.routes.conn(id(0, 2)), None, "another generation is another session");
    world.say(id(0, 1), 3, 1);
    assert_eq!(world.turn()[&conn(3)].len(), 1);
}

/// A connection that goes takes with it what was about to be sent and what it wanted to open.
#[test]
fn what_a_closed_connection_waited_for_is_dropped() {
    let mut world = World::new(RouteLimits { frame_bytes_max: 100, ..RouteLimits::default() });
    let (client, nonce) = (ClientId::new(1), RequestNumber::new(1));
    assert!(world.routes.bind_opening(client, nonce, conn(1)));
    for number in 0..5 {
        let number = RequestNumber::new(number);
        let reply = Reply { session: id(0, 1), number, status: ReplyStatus::Overloaded, body: &[0; 30] };
        world.routes.answer(conn(1), &reply);
        world.routes.answer(conn(2), &reply);
    }
    world.routes.unbind_conn(conn(1));
    assert_eq!(world.drain().keys().collect::<Vec<_>>(), [&conn(2)]);
    world.open(1, 1);
    assert!(world.turn().is_empty());
    // The client came back elsewhere and asked again.
    assert!(world.routes.bind_opening(client, nonce, conn(3)));
    world.open(1, 1);
    assert_eq!(world.turn()[&conn(3)], [vec![(id(0, 1), 1, ReplyStatus::SessionOpened, 0)]]);
    assert_eq!(world.routes.conn(id(0, 1)), Some(conn(3)));
}

/// Frames are cut at the limit, between replies, in order; a single reply over it is a frame of its own.
#[test]
fn frames_are_cut() {
    let mut world = World::new(RouteLimits { frame_bytes_max: 150, ..RouteLimits::default() });
    assert!(world.routes.bind_opening(ClientId::new(1), RequestNumber::new(1), conn(1)));
    world.open(1, 1);
    world.turn();
    for (number, len) in [(1, 30), (2, 30), (3, 30), (4, 500), (5, 1)] {
        world.say(id(0, 1), number, len);
    }
    let got = world.turn();
    let numbers: Vec<Vec<u64>> =
        got[&conn(1)].iter().map(|frame| frame.iter().map(|reply| reply.1).collect()).collect();
    assert_eq!(numbers, [vec![1, 2], vec![3], vec![4], vec![5]]);
}

/// Peers name session places and nonces; neither may cost unbounded memory.
#[test]
fn what_peers_name_is_bounded() {
    let mut routes =
        Routes::new(RouteLimits { cells_max: 10, openings_per_conn_max: 3, ..RouteLimits::default() });
    assert!(!routes.bind(id(10, 1), conn(1)) && !routes.bind(id(u32::MAX, 1), conn(1)));
    assert!(!routes.bind(SessionId::NONE, conn(1)));
    assert!(routes.bind(id(9, 1), conn(1)));
    let client = ClientId::new(1);
    let taken =
        (0..9).filter(|nonce| routes.bind_opening(client, RequestNumber::new(*nonce), conn(1))).count();
    assert_eq!(taken, 3);
    assert!(routes.bind_opening(client, RequestNumber::new(0), conn(1)), "one that is under way already");
    assert!(routes.bind_opening(client, RequestNumber::new(0), conn(2)), "the client moved");
    assert!(routes.bind_opening(client, RequestNumber::new(5), conn(1)), "which made room");
    routes.unbind_conn(conn(1));
    routes.unbind_conn(conn(1));
    assert!(routes.openings.len() == 1 && routes.openings_by_conn.len() == 1);
}

/// A session that was refused is said to be so, to who asked.
#[test]
fn a_refused_opening_is_answered() {
    let mut world = World::new(RouteLimits::default());
    let limits = SessionLimits { sessions_max: 0, ..SessionLimits::default() };
    world.executor = Executor::new(Box::new(Mirror), limits, AgreedTime::ZERO);
    assert!(world.routes.bind_opening(ClientId::new(1), RequestNumber::new(1), conn(1)));
    world.open(1, 1);
    assert_eq!(world.turn()[&conn(1)], [vec![(SessionId::NONE, 1, ReplyStatus::SessionLimit, 0)]]);
}

/// The client of a connection says how it wants to be answered: that holds for all sessions there, until it says something else, or
/// connects again.
#[test]
fn a_client_is_answered_as_it_asked() {
    let mut world = World::new(RouteLimits::default());
    world.routes.bind_opening(ClientId::new(7), RequestNumber::new(1), conn(3));
    world.routes.set_mode(conn(3), AnswerMode::Silent);
    world.open(7, 1);
    let session = id(0, 1);
    assert_eq!(world.turn()[&conn(3)][0][0].2, ReplyStatus::SessionOpened, "openings are answered by all");
    let mut number = 0;
    let mut ask = |world: &mut World, len: usize| {
        number += 1;
        world.say(session, number, len);
        world.turn().remove(&conn(3)).map(|frames| (frames[0][0].2, frames[0][0].3))
    };
    assert_eq!(ask(&mut world, 8), None);
    world.routes.set_mode(conn(3), AnswerMode::Digests);
    let small = ask(&mut world, 8).expect("an answer");
    assert_eq!(small.0, ReplyStatus::Done, "a digest would save nothing");
    assert_eq!(ask(&mut world, 1000), Some((ReplyStatus::DoneDigest, 32)));
    world.routes.set_mode(conn(3), AnswerMode::Full);
    let whole = ask(&mut world, 1000).expect("an answer");
    assert!(whole.0 == ReplyStatus::Done && whole.1 > 1000);
    world.routes.set_mode(conn(3), AnswerMode::Silent);
    world.routes.unbind_conn(conn(3));
    assert_eq!(world.routes.mode(conn(3)), AnswerMode::Full);
    world.routes.bind(session, conn(3));
    assert_eq!(ask(&mut world, 8).map(|(status, _)| status), Some(ReplyStatus::Done));
}

/// What execution gave leaves as this replica's own, whole or by its digest; openings are no replies.
#[test]
fn replies_leave_as_the_replicas_own() {
    let mut world = World::new(RouteLimits::default());
    world.routes.bind_opening(ClientId::new(7), RequestNumber::new(1), conn(3));
    world.open(7, 1);
    assert_eq!(world.turn_with(true, true)[&conn(3)][0][0].3, 0);
    let session = id(0, 1);
    world.say(session, 1, 8);
    let plain = world.turn()[&conn(3)][0][0];
    let mut number = 1;
    let mut ask = |world: &mut World, mode| {
        number += 1;
        world.routes.set_mode(conn(3), mode);
        world.say(session, number, 8);
        world.turn_with(true, true).remove(&conn(3)).map(|frames| (frames[0][0].2, frames[0][0].3))
    };
    assert_eq!(ask(&mut world, AnswerMode::Full), Some((ReplyStatus::Done, plain.3 + 500)));
    assert_eq!(ask(&mut world, AnswerMode::Digests), Some((ReplyStatus::DoneDigest, 32)));
    assert_eq!(ask(&mut world, AnswerMode::Silent), None);
}
