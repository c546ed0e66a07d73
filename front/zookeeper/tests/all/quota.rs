//! Quotas: what is counted where, and which writes a hard one refuses.

use crate::support::{Zk, made};
use proptest::prelude::*;
use quorate_zookeeper::error::ZkError as E;
use quorate_zookeeper::op::Op;
use quorate_zookeeper::records::Acl;
use quorate_zookeeper::request::{Mode, Request};

impl Zk {
    /// Sets a quota as zkCli does: the nodes above it, the limits, then what is there.
    fn quota(&mut self, of: &str, limits: &str) {
        let mut above = "/zookeeper/quota".to_owned();
        for name in of.split('/').skip(1) {
            above = format!("{above}/{name}");
            drop(self.create(&above, b"", Mode::Persistent));
        }
        for (name, data) in [("zookeeper_limits", limits), ("zookeeper_stats", "count=0,bytes=0")] {
            let made = self.create(&format!("{above}/{name}"), data.as_bytes(), Mode::Persistent);
            made.expect("it is new");
        }
    }

    fn stats(&mut self, of: &str) -> String {
        let found = self.data(&format!("/zookeeper/quota{of}/zookeeper_stats"));
        let (data, stat) = found.expect("it is there");
        assert_eq!((stat.version, stat.mzxid), (0, stat.czxid), "the tree's own writes are no changes");
        String::from_utf8(data.expect("numbers")).expect("text")
    }
}

#[test]
fn a_quota_counts_its_node_and_all_below() {
    let mut zk = Zk::new();
    zk.create("/a", b"123", Mode::Persistent).expect("new");
    zk.create("/a/b", b"45", Mode::Persistent).expect("new");
    zk.create("/ab", b"6", Mode::Persistent).expect("new");
    zk.quota("/a", "count=2,bytes=5");
    assert_eq!(zk.stats("/a"), "count=2,bytes=5", "what was there before");
    zk.create("/a/b/c", b"789", Mode::Ephemeral).expect("a soft limit refuses nothing");
    zk.set("/a", Some(b""), -1).expect("there");
    zk.set("/ab", Some(b"not counted"), -1).expect("there");
    assert_eq!(zk.stats("/a"), "count=3,bytes=5");
    zk.ask(&Request::Plain(Op::CloseSession)).expect("it ends");
    zk.open();
    assert_eq!(zk.stats("/a"), "count=2,bytes=2", "without what its session owned");
    zk.quota("/a/b", "count=-1,bytes=-1");
    zk.create("/a/b/d", b"0", Mode::Persistent).expect("new");
    assert_eq!((zk.stats("/a"), zk.stats("/a/b")), ("count=2,bytes=2".into(), "count=2,bytes=3".into()));
    zk.delete("/zookeeper/quota/a/b/zookeeper_limits", -1).expect("there");
    zk.delete("/a/b/d", -1).expect("there");
    assert_eq!(zk.stats("/a"), "count=1,bytes=1", "counts with the longest path that has limits");
}

#[test]
fn a_hard_limit_refuses_what_would_exceed_it() {
    let mut zk = Zk::new();
    zk.create("/a", b"", Mode::Persistent).expect("new");
    zk.quota("/a", "count=1,bytes=1=;byteHardLimit=4;countHardLimit=3");
    zk.create("/a/x", b"1234", Mode::Persistent).expect("within");
    assert_eq!(zk.create("/a/y", b"5", Mode::Persistent), Err(E::QuotaExceeded), "bytes");
    zk.create("/a/y", b"", Mode::Persistent).expect("within");
    assert_eq!(zk.create("/a/z", b"", Mode::Persistent), Err(E::QuotaExceeded), "nodes");
    assert_eq!(zk.set("/a", Some(b"5"), 9), Err(E::QuotaExceeded), "the quota, then the version");
    zk.set("/a/x", Some(b"123"), -1).expect("less");
    zk.set("/a", Some(b"5"), -1).expect("there is room now");
    let create = |path| made(Op::Create, path, None, 0, &[Acl::OPEN], 0);
    zk.delete("/a/y", -1).expect("there");
    let parts = zk.multi(vec![create("/a/y"), create("/a/z")]).expect("an answer");
    assert_eq!(format!("{parts:?}"), "[Error(0), Error(-125)]");
    assert_eq!(zk.stats("/a"), "count=2,bytes=4", "all of it is taken back");
    zk.delete("/zookeeper/quota/a/zookeeper_limits", -1).expect("there");
    zk.create("/a/z", b"many bytes", Mode::Persistent).expect("no limits");
}

#[test]
fn what_is_no_quota_limits_nothing() {
    let mut zk = Zk::new();
    zk.create("/a", b"", Mode::Persistent).expect("new");
    zk.quota("/a", "nonsense;=;countHardLimit=;byteHardLimit=x,,count=9999999999999999999");
    for path in ["/zookeeper/quota/zookeeper_limits", "/zookeeper/quota/zookeeper_stats"] {
        zk.create(path, b"countHardLimit=0", Mode::Persistent).expect("a node like others");
    }
    zk.set("/zookeeper/quota/a/zookeeper_stats", Some(b"\xff"), -1).expect("there");
    zk.create("/a/x", b"1", Mode::Persistent).expect("no limit");
    zk.set("/zookeeper/quota/a/zookeeper_limits", None, -1).expect("there");
    zk.create("/a/y", b"1", Mode::Persistent).expect("no limit");
    zk.delete("/zookeeper/quota/a/zookeeper_stats", -1).expect("there");
    zk.create("/a/z", b"1", Mode::Persistent).expect("nothing is counted");
    // A quota of a path at which nothing is counts nothing.
    zk.quota("/none", "count=1,bytes=1");
    assert_eq!(zk.stats("/none"), "count=0,bytes=0");
}

/// Each write below a quota looks at its nodes. So they stay small, and are not far down.
#[test]
fn a_quota_costs_little() {
    let mut zk = Zk::new();
    let mut deep = String::new();
    for _ in 0..40 {
        deep += "/d";
        zk.create(&deep, b"", Mode::Persistent).expect("new");
    }
    let (at, below) = ("/d".repeat(32), "/d".repeat(33));
    zk.quota(&at, "count=-1,bytes=-1");
    zk.quota(&below, "count=-1,bytes=-1");
    assert_eq!(zk.stats(&at), "count=9,bytes=0");
    zk.set(&deep, Some(b"12"), -1).expect("there");
    assert_eq!((zk.stats(&at), zk.stats(&below)), ("count=9,bytes=2".into(), "count=0,bytes=0".into()));
    // What has no meaning is not kept.
    let much = format!("bytes=1;{}", "x=1;".repeat(1000));
    let stats = format!("/zookeeper/quota{at}/zookeeper_stats");
    zk.set(&stats, Some(much.as_bytes()), -1).expect("there");
    zk.set(&deep, Some(b"123"), -1).expect("there");
    assert_eq!(zk.data(&stats).map(|(data, _)| data), Ok(Some(b"count=-1,bytes=2".to_vec())));
    // Counting all takes long, and one command does it once.
    let delete = Request::Delete { path: stats.as_bytes(), version: -1 };
    let create = made(Op::Create, &stats, None, 0, &[Acl::OPEN], 0);
    let parts = zk.multi(vec![delete.clone(), create.clone(), delete, create]).expect("an answer");
    assert_eq!(format!("{parts:?}"), "[Error(0), Error(0), Error(0), Error(-127)]");
}

/// A quota of the quotas: the node that counts may be the parent of what it counts.
#[test]
fn a_node_that_counts_its_own_children_stays_whole() {
    let mut zk = Zk::new();
    zk.quota("/zookeeper", "count=-1,bytes=-1");
    let stats = "/zookeeper/quota/zookeeper/zookeeper_stats";
    let child = format!("{stats}/x");
    // Its text gets shorter and longer.
    for number in 0..12 {
        zk.create(&format!("/zookeeper/x{number}"), b"1", Mode::Persistent).expect("new");
        zk.create(&child, b"1", Mode::Persistent).expect("new");
        zk.delete(&child, -1).expect("there");
        let (data, stat) = zk.data(stats).expect("there");
        assert_eq!((data.map(|data| data.len() as i32), stat.num_children), (Some(stat.data_length), 0));
    }
}

const PATHS: [&str; 6] = ["/a", "/a/b", "/a/b/c", "/a/d", "/ab", "/e"];

#[derive(Clone, Debug)]
enum Act {
    Create(usize, usize),
    Delete(usize),
    Set(usize, usize),
    Limit(usize),
    Unlimit(usize),
}

fn act() -> impl Strategy<Value = Act> {
    let (path, bytes) = (0..PATHS.len(), 0..6_usize);
    prop_oneof![
        4 => (path.clone(), bytes.clone()).prop_map(|(path, bytes)| Act::Create(path, bytes)),
        2 => path.clone().prop_map(Act::Delete),
        2 => (path.clone(), bytes).prop_map(|(path, bytes)| Act::Set(path, bytes)),
        1 => path.clone().prop_map(Act::Limit),
        1 => path.prop_map(Act::Unlimit),
    ]
}

proptest! {
    /// A quota that no shorter or longer path shares counts what a walk over its nodes counts.
    #[test]
    fn counts_are_those_of_a_walk(acts in proptest::collection::vec(act(), 1..60)) {
        let (mut zk, data) = (Zk::new(), [b'x'; 8]);
        for act in acts {
            match act {
                Act::Create(path, bytes) => drop(zk.create(PATHS[path], &data[..bytes], Mode::Persistent)),
                Act::Delete(path) => {
 let _ = zk.delete(PATHS[path], -1);
 }
                Act::Set(path, bytes) => {
 let _ = zk.set(PATHS[path], Some(&data[..bytes]), -1);
 }
                Act::Limit(path) => {
                    let top = PATHS[path].split('/').nth(1).expect("a name");
                    if zk.exists(&format!("/zookeeper/quota/{top}/zookeeper_stats")).is_err() {
                        zk.quota(&format!("/{top}"), "count=-1,bytes=-1=;byteHardLimit=9;countHardLimit=3");
                    }
                }
                Act::Unlimit(path) => for name in ["zookeeper_limits", "zookeeper_stats"] {
                    let _ = zk.delete(&format!("/zookeeper/quota{}/{name}", PATHS[path]), -1);
                },
            }
            for top in ["/a", "/ab", "/e"] {
                if zk.exists(&format!("/zookeeper/quota{top}/zookeeper_stats")).is_err() {
                    continue;
                }
                let here = PATHS.iter().filter(|path| **path == top || path.starts_with(&format!("{top}/")));
                let there: Vec<_> = here.filter_map(|path| zk.exists(path).ok()).collect();
                let bytes: i32 = there.iter().map(|stat| stat.data_length).sum();
                prop_assert_eq!(zk.stats(top), format!("count={},bytes={bytes}", there.len()));
            }
        }
    }
}
