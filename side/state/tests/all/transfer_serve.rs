//! The sending side of a transfer: rate, fairness, bounds, and what becomes of refusals.

use bytes::Bytes;
use quorate_state::store::CHUNK_BYTES;
use quorate_state::transfer::{Answer, Serve, ServeEffect, ServeInput, ServeLimits};
use quorate_types::{Digest, Random, ReplicaId, Seq, Span, Time};
use quorate_wire::{RefusedWhy, StateMessage};
use std::collections::BTreeMap;

const SEQ: Seq = Seq::new(100);
const DIGEST: Digest = Digest::new([7; 32]);

fn peer(number: u16) -> ReplicaId {
    ReplicaId::new(number)
}

fn chunks(from: u16, chunks: impl IntoIterator<Item = u32>) -> ServeInput {
    let chunks = chunks.into_iter().collect();
    ServeInput::Asked {
        from: peer(from),
        message: StateMessage::FetchChunks { seq: SEQ, digest: DIGEST, chunks },
    }
}

fn manifest(from: u16, offset: u64) -> ServeInput {
    let message = StateMessage::FetchManifest { seq: SEQ, digest: DIGEST, offset };
    ServeInput::Asked { from: peer(from), message }
}

fn step(serve: &mut Serve, now: Time, input: ServeInput) -> Vec<ServeEffect> {
    let mut out = Vec::new();
    serve.step(now, input, &mut out);
    out
}

fn reads(effects: &[ServeEffect]) -> Vec<(u64, u32)> {
    let read = |effect: &ServeEffect| match effect {
        ServeEffect::ReadChunk { ticket, chunk, .. } => Some((*ticket, *chunk)),
        _ => None,
    };
    effects.iter().filter_map(read).collect()
}

fn answer(ticket: u64, bytes: usize) -> ServeInput {
    ServeInput::Answered { ticket, answer: Answer::Chunk { bytes: vec![1; bytes].into() } }
}

fn refusals(effects: &[ServeEffect]) -> Vec<(ReplicaId, RefusedWhy, Vec<u32>)> {
    let refusal = |effect: &ServeEffect| match effect {
        ServeEffect::Send { to, message: StateMessage::Refused { why, chunks, .. } } => {
            Some((*to, *why, chunks.clone()))
        }
        _ => None,
    };
    effects.iter().filter_map(refusal).collect()
}

#[test]
fn what_is_asked_for_is_read_and_sent() {
    let mut serve = Serve::new(ServeLimits::default());
    let effects = step(&mut serve, Time::ZERO, manifest(2, 9));
    let [ServeEffect::ReadManifest { ticket, seq: SEQ, digest: DIGEST, offset: 9, len }] = effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(len, 256 << 10);
    let bytes = Bytes::from_static(b"piece");
    let input = ServeInput::Answered { ticket, answer: Answer::Manifest { total: 40, bytes: bytes.clone() } };
    let message = StateMessage::Manifest { seq: SEQ, digest: DIGEST, offset: 9, total: 40, bytes };
    assert_eq!(step(&mut serve, Time::ZERO, input), [ServeEffect::Send { to: peer(2), message }]);

    let effects = step(&mut serve, Time::ZERO, chunks(3, [5]));
    let [(ticket, 5)] = reads(&effects)[..] else { panic!("{effects:?}") };
    let message = StateMessage::Chunk { seq: SEQ, digest: DIGEST, chunk: 5, bytes: vec![1; 10].into() };
    assert_eq!(
        step(&mut serve, Time::ZERO, answer(ticket, 10)),
        [ServeEffect::Send { to: peer(3), message }]
    );
    assert!(!serve.busy() && serve.deadline().is_none());
    assert_eq!(serve.sent(), 15);
    assert_eq!(step(&mut serve, Time::ZERO, answer(ticket, 10)), [], "answered already");
}

#[test]
fn what_can_not_be_read_is_refused() {
    let mut serve = Serve::new(ServeLimits { reads: 1, ..ServeLimits::default() });
    step(&mut serve, Time::ZERO, chunks(2, [5, 6]));
    let effects = step(&mut serve, Time::ZERO, ServeInput::Answered { ticket: 1, answer: Answer::Rotten });
    assert_eq!(refusals(&effects), [(peer(2), RefusedWhy::Rotten, vec![5])]);
    assert_eq!(reads(&effects), [(2, 6)], "the next one may be sound");
    step(&mut serve, Time::ZERO, chunks(2, [7, 8]));
    step(&mut serve, Time::ZERO, chunks(3, [9]));
    let effects = step(&mut serve, Time::ZERO, ServeInput::Answered { ticket: 2, answer: Answer::NotHeld });
    assert_eq!(refusals(&effects), [(peer(2), RefusedWhy::NotHeld, vec![6])]);
    assert_eq!(reads(&effects), [(3, 9)], "nothing else of it is there for r2; r3 will hear that, too");
    step(&mut serve, Time::ZERO, ServeInput::Answered { ticket: 3, answer: Answer::NotHeld });
    step(&mut serve, Time::ZERO, manifest(2, 0));
    let effects = step(&mut serve, Time::ZERO, ServeInput::Answered { ticket: 4, answer: Answer::NotHeld });
    assert_eq!(refusals(&effects), [(peer(2), RefusedWhy::NotHeld, vec![])]);
}

#[test]
fn who_asks_for_too_much_is_told_to_come_later() {
    let mut serve = Serve::new(ServeLimits { queue: 8, reads: 1, ..ServeLimits::default() });
    let effects = step(&mut serve, Time::ZERO, chunks(2, 0..20));
    assert_eq!(refusals(&effects), [(peer(2), RefusedWhy::Busy, (8..20).collect())]);
    let again = step(&mut serve, Time::ZERO, chunks(2, [1, 2, 3]));
    assert_eq!(refusals(&again), [], "what waits already is not queued twice");
    assert_eq!(refusals(&step(&mut serve, Time::ZERO, chunks(3, 0..8))), [], "others have room of their own");
    assert_eq!(
        refusals(&step(&mut serve, Time::ZERO, manifest(3, 0))),
        [(peer(3), RefusedWhy::Busy, vec![])]
    );
}

#[test]
fn another_checkpoint_replaces_what_was_asked_for_before() {
    let mut serve = Serve::new(ServeLimits { reads: 1, ..ServeLimits::default() });
    step(&mut serve, Time::ZERO, chunks(2, 0..9));
    let message = StateMessage::FetchManifest { seq: Seq::new(200), digest: DIGEST, offset: 0 };
    step(&mut serve, Time::ZERO, ServeInput::Asked { from: peer(2), message });
    let effects = step(&mut serve, Time::ZERO, answer(1, 10));
    assert!(
        matches!(effects[..], [_, ServeEffect::ReadManifest { seq, .. }] if seq == Seq::new(200)),
        "{effects:?}"
    );
}

#[test]
fn peers_take_turns() {
    let mut serve = Serve::new(ServeLimits { reads: 1, ..ServeLimits::default() });
    let mut effects = step(&mut serve, Time::ZERO, chunks(2, 0..50));
    step(&mut serve, Time::ZERO, chunks(3, 0..50));
    step(&mut serve, Time::ZERO, chunks(4, 0..50));
    let mut sent: BTreeMap<ReplicaId, usize> = BTreeMap::new();
    for _ in 0..30 {
        let [(ticket, _)] = reads(&effects)[..] else { panic!("{effects:?}") };
        effects = step(&mut serve, Time::ZERO, answer(ticket, 10));
        let ServeEffect::Send { to, .. } = &effects[0] else { panic!("{effects:?}") };
        *sent.entry(*to).or_default() += 1;
    }
    assert!(sent.len() == 3 && sent.values().all(|count| (9..=11).contains(count)), "{sent:?}");
}

#[test]
fn a_peer_that_is_gone_gets_nothing() {
    let mut serve = Serve::new(ServeLimits { reads: 2, ..ServeLimits::default() });
    step(&mut serve, Time::ZERO, chunks(2, 0..9));
    assert_eq!(step(&mut serve, Time::ZERO, ServeInput::Disconnected(peer(2))), []);
    assert_eq!(step(&mut serve, Time::ZERO, answer(1, 10)), [], "it was read for nobody");
    let effects = step(&mut serve, Time::ZERO, chunks(2, [3]));
    assert_eq!(reads(&effects), [(3, 3)], "it is back, and only what it asks for since counts");
    assert_eq!(step(&mut serve, Time::ZERO, answer(2, 10)), []);
    assert_eq!(step(&mut serve, Time::ZERO, answer(3, 10)).len(), 1);
    assert_eq!(serve.sent(), 10);
}

/// Whatever is asked for, of whatever size, over any span no more is sent than the rate allows, and not much less either.
#[test]
fn the_rate_holds_over_every_span() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let limits = ServeLimits {
            rate: 1 << (12 + random.below(16)),
            burst: 1 << (8 + random.below(13)),
            reads: 1 + random.below(6) as usize,
            ..ServeLimits::default()
        };
        let largest = 1 << (10 + random.below(10));
        let (rate, burst) = (limits.rate, limits.burst);
        let slack = burst + limits.reads as u64 * largest.max(CHUNK_BYTES);
        let mut serve = Serve::new(limits);
        let (mut now, mut log, mut waiting) = (Time::ZERO, Vec::new(), Vec::new());
        for _ in 0..400 {
            let input = match waiting.pop() {
                Some(ticket) => answer(ticket, 1 + random.below(largest) as usize),
                None => {
                    let more = chunks(2 + random.below(3) as u16, (0..40).map(|_| random.below(1000) as u32));
                    let deadline = serve.deadline().filter(|_| random.below(4) > 0);
                    now = deadline.map_or(now, |at| at.max(now));
                    if deadline.is_some() { ServeInput::Deadline } else { more }
                }
            };
            let before = serve.sent();
            let effects = step(&mut serve, now, input);
            waiting.extend(reads(&effects).into_iter().map(|(ticket, _)| ticket));
            log.push((now, serve.sent() - before));
        }
        for from in (0..log.len()).step_by(17) {
            let mut sum = 0;
            for (at, bytes) in &log[from..] {
                sum += bytes;
                let span = u128::from(at.since(log[from].0).nanos());
                let most = u128::from(rate) * span / 1_000_000_000 + u128::from(slack);
                assert!(u128::from(sum) <= most, "seed {seed}: {sum} bytes in {span} ns, {most} allowed");
            }
        }
        let span = u128::from(now.nanos());
        let least = (u128::from(rate) * span / 1_000_000_000).saturating_sub(u128::from(slack));
        assert!(u128::from(serve.sent()) >= least, "seed {seed}: {} of {least} bytes", serve.sent());
    }
}

#[test]
fn the_deadline_names_when_there_is_room_again() {
    let limits = ServeLimits { rate: 1_000_000, burst: 1_000, reads: 4, ..ServeLimits::default() };
    let mut serve = Serve::new(limits);
    let effects = step(&mut serve, Time::ZERO, chunks(2, [1, 2]));
    assert_eq!(reads(&effects), [(1, 1)], "what is being read counts before its size is known");
    assert!(serve.deadline().is_some());
    step(&mut serve, Time::ZERO, answer(1, 50_000));
    let due = serve.deadline().expect("chunk 2 waits");
    let (early, late) = (Span::from_millis(48), Span::from_millis(50));
    assert!(due > Time::ZERO.plus(early) && due < Time::ZERO.plus(late), "{due:?}");
    assert_eq!(step(&mut serve, Time::ZERO.plus(early), ServeInput::Deadline), []);
    assert_eq!(reads(&step(&mut serve, due, ServeInput::Deadline)), [(2, 2)]);
    assert_eq!(serve.deadline(), None, "nothing waits");
}
