use super::Vouchers;
use quorate_state::agreement::BORDERS_MAX;
use quorate_types::{Digest, ReplicaId, Seq};

fn r(number: u16) -> ReplicaId {
    ReplicaId::new(number)
}

fn d(byte: u8) -> Digest {
    Digest::new([byte; Digest::BYTES])
}

fn of(members: u16) -> Vouchers {
    Vouchers::new((1..=members).map(r))
}

fn s(number: u64) -> Seq {
    Seq::new(number)
}

#[test]
fn a_majority_must_say_the_same_and_never_one_alone_of_two() {
    for (members, needed) in [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)] {
        let mut vouchers = of(members);
        assert_eq!(vouchers.needed(), needed);
        for replica in 1..=members {
            let agreed = usize::from(replica - 1) >= needed;
            assert_eq!(vouchers.newest(s(1)).is_some(), agreed, "{replica} of {members}");
            vouchers.heard(r(replica), s(7), d(1), true);
        }
        assert_eq!(vouchers.newest(s(1)), Some(s(7)));
    }
}

#[test]
fn only_who_holds_the_agreed_digest_is_asked_for_it() {
    let mut vouchers = of(5);
    vouchers.heard(r(1), s(7), d(1), false);
    vouchers.heard(r(2), s(7), d(1), false);
    vouchers.heard(r(3), s(7), d(1), false);
    vouchers.heard(r(4), s(7), d(2), true);
    assert_eq!(vouchers.newest(s(1)), Some(s(7)));
    assert!(vouchers.offers(s(1)).is_empty(), "who holds another state is of no use");
    vouchers.heard(r(2), s(7), d(1), true);
    let offers = vouchers.offers(s(1));
    assert_eq!((offers.len(), offers[0].digest, &offers[0].holders[..]), (1, d(1), &[r(2)][..]));
    assert_eq!(vouchers.of(s(7), d(1)), [r(1), r(2), r(3)]);
    assert!(vouchers.offers(s(8)).is_empty(), "an older one is not offered");
    vouchers.not_held(r(2), s(7), d(2));
    assert_eq!(vouchers.offers(s(1)).len(), 1, "it was said of another digest");
    vouchers.not_held(r(2), s(7), d(1));
    assert!(vouchers.offers(s(1)).is_empty());
}

#[test]
fn the_newest_comes_first() {
    let mut vouchers = of(3);
    for seq in [5, 9, 7] {
        vouchers.heard(r(1), s(seq), d(seq as u8), true);
        vouchers.heard(r(3), s(seq), d(seq as u8), true);
    }
    vouchers.heard(r(2), s(11), d(11), true);
    let seqs: Vec<Seq> = vouchers.offers(s(6)).iter().map(|offer| offer.seq).collect();
    assert_eq!(seqs, [s(9), s(7)]);
    assert_eq!(vouchers.newest(s(10)), None);
}

#[test]
fn it_is_said_when_no_majority_is_possible_any_more() {
    let mut vouchers = of(3);
    vouchers.heard(r(1), s(7), d(1), true);
    vouchers.heard(r(2), s(7), d(2), true);
    assert_eq!(vouchers.differ(s(1)), None, "the third may agree with one of them");
    vouchers.heard(r(3), s(7), d(3), true);
    assert_eq!(vouchers.differ(s(1)), Some((s(7), vec![(r(1), d(1)), (r(2), d(2)), (r(3), d(3))])));
    vouchers.heard(r(3), s(7), d(2), true);
    assert_eq!(vouchers.differ(s(1)), None);
}

#[test]
fn strangers_and_talkative_members_change_nothing() {
    let mut vouchers = of(3);
    vouchers.heard(r(9), s(7), d(1), true);
    vouchers.heard(r(1), s(7), d(1), true);
    assert_eq!(vouchers.newest(s(1)), None);
    for seq in 100..1000 {
        vouchers.heard(r(2), s(seq), d(1), true);
    }
    assert_eq!(vouchers.seqs(s(1)).count(), BORDERS_MAX + 1);
}
