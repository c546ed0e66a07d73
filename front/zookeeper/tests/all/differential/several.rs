//! Several clients of each side: watches, sessions that end and move, and events, one for one. After each request all other clients are
//! asked for a sign of life, so that the events before it are there.

use super::{Random, Real, Server, Shape, request};
use crate::support::cluster::{Cluster, Got};
use quorate_skipped::skipped;
use quorate_zookeeper::op::Op;
use quorate_zookeeper::records::RequestHeader;
use quorate_zookeeper::request::{Request, SetWatches};
use quorate_zookeeper::server::ConnId;

const CLIENTS: usize = 3;

/// What the clients of one side saw of a step: the answer, and the events of each.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    answer: String,
    events: Vec<Vec<(i64, i32, String)>>,
}

/// What a client does next.
#[derive(Clone, Debug)]
enum Step {
    Ask(Request<'static>),
    /// It closes its session, and opens another one.
    Close,
    /// It connects again, with its session.
    Move,
}

/// Our side.
struct Ours {
    cluster: Cluster,
    clients: Vec<(ConnId, i64, Vec<u8>)>,
    shape: Shape,
    xid: i32,
}

impl Ours {
    fn new() -> Self {
        let mut cluster = Cluster::new(1);
        let clients: Vec<_> = (0..CLIENTS).map(|_| cluster.client(0)).collect();
        let sessions = clients.iter().map(|(_, session, _)| *session).collect();
        let shape = Shape { sessions, before: CLIENTS as i64, moves: Vec::new() };
        Self { cluster, clients, shape, xid: 0 }
    }

    fn step(&mut self, at: usize, step: &Step) -> Seen {
        let conn = self.clients[at].0;
        let mut answer = String::new();
        let mut events: Vec<Vec<_>> = vec![Vec::new(); CLIENTS];
        match step {
            Step::Ask(request) => answer = self.ask(conn, request, &mut events[at]),
            Step::Close => {
                self.cluster.send(0, conn, 1, &Request::Plain(Op::CloseSession));
                self.events(conn, &mut events[at]);
                self.clients[at] = self.cluster.client(0);
                self.shape.sessions.push(self.clients[at].1);
            }
            Step::Move => {
                self.cluster.cut(0, conn);
                let (_, session, password) = self.clients[at].clone();
                let conn = self.cluster.connect(0, session, &password);
                assert!(matches!(&self.cluster.got(conn)[..], [Got::Session(..)]));
                self.clients[at].0 = conn;
                self.shape.moves.push(self.cluster.zxid());
            }
        }
        for (at, (conn, ..)) in self.clients.clone().into_iter().enumerate() {
            self.events(conn, &mut events[at]);
        }
        Seen { answer, events }
    }

    fn ask(&mut self, conn: ConnId, request: &Request<'_>, events: &mut Vec<(i64, i32, String)>) -> String {
        self.xid += 1;
        self.cluster.send(0, conn, self.xid, request);
        let mut answer = String::new();
        for got in self.cluster.got(conn) {
            match got {
                Got::Event(zxid, kind, path) => events.push((self.shape.zxid(zxid), kind, path)),
                Got::Reply(_, zxid, error, record) => {
                    let record = if error == 0 { Ok(&record[..]) } else { Err(error) };
                    answer = self.shape.answer(request, zxid, record);
                }
                other => panic!("{other:?} to {request:?}"),
            }
        }
        answer
    }

    fn events(&mut self, conn: ConnId, events: &mut Vec<(i64, i32, String)>) {
        for got in self.cluster.got(conn) {
            if let Got::Event(zxid, kind, path) = got {
                events.push((self.shape.zxid(zxid), kind, path));
            }
        }
    }
}

/// Their side.
struct Theirs {
    port: u16,
    clients: Vec<Real>,
    shape: Shape,
}

impl Theirs {
    fn new(port: u16) -> Self {
        // The first one waits until the server serves.
        let clients: Vec<Real> = (0..CLIENTS).map(|_| Real::connect(port)).collect();
        let sessions = clients.iter().map(|client| client.session).collect();
        let before = clients.last().map_or(0, |last| last.before);
        Self { port, clients, shape: Shape { sessions, before, moves: Vec::new() } }
    }

    fn step(&mut self, at: usize, step: &Step) -> Seen {
        let mut answer = String::new();
        match step {
            Step::Ask(request) => {
                let (zxid, record) = self.clients[at].ask(request);
                answer = self.shape.answer(request, zxid, record.as_deref().map_err(|error| *error));
            }
            Step::Close => {
                let _ = self.clients[at].ask(&Request::Plain(Op::CloseSession));
                let events = std::mem::take(&mut self.clients[at].events);
                self.clients[at] = Real::connect(self.port);
                self.clients[at].events = events;
                self.shape.sessions.push(self.clients[at].session);
            }
            Step::Move => self.clients[at].again(self.port),
        }
        for client in &mut self.clients {
            client.ping();
        }
        let shape = &self.shape;
        let of = |client: &mut Real| {
            let events = std::mem::take(&mut client.events).into_iter();
            events.map(|(zxid, kind, path)| (shape.zxid(zxid), kind, path)).collect()
        };
        let events = self.clients.iter_mut().map(of).collect();
        Seen { answer, events }
    }
}

const WATCHED: [&[u8]; 6] = [b"/a", b"/b", b"/a/a", b"/a/b", b"/", b"/b/a"];

fn step(random: &mut Random, seen: i64) -> Step {
    let paths = |random: &mut Random| -> Vec<&'static [u8]> {
        (0..random.below(3)).map(|_| random.pick(&WATCHED)).collect()
    };
    match random.below(40) {
        0 => Step::Close,
        1 => Step::Move,
        2..4 => {
            let once = [paths(random), paths(random), paths(random)];
            let lasting = (random.below(2) > 0).then(|| [paths(random), paths(random)]);
            Step::Ask(Request::SetWatches(SetWatches { seen_zxid: seen, once, lasting }))
        }
        4..9 => {
            let op = random.pick(&[Op::AddWatch, Op::CheckWatches, Op::RemoveWatches]);
            let kind = if op == Op::AddWatch { random.pick(&[0, 1]) } else { random.pick(&[1, 2, 3, 4, 5]) };
            Step::Ask(Request::Watch { op, path: random.pick(&WATCHED), kind })
        }
        _ => Step::Ask(match request(random, false) {
            Request::Read { op, path, .. } => Request::Read { op, path, watch: random.below(3) > 0 },
            other => other,
        }),
    }
}

/// `ZOOKEEPER` names a folder with the jars of a release 3.9. `QUORATE_REQUESTS`: how many requests.
#[test]
fn events_and_sessions_are_those_of_a_real_zookeeper() {
    let Ok(jars) = std::env::var("ZOOKEEPER") else {
        return skipped("there is no ZooKeeper: name the folder of its jars in ZOOKEEPER");
    };
    let count = std::env::var("QUORATE_REQUESTS").ok().and_then(|count| count.parse().ok()).unwrap_or(3000);
    let (server, port) = Server::start(&jars);
    let (mut theirs, mut ours) = (Theirs::new(port), Ours::new());
    let (mut random, mut log, mut events) = (Random(7), Vec::new(), 0);
    for number in 0..count {
        let at = random.below(CLIENTS);
        // Each side has its own numbers for the same transactions.
        let seen = theirs.shape.zxid(theirs.clients[at].seen) - random.below(4) as i64;
        let mut same = Random(random.0);
        let their_step = step(&mut random, theirs.shape.raw(seen));
        let our_step = step(&mut same, ours.shape.raw(seen));
        let (mut expected, mut found) = (theirs.step(at, &their_step), ours.step(at, &our_step));
        if matches!(their_step, Step::Close) {
            // A real server deletes a session's nodes in the order of a hash table.
            expected.events.iter_mut().chain(&mut found.events).for_each(|events| events.sort());
        }
        events += expected.events.iter().map(Vec::len).sum::<usize>();
        log.push(format!("client {at}: {their_step:?}\n    {expected:?}"));
        let last = log[log.len().saturating_sub(12)..].join("\n");
        assert_eq!(expected, found, "request {number} of {count}\n{last}");
    }
    drop(server);
    println!("{count} requests, {events} events");
    assert!(events > count / 20, "only {events} events");
}

impl Real {
    /// Reads events until a sign of life comes back.
    fn ping(&mut self) {
        let mut frame = Vec::new();
        RequestHeader { xid: RequestHeader::PING, op: Op::Ping.code() }.write(&mut frame);
        self.send(&frame).expect("it is sent");
        loop {
            let next = self.next().expect("an answer").0;
            if next.is_some_and(|header| header.xid == RequestHeader::PING) {
                return;
            }
        }
    }

    /// Connects again, with its session.
    fn again(&mut self, port: u16) {
        let (session, password) = (self.session, self.password.clone());
        let events = std::mem::take(&mut self.events);
        let seen = self.seen;
        *self = Self::open(port, session, &password).expect("it serves");
        assert_eq!(self.session, session, "it is taken back");
        (self.events, self.seen) = (events, seen);
    }
}
