//! zkCli, Curator and kazoo, as their projects make them, against three replicas: skipped where there are none.
//!
//! `front/cli/tests/all/zookeeper/build.sh` builds them to where these tests look.

mod admin;
mod import;
mod plain;

use crate::harness::Cluster;
use quorate_zookeeper::server::digest_id;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where something is that `build.sh` makes.
fn built(name: &str) -> Option<PathBuf> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/zookeeper-clients").join(name);
    let is_there = place.exists();
    if !is_there {
        quorate_skipped::skipped(format!(
            "there is no {name}; front/cli/tests/all/zookeeper/build.sh builds it where Maven and Python are"
        ));
    }
    is_there.then_some(place)
}

/// The identity of `super:secret`, who may do everything.
fn super_digest() -> String {
    String::from_utf8(digest_id(b"super:secret")).expect("text")
}

/// A cluster, and where its servers listen, with commas between them.
fn start() -> (Cluster, String) {
    start_with(&[])
}

/// The same, with these arguments for `dev` besides.
fn start_with(more: &[&str]) -> (Cluster, String) {
    let whoever = format!("front.zookeeper.super_digest={}", super_digest());
    let cluster = Cluster::start(&[&["--service", "zookeeper", "--set", &whoever], more].concat());
    let servers = cluster.ready["zookeeper"].as_array().expect("addresses");
    let servers: Vec<&str> = servers.iter().map(|address| address.as_str().expect("an address")).collect();
    assert_eq!(servers.len(), 3);
    let servers = servers.join(",");
    (cluster, servers)
}

/// Java with the jars, and our classes.
fn java() -> Option<Command> {
    let (jars, classes) = (built("jars")?, built("classes")?);
    let mut command = Command::new("java");
    command.args(["-Xmx256m", "-cp", &format!("{}:{}/*", classes.display(), jars.display())]);
    Some(command)
}

/// Runs recipes of clients that come this way; when all have done something, a server is killed, and then they must do more.
fn recipes(mut command: Command, how: impl FnOnce(&Cluster) -> Vec<String>, names: &[&str]) {
    let (cluster, servers) = start();
    command.arg(&servers).args(how(&cluster));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the recipes run");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    output.read_line(&mut line).expect("it can be read");
    if line == "halfway\n" {
        cluster.ok(&["chaos", "kill", "leader"]);
        child.stdin.take().expect("a pipe").write_all(b"go on\n").expect("it reads");
    }
    let mut said = String::new();
    output.read_to_string(&mut said).expect("it can be read");
    let ended = child.wait_with_output().expect("it ends");
    assert!(ended.status.success(), "{line}{said}{}", String::from_utf8_lossy(&ended.stderr));
    for name in names {
        assert!(said.contains(&format!("{name}: ")), "{name} is missing in {said}");
    }
    println!("{said}");
}

#[test]
fn recipes_of_curator() {
    let Some(mut command) = java() else { return };
    command.arg("Recipes");
    let names =
        ["locks", "semaphores", "elections", "barriers", "counters", "queues", "caches", "groups", "nodes"];
    recipes(command, |_| Vec::new(), &names);
}

/// Kazoo's recipes, which wait in one of its three ways, by clients that come this way.
fn kazoo(waits: &str, how: impl FnOnce(&Cluster) -> Vec<String>) {
    let Some(python) = built("python/bin/python") else { return };
    if built(&format!("python/{waits}")).is_none() {
        return;
    }
    let mut command = Command::new(python);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/zookeeper/recipes.py"));
    let names = [
        "locks",
        "semaphores",
        "counters",
        "queues",
        "elections",
        "parties",
        "transactions",
        "watches",
        "ephemerals",
    ];
    let how = |cluster: &Cluster| [vec![waits.to_owned()], how(cluster)].concat();
    recipes(command, how, &names);
}

#[test]
fn recipes_of_kazoo() {
    kazoo("threads", |_| Vec::new());
}

#[test]
fn recipes_of_kazoo_with_gevent() {
    kazoo("gevent", |_| Vec::new());
}

#[test]
fn recipes_of_kazoo_with_eventlet() {
    kazoo("eventlet", |_| Vec::new());
}

/// Where a client's certificate is: the authority's, its own, and its key.
fn certificate(cluster: &Cluster) -> [String; 3] {
    let place = cluster.directory().join("clients");
    ["ca.pem", "default.pem", "default.key"].map(|name| place.join(name).display().to_string())
}

#[test]
fn recipes_of_kazoo_with_certificates() {
    kazoo("threads", |cluster| certificate(cluster).to_vec());
}

/// What zkCli prints for a list of commands, without its own words. The options are those of Java.
fn zkcli(servers: &str, options: &[String], commands: &str) -> Option<Vec<String>> {
    let mut command = java()?;
    command.args(options).args(["org.apache.zookeeper.ZooKeeperMain", "-server", servers]);
    let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = streams.spawn().expect("zkCli runs");
    child.stdin.take().expect("a pipe").write_all(commands.as_bytes()).expect("it reads");
    let ended = child.wait_with_output().expect("it ends");
    let own = ["WATCHER::", "WatchedEvent", "SLF4J", "Connecting", "Welcome", "JLine"];
    let text = [ended.stdout, ended.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines =
        text.lines().filter(|line| !line.is_empty() && !own.iter().any(|word| line.starts_with(word)));
    Some(lines.map(str::to_owned).collect())
}

#[test]
fn commands_of_zkcli() {
    if java().is_none() {
        return;
    }
    let (_cluster, servers) = start();
    for (commands, expected) in [
        ("create /a hello\nget /a\nset /a two\nget /a\n", &["Created /a", "hello", "two"][..]),
        ("create /a again\n", &["Node already exists: /a"]),
        (
            "create /a/b\ncreate -s /a/n- x\ncreate -e /a/e x\n",
            &["Created /a/b", "Created /a/n-0000000001", "Created /a/e"],
        ),
        ("ls /a\nls -R /a\n", &["[b, n-0000000001]", "/a", "/a/b", "/a/n-0000000001"]),
        ("stat /no-such-node\n", &["Node does not exist: /no-such-node"]),
        ("delete /a\n", &["Node not empty: /a"]),
        ("set -v 7 /a x\n", &["version No is not valid : /a"]),
        (
            "addauth digest ann:secret\ncreate /own x auth::cdrwa\ngetAcl /own\n",
            &["Created /own", "'digest,'ann:7RJfAeIvrl4zdj6sS2fXrQHDvHM=", ": cdrwa"],
        ),
        ("get /own\n", &["Insufficient permission : /own"]),
        (
            "addauth digest ann:secret\nget /own\nwhoami\n",
            &["x", "Auth scheme: User", "digest: ann", "ip: 127.0.0.1"],
        ),
        ("create -c /container\ncreate -t 5000 /ttl\n", &["Created /container", "Created /ttl"]),
        ("create -e /mine\ngetEphemerals\ngetAllChildrenNumber /a\n", &["Created /mine", "[/mine]", "2"]),
        ("sync /a\ndeleteall /a\nls /a\n", &["Sync is OK", "Node does not exist: /a"]),
        ("addWatch -m PERSISTENT /w\ncreate /w\nremovewatches /w\n", &["Created /w"]),
        (
            "create /q x\nsetquota -n 1 /q\nsetquota -B 9 /q\ncreate /q/r y\nlistquota /q\ndelquota /q\n",
            &[
                "Created /q",
                "Created /q/r",
                "absolute path is /zookeeper/quota/q/zookeeper_limits",
                "Output quota for /q count=1,bytes=-1=;byteHardLimit=9;countHardLimit=-1",
                "Output stat for /q count=2,bytes=2",
            ],
        ),
        (
            "addauth digest super:secret\nreconfig -add server.4=127.0.0.1:9:9;9 -v f\n",
            &["version No is not valid : "],
        ),
    ] {
        let found = zkcli(&servers, &[], &format!("{commands}quit\n")).expect("it is there");
        // The order of identities is not that of proofs.
        let mut sorted = (found.clone(), expected.to_vec());
        sorted.0.sort();
        sorted.1.sort_unstable();
        assert_eq!(sorted.0, sorted.1, "{commands}{found:#?}");
    }
}

/// The Java client with a certificate, over TLS.
#[test]
fn commands_of_zkcli_with_certificates() {
    if java().is_none() {
        return;
    }
    let (cluster, servers) = start();
    let [ca, certificate, key] = certificate(&cluster);
    // Java wants both in one file.
    let both = cluster.directory().join("clients/both.pem");
    let text = [key, certificate].map(|file| std::fs::read_to_string(file).expect("a file")).concat();
    std::fs::write(&both, text).expect("written");
    let options = [
        "zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty".to_owned(),
        "zookeeper.client.secure=true".to_owned(),
        format!("zookeeper.ssl.keyStore.location={}", both.display()),
        "zookeeper.ssl.keyStore.type=PEM".to_owned(),
        format!("zookeeper.ssl.trustStore.location={ca}"),
        "zookeeper.ssl.trustStore.type=PEM".to_owned(),
    ]
    .map(|option| format!("-D{option}"));
    let commands = "create /safe x \"x509:client default:cdrwa\"\nget /safe\nwhoami\nquit\n";
    let found = zkcli(&servers, &options, commands).expect("it is there");
    for line in ["Created /safe", "x", "x509: client default"] {
        assert!(found.iter().any(|found| found == line), "{line} is missing: {found:#?}");
    }
    let others = zkcli(&servers, &[], "get /safe\nquit\n").expect("it is there");
    assert_eq!(others, ["Insufficient permission : /safe"], "only whoever has the certificate");
}
