//! Byzantine faults: what f liars can say, what they can take away by saying nothing more, and what is left to agree on.

use super::{S, digest, members, replica};
use crate::agreement::{Agreement, BORDERS_MAX, DigestEvent, Offer};
use quorate_types::FaultModel::{Byzantine, Crash};
use quorate_types::{Digest, Random, ReplicaId, Seq};
use std::collections::{BTreeMap, BTreeSet};

/// How many of this many members may lie.
fn liars(count: u64) -> u64 {
    (count - 1) / 3
}

/// What all honest ones have at a border.
fn right(seq: Seq) -> Digest {
    digest(seq.number() / 10)
}

#[test]
fn who_alone_holds_a_checkpoint_is_believed_with_crash_faults_only() {
    for (model, believed) in [(Crash, 1), (Byzantine, 0)] {
        let mut four = Agreement::new(replica(1), &members(4), model);
        drop(four.heard(replica(2), S, digest(7), true));
        assert_eq!((four.offers(S).len(), four.trusts_one()), (believed, model == Crash));
    }
    let mut four = Agreement::new(replica(1), &members(4), Byzantine);
    drop(four.heard(replica(2), S, digest(7), true));
    drop(four.heard(replica(3), S, digest(8), true));
    assert_eq!(four.offers(S), [], "one says this, another that");
    drop(four.heard(replica(4), S, digest(7), false));
    assert_eq!(four.offers(S), [Offer { seq: S, digest: digest(7), holders: vec![replica(2)] }]);
}

/// A replica's own word for what it trims its log for is nothing to others: what is stable is kept for them, and nothing is told late.
#[test]
fn what_a_replica_alone_stands_by_takes_no_room() {
    let mut four = Agreement::new(replica(1), &members(4), Byzantine);
    let (own, stable) = (Seq::new(10), Seq::new(20));
    drop(four.own(own, digest(1), true));
    four.stand_by(own, digest(1));
    for border in 2..=40 {
        let seq = Seq::new(border * 10);
        drop(four.own(seq, digest(border), seq == stable));
        for other in [2, 3].into_iter().filter(|_| seq == stable) {
            drop(four.heard(replica(other), seq, digest(border), false));
        }
    }
    let held = |four: &Agreement| -> Vec<Seq> {
        four.own_reports().filter(|(_, said)| said.held).map(|(seq, _)| seq).collect()
    };
    assert_eq!(held(&four), [stable]);
    four.stand_by(Seq::new(30), digest(3));
    assert_eq!(held(&four), [stable]);
    four.invariants();
}

/// f+1 reports are enough to believe, a quorum's to give something up.
#[test]
fn what_is_agreed_on_is_not_stable_yet() {
    let mut four = Agreement::new(replica(1), &members(4), Byzantine);
    assert_eq!(four.own(S, digest(7), true), []);
    assert_eq!(
        four.heard(replica(2), S, digest(7), true),
        [DigestEvent::Agreed { seq: S, digest: digest(7) }]
    );
    assert!(!four.is_stable(S, digest(7)), "one of the two may be a liar");
    drop(four.heard(replica(2), S, digest(7), false));
    drop(four.heard(replica(3), S, digest(8), true));
    assert!(!four.is_stable(S, digest(7)));
    drop(four.heard(replica(4), S, digest(7), false));
    assert!(four.is_stable(S, digest(7)) && !four.is_stable(S, digest(8)));
    drop(four.heard(replica(2), S, digest(9), false));
    assert!(four.is_stable(S, digest(7)), "two honest ones were there");
    four.invariants();
    let mut three = Agreement::new(replica(1), &members(3), Crash);
    drop(three.own(S, digest(7), false));
    drop(three.heard(replica(2), S, digest(7), false));
    assert!(three.is_stable(S, digest(7)), "with crash faults a majority is a quorum");
}

/// Whatever up to f say, and however often they take it back, against a list of all reports.
#[test]
fn liars_bring_nobody_to_believe_what_is_wrong() {
    let (mut offered, mut stable, mut lies) = (0, 0, 0);
    for seed in 0..3_000 {
        let mut random = Random::new(seed);
        let count = [4, 5, 7][random.below(3) as usize];
        // r1 is honest, and the last ones lie.
        let lies_from = count - liars(count) + 1;
        let mut agreement = Agreement::new(replica(1), &members(count), Byzantine);
        let mut said: BTreeMap<(Seq, ReplicaId), (Digest, bool)> = BTreeMap::new();
        let mut agreed: BTreeMap<Seq, Digest> = BTreeMap::new();
        for _ in 0..10 + random.below(40) {
            let (from, seq) = (1 + random.below(count), Seq::new(10 * (1 + random.below(3))));
            let value = if from >= lies_from { digest(random.below(5)) } else { right(seq) };
            let held = random.below(2) == 0;
            let events = match from {
                1 => agreement.own(seq, value, held),
                from => agreement.heard(replica(from), seq, value, held),
            };
            said.insert((seq, replica(from)), (value, held));
            let of = |value: Digest| said.iter().filter(move |((at, _), (d, _))| *at == seq && *d == value);
            if of(value).count() as u64 > liars(count) {
                agreed.entry(seq).or_insert(value);
            }
            agreement.invariants();
            assert_eq!(agreement.agreed(seq), agreed.get(&seq).copied(), "INV-AGREE-1");
            assert!(agreed.iter().all(|(seq, value)| *value == right(*seq)), "f liars are too few");
            assert!(!events.iter().any(|v| matches!(v, DigestEvent::OwnDiffers { .. })), "{events:?}");
            let honest = of(value).filter(|((_, who), _)| *who < replica(lies_from)).count() as u64;
            if agreement.is_stable(seq, value) {
                assert!(honest > liars(count), "seed {seed}: {honest} honest ones said so");
                stable += 1;
            }
            lies += u64::from(value != right(seq));
            let mut wanted = Vec::new();
            for (seq, digest) in agreed.iter().rev() {
                let holds = |(at, who): &(Seq, ReplicaId), report: &(Digest, bool)| {
                    at == seq && *report == (*digest, true) && *who != replica(1)
                };
                let holders: Vec<_> =
                    said.iter().filter(|(key, report)| holds(key, report)).map(|(key, _)| key.1).collect();
                if !holders.is_empty() {
                    wanted.push(Offer { seq: *seq, digest: *digest, holders });
                }
            }
            assert_eq!(agreement.offers(Seq::ZERO), wanted, "seed {seed}");
            offered += wanted.len();
        }
    }
    assert!(offered > 10_000 && stable > 5_000 && lies > 5_000, "{offered} {stable} {lies}");
}

/// An honest replica: how far it is, which checkpoints lie in its files, and after which its log begins.
struct Honest {
    id: ReplicaId,
    agreement: Agreement,
    at: u64,
    files: BTreeSet<Seq>,
    floor: u64,
}

impl Honest {
    /// Goes on to the next border, and writes a checkpoint when it is its turn.
    fn advance(&mut self, count: u64) {
        self.at += 1;
        let seq = Seq::new(self.at * 10);
        drop(self.agreement.own(seq, right(seq), false));
        if self.at % count == u64::from(self.id.number()) % count {
            drop(self.agreement.own(seq, right(seq), true));
            self.files.insert(seq);
        }
    }
    /// Gives up what lies before a stable checkpoint that is not its newest.
    fn trim(&mut self) {
        let to = self.files.iter().rev().skip(1).find(|seq| self.agreement.is_stable(**seq, right(**seq)));
        if let Some(to) = to.copied().filter(|to| to.number() / 10 > self.floor) {
            self.floor = to.number() / 10;
            self.files.retain(|seq| *seq >= to);
        }
    }
}

/// Each tells each other what it would tell who connects.
fn greet(honest: &mut [Honest]) {
    for from in 0..honest.len() {
        let reports: Vec<_> = honest[from].agreement.own_reports().collect();
        let id = honest[from].id;
        for other in honest.iter_mut().filter(|other| other.id != id) {
            for (seq, report) in &reports {
                drop(other.agreement.heard(id, *seq, report.digest, report.held));
            }
        }
    }
}

/// Everybody goes on as it can, while liars help some to give their log up; then they say nothing any more.
fn while_liars_help(random: &mut Random, count: u64, honest: &mut [Honest]) {
    // The last one is left behind.
    let moving = honest.len() as u64 - 1;
    // Liars say little to all but one. Now and then one of them is slow.
    let helped = replica(1 + random.below(moving));
    let slow = random.below(moving * 2);
    for _ in 0..random.below(300) {
        let at = random.below(moving);
        let at = if at == slow && random.below(8) > 0 { (at + 1) % moving } else { at } as usize;
        // Nobody goes on without a quorum that may be as far, liars among them.
        let ahead = honest.iter().filter(|other| other.at >= honest[at].at).count() as u64;
        if ahead < 2 && random.below(4) > 0 {
            continue;
        }
        honest[at].advance(count);
        let (id, seq) = (honest[at].id, Seq::new(honest[at].at * 10));
        let report = honest[at].agreement.own_report(seq);
        for other in honest.iter_mut().filter(|other| other.id != id) {
            if let Some(report) = report.filter(|_| random.below(3) > 0) {
                drop(other.agreement.heard(id, seq, report.digest, report.held));
            }
            if other.id != helped && random.below(20) > 0 {
                continue;
            }
            for liar in count - liars(count) + 1..=count {
                let value = if random.below(4) > 0 { right(seq) } else { digest(99) };
                drop(other.agreement.heard(replica(liar), seq, value, random.below(2) == 0));
            }
        }
        if random.below(10) == 0 {
            greet(honest);
        }
        honest.iter_mut().for_each(Honest::trim);
    }
}

/// With up to f that say nothing more, the others bring each other as far as the furthest, and who is behind as well: by slots from who
/// did not give them up, or by a checkpoint that f+1 of them agree on and one holds.
#[test]
fn those_who_are_left_agree_on_something_for_who_is_behind() {
    let (mut fetched, mut trimmed, mut far) = (0, 0, 0);
    for seed in 0..1_500 {
        let mut random = Random::new(seed);
        let count = [4, 7][random.below(2) as usize];
        let mut honest: Vec<Honest> = (1..=count - liars(count))
            .map(|id| Honest {
                id: replica(id),
                agreement: Agreement::new(replica(id), &members(count), Byzantine),
                at: 0,
                files: BTreeSet::new(),
                floor: 0,
            })
            .collect();
        while_liars_help(&mut random, count, &mut honest);
        trimmed += honest.iter().filter(|one| one.floor > 0).count();
        let end = honest.iter().map(|one| one.at).max().unwrap_or(0);
        far += u64::from(honest.iter().any(|one| one.at + (BORDERS_MAX as u64) < end && one.at > 0));
        while honest.iter().any(|one| one.at < end) {
            greet(&mut honest);
            let mut moved = false;
            for at in 0..honest.len() {
                let here = honest[at].at;
                if honest.iter().any(|other| other.at > here && other.floor <= here) {
                    honest[at].advance(count);
                    moved = true;
                } else if here < end {
                    let holds = |offer: &Offer| honest.iter().any(|other| other.files.contains(&offer.seq));
                    let offers = honest[at].agreement.offers(Seq::new(here * 10 + 1));
                    let Some(offer) = offers.into_iter().find(holds) else { continue };
                    assert_eq!(offer.digest, right(offer.seq));
                    let one = &mut honest[at];
                    (one.at, one.floor) = (offer.seq.number() / 10, offer.seq.number() / 10);
                    one.files = BTreeSet::from([offer.seq]);
                    drop(one.agreement.own(offer.seq, offer.digest, true));
                    (moved, fetched) = (true, fetched + 1);
                }
            }
            let stand: Vec<_> = honest.iter().map(|one| (one.at, one.floor)).collect();
            assert!(moved, "seed {seed}: some of {count} are stuck (border, log begins after): {stand:?}");
        }
    }
    assert!(fetched > 100 && trimmed > 1_000 && far > 50, "{fetched} {trimmed} {far}");
}
