//! Four-letter words: what programs look for in the texts.

use crate::support::cluster::Cluster;
use crate::support::{made, read};
use quorate_zookeeper::op::Op;
use quorate_zookeeper::records::Acl;
use quorate_zookeeper::request::Request;
use quorate_zookeeper::server::{Around, REQUEST_KINDS, Role};
use std::collections::BTreeMap;

#[test]
fn words_tell_what_there_is() {
    let mut cluster = Cluster::new(1);
    let (conn, session, _) = cluster.client(0);
    cluster.send(0, conn, 1, &made(Op::Create, "/e", Some(b"abc"), 1, &[Acl::OPEN], 0));
    cluster.send(0, conn, 2, &Request::Read { op: Op::GetData, path: b"/e", watch: true });
    cluster.send(0, conn, 3, &read(Op::Exists, "/"));
    let around = Around {
        role: Role::Leader,
        followers: 2,
        settings: vec![("clientPort", "2181".into())],
        data_bytes: 4096,
        addresses: BTreeMap::from([(conn, "10.0.0.9:5000".into())]),
        ..Around::default()
    };
    for (word, lines) in [
        (b"ruok", &["imok"][..]),
        (b"isro", &["rw"]),
        (
            b"srvr",
            &[
                "Zookeeper version: 3.9.4-quorate",
                "Latency min/avg/max: 0/0.0000/0\nReceived: 4\nSent: 4\nConnections: 1\nOutstanding: 0\nZxid: 0x2\nMode: leader\nNode count: 6\n",
            ],
        ),
        (b"stat", &["Clients:\n /10.0.0.9:5000[1](queued=0,recved=4,sent=4,sid=0x", "Mode: leader"]),
        (
            b"mntr",
            &[
                "zk_version\t3.9.4-quorate",
                "zk_server_state\tleader\n",
                "zk_znode_count\t6\nzk_watch_count\t1\nzk_ephemerals_count\t1\nzk_approximate_data_size\t49\n",
                "zk_synced_followers\t2\n",
            ],
        ),
        (b"conf", &["clientPort=2181\n"]),
        (b"cons", &["to=10000"]),
        (b"dirs", &["datadir_size: 4096\n"]),
        (b"envi", &["zookeeper.version=3.9.4-quorate"]),
        (b"dump", &["\t/e\n"]),
        (b"wchs", &["1 connections watching 1 paths\nTotal watches:1\n"]),
        (b"wchp", &["/e\n\t0x"]),
        (b"wchc", &["\n\t/e\n"]),
    ] {
        let text = cluster.word(0, word, &around).expect("it is known");
        for line in lines {
            assert!(text.contains(line), "{line} is not in {}: {text}", String::from_utf8_lossy(word));
        }
    }
    assert_eq!(cluster.word(0, b"nope", &around), None);
    let text = cluster.word(0, b"wchc", &around).expect("known");
    assert!(text.starts_with(&format!("{session:#x}\n")), "{text}");
    for (word, after) in [(b"srst", "Received: 0\nSent: 0\n"), (b"crst", "recved=0,sent=0")] {
        cluster.word(0, word, &around).expect("known");
        assert!(cluster.word(0, b"stat", &around).expect("known").contains(after));
    }
    assert_eq!(REQUEST_KINDS, ["session", "write", "sync", "read", "reconfig"]);
    assert_eq!(cluster.took(0), [1, 1, 0, 2, 0], "these are not begun anew");
}
