use super::{CROWD_PASSES, OPERATORS_MAX, Owner, SeatLimits, Seats, network};
use crate::gate::Conn;
use quorate_types::{ClientId, ConnId, Holder, Name, ReplicaId, Time};
use quorate_wire::Link;
use std::net::IpAddr;

fn seats() -> Seats {
    Seats::new(SeatLimits { clients_max: 5, per_client_max: 3, strangers_max: 4 })
}

fn conn(number: u64) -> ConnId {
    ConnId::new(number)
}

fn at(seconds: u64) -> Time {
    Time::from_nanos(seconds * 1_000_000_000)
}

fn ip(last: u8) -> Option<IpAddr> {
    Some([10, 0, 0, last].into())
}

fn named(name: &str) -> Owner {
    Owner::Holder(Holder::Client(Name::parse(name).expect("a name")))
}

const CLIENT: Conn = Conn::Client(ClientId::new(1));

#[test]
fn one_client_leaves_places_to_others() {
    let mut seats = seats();
    for number in 0..3 {
        assert_eq!(seats.room_for_client(&named("greedy")), Ok(()));
        seats.take(conn(number), CLIENT, || named("greedy"));
    }
    let why = seats.room_for_client(&named("greedy")).expect_err("it has its part");
    assert!(why.contains("client greedy has 3 connections") && why.contains("limits.connections_per_client"));
    for number in 3..5 {
        assert_eq!(seats.room_for_client(&named("modest")), Ok(()));
        seats.take(conn(number), CLIENT, || named("modest"));
    }
    let why = seats.room_for_client(&named("late")).expect_err("all places are taken");
    assert!(why.contains("5 clients are connected") && why.contains("limits.connections"));
    assert_eq!((seats.clients(), seats.largest()), (5, Some((&named("greedy"), 3))));
    assert_eq!(seats.room_for_operator(), Ok(()), "operators have places of their own");
    seats.leave(conn(0));
    seats.leave(conn(0));
    assert_eq!(seats.room_for_client(&named("greedy")), Ok(()));
}

#[test]
fn operators_are_counted_apart() {
    let mut seats = seats();
    for number in 0..OPERATORS_MAX as u64 {
        assert_eq!(seats.room_for_operator(), Ok(()));
        seats.take(conn(number), Conn::Admin, || Owner::Unknown);
    }
    assert!(seats.room_for_operator().expect_err("all are taken").contains("64 operators"));
    assert_eq!((seats.operators(), seats.clients()), (OPERATORS_MAX, 0));
    assert_eq!(seats.room_for_client(&named("a")), Ok(()));
    seats.leave(conn(0));
    assert_eq!(seats.room_for_operator(), Ok(()));
}

#[test]
fn the_crowd_makes_room_for_strangers() {
    let mut seats = seats();
    assert_eq!(seats.came(conn(1), ip(1), at(1)), None);
    for number in 2..5 {
        assert_eq!(seats.came(conn(number), ip(2), at(number)), None);
    }
    // The oldest stranger of the address with the most, and not the oldest of all.
    assert_eq!(seats.came(conn(5), ip(3), at(5)), Some(conn(2)));
    seats.leave(conn(2));
    assert_eq!(seats.strangers(), 4);
    // A replica or client that introduces itself gives its stranger's seat back.
    seats.take(conn(3), Conn::From(ReplicaId::new(2), Link::FIRST), || Owner::Unknown);
    seats.take(conn(4), CLIENT, || named("a"));
    assert_eq!((seats.strangers(), seats.clients()), (2, 1));
    assert_eq!(seats.came(conn(6), None, at(6)), None);
}

#[test]
fn few_of_a_crowd_are_let_in_and_all_others_are() {
    let mut seats = seats();
    for number in 1..5 {
        assert!(seats.lets_in(ip(2)));
        let from = if number == 1 { ip(1) } else { ip(2) };
        assert_eq!(seats.came(conn(number), from, at(number)), None);
    }
    let passes = (0..10 * CROWD_PASSES).filter(|_| seats.lets_in(ip(2))).count();
    assert_eq!(passes, 10);
    assert!(seats.lets_in(ip(1)) && seats.lets_in(ip(3)) && seats.lets_in(None), "they are no crowd");
    seats.leave(conn(4));
    assert!(seats.lets_in(ip(2)), "there is a place");
}

#[test]
fn the_handshake_has_its_time() {
    let mut seats = seats();
    assert_eq!(seats.came(conn(1), ip(1), at(5)), None);
    let dialed = Conn::Dialed { replica: ReplicaId::new(2), link: 0, until: at(3) };
    seats.take(conn(2), dialed, || Owner::Unknown);
    assert_eq!((seats.deadline(), seats.strangers()), (Some(at(3)), 1));
    assert_eq!(seats.late(at(2)), []);
    assert_eq!(seats.late(at(3)), [conn(2)]);
    assert_eq!(seats.late(at(5)), [conn(2), conn(1)]);
    seats.leave(conn(2));
    seats.take(conn(1), CLIENT, || Owner::Unknown);
    assert_eq!(seats.deadline(), None);
}

#[test]
fn a_machine_with_many_addresses_is_one() {
    let ip = |text: &str| -> IpAddr { text.parse().expect("an address") };
    assert_eq!(network(ip("2001:db8:1:2:3::1")), network(ip("2001:db8:1:2:ffff::9")));
    assert_ne!(network(ip("2001:db8:1:2::1")), network(ip("2001:db8:1:3::1")));
    assert_eq!(network(ip("::ffff:10.0.0.1")), ip("10.0.0.1"));
    assert_ne!(network(ip("10.0.0.1")), network(ip("10.0.0.2")));
}
