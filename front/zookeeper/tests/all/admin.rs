//! The admin server's commands: the fields that programs look for, and numbers that are those of the words.

use crate::support::cluster::Cluster;
use crate::support::{made, read};
use quorate_zookeeper::members::{Member, Members};
use quorate_zookeeper::op::Op;
use quorate_zookeeper::records::Acl;
use quorate_zookeeper::request::Request;
use quorate_zookeeper::server::{Admin, Around, ConnId, Role};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A server with a client that has an ephemeral node, and watches it.
struct World {
    cluster: Cluster,
    conn: ConnId,
    session: i64,
    around: Around,
}

impl World {
    fn new() -> Self {
        let mut cluster = Cluster::new(1);
        let (conn, session, _) = cluster.client(0);
        cluster.send(0, conn, 1, &made(Op::Create, "/e", Some(b"abc"), 1, &[Acl::OPEN], 0));
        cluster.send(0, conn, 2, &Request::Read { op: Op::GetData, path: b"/e", watch: true });
        cluster.send(0, conn, 3, &read(Op::Exists, "/"));
        let around = Around {
            replica: 2,
            role: Role::Leader,
            leader: Some((2, "10.0.0.2:7000".into())),
            followers: 2,
            observers: vec![(4, "10.0.0.4:7000".into())],
            settings: vec![("clientPort", "2181".into()), ("maxClientCnxns", "60".into())],
            data_bytes: 4096,
            uptime_ms: 77,
            addresses: BTreeMap::from([(conn, "10.0.0.9:5000".into())]),
            safe: BTreeSet::new(),
        };
        Self { cluster, conn, session, around }
    }

    fn ask(&mut self, name: &str) -> Value {
        let command = Admin::named(name).unwrap_or_else(|| panic!("{name} is not known"));
        self.cluster.admin(0, command, &self.around)
    }
}

/// The names of an object's fields, in order.
fn fields(object: &Value) -> Vec<&str> {
    object.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn each_command_has_zookeepers_names_and_fields() {
    let mut world = World::new();
    for (names, expected) in [
        (&["configuration", "conf", "config"][..], &["client_port", "max_client_cnxns"][..]),
        (&["connection_stat_reset", "crst"], &[]),
        (&["connections", "cons"], &["connections", "secure_connections"]),
        (&["dirs"], &["datadir_size", "logdir_size"]),
        (&["dump"], &["expiry_time_to_session_ids", "session_id_to_ephemeral_paths"]),
        (&["environment", "env", "envi"], &["os.arch", "os.name", "zookeeper.version"]),
        (&["get_trace_mask", "gtmk"], &["tracemask"]),
        (&["is_read_only", "isro"], &["read_only"]),
        (&["leader", "lead"], &["is_leader", "leader_id", "leader_ip"]),
        (
            &["monitor", "mntr"],
            &[
                "approximate_data_size",
                "avg_latency",
                "ephemerals_count",
                "global_sessions",
                "learners",
                "max_latency",
                "min_latency",
                "num_alive_connections",
                "outstanding_requests",
                "packets_received",
                "packets_sent",
                "server_state",
                "synced_followers",
                "synced_observers",
                "uptime",
                "version",
                "watch_count",
                "znode_count",
            ],
        ),
        (&["observers", "obsr"], &["observers", "synced_observers"]),
        (&["ruok"], &[]),
        (&["server_stats", "srvr"], &["node_count", "read_only", "server_stats", "version"]),
        (&["stat_reset", "srst"], &[]),
        (
            &["stats", "stat"],
            &["connections", "node_count", "read_only", "secure_connections", "server_stats", "version"],
        ),
        (&["voting_view"], &["current_config"]),
        (&["watch_summary", "wchs"], &["num_connections", "num_paths", "num_total_watches"]),
        (&["watches", "wchc"], &["session_id_to_watched_paths"]),
        (&["watches_by_path", "wchp"], &["path_to_session_ids"]),
        (&["zabstate"], &["client_address", "is_leader", "last_zxid", "myid", "voting", "zabstate"]),
    ] {
        let mut expected: Vec<&str> = expected.iter().chain(&["command", "error"]).copied().collect();
        expected.sort_unstable();
        for name in names {
            let answer = world.ask(name);
            assert_eq!(fields(&answer), expected, "{name}");
            assert_eq!((&answer["command"], &answer["error"]), (&json!(names[0]), &Value::Null));
        }
        assert!(Admin::names().any(|name| name == names[0]), "{names:?} is listed");
    }
    assert_eq!(Admin::names().count(), 20);
    assert!(Admin::named("RUOK").is_none() && Admin::named("").is_none() && Admin::named("stmk").is_none());
    assert_eq!(Admin::lacks("stmk"), Admin::lacks("set_trace_mask"));
    assert!(Admin::lacks("stmk").is_some() && Admin::lacks("nope").is_none());
}

#[test]
fn commands_tell_what_there_is() {
    let mut world = World::new();
    let (session, text) = (world.session, world.session.to_string());
    let mut is = |name: &str, expected: Value| {
        let mut answer = world.ask(name);
        let answer = answer.as_object_mut().expect("an object");
        answer.remove("command");
        answer.remove("error");
        assert_eq!(Value::from(answer.clone()), expected, "{name}");
    };
    is("conf", json!({ "client_port": 2181, "max_client_cnxns": 60 }));
    is("dirs", json!({ "datadir_size": 4096, "logdir_size": 4096 }));
    is("gtmk", json!({ "tracemask": 306 }));
    is("isro", json!({ "read_only": false }));
    is("leader", json!({ "is_leader": true, "leader_id": 2, "leader_ip": "10.0.0.2" }));
    let observer = json!({ "sid": 4, "remote_socket_address": "10.0.0.4:7000" });
    is("observers", json!({ "synced_observers": 1, "observers": [observer] }));
    is("wchs", json!({ "num_connections": 1, "num_paths": 1, "num_total_watches": 1 }));
    is("watches", json!({ "session_id_to_watched_paths": { &text: ["/e"] } }));
    is("watches_by_path", json!({ "path_to_session_ids": { "/e": [session] } }));
    let ends = ((1 << 20) + 10_000).to_string();
    is(
        "dump",
        json!({
            "expiry_time_to_session_ids": { ends: [session] },
            "session_id_to_ephemeral_paths": { &text: ["/e"] },
        }),
    );
    let brief = json!({
        "remote_socket_address": "10.0.0.9:5000",
        "outstanding_requests": 0,
        "packets_received": 4,
        "packets_sent": 4,
    });
    let mut whole = brief.clone();
    (whole["session_id"], whole["session_timeout"]) = (session.into(), 10_000.into());
    is("connections", json!({ "connections": [whole], "secure_connections": [] }));
    world.around.safe.insert(world.conn);
    let stats = world.ask("stats");
    assert_eq!((&stats["connections"], &stats["secure_connections"]), (&json!([]), &json!([brief])));
    assert_eq!(stats["server_stats"], world.ask("server_stats")["server_stats"]);
    for (name, number) in [
        ("packets_sent", 4),
        ("packets_received", 4),
        ("data_dir_size", 4096),
        ("log_dir_size", 4096),
        ("last_processed_zxid", 2),
        ("outstanding_requests", 0),
        ("max_latency", 0),
        ("min_latency", 0),
        ("num_alive_client_connections", 1),
        ("uptime", 77),
    ] {
        assert_eq!(stats["server_stats"][name], number, "{name}");
    }
    assert_eq!((&stats["node_count"], &stats["server_stats"]["server_state"]), (&json!(6), &json!("leader")));
}

#[test]
fn numbers_are_those_of_mntr() {
    let mut world = World::new();
    let words = world.cluster.word(0, b"mntr", &world.around).expect("known");
    let (monitor, metrics) = (world.ask("monitor"), world.cluster.metrics(0, &world.around));
    let mut count = 0;
    for line in words.lines() {
        let (name, value) = line.split_once('\t').expect("a name and a value");
        let name = name.strip_prefix("zk_").expect("they all begin so");
        count += 1;
        match value.parse::<f64>() {
            Ok(number) => {
                assert_eq!(monitor[name].as_f64(), Some(number), "{name}");
                assert!(metrics.contains(&format!("# TYPE {name} gauge\n{name} {value}\n")), "{metrics}");
            }
            Err(_) => assert_eq!(monitor[name], value),
        }
    }
    assert_eq!(count + 2, fields(&monitor).len(), "but for the command and the error");
    assert_eq!(metrics.lines().count(), 3 * (count - 2), "texts are no metrics");
    assert!(
        words.contains("zk_learners\t3\nzk_synced_followers\t2\nzk_synced_observers\t1\nzk_uptime\t77\n")
    );
}

#[test]
fn resets_begin_counts_anew() {
    let mut world = World::new();
    world.ask("stat_reset");
    let stats = world.ask("stats");
    assert_eq!(
        (&stats["server_stats"]["packets_sent"], &stats["connections"][0]["packets_sent"]),
        (&json!(0), &json!(4))
    );
    world.ask("connection_stat_reset");
    assert_eq!(world.ask("stats")["connections"][0]["packets_received"], 0);
}

#[test]
fn voters_are_those_of_the_configuration() {
    let mut world = World::new();
    let member = |replica: i32, learner| Member {
        replica,
        learner,
        address: format!("10.0.0.{replica}:7000"),
        clients: (replica == 2).then(|| "10.0.0.2:2181".into()),
    };
    let one = Members { cluster: 9, number: 1, list: vec![member(2, false)] };
    world.cluster.say(2, &one);
    assert_eq!(world.ask("voting_view")["current_config"], json!({}), "nobody sees a single one");
    let list = vec![member(1, false), member(2, false), member(4, true)];
    world.cluster.say(2, &Members { cluster: 9, number: 2, list });
    let voter = |host: &str, clients: &str| {
        json!({
            "server_addresses": [format!("{host}:7000")],
            "election_addresses": [format!("{host}:7001")],
            "client_address": clients,
            "learner_type": "participant",
        })
    };
    let expected = json!({ "1": voter("10.0.0.1", ""), "2": voter("10.0.0.2", "10.0.0.2:2181") });
    assert_eq!(world.ask("voting_view")["current_config"], expected);
    let state = world.ask("zabstate");
    assert_eq!(
        (&state["myid"], &state["voting"], &state["zabstate"]),
        (&json!(2), &json!(true), &json!("broadcast"))
    );
    assert_eq!(state["client_address"], "10.0.0.2:2181");
    assert!(state["last_zxid"].as_str().is_some_and(|zxid| zxid.starts_with("0x")), "{state}");
}

#[test]
fn a_server_alone_has_no_leader() {
    let mut world = World::new();
    world.around.role = Role::Standalone;
    assert_eq!(world.ask("leader"), json!({ "command": "leader", "error": "server is not initialized" }));
    assert_eq!(world.ask("zabstate")["zabstate"], "");
    assert!(!fields(&world.ask("monitor")).contains(&"learners"));
}

#[test]
fn a_server_that_does_not_serve_says_so() {
    let mut world = World::new();
    world.cluster.withdraw(0);
    let error = "This ZooKeeper instance is not currently serving requests";
    for name in ["ruok", "stats", "dump", "watches", "leader", "stat_reset"] {
        let answer = world.ask(name);
        assert_eq!((fields(&answer), &answer["error"]), (vec!["command", "error"], &json!(error)), "{name}");
    }
    let monitor = world.ask("monitor");
    assert_eq!((&monitor["packets_received"], monitor.get("znode_count")), (&json!(4), None));
    assert_eq!(world.ask("zabstate")["zabstate"], "election");
    assert_eq!(world.ask("environment")["error"], Value::Null);
    // It shows what it has again, but nothing can be ordered.
    world.cluster.answer_again();
    assert_eq!(world.ask("ruok")["error"], Value::Null);
    world.around.leader = None;
    assert_eq!(
        (&world.ask("ruok")["error"], &world.ask("zabstate")["zabstate"]),
        (&json!(error), &json!("election"))
    );
    // Clients that only read are served for all that.
    world.cluster.led(0, false);
    world.cluster.wait(6000, &[]);
    world.cluster.led(0, false);
    assert_eq!(world.ask("is_read_only")["read_only"], true);
    assert_eq!(
        (&world.ask("leader")["leader_id"], &world.ask("zabstate")["zabstate"]),
        (&json!(-1), &json!("broadcast"))
    );
}

#[test]
fn long_lists_are_cut_and_say_so() {
    let mut world = World::new();
    // 101 watches of 61 KB with names do not fit into 4 MiB.
    for at in 0..100 {
        let path = format!("/{at:03}{}", "x".repeat(60_000));
        world.cluster.send(
            0,
            world.conn,
            4,
            &Request::Read { op: Op::Exists, path: path.as_bytes(), watch: true },
        );
    }
    assert_eq!(world.ask("watch_summary")["num_total_watches"], 101);
    let watches = world.ask("watches");
    let paths = watches["session_id_to_watched_paths"][world.session.to_string()].as_array().expect("a list");
    let listed = paths.len() as u64;
    assert!((60..80).contains(&listed), "{listed}");
    assert_eq!(watches["left_out"], 101 - listed);
    let by_path = world.ask("watches_by_path");
    let listed = by_path["path_to_session_ids"].as_object().expect("lists").len() as u64;
    assert_eq!(by_path["left_out"], 101 - listed);
    for word in [b"wchc", b"wchp"] {
        let text = world.cluster.word(0, word, &world.around).expect("known");
        assert!(text.len() < 5 << 20 && text.ends_with(" more are left out\n"), "{} bytes", text.len());
    }
}
