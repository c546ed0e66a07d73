use super::super::{Hurt, LaneLimits};
use super::*;
use crate::clock::Clock;
use crate::connection::{Channel, Connection};
use mio::Poll;
use mio::net::TcpStream;
use quorate_node::{ConnClass, Input};
use quorate_wire::FrameKind;
use std::io::{ErrorKind, Read as _};
use std::net::TcpListener;
use std::sync::Mutex;

/// A clock that stands until it is set.
#[derive(Default)]
struct Hand(Mutex<Time>);

impl Hand {
    fn set(&self, ms: u64) {
        *self.0.lock().expect("nobody panicked") = at(ms);
    }
}

impl Clock for Hand {
    fn now(&self) -> Time {
        *self.0.lock().expect("nobody panicked")
    }
}

struct Nobody;

impl Core for Nobody {
    fn take(&mut self, _: Time, input: Input) {
        panic!("nothing happens: {input:?}");
    }
    fn frame_limit(&self, _: ConnId) -> Option<u32> {
        None
    }
    fn takes_more(&self, _: bool) -> bool {
        true
    }
    fn takes_any(&self) -> bool {
        true
    }
    fn class(&self, _: ConnId) -> ConnClass {
        ConnClass::Stranger
    }
    fn member(&self, _: ConnId) -> Option<quorate_types::ReplicaId> {
        None
    }
    fn suspects(&self, _: Time, _: ConnId) -> bool {
        false
    }
}

fn at(ms: u64) -> Time {
    Time::ZERO.plus(Span::from_millis(ms))
}

fn frame(number: u8) -> OutFrame {
    OutFrame::new(FrameKind::Order, &[number], vec![])
}

/// The connections of a lane whose frames to members leave late, and the other sides of them.
struct Rig {
    clock: Arc<Hand>,
    late: Lateness,
    sockets: Sockets,
    others: Vec<std::net::TcpStream>,
}

impl Rig {
    fn new() -> Self {
        let (clock, late) = (Arc::<Hand>::default(), Lateness::default());
        let limits = LaneLimits { unsent_bytes: 1, buffer_bytes: 1, slow_reader: Span::from_secs(1) };
        let hurt = Hurt { lateness: Some(late.clone()), ..Hurt::default() };
        let poll = Poll::new().expect("an event queue");
        let sockets = Sockets::new(poll, clock.clone(), limits, false).hurt(&hurt);
        Self { clock, late, sockets, others: Vec::new() }
    }

    fn connect(&mut self, class: Class) -> ConnId {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let other =
            std::net::TcpStream::connect(listener.local_addr().expect("an address")).expect("it listens");
        let (stream, from) = listener.accept().expect("a connection");
        stream.set_nonblocking(true).expect("a socket");
        let mut connection = Connection::accepted(TcpStream::from_std(stream), Channel::Plain, from);
        connection.class = class;
        let conn = ConnId::new(10 + self.others.len() as u64);
        assert!(self.sockets.add(conn, connection));
        self.others.push(other);
        conn
    }

    fn say(&mut self, conn: ConnId, number: u8) {
        let mut written = Vec::new();
        assert!(self.sockets.send(conn, frame(number), &mut written).is_none());
        self.sockets.write_all(self.clock.now(), written, &mut Nobody);
    }

    /// What the other side of a connection got at this time.
    fn got(&mut self, conn: ConnId, ms: u64) -> Vec<u8> {
        self.clock.set(ms);
        self.sockets.let_go(&mut Nobody);
        let other = &mut self.others[(conn.number() - 10) as usize];
        other.set_nonblocking(true).expect("a socket");
        let (mut bytes, size) = (Vec::new(), frame(0).len());
        match other.read_to_end(&mut bytes) {
            Err(why) if why.kind() == ErrorKind::WouldBlock => {}
            ended => panic!("it is open: {ended:?}"),
        }
        assert_eq!(bytes.len() % size, 0, "whole frames");
        bytes.chunks(size).filter_map(|frame| frame.last().copied()).collect()
    }
}

#[test]
fn what_is_for_members_leaves_late_and_in_order() {
    let mut rig = Rig::new();
    let (member, client) = (rig.connect(Class::Member), rig.connect(Class::Client(1)));
    rig.say(member, 1);
    assert_eq!((rig.got(member, 0), rig.sockets.holds_until()), (vec![1], None));
    rig.late.set(Span::from_millis(50));
    rig.say(member, 2);
    rig.say(client, 3);
    assert_eq!(rig.got(client, 10), [3], "clients are answered as always");
    rig.say(member, 4);
    assert_eq!(rig.sockets.holds_until(), Some(at(50)));
    assert_eq!(rig.got(member, 49), [0; 0]);
    assert_eq!(rig.got(member, 50), [2]);
    assert_eq!(rig.sockets.holds_until(), Some(at(60)));
    // One more while it is shortened: nothing overtakes.
    rig.late.set(Span::from_millis(20));
    rig.say(member, 5);
    assert_eq!(rig.got(member, 51), [4]);
    rig.late.set(Span::ZERO);
    rig.say(member, 6);
    assert_eq!(rig.got(member, 51), [5, 6]);
    rig.say(member, 7);
    assert_eq!((rig.got(member, 51), rig.sockets.holds_until()), (vec![7], None));
}

#[test]
fn what_waits_counts_and_moves_along() {
    let (mut from, mut to) = (Rig::new(), Rig::new());
    let member = from.connect(Class::Member);
    from.late.set(Span::from_millis(50));
    (1..=3).for_each(|number| from.say(member, number));
    let connection = from.sockets.release(member).expect("it is there");
    assert_eq!(connection.out_bytes(), 3 * frame(0).len());
    to.late.set(Span::from_millis(50));
    assert!(to.sockets.receive(at(0), member, connection, &mut Nobody));
    to.others.append(&mut from.others);
    assert_eq!(from.sockets.holds_until(), None);
    assert_eq!(to.sockets.holds_until(), Some(at(50)));
    to.say(member, 4);
    assert_eq!(to.got(member, 50), [1, 2, 3, 4]);
    assert_eq!(to.sockets.connections[&member].out_bytes(), 0);
    // Without a connection there is nothing to let go.
    to.say(member, 5);
    to.sockets.drop_connection(member);
    assert_eq!(to.sockets.holds_until(), None);
}

#[test]
fn a_slow_replica_says_so() {
    let late = Lateness::default();
    assert_eq!(late.problem(), None);
    late.set(Span::from_millis(70));
    let problem = late.problem().expect("a problem");
    assert!(problem.contains("leaves 70 ms late") && problem.contains("--ms 0"), "{problem}");
    let listed = "this replica is slow on purpose: what it sends to others leaves X ms late";
    assert!(problem.starts_with(listed.split('X').next().expect("a text")), "{problem}");
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations/alarms.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    assert!(page.contains(&format!("`{listed}`")), "the page of alarms does not list it");
}
