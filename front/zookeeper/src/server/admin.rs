//! The admin server's commands: what operators and their programs ask a server for over HTTP, as JSON.
//!
//! The names and fields are those of ZooKeeper; a field of what a server of ours does not have is left out. The numbers and lists are those
//! of `words.rs`. Source: `org.apache.zookeeper.server.admin.Commands` of Apache ZooKeeper 3.9.4. Tests: tests/all/admin.rs.

use super::words::{Number, Room, environment};
use super::{Around, Conn, Role, Server, VERSION};
use crate::members::Member;
use crate::service;
use quorate_types::{Span, Time};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What ZooKeeper answers while it has no quorum.
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests";
/// What it answers of a leader where there is no quorum to lead.
const ALONE: &str = "server is not initialized";

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admin {
    /// The settings.
    Configuration,
    /// Begins the counts of all connections anew.
    ConnectionStatReset,
    /// The connections, with all that is known of them.
    Connections,
    /// The bytes of the replica's files.
    Dirs,
    /// The sessions here, and their ephemeral nodes.
    Dump,
    /// Where the server runs.
    Environment,
    /// Always ZooKeeper's default.
    GetTraceMask,
    /// Whether it only answers reads.
    IsReadOnly,
    /// Who leads.
    Leader,
    /// All numbers.
    Monitor,
    /// Who learns from this leader.
    Observers,
    /// Whether it runs.
    Ruok,
    /// The numbers of the server.
    ServerStats,
    /// Begins the counts of the server anew.
    StatReset,
    /// The numbers of the server, and its connections.
    Stats,
    /// Who votes.
    VotingView,
    /// How many watches there are.
    WatchSummary,
    /// The paths that each session watches.
    Watches,
    /// The sessions that watch each path.
    WatchesByPath,
    /// What the server is in its cluster.
    ZabState,
}

/// The commands, each by its name and then by the others.
const COMMANDS: [(Admin, &[&str]); 20] = [
    (Admin::Configuration, &["configuration", "conf", "config"]),
    (Admin::ConnectionStatReset, &["connection_stat_reset", "crst"]),
    (Admin::Connections, &["connections", "cons"]),
    (Admin::Dirs, &["dirs"]),
    (Admin::Dump, &["dump"]),
    (Admin::Environment, &["environment", "env", "envi"]),
    (Admin::GetTraceMask, &["get_trace_mask", "gtmk"]),
    (Admin::IsReadOnly, &["is_read_only", "isro"]),
    (Admin::Leader, &["leader", "lead"]),
    (Admin::Monitor, &["monitor", "mntr"]),
    (Admin::Observers, &["observers", "obsr"]),
    (Admin::Ruok, &["ruok"]),
    (Admin::ServerStats, &["server_stats", "srvr"]),
    (Admin::StatReset, &["stat_reset", "srst"]),
    (Admin::Stats, &["stats", "stat"]),
    (Admin::VotingView, &["voting_view"]),
    (Admin::WatchSummary, &["watch_summary", "wchs"]),
    (Admin::Watches, &["watches", "wchc"]),
    (Admin::WatchesByPath, &["watches_by_path", "wchp"]),
    (Admin::ZabState, &["zabstate"]),
];

/// Commands of ZooKeeper that are not supported, and why.
const UNSUPPORTED: [(&[&str], &str); 6] = [
    (&["hash"], "the tree has no digests"),
    (&["initial_configuration", "icfg"], "the configuration of a replica is another one"),
    (&["observer_connection_stat_reset", "orst"], "connections of members have no counts"),
    (&["restore", "rest"], "`quorate backup restore` does that"),
    (&["set_trace_mask", "stmk"], "there is no trace to choose parts of"),
    (&["system_properties", "sysp"], "there is no Java"),
];

impl Admin {
    /// The command with this name.
    pub fn named(name: &str) -> Option<Self> {
        COMMANDS.iter().find(|(_, names)| names.contains(&name)).map(|(command, _)| *command)
    }

    /// Why there is no command with this name, if it is one of ZooKeeper's.
    pub fn lacks(name: &str) -> Option<&'static str> {
        UNSUPPORTED.iter().find(|(names, _)| names.contains(&name)).map(|(_, why)| *why)
    }

    /// The names of all commands, one for each, in their order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        COMMANDS.iter().filter_map(|(_, names)| names.first().copied())
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        let own = COMMANDS.iter().find(|(command, _)| *command == self);
        own.and_then(|(_, names)| names.first().copied()).unwrap_or_default()
    }

    /// Whether it wants to know [`Around::data_bytes`].
    pub fn counts_bytes(self) -> bool {
        matches!(self, Self::Dirs | Self::ServerStats | Self::Stats)
    }

    /// Whether it is answered while clients are not served, too.
    fn is_always_answered(self) -> bool {
        matches!(self, Self::Environment | Self::GetTraceMask | Self::Monitor | Self::ZabState)
    }
}

type Fields = Map<String, Value>;

impl Server {
    /// The answer to a command: an object.
    pub fn admin(&mut self, command: Admin, around: &Around) -> Value {
        let mut error = Value::Null;
        let mut fields = Fields::new();
        if !self.serves(around) && !command.is_always_answered() {
            error = NOT_SERVING.into();
        } else if command == Admin::Leader && around.role == Role::Standalone {
            error = ALONE.into();
        } else {
            fields = self.fields(command, around);
        }
        fields.insert("command".to_owned(), command.name().into());
        fields.insert("error".to_owned(), error);
        Value::Object(fields)
    }

    /// Whether ZooKeeper would serve clients: it knows a leader, or that it serves without one.
    fn serves(&self, around: &Around) -> bool {
        self.state.view().is_some() && (around.leader.is_some() || self.only_reads)
    }

    /// All numbers, as Prometheus reads them.
    pub fn metrics(&self, around: &Around) -> String {
        let mut text = String::new();
        for (name, number) in self.numbers(around) {
            let _ = write!(text, "# HELP {name} {name}\n# TYPE {name} gauge\n{name} {number}\n");
        }
        text
    }

    fn fields(&mut self, command: Admin, around: &Around) -> Fields {
        let value = match command {
            Admin::Ruok => json!({}),
            Admin::ConnectionStatReset => {
                self.reset_connections();
                json!({})
            }
            Admin::StatReset => {
                self.reset_counts();
                json!({})
            }
            Admin::Configuration => return configuration(around),
            Admin::Environment => {
                return environment()
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value.into()))
                    .collect();
            }
            Admin::GetTraceMask => json!({ "tracemask": 306 }),
            Admin::IsReadOnly => json!({ "read_only": self.only_reads }),
            Admin::Dirs => json!({ "datadir_size": around.data_bytes, "logdir_size": around.data_bytes }),
            Admin::Leader => leader(around),
            Admin::Observers => observers(around),
            Admin::Monitor => return self.monitor(around),
            Admin::ServerStats => self.server_stats(around),
            Admin::Stats => {
                let mut fields = self.connections(around, true);
                if let Value::Object(stats) = self.server_stats(around) {
                    fields.extend(stats);
                }
                return fields;
            }
            Admin::Connections => return self.connections(around, false),
            Admin::Dump => return self.dumped(),
            Admin::VotingView => json!({ "current_config": self.voters() }),
            Admin::WatchSummary => {
                let (conns, paths, total) = self.watch_counts();
                json!({ "num_connections": conns, "num_paths": paths, "num_total_watches": total })
            }
            Admin::Watches => return self.watches_by_session(),
            Admin::WatchesByPath => return self.watches_by_path(),
            Admin::ZabState => self.zab_state(around),
        };
        match value {
            Value::Object(fields) => fields,
            _ => Fields::new(),
        }
    }

    fn monitor(&self, around: &Around) -> Fields {
        let numbers = self.numbers(around).into_iter().map(|(name, number)| (name.to_owned(), value(number)));
        let texts = [("version", VERSION), ("server_state", around.role.name())];
        let texts = texts.into_iter().map(|(name, text)| (name.to_owned(), text.into()));
        texts.chain(numbers).collect()
    }

    fn server_stats(&self, around: &Around) -> Value {
        let (min, max, mean) = self.counts.latency.milliseconds();
        json!({
            "version": VERSION,
            "read_only": self.only_reads,
            "node_count": self.count().unwrap_or_default().nodes,
            "server_stats": {
                "packets_sent": self.counts.sent,
                "packets_received": self.counts.received,
                "data_dir_size": around.data_bytes,
                "log_dir_size": around.data_bytes,
                "last_processed_zxid": self.state.zxid(),
                "outstanding_requests": self.outstanding(),
                "server_state": around.role.name(),
                "avg_latency": value(Number::Mean(mean)),
                "max_latency": max,
                "min_latency": min,
                "num_alive_client_connections": self.conns.len(),
                "uptime": around.uptime_ms,
            },
        })
    }
}

/// Lists.
impl Server {
    fn connections(&self, around: &Around, is_brief: bool) -> Fields {
        let (mut plain, mut safe, mut room) = (Vec::new(), Vec::new(), Room::new());
        for (id, conn) in self.conns_in_order() {
            // An entry has several names and numbers.
            if room.takes(256) {
                let address = around.addresses.get(&id).map_or("", String::as_str);
                let list = if around.safe.contains(&id) { &mut safe } else { &mut plain };
                list.push(connection(conn, address, is_brief));
            }
        }
        let lists = [("connections", plain.into()), ("secure_connections", safe.into())];
        listed(lists, room)
    }

    fn watches_by_session(&self) -> Fields {
        let mut room = Room::new();
        let lists: Fields = self.watched(&mut room).into_iter().map(by_session).collect();
        listed([("session_id_to_watched_paths", lists.into())], room)
    }

    fn watches_by_path(&self) -> Fields {
        let mut room = Room::new();
        let lists = self.watchers(&mut room).into_iter();
        let lists: Fields = lists.map(|(path, sessions)| (path.to_owned(), sessions.into())).collect();
        listed([("path_to_session_ids", lists.into())], room)
    }

    fn dumped(&self) -> Fields {
        let mut room = Room::new();
        let mut ends: BTreeMap<u64, Vec<i64>> = BTreeMap::new();
        for (session, own) in self.owned.iter().filter(|_| room.takes(0)) {
            let end = own.heard.plus(Span::from_millis(u64::try_from(own.timeout_ms).unwrap_or(0)));
            ends.entry(end.since(Time::ZERO).millis()).or_default().push(session);
        }
        let ends: Fields = ends.into_iter().map(|(at, list)| (at.to_string(), list.into())).collect();
        let paths = self.state.view().map(|view| self.ephemerals(&view, &mut room)).unwrap_or_default();
        let paths: Fields = paths.into_iter().map(by_session).collect();
        let lists =
            [("expiry_time_to_session_ids", ends.into()), ("session_id_to_ephemeral_paths", paths.into())];
        listed(lists, room)
    }

    /// Who votes, as clients read it in `/zookeeper/config`.
    fn voters(&self) -> Fields {
        let members = self.state.view().map(|view| service::members(&view)).unwrap_or_default();
        // A single member is not shown to clients, either.
        let shown = members.list.iter().filter(|member| members.list.len() > 1 && !member.learner);
        let voter = |member: &Member| {
            let about = json!({
                "server_addresses": [member.address],
                "election_addresses": [member.elections()],
                "client_address": member.clients.as_deref().unwrap_or_default(),
                "learner_type": "participant",
            });
            (member.replica.to_string(), about)
        };
        shown.map(voter).collect()
    }

    fn zab_state(&self, around: &Around) -> Value {
        if around.role == Role::Standalone {
            return json!({ "voting": false, "zabstate": "" });
        }
        let members = self.state.view().map(|view| service::members(&view)).unwrap_or_default();
        let own = members.list.into_iter().find(|member| member.replica == i32::from(around.replica));
        json!({
            "myid": around.replica,
            "is_leader": around.role == Role::Leader,
            "client_address": own.and_then(|own| own.clients).unwrap_or_default(),
            "voting": around.role != Role::Observer,
            "last_zxid": format!("{:#x}", self.state.zxid()),
            "zabstate": if self.serves(around) { "broadcast" } else { "election" },
        })
    }
}

/// Lists, and how many entries are left out of them, if any are.
fn listed<const N: usize>(lists: [(&str, Value); N], room: Room) -> Fields {
    let mut fields: Fields = lists.into_iter().map(|(name, list)| (name.to_owned(), list)).collect();
    if room.left_out() > 0 {
        fields.insert("left_out".to_owned(), room.left_out().into());
    }
    fields
}

fn by_session<T: Into<Value>>((session, list): (i64, Vec<T>)) -> (String, Value) {
    (session.to_string(), list.into())
}

fn connection(conn: &Conn, address: &str, is_brief: bool) -> Value {
    let mut about = json!({
        "remote_socket_address": address,
        "outstanding_requests": conn.len(),
        "packets_received": conn.received,
        "packets_sent": conn.sent,
    });
    if !is_brief {
        about["session_id"] = conn.caller.session.into();
        about["session_timeout"] = conn.timeout_ms.into();
    }
    about
}

fn value(number: Number) -> Value {
    match number {
        Number::Whole(number) => number.into(),
        Number::Mean(number) => ((number * 1e4).round() / 1e4).into(),
    }
}

fn configuration(around: &Around) -> Fields {
    let setting = |(name, text): &(&str, String)| {
        let value = text.parse::<i64>().map_or_else(|_| text.as_str().into(), Value::from);
        (snake(name), value)
    };
    around.settings.iter().map(setting).collect()
}

/// A name of a setting as JSON has it: `tick_time` for `tickTime`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

fn leader(around: &Around) -> Value {
    let (id, address) = match &around.leader {
        Some((id, address)) => (i64::from(*id), address.as_str()),
        None => (-1, ""),
    };
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    json!({ "is_leader": around.role == Role::Leader, "leader_id": id, "leader_ip": host })
}

fn observers(around: &Around) -> Value {
    let list = around.observers.iter();
    let list = list.map(|(id, address)| json!({ "sid": id, "remote_socket_address": address }));
    json!({ "synced_observers": around.observers.len(), "observers": list.collect::<Vec<_>>() })
}
