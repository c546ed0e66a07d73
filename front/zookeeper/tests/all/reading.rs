//! Clients that only read, while nothing can be ordered.

use crate::support::cluster::{Cluster, Got, TICK_MS};
use crate::support::made;
use quorate_zookeeper::error::ZkError as E;
use quorate_zookeeper::op::Op;
use quorate_zookeeper::records::{Acl, ConnectRequest};
use quorate_zookeeper::request::Request;
use quorate_zookeeper::server::{Around, ConnId};

/// Server 0 is cut off from the others for longer than a tick, and its clients may read.
fn cut_off() -> (Cluster, ConnId, i64, Vec<u8>) {
    let mut cluster = Cluster::new(2);
    let (conn, session, password) = cluster.client(0);
    cluster.send(0, conn, 1, &made(Op::Create, "/a", Some(b"x"), 0, &[Acl::OPEN], 0));
    cluster.got(conn);
    cluster.stands = true;
    cluster.led(0, false);
    assert_eq!(cluster.got(conn), [], "a new leader may be there soon");
    cluster.wait(TICK_MS, &[]);
    cluster.led(0, false);
    assert_eq!(cluster.got(conn), [Got::Closed]);
    (cluster, conn, session, password)
}

fn hello(session: i64, password: &[u8], read_only: Option<bool>) -> ConnectRequest<'_> {
    ConnectRequest { protocol: 0, last_zxid: 2, timeout_ms: 10_000, session, password, read_only }
}

const READ: Request<'_> = Request::Read { op: Op::Exists, path: b"/a", watch: true };

#[test]
fn reads_are_answered_and_nothing_else() {
    let (mut cluster, _, session, password) = cut_off();
    for refused in [hello(0, &[], None), hello(0, &[], Some(false)), hello(session, &password, Some(false))] {
        let conn = cluster.connect_as(0, refused);
        assert_eq!(cluster.got(conn), [Got::Closed]);
    }
    let ahead = cluster.connect_as(0, ConnectRequest { last_zxid: 9, ..hello(0, &[0; 16], Some(true)) });
    assert_eq!(cluster.got(ahead), [Got::Closed], "its state would go back");
    let wrong = cluster.connect_as(0, hello(session, &[7; 16], Some(true)));
    assert_eq!(cluster.got(wrong), [Got::Session(0, 0, vec![0; 16]), Got::Closed]);

    let conn = cluster.connect_as(0, hello(session, &password, Some(true)));
    assert_eq!(cluster.got(conn), [Got::Session(session, 10_000, password)], "a known session goes on");
    assert_eq!(cluster.only_reads, [conn]);
    let new = cluster.connect_as(0, hello(0, &[0; 16], Some(true)));
    assert!(matches!(&cluster.got(new)[..], [Got::Session(id, 10_000, _)] if *id != 0 && *id != session));
    for conn in [conn, new] {
        cluster.send(0, conn, 1, &READ);
        assert!(matches!(&cluster.got(conn)[..], [Got::Reply(1, 2, 0, _)]));
        let writes = [
            made(Op::Create, "/b", None, 0, &[Acl::OPEN], 0),
            Request::Delete { path: b"/a", version: -1 },
            Request::Multi { op: Op::Multi, list: Vec::new() },
            Request::About { op: Op::Sync, path: b"/" },
        ];
        for write in &writes {
            cluster.send(0, conn, 2, write);
            assert_eq!(cluster.got(conn), [Got::Reply(2, 2, E::NotReadOnly.code(), vec![])], "{write:?}");
        }
    }
    assert_eq!(cluster.word(0, b"isro", &Around::default()), Some("ro".into()));
    cluster.send(0, new, 3, &Request::Plain(Op::CloseSession));
    assert_eq!(cluster.got(new), [Got::Reply(3, 2, 0, vec![]), Got::Closed]);
    // They stay for as long as they speak, although nothing can be ordered.
    for _ in 0..10 {
        cluster.wait(5000, &[]);
        cluster.led(0, false);
        cluster.send(0, conn, -2, &Request::Plain(Op::Ping));
        assert_eq!(cluster.got(conn), [Got::Reply(-2, 2, 0, vec![])]);
    }
    cluster.wait(11_000, &[]);
    assert_eq!(cluster.got(conn), [Got::Closed]);
}

#[test]
fn with_a_leader_they_look_for_a_server_that_writes() {
    let (mut cluster, _, session, password) = cut_off();
    let conn = cluster.connect_as(0, hello(session, &password, Some(true)));
    let new = cluster.connect_as(0, hello(0, &[0; 16], Some(true)));
    let Some(Got::Session(alone, _, its)) = cluster.got(new).pop() else { panic!("no session") };
    cluster.got(conn);
    cluster.stands = false;
    cluster.led(0, true);
    assert_eq!((cluster.got(conn), cluster.got(new)), (vec![Got::Closed], vec![Got::Closed]));
    assert_eq!(cluster.word(0, b"isro", &Around::default()), Some("rw".into()));
    let back = cluster.connect_as(0, hello(session, &password, Some(true)));
    assert_eq!(cluster.got(back), [Got::Session(session, 10_000, password)]);
    let nobody = cluster.connect_as(0, hello(alone, &its, Some(true)));
    assert_eq!(cluster.got(nobody), [Got::Session(0, 0, vec![0; 16]), Got::Closed]);
    cluster.send(0, back, 1, &Request::Delete { path: b"/a", version: -1 });
    assert!(matches!(&cluster.got(back)[..], [Got::Reply(1, _, 0, _)]));
}
