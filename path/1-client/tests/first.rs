//! Requests with tags: who gets them first, when all do, and that all copies are the same.

mod many;

use many::config;
use many::hand::{Got, Hand, SESSION};
use quorate_client::{Config, Input, Macs, SessionHandle};
use quorate_types::{ReplicaId, Span, View};
use quorate_wire::{LeaderNotice, REQUEST_HEADER, RequestTagger, RequestTags, SharedKey};
use std::sync::Arc;

const DELAY: Span = Span::from_millis(200);
const ALL: usize = 4;

/// Tags that show the epoch, the receiver and the request.
#[derive(Debug)]
struct Plain;

#[derive(Debug)]
struct PlainKeys(u64, Vec<ReplicaId>);

impl RequestTagger for Plain {
    fn keys(&self, epoch: u64, replicas: &[ReplicaId]) -> Box<dyn RequestTags> {
        Box::new(PlainKeys(epoch, replicas.to_vec()))
    }
}

impl RequestTags for PlainKeys {
    fn shared_with(&self, replica: ReplicaId) -> Option<SharedKey> {
        Some(SharedKey { id: self.0, secret: [replica.number() as u8; 32] })
    }
    fn write(&self, header: &[u8; REQUEST_HEADER], _body: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_le_bytes());
        self.1.iter().for_each(|id| out.extend_from_slice(&[id.number() as u8, header[8], 0, 0, 0, 0, 0, 0]));
    }
}

fn tagging() -> Config {
    Config { macs: Some(Macs(Arc::new(Plain))), leader_first: Some(DELAY), ..config(3) }
}

fn session() -> (Hand, SessionHandle) {
    let mut hand = Hand::with(ALL, tagging());
    let handle = hand.opened(1000, SESSION);
    (hand, handle)
}

fn leads(hand: &mut Hand, view: u64, leader: u16, say: &[usize]) {
    for replica in say {
        let notice = LeaderNotice { view: View::new(view), leader: Some(ReplicaId::new(leader)) };
        hand.frame_from(*replica, many::frame(&notice.frame()));
    }
}

fn counts(got: &[Vec<Got>]) -> Vec<usize> {
    got.iter().map(Vec::len).collect()
}

fn answer(hand: &mut Hand, call: u64, number: u64) {
    hand.done(0, number, b"yes");
    hand.done(1, number, b"yes");
    hand.replied(call, b"yes");
}

#[test]
fn only_the_leader_gets_it_first() {
    let (mut hand, handle) = session();
    assert!(hand.keys.iter().zip(1..).all(|(keys, id)| *keys == [SharedKey { id: 0, secret: [id; 32] }]));
    for number in 1..=20 {
        hand.call(number, handle, b"x");
        assert_eq!(counts(&hand.take()), [1, 0, 0, 0], "{number}");
        hand.advance(Span::from_millis(100));
        answer(&mut hand, number, number);
    }
    hand.advance(Span::from_millis(2000));
    assert_eq!(counts(&hand.take()), [0; ALL]);
}

#[test]
fn an_opening_goes_to_all() {
    let mut hand = Hand::with(ALL, tagging());
    hand.input(Input::Open { call: quorate_client::CallId(1), deadline: None });
    let got = hand.take();
    assert_eq!(counts(&got), [1; ALL]);
    assert!(got[0][0].proof.is_empty());
}

#[test]
fn without_an_answer_all_get_the_same_and_then_everything_for_a_while() {
    let (mut hand, handle) = session();
    for call in 1..=3 {
        hand.call(call, handle, b"x");
    }
    let first = hand.take().remove(0);
    hand.advance(Span::from_millis(199));
    assert_eq!(counts(&hand.take()), [0; ALL]);
    hand.advance(Span::from_millis(2));
    let got = hand.take();
    assert_eq!(counts(&got), [0, 3, 3, 3]);
    assert!(got[1..].iter().all(|got| *got == first), "tags and all");
    (1..=3).for_each(|number| answer(&mut hand, number, number));
    hand.call(4, handle, b"x");
    assert_eq!(counts(&hand.take()), [1; ALL], "the leader is not first now");
    answer(&mut hand, 4, 4);
    hand.advance(Span::from_millis(1000));
    hand.call(5, handle, b"x");
    assert_eq!(counts(&hand.take()), [1, 0, 0, 0], "it is again");
    hand.advance(DELAY);
    assert_eq!(counts(&hand.take()), [0, 1, 1, 1]);
    answer(&mut hand, 5, 5);
    hand.advance(Span::from_millis(1900));
    hand.call(6, handle, b"x");
    assert_eq!(counts(&hand.take()), [1; ALL], "twice as long");
    answer(&mut hand, 6, 6);
    hand.advance(Span::from_secs(10));
    hand.call(7, handle, b"x");
    hand.advance(DELAY);
    answer(&mut hand, 7, 7);
    hand.advance(Span::from_millis(1100));
    hand.take();
    hand.call(8, handle, b"x");
    assert_eq!(counts(&hand.take()), [1, 0, 0, 0], "and less again where it went well");
}

#[test]
fn copies_are_the_same_through_new_keys() {
    let mut config = tagging();
    config.keys_last = Span::from_millis(50);
    let mut hand = Hand::with(ALL, config);
    let handle = hand.opened(1000, SESSION);
    let mut first = Vec::new();
    for call in 1..=4 {
        hand.call(call, handle, b"x");
        first.extend(hand.take().remove(0));
        hand.advance(Span::from_millis(49));
        hand.advance(Span::from_millis(2));
    }
    let epochs: Vec<u8> = first.iter().map(|got| got.proof[0]).collect();
    assert_eq!(epochs, [0, 1, 2, 3]);
    assert!(first.iter().all(|got| got.proof.len() == 8 + 8 * ALL));
    let told: Vec<u64> = hand.keys[2].iter().map(|key| key.id).collect();
    assert_eq!(told, [0, 1, 0, 2, 1, 3, 2], "the one before as well");
    let got = hand.take();
    assert!(got[1..].iter().all(|got| *got == first), "of keys that are no longer known, too");
    hand.lose(2);
    hand.back(2);
    assert_eq!(hand.take()[2], first, "to who comes back");
    assert_eq!(hand.keys[2][7..].iter().map(|key| key.id).collect::<Vec<_>>(), [3, 2]);
}

#[test]
fn another_leader_means_that_all_hear_of_it() {
    let (mut hand, handle) = session();
    hand.call(1, handle, b"x");
    let first = hand.take().remove(0);
    leads(&mut hand, 2, 2, &[3]);
    assert_eq!(counts(&hand.take()), [0; ALL], "one may lie");
    leads(&mut hand, 2, 2, &[1]);
    let got = hand.take();
    assert!(got[1] == first && got[2] == first && got[3] == first);
    answer(&mut hand, 1, 1);
    hand.call(2, handle, b"x");
    assert_eq!(counts(&hand.take()), [1; ALL], "it takes care at first");
    answer(&mut hand, 2, 2);
    hand.advance(Span::from_millis(1001));
    hand.call(3, handle, b"x");
    assert_eq!(counts(&hand.take()), [0, 1, 0, 0]);
}

#[test]
fn without_the_leader_nothing_waits() {
    let (mut hand, handle) = session();
    hand.call(1, handle, b"x");
    hand.take();
    hand.lose(0);
    assert_eq!(counts(&hand.take()), [0, 1, 1, 1]);
    hand.call(2, handle, b"x");
    assert_eq!(counts(&hand.take()), [0, 1, 1, 1]);
}

/// A replica sends replies where it heard of the session: who comes back hears the next request.
#[test]
fn who_comes_back_gets_one_of_each_session() {
    let (mut hand, handle) = session();
    hand.lose(3);
    hand.back(3);
    hand.take();
    hand.call(1, handle, b"x");
    assert_eq!(counts(&hand.take()), [1; ALL]);
    answer(&mut hand, 1, 1);
    hand.call(2, handle, b"x");
    assert_eq!(counts(&hand.take()), [1, 0, 0, 0]);
}

#[test]
fn a_leader_that_takes_nothing_holds_nothing_up() {
    let mut config = tagging();
    config.connection_bytes_max = 2000;
    let mut hand = Hand::with(ALL, config);
    let handle = hand.opened(1000, SESSION);
    hand.stuck.insert(0);
    for call in 1..=10 {
        hand.call(call, handle, &[1; 500]);
    }
    hand.advance(DELAY);
    let numbers = hand.numbers();
    assert!(numbers[0].len() < 10, "{numbers:?}");
    for got in &numbers[1..] {
        let got: std::collections::BTreeSet<u64> = got.iter().copied().collect();
        assert_eq!(got, (1..=10).collect());
    }
}

/// An earlier request that all have waits for longer already, which is no reason to give the leader less time for the next one.
#[test]
fn the_leader_has_its_time_for_each_request() {
    let (mut hand, handle) = session();
    hand.lose(0);
    hand.call(1, handle, b"x");
    hand.advance(Span::from_millis(300));
    hand.back(0);
    assert_eq!(counts(&hand.take()), [1; ALL], "all have the first one");
    hand.call(2, handle, b"y");
    assert!(hand.client.deadline().is_none_or(|due| due > hand.now), "INV-CLIENT-8");
    hand.advance(Span::from_millis(199));
    assert_eq!(counts(&hand.take()), [1, 0, 0, 0]);
    hand.advance(Span::from_millis(1));
    assert_eq!(counts(&hand.take()), [0, 1, 1, 1]);
}
