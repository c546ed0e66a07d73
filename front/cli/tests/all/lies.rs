//! Replicas of a cluster of real processes that lie: clients go on, and the others say who it was where that can be shown.

use crate::harness::{Cluster, pid, program, quorate, wait_until};
use quorate::client::{AdminConnection, Credentials};
use quorate::{ClusterId, ReplicaId, TlsFiles};
use quorate_etcd_grpc::pb::etcdserverpb::kv_client::KvClient;
use quorate_etcd_grpc::pb::etcdserverpb::{PutRequest, RangeRequest};
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tonic::transport::{Channel, Endpoint};

fn start() -> Cluster {
    Cluster::start(&["--fault-model", "byzantine", "--service", "kv"])
}

fn lie(cluster: &Cluster, replica: u16, how: &str) {
    let (id, undo) = (replica.to_string(), format!("chaos lie --how none {replica}"));
    let said = cluster.ok(&["chaos", "lie", &id, "--how", how, "--no-probe"]);
    assert!(said.contains("told to lie"), "{said}");
    assert_eq!(said.contains(&undo), how != "none", "{said}");
}

/// Clients write and read, and none of them sees an error, or anything that was not written.
fn go_on(cluster: &Cluster, round: &str) {
    for number in 0..8 {
        let value = format!("{round} {number}");
        cluster.ok(&["kv", "put", "key", &value, "--timeout", "20"]);
        assert_eq!(cluster.ok(&["kv", "get", "key", "--timeout", "20"]), value);
    }
}

/// What honest replicas hold against this one.
fn evidence(cluster: &Cluster, liar: u16) -> usize {
    let status = cluster.status();
    let others = status["replicas"].as_array().expect("a list").iter();
    let suspects = others
        .filter(|other| other["replica"] != liar)
        .flat_map(|other| other["status"]["suspects"].as_array().cloned().unwrap_or_default());
    suspects.inspect(|suspect| assert_eq!(suspect["replica"], liar, "{suspect}")).count()
}

/// Each way to lie, by whoever leads: the first one that the others can show is one that nobody else could have said.
#[test]
fn clients_go_on_while_a_replica_lies() {
    let mut cluster = start();
    let liar = cluster.wait_for_leader();
    go_on(&cluster, "honest");
    assert_eq!(evidence(&cluster, liar), 0);
    lie(&cluster, liar, "views");
    go_on(&cluster, "views");
    wait_until("the others hold it against the liar", || evidence(&cluster, liar) >= 2);
    let shown = cluster.run(&["status"]).out;
    assert!(shown.contains(&format!("r{liar} is suspected")) || shown.contains(": proved"), "{shown}");
    let tricks =
        ["silent", "small", "equivocate", "forge", "censor", "votes", "complain", "replay", "corrupt"];
    for how in tricks.into_iter().chain(["replies"]) {
        lie(&cluster, liar, how);
        go_on(&cluster, how);
    }
    prove(&cluster, liar);
    lie(&cluster, liar, "none");
    go_on(&cluster, "honest again");
    cluster.wait_until_equal();
    assert_eq!(cluster.ctrl_c(), Some(0));
}

/// What the others hold against the liar, as its operator gets it.
fn listed(cluster: &Cluster, liar: u16) -> Option<Value> {
    let list: Value = serde_json::from_str(&cluster.ok(&["evidence", "list", "--json"])).expect("JSON");
    assert_eq!(list["not_asked"], serde_json::json!([]), "{list}");
    let all = list["evidence"].as_array().expect("a list").clone();
    all.iter().for_each(|one| assert_eq!(one["replica"], liar, "{one}"));
    all.into_iter()
        .find(|one| one["held_by"].as_array().is_some_and(|by| by.iter().any(|by| *by != format!("r{liar}"))))
}

/// A liar signs two accepts: an operator finds the proof, carries it away, and shows it to somebody who has only the keys.
fn prove(cluster: &Cluster, liar: u16) {
    lie(cluster, liar, "votes");
    let mut found = None;
    wait_until("its votes prove that it lies", || {
        go_on(cluster, "proof");
        found = listed(cluster, liar);
        found.is_some()
    });
    let name = found.expect("it was found")["file"].as_str().expect("a name").to_owned();
    let shown = cluster.run(&["status"]).out;
    assert!(shown.contains(&format!("proved, `quorate evidence show {name}`")), "{shown}");
    assert!(cluster.ok(&["evidence", "show", &name]).contains(&format!("r{liar} signed")), "in words");
    let place = tempfile::tempdir().expect("a directory");
    let (file, to) = (place.path().join(&name), place.path().to_str().expect("a path"));
    assert!(cluster.ok(&["evidence", "fetch", &name, "--to", to]).contains(&name));
    let path = file.to_str().expect("a path");
    let config = cluster.replica_directory(liar % 4 + 1).join("replica.toml");
    let verified = quorate(&["evidence", "verify", path, "--config", config.to_str().expect("a path")]);
    assert!(verified.code == Some(0) && verified.out.starts_with("PROVED: "), "{verified:?}");
    quorate(&["evidence", "verify", path, "--key", &"00".repeat(32)]).fails(2, &["--key"]);
    let bytes = std::fs::read(&file).expect("it was fetched");
    std::fs::write(&file, &bytes[1..]).expect("it is changed");
    quorate(&["evidence", "verify", path, "--config", config.to_str().expect("a path")])
        .fails(2, &["can not be read"]);
    let kept = (1..=4).filter(|id| *id != liar).any(|id| {
        let file = cluster.replica_directory(id).join("data/evidence").join(&name);
        std::fs::read(file).is_ok_and(|kept| kept == bytes)
    });
    assert!(kept, "a replica has it in a file");
}

/// A leader that says different things is replaced before long; the others know who it was, and go on saying so.
#[test]
fn who_leads_with_two_faces_is_named() {
    let mut cluster = start();
    let liar = cluster.wait_for_leader();
    go_on(&cluster, "honest");
    lie(&cluster, liar, "equivocate");
    go_on(&cluster, "equivocate");
    wait_until("somebody holds it against the liar", || evidence(&cluster, liar) > 0);
    let shown = cluster.run(&["status"]).out;
    assert!(shown.contains(&format!("r{liar} is suspected")) || shown.contains(": proved"), "{shown}");
    lie(&cluster, liar, "none");
    go_on(&cluster, "honest again");
    assert!(evidence(&cluster, liar) > 0, "it is still known");
    assert_eq!(cluster.ctrl_c(), Some(0));
}

/// A leader that is slow, but not late enough for anything to be overdue, is replaced in the time that is documented; with some more for a
/// machine that does other things.
#[test]
fn a_slow_leader_is_replaced() {
    let mut cluster = start();
    for round in 0..10 {
        go_on(&cluster, &round.to_string());
    }
    let slow = cluster.wait_for_leader();
    lie(&cluster, slow, "slow");
    let since = Instant::now();
    while cluster.wait_for_leader() == slow {
        assert!(since.elapsed() < Duration::from_secs(20), "it leads for ever");
        cluster.ok(&["kv", "put", "key", "value", "--timeout", "20"]);
    }
    assert_eq!(cluster.ctrl_c(), Some(0));
}

/// A replica that serves clients of etcd comes to the others as a client; its certificate opens no operator's connection to them.
#[test]
fn a_replica_is_no_operator_where_it_may_lie() {
    let mut cluster = Cluster::start(&["--fault-model", "byzantine", "--service", "etcd"]);
    cluster.wait_for_leader();
    let status = cluster.status();
    let id = status["replicas"][0]["status"]["cluster"].as_str().and_then(ClusterId::parse).expect("an id");
    let tls = cluster.replica_directory(1).join("tls");
    let file = |name: &str| tls.join(name);
    let files = TlsFiles { ca: file("ca.pem"), certificate: file("replica.pem"), key: file("replica.key") };
    let own = Credentials::load(&files).expect("usable files");
    let connect = |to: u16| {
        let patience = Duration::from_secs(10);
        AdminConnection::connect(ReplicaId::new(to), &cluster.address(to), id, Some(&own), patience)
    };
    for other in 2..=4 {
        let why = connect(other).expect_err("it is no operator");
        assert!(why.contains("none may speak for operators"), "{why}");
    }
    connect(1).expect("what it asks of itself is its own");
    assert_eq!(cluster.ctrl_c(), Some(0));
}

/// Nobody is told to lie where nothing would hold it off; nor by a command line of an operator.
#[test]
fn where_nobody_may_lie_nobody_does() {
    let mut cluster = Cluster::start(&["--service", "kv"]);
    cluster.wait_for_leader();
    cluster.run(&["chaos", "lie", "1", "--how", "silent"]).fails(1, &["--fault-model byzantine"]);
    cluster.run(&["chaos", "lie", "1"]).fails(2, &["--how"]);
    cluster.run(&["chaos", "kill", "1", "--how", "silent"]).fails(2, &["--how"]);
    quorate(&["serve", "--config", "x", "--lies", "y"]).fails(2, &["--die-with-parent"]);
    assert_eq!(cluster.ctrl_c(), Some(0));
}

/// A client of etcd asks one replica, and believes it: a liar there shows it nothing of what is there, and acknowledges what it never
/// asked for. Who asks another replica sees what is true.
#[test]
fn a_client_of_etcd_believes_the_replica_that_it_asks() {
    let mut cluster = Cluster::start(&["--fault-model", "byzantine", "--service", "etcd", "--plain"]);
    cluster.wait_for_leader();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let client = |at: usize| {
        let address = format!("http://{}", cluster.ready["etcd"][at].as_str().expect("an address"));
        let _context = runtime.enter();
        let endpoint = Endpoint::from_shared(address).expect("an address").timeout(Duration::from_secs(20));
        KvClient::new(endpoint.connect_lazy())
    };
    let (mut liar, mut honest) = (client(0), client(1));
    let request =
        |value: &'static str| PutRequest { key: "key".into(), value: value.into(), ..PutRequest::default() };
    let query = || RangeRequest { key: "key".into(), ..RangeRequest::default() };
    let get = |client: &mut KvClient<Channel>| {
        let answer = runtime.block_on(client.range(query())).expect("it answers").into_inner();
        answer.kvs.first().map(|pair| String::from_utf8_lossy(&pair.value).into_owned())
    };
    runtime.block_on(liar.put(request("true"))).expect("it is written");
    assert_eq!(get(&mut liar).as_deref(), Some("true"));
    lie(&cluster, 1, "replies");
    wait_until("it says that nothing is there", || get(&mut liar).is_none());
    runtime.block_on(liar.put(request("lost"))).expect("it says that it is written");
    assert_eq!(get(&mut honest).as_deref(), Some("true"));
    lie(&cluster, 1, "none");
    wait_until("it is honest again", || get(&mut liar).as_deref() == Some("true"));
    assert_eq!(cluster.ctrl_c(), Some(0));
}

/// `dev` says what clients of etcd may believe beside the lines for etcdctl, where replicas may lie.
#[test]
fn dev_says_what_clients_of_etcd_may_believe() {
    let said = |arguments: &[&str]| {
        let place = tempfile::tempdir().expect("a temporary directory");
        let mut dev = program()
            .args(["dev", "--plain", "--service", "etcd", "--dir"])
            .arg(place.path().join("cluster"))
            .args(arguments)
            .process_group(0)
            .stdout(Stdio::piped())
            .spawn()
            .expect("dev starts");
        let lines = BufReader::new(dev.stdout.take().expect("its output is read")).lines();
        let lines: Vec<String> =
            lines.map_while(Result::ok).take_while(|line| !line.contains("Ctrl-C stops it")).collect();
        kill_process(pid(&dev), Signal::INT).expect("it runs");
        assert!(dev.wait().expect("it ends").success());
        lines.join("\n")
    };
    let trust = "believes the one replica that it asks";
    let (crash, byzantine) = (said(&[]), said(&["--fault-model", "byzantine"]));
    assert!(crash.contains("ETCDCTL_ENDPOINTS") && !crash.contains(trust), "{crash}");
    assert!(byzantine.contains("ETCDCTL_ENDPOINTS") && byzantine.contains(trust), "{byzantine}");
}
