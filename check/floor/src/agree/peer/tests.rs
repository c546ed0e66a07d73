use super::*;
use crate::agree::message::Sender;
use crate::tag::{self, Key};
use std::time::{Duration, Instant};

const BATCH_MAX: usize = 1 << 20;

fn expected(from: u8, to: u8) -> Expected {
    let key = Key::of(from, to);
    Expected { replicas: 4, from, to, key, leads: from == 0, batch_max: BATCH_MAX, command_bytes: 16 }
}

/// The connection of `a` to `b`, and of `b` to `a`.
fn pair(a: u8, b: u8) -> (Peer, Peer) {
    let (listener, address) = net::listen().unwrap();
    let one = net::connect(address, "reno").unwrap();
    let other = net::accept(&listener, "reno").unwrap();
    (Peer::new(one, expected(b, a)).unwrap(), Peer::new(other, expected(a, b)).unwrap())
}

fn message(from: u8, kind: Kind, slot: u64, batch: &[u8]) -> Rc<Message> {
    let mut message = Message::new(4, batch.len());
    message.batch().copy_from_slice(batch);
    message.seal(batch.len(), kind, slot, &tag::digest(batch), &Sender::new(from, 4));
    Rc::new(message)
}

/// Sends and hears in turns until `done`.
fn pass(from: &mut Peer, to: &mut Peer, slots: &mut Slots, mut done: impl FnMut(&Peer, &Slots) -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !done(to, slots) {
        assert!(Instant::now() < until, "it never came");
        from.send(true).unwrap();
        to.hear(slots, None).unwrap();
    }
}

/// More than a socket holds: it goes in pieces, and what comes in pieces is put together.
#[test]
fn large_batches_arrive_whole_and_in_order() {
    let (mut leader, mut follower) = pair(0, 1);
    let mut slots = Slots::new(1, 3, 16);
    for slot in 0..20 {
        leader.push(message(0, Kind::Propose, slot, &vec![slot as u8; BATCH_MAX]));
    }
    leader.send(false).unwrap();
    assert!(!leader.is_sent() && leader.wanted().contains(PollFlags::OUT), "a socket holds less than 20 MiB");
    pass(&mut leader, &mut follower, &mut slots, |_, slots| slots.proposed == 20);
    assert!(leader.is_sent() && !leader.wanted().contains(PollFlags::OUT));
}

/// Whoever has finished can still hear.
#[test]
fn one_side_may_finish_first() {
    let (mut a, mut b) = pair(0, 1);
    let mut slots = Slots::new(1, 3, 16);
    a.push(message(0, Kind::End, 0, &[]));
    a.send(false).unwrap();
    a.finish();
    pass(&mut a, &mut b, &mut slots, |b, _| b.is_silent());
    assert!(slots.complete() && b.wanted().is_empty());
    b.push(message(1, Kind::Write, 5, &[]));
    let mut of_a = Slots::new(0, 3, 16);
    b.send(false).unwrap();
    b.finish();
    pass(&mut b, &mut a, &mut of_a, |a, _| a.is_silent());
}

/// One wrong bit in what a replica sends ends the run, and the error says who sent what.
#[test]
fn a_wrong_bit_is_an_error_that_names_its_sender() {
    let good = message(0, Kind::Propose, 0, &[7; 32]);
    let (mac_of_1, batch) = (16 + tag::BYTES + tag::BYTES, message::head_bytes(4));
    for (at, who, what) in [
        (mac_of_1, 0, "the leader sent a wrong MAC"),
        (batch, 0, "the leader sent a batch with a wrong digest"),
        (5, 2, "the follower 2 sent a message in another one's name"),
    ] {
        let (sender, mut receiver) = pair(who, 1);
        let good = if who == 0 { good.clone() } else { message(who, Kind::Write, 0, &[]) };
        let mut bytes = good.sealed().to_vec();
        bytes[at] ^= 1;
        assert_eq!(net::write(sender.stream(), &bytes).unwrap(), Moved::Bytes(bytes.len()));
        let mut slots = Slots::new(1, 3, 16);
        let until = Instant::now() + Duration::from_secs(20);
        let error = loop {
            assert!(Instant::now() < until, "nobody noticed");
            match receiver.hear(&mut slots, None) {
                Ok(()) => std::thread::yield_now(),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::Child { .. }));
        assert_eq!(error.to_string(), format!("floor: {what}"));
    }
}

/// The file holds what the leader sent, batches and all; votes alone are not written.
#[test]
fn batches_go_to_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = LogFile::open(dir.path(), "log", 1, crate::Sync::Fdatasync).unwrap().unwrap();
    let (mut leader, mut follower) = pair(0, 1);
    let mut slots = Slots::new(1, 3, 16);
    let batch = message(0, Kind::Propose, 0, &[7; 32]);
    leader.push(batch.clone());
    leader.send(false).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while slots.proposed == 0 {
        assert!(Instant::now() < until, "it never came");
        follower.hear(&mut slots, Some(&mut log)).unwrap();
    }
    assert_eq!(log.writes, 1);
    assert!(std::fs::read(dir.path().join("log")).unwrap().starts_with(batch.sealed()));
    leader.push(message(0, Kind::Write, 1, &[]));
    leader.finish_after_sending();
    while !follower.is_silent() {
        assert!(Instant::now() < until, "it never came");
        follower.hear(&mut slots, Some(&mut log)).unwrap();
    }
    assert_eq!(log.writes, 1);
}

impl Peer {
    fn finish_after_sending(&mut self) {
        self.send(false).unwrap();
        assert!(self.is_sent());
        self.finish();
    }
}
