//! Three replicas in this process, and a client that speaks nothing but frames over a blocking socket.

use quorate_execute::{CheckpointError, CheckpointSink, CheckpointSource, Context, ReplySink, Service};
use quorate_runtime::{Config, DataDirectory, Durability, Identity, MemberConfig, Replica, Running};
use quorate_types::{ClientId, ClusterId, Incarnation, Items, ItemsBuilder, RequestNumber, Seq, SessionId};
use quorate_wire::{
    Frame, FrameKind, FrameReader, Hello, OutFrame, ReadConsistency, ReadReply, ReadRequest, ReadStatus,
    Reply, ReplyStatus, RequestHeader, RequestKind, Role, Welcome, write_read_request, write_request,
};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// Adds up the numbers that it is given.
#[derive(Default)]
struct Sum(u64);

impl Service for Sum {
    fn execute(&mut self, command: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        self.0 += command.first_chunk::<8>().map_or(0, |n| u64::from_le_bytes(*n));
        reply.write(&self.0.to_le_bytes());
    }
    fn query(&self, _: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        reply.write(&self.0.to_le_bytes());
    }
    fn checkpoint(&self, out: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        out.write(&self.0.to_le_bytes())
    }
    fn restore(&mut self, from: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        let mut bytes = [0; 8];
        quorate_execute::read_exact(from, &mut bytes)?;
        self.0 = u64::from_le_bytes(bytes);
        Ok(())
    }
}

struct Cluster {
    configs: Vec<Config>,
    running: Vec<Option<Running>>,
}

fn cluster(directory: &Path, replicas: u16, durability: Durability) -> Cluster {
    let id = ClusterId::new(77);
    let ports: Vec<TcpListener> = (0..replicas).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let member = |(at, port): (usize, &TcpListener)| MemberConfig {
        replica: at as u16 + 1,
        address: port.local_addr().unwrap().to_string(),
        incarnation: Incarnation::new(at as u64 + 100).to_string(),
    };
    let members: Vec<MemberConfig> = ports.iter().enumerate().map(member).collect();
    drop(ports);
    let configs: Vec<Config> = (1..=replicas)
        .map(|replica| {
            let data = directory.join(format!("r{replica}"));
            let identity = Identity {
                cluster: id,
                replica,
                incarnation: Incarnation::new(u64::from(replica) + 99),
                log_id: u64::from(replica),
                start_time_ns: 1,
            };
            DataDirectory::create(&data, &identity).unwrap();
            let mut config = Config::new(id, replica, data, members.clone());
            config.durability.mode = durability;
            config.durability.segment_mib = 24;
            config
        })
        .collect();
    let running = configs.iter().map(|c| Some(start(c))).collect();
    Cluster { configs, running }
}

fn start(config: &Config) -> Running {
    Replica::new(config.clone(), Box::<Sum>::default()).start().expect("starts")
}

struct RawClient {
    stream: TcpStream,
    reader: FrameReader,
    welcome: Option<Welcome>,
}

impl RawClient {
    fn connect(address: &str) -> Option<Self> {
        let stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut client = Self { stream, reader: FrameReader::new(1 << 24), welcome: None };
        client.send(&Hello::new(ClusterId::new(77), None, Role::Client(ClientId::new(5))).frame());
        let frame = client.receive()?;
        client.welcome = Some(Welcome::decode(frame.payload).expect("a welcome"));
        Some(client)
    }

    fn send(&mut self, frame: &OutFrame) {
        self.stream.write_all(&frame.to_vec()).unwrap();
    }

    fn receive(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.reader.frame().expect("frames") {
                return Some(frame);
            }
            let mut bytes = [0; 4096];
            let n = self.stream.read(&mut bytes).ok().filter(|n| *n > 0)?;
            self.reader.buffer(n).extend_from_slice(&bytes[..n]);
        }
    }

    fn reply(&mut self) -> Option<(SessionId, u64, ReplyStatus, Vec<Vec<u8>>)> {
        loop {
            let frame = self.receive()?;
            match frame.kind {
                FrameKind::Leader => continue,
                FrameKind::Replies => {
                    let reply = Reply::walk(&frame.payload).next().unwrap().unwrap();
                    let items = Items::parse(reply.body)
                        .map(|items| items.iter().map(<[u8]>::to_vec).collect())
                        .unwrap_or_default();
                    return Some((reply.session, reply.number.number(), reply.status, items));
                }
                kind => panic!("a {kind:?}"),
            }
        }
    }

    fn open(&mut self, nonce: u64) -> SessionId {
        let mut body = Vec::new();
        RequestHeader {
            session: SessionId::NONE,
            number: RequestNumber::new(nonce),
            lowest_unanswered: RequestNumber::ZERO,
            kind: RequestKind::OpenSession,
            len: 8,
        }
        .write_to(&mut body);
        body.extend_from_slice(&5u64.to_le_bytes());
        self.send(&OutFrame::new(FrameKind::Requests, &body, vec![]));
        let (session, number, status, _) = self.reply().expect("an answer");
        assert_eq!((number, status), (nonce, ReplyStatus::SessionOpened));
        session
    }

    fn add(&mut self, session: SessionId, number: u64, values: &[u64]) -> Option<Vec<u64>> {
        let mut commands = ItemsBuilder::new();
        values.iter().for_each(|v| commands.push(&v.to_le_bytes()));
        let mut body = Vec::new();
        write_request(&mut body, session, RequestNumber::new(number), RequestNumber::new(number), &commands);
        self.send(&OutFrame::new(FrameKind::Requests, &body, vec![]));
        let (_, answered, status, items) = self.reply()?;
        assert_eq!((answered, status), (number, ReplyStatus::Done));
        Some(items.iter().map(|i| u64::from_le_bytes(i[..8].try_into().unwrap())).collect())
    }

    fn read(&mut self, consistency: ReadConsistency, seen: u64) -> (ReadStatus, u64, u64) {
        let mut body = Vec::new();
        let read = ReadRequest { read: 9, seen: Seq::new(seen), consistency, query: b"" };
        write_read_request(&mut body, &read);
        self.send(&OutFrame::new(FrameKind::Reads, &body, vec![]));
        loop {
            let frame = self.receive().expect("an answer");
            if frame.kind == FrameKind::ReadReplies {
                let reply = ReadReply::walk(&frame.payload).next().unwrap().unwrap();
                let value = reply.body.first_chunk::<8>().map_or(0, |v| u64::from_le_bytes(*v));
                return (reply.status, reply.seq.number(), value);
            }
        }
    }
}

impl Cluster {
    /// Connects to the leader, once there is one.
    fn leader(&self) -> (usize, RawClient) {
        let until = Instant::now() + Duration::from_secs(10);
        while Instant::now() < until {
            for (at, config) in self.configs.iter().enumerate() {
                if self.running[at].is_none() {
                    continue;
                }
                if let Some(client) = RawClient::connect(config.listen_address())
                    && client.welcome.is_some_and(|w| w.leader == Some(w.replica))
                {
                    return (at, client);
                }
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("no leader in ten seconds");
    }
}

fn run(durability: Durability) {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = cluster(directory.path(), 3, durability);
    let (first, mut client) = cluster.leader();
    let session = client.open(1);
    assert_eq!(client.open(1), session, "opening again gives the same session");
    assert_eq!(client.add(session, 1, &[1, 2, 3]), Some(vec![1, 3, 6]));
    assert_eq!(client.add(session, 1, &[1, 2, 3]), Some(vec![1, 3, 6]), "sent again, executed once");
    assert_eq!(client.add(session, 2, &[4]), Some(vec![10]));

    // A follower reads what the leader acknowledged.
    let follower = (first + 1) % 3;
    let mut reader = RawClient::connect(cluster.configs[follower].listen_address()).unwrap();
    let (status, seq, value) = reader.read(ReadConsistency::Strong, 0);
    assert_eq!((status, value), (ReadStatus::Done, 10));
    assert_eq!(reader.read(ReadConsistency::Weak, seq).2, 10);

    // The leader stops; the session goes on at the next one, which remembers what was answered.
    let before = Instant::now();
    cluster.running[first].take().unwrap().stop().unwrap();
    let (second, mut client) = cluster.leader();
    println!("another leader after {:?}", before.elapsed());
    assert_ne!(first, second);
    assert_eq!(client.add(session, 2, &[4]), Some(vec![10]), "sent again to the new leader, executed once");
    assert_eq!(client.add(session, 3, &[5]), Some(vec![15]));
    if durability == Durability::Memory {
        return;
    }

    // Everybody stops, everybody comes back.
    for running in &mut cluster.running {
        if let Some(running) = running.take() {
            running.stop().unwrap();
        }
    }
    for (at, config) in cluster.configs.iter().enumerate() {
        cluster.running[at] = Some(start(config));
    }
    let (_, mut client) = cluster.leader();
    assert_eq!(
        client.add(session, 3, &[5]),
        Some(vec![15]),
        "sent again after a restart of all, executed once"
    );
    assert_eq!(client.add(session, 4, &[6]), Some(vec![21]));
    assert_eq!(client.read(ReadConsistency::Strong, 0).2, 21);
}

#[test]
fn a_session_outlives_its_leader_and_a_restart_of_all_with_group_durability() {
    run(Durability::Group);
}

#[test]
fn a_session_outlives_its_leader_and_a_restart_of_all_with_async_durability() {
    run(Durability::Async);
}

#[test]
fn a_session_outlives_its_leader_in_memory() {
    run(Durability::Memory);
}
