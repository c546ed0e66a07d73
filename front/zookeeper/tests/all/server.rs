//! The server's core: sessions that move, the order of answers and events, watches, and clients that do what they should not.

use crate::support::cluster::{Cluster, Got};
use crate::support::cluster::{Plain, TICK_MS};
use crate::support::{made, read};
use quorate_execute::{Context, InStore, Parallel, Published, ReplySink, Service as _};
use quorate_types::{AgreedTime, Seq, Span, Time};
use quorate_zookeeper::command::Command;
use quorate_zookeeper::error::ZkError as E;
use quorate_zookeeper::feed::Heard;
use quorate_zookeeper::op::Op;
use quorate_zookeeper::records::ConnectRequest;
use quorate_zookeeper::records::{Acl, EventKind, Stat};
use quorate_zookeeper::request::{Request, SetWatches};
use quorate_zookeeper::server::{Now, Output, SaslUsers, Server, ServerConfig};
use quorate_zookeeper::service::ZooKeeper;

fn create(path: &str, flags: i32) -> Request<'_> {
    made(Op::Create, path, Some(b"data"), flags, &[Acl::OPEN], 0)
}

fn set<'a>(path: &'a str, data: &'a [u8]) -> Request<'a> {
    Request::SetData { path: path.as_bytes(), data: Some(data), version: -1 }
}

fn watching(op: Op, path: &str) -> Request<'_> {
    Request::Read { op, path: path.as_bytes(), watch: true }
}

/// The errors of the replies, by the client's numbers.
fn errors(got: &[Got]) -> Vec<(i32, i32)> {
    let one = |got: &Got| match got {
        Got::Reply(xid, _, error, _) => Some((*xid, *error)),
        _ => None,
    };
    got.iter().filter_map(one).collect()
}

fn events(got: &[Got]) -> Vec<(i32, &str)> {
    let one = |got| match got {
        &Got::Event(_, kind, ref path) => Some((kind, path.as_str())),
        _ => None,
    };
    got.iter().filter_map(one).collect()
}

#[test]
fn a_session_moves_and_its_old_place_is_fenced() {
    let mut cluster = Cluster::new(2);
    let (first, session, password) = cluster.client(0);
    cluster.send(0, first, 1, &create("/mine", 1));
    assert_eq!(errors(&cluster.got(first)), [(1, 0)]);

    cluster.stands = true;
    cluster.send(0, first, 2, &set("/mine", b"early"));
    let second = cluster.connect(1, session, &password);
    cluster.send(0, first, 3, &set("/mine", b"late"));
    cluster.stands = false;
    cluster.run();
    assert_eq!(cluster.got(second), [Got::Session(session, 10_000, password.clone())]);
    assert_eq!(cluster.got(first).last(), Some(&Got::Closed), "the client is elsewhere");
    cluster.send(1, second, 4, &read(Op::GetData, "/mine"));
    let got = cluster.got(second);
    assert!(
        matches!(&got[..], [Got::Reply(4, _, 0, data)] if data.starts_with(b"\0\0\0\x05early")),
        "{got:?}"
    );

    for (session, password) in [(session, vec![9; 16]), (session + 1, password.clone()), (session, vec![])] {
        let refused = cluster.connect(1, session, &password);
        assert_eq!(cluster.got(refused), [Got::Session(0, 0, vec![0; 16]), Got::Closed]);
    }
    // The same server takes it back, too, and lets go of the connection before.
    let third = cluster.connect(1, session, &password);
    assert_eq!(cluster.got(second), [Got::Closed]);
    cluster.send(1, third, 5, &Request::Plain(Op::CloseSession));
    cluster.send(1, third, 6, &create("/behind", 0));
    let got = cluster.got(third);
    assert_eq!((errors(&got), got.last()), (vec![(5, 0)], Some(&Got::Closed)));
    let (other, ..) = cluster.client(0);
    cluster.send(0, other, 1, &read(Op::GetChildren, "/"));
    let got = cluster.got(other);
    assert!(matches!(&got[..], [Got::Reply(1, _, 0, names)] if names.starts_with(&[0, 0, 0, 1])), "{got:?}");
}

#[test]
fn answers_come_in_order_and_reads_wait_for_own_writes_only() {
    let mut cluster = Cluster::new(2);
    let ((writes, ..), (reads, ..)) = (cluster.client(0), cluster.client(0));
    cluster.stands = true;
    cluster.send(0, writes, 1, &create("/a", 0));
    cluster.send(0, writes, 2, &read(Op::Exists, "/a"));
    cluster.send(0, writes, -2, &Request::Plain(Op::Ping));
    cluster.send(0, reads, 1, &read(Op::Exists, "/a"));
    assert_eq!(errors(&cluster.got(writes)), [(-2, 0)], "a ping does not wait");
    assert_eq!(errors(&cluster.got(reads)), [(1, E::NoNode.code())]);
    cluster.stands = false;
    cluster.run();
    assert_eq!(errors(&cluster.got(writes)), [(1, 0), (2, 0)]);
}

/// A read between two writes shows the first one, and never the second one.
#[test]
fn a_read_does_not_see_what_its_client_writes_later() {
    let mut cluster = Cluster::new(1);
    let (client, ..) = cluster.client(0);
    cluster.send(0, client, 1, &create("/a", 0));
    cluster.got(client);
    cluster.stands = true;
    for (xid, value) in [(2, b"1"), (4, b"2")] {
        cluster.send(0, client, xid, &set("/a", value));
        cluster.send(0, client, xid + 1, &read(Op::GetData, "/a"));
    }
    cluster.send(0, client, 6, &set("/a", b"3"));
    cluster.stands = false;
    cluster.run();
    let got = cluster.got(client);
    assert_eq!(errors(&got), (2..=6).map(|xid| (xid, 0)).collect::<Vec<_>>());
    let data = |at: usize| match &got[at] {
        Got::Reply(.., record) => record[4],
        other => panic!("{other:?}"),
    };
    assert_eq!((data(1), data(3)), (b'1', b'2'));
}

/// The server that took the write is behind: it answers once its clients can see the write.
#[test]
fn an_answer_waits_for_the_state_and_events_come_before_both() {
    let mut cluster = Cluster::new(2);
    let (client, ..) = cluster.client(0);
    cluster.send(0, client, 1, &create("/a", 0));
    cluster.send(0, client, 2, &watching(Op::GetData, "/a"));
    cluster.got(client);
    cluster.lag(0, true);
    cluster.send(0, client, 3, &set("/a", b"1"));
    cluster.send(0, client, 4, &read(Op::GetData, "/a"));
    assert_eq!(cluster.got(client), []);
    cluster.lag(0, false);
    let got = cluster.got(client);
    assert!(
        matches!(&got[..], [Got::Event(zxid, 3, path), Got::Reply(3, done, 0, _), Got::Reply(4, seen, 0, _)]
            if path == "/a" && zxid == done && seen == done),
        "{got:?}"
    );
}

#[test]
fn a_sync_waits_for_what_others_were_told() {
    let mut cluster = Cluster::new(2);
    let ((writes, ..), (reads, ..)) = (cluster.client(0), cluster.client(1));
    cluster.lag(1, true);
    cluster.send(0, writes, 1, &create("/a", 0));
    assert_eq!(errors(&cluster.got(writes)), [(1, 0)]);
    cluster.send(1, reads, 1, &read(Op::Exists, "/a"));
    assert_eq!(errors(&cluster.got(reads)), [(1, E::NoNode.code())], "it is behind");
    cluster.send(1, reads, 2, &Request::About { op: Op::Sync, path: b"/a" });
    cluster.send(1, reads, 3, &read(Op::Exists, "/a"));
    assert_eq!(cluster.got(reads), []);
    cluster.lag(1, false);
    let got = cluster.got(reads);
    assert_eq!(errors(&got), [(2, 0), (3, 0)]);
    assert!(matches!(&got[0], Got::Reply(.., path) if *path == b"\0\0\0\x02/a"));
}

#[test]
fn a_session_ends_with_the_silence_of_its_client_only() {
    let mut cluster = Cluster::new(2);
    let ((idle, ..), (quiet, session, password)) = (cluster.client(0), cluster.client(0));
    cluster.send(0, quiet, 1, &create("/quiet", 1));
    cluster.send(0, idle, 1, &watching(Op::Exists, "/quiet"));
    cluster.cut(0, quiet);
    for _ in 0..3 {
        cluster.wait(3000, &[]);
        cluster.send(0, idle, -2, &Request::Plain(Op::Ping));
    }
    cluster.wait(3000, &[]);
    cluster.send(0, idle, -2, &Request::Plain(Op::Ping));
    assert_eq!(events(&cluster.got(idle)), [], "it has 10 s, and a tick");
    cluster.wait(2000, &[]);
    assert_eq!(events(&cluster.got(idle)), [(EventKind::Deleted as i32, "/quiet")]);
    let back = cluster.connect(1, session, &password);
    assert_eq!(cluster.got(back), [Got::Session(0, 0, vec![0; 16]), Got::Closed]);
    cluster.send(0, idle, 2, &read(Op::Exists, "/quiet"));
    assert_eq!(errors(&cluster.got(idle)), [(2, E::NoNode.code())]);
}

/// Its client was heard last just before its server died, and has the whole time-out to come back.
#[test]
fn a_dead_server_takes_no_session_along() {
    let mut cluster = Cluster::new(2);
    let (old, session, password) = cluster.client(0);
    cluster.send(0, old, 1, &create("/mine", 1));
    cluster.wait(3000, &[]);
    cluster.send(0, old, -2, &Request::Plain(Op::Ping));
    cluster.wait(9500, &[0]);
    let new = cluster.connect(1, session, &password);
    assert_eq!(cluster.got(new), [Got::Session(session, 10_000, password.clone())]);
    for _ in 0..5 {
        cluster.wait(3000, &[0]);
        cluster.send(1, new, 1, &read(Op::Exists, "/mine"));
        assert_eq!(errors(&cluster.got(new)), [(1, 0)]);
    }
    cluster.cut(1, new);
    cluster.wait(16_000, &[0, 1]);
    let late = cluster.connect(1, session, &password);
    assert_eq!(cluster.got(late), [Got::Session(0, 0, vec![0; 16]), Got::Closed]);
}

#[test]
fn nothing_ends_while_nothing_can_be_ordered() {
    let mut cluster = Cluster::new(2);
    let (conn, session, password) = cluster.client(0);
    cluster.cut(0, conn);
    cluster.stands = true;
    cluster.wait(120_000, &[]);
    cluster.stands = false;
    cluster.wait(500, &[]);
    let back = cluster.connect(1, session, &password);
    assert_eq!(cluster.got(back), [Got::Session(session, 10_000, password)]);
}

#[test]
fn watches_are_set_again_by_what_was_seen() {
    let mut cluster = Cluster::new(2);
    let (conn, ..) = cluster.client(0);
    for (xid, path) in ["/gone", "/changed", "/same", "/parent"].into_iter().enumerate() {
        cluster.send(0, conn, xid as i32, &create(path, 0));
    }
    let got = cluster.got(conn);
    let Some(Got::Reply(_, seen_zxid, ..)) = got.last() else { panic!("{got:?}") };
    cluster.send(0, conn, 10, &Request::Delete { path: b"/gone", version: -1 });
    cluster.send(0, conn, 11, &set("/changed", b"1"));
    cluster.send(0, conn, 12, &create("/parent/child", 0));
    cluster.send(0, conn, 13, &create("/made", 0));
    cluster.got(conn);
    let list = SetWatches {
        seen_zxid: *seen_zxid,
        once: [
            vec![b"/gone", b"/changed", b"/same"],
            vec![b"/made", b"/not-yet"],
            vec![b"/parent", b"/same"],
        ],
        lasting: Some([vec![b"/same"], vec![b"/parent"]]),
    };
    cluster.send(0, conn, -8, &Request::SetWatches(list));
    let got = cluster.got(conn);
    let missed = [(2, "/gone"), (3, "/changed"), (1, "/made"), (4, "/parent")];
    assert_eq!((events(&got), errors(&got)), (missed.to_vec(), vec![(-8, 0)]));
    assert!(got.iter().all(|got| !matches!(got, Got::Event(zxid, ..) if *zxid != -1)));
    cluster.send(0, conn, 14, &set("/same", b"1"));
    cluster.send(0, conn, 15, &create("/not-yet", 0));
    cluster.send(0, conn, 16, &set("/parent/child", b"1"));
    let got = cluster.got(conn);
    assert_eq!(events(&got), [(3, "/same"), (1, "/not-yet"), (3, "/parent/child")]);
}

#[test]
fn watches_are_added_checked_and_removed() {
    let mut cluster = Cluster::new(1);
    let (conn, ..) = cluster.client(0);
    let ask = |cluster: &mut Cluster, op, kind| {
        cluster.send(0, conn, 1, &Request::Watch { op, path: b"/a", kind });
        match &cluster.got(conn)[..] {
            [Got::Reply(1, _, error, record)] => (*error, record.len()),
            other => panic!("{other:?}"),
        }
    };
    let none = (E::NoWatcher.code(), 0);
    assert_eq!(ask(&mut cluster, Op::CheckWatches, 3), none);
    assert_eq!(ask(&mut cluster, Op::AddWatch, 0), (0, 4), "clients read a record");
    assert_eq!(ask(&mut cluster, Op::AddWatch, 1), (0, 4));
    assert_eq!(ask(&mut cluster, Op::AddWatch, 2).0, E::BadArguments.code());
    assert_eq!(
        (ask(&mut cluster, Op::CheckWatches, 4), ask(&mut cluster, Op::CheckWatches, 1)),
        ((0, 0), none)
    );
    assert_eq!(
        (ask(&mut cluster, Op::RemoveWatches, 4), ask(&mut cluster, Op::RemoveWatches, 4)),
        ((0, 0), none)
    );
    assert_eq!(
        (ask(&mut cluster, Op::RemoveWatches, 3), ask(&mut cluster, Op::CheckWatches, 3)),
        ((0, 0), none)
    );
}

/// Events go only to those who may read the node.
#[test]
fn events_are_for_those_who_may_read() {
    let mut cluster = Cluster::new(1);
    let ((owner, ..), (other, ..)) = (cluster.client(0), cluster.client(0));
    let auth = |proof| Request::Auth { kind: 0, scheme: b"digest", proof };
    cluster.send(0, owner, -4, &auth(b"ann:secret"));
    assert_eq!(cluster.got(owner), [Got::Reply(-4, 0, 0, vec![])]);
    let own = Acl { perms: Acl::ALL, scheme: b"auth", id: b"" };
    for conn in [owner, other] {
        cluster.send(0, conn, 1, &watching(Op::Exists, "/own"));
    }
    cluster.send(0, owner, 2, &made(Op::Create, "/own", None, 0, &[own], 0));
    assert_eq!(events(&cluster.got(owner)), [(1, "/own")]);
    assert_eq!(events(&cluster.got(other)), []);
    cluster.send(0, other, 3, &read(Op::GetData, "/own"));
    cluster.send(0, other, 4, &Request::Plain(Op::WhoAmI));
    let got = cluster.got(other);
    assert_eq!(errors(&got), [(3, E::NoAuth.code()), (4, 0)]);
    cluster.send(0, other, -4, &auth(b"super:secret"));
    cluster.send(0, other, 5, &read(Op::GetData, "/own"));
    assert_eq!(errors(&cluster.got(other)), [(-4, 0), (5, 0)], "whoever is super may do everything");
    cluster.send(0, other, -4, &Request::Auth { kind: 0, scheme: b"kerberos", proof: b"" });
    assert_eq!(cluster.got(other), [Got::Reply(-4, 0, E::AuthFailed.code(), vec![]), Got::Closed]);
}

/// A server that lost events compares what its clients watch once with what they have seen, and lets go of the others.
#[test]
fn lost_events_are_made_up_for() {
    let mut cluster = Cluster::new(2);
    let ((writes, ..), (once, ..), (lasting, session, password)) =
        (cluster.client(0), cluster.client(1), cluster.client(1));
    for (xid, path) in ["/gone", "/changed", "/same"].into_iter().enumerate() {
        cluster.send(0, writes, xid as i32, &create(path, 0));
        cluster.send(1, once, xid as i32, &watching(Op::GetData, path));
    }
    cluster.send(1, once, 5, &watching(Op::Exists, "/made"));
    cluster.send(1, once, 6, &watching(Op::Exists, "/never"));
    cluster.send(1, once, 7, &watching(Op::GetChildren, "/same"));
    cluster.send(1, lasting, 1, &Request::Watch { op: Op::AddWatch, path: b"/same", kind: 0 });
    cluster.got(once);
    cluster.got(lasting);
    cluster.lag(1, true);
    cluster.send(0, writes, 10, &Request::Delete { path: b"/gone", version: -1 });
    cluster.send(0, writes, 11, &set("/changed", b"1"));
    cluster.send(0, writes, 12, &create("/made", 0));
    cluster.lose_all_but(1, 0);
    cluster.lag(1, false);
    let got = cluster.got(once);
    let mut found = events(&got);
    found.sort_unstable();
    assert_eq!(found, [(1, "/made"), (2, "/gone"), (3, "/changed")]);
    assert_eq!(cluster.got(lasting), [Got::Closed], "nobody knows what it missed");
    let back = cluster.connect(1, session, &password);
    assert!(matches!(&cluster.got(back)[..], [Got::Session(..)]));
    cluster.send(0, writes, 13, &create("/same/child", 0));
    cluster.send(0, writes, 14, &create("/never", 0));
    assert_eq!(events(&cluster.got(once)), [(4, "/same"), (1, "/never")]);
}

/// What was told behind the lost part is handed on. A comparison with the last state would show nothing of a node that came in the lost part
/// and went behind it.
#[test]
fn events_behind_the_lost_ones_are_handed_on() {
    let mut cluster = Cluster::new(2);
    let ((writes, ..), (once, ..), (lasting, ..)) = (cluster.client(0), cluster.client(1), cluster.client(1));
    cluster.send(0, writes, 1, &create("/kept", 0));
    for (xid, path) in ["/came", "/stays", "/late", "/never"].into_iter().enumerate() {
        cluster.send(1, once, xid as i32, &watching(Op::Exists, path));
    }
    cluster.send(1, once, 5, &watching(Op::GetChildren, "/kept"));
    cluster.send(1, lasting, 1, &Request::Watch { op: Op::AddWatch, path: b"/late", kind: 0 });
    cluster.got(once);
    cluster.got(lasting);
    cluster.lag(1, true);
    cluster.send(0, writes, 10, &create("/stays", 0));
    cluster.send(0, writes, 11, &create("/came", 0));
    cluster.send(0, writes, 12, &Request::Delete { path: b"/came", version: -1 });
    cluster.send(0, writes, 13, &create("/late", 0));
    cluster.lose_all_but(1, 2);
    cluster.lag(1, false);
    assert_eq!(
        events(&cluster.got(once)),
        [(1, "/stays"), (2, "/came"), (1, "/late")],
        "in order, each once"
    );
    assert_eq!(cluster.got(lasting), [Got::Closed], "nobody knows what it missed, so it hears nothing more");
    for (xid, path) in ["/came", "/never", "/kept/child"].into_iter().enumerate() {
        cluster.send(0, writes, 20 + xid as i32, &create(path, 0));
    }
    assert_eq!(events(&cluster.got(once)), [(1, "/never"), (4, "/kept")]);
}

/// A replica that has diverged answers no reads, and shows no session either.
#[test]
fn a_replica_that_may_not_be_read_shows_nothing() {
    let mut cluster = Cluster::new(1);
    let (client, ..) = cluster.client(0);
    cluster.withdraw(0);
    cluster.send(0, client, 1, &read(Op::Exists, "/"));
    cluster.send(0, client, 2, &read(Op::Exists, "/zookeeper"));
    assert_eq!(cluster.got(client), []);
    cluster.answer_again();
    assert_eq!(errors(&cluster.got(client)), [(1, 0), (2, 0)]);
}

#[test]
fn clients_that_do_what_they_should_not_harm_nobody_else() {
    let mut cluster = Cluster::new(1);
    let (good, session, _) = cluster.client(0);
    let torn = cluster.open_connection(0);
    cluster.send_frame(0, torn, vec![0; 7]);
    assert_eq!(cluster.got(torn), [Got::Closed]);
    let (short, ..) = cluster.client(0);
    cluster.send_frame(0, short, vec![0; 7]);
    assert_eq!(cluster.got(short), [Got::Closed]);
    let (odd, ..) = cluster.client(0);
    let mut unknown = 1_i32.to_be_bytes().to_vec();
    unknown.extend_from_slice(&99_i32.to_be_bytes());
    cluster.send_frame(0, odd, unknown);
    cluster.send(0, odd, 2, &Request::Check { path: b"/", version: -1 });
    cluster.send_frame(0, odd, [3_i32.to_be_bytes(), Op::GetData.code().to_be_bytes()].concat());
    let expected = [(1, E::Unimplemented.code()), (2, E::Unimplemented.code()), (3, E::Marshalling.code())];
    assert_eq!(errors(&cluster.got(odd)), expected);
    // It never finishes its beginning.
    let silent = cluster.open_connection(0);
    cluster.wait(58_000, &[]);
    cluster.send(0, good, -2, &Request::Plain(Op::Ping));
    cluster.wait(3_000, &[]);
    assert_eq!(cluster.got(silent), [Got::Closed]);
    let _ = session;
}

#[test]
fn stats_of_answers_are_those_of_the_state_that_is_shown() {
    let mut cluster = Cluster::new(1);
    let (client, ..) = cluster.client(0);
    cluster.send(0, client, 1, &made(Op::Create2, "/a", Some(b"x"), 0, &[Acl::OPEN], 0));
    cluster.send(0, client, 2, &read(Op::Exists, "/a"));
    let got = cluster.got(client);
    let [Got::Reply(1, zxid, 0, made), Got::Reply(2, seen, 0, stat)] = &got[..] else { panic!("{got:?}") };
    assert_eq!((&made[6..], zxid), (&stat[..], seen));
    assert_eq!(stat.len(), Stat::BYTES);
}

/// A client of a server that the cluster does not hear can not know whether its session still lives.
#[test]
fn a_server_that_nobody_hears_lets_its_clients_go() {
    let mut cluster = Cluster::new(1);
    let (client, ..) = cluster.client(0);
    cluster.wait(3000, &[]);
    cluster.stands = true;
    for _ in 0..3 {
        cluster.wait(3000, &[]);
        cluster.send(0, client, -2, &Request::Plain(Op::Ping));
    }
    assert_eq!(errors(&cluster.got(client)), [(-2, 0); 3], "its time-out is 10 s");
    cluster.wait(3000, &[]);
    assert_eq!(cluster.got(client).last(), Some(&Got::Closed));
}

/// Nor can a client of a server whose replica is left behind know what is true now. It finds a server that does.
#[test]
fn a_server_that_is_left_behind_lets_its_clients_go() {
    let mut cluster = Cluster::new(2);
    let (client, ..) = cluster.client(0);
    let (other, ..) = cluster.client(1);
    cluster.lag(0, true);
    cluster.send(1, other, 1, &create("/new", 0));
    for _ in 0..3 {
        cluster.wait(3000, &[]);
        cluster.send(0, client, -2, &Request::Plain(Op::Ping));
        cluster.send(1, other, -2, &Request::Plain(Op::Ping));
    }
    assert_eq!(errors(&cluster.got(client)), [(-2, 0); 3], "its time-out is 10 s");
    cluster.wait(3000, &[]);
    assert_eq!(cluster.got(client).last(), Some(&Got::Closed));
    assert!(!cluster.got(other).contains(&Got::Closed), "its server knows everything");
}

/// A server that catches up in time keeps its clients, however often it is behind for a while.
#[test]
fn a_server_that_catches_up_keeps_its_clients() {
    let mut cluster = Cluster::new(2);
    let (client, ..) = cluster.client(0);
    let (other, ..) = cluster.client(1);
    for number in 0..8 {
        cluster.lag(0, true);
        cluster.send(1, other, number, &create(&format!("/{number}"), 0));
        cluster.wait(3000, &[]);
        cluster.send(0, client, -2, &Request::Plain(Op::Ping));
        cluster.lag(0, false);
        cluster.wait(100, &[]);
    }
    assert!(!cluster.got(client).contains(&Got::Closed));
}

/// One client's watches and identities have limits.
#[test]
fn what_takes_too_much_memory_ends_its_connection() {
    let mut cluster = Cluster::new(1);
    let (watches, ..) = cluster.client(0);
    let (path, mut closed) = (format!("/{}", "a".repeat(50_000)), false);
    for number in 0..200 {
        let path = format!("{path}{number}");
        cluster.send(0, watches, number, &watching(Op::Exists, &path));
        closed |= cluster.got(watches).contains(&Got::Closed);
    }
    assert!(closed, "20 MB of watches");
    let (proves, ..) = cluster.client(0);
    for number in 0..70 {
        let proof = format!("ann:{number}");
        let auth = Request::Auth { kind: 0, scheme: b"digest", proof: proof.as_bytes() };
        cluster.send(0, proves, -4, &auth);
    }
    let got = cluster.got(proves);
    assert_eq!(errors(&got).iter().filter(|(_, error)| *error == 0).count(), 63, "with its address 64");
    assert_eq!(got.last(), Some(&Got::Closed));
    let (good, ..) = cluster.client(0);
    cluster.send(0, good, 1, &read(Op::Exists, "/"));
    assert_eq!(errors(&cluster.got(good)), [(1, 0)]);
}

/// A replica may have nothing to show for long, while its server is there already. Who came and went meanwhile is looked for afterwards.
#[test]
fn sessions_from_before_the_first_state_are_known_with_it() {
    let mut service = InStore::new(Parallel::new(ZooKeeper::default()));
    let tick = Span::from_millis(TICK_MS);
    let config = ServerConfig {
        server: 1,
        tick,
        timeout_ms: (6000, 60_000),
        waiting_max: (8, 1 << 16),
        super_digest: None,
        sasl_users: SaslUsers::default(),
        linearizable: false,
        may_reconfigure: true,
        read_only: false,
    };
    let now = |ms: u64| Now { time: Time::from_nanos(ms * 1_000_000), wall_ms: ms as i64 };
    let mut server = Server::new(config, Box::new(Plain::new(1)));
    server.turn(Heard::default(), None, now(0));
    server.connected(1, Vec::new(), now(0));
    let hello = ConnectRequest {
        protocol: 0,
        last_zxid: 0,
        timeout_ms: 6000,
        session: 0,
        password: &[0; 16],
        read_only: Some(false),
    };
    let mut frame = Vec::new();
    hello.write(&mut frame);
    server.received(1, frame.into(), now(0));
    let Some(Output::Order { token, command, .. }) = server.take_outputs().pop() else { panic!("it opens") };
    let (mut reply, ctx) = (Vec::new(), Context::at(Seq::new(1), AgreedTime::from_nanos(1)));
    service.execute(&command, &ctx, &mut ReplySink::new(&mut reply, 1 << 20));
    // Its client is gone before anything is shown.
    server.closed(1);
    server.ordered(token, Some(reply.into()), now(0));
    let objects = service.objects().version();
    let first = Published { objects, seq: Seq::new(1), time: ctx.time(), level: 1, service_level: 1 };
    server.turn(Heard::default(), Some(&first), now(10));
    server.tick(now(4000));
    let word = server.take_outputs().into_iter().find_map(|output| match output {
        Output::Order { command, conn: None, .. } => Some(command),
        _ => None,
    });
    let word = word.expect("it speaks of the session");
    let Ok(Command::Live { silent, .. }) = Command::read(&word) else { panic!("a word") };
    assert_eq!(silent.len(), 1, "which is silent");
}
