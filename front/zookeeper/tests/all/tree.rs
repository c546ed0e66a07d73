//! What each operation checks, in which order, and what it changes.

use crate::support::{Zk, id, made};
use proptest::prelude::*;
use quorate_zookeeper::error::ZkError as E;
use quorate_zookeeper::op::Op;
use quorate_zookeeper::records::{Acl, EventKind, Stat};
use quorate_zookeeper::request::{Mode, Request};
use quorate_zookeeper::tree::Count;
use std::collections::BTreeMap;

const READ_ONLY: Acl<'_> = Acl { perms: Acl::READ, ..Acl::OPEN };

/// The numbers are those of a new ZooKeeper 3.9.
#[test]
fn a_new_tree_has_four_nodes() {
    let mut zk = Zk::new();
    // Before and after the first write.
    for round in 0..2 {
        assert_eq!(zk.children("/"), Ok(vec!["zookeeper".into()]));
        assert_eq!(zk.children("/zookeeper"), Ok(vec!["config".into(), "quota".into()]));
        let numbers = |stat: Stat| (stat.cversion, stat.num_children, stat.aversion, stat.pzxid);
        assert_eq!(zk.exists("/").map(numbers), Ok((-1, 1, 0, 0)));
        assert_eq!(zk.exists("/zookeeper").map(numbers), Ok((-2, 2, 0, 0)));
        assert_eq!(zk.exists("/zookeeper/quota").map(numbers), Ok((0, 0, 0, 0)));
        assert_eq!(zk.exists("/zookeeper/config").map(numbers), Ok((0, 0, -1, 0)));
        assert_eq!(zk.acl("/zookeeper/config"), Ok(vec!["1:world:anyone".into()]));
        assert_eq!(zk.data("/").map(|(data, _)| data), Ok(Some(vec![])), "empty, not none");
        assert_eq!(zk.set("/zookeeper/config", None, -1), Err(E::NoAuth));
        for fixed in ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"] {
            assert_eq!(zk.delete(fixed, -1), Err(E::BadArguments), "{fixed} in round {round}");
        }
    }
}

/// Each line fails for two reasons or more, and the one that ZooKeeper checks first is told.
#[test]
fn the_first_reason_is_told() {
    let mut zk = Zk::new();
    zk.create("/a", b"", Mode::Persistent).expect("new");
    zk.create("/e", b"", Mode::Ephemeral).expect("new");
    zk.create_with("/r", None, Mode::Persistent, &[READ_ONLY]).expect("new");
    let mut create = |path: &str, flags: i32, acl: &[Acl<'_>]| {
        zk.ask(&made(Op::Create, path, None, flags, acl, 0)).map(drop).expect_err("it is refused")
    };
    let bad: &[Acl<'_>] = &[];
    assert_eq!(create("no/slash", 9, bad), E::BadArguments, "flags");
    assert_eq!(create("none", 0, bad), E::BadArguments, "no parent, then rights");
    assert_eq!(create("/a\0/b", 0, bad), E::BadArguments, "a zero, then rights");
    assert_eq!(create("/x/y", 0, bad), E::InvalidAcl, "rights, then the parent");
    assert_eq!(create("/x/y/", 0, &[Acl::OPEN]), E::NoNode, "the parent, then the path");
    assert_eq!(create("/r/./", 0, &[Acl::OPEN]), E::NoNode);
    assert_eq!(create("/r/..", 0, &[Acl::OPEN]), E::NoAuth, "rights at the parent, then the path");
    assert_eq!(create("/a/", 0, &[Acl::OPEN]), E::BadArguments);
    assert_eq!(create("/a//b", 0, &[Acl::OPEN]), E::NoNode, "/a/ is no node");
    assert_eq!(create("/", 0, &[Acl::OPEN]), E::NodeExists);
    assert_eq!(create("/e", 0, &[Acl::OPEN]), E::NodeExists);
    assert_eq!(create("/e/b", 0, &[Acl::OPEN]), E::NoChildrenForEphemerals);

    zk.create("/a/b", b"", Mode::Persistent).expect("new");
    assert_eq!(zk.delete("a", 9), Err(E::BadArguments));
    assert_eq!(zk.delete("/x/y", 9), Err(E::NoNode), "the parent");
    assert_eq!(zk.delete("/x", 9), Err(E::NoNode));
    assert_eq!(zk.delete("/a", 9), Err(E::BadVersion), "the version, then children");
    assert_eq!(zk.delete("/a", 0), Err(E::NotEmpty));
    assert_eq!(zk.set("/a/", None, 9), Err(E::BadArguments));
    assert_eq!(zk.set("/x", None, 9), Err(E::NoNode));
    assert_eq!(zk.set("/r", None, 9), Err(E::NoAuth), "rights, then the version");
    assert_eq!(zk.set("/a", None, 9), Err(E::BadVersion));
    assert_eq!(zk.set_acl("/a/", bad, 9), Err(E::BadArguments));
    assert_eq!(zk.set_acl("/x", bad, 9), Err(E::InvalidAcl), "rights, then the node");
    assert_eq!(zk.set_acl("/x", &[Acl::OPEN], 9), Err(E::NoNode));
    assert_eq!(zk.set_acl("/r", &[Acl::OPEN], 9), Err(E::NoAuth));
    assert_eq!(zk.set_acl("/a", &[Acl::OPEN], 9), Err(E::BadVersion));
    // Reads do not look whether a path is allowed.
    assert_eq!(zk.data("/a/"), Err(E::NoNode));
    assert_eq!((zk.exists("a\0"), zk.exists("a")), (Err(E::BadArguments), Err(E::NoNode)));
}

#[test]
fn numbers_of_sequential_nodes_count_what_was_made() {
    let mut zk = Zk::new();
    zk.create("/q", b"", Mode::Persistent).expect("new");
    assert_eq!(zk.create("/q/n-", b"", Mode::PersistentSequential), Ok("/q/n-0000000000".into()));
    zk.create("/q/other", b"", Mode::Persistent).expect("new");
    zk.delete("/q/n-0000000000", -1).expect("there");
    assert_eq!(zk.create("/q/", b"", Mode::EphemeralSequential), Ok("/q/0000000002".into()), "no name");
    assert_eq!(zk.create("/q/..", b"", Mode::PersistentSequential), Ok("/q/..0000000003".into()));
    let stat = zk.exists("/q").expect("there");
    assert_eq!(
        (stat.cversion, stat.num_children, stat.pzxid, stat.version),
        (5, 3, 7, 0),
        "4 made, 1 deleted"
    );
}

#[test]
fn data_may_be_none_and_versions_count_changes() {
    let mut zk = Zk::new();
    zk.create_with("/a", None, Mode::Persistent, &[Acl::OPEN]).expect("new");
    assert_eq!(zk.data("/a").map(|(data, stat)| (data, stat.data_length)), Ok((None, 0)));
    zk.time_ms = 2000;
    for (round, data) in [Some(&b""[..]), Some(b"abc"), Some(b"d"), None].into_iter().enumerate() {
        let stat = zk.set("/a", data, round as i32).expect("the version");
        assert_eq!((stat.version, stat.mtime, stat.ctime), (round as i32 + 1, 2000, 1000));
        assert_eq!((stat.mzxid, stat.czxid, stat.pzxid), (round as i64 + 3, 2, 2));
        assert_eq!(zk.data("/a"), Ok((data.map(<[u8]>::to_vec), stat)));
    }
    let stat = zk.set_acl("/a", &[READ_ONLY], 0).expect("the version");
    assert_eq!((stat.aversion, stat.version, stat.mzxid), (1, 4, 6), "rights are no data");
}

/// The store has limits, and a client must not reach them.
#[test]
fn what_is_too_long_for_the_store_is_refused() {
    let mut zk = Zk::new();
    let long = format!("/{}", "a".repeat(70_000));
    let (path, data) = (format!("/{}", "a".repeat(60_000)), vec![7; 17 << 20]);
    for mode in [Mode::Ephemeral, Mode::PersistentSequential] {
        assert_eq!(zk.create(&long, b"x", mode), Err(E::BadArguments));
        assert!(zk.create(&path, b"x", mode).is_ok());
    }
    assert_eq!(zk.create("/a", &data, Mode::Persistent), Err(E::BadArguments));
    assert_eq!(zk.set(&path, Some(&data), -1), Err(E::BadArguments));
    let id = vec![b'a'; 1 << 20];
    let acl: Vec<_> = (0..20).map(|perms| Acl { perms, scheme: b"x509", id: &id }).collect();
    assert_eq!(zk.create_with("/a", None, Mode::Persistent, &acl), Err(E::InvalidAcl));
    assert_eq!(zk.set_acl(&path, &acl, -1), Err(E::InvalidAcl));
    // The client's own identities take the place of `auth`, once for each entry that differs.
    zk.caller.ids = (0..60).map(|number| crate::support::id("digest", &format!("ann:{number}"))).collect();
    let auth: Vec<_> = (0..900).map(|perms| Acl { perms, scheme: b"auth", id: b"" }).collect();
    assert_eq!(zk.set_acl(&path, &auth, -1), Err(E::InvalidAcl));
    let many = vec![Request::Check { path: b"/", version: -1 }; 5001];
    assert_eq!(zk.multi(many), Err(E::BadArguments));
    assert_eq!((zk.data(&long), zk.children(&long)), (Err(E::NoNode), Err(E::NoNode)));
}

#[test]
fn ephemeral_nodes_are_their_sessions() {
    let mut zk = Zk::new();
    zk.create("/a", b"", Mode::Persistent).expect("new");
    for path in ["/a/y", "/a/x", "/ab"] {
        zk.create(path, b"", Mode::Ephemeral).expect("new");
    }
    let of = |zk: &mut Zk, session, prefix: &str| {
        zk.caller.session = session;
        let answer =
            zk.ask(&Request::About { op: Op::GetEphemerals, path: prefix.as_bytes() }).expect("paths");
        crate::support::names(&mut quorate_zookeeper::jute::Reader::new(&answer))
    };
    let own = zk.caller.session;
    assert_eq!(of(&mut zk, own, "/"), ["/a/x", "/a/y", "/ab"]);
    assert_eq!(
        (of(&mut zk, own, "/a/"), of(&mut zk, own, "/ab")),
        (vec!["/a/x".into(), "/a/y".into()], vec!["/ab".into()])
    );
    assert_eq!(of(&mut zk, own + 1, "/"), [""; 0]);
    zk.caller.session = own;
    zk.delete("/ab", 0).expect("there");
    assert_eq!(of(&mut zk, own, ""), ["/a/x", "/a/y"]);
    let answer = zk.ask(&Request::About { op: Op::GetAllChildrenNumber, path: b"/" }).expect("a number");
    assert_eq!(answer, 6_i32.to_be_bytes(), "three of ours, three of ZooKeeper's");
}

#[test]
fn rights_are_repaired_refused_and_checked() {
    let mut zk = Zk::new();
    zk.caller.ids = vec![id("ip", "10.1.2.3"), id("digest", "ann:hash"), id("x509", "CN=ann")];
    let acl = |perms, scheme: &'static str, id: &'static str| Acl {
        perms,
        scheme: scheme.as_bytes(),
        id: id.as_bytes(),
    };
    let auth = acl(31, "auth", "");
    zk.create_with("/own", None, Mode::Persistent, &[auth, auth, acl(1, "ip", "10.1.0.0/16")]).expect("new");
    let all = ["31:digest:ann:hash", "31:x509:CN=ann", "1:ip:10.1.0.0/16"].map(String::from);
    assert_eq!(zk.acl("/own"), Ok(all.to_vec()), "auth stands for what the client proved, once");
    for (refused, why) in [
        (acl(31, "world", "somebody"), "world is anyone"),
        (acl(31, "digest", "ann"), "no digest"),
        (acl(31, "digest", "ann:a:b"), "two digests"),
        (acl(31, "ip", "10.1.2"), "no address"),
        (acl(31, "ip", "10.1.2.3/33"), "too many bits"),
        (acl(31, "kerberos", "ann"), "not known"),
    ] {
        assert_eq!(zk.set_acl("/own", &[refused], -1), Err(E::InvalidAcl), "{why}");
    }
    zk.caller.ids = vec![id("ip", "10.1.9.9")];
    assert_eq!((zk.data("/own").is_ok(), zk.set("/own", None, -1)), (true, Err(E::NoAuth)));
    assert_eq!(
        zk.acl("/own").map(|list| list[0].clone()),
        Ok("31:digest:ann:x".into()),
        "no digest for others"
    );
    assert_eq!(zk.set_acl("/own", &[auth], -1), Err(E::InvalidAcl), "nothing was proved");
    zk.caller.ids = vec![id("ip", "10.2.0.1")];
    assert_eq!((zk.data("/own"), zk.acl("/own")), (Err(E::NoAuth), Err(E::NoAuth)));
    assert_eq!(zk.exists("/own"), Err(E::NoAuth));
    zk.caller.ids = vec![id("super", "")];
    assert!(zk.set("/own", None, -1).is_ok() && zk.delete("/own", -1).is_ok());
}

#[test]
fn what_happens_is_told_in_order() {
    let mut zk = Zk::new();
    let (created, deleted) = (EventKind::Created as i32, EventKind::Deleted as i32);
    let (changed, children) = (EventKind::DataChanged as i32, EventKind::ChildrenChanged as i32);
    zk.create("/a", b"", Mode::Persistent).expect("new");
    zk.create("/a/b", b"", Mode::Persistent).expect("new");
    zk.set("/a", None, -1).expect("there");
    zk.set_acl("/a", &[Acl::OPEN], -1).expect("there");
    zk.delete("/a/b", -1).expect("there");
    zk.delete("/a/b", -1).expect_err("gone");
    let told = |kind, path: &str, zxid| (kind, path.to_owned(), zxid);
    let expected = [
        told(created, "/a", 2),
        told(children, "/", 2),
        told(created, "/a/b", 3),
        told(children, "/a", 3),
        told(changed, "/a", 4),
        told(deleted, "/a/b", 6),
        told(children, "/a", 6),
    ];
    assert_eq!(zk.events(), expected);
}

/// An empty container lives for a minute, if it ever had a child.
#[test]
fn containers_end_when_they_stay_empty() {
    let mut zk = Zk::new();
    let make = |zk: &mut Zk, path: &str| {
        zk.ask(&made(Op::CreateContainer, path, None, Mode::Container as i32, &[Acl::OPEN], 0)).expect("new");
    };
    make(&mut zk, "/c");
    make(&mut zk, "/never");
    zk.wait(600_000);
    assert!(zk.exists("/c").is_ok() && zk.exists("/never").is_ok(), "none had a child");
    for _ in 0..2 {
        zk.create("/c/a", b"", Mode::Persistent).expect("new");
        zk.create("/c/b", b"", Mode::Persistent).expect("new");
        zk.wait(120_000);
        zk.delete("/c/a", -1).expect("there");
        zk.delete("/c/b", -1).expect("there");
        zk.wait(59_000);
        assert!(zk.exists("/c").is_ok(), "there is time to use it again");
    }
    zk.events();
    let before = zk.zxid;
    zk.wait(1_000);
    assert_eq!((zk.exists("/c"), zk.exists("/never").is_ok()), (Err(E::NoNode), true));
    let told = |kind: EventKind, path: &str| (kind as i32, path.to_owned(), before + 1);
    assert_eq!(zk.events(), [told(EventKind::Deleted, "/c"), told(EventKind::ChildrenChanged, "/")]);
    assert_eq!(zk.entries(&[0, 0, b't']), 0);
    // In a multi that fails nothing of this happens.
    make(&mut zk, "/m");
    zk.create("/m/a", b"", Mode::Persistent).expect("new");
    let fails = vec![
        Request::Delete { path: b"/m/a", version: -1 },
        Request::Delete { path: b"/no-such-node", version: -1 },
    ];
    zk.multi(fails).expect("results");
    assert_eq!(zk.entries(&[0, 0, b't']), 0);
}

/// A node with a time to live ends when it was not changed for that long, or with its last child after that.
#[test]
fn times_to_live_count_from_the_last_change() {
    let mut zk = Zk::new();
    let make = |zk: &mut Zk, path: &str| {
        zk.ask(&made(Op::CreateTtl, path, None, Mode::PersistentTtl as i32, &[Acl::OPEN], 5000))
            .expect("new");
    };
    ["/t", "/parent", "/gone"].iter().for_each(|path| make(&mut zk, path));
    zk.create("/parent/child", b"", Mode::Persistent).expect("new");
    zk.delete("/gone", -1).expect("there");
    zk.wait(4000);
    zk.set("/t", Some(b"x"), -1).expect("there");
    zk.wait(1000);
    assert!(zk.exists("/t").is_ok() && zk.exists("/parent").is_ok(), "one was changed, one has a child");
    zk.wait(4000);
    assert_eq!(zk.exists("/t"), Err(E::NoNode));
    zk.delete("/parent/child", -1).expect("there");
    zk.wait(59_000);
    assert!(zk.exists("/parent").is_ok());
    zk.wait(1000);
    assert_eq!((zk.exists("/parent"), zk.entries(&[0, 0, b't'])), (Err(E::NoNode), 0));
}

/// What a random client does.
#[derive(Clone, Debug)]
enum Act {
    Create(String, i32),
    Delete(String, i32),
    Set(String, Option<Vec<u8>>, i32),
    Multi(Vec<Act>),
}

fn acts(depth: u32) -> impl Strategy<Value = Act> {
    let path = "(/[ab]){1,3}";
    let version = prop_oneof![3 => Just(-1), 1 => 0..3_i32];
    let data = proptest::option::of(proptest::collection::vec(any::<u8>(), 0..3));
    let one = prop_oneof![
        4 => (path, 0..5_i32).prop_map(|(path, flags)| Act::Create(path, flags)),
        2 => (path, version.clone()).prop_map(|(path, version)| Act::Delete(path, version)),
        2 => (path, data, version).prop_map(|(path, data, version)| Act::Set(path, data, version)),
    ];
    one.prop_recursive(depth, 6, 4, |one| proptest::collection::vec(one, 0..4).prop_map(Act::Multi))
}

impl Act {
    fn request(&self) -> Request<'_> {
        match self {
            Self::Create(path, flags) => made(Op::Create2, path, Some(b"x"), *flags, &[Acl::OPEN], 0),
            Self::Delete(path, version) => Request::Delete { path: path.as_bytes(), version: *version },
            Self::Set(path, data, version) => {
                Request::SetData { path: path.as_bytes(), data: data.as_deref(), version: *version }
            }
            Self::Multi(list) => {
                Request::Multi { op: Op::Multi, list: list.iter().map(Self::request).collect() }
            }
        }
    }
}

/// All nodes below one, with their numbers.
fn walk(zk: &mut Zk, path: &str, all: &mut BTreeMap<String, Stat>) {
    let stat = zk.exists(path).expect("a child is there");
    let children = zk.children(path).expect("a child is there");
    assert_eq!(stat.num_children as usize, children.len(), "{path}");
    let data = zk.data(path).expect("a child is there").0;
    assert_eq!(stat.data_length as usize, data.unwrap_or_default().len(), "{path}");
    assert!(stat.czxid <= stat.mzxid && stat.czxid <= stat.pzxid, "{path}: {stat:?}");
    assert!(stat.ephemeral_owner == 0 || children.is_empty(), "{path} is ephemeral");
    all.insert(path.to_owned(), stat);
    for child in children {
        walk(zk, &format!("{}/{child}", path.trim_end_matches('/')), all);
    }
}

proptest! {
    /// Whatever clients do, parents have their children, sessions their nodes, and what fails leaves nothing but its transaction.
    #[test]
    fn the_tree_stays_whole(list in proptest::collection::vec(acts(1), 1..40)) {
        let (mut zk, mut before) = (Zk::new(), BTreeMap::new());
        walk(&mut zk, "/", &mut before);
        for act in list {
            let answer = zk.ask(&act.request());
            let failed = match (&act, answer) {
                (Act::Multi(_), Ok(answer)) => answer.starts_with(&[0xff, 0xff, 0xff, 0xff, 0]),
                (_, answer) => answer.is_err(),
            };
            let mut after = BTreeMap::new();
            walk(&mut zk, "/", &mut after);
            if failed {
                prop_assert_eq!(&before, &after, "{:?} failed", act);
                prop_assert_eq!(zk.events().len(), 0);
            }
            let owned = after.iter().filter(|(_, stat)| stat.ephemeral_owner == zk.caller.session).map(|(path, _)| path.clone());
            let owned: Vec<String> = owned.collect();
            let answer = zk.ask(&Request::About { op: Op::GetEphemerals, path: b"" }).expect("paths");
            let found = crate::support::names(&mut quorate_zookeeper::jute::Reader::new(&answer));
            prop_assert_eq!(&found, &owned);
            let bytes = after.iter().map(|(path, stat)| path.len() as i64 + i64::from(stat.data_length));
            let (nodes, ephemerals) = (after.len() as i64 + 1, owned.len() as i64);
            let expected = Count { nodes, ephemerals, bytes: bytes.sum(), quotas: 0 };
            prop_assert_eq!(zk.count(), expected);
            before = after;
            zk.events();
        }
    }
}
