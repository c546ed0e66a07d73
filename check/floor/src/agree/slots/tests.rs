use super::*;
use crate::tag;

const BATCH: [u8; 32] = [3; 32];

fn slots(me: u8) -> Slots {
    Slots::new(me, 3, 16)
}

fn say(slots: &mut Slots, from: u8, kind: Kind, slot: u64) -> Result<(), &'static str> {
    let digest = tag::digest(&BATCH);
    let batch = if kind == Kind::Propose { &BATCH[..] } else { &[] };
    slots.hear(from, &Heard { kind, slot, digest: &digest, batch })
}

fn votes(slots: &mut Slots) -> Vec<(Kind, u64)> {
    let mut sent = Vec::new();
    slots.vote(|kind, slot, digest| {
        assert_eq!(*digest, tag::digest(&BATCH));
        sent.push((kind, slot));
    });
    sent
}

#[test]
fn a_slot_goes_from_proposal_to_decision_with_three_of_four() {
    let mut s = slots(1);
    say(&mut s, 0, Kind::Propose, 0).unwrap();
    assert_eq!(votes(&mut s), [], "it is not held yet");
    s.hold();
    assert_eq!(votes(&mut s), [(Kind::Write, 0)]);
    say(&mut s, 0, Kind::Write, 0).unwrap();
    say(&mut s, 0, Kind::Write, 0).unwrap();
    assert_eq!(votes(&mut s), [], "one replica counts once");
    say(&mut s, 3, Kind::Write, 0).unwrap();
    assert_eq!(votes(&mut s), [(Kind::Accept, 0)]);
    say(&mut s, 3, Kind::Accept, 0).unwrap();
    assert!(!s.decide());
    say(&mut s, 2, Kind::Accept, 0).unwrap();
    assert!(s.decide());
    assert_eq!((s.decided, s.commands, s.sum), (1, 2, frame::touch(&BATCH)));
    say(&mut s, 2, Kind::Write, 0).unwrap();
    assert!(!s.decide(), "what comes late changes nothing");
}

/// Links are not in step: votes come before the proposal, and later slots before earlier ones.
#[test]
fn the_order_between_links_does_not_matter() {
    let mut s = slots(3);
    for slot in [1, 0] {
        for from in 0..3 {
            say(&mut s, from, Kind::Accept, slot).unwrap();
            say(&mut s, from, Kind::Write, slot).unwrap();
        }
    }
    assert_eq!(votes(&mut s), []);
    assert!(!s.decide(), "without the batch nothing is decided");
    say(&mut s, 0, Kind::Propose, 0).unwrap();
    say(&mut s, 0, Kind::Propose, 1).unwrap();
    s.hold();
    let both = [(Kind::Write, 0), (Kind::Accept, 0), (Kind::Write, 1), (Kind::Accept, 1)];
    assert_eq!(votes(&mut s), both);
    assert!(s.decide());
    assert_eq!((s.decided, s.commands), (2, 4));
    say(&mut s, 0, Kind::End, 3).unwrap();
    assert!(!s.complete());
    say(&mut s, 0, Kind::End, 2).unwrap();
    assert!(s.complete());
}

/// Five of seven: two more than four replicas need.
#[test]
fn a_quorum_grows_with_the_replicas() {
    let mut s = Slots::new(0, 5, 16);
    assert_eq!(s.quorum(), 5);
    say(&mut s, 0, Kind::Propose, 0).unwrap();
    s.hold();
    votes(&mut s);
    for from in 1..4 {
        say(&mut s, from, Kind::Write, 0).unwrap();
    }
    assert_eq!(votes(&mut s), []);
    say(&mut s, 4, Kind::Write, 0).unwrap();
    assert_eq!(votes(&mut s), [(Kind::Accept, 0)]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut s = slots(1);
    assert_eq!(say(&mut s, 0, Kind::Propose, 1), Err("a gap between proposals"));
    assert_eq!(say(&mut s, 2, Kind::Write, u64::MAX), Err("a slot far ahead"));
    assert_eq!(say(&mut s, 2, Kind::Write, AHEAD_MAX), Err("a slot far ahead"));
    say(&mut s, 0, Kind::Propose, 0).unwrap();
    assert_eq!(say(&mut s, 0, Kind::Propose, 0), Err("a gap between proposals"), "proposed twice");
    let other = Heard { kind: Kind::Write, slot: 0, digest: &tag::NO_BATCH, batch: &[] };
    assert_eq!(s.hear(2, &other), Err("another digest for a slot than somebody before"));
}
