//! The ring: the order of legs follows from the batches alone (ADA-03 to ADA-06).

use super::asking::{BANK, ask, rules};
use super::histories::{Log, drained, shuffled};
use super::service::Step::{Add, Answer, Ask, Get, Put};
use super::world::{Replica, answer, place, reply, with_sessions};
use quorate_execute::{NestedRules, Schedule};
use quorate_types::{Digest, Random, SessionId};
use std::collections::BTreeMap;

fn ring(slots: u32) -> NestedRules {
    NestedRules { schedule: Schedule::Ring(slots), ..rules() }
}

/// Two slots: the third request has its turn when one of the first two ended, and an answer for a slot that is not active is kept.
#[test]
fn slots_take_turns() {
    let (mut replica, sessions) = with_sessions(&ring(2), 3);
    let asks: Vec<_> =
        sessions.iter().map(|session| ask(*session, 1, &[Get(1), Ask(BANK), Answer, Put(1)])).collect();
    let first = replica.run(&place(2, &asks[..2], vec![]));
    assert_eq!(first.left.len(), 1, "both slots have asked");
    let second = replica.run(&place(3, &asks[2..], vec![]));
    assert!(second.left.is_empty(), "the next batch waits for the end of this one");
    let mut replica = replica.restarted();
    let third = replica.run(&place(4, &[], vec![answer(&first.left[0])]));
    let ended: Vec<SessionId> = third.ended.iter().map(|seen| seen.session).collect();
    assert_eq!((ended, third.left.len()), (sessions[..2].to_vec(), 1), "now the third request began");
    let last = replica.run(&place(5, &[], vec![answer(&third.left[0])]));
    assert!(reply(&last.ended[0]).contains('='));
}

/// While the active slot waits, nobody overtakes it, though its own answer is there.
#[test]
fn nobody_overtakes_the_active_slot() {
    // Each leaves for a service of its own, so that their answers come apart.
    let (mut replica, sessions) = with_sessions(&ring(2), 2);
    let asks = [
        ask(sessions[0], 1, &[Ask(2), Answer, Add(1), Get(1)]),
        ask(sessions[1], 1, &[Ask(3), Answer, Add(1), Get(1)]),
    ];
    let left = replica.run(&place(2, &asks, vec![])).left;
    assert!(replica.run(&place(3, &[], vec![answer(&left[1])])).ended.is_empty(), "the answer is kept");
    let mut replica = replica.restarted();
    let did = replica.run(&place(4, &[], vec![answer(&left[0])]));
    let order: Vec<_> = did.ended.iter().map(|seen| (seen.session, reply(seen).into_bytes().pop())).collect();
    assert_eq!(order, [(sessions[0], Some(1)), (sessions[1], Some(2))]);
}

/// With answers at other places and in another order the ring does the same: objects and replies are equal to the byte.
pub(crate) fn arrivals_change_nothing(seeds: u64) {
    for seed in 0..seeds {
        let mut random = Random::new(seed);
        let slots = 1 + random.next() as u32 % 5;
        let log = Log::random(&ring(slots), seed, 0);
        let outcome = |delays: Option<u64>| -> (Digest, BTreeMap<(SessionId, u64), Vec<u8>>) {
            let mut replica = Replica::new(&log.rules);
            let mut replies = BTreeMap::new();
            drained(&mut replica, &log, delays, |did| {
                // Whether a repeated request is still under way is a matter of time.
                for seen in &did.ended {
                    replies.entry((seen.session, seen.number)).or_insert_with(|| seen.body.clone());
                }
            });
            (replica.digest().1, replies)
        };
        let at_once = outcome(None);
        for delays in [seed, seed + 1000] {
            assert_eq!(outcome(Some(delays)), at_once, "seed {seed}: {slots} slots");
        }
    }
}

#[test]
fn when_answers_come_changes_nothing() {
    arrivals_change_nothing(60);
}

/// The same answers in another order at the same places: the whole state is equal to the byte, with all journals, after each of them.
#[test]
fn the_order_of_answers_changes_nothing() {
    for seed in 0..60 {
        let log = Log::random(&ring(1 + seed as u32 % 4), seed, 0).played(seed);
        let (mut one, mut other) = (Replica::new(&log.rules), Replica::new(&log.rules));
        let mut random = Random::new(!seed);
        for place in &log.batches {
            let mut permuted = place.clone();
            shuffled(&mut permuted.arrivals, &mut random);
            assert_eq!(one.run(place), other.run(&permuted), "seed {seed}");
            assert_eq!(one.digest(), other.digest(), "seed {seed}");
        }
    }
}
