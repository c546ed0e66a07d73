//! A front with a protocol of its own, on a cluster of three replicas in this process. `cargo run -p quorate-kit --example line` starts
//! it, `nc HOST PORT` connects to any of the replicas, and Enter ends it. Each line is a command, which one line answers:
//!
//! ```text
//! SET KEY VALUE   OK                        GET KEY    VALUE ... or NONE, with everything that was acknowledged
//! DEL KEY         OK or NONE                LOOK KEY   the same, as this member has it
//! HEALTH          OK or NO LEADER           WATCH PREFIX   WATCHING, then IS KEY VALUE of each key, then SET and DEL as they come
//! ```
//!
//! A client that watches and does not read as fast as keys change gets `AGAIN`, and then all keys with IS.

use bytes::Bytes;
use quorate::{Context, InStore, LocalCluster, ObjectService, ReplicaId, ReplySink, Service, Store, Tells};
use quorate_kit::{
    Command, Connection, Hub, Listen, Look, Member, Needs, OwnCluster, Running, Stream, Teller, gather,
};
use std::{cell::Cell, error::Error, path::Path};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, split};
use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinSet;

/// The most bytes in a line.
const LINE_MAX: u64 = 64 << 10;
/// The most lines that wait for a client, and the most changes that wait for the watches.
const WAITING: usize = 128;
/// The key under which the store has the number of changes. Keys of clients begin with another byte.
const POSITION: &[u8] = b"#";

/// What one command changed: it led from one position to the next.
#[derive(Clone)]
struct Change {
    before: i64,
    position: i64,
    /// The line for clients that watch; none if another state replaced the one that was here.
    line: Option<String>,
}

/// The service: keys and values in the store. It reports its changes.
struct Lines(Teller<Change>);

fn stored(key: &str) -> Vec<u8> {
    [b"k", key.as_bytes()].concat()
}

fn position(store: &Store) -> i64 {
    let bytes = store.get(POSITION).and_then(|bytes| bytes.first_chunk());
    bytes.map_or(0, |bytes| i64::from_le_bytes(*bytes))
}

impl Lines {
    fn tell(&mut self, before: i64, position: i64, line: Option<String>) {
        let bytes = size_of::<Change>() + line.as_ref().map_or(0, String::len);
        self.0.tell(position, bytes, Change { before, position, line });
    }
}

impl ObjectService for Lines {
    /// A command is the client's line; its reply is the answer.
    fn execute(&mut self, store: &mut Store, command: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        let line = String::from_utf8_lossy(command);
        match line.splitn(3, ' ').collect::<Vec<_>>()[..] {
            ["SET", key, value] => _ = store.put(&stored(key), value.as_bytes()),
            ["DEL", key] if store.remove(&stored(key)) => {}
            ["DEL", _] => return reply.write(b"NONE"),
            _ => return reply.write(b"ERROR no such command"),
        }
        let before = position(store);
        store.put(POSITION, &(before + 1).to_le_bytes());
        self.tell(before, before + 1, Some(line.into_owned()));
        reply.write(b"OK");
    }

    /// `GET KEY`, or `LIST PREFIX`: the position, then a line for each key.
    fn query(&self, store: &Store, query: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        match String::from_utf8_lossy(query).split_once(' ') {
            Some(("GET", key)) => match store.get(&stored(key)) {
                Some(value) => [b"VALUE ", value].iter().for_each(|part| reply.write(part)),
                None => reply.write(b"NONE"),
            },
            Some(("LIST", prefix)) => {
                reply.write(&position(store).to_le_bytes());
                let start = stored(prefix);
                for (key, value) in store.range(&start, None).take_while(|(key, _)| key.starts_with(&start)) {
                    [b"IS ", &key[1..], b" ", value, b"\n"].iter().for_each(|part| reply.write(part));
                }
            }
            _ => reply.write(b"ERROR no such query"),
        }
    }

    fn restored(&mut self, store: &Store) {
        self.tell(self.0.position(), position(store), None);
    }

    fn tells(&mut self) -> Option<&mut dyn Tells> {
        Some(&mut self.0)
    }
}

/// What all connections of a front share.
#[derive(Clone)]
struct Front {
    cluster: OwnCluster,
    look: Look,
    hub: Hub<Change>,
    changes: broadcast::Sender<Change>,
}

impl Front {
    fn start(member: Member, hub: Hub<Change>) -> Result<Running, quorate_kit::StartError> {
        let listen = Listen {
            front: "line",
            address: "127.0.0.1:0".into(),
            tls: member.tls.clone(),
            plain_too: false,
            protocols: &[],
            connections_max: 1000,
            helpers: 1,
        };
        listen.start(async move |listener| {
            let cluster = OwnCluster::start(member.client, member.replica, None);
            let (look, changes) = (Look::start(member.see), broadcast::channel(WAITING).0);
            let front = Self { cluster, look, hub, changes };
            tokio::spawn(front.clone().pass_on());
            let serve = move |connection: Connection| {
                let front = front.clone();
                async move { gather::together(connection.stream, |stream| front.speak(stream)).await }
            };
            listener.each(serve).await;
        })
    }

    /// Hands each change to all watches. When there are none, nothing is wanted any more.
    async fn pass_on(self) {
        loop {
            self.hub.filled().await;
            while let Some(change) = self.hub.take() {
                if self.changes.send(change).is_err() {
                    self.hub.want(0);
                }
                tokio::task::yield_now().await;
            }
        }
    }

    async fn speak(self, stream: gather::Gather<Stream>) {
        let (read, mut write) = split(stream);
        let (out, mut lines) = mpsc::channel::<String>(WAITING);
        let writes = async move {
            while let Some(line) = lines.recv().await {
                if write.write_all(format!("{line}\n").as_bytes()).await.is_err() {
                    return;
                }
            }
        };
        let reads = async move {
            let (mut read, mut watches, mut line) = (BufReader::new(read), JoinSet::new(), Vec::new());
            // The watches end when the set is dropped, at the end of the client's lines.
            loop {
                line.clear();
                let whole = (&mut read).take(LINE_MAX).read_until(b'\n', &mut line).await;
                let text = std::str::from_utf8(line.trim_ascii_end()).unwrap_or_default();
                if whole.is_err() || line.last() != Some(&b'\n') {
                    return;
                }
                if let Some(prefix) = text.strip_prefix("WATCH ") {
                    watches.spawn(self.clone().watch(prefix.to_owned(), out.clone()));
                } else if out.send(self.answer(text).await).await.is_err() {
                    return;
                }
            }
        };
        tokio::join!(reads, writes);
    }

    async fn answer(&self, line: &str) -> String {
        let answer = match line.split_once(' ').unwrap_or((line, "")) {
            ("GET", _) => self.cluster.read(line.into()).await,
            ("LOOK", key) => self.cluster.look(format!("GET {key}").into()).await,
            ("HEALTH", _) => {
                let healthy = self.look.now().await.is_some_and(|seen| seen.is_healthy());
                Ok(if healthy { "OK" } else { "NO LEADER" }.into())
            }
            _ => self.cluster.order(Command::new(line.as_bytes().to_vec())).await,
        };
        let text = |bytes: Bytes| String::from_utf8_lossy(&bytes).into_owned();
        answer.map_or_else(|why| format!("ERROR {why}"), text)
    }

    /// Sends all keys, and then the changes, without a gap: changes that this member executes after the query wait in `changes`.
    async fn watch(self, prefix: String, out: mpsc::Sender<String>) -> Option<()> {
        let mut changes = self.changes.subscribe();
        self.hub.want(1);
        let mut at = self.tell("WATCHING", &prefix, &out).await?;
        loop {
            match changes.recv().await {
                Ok(change) if change.line.is_some() && change.position <= at => {}
                Ok(Change { before, position, line: Some(line) }) if before == at => {
                    at = position;
                    if line.split(' ').nth(1).is_some_and(|key| key.starts_with(&prefix)) {
                        out.send(line).await.ok()?;
                    }
                }
                Err(broadcast::error::RecvError::Closed) => return None,
                // Changes are missing, or another state replaced this one.
                _ => at = self.tell("AGAIN", &prefix, &out).await?,
            }
        }
    }

    /// Sends all keys and returns their position; nothing when the client is gone.
    async fn tell(&self, first: &str, prefix: &str, out: &mpsc::Sender<String>) -> Option<i64> {
        let reply = self.cluster.look(format!("LIST {prefix}").into()).await;
        out.send(reply.as_ref().map_or_else(|why| format!("ERROR {why}"), |_| first.into())).await.ok()?;
        let reply = reply.ok()?;
        let (position, list) = reply.split_first_chunk()?;
        for line in String::from_utf8_lossy(list).lines() {
            out.send(line.to_owned()).await.ok()?;
        }
        Some(i64::from_le_bytes(*position))
    }
}

/// Starts a cluster of three below this directory, and a front for each of its members.
pub(crate) fn start(directory: &Path) -> Result<(LocalCluster, Vec<Running>), Box<dyn Error>> {
    let hubs: Vec<Hub<Change>> = (0..3).map(|_| Hub::new()).collect();
    let (made, of_services) = (Cell::new(0), hubs.clone());
    let service = move || -> Box<dyn Service> {
        Box::new(InStore::new(Lines(Teller::new(of_services[made.replace(made.get() + 1) % 3].clone()))))
    };
    let cluster = LocalCluster::start(directory, 3, service)?;
    let needs = Needs { front: "line", frame_bytes_max: 3 << 20, full_patience: None, in_order: false };
    let mut fronts = Vec::new();
    for (hub, number) in hubs.into_iter().zip(1..) {
        let replica = ReplicaId::new(number);
        if let (Some(config), Some(running)) = (cluster.config(replica), cluster.running(replica)) {
            fronts.push(Front::start(Member::of(config, running, needs)?, hub)?);
        }
    }
    Ok((cluster, fronts))
}

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::temp_dir().join(format!("quorate-line-{}", std::process::id()));
    let (cluster, fronts) = start(&directory)?;
    fronts.iter().for_each(|front| println!("nc 127.0.0.1 {}", front.address().port()));
    std::io::stdin().read_line(&mut String::new())?;
    drop((fronts, cluster));
    Ok(std::fs::remove_dir_all(&directory)?)
}
