use super::super::{Hurt, LaneLimits};
use super::*;
use crate::clock::MonotonicClock;
use crate::connection::{Channel, Class};
use mio::Poll;
use quorate_node::{ConnClass, Input};
use quorate_types::ConnId;
use quorate_wire::{FrameKind, OutFrame};
use std::io::{ErrorKind, Read as _, Write as _};
use std::time::Duration;

/// Counts the frames that come.
#[derive(Default)]
struct Counts(Vec<u8>);

impl Core for Counts {
    fn take(&mut self, _: Time, input: Input) {
        match input {
            Input::Frame { frame, .. } => self.0.extend(frame.payload.first()),
            other => panic!("nothing else happens: {other:?}"),
        }
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
    fn member(&self, _: ConnId) -> Option<ReplicaId> {
        None
    }
    fn suspects(&self, _: Time, _: ConnId) -> bool {
        false
    }
}

fn frame(number: u8) -> OutFrame {
    OutFrame::new(FrameKind::Order, &[number], vec![])
}

fn bytes_of(number: u8) -> Vec<u8> {
    frame(number).into_parts().flatten().collect()
}

/// The connections of a lane that may be cut off, and the other sides of them.
struct Rig {
    partition: Partition,
    sockets: Sockets,
    core: Counts,
    others: Vec<TcpStream>,
}

impl Rig {
    fn new() -> Self {
        let partition = Partition::default();
        let limits = LaneLimits { unsent_bytes: 1, buffer_bytes: 1, slow_reader: Span::from_secs(1) };
        let poll = Poll::new().expect("an event queue");
        let sockets = Sockets::new(poll, Arc::new(MonotonicClock::new()), limits, false);
        let hurt = Hurt { partition: Some(partition.clone()), ..Hurt::default() };
        let sockets = sockets.hurt(&hurt);
        Self { partition, sockets, core: Counts::default(), others: Vec::new() }
    }

    fn connect(&mut self, member: Option<u16>) -> ConnId {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let other = TcpStream::connect(listener.local_addr().expect("an address")).expect("it listens");
        let (stream, from) = listener.accept().expect("a connection");
        stream.set_nonblocking(true).expect("a socket");
        let stream = mio::net::TcpStream::from_std(stream);
        let mut connection = Connection::accepted(stream, Channel::Plain, from);
        connection.member = member.map(ReplicaId::new);
        connection.class = if member.is_some() { Class::Member } else { Class::Client(1) };
        connection.set_frame_limit(1 << 20);
        let conn = ConnId::new(10 + self.others.len() as u64);
        assert!(self.sockets.add(conn, connection));
        self.others.push(other);
        conn
    }

    fn now(&self) -> Time {
        self.sockets.clock.now()
    }

    fn other(&self, conn: ConnId) -> &TcpStream {
        &self.others[(conn.number() - 10) as usize]
    }

    /// Sends a frame here.
    fn sends(&mut self, conn: ConnId, number: u8) {
        let mut written = Vec::new();
        assert!(self.sockets.send(conn, frame(number), &mut written).is_none());
        let now = self.now();
        self.sockets.write_all(now, written, &mut self.core);
    }

    /// The frames that arrived at the other side are these.
    #[track_caller]
    fn arrived(&self, conn: ConnId, numbers: &[u8]) {
        let mut other = self.other(conn);
        let expected: Vec<u8> = numbers.iter().flat_map(|number| bytes_of(*number)).collect();
        let mut bytes = vec![0; expected.len()];
        other.set_nonblocking(false).expect("a socket");
        other.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
        other.read_exact(&mut bytes).expect("they arrive");
        assert_eq!(bytes, expected);
        other.set_nonblocking(true).expect("a socket");
        let more = other.read(&mut [0]).expect_err("nothing else does");
        assert_eq!(more.kind(), ErrorKind::WouldBlock);
    }

    /// Sends a frame from the other side.
    fn hears(&mut self, conn: ConnId, number: u8) {
        self.other(conn).write_all(&bytes_of(number)).expect("it is sent");
        self.sockets.wants_read(conn);
        self.turn();
    }

    /// Lets the lane read, and look whether the sides meet again.
    fn turn(&mut self) {
        let now = self.now();
        self.sockets.rejoin(now, &mut self.core);
        self.sockets.read_all(now, &mut self.core);
    }
}

#[test]
fn nothing_passes_between_the_sides_until_they_meet_again() {
    let mut rig = Rig::new();
    let (far, near, client) = (rig.connect(Some(2)), rig.connect(Some(3)), rig.connect(None));
    rig.sends(far, 1);
    rig.arrived(far, &[1]);
    rig.hears(far, 1);
    rig.partition.set([2, 64]);
    assert_eq!(rig.partition.others(), vec![2, 64]);
    for number in [2, 3] {
        rig.sends(far, number);
        rig.hears(far, number);
    }
    rig.turn();
    rig.arrived(far, &[]);
    assert_eq!(rig.core.0, vec![1], "nothing arrives here, either");
    assert!(rig.sockets.rejoins_at().is_some(), "the lane looks again");
    for (conn, number) in [(near, 4), (client, 5)] {
        rig.sends(conn, number);
        rig.arrived(conn, &[number]);
        rig.hears(conn, number);
    }
    assert_eq!(rig.core.0, vec![1, 4, 5], "others are reached");

    rig.partition.set([]);
    rig.turn();
    rig.arrived(far, &[2, 3]);
    assert_eq!(rig.core.0, vec![1, 4, 5, 2, 3], "what waited goes on, in order");
    rig.sends(far, 6);
    rig.arrived(far, &[6]);
    assert_eq!((rig.partition.problem(), rig.sockets.rejoins_at()), (None, None));
}

#[test]
fn no_new_connection_is_made_to_the_other_side() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let partition = Partition::default();
    let network = partition.clone().over(Arc::new(crate::SystemNetwork::default()));
    let replica = ReplicaId::new(7);
    assert!(network.connect(replica, address).is_ok());
    partition.set([7, 65]);
    assert!(partition.problem().expect("it says so").contains("from replica 7 on purpose"));
    let refused = network.connect(replica, address).expect_err("it is on the other side");
    assert_eq!(refused.kind(), ErrorKind::HostUnreachable);
    // Nobody above the highest number is cut off.
    assert!(network.connect(ReplicaId::new(65), address).is_ok());
}
