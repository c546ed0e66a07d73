//! Waves against brute force: each request is one wave behind the last that it conflicts with.

use super::waves;
use crate::context::Context;
use crate::hints::{Entry, Hint};
use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use quorate_types::{AgreedTime, ClientId, Random, Seq, SessionId};
use quorate_wire::RequestKind;

fn entry(session: u32, hints: Vec<Hint>, is_known: bool) -> Entry {
    let session = SessionId { index: session, generation: 1 };
    let ctx = Context::at(Seq::FIRST, AgreedTime::ZERO).with_session(ClientId::new(1), session);
    Entry { kind: RequestKind::Commands, body: Bytes::new(), ctx, hints, is_known }
}

fn key(of: u8) -> Box<[u8]> {
    [of].into()
}

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let hint = prop_oneof![
        (0..9_u8).prop_map(|of| Hint::Read(key(of))),
        (0..9_u8).prop_map(|of| Hint::Write(key(of))),
        (0..9_u8, 0..9_u8).prop_map(|(from, to)| Hint::Range(key(from), (to < 8).then(|| key(to)))),
    ];
    let one = (0..9_u32, vec(hint, 0..3), prop::bool::weighted(0.9));
    vec(one.prop_map(|(session, hints, is_known)| entry(session, hints, is_known)), 0..40)
}

fn uses(hint: &Hint, other: &Hint) -> bool {
    let covers = |start: &[u8], end: &Option<Box<[u8]>>, key: &[u8]| {
        start <= key && end.as_ref().is_none_or(|end| key < &**end)
    };
    match (hint, other) {
        (Hint::Write(a), Hint::Write(b) | Hint::Read(b)) | (Hint::Read(a), Hint::Write(b)) => a == b,
        (Hint::Range(start, end), Hint::Write(key)) | (Hint::Write(key), Hint::Range(start, end)) => {
            covers(start, end, key)
        }
        _ => false,
    }
}

fn conflict(a: &Entry, b: &Entry) -> bool {
    !a.is_known
        || !b.is_known
        || a.ctx.session() == b.ctx.session()
        || a.hints.iter().any(|one| b.hints.iter().any(|other| uses(one, other)))
}

fn of(entries: &[Entry]) -> Vec<Vec<usize>> {
    waves(entries.iter().enumerate())
}

proptest! {
    #[test]
    fn each_is_one_behind_what_it_conflicts_with(entries in entries()) {
        let mut expected: Vec<usize> = Vec::new();
        for at in 0..entries.len() {
            let before = (0..at).filter(|other| conflict(&entries[*other], &entries[at]));
            expected.push(before.map(|other| expected[other] + 1).max().unwrap_or(0));
        }
        let found = of(&entries);
        for (wave, requests) in found.iter().enumerate() {
            prop_assert!(!requests.is_empty() && requests.is_sorted());
            for request in requests {
                prop_assert_eq!(expected[*request], wave, "request {}", request);
            }
        }
        prop_assert_eq!(found.iter().map(Vec::len).sum::<usize>(), entries.len());
    }
}

/// What a client asks for in one session has the order in which it asked, although no key says so.
#[test]
pub(crate) fn a_session_keeps_its_order() {
    let entries = [entry(1, vec![], true), entry(2, vec![], true), entry(1, vec![], true)];
    assert_eq!(of(&entries), [vec![0, 1], vec![2]]);
}

/// With more ranges than are looked at, requests with ranges wait for all before: no conflict is missed.
#[test]
fn many_ranges_cost_time_only() {
    let range = |at: u8| entry(u32::from(at), vec![Hint::Range(key(at), Some(key(at + 1)))], true);
    let mut entries: Vec<Entry> = (0..100).map(range).collect();
    entries.extend((0..100).map(|at| entry(200 + u32::from(at), vec![Hint::Write(key(at))], true)));
    let found = of(&entries);
    let wave = |request: usize| found.iter().position(|wave| wave.contains(&request)).expect("it has one");
    assert!((0..100).all(|at| wave(100 + at) > wave(at)));
}

/// The number of waves of a perfect mixer for 100 requests on 10 objects is the count of the fullest object: about 15 and not 10, whatever their
/// order (Kapritsos, section 3.5.2, speaks of 10).
#[test]
fn a_hundred_requests_on_ten_objects_need_about_fifteen_waves() {
    let (mut random, mut all) = (Random::new(7), 0);
    for _ in 0..200 {
        let objects: Vec<u8> = (0..100).map(|_| (random.next() % 10) as u8).collect();
        let entries: Vec<Entry> =
            (0..).zip(&objects).map(|(at, of)| entry(at, vec![Hint::Write(key(*of))], true)).collect();
        let fullest = (0..10).map(|of| objects.iter().filter(|object| **object == of).count()).max();
        let count = of(&entries).len();
        assert_eq!(Some(count), fullest);
        all += count;
    }
    let mean = all as f64 / 200.0;
    assert!((14.0..16.0).contains(&mean), "{mean}");
}
