//! The counting of tokens: rows of the table in `verify.rs`, and what liars and accidents may say.

use super::extra::Extra;
use super::{AHEAD_MAX, OwnTokens, Ruled, Tellers, Verify, VerifyConfig};
use proptest::prelude::*;
use quorate_types::{Digest, ReplicaId, Seq, Span, Time};
use quorate_wire::{Ruling, Tokens};

const PATIENCE: Span = Span::from_millis(100);

pub(super) fn r(id: u16) -> ReplicaId {
    ReplicaId::new(id)
}

pub(super) fn seq(number: u64) -> Seq {
    Seq::new(number)
}

/// A token by its first byte.
pub(super) fn token(byte: u8) -> Digest {
    Digest::new([byte; Digest::BYTES])
}

pub(super) fn at(millis: u64) -> Time {
    Time::ZERO.plus(Span::from_millis(millis))
}

pub(super) fn ruled(attempt: u64, seq: u64, token: Option<Digest>) -> Ruled {
    Ruled { attempt, seq: Seq::new(seq), token }
}

/// Replica 1 of so many, where so many must agree; batches 1 to 20 are delivered, and the first waits.
pub(super) fn verify(of: u16, quorum: u32) -> Verify {
    let mut verify = Verify::new(VerifyConfig { me: r(1), patience: PATIENCE, extra: 0 });
    verify.set_executors((1..=of).map(r).collect(), quorum, None);
    verify.delivered(at(0), ruled(0, 0, None), Some(seq(1)), seq(20));
    verify
}

pub(super) fn tell(verify: &mut Verify, from: u16, attempt: u64, list: &[(u64, u8)]) {
    let list = list.iter().map(|(at, byte)| (seq(*at), token(*byte))).collect();
    if from == 1 {
        verify.ran(at(0), OwnTokens { attempt, list });
    } else {
        verify.heard(at(0), r(from), &Tokens { attempt, last: Seq::ZERO, list });
    }
    verify.invariants();
}

pub(super) fn is_final(to: u64, byte: u8) -> Option<Ruling> {
    Some(Ruling::Final { attempt: 0, seq: seq(to), token: token(byte) })
}

#[test]
pub(crate) fn results_are_ruled_on_up_to_where_a_quorum_agrees() {
    let mut verify = verify(3, 2);
    tell(&mut verify, 1, 0, &[(1, 1), (2, 2), (3, 3)]);
    assert_eq!(verify.due(at(0)), None, "one is no quorum");
    tell(&mut verify, 3, 0, &[(1, 1), (2, 2)]);
    assert_eq!(verify.due(at(0)), is_final(2, 2));
    assert!(verify.may_vouch(at(0), &is_final(1, 1).expect("one")), "an earlier one is right, too");
    assert!(!verify.may_vouch(at(0), &is_final(3, 3).expect("one")));
    assert!(!verify.may_vouch(at(0), &is_final(2, 9).expect("one")));
}

#[test]
fn where_no_class_can_get_a_quorum_everything_runs_again_at_once() {
    let mut verify = verify(3, 2);
    tell(&mut verify, 1, 0, &[(1, 1)]);
    tell(&mut verify, 2, 0, &[(1, 2)]);
    assert_eq!(verify.due(at(99)), None, "the third may agree with one of them");
    tell(&mut verify, 3, 0, &[(1, 3)]);
    assert_eq!(verify.due(at(0)), Some(Ruling::Redo { attempt: 0 }));
}

/// Exactly: u + 2 different tokens, as the paper says, never come where five say A, A, B, B, C.
#[test]
fn the_count_is_exact() {
    let mut verify = verify(5, 3);
    [(1, 7), (2, 7), (3, 8), (4, 8)].iter().for_each(|(who, byte)| tell(&mut verify, *who, 0, &[(1, *byte)]));
    assert_eq!(verify.due(at(0)), None);
    tell(&mut verify, 5, 0, &[(1, 9)]);
    assert_eq!(verify.due(at(0)), Some(Ruling::Redo { attempt: 0 }));
}

#[test]
fn who_waits_for_too_long_lets_everything_run_again() {
    let mut verify = verify(3, 2);
    tell(&mut verify, 1, 0, &[(1, 1)]);
    assert_eq!(verify.waits_since(), Some(at(0)));
    assert_eq!((verify.due(at(99)), verify.due(at(100))), (None, Some(Ruling::Redo { attempt: 0 })));
    // Where a quorum agrees, a leader that does not say so has more time, and its own idea is refused.
    tell(&mut verify, 2, 0, &[(1, 1)]);
    assert_eq!(verify.due(at(250)), is_final(1, 1));
    assert!(!verify.may_vouch(at(250), &Ruling::Redo { attempt: 0 }));
    assert!(verify.may_vouch(at(300), &Ruling::Redo { attempt: 0 }));
}

/// A planted bug counts what comes later, or everything.
#[test]
pub(crate) fn the_first_token_counts_and_only_that_of_an_executor() {
    let mut verify = verify(3, 2);
    tell(&mut verify, 1, 0, &[(1, 1)]);
    tell(&mut verify, 2, 0, &[(1, 2)]);
    tell(&mut verify, 2, 0, &[(1, 1)]);
    tell(&mut verify, 9, 0, &[(1, 1)]);
    assert_eq!((verify.due(at(0)), verify.refused()), (None, 2));
    let again =
        verify.ran(at(0), OwnTokens { attempt: 0, list: vec![(seq(1), token(5)), (seq(2), token(6))] });
    assert_eq!(again.list, [(seq(2), token(6))], "what was told once is never told otherwise");
}

/// B was wrong and ran again; C lies, and says what B said then. Nobody did that (Kapritsos, section 3.4.1).
#[test]
pub(crate) fn nobody_sides_with_one_that_was_wrong() {
    let mut verify = verify(4, 2);
    tell(&mut verify, 2, 0, &[(1, 66), (2, 67)]);
    tell(&mut verify, 3, 0, &[(1, 66), (2, 67)]);
    tell(&mut verify, 1, 0, &[(1, 1), (2, 2)]);
    tell(&mut verify, 4, 0, &[(1, 1), (2, 2)]);
    verify.delivered(at(0), ruled(0, 1, Some(token(1))), Some(seq(2)), seq(20));
    assert_eq!(verify.due(at(0)), is_final(2, 2));
    assert!(!verify.may_vouch(at(0), &is_final(2, 67).expect("one")), "two say it who were wrong before");
    // Who says late that it was right counts as well.
    tell(&mut verify, 1, 0, &[(3, 3)]);
    assert_eq!(verify.own().list, [(seq(1), token(1)), (seq(2), token(2)), (seq(3), token(3))]);
}

/// Where members only crash but results vary, a majority that starts again may go on from a result that was not the one that was ruled.
#[test]
fn a_majority_with_another_past_counts_only_where_results_come_again() {
    for varies in [false, true] {
        let mut verify = verify(3, 2);
        verify.set_executors((1..=3).map(r).collect(), 2, Some(Tellers { usual: 2, least: 2 }));
        verify.set_varies(varies);
        tell(&mut verify, 2, 0, &[(1, 66), (2, 67)]);
        tell(&mut verify, 3, 0, &[(1, 66), (2, 67)]);
        tell(&mut verify, 1, 0, &[(1, 1), (2, 2)]);
        verify.delivered(at(0), ruled(0, 1, Some(token(1))), Some(seq(2)), seq(20));
        assert_eq!(verify.may_vouch(at(0), &is_final(2, 67).expect("one")), !varies);
    }
}

#[test]
fn tokens_of_another_attempt_wait_or_are_forgotten() {
    let mut verify = verify(3, 2);
    tell(&mut verify, 2, 1, &[(5, 1)]);
    tell(&mut verify, 3, 2, &[(5, 1)]);
    tell(&mut verify, 1, 0, &[(5, 9)]);
    assert_eq!(verify.refused(), 1, "an attempt too far ahead");
    verify.delivered(at(0), ruled(1, 4, None), Some(seq(5)), seq(20));
    tell(&mut verify, 1, 0, &[(5, 1)]);
    assert_eq!(verify.due(at(0)), None, "an old token of this replica counts as little");
    tell(&mut verify, 1, 1, &[(5, 1)]);
    assert_eq!(verify.due(at(0)), Some(Ruling::Final { attempt: 1, seq: seq(5), token: token(1) }));
    assert!(verify.may_vouch(at(0), &Ruling::Redo { attempt: 0 }), "it will count for nothing");
    assert!(!verify.may_vouch(at(0), &Ruling::Redo { attempt: 2 }));
}

#[test]
fn far_tokens_are_not_kept() {
    let mut verify = verify(3, 2);
    tell(&mut verify, 2, 0, &[(20 + AHEAD_MAX, 1), (21 + AHEAD_MAX, 1), (u64::MAX, 1)]);
    assert_eq!(verify.refused(), 2);
}

#[test]
fn a_leader_proposes_each_ruling_once() {
    let mut verify = verify(3, 2);
    [1, 2].iter().for_each(|who| tell(&mut verify, *who, 0, &[(1, 1)]));
    let first = verify.proposal(at(0)).expect("it is due");
    verify.is_proposed(at(0), first);
    assert_eq!(verify.proposal(at(50)), None);
    assert_eq!(verify.proposal(at(100)), Some(first), "it may be lost");
    [1, 2].iter().for_each(|who| tell(&mut verify, *who, 0, &[(2, 2)]));
    assert_eq!(verify.proposal(at(50)), is_final(2, 2));
    verify.is_proposed(at(50), is_final(2, 2).expect("one"));
    assert!(verify.is_under_way(at(50)) && !verify.is_under_way(at(150)));
    verify.delivered(at(60), ruled(0, 2, Some(token(2))), Some(seq(3)), seq(20));
    assert!(!verify.is_under_way(at(60)));
    [1, 2].iter().for_each(|who| tell(&mut verify, *who, 0, &[(3, 3)]));
    verify.led();
    assert!(verify.proposal(at(60)).is_some());
}

/// As [`verify`], where executors only crash.
fn crash(of: u16) -> Verify {
    let (quorum, least) = (u32::from(of) / 2 + 1, usize::from(of - (of - 1) / 2));
    let mut verify = verify(of, quorum);
    verify.set_executors((1..=of).map(r).collect(), quorum, Some(Tellers { usual: least, least }));
    verify
}

#[test]
fn where_all_told_the_same_nothing_is_waited_for() {
    let mut verify = crash(3);
    tell(&mut verify, 1, 0, &[(1, 1), (2, 2), (3, 3)]);
    tell(&mut verify, 2, 0, &[(1, 1), (2, 2)]);
    assert_eq!(verify.unanimous(), None);
    tell(&mut verify, 3, 0, &[(1, 1), (2, 9)]);
    assert_eq!(verify.unanimous(), Some((seq(1), token(1))));
    // Where members may lie, some may have told others something else.
    let mut lies = self::verify(3, 2);
    (1..=3).for_each(|who| tell(&mut lies, who, 0, &[(1, 1)]));
    assert_eq!(lies.unanimous(), None);
}

/// As [`crash`], of three; all have to agree after two rulings in a row on which all agreed, and those were.
fn protected(varies: bool) -> Verify {
    let mut verify = crash(3);
    verify.extra = Extra::new(2, EXTRA);
    verify.set_varies(varies);
    for number in 1..=2 {
        (1..=3).for_each(|who| tell(&mut verify, who, 0, &[(number, 1)]));
        assert!(!verify.protects(), "{number}");
        verify.delivered(at(0), ruled(0, number, Some(token(1))), Some(seq(number + 1)), seq(20));
    }
    assert!(verify.protects());
    verify
}

const EXTRA: Span = Span::from_millis(20);
const REDO: Option<Ruling> = Some(Ruling::Redo { attempt: 0 });

/// Two threads of three may have gone wrong in the same way.
#[test]
pub(crate) fn while_all_are_there_one_that_differs_is_enough_to_run_again() {
    let mut verify = protected(false);
    [1, 2].iter().for_each(|who| tell(&mut verify, *who, 0, &[(3, 3)]));
    assert_eq!(verify.due(at(0)), None, "the third may differ");
    assert_eq!(verify.protects_until(), Some(at(20)));
    tell(&mut verify, 3, 0, &[(3, 4)]);
    assert_eq!(verify.due(at(0)), REDO);
}

#[test]
fn what_all_told_is_ruled_up_to_where_they_agree() {
    let mut verify = protected(true);
    (1..=3).for_each(|who| tell(&mut verify, who, 0, &[(3, 3), (4, who as u8)]));
    assert_eq!(verify.due(at(0)), is_final(3, 3), "what came after will run again later");
    verify.delivered(at(0), ruled(0, 3, Some(token(3))), Some(seq(4)), seq(20));
    assert_eq!(verify.due(at(0)), REDO);
}

/// It may be held up by its threads.
#[test]
fn who_is_silent_lets_everything_run_again() {
    for varies in [false, true] {
        let mut verify = protected(varies);
        [1, 2].iter().for_each(|who| tell(&mut verify, *who, 0, &[(3, 3)]));
        assert_eq!(verify.due(at(19)), None);
        assert_eq!(verify.due(at(20)), REDO);
    }
}

/// Where threads may go wrong, results may not come again, so what all told may be ruled otherwise.
#[test]
fn with_extra_protection_nothing_is_final_before_its_ruling() {
    for (extra, already) in [(0, Some((seq(1), token(1)))), (100, None)] {
        let mut verify = crash(3);
        verify.config.extra = extra;
        (1..=3).for_each(|who| tell(&mut verify, who, 0, &[(1, 1)]));
        assert_eq!(verify.final_already(), already);
    }
}

/// Everything ran again, and replicas told this of it.
fn run_again(told: [Option<u8>; 3]) -> Verify {
    let mut verify = protected(true);
    for (who, byte) in (1..).zip(told) {
        byte.iter().for_each(|byte| tell(&mut verify, who, 1, &[(5, *byte)]));
    }
    again(&mut verify, 30);
    verify
}

fn again(verify: &mut Verify, millis: u64) {
    verify.delivered(at(millis), ruled(1, 5, None), Some(seq(6)), seq(20));
}

#[test]
fn protection_ends_if_also_running_again_gives_different_results() {
    assert!(run_again([None, Some(1), Some(1)]).protects(), "this replica will tell it soon");
    assert!(!run_again([None, Some(1), Some(2)]).protects(), "it is not a matter of threads");
    let mut verify = run_again([None, Some(1), Some(1)]);
    verify.ran(at(31), OwnTokens { attempt: 1, list: vec![(seq(5), token(1))] });
    [31, 90].iter().for_each(|millis| again(&mut verify, *millis));
    assert!(verify.protects(), "all told the same of it in time");
    let mut silent = run_again([None, Some(1), Some(1)]);
    again(&mut silent, 49);
    assert_eq!((silent.protects(), silent.protects_until()), (true, Some(at(50))));
    again(&mut silent, 50);
    assert!(!silent.protects(), "one is silent");
    let mut slow = run_again([None; 3]);
    again(&mut slow, 10_000);
    assert!(slow.protects(), "it takes all of them long to run again");
}

#[test]
fn protection_begins_after_so_many_results_in_a_row() {
    let mut extra = Extra::new(2, EXTRA);
    [true, false, true].iter().for_each(|alike| extra.is_final(*alike));
    assert!(!extra.is_on());
    extra.is_redone();
    extra.is_final(true);
    assert!(!extra.is_on());
    extra.is_final(true);
    assert!(extra.is_on());
}

/// Who decides alone can not ask anybody, and where members may lie one could always differ.
#[test]
fn all_are_asked_only_where_all_may_answer() {
    let mut verify = protected(false);
    verify.set_few(vec![set(&[1, 2])]);
    assert!(!verify.protects());
    verify.set_few(Vec::new());
    assert!(!verify.protects(), "the others have to show again that they are there");
    let mut joined = protected(false);
    let tellers = joined.tellers;
    joined.set_executors((1..=3).map(r).collect(), 2, tellers);
    assert!(joined.protects(), "they are the same");
    joined.set_executors((1..=4).map(r).collect(), 3, tellers);
    assert!(!joined.protects());
    let mut lies = protected(false);
    lies.set_executors((1..=3).map(r).collect(), 2, None);
    assert!(!lies.protects());
}

/// Before as many told what they did as are heard in the end, a leader can not know what was answered.
#[test]
pub(crate) fn a_new_leader_hears_enough_before_anything_runs_again() {
    let mut verify = crash(3);
    tell(&mut verify, 1, 0, &[(1, 1)]);
    assert_eq!(verify.due(at(10_000)), None, "the other two may have told a third something");
    tell(&mut verify, 2, 0, &[(1, 2)]);
    assert_eq!(verify.due(at(10_000)), Some(Ruling::Redo { attempt: 0 }), "they did not agree");
}

/// Where results vary nothing is final before its ruling, and executors that lack what was ruled tell nothing.
#[test]
fn where_results_vary_one_that_tells_is_enough_to_run_again() {
    let mut verify = crash(3);
    verify.set_varies(true);
    tell(&mut verify, 1, 0, &[(1, 1)]);
    assert_eq!(verify.due(at(10)), None, "others may be slow");
    assert_eq!(verify.due(at(10_000)), Some(Ruling::Redo { attempt: 0 }));
}

proptest! {
    /// Three or five executors tell any tokens, and each of two replicas hears some of them. If all told one of them the same, the other one
    /// never lets it run again, whatever it heard, however long it waits; and it rules nothing else.
    #[test]
    fn what_all_told_is_never_run_again(
        five in any::<bool>(),
        told in prop::collection::vec(prop::collection::vec(0u8..2, 4), 5),
        heard in prop::collection::vec(0u64..5, 5),
        waits in 1u64..5,
        millis in 0u64..1000,
    ) {
        let of = if five { 5 } else { 3 };
        let list = |who: usize, to: u64| -> Vec<(u64, u8)> {
            // A token stands for everything before.
            let chain = |seq: u64| told[who][..seq as usize].iter().fold(1, |all, byte| all * 2 + byte);
            (1..=to.min(4)).map(|seq| (seq, chain(seq))).collect()
        };
        let (mut one, mut other) = (crash(of), crash(of));
        for (who, heard) in heard.iter().enumerate().take(usize::from(of)) {
            tell(&mut one, who as u16 + 1, 0, &list(who, 4));
            tell(&mut other, who as u16 + 1, 0, &list(who, *heard));
        }
        other.delivered(at(0), ruled(0, waits - 1, None), Some(seq(waits)), seq(20));
        let Some((all, answered)) = one.unanimous() else { return Ok(()) };
        if all >= seq(waits) {
            let right: Vec<(u64, u8)> = list(0, all.number());
            prop_assert_eq!(right.last().map(|(_, byte)| token(*byte)), Some(answered));
            match other.due(at(millis)) {
                Some(Ruling::Redo { .. }) => prop_assert!(false, "{:?} was answered", all),
                Some(Ruling::Final { seq, token: due, .. }) if seq <= all => {
                    prop_assert_eq!(due, token(right[seq.number() as usize - 1].1));
                }
                _ => {}
            }
        }
    }
}

/// Members of which `u` may stop and one is slow, or none of a pair.
fn few(of: u16, u: usize) -> Verify {
    let slow = usize::from(of) - u - 1;
    let mut verify = verify(of, u as u32 + 1);
    let tellers = Tellers { usual: usize::from(of) - slow, least: usize::from(of) - u };
    verify.set_executors((1..=of).map(r).collect(), u as u32 + 1, Some(tellers));
    verify
}

fn set(members: &[u16]) -> Vec<ReplicaId> {
    members.iter().copied().map(r).collect()
}

#[test]
fn what_a_pair_told_is_final_and_so_is_what_the_one_tells_that_is_left() {
    let mut verify = few(2, 1);
    tell(&mut verify, 1, 0, &[(1, 1), (2, 2), (3, 3)]);
    tell(&mut verify, 2, 0, &[(1, 1)]);
    assert_eq!((verify.unanimous(), verify.due(at(0))), (Some((seq(1), token(1))), is_final(1, 1)));
    verify.delivered(at(0), ruled(0, 1, Some(token(1))), Some(seq(2)), seq(20));
    assert_eq!((verify.unanimous(), verify.due(at(150))), (None, None), "the other one may answer yet");
    verify.set_few(vec![set(&[1])]);
    assert_eq!((verify.unanimous(), verify.due(at(0))), (Some((seq(3), token(3))), is_final(3, 3)));
    assert!(verify.may_vouch(at(0), &is_final(3, 3).expect("one")));
    verify.set_few(Vec::new());
    assert_eq!(verify.unanimous(), None, "in the next view both decide");
}

#[test]
fn one_of_a_pair_that_decides_and_tells_nothing_holds_up_the_other_for_a_while_only() {
    let mut verify = few(2, 1);
    tell(&mut verify, 1, 0, &[(1, 1)]);
    verify.delivered(at(0), ruled(0, 0, None), Some(seq(1)), seq(20));
    assert_eq!(verify.due(at(299)), None);
    assert_eq!(verify.due(at(300)), Some(Ruling::Redo { attempt: 0 }));
}

#[test]
fn of_four_two_are_enough_once_they_decide_alone_and_agree() {
    let mut verify = few(4, 2);
    [1, 2].iter().for_each(|who| tell(&mut verify, *who, 0, &[(1, 1)]));
    assert_eq!((verify.unanimous(), verify.due(at(0))), (None, None));
    verify.set_few(vec![set(&[1, 3])]);
    assert_eq!(verify.due(at(0)), None, "they decide with another one");
    verify.set_few(vec![set(&[1, 3]), set(&[1, 2])]);
    assert_eq!((verify.unanimous(), verify.due(at(0))), (Some((seq(1), token(1))), is_final(1, 1)));
}

#[test]
fn of_few_that_differ_nobody_else_is_waited_for() {
    let mut verify = few(4, 2);
    tell(&mut verify, 1, 0, &[(1, 1)]);
    tell(&mut verify, 2, 0, &[(1, 7)]);
    verify.delivered(at(0), ruled(0, 0, None), Some(seq(1)), seq(20));
    assert_eq!(verify.due(at(0)), None, "the other two may agree with one of them");
    verify.set_few(vec![set(&[1, 2])]);
    assert_eq!(verify.due(at(0)), Some(Ruling::Redo { attempt: 0 }));
    assert!(verify.may_vouch(at(0), &Ruling::Redo { attempt: 0 }));
}

/// The other one is back, and few are still enough: until it tells what it did it counts as stopped, and then it is asked as well.
#[test]
fn whoever_is_back_and_tells_is_compared_with() {
    let mut verify = few(2, 1);
    verify.delivered(at(0), ruled(0, 0, None), Some(seq(1)), seq(20));
    verify.set_few(vec![set(&[1])]);
    tell(&mut verify, 1, 0, &[(1, 1), (2, 2), (3, 3)]);
    assert_eq!(verify.due(at(0)), is_final(3, 3));
    tell(&mut verify, 2, 0, &[(2, 2)]);
    assert_eq!((verify.unanimous(), verify.due(at(0))), (Some((seq(2), token(2))), is_final(2, 2)));
    verify.delivered(at(0), ruled(0, 2, Some(token(2))), Some(seq(3)), seq(20));
    assert_eq!(verify.due(at(0)), is_final(3, 3), "it lags");
    tell(&mut verify, 2, 0, &[(3, 9)]);
    assert_eq!(
        (verify.unanimous(), verify.due(at(0))),
        (None, Some(Ruling::Redo { attempt: 0 })),
        "it differs"
    );
}

/// The one that is alone starts again and tells something else than before. The other one had told what it told first.
#[test]
fn whoever_is_alone_does_not_overrule_what_the_other_one_told() {
    let mut verify = few(2, 1);
    verify.set_varies(true);
    verify.delivered(at(0), ruled(0, 0, None), Some(seq(1)), seq(20));
    tell(&mut verify, 2, 0, &[(1, 1), (2, 2)]);
    tell(&mut verify, 1, 0, &[(1, 7), (2, 8), (3, 9)]);
    verify.set_few(vec![set(&[1])]);
    assert_eq!(verify.due(at(0)), Some(Ruling::Redo { attempt: 0 }));
    assert!(!verify.may_vouch(at(0), &is_final(3, 9).expect("one")));
}

/// What it told first counts at others, so it tells nothing else. But nobody else has that any more.
#[test]
fn whoever_is_alone_does_not_rule_what_it_does_not_have_any_more() {
    let mut verify = few(2, 1);
    verify.delivered(at(0), ruled(0, 0, None), Some(seq(1)), seq(20));
    verify.set_few(vec![set(&[1])]);
    tell(&mut verify, 1, 0, &[(1, 1), (2, 7), (3, 8)]);
    let again = OwnTokens { attempt: 0, list: vec![(seq(2), token(2)), (seq(3), token(3))] };
    assert_eq!(verify.ran(at(0), again).list, [], "it told others");
    assert_eq!((verify.unanimous(), verify.due(at(0))), (Some((seq(1), token(1))), is_final(1, 1)));
    verify.delivered(at(0), ruled(0, 1, Some(token(1))), Some(seq(2)), seq(20));
    assert_eq!((verify.unanimous(), verify.due(at(0))), (None, Some(Ruling::Redo { attempt: 0 })));
    verify.delivered(at(0), ruled(1, 3, None), Some(seq(4)), seq(20));
    tell(&mut verify, 1, 1, &[(4, 4)]);
    assert_eq!(verify.unanimous(), Some((seq(4), token(4))), "in the next attempt it tells anew");
}

/// An executor that starts again may tell other tokens of what comes next than those that its first ones lead to.
#[test]
fn a_leader_proposes_nothing_that_its_last_proposal_rules_out() {
    let mut verify = crash(3);
    verify.set_varies(true);
    verify.delivered(at(0), ruled(0, 0, None), Some(seq(1)), seq(20));
    [1, 2].iter().for_each(|who| tell(&mut verify, *who, 0, &[(1, 1)]));
    verify.is_proposed(at(0), is_final(1, 1).expect("one"));
    tell(&mut verify, 3, 0, &[(1, 9), (2, 8)]);
    tell(&mut verify, 2, 0, &[(2, 8)]);
    assert_eq!(verify.proposal(at(0)), None, "two told it, and one of them did not do what is proposed");
    tell(&mut verify, 1, 0, &[(2, 8)]);
    assert_eq!(verify.proposal(at(0)), is_final(2, 8));
}

/// Where members may lie, one of few that differs does not make everything run again at once.
#[test]
fn a_liar_among_few_has_no_redo_at_once() {
    let mut verify = verify(5, 3);
    verify.delivered(at(0), ruled(0, 0, None), Some(seq(1)), seq(20));
    verify.set_few(vec![set(&[1, 2, 3])]);
    [(1, 1), (2, 1), (3, 9)].iter().for_each(|(who, what)| tell(&mut verify, *who, 0, &[(1, *what)]));
    assert_eq!(verify.due(at(0)), None, "others may agree");
    assert_eq!(verify.due(at(150)), Some(Ruling::Redo { attempt: 0 }));
}

/// One that was wrong before may not side with others.
#[test]
fn of_few_one_that_was_wrong_before_counts_for_nothing() {
    let mut verify = few(4, 2);
    verify.set_varies(true);
    tell(&mut verify, 1, 0, &[(1, 1), (2, 2)]);
    tell(&mut verify, 2, 0, &[(1, 9), (2, 2)]);
    verify.delivered(at(0), ruled(0, 1, Some(token(1))), Some(seq(2)), seq(20));
    verify.set_few(vec![set(&[1, 2])]);
    assert!(!verify.may_vouch(at(0), &is_final(2, 2).expect("one")));
    assert_eq!(verify.due(at(0)), Some(Ruling::Redo { attempt: 0 }));
}

proptest! {
    /// Whatever up to f of 3f+1 liars tell, no ruling is right that no correct executor supports; and once all correct ones have told the
    /// same, theirs is due.
    #[test]
    fn liars_rule_nothing(
        lies in prop::collection::vec((3u16..5, 0u64..2, 1u64..9, 0u8..4), 0..60),
        told in 1u64..8,
    ) {
        // Five executors of which two lie need more than n = 5 here: liars are 3 and 4, of seven.
        let mut verify = Verify::new(VerifyConfig { me: r(1), patience: PATIENCE, extra: 0 });
        verify.set_executors((1..=7).map(r).collect(), 5, None);
        verify.delivered(at(0), ruled(0, 0, None), Some(seq(1)), seq(20));
        for (from, attempt, seq, byte) in &lies {
            tell(&mut verify, *from, *attempt, &[(*seq, *byte)]);
        }
        prop_assert_eq!(verify.due(at(0)), None);
        for ruling in (1..9).flat_map(|to| (0..4).map(move |byte| is_final(to, byte))).flatten() {
            prop_assert!(!verify.may_vouch(at(0), &ruling));
        }
        let list: Vec<(u64, u8)> = (1..=told).map(|seq| (seq, 100 + seq as u8)).collect();
        for who in [1, 2, 5, 6, 7] {
            tell(&mut verify, who, 0, &list);
        }
        prop_assert_eq!(verify.due(at(0)), is_final(told, 100 + told as u8));
    }
}
