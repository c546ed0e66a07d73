//! Digests that are reported in any order, again and differently, against brute force.

mod byzantine;

use super::{Agreement, BORDERS_MAX, DigestEvent, DigestReport, Offer, needed};
use quorate_types::FaultModel::{Byzantine, Crash};
use quorate_types::{Digest, FaultModel, Random, ReplicaId, Seq, Visigoth};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

fn replica(number: u64) -> ReplicaId {
    ReplicaId::new(number as u16)
}

fn digest(number: u64) -> Digest {
    Digest::new([number as u8; 32])
}

fn members(count: u64) -> Vec<ReplicaId> {
    (1..=count).map(replica).collect()
}

/// Of r1 among this many members.
fn agreement(count: u64) -> Agreement {
    Agreement::new(replica(1), &members(count), Crash)
}

const S: Seq = Seq::new(100);

#[test]
fn a_majority_agrees() {
    for (count, majority) in [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (7, 4)] {
        assert_eq!(needed(Crash.into(), count), majority, "of {count}");
    }
    for (count, one_more_than_lie) in [(1, 1), (2, 2), (3, 2), (4, 2), (6, 2), (7, 3), (10, 4)] {
        assert_eq!(needed(Byzantine.into(), count), one_more_than_lie, "of {count}");
    }
    let mut three = agreement(3);
    assert_eq!(three.own(S, digest(7), false), []);
    assert_eq!(
        three.heard(replica(3), S, digest(7), true),
        [DigestEvent::Agreed { seq: S, digest: digest(7) }]
    );
    assert_eq!(three.heard(replica(2), S, digest(7), true), [], "told once");
    assert_eq!((three.newest(), three.agreed(S)), (Some((S, digest(7))), Some(digest(7))));
}

#[test]
fn one_alone_agrees_with_itself() {
    let mut one = agreement(1);
    assert_eq!(one.own(S, digest(7), true), [DigestEvent::Agreed { seq: S, digest: digest(7) }]);
    assert_eq!(one.offers(Seq::ZERO), [], "nobody else holds it");
}

/// One of a pair goes on alone while the other one has stopped, and so does each set of few that may.
#[test]
fn few_are_enough_while_they_decide_alone() {
    let faults = FaultModel::Visigoth(Visigoth::PAIR);
    let mut pair = Agreement::new(replica(1), &members(2), faults);
    assert_eq!(pair.own(S, digest(7), true), [], "the other one may say something else");
    assert_eq!(pair.set_few(vec![vec![replica(1)]]), [DigestEvent::Agreed { seq: S, digest: digest(7) }]);
    assert!(pair.is_stable(S, digest(7)), "what was before may go");
    assert_eq!(
        pair.own(S.next(), digest(8), true),
        [DigestEvent::Agreed { seq: S.next(), digest: digest(8) }]
    );
    assert_eq!(pair.set_few(Vec::new()), []);
    assert_eq!(pair.own(Seq::new(102), digest(9), true), [], "it is back");
    assert_eq!(pair.agreed(S), Some(digest(7)));
    pair.invariants();

    // It was there, and reported something else: that is no agreement.
    let mut differ = Agreement::new(replica(1), &members(2), faults);
    assert_eq!(differ.own(S, digest(7), true), []);
    let digests = vec![(replica(1), digest(7)), (replica(2), digest(8))];
    assert_eq!(differ.heard(replica(2), S, digest(8), true), [DigestEvent::NoneAgree { seq: S, digests }]);
    assert_eq!(differ.set_few(vec![vec![replica(1)]]), []);

    // Where one of five may lie, two reports are believed, and four are needed to give up what was before, or those of three that decide.
    let faults = FaultModel::Visigoth(Visigoth { u: 2, s: 1, o: 1, t_ms: 20 });
    let mut five = Agreement::new(replica(1), &members(5), faults);
    assert_eq!(five.own(S, digest(7), true), []);
    assert_eq!(
        five.heard(replica(2), S, digest(7), true),
        [DigestEvent::Agreed { seq: S, digest: digest(7) }]
    );
    let few = vec![vec![replica(1), replica(2), replica(3)]];
    assert_eq!((five.set_few(few), five.is_stable(S, digest(7))), (vec![], false));
    assert_eq!(five.heard(replica(3), S, digest(7), false), []);
    assert!(five.is_stable(S, digest(7)));
    // A member that left does not count, whatever set it is in.
    let mut left = Agreement::new(replica(1), &members(2), FaultModel::Visigoth(Visigoth::PAIR));
    assert_eq!(left.set_members(&[replica(1), replica(3)], &[replica(2)]), []);
    assert_eq!(left.set_few(vec![vec![replica(2)]]), []);
    assert_eq!(left.heard(replica(2), S, digest(7), true), []);
}

#[test]
fn who_differs_is_told() {
    let mut three = agreement(3);
    assert_eq!(three.own(S, digest(1), false), []);
    assert_eq!(three.heard(replica(2), S, digest(7), false), []);
    let by = vec![replica(2), replica(3)];
    let agreed = DigestEvent::Agreed { seq: S, digest: digest(7) };
    let differs = DigestEvent::OwnDiffers { seq: S, own: digest(1), agreed: digest(7), by };
    assert_eq!(three.heard(replica(3), S, digest(7), false), [agreed.clone(), differs]);

    // After its repair this replica reports again.
    let restated = DigestEvent::Restated { seq: S, member: replica(1), was: digest(1), now: digest(7) };
    assert_eq!(three.own(S, digest(7), false), [restated]);

    // The same seen from r3, which learns of it late and early.
    let mut late = Agreement::new(replica(3), &members(3), Crash);
    let other =
        DigestEvent::OtherDiffers { seq: S, member: replica(1), digest: digest(1), agreed: digest(7) };
    assert_eq!(late.heard(replica(2), S, digest(7), false), []);
    assert_eq!(late.own(S, digest(7), false), std::slice::from_ref(&agreed));
    assert_eq!(late.heard(replica(1), S, digest(1), false), std::slice::from_ref(&other));
    let mut early = Agreement::new(replica(3), &members(3), Crash);
    assert_eq!(early.heard(replica(1), S, digest(1), false), []);
    assert_eq!(early.heard(replica(2), S, digest(7), false), []);
    assert_eq!(early.own(S, digest(7), false), [agreed, other]);
}

#[test]
fn when_no_digest_can_be_agreed_on_the_service_is_not_deterministic() {
    let none = |members: &[u64]| {
        let digests = members.iter().map(|member| (replica(*member), digest(*member))).collect();
        DigestEvent::NoneAgree { seq: S, digests }
    };
    let mut two = agreement(2);
    assert_eq!(two.own(S, digest(1), false), []);
    assert_eq!(two.heard(replica(2), S, digest(2), false), [none(&[1, 2])]);

    let mut three = agreement(3);
    assert_eq!(three.heard(replica(3), S, digest(3), false), []);
    assert_eq!(three.heard(replica(2), S, digest(2), false), [], "r1 can still decide it");
    assert_eq!(three.own(S, digest(1), false), [none(&[1, 2, 3])]);
    assert_eq!(three.offers(Seq::ZERO), []);

    // Of four, three have to say the same: known before the fourth reports.
    let mut four = agreement(4);
    assert_eq!(four.own(S, digest(1), false), []);
    assert_eq!(four.heard(replica(2), S, digest(2), false), []);
    assert_eq!(four.heard(replica(3), S, digest(3), false), [none(&[1, 2, 3])]);
}

#[test]
fn what_can_be_fetched_is_agreed_and_held_by_another() {
    let mut five = agreement(5);
    for seq in [100, 200] {
        drop(five.own(Seq::new(seq), digest(seq), true));
        drop(five.heard(replica(2), Seq::new(seq), digest(seq), seq == 100));
        drop(five.heard(replica(3), Seq::new(seq), digest(seq), false));
        drop(five.heard(replica(4), Seq::new(seq), digest(9), true));
    }
    let offer = |seq, holders: &[u64]| Offer {
        seq: Seq::new(seq),
        digest: digest(seq),
        holders: holders.iter().copied().map(replica).collect(),
    };
    assert_eq!(five.offers(Seq::ZERO), [offer(100, &[2])]);
    drop(five.heard(replica(3), Seq::new(200), digest(200), true));
    drop(five.heard(replica(5), Seq::new(200), digest(200), true));
    assert_eq!(five.offers(Seq::ZERO), [offer(200, &[3, 5]), offer(100, &[2])]);
    assert_eq!(five.offers(Seq::new(101)), [offer(200, &[3, 5])]);

    five.not_held(replica(5), Seq::new(200), digest(9));
    assert_eq!(five.offers(Seq::new(101)), [offer(200, &[3, 5])], "it holds this one, not another");
    five.not_held(replica(5), Seq::new(200), digest(200));
    assert_eq!(five.offers(Seq::new(101)), [offer(200, &[3])]);
    drop(five.heard(replica(3), Seq::new(200), digest(200), false));
    assert_eq!(five.offers(Seq::new(101)), []);
    drop(five.heard(replica(3), Seq::new(200), digest(200), true));
    drop(five.heard(replica(3), Seq::new(200), digest(9), true));
    assert_eq!(five.offers(Seq::new(101)), [], "its state is another one now");
}

#[test]
fn nobody_speaks_for_others() {
    let mut three = agreement(3);
    drop(three.own(S, digest(1), false));
    assert_eq!(three.heard(replica(1), S, digest(2), true), [], "nobody else is this replica");
    assert_eq!(three.heard(replica(9), S, digest(1), true), [], "no member");
    assert_eq!(three.said(S), [(replica(1), digest(1))]);
    for _ in 0..5 {
        assert_eq!(three.heard(replica(2), S, digest(2), true), [], "said often, counted once");
    }
    assert_eq!(three.newest(), None);
}

#[test]
fn memory_is_bounded_whoever_talks() {
    let mut three = agreement(3);
    drop(three.own(Seq::new(7), digest(7), true));
    drop(three.heard(replica(2), Seq::new(7), digest(7), true));
    // r3 talks of borders that nobody knows, from the end of time down and up.
    for seq in (u64::MAX - 5_000..=u64::MAX).rev().chain(1..5_000) {
        drop(three.heard(replica(3), Seq::new(seq), digest(seq), true));
        three.invariants();
    }
    assert_eq!(three.newest(), Some((Seq::new(7), digest(7))), "what others said is still there");
    assert!(three.offers(Seq::ZERO).len() <= BORDERS_MAX + 2);
    assert_eq!(three.own_reports().count(), 1);
    assert_eq!(three.newest_of(replica(3)).map(|(seq, _)| seq), Some(Seq::new(u64::MAX)));
}

#[test]
fn borders_that_are_long_past_are_not_told_again() {
    let mut three = agreement(3);
    for border in 1..=40 {
        let seq = Seq::new(border * 10);
        drop(three.heard(replica(2), seq, digest(border), true));
        assert_eq!(three.heard(replica(3), seq, digest(border), true).len(), 1);
        three.invariants();
    }
    assert_eq!(three.agreed(Seq::new(10)), None);
    for border in 1..=24 {
        assert_eq!(three.own(Seq::new(border * 10), digest(99), false), [], "border {border}");
    }
    assert!(matches!(three.own(Seq::new(250), digest(99), false)[..], [DigestEvent::OwnDiffers { .. }]));
    assert_eq!(three.offers(Seq::ZERO).len(), BORDERS_MAX);
}

/// What was agreed on later was lost: the one checkpoint that is left is older than all that is looked at.
#[test]
fn what_another_holds_is_heard_of_however_late() {
    let mut one = agreement(3);
    for border in 2..=40 {
        let seq = Seq::new(border * 10);
        drop(one.heard(replica(2), seq, digest(border), false));
        drop(one.heard(replica(3), seq, digest(border), false));
    }
    assert_eq!(one.offers(Seq::ZERO), []);
    assert_eq!(one.heard(replica(3), Seq::new(20), digest(2), true), []);
    let offer = Offer { seq: Seq::new(20), digest: digest(2), holders: vec![replica(3)] };
    assert_eq!(one.offers(Seq::ZERO), std::slice::from_ref(&offer));
    drop(one.heard(replica(3), Seq::new(10), digest(1), true));
    drop(one.heard(replica(2), Seq::new(30), digest(3), false));
    assert_eq!(one.offers(Seq::ZERO), [offer], "the latest of those that a member holds");
    drop(one.heard(replica(3), Seq::new(20), digest(2), false));
    assert_eq!(one.offers(Seq::ZERO), [], "it holds it no longer");
    one.invariants();
}

/// A later one that is not agreed on became durable late: what this replica stands for is still told.
#[test]
fn what_this_replica_stands_for_stays_known() {
    let mut one = agreement(3);
    drop(one.own(Seq::new(10), digest(1), true));
    one.vouch(Seq::new(10));
    let told = |one: &Agreement| one.own_reports().any(|(seq, said)| seq == Seq::new(10) && said.held);
    for border in 2..=40 {
        let seq = Seq::new(border * 10);
        drop(one.own(seq, digest(border), false));
        for other in [2, 3] {
            drop(one.heard(replica(other), seq, digest(border), false));
        }
        assert!(told(&one), "border {border}");
    }
    drop(one.own(Seq::new(20), digest(2), true));
    assert!(told(&one), "the later one is nobody's");
    one.invariants();
}

/// Its own disk is slow, so its report on the checkpoint was pushed out when it trims its log for that.
#[test]
fn what_this_replica_begins_to_stand_for_is_told_however_late() {
    let mut one = agreement(3);
    for border in 1..=60 {
        let seq = Seq::new(border * 10);
        drop(one.own(seq, digest(border), false));
        for other in [2, 3].into_iter().filter(|_| border <= 20) {
            drop(one.heard(replica(other), seq, digest(border), false));
        }
        if border == 21 {
            drop(one.own(Seq::new(30), digest(3), true));
        }
    }
    let told = |one: &Agreement| one.own_reports().filter(|(_, said)| said.held).collect::<Vec<_>>();
    assert_eq!(told(&one), []);
    one.stand_by(Seq::new(30), digest(3));
    let held = [(Seq::new(30), DigestReport { digest: digest(3), held: true })];
    assert_eq!(told(&one), held);
    assert_eq!(one.own_report(Seq::new(30)), Some(held[0].1));
    for border in 61..=90 {
        drop(one.own(Seq::new(border * 10), digest(border), false));
    }
    assert_eq!(told(&one), held);
    one.invariants();
}

/// However many borders a write takes, a member that connects hears of a checkpoint that is here, once the log is given up for one.
#[test]
fn what_is_here_is_told_however_slow_the_disk_is() {
    for (takes, own_first) in (1..40).flat_map(|takes| [(takes, false), (takes, true)]) {
        let mut one = agreement(3);
        let (mut here, mut writes, mut stood_by) = (VecDeque::new(), 1, 0);
        for border in 1..=400 {
            let seq = Seq::new(border * 10);
            let mut said = [2, 3, 1];
            said.rotate_right(usize::from(own_first));
            for member in said {
                drop(match member {
                    1 => one.own(seq, digest(border), false),
                    other => one.heard(replica(other), seq, digest(border), false),
                });
            }
            if border == writes + takes {
                drop(one.own(Seq::new(writes * 10), digest(writes), true));
                here.push_back(writes);
                writes = border;
            }
            if here.len() > 2 {
                here.pop_front();
                stood_by = here[0];
                one.stand_by(Seq::new(stood_by * 10), digest(stood_by));
            }
            one.invariants();
            let told = |(seq, said): (Seq, DigestReport)| said.held && here.contains(&(seq.number() / 10));
            let any = stood_by == 0 || one.own_reports().any(told);
            assert!(
                any,
                "writes of {takes} borders, own report first {own_first}: nothing at border {border}"
            );
        }
    }
}

#[test]
fn the_last_agreed_border_stays_known_while_no_newer_one_can_be_agreed_on() {
    let (first, later) = (Seq::new(10), 2..=100_u64);
    let mut one = Agreement::new(replica(1), &members(5), Crash);
    for member in 1..=3 {
        let of = replica(member);
        drop(if member == 1 {
            one.own(first, digest(7), true)
        } else {
            one.heard(of, first, digest(7), true)
        });
    }
    assert_eq!(one.newest(), Some((first, digest(7))));
    // r3 diverges, r4 and r5 are away: two are not enough.
    for border in later {
        let seq = Seq::new(border * 10);
        drop(one.own(seq, digest(border), true));
        drop(one.heard(replica(2), seq, digest(border), true));
        drop(one.heard(replica(3), seq, digest(0), true));
        one.invariants();
    }
    assert_eq!(one.offers(Seq::ZERO)[0].holders, [replica(2), replica(3)]);
    // r4 comes back and hears what the others say: each the same as r1.
    let reports: Vec<_> = one.own_reports().collect();
    assert_eq!(reports.len(), BORDERS_MAX + 1);
    let mut four = Agreement::new(replica(4), &members(5), Crash);
    for member in 1..=3 {
        for (seq, report) in &reports {
            let told = if member == 3 && *seq > first { digest(0) } else { report.digest };
            drop(four.heard(replica(member), *seq, told, report.held));
        }
    }
    let offer = Offer { seq: first, digest: digest(7), holders: (1..=3).map(replica).collect() };
    assert_eq!(four.offers(Seq::ZERO), [offer]);
}

/// Whoever holds it will not say it again, and many borders come that nobody can agree on without us.
#[test]
fn what_another_holds_stays_known_to_who_has_not_been_there() {
    let mut one = Agreement::new(replica(1), &members(3), Crash);
    drop(one.own(Seq::new(5), digest(1), true));
    drop(one.heard(replica(2), Seq::new(5), digest(1), true));
    drop(one.heard(replica(2), Seq::new(10), digest(7), true));
    for border in 2..=100_u64 {
        drop(one.heard(replica(2), Seq::new(border * 10), digest(border), false));
        one.invariants();
    }
    let offer = Offer { seq: Seq::new(10), digest: digest(7), holders: vec![replica(2)] };
    assert_eq!(one.offers(Seq::new(6)), [offer]);
}

#[test]
fn the_last_agreed_checkpoint_that_somebody_holds_stays_known_too() {
    // They write by turns; r2, whose turn it was at the newest agreed border, is behind. Then r1 diverges.
    let (held, newest) = (Seq::new(240), Seq::new(250));
    let mut one = Agreement::new(replica(1), &members(4), Crash);
    let mut two = Agreement::new(replica(2), &members(4), Crash);
    for seq in [held, newest] {
        for member in [3, 4] {
            drop(one.heard(replica(member), seq, digest(7), false));
            drop(two.heard(replica(member), seq, digest(7), false));
        }
        drop(one.own(seq, digest(7), seq == held));
        drop(two.heard(replica(1), seq, digest(7), seq == held));
    }
    assert_eq!((one.newest(), two.newest()), (Some((newest, digest(7))), Some((newest, digest(7)))));
    for border in 26..100 {
        let seq = Seq::new(border * 10);
        drop(one.own(seq, digest(1), border % 4 == 0));
        drop(two.heard(replica(1), seq, digest(1), false));
        for member in [3, 4] {
            drop(one.heard(replica(member), seq, digest(2), false));
            drop(two.heard(replica(member), seq, digest(2), false));
        }
        one.invariants();
        two.invariants();
    }
    let offer = [Offer { seq: held, digest: digest(7), holders: vec![replica(1)] }];
    assert_eq!(two.offers(held), offer);
    // r2 comes back knowing nothing.
    let mut again = Agreement::new(replica(2), &members(4), Crash);
    for (seq, report) in one.own_reports() {
        drop(again.heard(replica(1), seq, report.digest, report.held));
    }
    assert_eq!(again.offers(held), offer);
    // Or knowing an older border only, which it saw agreed on.
    let mut behind = Agreement::new(replica(2), &members(4), Crash);
    for member in [1, 3, 4] {
        drop(behind.heard(replica(member), Seq::new(50), digest(5), false));
    }
    for border in 60..80 {
        drop(behind.heard(replica(1), Seq::new(border * 10), digest(1), false));
    }
    assert_eq!(behind.newest(), Some((Seq::new(50), digest(5))));
    for (seq, report) in one.own_reports() {
        drop(behind.heard(replica(1), seq, report.digest, report.held));
    }
    assert_eq!(behind.offers(held), offer);
    again.not_held(replica(1), held, digest(7));
    assert_eq!(again.offers(held), []);
}

#[test]
fn who_holds_a_checkpoint_says_so_once_it_is_agreed_on_and_is_believed() {
    // r2 is lost after it agreed with r1 and r3; r1 is left alone with what r3 lacks.
    let mut one = agreement(3);
    let held = |agreement: &Agreement| agreement.own_report(S).map(|report| report.held);
    drop(one.own(S, digest(7), true));
    assert_eq!((held(&one), one.own_reports().filter(|(_, report)| report.held).count()), (Some(false), 0));
    drop(one.heard(replica(2), S, digest(7), false));
    assert_eq!((held(&one), one.own_reports().filter(|(_, report)| report.held).count()), (Some(true), 1));
    let mut three = Agreement::new(replica(3), &members(3), Crash);
    drop(three.heard(replica(1), S, digest(7), true));
    assert_eq!(three.newest(), None);
    assert_eq!(three.offers(Seq::ZERO), [Offer { seq: S, digest: digest(7), holders: vec![replica(1)] }]);
    drop(three.heard(replica(2), S, digest(9), true));
    assert_eq!(three.offers(Seq::ZERO), [], "two hold different ones");

    // After a restart, or with a log that became too long, it is the log that it gave up.
    let mut again = agreement(3);
    drop(again.own(S, digest(7), true));
    again.vouch(S);
    assert_eq!(held(&again), Some(true));
}

#[test]
fn what_was_said_of_a_state_that_was_given_up_is_not_compared() {
    let (later, last) = (Seq::new(200), Seq::new(300));
    let mut three = agreement(3);
    drop(three.own(Seq::new(50), digest(5), true));
    for (seq, value) in [(S, 1), (later, 2), (last, 3)] {
        drop(three.own(seq, digest(value), true));
    }
    three.vouch(later);
    drop(three.heard(replica(2), S, digest(7), true));
    let events = three.heard(replica(3), S, digest(7), true);
    assert!(matches!(events[..], [DigestEvent::Agreed { .. }, DigestEvent::OwnDiffers { seq: S, .. }]));
    three.forget_own(S);
    let said: Vec<Seq> = three.own_reports().map(|(seq, _)| seq).collect();
    assert_eq!(said, [Seq::new(50)], "nobody is told to fetch what is gone");

    // The repair is under way, or the log since is being executed again.
    drop(three.heard(replica(2), later, digest(8), true));
    let agreed = DigestEvent::Agreed { seq: later, digest: digest(8) };
    assert_eq!(three.heard(replica(3), later, digest(8), true), [agreed], "it has not diverged again");
    assert_eq!(three.own(later, digest(8), true), [], "nor does it take anything back");
    three.invariants();

    // If it does diverge again, that is told again, in the same words, too.
    assert!(matches!(three.own(S, digest(1), false)[..], [DigestEvent::OwnDiffers { seq: S, .. }]));
}

#[test]
fn the_older_report_is_given_up_like_the_others() {
    let mut three = agreement(3);
    for border in 1..=BORDERS_MAX as u64 + 1 {
        drop(three.own(Seq::new(border * 10), digest(border), true));
        if border == 1 {
            drop(three.heard(replica(2), Seq::new(10), digest(1), true));
        }
    }
    assert_eq!(three.own_report(Seq::new(10)).map(|report| report.digest), Some(digest(1)));
    three.forget_own(Seq::new(10));
    assert_eq!((three.own_report(Seq::new(10)), three.own_reports().count()), (None, 0));
}

/// What was agreed and said, from the list of all reports.
#[derive(Default)]
struct Slow {
    last: BTreeMap<(Seq, ReplicaId), Digest>,
    agreed: BTreeMap<Seq, Digest>,
}

impl Slow {
    fn report(&mut self, from: ReplicaId, seq: Seq, digest: Digest, needed: usize) {
        self.last.insert((seq, from), digest);
        let of = self.last.iter().filter(|((at, _), d)| *at == seq && **d == digest);
        if of.count() >= needed {
            self.agreed.entry(seq).or_insert(digest);
        }
    }
    /// Whether some choice of the silent members' digests makes one reach the number.
    fn possible(&self, seq: Seq, count: usize, needed: usize) -> bool {
        let said: Vec<Digest> = self.last.iter().filter(|((at, _), _)| *at == seq).map(|(_, d)| *d).collect();
        let different: BTreeSet<Digest> = said.iter().copied().collect();
        let most =
            different.iter().map(|d| said.iter().filter(|other| *other == d).count()).max().unwrap_or(0);
        most + (count - said.len()) >= needed
    }
}

#[test]
fn any_order_of_reports_gives_what_brute_force_gives() {
    let mut outcomes = [0; 5];
    for seed in 0..4_000 {
        let mut random = Random::new(seed);
        let count = 1 + random.below(5);
        let model = if count > 3 && random.below(3) == 0 { Byzantine } else { Crash };
        let needed = needed(model.into(), count as usize);
        let mut agreement = Agreement::new(replica(1), &members(count), model);
        let mut slow = Slow::default();
        let mut told: Vec<DigestEvent> = Vec::new();
        let same = random.below(4) > 0;
        for _ in 0..4 + random.below(30) {
            let (from, seq) = (replica(1 + random.below(count)), Seq::new(10 * (1 + random.below(3))));
            let value = digest(if same && random.below(5) > 0 { seq.number() } else { random.below(3) });
            let held = random.below(2) == 0;
            let events = match from == replica(1) {
                true => agreement.own(seq, value, held),
                false => agreement.heard(from, seq, value, held),
            };
            let was = slow.agreed.get(&seq).copied();
            slow.report(from, seq, value, needed);
            let now = slow.agreed.get(&seq).copied();
            agreement.invariants();
            assert_eq!(agreement.agreed(seq), now, "INV-AGREE-1 and INV-AGREE-3");
            let newly = events.iter().any(|v| matches!(v, DigestEvent::Agreed { .. }));
            assert_eq!(newly, was.is_none() && now.is_some(), "told when it is, and only then");
            for event in events {
                match &event {
                    DigestEvent::Agreed { seq, digest } => assert_eq!(slow.agreed[seq], *digest),
                    DigestEvent::OwnDiffers { seq, own, agreed, by } => {
                        assert_eq!((slow.last[&(*seq, replica(1))], slow.agreed[seq]), (*own, *agreed));
                        assert!(own != agreed && by.iter().all(|m| slow.last[&(*seq, *m)] == *agreed));
                    }
                    DigestEvent::OtherDiffers { seq, member, digest, agreed } => {
                        assert_eq!((slow.last[&(*seq, *member)], slow.agreed[seq]), (*digest, *agreed));
                        assert!(digest != agreed && *member != replica(1));
                    }
                    DigestEvent::NoneAgree { seq, digests } => {
                        assert!(!slow.possible(*seq, count as usize, needed) && now.is_none());
                        assert!(digests.iter().all(|(member, d)| slow.last[&(*seq, *member)] == *d));
                        assert!(!told.contains(&event) || same || !digests.is_empty());
                    }
                    DigestEvent::Restated { was, now, .. } => assert_ne!(was, now),
                }
                outcomes[match event {
                    DigestEvent::Agreed { .. } => 0,
                    DigestEvent::OwnDiffers { .. } => 1,
                    DigestEvent::OtherDiffers { .. } => 2,
                    DigestEvent::NoneAgree { .. } => 3,
                    DigestEvent::Restated { .. } => 4,
                }] += 1;
                told.push(event);
            }
            // Nothing is left untold: what holds in the end was said at some point.
            let own = slow.last.get(&(seq, replica(1))).copied();
            if let (Some(own), Some(agreed)) = (own, now)
                && own != agreed
            {
                let said = |v: &DigestEvent| matches!(v, DigestEvent::OwnDiffers { seq: at, own: o, .. } if *at == seq && *o == own);
                assert!(told.iter().any(said), "this replica differs and was not told");
            }
            if now.is_none() && !slow.possible(seq, count as usize, needed) {
                let said = |v: &_| matches!(v, DigestEvent::NoneAgree { seq: at, .. } if *at == seq);
                assert!(told.iter().any(said), "none can agree and it was not told");
            }
        }
    }
    assert!(outcomes.iter().all(|count| *count > 500), "{outcomes:?}");
}

/// Learners learn what is agreed on, and do not agree to it; who left counts no more.
#[test]
fn other_members_agree_after_a_change() {
    let mut agreement = agreement(3);
    let (seq, digest) = (Seq::new(10), Digest::new([1; 32]));
    assert!(agreement.set_members(&[replica(1), replica(2)], &[replica(4)]).is_empty());
    assert!(agreement.heard(replica(3), seq, digest, false).is_empty(), "it left");
    assert!(agreement.own(seq, digest, false).is_empty());
    assert!(agreement.heard(replica(4), seq, digest, false).is_empty(), "it learns");
    assert_eq!(agreement.heard(replica(2), seq, digest, false), [DigestEvent::Agreed { seq, digest }]);
    // Seen from the learner: its own word counts for nothing.
    let mut learner = Agreement::new(replica(4), &[replica(4)], Crash);
    assert!(learner.set_members(&[replica(1), replica(2)], &[replica(4)]).is_empty());
    assert!(learner.own(seq, Digest::new([2; 32]), false).is_empty());
    assert!(learner.heard(replica(1), seq, digest, false).is_empty());
    let events = learner.heard(replica(2), seq, digest, false);
    assert!(events.iter().any(|event| matches!(event, DigestEvent::OwnDiffers { .. })), "{events:?}");
    learner.invariants();
}

/// What was heard before a change counts after it: nobody says it again.
#[test]
fn what_was_heard_is_judged_again_after_a_change() {
    let mut agreement = agreement(3);
    let (seq, digest) = (Seq::new(10), Digest::new([1; 32]));
    assert!(agreement.heard(replica(2), seq, digest, true).is_empty(), "one of three");
    let events = agreement.set_members(&[replica(2)], &[replica(1)]);
    assert_eq!(events, [DigestEvent::Agreed { seq, digest }]);
    assert_eq!(agreement.newest(), Some((seq, digest)));
    assert!(agreement.set_members(&[replica(2)], &[replica(1)]).is_empty(), "told once");
    agreement.invariants();
    // A replica that differs from what is agreed by the change alone is told so, and of the others who differ, too.
    let mut other = Agreement::new(replica(1), &[replica(1), replica(2), replica(3), replica(4)], Crash);
    let (mine, third) = (Digest::new([2; 32]), Digest::new([3; 32]));
    assert!(other.own(seq, mine, false).is_empty());
    assert!(other.heard(replica(2), seq, digest, false).is_empty());
    assert!(other.heard(replica(3), seq, third, false).contains(&DigestEvent::NoneAgree {
        seq,
        digests: vec![(replica(1), mine), (replica(2), digest), (replica(3), third)]
    }));
    let events = other.set_members(&[replica(2)], &[replica(3)]);
    assert_eq!(
        events,
        [
            DigestEvent::Agreed { seq, digest },
            DigestEvent::OtherDiffers { seq, member: replica(3), digest: third, agreed: digest },
            DigestEvent::OwnDiffers { seq, own: mine, agreed: digest, by: vec![replica(2)] },
        ]
    );
    other.invariants();
    // A member less, and no digest can be agreed on any more.
    let mut none = Agreement::new(replica(1), &[replica(1), replica(2), replica(3)], Crash);
    assert!(none.own(seq, mine, false).is_empty());
    assert!(none.heard(replica(2), seq, digest, false).is_empty());
    let events = none.set_members(&[replica(1), replica(2)], &[]);
    assert_eq!(
        events,
        [DigestEvent::NoneAgree { seq, digests: vec![(replica(1), mine), (replica(2), digest)] }]
    );
}
