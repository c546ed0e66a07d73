//! Four-letter words: what operators and their programs ask a server for, as text.
//!
//! The texts are those that ZooKeeper's `stat`, `mntr` and others give, as far as programs parse them; what a server of ours does not have is
//! left out. `admin.rs` gives the same as JSON. Source: `org.apache.zookeeper.server.command` of Apache ZooKeeper 3.9.4.
//! Tests: tests/all/words.rs.

use super::conn::Waits;
use super::{ConnId, Now, Server};
use crate::service;
use crate::tree::{self, Count};
use quorate_execute::StateView;
use quorate_types::{Durations, Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

/// What programs take for ZooKeeper's version; whoever wants to know finds ours behind it.
pub const VERSION: &str =
    concat!("3.9.4-quorate-", env!("CARGO_PKG_VERSION"), ", built on 2026-11-29 00:00 UTC");

/// What a replica is in its cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// It leads.
    Leader,
    /// It votes.
    #[default]
    Follower,
    /// It learns.
    Observer,
    /// It is the only one.
    Standalone,
    /// It knows no leader, and answers reads only.
    ReadOnly,
}

impl Role {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Follower => "follower",
            Self::Observer => "observer",
            Self::Standalone => "standalone",
            Self::ReadOnly => "read-only",
        }
    }
}

/// What the caller of a word knows, and the server does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Around {
    /// The replica's id.
    pub replica: u16,
    /// What the replica is.
    pub role: Role,
    /// The leader's id and address, if one is known.
    pub leader: Option<(u16, String)>,
    /// How many other replicas vote, if it leads.
    pub followers: usize,
    /// The ids and addresses of the replicas that learn, if it leads.
    pub observers: Vec<(u16, String)>,
    /// Settings, as `name=value`.
    pub settings: Vec<(&'static str, String)>,
    /// The bytes of the replica's files.
    pub data_bytes: u64,
    /// How long the server runs.
    pub uptime_ms: u64,
    /// The addresses of connections.
    pub addresses: BTreeMap<ConnId, String>,
    /// The connections with TLS.
    pub safe: BTreeSet<ConnId>,
}

/// About how many bytes a list may have, so that nobody waits for long while it is made.
const LIST_BYTES_MAX: usize = 4 << 20;
/// What an entry of a list takes beside its text.
const ENTRY_BYTES: usize = 64;

/// The room in a list. What finds none is left out, and counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    bytes: usize,
    taken: usize,
    left_out: usize,
}

impl Room {
    pub(super) const fn new() -> Self {
        Self { bytes: LIST_BYTES_MAX, taken: 0, left_out: 0 }
    }

    /// Whether there is room for one more entry, whose text is this long.
    pub(super) fn takes(&mut self, text: usize) -> bool {
        let left = self.bytes.checked_sub(text + ENTRY_BYTES);
        // What comes later does not fit, either: a list has a beginning, and no holes.
        self.bytes = left.unwrap_or(0);
        self.taken += usize::from(left.is_some());
        self.left_out += usize::from(left.is_none());
        left.is_some()
    }

    /// Whether something was left out. Then there is no need to look for more.
    const fn is_full(&self) -> bool {
        self.left_out > 0
    }

    /// There were so many entries in all.
    fn count_all(&mut self, all: usize) {
        self.left_out = all.saturating_sub(self.taken);
    }

    /// How many entries are left out.
    pub(super) const fn left_out(&self) -> usize {
        self.left_out
    }

    /// Says how many entries are left out.
    fn end(self, text: &mut String) {
        if self.is_full() {
            let _ = writeln!(text, "{} more are left out", self.left_out);
        }
    }
}

/// A number that programs watch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Whole(u64),
    Mean(f64),
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => number.fmt(f),
            Self::Mean(number) => write!(f, "{number:.4}"),
        }
    }
}

/// How long requests took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Latency {
    count: u64,
    sum: Span,
    min: Span,
    max: Span,
}

impl Latency {
    pub(super) fn add(&mut self, from: Time, to: Time) {
        let took = to.since(from);
        self.min = if self.count == 0 { took } else { self.min.min(took) };
        (self.count, self.sum, self.max) = (self.count + 1, self.sum.plus(took), self.max.max(took));
    }

    /// The shortest and the longest time in milliseconds, and the mean.
    pub(super) fn milliseconds(&self) -> (u64, u64, f64) {
        let mean = if self.count == 0 { 0.0 } else { self.sum.nanos() as f64 / 1e6 / self.count as f64 };
        (self.min.millis(), self.max.millis(), mean)
    }
}

/// Counts since the start, or since they were reset.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) received: u64,
    pub(super) sent: u64,
    pub(super) latency: Latency,
    /// How long requests took, by their kinds; never reset.
    pub(super) took: [Durations; REQUEST_KINDS.len()],
}

/// The kinds of requests, by what they wait for.
pub const REQUEST_KINDS: &[&str] = &["session", "write", "sync", "read", "reconfig"];

impl Counts {
    /// A request is answered that waited for this.
    pub(super) fn add(&mut self, waits: &Waits, from: Time, to: Time) {
        self.latency.add(from, to);
        let kind = match waits {
            Waits::Session { .. } => 0,
            Waits::Write { .. } => 1,
            Waits::Sync { .. } => 2,
            Waits::Here { .. } => 3,
            Waits::Change { .. } => 4,
        };
        self.took[kind].add(to.since(from));
    }
}

impl Server {
    /// How long requests took until they were answered, for each of [`REQUEST_KINDS`].
    pub fn took(&self) -> [Durations; REQUEST_KINDS.len()] {
        self.counts.took
    }

    /// The answer to a word; none if it is not known.
    pub fn word(&mut self, word: [u8; 4], around: &Around, now: Now) -> Option<String> {
        let mut text = String::new();
        match &word {
            b"ruok" => text.push_str("imok"),
            b"isro" => text.push_str(if self.only_reads { "ro" } else { "rw" }),
            b"gtmk" => text.push_str("306"),
            b"srvr" => self.srvr(around, &mut text),
            b"stat" => {
                let _ = writeln!(text, "Zookeeper version: {VERSION}\nClients:");
                self.cons(around, now, &mut text);
                text.push('\n');
                self.srvr(around, &mut text);
                text = text.replacen(&format!("Zookeeper version: {VERSION}\nLatency"), "Latency", 1);
            }
            b"mntr" => self.mntr(around, &mut text),
            b"conf" => around.settings.iter().for_each(|(name, value)| {
                let _ = writeln!(text, "{name}={value}");
            }),
            b"cons" => self.cons(around, now, &mut text),
            b"crst" => {
                self.reset_connections();
                text.push_str("Connection stats reset.\n");
            }
            b"srst" => {
                self.reset_counts();
                text.push_str("Server stats reset.\n");
            }
            b"dirs" => {
                let _ = write!(text, "datadir_size: {0}\nlogdir_size: {0}\n", around.data_bytes);
            }
            b"envi" => {
                text.push_str("Environment:\n");
                environment().iter().for_each(|(name, value)| _ = writeln!(text, "{name}={value}"));
            }
            b"dump" => self.dump(&mut text),
            b"wchs" => {
                let (conns, paths, total) = self.watch_counts();
                let _ = write!(text, "{conns} connections watching {paths} paths\nTotal watches:{total}\n");
            }
            b"wchc" => self.wchc(&mut text),
            b"wchp" => self.wchp(&mut text),
            _ => return None,
        }
        Some(text)
    }

    fn srvr(&self, around: &Around, text: &mut String) {
        let Counts { received, sent, latency, .. } = self.counts;
        let (min, max, mean) = latency.milliseconds();
        let _ = write!(
            text,
            "Zookeeper version: {VERSION}\nLatency min/avg/max: {min}/{mean:.4}/{max}\nReceived: {received}\nSent: {sent}\n\
             Connections: {}\nOutstanding: {}\nZxid: {:#x}\nMode: {}\nNode count: {}\n",
            self.conns.len(),
            self.outstanding(),
            self.state.zxid(),
            around.role.name(),
            self.count().unwrap_or_default().nodes,
        );
    }

    fn mntr(&self, around: &Around, text: &mut String) {
        let _ = write!(text, "zk_version\t{VERSION}\nzk_server_state\t{}\n", around.role.name());
        for (name, number) in self.numbers(around) {
            let _ = writeln!(text, "zk_{name}\t{number}");
        }
    }

    fn cons(&self, around: &Around, now: Now, text: &mut String) {
        for (id, conn) in self.conns_in_order() {
            let address = around.addresses.get(&id).map_or("", String::as_str);
            let _ = writeln!(
                text,
                " /{address}[1](queued={},recved={},sent={},sid={:#x},to={},lresp={})",
                conn.len(),
                conn.received,
                conn.sent,
                conn.caller.session,
                conn.timeout_ms,
                now.time.since(conn.heard).millis(),
            );
        }
    }

    fn dump(&self, text: &mut String) {
        let _ = writeln!(text, "Sessions at this server ({}):", self.owned.iter().count());
        let mut room = Room::new();
        for (session, own) in self.owned.iter().filter(|_| room.takes(0)) {
            let _ = writeln!(text, "{session:#x}\t{}ms", own.timeout_ms);
        }
        room.end(text);
        let Some(view) = self.state.view() else { return };
        let _ = writeln!(text, "ephemeral nodes dump:");
        let mut room = Room::new();
        for (session, paths) in self.ephemerals(&view, &mut room) {
            let _ = writeln!(text, "{session:#x}:");
            paths.iter().for_each(|path| _ = writeln!(text, "\t{path}"));
        }
        room.end(text);
    }

    fn wchc(&self, text: &mut String) {
        let mut room = Room::new();
        for (session, paths) in self.watched(&mut room) {
            let _ = writeln!(text, "{session:#x}");
            paths.iter().for_each(|path| _ = writeln!(text, "\t{path}"));
        }
        room.end(text);
    }

    fn wchp(&self, text: &mut String) {
        let mut room = Room::new();
        for (path, sessions) in self.watchers(&mut room) {
            let _ = writeln!(text, "{path}");
            sessions.iter().for_each(|session| _ = writeln!(text, "\t{session:#x}"));
        }
        room.end(text);
    }
}

/// What words say, and commands over HTTP, too.
impl Server {
    /// How much there is in the tree; none while clients may see nothing.
    pub(super) fn count(&self) -> Option<Count> {
        self.state.view().map(|view: StateView<'_>| service::count(&view))
    }

    pub(super) fn outstanding(&self) -> usize {
        self.conns.values().map(super::Conn::len).sum()
    }

    pub(super) fn reset_connections(&mut self) {
        self.conns.values_mut().for_each(|conn| (conn.received, conn.sent) = (0, 0));
    }

    pub(super) fn reset_counts(&mut self) {
        self.counts = Counts { took: self.counts.took, ..Counts::default() };
    }

    /// All numbers that programs watch, by ZooKeeper's names. Those of the tree are missing while clients may see nothing.
    pub(super) fn numbers(&self, around: &Around) -> Vec<(&'static str, Number)> {
        let Counts { received, sent, latency, .. } = self.counts;
        let (min, max, mean) = latency.milliseconds();
        let mut numbers = vec![
            ("avg_latency", Number::Mean(mean)),
            ("max_latency", Number::Whole(max)),
            ("min_latency", Number::Whole(min)),
            ("packets_received", Number::Whole(received)),
            ("packets_sent", Number::Whole(sent)),
        ];
        let mut add = |name, number: usize| numbers.push((name, Number::Whole(number as u64)));
        add("num_alive_connections", self.conns.len());
        add("outstanding_requests", self.outstanding());
        let count = self.count();
        if let Some(Count { nodes, .. }) = count {
            add("znode_count", nodes as usize);
        }
        add("watch_count", self.watches.count());
        if let Some(Count { ephemerals, bytes, .. }) = count {
            add("ephemerals_count", ephemerals as usize);
            add("approximate_data_size", bytes as usize);
        }
        add("global_sessions", self.owned.iter().count());
        if around.role == Role::Leader {
            let (followers, observers) = (around.followers, around.observers.len());
            add("learners", followers + observers);
            add("synced_followers", followers);
            add("synced_observers", observers);
        }
        numbers.push(("uptime", Number::Whole(around.uptime_ms)));
        numbers
    }

    /// All connections, in the order in which they came.
    pub(super) fn conns_in_order(&self) -> BTreeMap<ConnId, &super::Conn> {
        self.conns.iter().map(|(id, conn)| (*id, conn)).collect()
    }

    /// How many connections watch something, how many paths are watched, and how many watches there are.
    pub(super) fn watch_counts(&self) -> (usize, usize, usize) {
        let conns = self.conns.keys().filter(|conn| self.watches.of(**conn).next().is_some()).count();
        (conns, self.watches.by_path().count(), self.watches.count())
    }

    /// The paths that each session watches.
    pub(super) fn watched(&self, room: &mut Room) -> Vec<(i64, Vec<&str>)> {
        let mut all = Vec::new();
        for (id, conn) in self.conns_in_order() {
            if room.is_full() {
                break;
            }
            let mut paths: Vec<&str> = self.watches.of(id).map(|(path, _)| path).collect();
            paths.sort_unstable();
            paths.retain(|path| room.takes(path.len()));
            if !paths.is_empty() {
                all.push((conn.caller.session, paths));
            }
        }
        room.count_all(self.watches.count());
        all
    }

    /// The sessions that watch each path. The paths that are left out are any.
    pub(super) fn watchers(&self, room: &mut Room) -> BTreeMap<&str, Vec<i64>> {
        let mut all = BTreeMap::new();
        for (path, conns) in self.watches.by_path() {
            if room.is_full() {
                break;
            }
            let sessions = conns.filter_map(|conn| self.conns.get(&conn));
            let sessions = sessions.map(|conn| conn.caller.session).filter(|_| room.takes(path.len()));
            let sessions: Vec<i64> = sessions.collect();
            if !sessions.is_empty() {
                all.insert(path, sessions);
            }
        }
        room.count_all(self.watches.count());
        all
    }

    /// The ephemeral nodes of the sessions at this server. Once the room is full, a session counts as one entry, whatever it has.
    pub(super) fn ephemerals(&self, view: &StateView<'_>, room: &mut Room) -> Vec<(i64, Vec<String>)> {
        let mut all = Vec::new();
        for (session, _) in self.owned.iter() {
            if room.takes(0) {
                let mut paths = tree::ephemerals(view, session, b"");
                paths.retain(|path| room.takes(path.len()));
                all.push((session, paths));
            }
        }
        all.retain(|(_, paths)| !paths.is_empty());
        all
    }
}

/// What is known of where the server runs, by Java's names.
pub(super) fn environment() -> [(&'static str, &'static str); 3] {
    [("zookeeper.version", VERSION), ("os.name", std::env::consts::OS), ("os.arch", std::env::consts::ARCH)]
}
