//! `/zookeeper/config`: what servers say of the members, what clients read there, and how they change the members.

use crate::support::cluster::{Cluster, Got};
use crate::support::{Zk, stat};
use proptest::prelude::*;
use quorate_zookeeper::command::Command;
use quorate_zookeeper::error::ZkError as E;
use quorate_zookeeper::jute::Reader;
use quorate_zookeeper::members::{Member, Members};
use quorate_zookeeper::op::Op;
use quorate_zookeeper::request::{Reconfig, Request};
use quorate_zookeeper::server::{Change, ConnId, Named};
use quorate_zookeeper::tree::Rules;

const CONFIG: &[u8] = b"/zookeeper/config";

fn member(replica: i32, clients: Option<&str>) -> Member {
    let clients = clients.map(str::to_owned);
    Member { replica, learner: replica > 3, address: format!("10.0.0.{replica}:7000"), clients }
}

/// What server 1 says.
fn three() -> Members {
    Members { cluster: 1, number: 1, list: vec![member(1, Some("a:2181")), member(2, None), member(3, None)] }
}

/// The one answer that a client got, with the events before it.
fn answer(cluster: &mut Cluster, conn: ConnId) -> (Result<Vec<u8>, E>, usize) {
    let mut got = cluster.got(conn);
    let Some(Got::Reply(_, _, error, record)) = got.pop() else { panic!("no answer, but {got:?}") };
    (if error == 0 { Ok(record) } else { Err(E::of(error).expect("known")) }, got.len())
}

fn config(cluster: &mut Cluster, conn: ConnId, watch: bool) -> (String, i32) {
    cluster.send(0, conn, 5, &Request::Read { op: Op::GetData, path: CONFIG, watch });
    let record = answer(cluster, conn).0.expect("everybody may read it");
    text(&record)
}

fn text(record: &[u8]) -> (String, i32) {
    let mut from = Reader::new(record);
    let data = from.bytes().expect("data").expect("some").to_vec();
    (String::from_utf8(data).expect("text"), stat(&mut from).version)
}

#[test]
fn clients_read_the_members_and_hear_of_new_ones() {
    let mut cluster = Cluster::new(1);
    let (conn, ..) = cluster.client(0);
    assert_eq!(config(&mut cluster, conn, true), (String::new(), 0));
    cluster.say(1, &three());
    let event = &cluster.got(conn)[..];
    assert!(matches!(event, [Got::Event(zxid, 3, _)] if *zxid == 2), "{event:?}");
    let first = "server.1=10.0.0.1:7000:7001:participant;a:2181\nserver.2=10.0.0.2:7000:7001:participant\n\
                 server.3=10.0.0.3:7000:7001:participant\nversion=1";
    assert_eq!(config(&mut cluster, conn, false), (first.to_owned(), 1));
    // Said again it is nothing new.
    let zxid = cluster.zxid();
    assert_eq!(cluster.say(1, &three()), zxid);
    // Another server knows its own address, and a fourth member, but not the address of the first.
    let mut four = three();
    four.number = 0x1f;
    four.list[0].clients = None;
    four.list[1].clients = Some("b:2181".to_owned());
    four.list.push(member(4, None));
    // What it says of others counts for those of which nothing is known.
    four.list[0].clients = Some("wrong:1".to_owned());
    cluster.say(2, &four);
    let second = "server.1=10.0.0.1:7000:7001:participant;a:2181\nserver.2=10.0.0.2:7000:7001:participant;b:2181\n\
                  server.3=10.0.0.3:7000:7001:participant\nserver.4=10.0.0.4:7000:7001:observer\nversion=1f";
    assert_eq!(config(&mut cluster, conn, false), (second.to_owned(), 2));
    // Who is behind changes nothing but its own address.
    let mut late = three();
    late.list[0].clients = Some("c:1".to_owned());
    cluster.say(1, &late);
    assert_eq!(config(&mut cluster, conn, false), (second.replace("a:2181", "c:1"), 3));
    // A cluster that was made from a backup begins anew; one member alone is not shown.
    cluster.say(1, &Members { cluster: 2, ..three() });
    assert_eq!(config(&mut cluster, conn, false).0, first);
    cluster.say(1, &Members { cluster: 2, number: 2, list: vec![member(1, None)] });
    assert_eq!(config(&mut cluster, conn, false).0, "");
}

/// Where clients shall not be told of the members, they are told of none, not even of those that a backup knew.
#[test]
fn members_that_are_not_to_be_shown_are_not() {
    let mut shown = Zk::new();
    let say = |zk: &mut Zk, members: Members| {
        let mut bytes = Vec::new();
        Command::Members { time_ms: 1, speaker: 1, members }.write(&mut bytes);
        zk.command(&bytes).expect("it is heard");
    };
    say(&mut shown, three());
    assert!(shown.data("/zookeeper/config").is_ok_and(|(data, _)| data.is_some_and(|data| !data.is_empty())));
    let mut hidden = shown.again(Rules { show_members: false, ..Rules::default() });
    say(&mut hidden, Members { cluster: 2, ..three() });
    assert_eq!(hidden.data("/zookeeper/config").map(|(data, _)| data), Ok(Some(vec![])));
    let zxid = hidden.zxid;
    say(&mut hidden, Members { cluster: 2, number: 2, ..three() });
    assert_eq!(hidden.zxid, zxid, "nothing is changed");
}

/// A change that the client wants; only whoever may write the node may.
fn reconfig<'a>(joining: &'a str, leaving: &'a str, members: Option<&'a str>, version: i64) -> Request<'a> {
    let some = |text: &'a str| Some(text.as_bytes()).filter(|text| !text.is_empty());
    let (joining, leaving, members) = (some(joining), some(leaving), members.map(str::as_bytes));
    Request::Reconfig(Reconfig { joining, leaving, members, version })
}

fn super_client(cluster: &mut Cluster) -> ConnId {
    let (conn, ..) = cluster.client(0);
    cluster.send(0, conn, -4, &Request::Auth { kind: 0, scheme: b"digest", proof: b"super:secret" });
    cluster.got(conn);
    conn
}

#[test]
fn a_change_is_carried_out_and_answered_with_what_is_shown() {
    let mut cluster = Cluster::new(2);
    cluster.say(1, &three());
    let (nobody, ..) = cluster.client(0);
    cluster.send(0, nobody, 1, &reconfig("", "3", None, -1));
    assert_eq!(answer(&mut cluster, nobody).0, Err(E::NoAuth));
    let conn = super_client(&mut cluster);
    cluster.send(0, conn, 1, &reconfig("", "3", None, 7));
    assert_eq!(answer(&mut cluster, conn).0, Err(E::BadVersion));
    assert_eq!(cluster.change(), None);
    cluster.send(0, conn, 2, &reconfig("server.4=10.0.0.4:7000:1:observer;2181", "3,9", None, 1));
    // A write behind it waits.
    let before = cluster.zxid();
    cluster.send(0, conn, 3, &Request::Delete { path: b"/none", version: -1 });
    assert_eq!((cluster.got(conn), cluster.zxid()), (vec![], before));
    let (at, token, change) = cluster.change().expect("the change");
    let named =
        Named { replica: 4, address: "10.0.0.4:7000".into(), learner: true, clients: "10.0.0.4:2181".into() };
    let expected = Change { number: Some(1), joining: vec![named], leaving: vec![3, 9], is_whole: false };
    assert_eq!(change, expected);
    let list = vec![member(1, None), member(2, None), member(4, Some("10.0.0.4:2181"))];
    let zxid = cluster.say(1, &Members { cluster: 1, number: 2, list });
    cluster.changed(at, token, Some(Ok(zxid)));
    let got = cluster.got(conn);
    let [Got::Reply(2, seen, 0, record), Got::Reply(3, next, -101, _)] = &got[..] else { panic!("{got:?}") };
    assert_eq!((*seen, *next), (zxid, zxid + 1));
    assert!(text(record).0.ends_with("server.4=10.0.0.4:7000:7001:observer;10.0.0.4:2181\nversion=2"));
}

#[test]
fn a_refused_change_is_told_and_an_unknown_end_closes() {
    let mut cluster = Cluster::new(1);
    cluster.say(1, &three());
    let conn = super_client(&mut cluster);
    for done in [Some(Err(E::NewConfigNoQuorum)), None] {
        cluster.send(0, conn, 2, &reconfig("", "3", None, -1));
        let (at, token, _) = cluster.change().expect("the change");
        cluster.changed(at, token, done);
        let expected = match done {
            Some(_) => Got::Reply(2, cluster.zxid(), E::NewConfigNoQuorum.code(), Vec::new()),
            None => Got::Closed,
        };
        assert_eq!(cluster.got(conn), [expected]);
    }
}

#[test]
fn servers_are_named_as_in_zookeeper() {
    let mut cluster = Cluster::new(1);
    cluster.say(1, &three());
    let conn = super_client(&mut cluster);
    let mut ask = |request: &Request<'_>| {
        cluster.send(0, conn, 2, request);
        let Some((at, token, change)) = cluster.change() else {
            return Err(answer(&mut cluster, conn).0.expect_err("refused"));
        };
        cluster.changed(at, token, Some(Err(E::System)));
        cluster.got(conn);
        Ok(change)
    };
    for wrong in [
        "server.4=h:1:2",
        "server.4=h:1;3",
        "server.4=h:1:2:voter;3",
        "server.4=h:1:2:observer:x;3",
        "server.x=h:1:2;3",
        "server.0=h:1:2;3",
        "server.70000=h:1:2;3",
        "4",
        "server.4=h:0:2;3",
        "server.4=h:1:2;x:y",
        "server.4=:1:2;3",
        "server.4=h:1:2;a;b:3",
        "server.4=my h:1:2;3",
    ] {
        assert_eq!(ask(&reconfig(wrong, "", None, -1)), Err(E::BadArguments), "{wrong}");
    }
    assert_eq!(ask(&reconfig("", "x", None, -1)), Err(E::BadArguments));
    assert_eq!(
        ask(&reconfig("", "", Some("server.1=h:1:2:observer;3"), -1)),
        Err(E::BadArguments),
        "no voter"
    );
    let whole =
        "server.1=h:1:2;3\nserver.2=[::1]:4:5:participant;[::1]:6, server.3=k:7:8:observer;9\nversion=100";
    let change = ask(&reconfig("", "1", Some(whole), -1)).expect("a list");
    let named = |replica, address: &str, learner, clients: &str| Named {
        replica,
        address: address.to_owned(),
        learner,
        clients: clients.to_owned(),
    };
    let joining = vec![
        named(1, "h:1", false, "h:3"),
        named(2, "[::1]:4", false, "[::1]:6"),
        named(3, "k:7", true, "k:9"),
    ];
    assert_eq!(change, Change { number: None, joining, leaving: vec![], is_whole: true });
}

proptest! {
    /// Whatever stands there, and in whatever order servers speak, the same is shown.
    #[test]
    fn the_newest_list_wins(order in Just((1..6_i64).collect::<Vec<_>>()).prop_shuffle()) {
        let said = |number: i64| {
            let mut list: Vec<Member> = (1..=number as i32).map(|id| member(id, None)).collect();
            list[0].clients = Some(format!("h{}:1", list.len()));
            Members { cluster: 1, number, list }
        };
        let mut all = Members::default();
        order.iter().for_each(|number| all.hear(&said(*number), 1));
        prop_assert_eq!((all.number, all.list.len()), (5, 5));
        let last = order.last().expect("five");
        prop_assert_eq!(all.list[0].clients.clone(), Some(format!("h{last}:1")));
    }
}
