//! Taking over a ZooKeeper's files: those of a real server, and snapshots and logs that are torn, fuzzy, damaged or not all there.

mod files;

use crate::differential::{Random, Real, SUPER, Server, request};
use crate::support::{AGREED_MS, Zk, id, made, names, read, strict_rules};
use quorate_skipped::skipped;
use quorate_types::AgreedTime;
use quorate_zookeeper::command::{Command, Opening};
use quorate_zookeeper::import;
use quorate_zookeeper::jute::Reader;
use quorate_zookeeper::op::Op;
use quorate_zookeeper::records::{Acl, Stat};
use quorate_zookeeper::request::Request;
use std::collections::BTreeMap;
use std::path::PathBuf;

fn digest(password: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    digest[..password.len()].copy_from_slice(password);
    digest
}

/// The tree in these directories, as it is in ours.
fn taken(directories: &[PathBuf]) -> Result<Zk, String> {
    let imported = import::read(directories).map_err(|why| why.to_string())?;
    let begins = AgreedTime::from_nanos(AGREED_MS * 1_000_000);
    let store = imported.state(begins, strict_rules(), digest).map_err(|why| why.to_string())?;
    let mut zk = Zk::with(store);
    zk.caller.ids.push(id("super", ""));
    Ok(zk)
}

/// All that a client can read of a node: data and numbers, rights, and the names of its children.
type Whole = (Vec<u8>, Vec<u8>, Vec<String>);

/// All nodes below one.
fn walk(ask: &mut dyn FnMut(&Request<'_>) -> Vec<u8>, path: &str, all: &mut BTreeMap<String, Whole>) {
    let data = ask(&read(Op::GetData, path));
    let rights = ask(&Request::About { op: Op::GetAcl, path: path.as_bytes() });
    let mut children = names(&mut Reader::new(&ask(&read(Op::GetChildren, path))));
    children.sort();
    for child in &children {
        walk(ask, &format!("{}/{child}", path.trim_end_matches('/')), all);
    }
    all.insert(path.to_owned(), (data, rights, children));
}

/// The files of a ZooKeeper 3.9.4 that was killed: a snapshot, and the log behind it. A client of it had created an ephemeral node.
#[test]
fn files_of_a_zookeeper_that_are_kept_here() {
    let place = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/zookeeper-3.9.4");
    let mut zk = taken(&[place]).expect("it is taken over");
    let mut all = BTreeMap::new();
    walk(&mut |request| zk.ask(request).expect("it may read"), "/", &mut all);
    let shown: Vec<String> = all
        .keys()
        .map(|path| {
            let (data, stat) = zk.data(path).expect("it may read");
            let data = data.map_or("none".to_owned(), |data| String::from_utf8_lossy(&data).into_owned());
            format!("{path} {data} v{} c{}", stat.version, stat.cversion)
        })
        .collect();
    let expected = [
        "/  v0 c2",
        "/\\u00e9 none v0 c0",
        "/app two v1 c7",
        "/app/config {\"a\":2} v1 c0",
        "/app/container none v0 c2",
        "/app/job-0000000002 x v0 c0",
        "/app/job-0000000003 y v0 c0",
        "/app/mine e v0 c0",
        "/app/own mine v0 c0",
        "/app/ttl t v0 c0",
        "/counted c v0 c2",
        "/counted/a 12345 v0 c0",
        "/counted/b none v0 c0",
        "/zookeeper  v0 c-2",
        "/zookeeper/config  v0 c0",
        "/zookeeper/quota  v0 c1",
        "/zookeeper/quota/counted none v0 c2",
        "/zookeeper/quota/counted/zookeeper_limits count=5,bytes=-1=;byteHardLimit=-1;countHardLimit=-1 v0 c0",
        "/zookeeper/quota/counted/zookeeper_stats count=3,bytes=6 v0 c0",
    ];
    assert_eq!(shown, expected);
    assert_eq!(zk.acl("/app/own"), Ok(vec!["31:digest:ann:7RJfAeIvrl4zdj6sS2fXrQHDvHM=".into()]));
    assert_eq!(zk.acl("/counted/b"), Ok(vec!["1:world:anyone".into()]));
    assert_eq!(zk.zxid, 0x16);
    // Its client comes back with the password that Java's `Random` gave it.
    let password = 0xa340_2f1c_f428_0a31_b973_0f03_5dc4_bae1_u128.to_be_bytes();
    let opening = Opening { digest: digest(&password), timeout_ms: 30_000, server: 9 };
    let mut bytes = Vec::new();
    Command::Attach { session: 0x0100_01aa_722f_0000, opening }.write(&mut bytes);
    zk.enter(&bytes);
    let owned = zk.ask(&Request::About { op: Op::GetEphemerals, path: b"/" }).expect("a list");
    assert_eq!(names(&mut Reader::new(&owned)), ["/app/mine"]);
}

/// `ZOOKEEPER` names a folder with the jars of a release 3.9. `QUORATE_REQUESTS`: how many requests.
#[test]
fn the_files_of_a_real_server_give_the_same_tree() {
    let Ok(jars) = std::env::var("ZOOKEEPER") else {
        return skipped("there is no ZooKeeper: name the folder of its jars in ZOOKEEPER");
    };
    let count = std::env::var("QUORATE_REQUESTS").ok().and_then(|count| count.parse().ok()).unwrap_or(3000);
    let (mut server, port) = Server::start(&jars);
    let mut random = Random(3);
    let mut clients: Vec<Real> = (0..3).map(|_| Real::connect(port)).collect();
    for _ in 0..count {
        let at = random.below(clients.len());
        if random.below(60) == 0 {
            let _ = clients[at].ask(&Request::Plain(Op::CloseSession));
            clients[at] = Real::connect(port);
        }
        let _ = clients[at].ask(&request(&mut random, false));
    }
    let mut reader = Real::connect(port);
    let _ = reader.ask(&Request::Auth { kind: 0, scheme: b"digest", proof: SUPER });
    // Clients wrote wrong numbers into the quota: it is made anew.
    let stats = "/zookeeper/quota/b/zookeeper_stats";
    let _ = reader.ask(&Request::Delete { path: stats.as_bytes(), version: -1 });
    let _ = reader.ask(&made(Op::Create, stats, Some(b""), 0, &[Acl::OPEN], 0));
    let mut theirs = BTreeMap::new();
    let zxid = reader.ask(&read(Op::Exists, "/")).0;
    walk(&mut |request| reader.ask(request).1.expect("it may read"), "/", &mut theirs);
    let ephemerals = Request::About { op: Op::GetEphemerals, path: b"/" };
    let owned: Vec<Vec<String>> = clients
        .iter_mut()
        .map(|client| {
            let mut paths = names(&mut Reader::new(&client.ask(&ephemerals).1.expect("a list")));
            paths.sort();
            paths
        })
        .collect();
    server.kill();
    let data = server.directory.join("data/version-2");
    let files: Vec<_> =
        std::fs::read_dir(&data).expect("files").map(|file| file.expect("one").file_name()).collect();
    let snapshots = files.iter().filter(|name| name.to_string_lossy().starts_with("snapshot.")).count();
    assert!(count < 3000 || snapshots > 2, "some are made on the way: {files:?}");

    let mut zk = taken(&[data, server.directory.join("data")]).expect("it is taken over");
    let mut ours = BTreeMap::new();
    walk(&mut |request| zk.ask(request).expect("it may read"), "/", &mut ours);
    assert_eq!(zk.zxid, zxid);
    for (path, their) in &theirs {
        let found = ours.get(path).unwrap_or_else(|| panic!("{path} is missing"));
        let stat = |whole: &Whole| {
            let mut from = Reader::new(&whole.0);
            (from.bytes().expect("data").map(<[u8]>::to_vec), Stat::read(&mut from).expect("numbers"))
        };
        assert_eq!(stat(their), stat(found), "{path}");
        assert_eq!(their, found, "{path}");
    }
    assert_eq!(theirs.len(), ours.len());
    // Their clients come back with what they have, and own what they owned.
    for (client, owned) in clients.iter().zip(owned) {
        let opening = Opening { digest: digest(&client.password), timeout_ms: 30_000, server: 9 };
        let mut bytes = Vec::new();
        Command::Attach { session: client.session, opening }.write(&mut bytes);
        zk.enter(&bytes);
        let mut found = names(&mut Reader::new(&zk.ask(&ephemerals).expect("a list")));
        found.sort();
        assert_eq!(found, owned);
    }
    println!("{} nodes, {snapshots} snapshots, {zxid:#x}", ours.len());
}
