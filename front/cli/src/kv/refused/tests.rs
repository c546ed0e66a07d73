use super::{PAUSE, ROUNDS, refuse_dead};
use quorate_types::ReplicaId;
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

/// Addresses at which nobody listens now, and one listener.
fn members() -> (Vec<(ReplicaId, String)>, TcpListener) {
    let listen = || TcpListener::bind("127.0.0.1:0").expect("a port");
    let all = [listen(), listen(), listen()];
    let address = |at: usize| all[at].local_addr().expect("an address").to_string();
    let members = (0..3).map(|at| (ReplicaId::new(at as u16 + 1), address(at))).collect();
    let [first, ..] = all;
    (members, first)
}

const LONG: Duration = Duration::from_secs(10);

#[test]
fn a_cluster_of_which_nobody_runs_is_refused_long_before_the_deadline() {
    let (members, first) = members();
    drop(first);
    let began = Instant::now();
    let why = refuse_dead(&members, LONG).expect_err("nobody listens").to_string();
    assert!(why.contains("no replica runs (r1 at 127.0.0.1:") && why.contains("`quorate dev`"), "{why}");
    assert!(began.elapsed() < LONG / 2, "{:?}", began.elapsed());
}

#[test]
fn one_replica_is_enough_to_go_on() {
    let (members, _first) = members();
    refuse_dead(&members, LONG).expect("one listens");
}

/// A machine that can not be found, or does not answer, may be there in a moment.
#[test]
fn what_can_not_be_known_is_left_to_the_client() {
    let (mut members, first) = members();
    drop(first);
    members[1].1 = "no.such.host.invalid:1".to_owned();
    refuse_dead(&members, LONG).expect("not known");
}

#[test]
fn a_replica_that_starts_meanwhile_is_waited_for() {
    let (members, first) = members();
    drop(first);
    let address = members[0].1.clone();
    let starts = thread::spawn(move || {
        thread::sleep(PAUSE * (ROUNDS - 1) / 2);
        TcpListener::bind(address)
    });
    refuse_dead(&members, LONG).expect("it starts in time");
    starts.join().expect("no panic").expect("the port is free still");
}
