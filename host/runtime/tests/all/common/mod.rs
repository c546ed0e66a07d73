//! Three replicas in this process, and a client that speaks nothing but frames over a blocking socket.

use quorate_execute::{CheckpointError, CheckpointSink, CheckpointSource, Context, ReplySink, Service};
use quorate_runtime::{Config, DataDirectory, Durability, Identity, MemberConfig, Options, Replica, Running};
use quorate_types::{
    ClientId, ClusterId, Halt, Incarnation, Items, ItemsBuilder, RequestNumber, Seq, SessionId,
};
use quorate_wire::{
    Frame, FrameKind, FrameReader, Hello, OutFrame, ReadConsistency, ReadReply, ReadRequest, ReadStatus,
    Reply, ReplyStatus, RequestHeader, RequestKind, RequestProof, Role, Welcome, write_read_request,
    write_request,
};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// Adds up the numbers that it is given.
#[derive(Default)]
pub(crate) struct Sum(u64);

/// What is replaced in a replica, by its number from 0.
pub(crate) type OptionsOf = Box<dyn Fn(usize) -> Options>;

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

pub(crate) struct Cluster {
    pub(crate) configs: Vec<Config>,
    pub(crate) running: Vec<Option<Running>>,
    options: OptionsOf,
}

pub(crate) fn cluster(directory: &Path, replicas: u16, durability: Durability) -> Cluster {
    cluster_with(directory, replicas, durability, Box::new(|_| Options::default()))
}

/// The configuration of a replica that is alone and was never started.
pub(crate) fn config(directory: &Path) -> Config {
    let (cluster, incarnation) = (ClusterId::new(77), Incarnation::new(100));
    let data = directory.join("data");
    let identity = Identity { cluster, replica: 1, incarnation, log_id: 1, start_time_ns: 1 };
    DataDirectory::create(&data, &identity).unwrap();
    let member = MemberConfig {
        replica: 1,
        address: "127.0.0.1:0".into(),
        links: Vec::new(),
        incarnation: incarnation.to_string(),
        key: None,
    };
    let mut config = Config::new(cluster, 1, data, vec![member]);
    config.plain = true;
    config.durability.segment_mib = 24;
    config
}

pub(crate) fn cluster_with(
    directory: &Path,
    replicas: u16,
    durability: Durability,
    options: OptionsOf,
) -> Cluster {
    cluster_of(directory, replicas, durability, options, |_| {})
}

/// With settings of its own.
pub(crate) fn cluster_of(
    directory: &Path,
    replicas: u16,
    durability: Durability,
    options: OptionsOf,
    set: impl Fn(&mut Config),
) -> Cluster {
    let id = ClusterId::new(77);
    let ports: Vec<TcpListener> = (0..replicas).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let member = |(at, port): (usize, &TcpListener)| MemberConfig {
        replica: at as u16 + 1,
        address: port.local_addr().unwrap().to_string(),
        links: Vec::new(),
        incarnation: Incarnation::new(at as u64 + 100).to_string(),
        key: None,
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
            config.plain = true;
            config.durability.mode = durability;
            config.durability.segment_mib = 24;
            set(&mut config);
            config
        })
        .collect();
    let mut cluster = Cluster { running: configs.iter().map(|_| None).collect(), configs, options };
    (0..cluster.configs.len()).for_each(|at| cluster.start(at));
    cluster
}

pub(crate) struct RawClient {
    stream: TcpStream,
    reader: FrameReader,
    pub(crate) welcome: Option<Welcome>,
    /// The number of the client.
    id: u64,
    /// How the last request ended that was not executed.
    pub(crate) refused: Option<ReplyStatus>,
}

impl RawClient {
    pub(crate) fn connect(address: &str) -> Option<Self> {
        Self::connect_as(address, 5)
    }

    pub(crate) fn connect_as(address: &str, id: u64) -> Option<Self> {
        let client = Self::connect_in_role(address, Role::Client(ClientId::new(id)))?;
        Some(Self { id, ..client })
    }

    /// An operator's connection.
    pub(crate) fn operator(address: &str) -> Option<Self> {
        Self::connect_in_role(address, Role::Admin)
    }

    fn connect_in_role(address: &str, role: Role) -> Option<Self> {
        let stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut client =
            Self { stream, reader: FrameReader::new(1 << 24), welcome: None, id: 0, refused: None };
        client.send(&Hello::new(ClusterId::new(77), None, role).frame());
        let frame = client.receive()?;
        client.welcome = Some(Welcome::decode(frame.payload).expect("a welcome"));
        Some(client)
    }

    pub(crate) fn send(&mut self, frame: &OutFrame) {
        self.stream.write_all(&frame.to_vec()).unwrap();
    }

    /// Sends a frame, unless the connection is gone.
    pub(crate) fn try_send(&mut self, frame: &OutFrame) -> bool {
        self.stream.write_all(&frame.to_vec()).is_ok()
    }

    /// The connection, to send on it while another thread receives.
    pub(crate) fn sender(&self) -> TcpStream {
        self.stream.try_clone().expect("a second handle")
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub(crate) fn receive(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.reader.frame().expect("frames") {
                return Some(frame);
            }
            let mut bytes = [0; 4096];
            let n = self.stream.read(&mut bytes).ok().filter(|n| *n > 0)?;
            self.reader.push(&bytes[..n]);
        }
    }

    pub(crate) fn reply(&mut self) -> Option<(SessionId, u64, ReplyStatus, Vec<Vec<u8>>)> {
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

    pub(crate) fn open(&mut self, nonce: u64) -> SessionId {
        self.try_open(nonce).expect("an answer")
    }

    /// A session, unless this replica says something else.
    pub(crate) fn try_open(&mut self, nonce: u64) -> Option<SessionId> {
        let mut body = Vec::new();
        RequestHeader {
            session: SessionId::NONE,
            number: RequestNumber::new(nonce),
            lowest_unanswered: RequestNumber::ZERO,
            kind: RequestKind::OpenSession,
            len: 8,
            proof: RequestProof::None,
        }
        .write_to(&mut body);
        body.extend_from_slice(&self.id.to_le_bytes());
        self.send(&OutFrame::new(FrameKind::Requests, &body, vec![]));
        let (session, number, status, _) = self.reply()?;
        assert_eq!((number, status), (nonce, ReplyStatus::SessionOpened));
        Some(session)
    }

    pub(crate) fn add(&mut self, session: SessionId, number: u64, values: &[u64]) -> Option<Vec<u64>> {
        let mut commands = ItemsBuilder::new();
        values.iter().for_each(|v| commands.push(&v.to_le_bytes()));
        let mut body = Vec::new();
        write_request(&mut body, session, RequestNumber::new(number), RequestNumber::new(number), &commands);
        self.send(&OutFrame::new(FrameKind::Requests, &body, vec![]));
        // A new leader that executes what earlier ones decided answers that, too.
        let (status, items) = loop {
            let (_, answered, status, items) = self.reply()?;
            if answered >= number {
                assert_eq!(answered, number);
                break (status, items);
            }
        };
        if status != ReplyStatus::Done {
            self.refused = Some(status);
            return None;
        }
        Some(items.iter().map(|i| u64::from_le_bytes(i[..8].try_into().unwrap())).collect())
    }

    pub(crate) fn read(&mut self, consistency: ReadConsistency, seen: u64) -> (ReadStatus, u64, u64) {
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
    pub(crate) fn start(&mut self, at: usize) {
        let replica = Replica::new(self.configs[at].clone(), Box::<Sum>::default());
        self.running[at] = Some(replica.with((self.options)(at)).start().expect("starts"));
    }

    pub(crate) fn stop(&mut self, at: usize) -> Result<(), Halt> {
        self.running[at].take().map_or(Ok(()), Running::stop)
    }

    /// Connects to the leader, once there is one.
    pub(crate) fn leader(&self) -> (usize, RawClient) {
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
