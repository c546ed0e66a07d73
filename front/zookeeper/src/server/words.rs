//! Four-letter words: what operators and their programs ask a server for, as text.
//!
//! The texts are those that ZooKeeper's `stat`, `mntr` and others give, as far as programs parse them; what a server of ours does not have is
//! left out. Source: `org.apache.zookeeper.server.command` of Apache ZooKeeper 3.9.4. Tests: tests/all/words.rs.

use super::{Now, Server};
use crate::service;
use crate::tree::Count;
use quorate_execute::StateView;
use quorate_types::{Span, Time};
use std::collections::BTreeMap;
use std::fmt::Write as _;

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
}

impl Role {
    const fn name(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Follower => "follower",
            Self::Observer => "observer",
            Self::Standalone => "standalone",
        }
    }
}

/// What the caller of a word knows, and the server does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Around {
    /// What the replica is.
    pub role: Role,
    /// How many other replicas vote, if it leads.
    pub followers: usize,
    /// Settings, as `name=value`.
    pub settings: Vec<(&'static str, String)>,
    /// The bytes of the replica's files.
    pub data_bytes: u64,
    /// The addresses of connections.
    pub addresses: BTreeMap<super::ConnId, String>,
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

    fn average_ms(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum.nanos() as f64 / 1e6 / self.count as f64 }
    }
}

/// Counts since the start, or since they were reset.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) received: u64,
    pub(super) sent: u64,
    pub(super) latency: Latency,
}

impl Server {
    /// The answer to a word; none if it is not known.
    pub fn word(&mut self, word: [u8; 4], around: &Around, now: Now) -> Option<String> {
        let mut text = String::new();
        match &word {
            b"ruok" => text.push_str("imok"),
            b"isro" => text.push_str("rw"),
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
                self.conns.values_mut().for_each(|conn| (conn.received, conn.sent) = (0, 0));
                text.push_str("Connection stats reset.\n");
            }
            b"srst" => {
                self.counts = Counts::default();
                text.push_str("Server stats reset.\n");
            }
            b"dirs" => {
                let _ = write!(text, "datadir_size: {0}\nlogdir_size: {0}\n", around.data_bytes);
            }
            b"envi" => envi(&mut text),
            b"dump" => self.dump(&mut text),
            b"wchs" => {
                let conns = self.conns.keys().filter(|conn| self.watches.of(**conn).next().is_some()).count();
                let paths = self.watches.by_path().count();
                let total = self.watches.count();
                let _ = write!(text, "{conns} connections watching {paths} paths\nTotal watches:{total}\n");
            }
            b"wchc" => self.wchc(&mut text),
            b"wchp" => self.wchp(&mut text),
            _ => return None,
        }
        Some(text)
    }

    fn count(&self) -> Count {
        self.state.view().map(|view: StateView<'_>| service::count(&view)).unwrap_or_default()
    }

    fn outstanding(&self) -> usize {
        self.conns.values().map(super::Conn::len).sum()
    }

    fn srvr(&self, around: &Around, text: &mut String) {
        let Counts { received, sent, latency } = self.counts;
        let _ = write!(
            text,
            "Zookeeper version: {VERSION}\nLatency min/avg/max: {}/{:.4}/{}\nReceived: {received}\nSent: {sent}\nConnections: {}\n\
             Outstanding: {}\nZxid: {:#x}\nMode: {}\nNode count: {}\n",
            latency.min.millis(),
            latency.average_ms(),
            latency.max.millis(),
            self.conns.len(),
            self.outstanding(),
            self.state.zxid(),
            around.role.name(),
            self.count().nodes,
        );
    }

    fn mntr(&self, around: &Around, text: &mut String) {
        let Counts { received, sent, latency } = self.counts;
        let count = self.count();
        let numbers = [
            ("max_latency", latency.max.millis()),
            ("min_latency", latency.min.millis()),
            ("packets_received", received),
            ("packets_sent", sent),
            ("num_alive_connections", self.conns.len() as u64),
            ("outstanding_requests", self.outstanding() as u64),
        ];
        let tree = [
            ("znode_count", count.nodes as u64),
            ("watch_count", self.watches.count() as u64),
            ("ephemerals_count", count.ephemerals as u64),
            ("approximate_data_size", count.bytes as u64),
            ("global_sessions", self.owned.iter().count() as u64),
        ];
        let _ = write!(text, "zk_version\t{VERSION}\nzk_server_state\t{}\n", around.role.name());
        let _ = writeln!(text, "zk_avg_latency\t{:.4}", latency.average_ms());
        for (name, number) in numbers.into_iter().chain(tree) {
            let _ = writeln!(text, "zk_{name}\t{number}");
        }
        if around.role == Role::Leader {
            let followers = around.followers;
            let _ = write!(text, "zk_learners\t{followers}\nzk_synced_followers\t{followers}\n");
        }
    }

    fn cons(&self, around: &Around, now: Now, text: &mut String) {
        for (id, conn) in self.conns.iter().collect::<BTreeMap<_, _>>() {
            let address = around.addresses.get(id).map_or("", String::as_str);
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
        let sessions: Vec<i64> = self.owned.iter().map(|(session, _)| session).collect();
        let _ = writeln!(text, "Sessions at this server ({}):", sessions.len());
        for (session, own) in self.owned.iter() {
            let _ = writeln!(text, "{session:#x}\t{}ms", own.timeout_ms);
        }
        let Some(view) = self.state.view() else { return };
        let _ = writeln!(text, "ephemeral nodes dump:");
        for session in sessions {
            let paths = crate::tree::ephemerals(&view, session, b"");
            if !paths.is_empty() {
                let _ = writeln!(text, "{session:#x}:");
                paths.iter().for_each(|path| _ = writeln!(text, "\t{path}"));
            }
        }
    }

    fn wchc(&self, text: &mut String) {
        for (id, conn) in self.conns.iter().collect::<BTreeMap<_, _>>() {
            let mut paths: Vec<&str> = self.watches.of(*id).map(|(path, _)| path).collect();
            paths.sort_unstable();
            if !paths.is_empty() {
                let _ = writeln!(text, "{:#x}", conn.caller.session);
                paths.iter().for_each(|path| _ = writeln!(text, "\t{path}"));
            }
        }
    }

    fn wchp(&self, text: &mut String) {
        for (path, conns) in self.watches.by_path().collect::<BTreeMap<_, _>>() {
            let _ = writeln!(text, "{path}");
            for conn in conns.filter_map(|conn| self.conns.get(&conn)) {
                let _ = writeln!(text, "\t{:#x}", conn.caller.session);
            }
        }
    }
}

fn envi(text: &mut String) {
    let _ = write!(
        text,
        "Environment:\nzookeeper.version={VERSION}\nos.name={}\nos.arch={}\n",
        std::env::consts::OS,
        std::env::consts::ARCH
    );
}
