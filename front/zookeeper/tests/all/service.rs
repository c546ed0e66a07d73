//! Commands, queries and answers as a server sends and gets them: transactions, records, multis, and bytes that are none.

use crate::support::{Part, Zk, made, names, read, stat};
use proptest::prelude::*;
use quorate_execute::ParallelService as _;
use quorate_zookeeper::command::{Asked, Command, Opening, write_asked, write_command};
use quorate_zookeeper::error::ZkError;
use quorate_zookeeper::jute::Reader;
use quorate_zookeeper::op::Op;
use quorate_zookeeper::records::{Acl, Stat};
use quorate_zookeeper::request::{Mode, Request};
use quorate_zookeeper::service::ZooKeeper;

#[test]
fn each_write_takes_the_next_transaction_and_reads_take_none() {
    let mut zk = Zk::new();
    assert_eq!((zk.exists("/").is_ok(), zk.zxid), (true, 1));
    for (expected, path) in [(2, "/a"), (3, "/b")] {
        zk.create(path, b"", Mode::Persistent).expect("it is new");
        assert_eq!(zk.zxid, expected);
    }
    assert_eq!((zk.create("/a", b"", Mode::Persistent), zk.zxid), (Err(ZkError::NodeExists), 4));
    assert_eq!((zk.delete("/c", -1), zk.zxid), (Err(ZkError::NoNode), 5));
    assert_eq!((zk.data("/a").is_ok(), zk.zxid), (true, 5));
    assert_eq!(zk.exists("/b").map(|stat| stat.czxid), Ok(3));
}

/// What only servers and sessions may do is not done here, and takes a transaction where it would be a write.
#[test]
fn what_is_no_operation_of_the_tree_is_not_done() {
    let mut zk = Zk::new();
    let before = zk.root();
    for request in [Request::Plain(Op::Ping), read_of(Op::Sync), Request::Sasl { token: b"" }] {
        assert_eq!(zk.ask(&request), Err(ZkError::Unimplemented), "{request:?}");
    }
    assert_eq!(
        zk.ask(&Request::Check { path: b"/", version: 0 }),
        Err(ZkError::Unimplemented),
        "only in a multi"
    );
    assert_eq!(zk.root(), before);
}

fn read_of(op: Op) -> Request<'static> {
    Request::About { op, path: b"/" }
}

#[test]
fn the_newer_ways_to_create_are_answered_with_numbers() {
    let mut zk = Zk::new();
    for (op, flags, ttl, owner) in [
        (Op::Create2, Mode::Persistent, 0, 0),
        (Op::Create2, Mode::Ephemeral, 0, zk.caller.session),
        (Op::CreateContainer, Mode::Container, 0, 0),
        (Op::CreateTtl, Mode::PersistentTtl, 0x1234, 0),
    ] {
        let path = format!("/{op:?}{}", flags as i32);
        let answer = zk.ask(&made(op, &path, Some(b"abc"), flags as i32, &[Acl::OPEN], ttl)).expect("made");
        let mut from = Reader::new(&answer);
        assert_eq!(from.bytes(), Ok(Some(path.as_bytes())));
        let found = stat(&mut from);
        let zxid = zk.zxid;
        let expected = Stat {
            czxid: zxid,
            mzxid: zxid,
            pzxid: zxid,
            ctime: 1000,
            mtime: 1000,
            ephemeral_owner: owner,
            data_length: 3,
            ..Stat::default()
        };
        assert_eq!((found, from.rest()), (expected, &[][..]));
        assert_eq!(zk.exists(&path), Ok(expected));
    }
}

/// In a multi the operation says that a node is a container, and its mode that it has a number.
#[test]
fn a_container_in_a_multi_is_answered_with_numbers() {
    let mut zk = Zk::new();
    let parts = zk.multi(vec![made(Op::CreateContainer, "/c-", None, 2, &[Acl::OPEN], 0)]).expect("results");
    assert!(matches!(&parts[..], [Part::Made(path, Some(_))] if path == "/c-0000000000"), "{parts:?}");
}

#[test]
fn a_multi_does_all_or_nothing() {
    let mut zk = Zk::new();
    zk.create("/a", b"1", Mode::Persistent).expect("it is new");
    let create = |path| made(Op::Create, path, Some(b"x"), 0, &[Acl::OPEN], 0);
    let parts = zk.multi(vec![
        Request::Check { path: b"/a", version: 0 },
        create("/a/b"),
        made(Op::Create2, "/a/b/c", None, 0, &[Acl::OPEN], 0),
        Request::SetData { path: b"/a", data: Some(b"22"), version: 0 },
        Request::Delete { path: b"/a/b/c", version: 0 },
    ]);
    let parts = parts.expect("a list");
    assert_eq!((&parts[0], &parts[1]), (&Part::Nothing, &Part::Made("/a/b".into(), None)));
    let Part::Made(path, Some(made_stat)) = &parts[2] else { panic!("{parts:?}") };
    assert_eq!((path.as_str(), made_stat.czxid), ("/a/b/c", 3), "one transaction for all");
    let Part::Set(set) = &parts[3] else { panic!("{parts:?}") };
    assert_eq!((set.version, set.num_children, &parts[4]), (1, 1, &Part::Nothing));
    assert_eq!(zk.children("/a/b"), Ok(vec![]));

    let before: Vec<_> = ["/", "/a", "/a/b"].iter().map(|path| zk.exists(path)).collect();
    zk.events();
    let refused = zk.multi(vec![
        create("/z"),
        Request::Delete { path: b"/a/b", version: -1 },
        Request::SetData { path: b"/a", data: None, version: 0 },
        create("/y"),
    ]);
    assert_eq!(refused, Ok([0, 0, -103, -2].map(Part::Error).into()));
    let after: Vec<_> = ["/", "/a", "/a/b"].iter().map(|path| zk.exists(path)).collect();
    assert_eq!(before, after);
    assert_eq!((zk.events(), zk.exists("/z")), (vec![], Err(ZkError::NoNode)));
    assert_eq!(zk.data("/a").map(|(data, _)| data), Ok(Some(b"22".to_vec())));
    assert_eq!(zk.multi(vec![]), Ok(vec![]));
}

#[test]
fn several_reads_have_results_of_their_own() {
    let mut zk = Zk::new();
    zk.create("/a", b"data", Mode::Persistent).expect("it is new");
    let list = vec![read(Op::GetData, "/a"), read(Op::GetData, "/b"), read(Op::GetChildren, "/")];
    let answer = zk.ask(&Request::Multi { op: Op::MultiRead, list }).expect("a list");
    let mut from = Reader::new(&answer);
    assert_eq!((from.int(), from.flag(), from.int()), (Ok(Op::GetData.code()), Ok(false), Ok(0)));
    assert_eq!((from.bytes(), stat(&mut from).data_length), (Ok(Some(&b"data"[..])), 4));
    assert_eq!((from.int(), from.flag(), from.int(), from.int()), (Ok(-1), Ok(false), Ok(-101), Ok(-101)));
    assert_eq!((from.int(), from.flag(), from.int()), (Ok(Op::GetChildren.code()), Ok(false), Ok(0)));
    assert_eq!(names(&mut from), ["a", "zookeeper"]);
    assert_eq!((from.int(), from.flag(), from.int(), from.rest()), (Ok(-1), Ok(true), Ok(-1), &[][..]));
}

/// A record that does not decode is told to its client, and is a transaction as any other write that fails.
#[test]
fn records_that_do_not_decode_are_refused() {
    let mut zk = Zk::new();
    let written = |asked| {
        let mut bytes = Vec::new();
        write_asked(0, &zk.caller, &asked, &mut bytes);
        bytes
    };
    let cut = written(Asked { op: Op::SetData.code(), request: b"" });
    let unknown = written(Asked { op: 99, request: b"" });
    assert_eq!((zk.command(&cut), zk.zxid), (Err(ZkError::Marshalling), 2));
    assert_eq!((zk.command(&cut[..cut.len() - 2]), zk.zxid), (Err(ZkError::Marshalling), 2));
    assert_eq!((zk.query(&[0; 9]), zk.zxid), (Err(ZkError::Marshalling), 2));
    assert_eq!((zk.command(&unknown), zk.zxid), (Err(ZkError::Unimplemented), 3));
}

proptest! {
    #[test]
    fn any_bytes_get_an_answer(command in proptest::collection::vec(any::<u8>(), 0..80), op in 0..Op::ALL.len()) {
        let mut zk = Zk::new();
        let _ = zk.command(&command);
        let _ = zk.query(&command);
        let mut bytes = Vec::new();
        let asked = Asked { op: Op::ALL[op].code(), request: &command };
        write_asked(5, &zk.caller, &asked, &mut bytes);
        let _ = zk.command(&bytes);
        // A query has no kind, no time and no attachment.
        let query = [&bytes[9..17], &bytes[21..]].concat();
        let _ = zk.query(&query);
        let mut kind = command;
        for first in 0..6 {
            kind.insert(0, first);
            let _ = zk.command(&kind);
        }
    }
}

/// With full disks only what frees space is ordered, and what keeps sessions alive.
#[test]
fn deletions_and_signs_of_life_are_taken_on_full_disks() {
    let service = ZooKeeper::default();
    let opening = Opening { digest: [0; 32], timeout_ms: 1, server: 1 };
    let delete = || Request::Delete { path: b"/a", version: -1 };
    let create = || made(Op::Create, "/a", None, 0, &[Acl::OPEN], 0);
    let multi = |list| Request::Multi { op: Op::Multi, list };
    let caller = Zk::new().caller;
    let write = |request: &Request<'_>| {
        let mut bytes = Vec::new();
        write_command(&caller, 1, request, &mut bytes);
        service.frees(&bytes)
    };
    for request in [delete(), Request::Plain(Op::CloseSession), multi(vec![delete(), delete()])] {
        assert!(write(&request), "{request:?}");
    }
    for request in [create(), multi(vec![delete(), create()]), multi(vec![])] {
        assert!(!write(&request), "{request:?}");
    }
    for command in [
        Command::Live { server: 1, zxid: 1, silent: Vec::new() },
        Command::Open(opening),
        Command::Attach { session: 1, opening },
    ] {
        let mut bytes = Vec::new();
        command.write(&mut bytes);
        assert!(service.frees(&bytes), "{command:?}");
    }
    assert!(!service.frees(b"") && !service.frees(&[9]));
}
