use super::{Connections, Long, Pulse};
use crate::connection::{Channel, Connection};
use mio::net::TcpStream;
use quorate_types::{ConnId, Span, Time};
use quorate_wire::{FrameKind, OutFrame};
use std::io::{ErrorKind, Read as _};
use std::net::TcpListener;
use std::time::Duration;

const CONN: ConnId = ConnId::new(7);

/// A lane's connections, of which there is one, and its other side.
fn connections() -> (Connections, std::net::TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    other.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let (stream, from) = listener.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    let connection = Connection::accepted(TcpStream::from_std(stream), Channel::Plain, from);
    ([(CONN, connection)].into(), other)
}

fn beat() -> OutFrame {
    OutFrame::new(FrameKind::Order, b"I lead", vec![])
}

#[test]
fn a_long_turn_repeats_heartbeats() {
    let (mut lane, mut other) = connections();
    let pulse = Pulse::start(Span::from_millis(10), Long::default()).expect("a thread");
    // A connection that is elsewhere by now is left out.
    pulse.set(vec![(ConnId::new(8), beat()), (CONN, beat())]);
    pulse.lend(&mut lane);
    assert!(lane.is_empty());
    let mut heard = vec![0; 3 * beat().to_vec().len()];
    other.read_exact(&mut heard).expect("three heartbeats");
    assert_eq!(heard, beat().to_vec().repeat(3));
    pulse.take_back(&mut lane);
    assert!(lane.contains_key(&CONN));
    let sent = lane[&CONN].sent;
    assert!(sent >= heard.len() as u64, "they count as sent: {sent}");
}

#[test]
fn short_turns_repeat_nothing() {
    let (mut lane, mut other) = connections();
    let pulse = Pulse::start(Span::from_millis(100), Long::default()).expect("a thread");
    pulse.set(vec![(CONN, beat())]);
    for _ in 0..100 {
        pulse.lend(&mut lane);
        pulse.take_back(&mut lane);
        std::thread::sleep(Duration::from_millis(2));
    }
    drop(pulse);
    other.set_nonblocking(true).unwrap();
    assert_eq!(other.read(&mut [0]).expect_err("nothing came").kind(), ErrorKind::WouldBlock);
}

#[test]
fn heartbeats_are_asked_for_now_and_then() {
    let mut pulse = Pulse::start(Span::from_millis(50), Long::default()).expect("a thread");
    let at = |millis| Time::ZERO.plus(Span::from_millis(millis));
    let asks: Vec<u64> = (0..200).filter(|millis| pulse.wants(at(*millis))).collect();
    assert_eq!(asks, [0, 50, 100, 150]);
    pulse.renew();
    assert!(pulse.wants(at(151)), "another one leads");
    assert!(pulse.wants(at(20)), "the clock jumped back");
}
