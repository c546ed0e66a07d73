//! Random histories of openings, requests, repetitions, gaps, closings and expiry: the session table must say exactly
//! what the rules say when they are written down naively (`reference/mod.rs`).

use crate::reference::Reference;
use proptest::collection::vec;
use proptest::prelude::*;
use quorate_execute::SessionLimits;
use quorate_types::{SessionId, Span};
use quorate_wire::{ReplyStatus, RequestKind};
use std::collections::BTreeSet;

use crate::support::{Ask, Replica, Seen, close, commands, empty, open, query};

/// A step before it is known which sessions there will be.
#[derive(Clone, Debug)]
enum Step {
    Open {
        client: u64,
        nonce: u64,
    },
    /// The session is one of those opened so far; the number lies around the next one.
    Request {
        session: usize,
        ahead: i64,
        lowest_behind: i64,
        kind: u8,
        len: usize,
    },
    NoSession {
        index: u32,
        generation: u32,
        number: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..3u64, 0..4u64).prop_map(|(client, nonce)| Step::Open { client, nonce }),
        12 => (0..12usize, prop_oneof![6 => Just(1i64), 4 => -4..5i64], prop_oneof![2 => 0..3i64, 1 => -2..9i64], 0..20u8, 0..40usize)
            .prop_map(|(session, ahead, lowest_behind, kind, len)| Step::Request { session, ahead, lowest_behind, kind, len }),
        1 => (0..9u32, 0..4u32, 0..3u64)
            .prop_map(|(index, generation, number)| Step::NoSession { index, generation, number }),
    ]
}

/// Limits so low that random steps reach them.
fn limits() -> impl Strategy<Value = SessionLimits> {
    (3..7u32, 2..4u32, 20..60u64, 2..6u64, 60..400u64, 200..600u64).prop_map(
        |(sessions_max, sessions_per_client_max, ttl, window, reply_bytes_max, reply_bytes_total_max)| {
            SessionLimits {
                sessions_max,
                sessions_per_client_max,
                ttl: Span::from_nanos(ttl),
                window,
                reply_bytes_max,
                reply_bytes_total_max,
                ..SessionLimits::default()
            }
        },
    )
}

/// The sessions that were opened so far, and the last number that ran in each.
type Opened = Vec<(SessionId, u64)>;

fn ask(step: &Step, opened: &Opened) -> Ask {
    match *step {
        Step::Open { client, nonce } => open(client, nonce),
        Step::NoSession { index, generation, number } => empty(SessionId { index, generation }, number, 0),
        Step::Request { session, ahead, lowest_behind, kind, len } => {
            let Some((id, last)) = opened.iter().rev().nth(session % opened.len().max(1)) else {
                return open(0, 0);
            };
            let number = last.saturating_add_signed(ahead);
            let lowest = number.saturating_add_signed(-lowest_behind);
            match kind {
                0 => close(*id, number),
                1..4 => empty(*id, number, lowest),
                4..8 => query(*id, number, lowest, &vec![kind; len]),
                _ => commands(*id, number, lowest, &[&vec![kind; len], &[kind]]),
            }
        }
    }
}

fn note(asks: &[Ask], seen: &[Seen], opened: &mut Opened) {
    for (ask, seen) in asks.iter().zip(seen) {
        if seen.status == ReplyStatus::SessionOpened && opened.iter().all(|(id, _)| *id != seen.session) {
            opened.push((seen.session, 0));
        }
        if seen.status == ReplyStatus::Done
            && let Some((_, last)) = opened.iter_mut().find(|(id, _)| *id == seen.session)
        {
            *last = (*last).max(ask.number);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Outcome by outcome, body by body, the table equals the reference.
    #[test]
    fn sessions_follow_the_rules(limits in limits(), batches in vec((0..15u64, vec(step(), 0..8)), 1..60)) {
        let mut replica = Replica::new(limits.clone());
        let mut reference = Reference::new(limits);
        let (mut time, mut opened) = (0, vec![]);
        for (passed, steps) in batches {
            time += passed;
            let asks: Vec<Ask> = steps.iter().map(|step| ask(step, &opened)).collect();
            let seen = replica.run(time, &asks);
            prop_assert_eq!(&seen, &reference.run(time, &asks), "asked {:?}", asks);
            note(&asks, &seen, &mut opened);
            prop_assert_eq!(replica.executor.session_count(), reference.sessions());
            prop_assert_eq!(replica.count(), reference.count());
        }
    }

    /// Replicas that restored from an image somewhere on the way answer alike ever after, and end in the same image.
    #[test]
    fn a_restored_replica_goes_on_alike(
        limits in limits(),
        batches in vec((0..15u64, vec(step(), 0..8)), 2..40),
        cut in any::<prop::sample::Index>(),
    ) {
        let cut = cut.index(batches.len());
        let mut whole = Replica::new(limits);
        let mut restored = None;
        let (mut time, mut opened) = (0, vec![]);
        for (at, (passed, steps)) in batches.iter().enumerate() {
            time += passed;
            let asks: Vec<Ask> = steps.iter().map(|step| ask(step, &opened)).collect();
            let seen = whole.run(time, &asks);
            note(&asks, &seen, &mut opened);
            if let Some(restored) = &mut restored {
                let restored: &mut Replica = restored;
                prop_assert_eq!(&restored.run(time, &asks), &seen);
            }
            if at == cut {
                let mut back = whole.copy();
                prop_assert_eq!(back.digest(), whole.digest());
                restored = Some(back);
            }
        }
        prop_assert_eq!(restored.expect("cut lies within").digest(), whole.digest());
    }
}

/// The random histories above are worth something only when they reach every handling.
#[test]
fn random_histories_reach_every_handling() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut reached = BTreeSet::new();
    for _ in 0..100 {
        let limits = limits().new_tree(&mut runner).expect("limits").current();
        let batches =
            vec((0..15u64, vec(step(), 0..8)), 1..60).new_tree(&mut runner).expect("steps").current();
        let mut replica = Replica::new(limits);
        let (mut time, mut opened) = (0, vec![]);
        for (passed, steps) in batches {
            time += passed;
            let asks: Vec<Ask> = steps.iter().map(|step| ask(step, &opened)).collect();
            let seen = replica.run(time, &asks);
            note(&asks, &seen, &mut opened);
            reached.extend(asks.iter().zip(&seen).map(|(ask, seen)| (ask.kind as u8, seen.status as u8)));
        }
    }
    use ReplyStatus::*;
    for status in [Done, SessionExpired, ExpectedNumber, Overloaded, ReplyForgotten] {
        assert!(
            reached.contains(&(RequestKind::Commands as u8, status as u8)),
            "{status:?} was never reached"
        );
    }
    for status in [SessionOpened, SessionLimit] {
        assert!(
            reached.contains(&(RequestKind::OpenSession as u8, status as u8)),
            "{status:?} was never reached"
        );
    }
    assert!(reached.contains(&(RequestKind::CloseSession as u8, Done as u8)), "no session was closed");
    assert!(reached.contains(&(RequestKind::Query as u8, Done as u8)), "no query was answered");
}
