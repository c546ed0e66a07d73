//! Which digest the members agree on at each border, whose differs, and who holds a checkpoint that others may fetch.
//!
//! Beside the path. Every replica computes the digest of its state at every border and tells the others. A digest that enough
//! members report is agreed: it vouches for transferred bytes, and a replica that has another one has diverged. What is enough
//! follows from the fault model: a majority of the members with crash faults, never under 2 when there is more than one member; f+1 with
//! Byzantine faults. When no digest can be agreed on any more, the service is not deterministic (or more replicas are faulty
//! than the fault model allows), and nothing is repaired.
//!
//! Every report is about one border by one member; reports of digests that nobody agrees on cost the same bounded memory as
//! others: each member's newest borders are kept, so nobody pushes out what another one said. Beside them one older report of
//! each member is kept: while one has diverged and others are far behind, no newer border can be agreed on for long, and the last
//! agreed one that it holds (or without that, the last agreed one) is what those who are behind must hear of, however many borders came
//! since, and whatever was agreed on at those: with crash faults the one that it holds may be the only one that is left.
//!
//! With Byzantine faults a digest that is not agreed on is nobody's word but its sender's: nothing is fetched by it, and the log is not
//! trimmed by it. f+1 reports are enough to believe, and too few to trim: f of them may be liars', who say nothing more once the log is
//! gone. A border is stable when a quorum reported its agreed digest, f+1 honest ones among them, and only stable ones are trimmed to.
//! Then those who are left can always agree on something for who is behind: no honest replica gave up slots beyond what f+1 honest
//! ones had executed, so that those bring each other as far as the furthest of them; all of them say the same of the last borders
//! there; and one of those, or the last stable one that they keep a report of, is in some honest one's file.
//!
//! Invariants: INV-AGREE-1 (a digest is agreed only when enough distinct members reported it for that border), INV-AGREE-2 (at
//! most [`BORDERS_MAX`] borders per member, one more, and agreed ones are kept), INV-AGREE-3 (a border never has two agreed digests).
//! Tests: `agreement/tests.rs`, against brute force.

use quorate_types::{Digest, Faults, ReplicaId, Seq, Trust, planted};
use std::collections::{BTreeMap, BTreeSet};

/// So many borders are kept of each member, the newest ones.
pub const BORDERS_MAX: usize = 16;

/// How many equal digests make an agreed one. Crash faults: a majority. Byzantine faults: f+1. Never under 2 when there are more members
/// than one. `members`: 1 and more.
pub fn needed(faults: Faults, members: usize) -> usize {
    let trust = trust(faults, members);
    let needed = if faults.may_lie() { trust.truth() } else { trust.agreement() };
    (needed as usize).max(members.min(2))
}

/// How many equal digests make a border stable.
fn needed_for_stable(faults: Faults, members: usize) -> usize {
    needed(faults, members).max(trust(faults, members).agreement() as usize)
}

fn trust(faults: Faults, members: usize) -> Trust {
    faults.among(members.clamp(1, usize::from(u16::MAX)) as u32)
}

/// What became known at a border. Each is told once, and again only when what it says has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DigestEvent {
    /// Enough members have this digest.
    Agreed {
        /// The border.
        seq: Seq,
        /// The digest.
        digest: Digest,
    },
    /// This replica has diverged: it must not answer reads, and roll back or fetch the agreed state.
    OwnDiffers {
        /// The border.
        seq: Seq,
        /// This replica's digest.
        own: Digest,
        /// The agreed one.
        agreed: Digest,
        /// Who reported the agreed one.
        by: Vec<ReplicaId>,
    },
    /// Another member has diverged.
    OtherDiffers {
        /// The border.
        seq: Seq,
        /// Which member.
        member: ReplicaId,
        /// Its digest.
        digest: Digest,
        /// The agreed one.
        agreed: Digest,
    },
    /// No digest can reach the number any more, whatever the silent members say: no repair, an alarm.
    NoneAgree {
        /// The border.
        seq: Seq,
        /// Who said what.
        digests: Vec<(ReplicaId, Digest)>,
    },
    /// A member took back what it had said of this border: it was repaired, or it lies.
    Restated {
        /// The border.
        seq: Seq,
        /// Which member.
        member: ReplicaId,
        /// What it said before.
        was: Digest,
        /// What it says now, which counts.
        now: Digest,
    },
}

/// An agreed checkpoint, and who can send it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Its seq.
    pub seq: Seq,
    /// Its agreed digest.
    pub digest: Digest,
    /// The other members that said they hold it in a durable file, by id.
    pub holders: Vec<ReplicaId>,
}

/// What a member said of a border.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestReport {
    /// The digest of its state.
    pub digest: Digest,
    /// It has it in a durable file.
    pub held: bool,
}

/// What was told of a border, so that it is not told twice.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    own: Option<Digest>,
    none: Vec<(ReplicaId, Digest)>,
}

/// Why an older report is kept, by how much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Worth {
    /// It is what its member said last.
    Little,
    /// It is on the newest agreed border.
    Agreed,
    /// It can be fetched, and is known to be agreed on. When members write by turns, nobody may hold the newest agreed one.
    Held,
}

/// Compares digests; see the module.
#[derive(Debug)]
pub struct Agreement {
    me: ReplicaId,
    faults: Faults,
    needed: usize,
    needed_for_stable: usize,
    /// Whose reports count.
    counting: BTreeSet<ReplicaId>,
    /// This replica gave up its log up to here: it stands for its checkpoints up to there, as if they were agreed on.
    vouched: Seq,
    /// Every member, this replica included, and what it reported.
    reports: BTreeMap<ReplicaId, BTreeMap<Seq, DigestReport>>,
    /// Of each member at most one report on a border before those: the one that is worth most.
    older: BTreeMap<ReplicaId, (Seq, DigestReport)>,
    /// The newest borders with an agreed digest.
    agreed: BTreeMap<Seq, Digest>,
    /// Those of them whose digest a quorum reported. With crash faults all.
    stable: BTreeSet<Seq>,
    /// The newest border that was agreed and is not among those any more: nothing up to here is judged again.
    floor: Seq,
    /// Of borders that some member has a report of.
    told: BTreeMap<Seq, Told>,
}

impl Agreement {
    /// Nothing is known yet. `members` includes `me`.
    ///
    /// # Panics
    /// When `me` is no member.
    pub fn new(me: ReplicaId, members: &[ReplicaId], faults: impl Into<Faults>) -> Self {
        let faults = faults.into();
        let reports: BTreeMap<_, _> = members.iter().map(|member| (*member, BTreeMap::new())).collect();
        assert!(reports.contains_key(&me), "a replica agrees with the members that it is one of");
        let needed = needed(faults, reports.len());
        assert!(
            needed >= reports.len().min(2) && needed <= reports.len(),
            "INV-AGREE-1: one alone agrees with nobody"
        );
        let (older, vouched) = (BTreeMap::new(), Seq::ZERO);
        Self {
            me,
            faults,
            needed,
            needed_for_stable: needed_for_stable(faults, reports.len()),
            counting: members.iter().copied().collect(),
            vouched,
            reports,
            older,
            agreed: BTreeMap::new(),
            stable: BTreeSet::new(),
            floor: Seq::ZERO,
            told: BTreeMap::new(),
        }
    }

    /// Others are members from now on: `voters` count. What `others` say is kept, too; this
    /// replica need be none of both. What was heard before is judged again: nobody says it twice, and it may be enough now.
    #[must_use]
    pub fn set_members(&mut self, voters: &[ReplicaId], others: &[ReplicaId]) -> Vec<DigestEvent> {
        let all: BTreeSet<_> = voters.iter().chain(others).copied().chain([self.me]).collect();
        self.reports.retain(|member, _| all.contains(member));
        self.older.retain(|member, _| all.contains(member));
        for member in all {
            self.reports.entry(member).or_default();
        }
        self.counting = voters.iter().copied().collect();
        let counting = self.counting.len().max(1);
        (self.needed, self.needed_for_stable) =
            (needed(self.faults, counting), needed_for_stable(self.faults, counting));
        let mut events = Vec::new();
        self.judge_again(&mut events);
        self.forget();
        events
    }

    /// Every border that is not agreed, oldest first, as if its reports came now.
    fn judge_again(&mut self, out: &mut Vec<DigestEvent>) {
        let said = self.reports.values().flat_map(BTreeMap::keys);
        let seqs: BTreeSet<Seq> = said.chain(self.older.values().map(|(seq, _)| seq)).copied().collect();
        for seq in seqs {
            if seq <= self.floor || self.agreed.contains_key(&seq) {
                continue;
            }
            match self.said(seq).into_iter().find(|(_, digest)| self.count(seq, *digest) >= self.needed) {
                Some((from, digest)) => self.judge(from, seq, digest, out),
                None => self.judge_none(seq, out),
            }
        }
    }

    /// This replica's digest at a border, as computed by its keeper; `held` once it is in a durable file. Again after a repair.
    #[must_use]
    pub fn own(&mut self, seq: Seq, digest: Digest, held: bool) -> Vec<DigestEvent> {
        self.report(self.me, seq, DigestReport { digest, held })
    }

    /// What another member said. Strangers and this replica's own name are ignored. Of borders older than its newest ones one is kept at most.
    #[must_use]
    pub fn heard(&mut self, from: ReplicaId, seq: Seq, digest: Digest, held: bool) -> Vec<DigestEvent> {
        if from == self.me {
            return Vec::new();
        }
        self.report(from, seq, DigestReport { digest, held })
    }

    /// A member turned out not to hold a checkpoint (any more).
    pub fn not_held(&mut self, by: ReplicaId, seq: Seq, digest: Digest) {
        let older = self.older.get_mut(&by).filter(|(of, _)| *of == seq).map(|(_, report)| report);
        let report = self.reports.get_mut(&by).and_then(|reports| reports.get_mut(&seq)).or(older);
        if let Some(report) = report.filter(|report| report.digest == digest) {
            report.held = false;
        }
    }

    fn report(&mut self, from: ReplicaId, seq: Seq, report: DigestReport) -> Vec<DigestEvent> {
        if seq <= self.floor {
            self.report_past(from, seq, report);
            return Vec::new();
        }
        let Some(reports) = self.reports.get_mut(&from) else {
            return Vec::new();
        };
        let mut was = reports.insert(seq, report);
        if reports.len() > BORDERS_MAX
            && let Some((gone, last)) = reports.pop_first()
        {
            was = was.or_else(|| self.of(from, seq).filter(|_| gone == seq).copied());
            if !self.keep_older(from, gone, last, gone == seq) {
                return Vec::new();
            }
        }
        let mut events = Vec::new();
        let (was, now) = (was.map(|was| was.digest), report.digest);
        if let Some(was) = was.filter(|was| *was != now) {
            events.push(DigestEvent::Restated { seq, member: from, was, now });
        }
        if was != Some(now) {
            self.judge(from, seq, now, &mut events);
        }
        self.forget();
        events
    }

    /// A report on a border that is too long past to be judged. Its member may hold nothing later: then this is what one who is behind
    /// can have, whatever was agreed on since.
    fn report_past(&mut self, from: ReplicaId, seq: Seq, report: DigestReport) {
        if let Some((kept, known)) = self.older.get_mut(&from)
            && *kept == seq
        {
            *known = report;
        } else if report.held && self.trusts_one() && self.reports.contains_key(&from) {
            self.keep_older(from, seq, report, true);
        }
    }

    /// A report on a border before a member's newest ones: pushed out, or `said` just now. Whether something may have become known.
    fn keep_older(&mut self, from: ReplicaId, seq: Seq, report: DigestReport, said: bool) -> bool {
        let newer = |(seq, report): (&Seq, &DigestReport)| self.worth(from, *seq, report) == Worth::Held;
        let worth = match self.worth(from, seq, &report) {
            // There is a newer one to fetch.
            Worth::Held if self.reports[&from].iter().any(newer) => Worth::Little,
            worth => worth,
        };
        let keeps = match self.older.get(&from).filter(|(kept, _)| *kept != seq) {
            None => said || worth > Worth::Little,
            Some((kept, old)) => match self.worth(from, *kept, old) {
                Worth::Little => said || worth > Worth::Little,
                // Who is behind can not know that it is agreed on; its member chose this one to speak of.
                _ if said && report.held && seq > *kept && from != self.me => true,
                most => (worth, seq) > (most, *kept),
            },
        };
        if keeps {
            self.older.insert(from, (seq, report));
        }
        keeps || !said
    }

    /// What an older report of a member is good for. Another one says that it holds a checkpoint only if that can be trusted, and a liar has but its own place to waste. Who has not
    /// been there can not know that it is agreed on, and may find nothing else to fetch.
    fn worth(&self, from: ReplicaId, seq: Seq, report: &DigestReport) -> Worth {
        let agreed = self.agreed(seq);
        let behind = self.newest_of(self.me).is_none_or(|(own, _)| own < seq);
        let told = from != self.me && agreed.is_none() && behind;
        // What this replica stands for.
        let own = from == self.me && seq <= self.vouched;
        if report.held && (told || own || self.is_stable(seq, report.digest)) {
            Worth::Held
        } else if self.stable.last() == Some(&seq) {
            Worth::Agreed
        } else {
            Worth::Little
        }
    }

    /// What a member said of a border, if it is still known.
    fn of(&self, member: ReplicaId, seq: Seq) -> Option<&DigestReport> {
        let older = || self.older.get(&member).filter(|(of, _)| *of == seq).map(|(_, report)| report);
        self.reports.get(&member)?.get(&seq).or_else(older)
    }

    /// What all said of it, by member.
    fn all_of(&self, seq: Seq) -> impl Iterator<Item = (ReplicaId, &DigestReport)> {
        self.reports.keys().filter_map(move |member| Some((*member, self.of(*member, seq)?)))
    }

    /// A new digest was reported.
    fn judge(&mut self, from: ReplicaId, seq: Seq, digest: Digest, out: &mut Vec<DigestEvent>) {
        match self.agreed.get(&seq) {
            Some(agreed) if from != self.me && *agreed != digest => {
                out.push(DigestEvent::OtherDiffers { seq, member: from, digest, agreed: *agreed });
            }
            Some(_) => {}
            None if self.count(seq, digest) >= if planted("digest-of-one") { 1 } else { self.needed } => {
                self.agreed.insert(seq, digest);
                out.push(DigestEvent::Agreed { seq, digest });
                let others = self.said(seq).into_iter().filter(|(who, d)| *who != self.me && *d != digest);
                out.extend(others.map(|(member, d)| DigestEvent::OtherDiffers {
                    seq,
                    member,
                    digest: d,
                    agreed: digest,
                }));
            }
            None => self.judge_none(seq, out),
        }
        if let Some(agreed) = self.agreed(seq)
            && self.count(seq, agreed) >= self.needed_for_stable
        {
            self.stable.insert(seq);
        }
        self.judge_own(seq, out);
    }

    fn judge_own(&mut self, seq: Seq, out: &mut Vec<DigestEvent>) {
        let own = self.of(self.me, seq).map(|report| report.digest);
        let (Some(own), Some(agreed)) = (own, self.agreed.get(&seq).copied()) else { return };
        let told = self.told.entry(seq).or_default();
        if told.own == Some(own) {
            return;
        }
        told.own = Some(own);
        if own != agreed {
            let by = self.said(seq).into_iter().filter(|(_, d)| *d == agreed).map(|(who, _)| who).collect();
            out.push(DigestEvent::OwnDiffers { seq, own, agreed, by });
        }
    }

    /// Whether even all silent members could not bring any digest to the number.
    fn judge_none(&mut self, seq: Seq, out: &mut Vec<DigestEvent>) {
        let digests = self.said(seq);
        let silent = self.counting.iter().filter(|member| self.of(**member, seq).is_none()).count();
        let best = digests.iter().map(|(_, digest)| self.count(seq, *digest)).max().unwrap_or(0);
        if best + silent >= self.needed {
            return;
        }
        let told = self.told.entry(seq).or_default();
        if told.none != digests {
            told.none.clone_from(&digests);
            out.push(DigestEvent::NoneAgree { seq, digests });
        }
    }

    fn count(&self, seq: Seq, digest: Digest) -> usize {
        let counts = |who: &ReplicaId| self.counting.contains(who);
        self.all_of(seq).filter(|(who, report)| counts(who) && report.digest == digest).count()
    }

    /// Drops what is out of the window: agreed digests beyond the newest, and notes on borders that nobody has a report of.
    fn forget(&mut self) {
        while self.agreed.len() > BORDERS_MAX {
            let oldest = self.agreed.pop_first();
            self.floor = oldest.map_or(self.floor, |(seq, _)| seq.max(self.floor));
        }
        self.stable.retain(|seq| self.agreed.contains_key(seq));
        let (reports, agreed, older) = (&self.reports, &self.agreed, &self.older);
        let known = |seq: &Seq| {
            agreed.contains_key(seq)
                || reports.values().any(|r| r.contains_key(seq))
                || older.values().any(|(of, _)| of == seq)
        };
        if self.told.len() > BORDERS_MAX {
            self.told.retain(|seq, _| known(seq));
        }
    }

    /// The newest border with an agreed digest.
    pub fn newest(&self) -> Option<(Seq, Digest)> {
        self.agreed.last_key_value().map(|(seq, digest)| (*seq, *digest))
    }

    /// What was agreed at this border, if it was and is still among the newest.
    pub fn agreed(&self, seq: Seq) -> Option<Digest> {
        self.agreed.get(&seq).copied()
    }

    /// Whether this is the digest of a border that is stable: what lies before it may be given up.
    pub fn is_stable(&self, seq: Seq, digest: Digest) -> bool {
        self.stable.contains(&seq) && self.agreed(seq) == Some(digest)
    }

    /// Whether this replica may give up its log by a checkpoint that only it has, and others may fetch that one on its word.
    pub fn trusts_one(&self) -> bool {
        !self.faults.may_lie()
    }

    /// Who said what of this border, by member.
    pub fn said(&self, seq: Seq) -> Vec<(ReplicaId, Digest)> {
        self.all_of(seq).map(|(member, report)| (member, report.digest)).collect()
    }

    /// This replica's reports: what a member that just connected is told. The newest ones, oldest first; then the older one, which
    /// the other side keeps only if it comes last. A checkpoint is said to be held only when it is agreed on, too.
    pub fn own_reports(&self) -> impl Iterator<Item = (Seq, DigestReport)> {
        let older = self.older.get(&self.me).copied();
        let all = self.reports[&self.me].iter().map(|(seq, report)| (*seq, *report)).chain(older);
        all.map(|(seq, report)| {
            (seq, DigestReport { held: report.held && self.is_vouched(seq, report.digest), ..report })
        })
    }

    /// What this replica says of a border now, if it has been there.
    pub fn own_report(&self, seq: Seq) -> Option<DigestReport> {
        let report = self.of(self.me, seq)?;
        Some(DigestReport { held: report.held && self.is_vouched(seq, report.digest), ..*report })
    }

    fn is_vouched(&self, seq: Seq, digest: Digest) -> bool {
        seq <= self.vouched || self.agreed(seq) == Some(digest)
    }

    /// This replica gives up the state that it had from this border on. What it said of it is about nothing that it has: once others agree
    /// on those borders, too, that must not look as if it had diverged again.
    pub fn forget_own(&mut self, from: Seq) {
        if let Some(reports) = self.reports.get_mut(&self.me) {
            drop(reports.split_off(&from));
        }
        if self.older.get(&self.me).is_some_and(|(seq, _)| *seq >= from) {
            self.older.remove(&self.me);
        }
        self.told.range_mut(from..).for_each(|(_, told)| told.own = None);
    }

    /// This replica gave up its log up to a checkpoint of its own.
    pub fn vouch(&mut self, seq: Seq) {
        self.vouched = self.vouched.max(seq);
    }

    /// The newest border that a member reported.
    pub fn newest_of(&self, member: ReplicaId) -> Option<(Seq, DigestReport)> {
        let (seq, report) = self.reports.get(&member)?.last_key_value()?;
        Some((*seq, *report))
    }

    /// The digest of the state at a border that a replica which lacks it may trust: the agreed one; or else, with crash faults, the one that
    /// others hold, if they all hold the same. Who says that it holds a checkpoint knows that it is agreed on ([`Self::own_reports`]). That has to be
    /// enough: when as many replicas are lost as may be, those who are left and have been there are too few to agree on it again, and
    /// one who is behind is needed to go on.
    fn trusted(&self, seq: Seq) -> Option<Digest> {
        let others = self.all_of(seq).filter(|(who, report)| *who != self.me && report.held);
        let mut held = others.map(|(_, report)| report.digest);
        let mut only = || held.next().filter(|first| held.all(|other| other == *first));
        self.agreed(seq).or_else(|| if self.trusts_one() { only() } else { None })
    }

    /// Every trusted checkpoint from `at_least` on that another member holds, newest first: what to fetch, and from whom.
    pub fn offers(&self, at_least: Seq) -> Vec<Offer> {
        let holds = |report: &DigestReport, digest| report.held && report.digest == digest;
        let offer = |seq: Seq| {
            let digest = self.trusted(seq)?;
            let held = self.all_of(seq).filter(|(who, report)| *who != self.me && holds(report, digest));
            let holders: Vec<ReplicaId> = held.map(|(member, _)| member).collect();
            (!holders.is_empty()).then_some(Offer { seq, digest, holders })
        };
        let newest = self.reports.values().flat_map(|reports| reports.range(at_least..)).map(|(seq, _)| *seq);
        let older = self.older.values().map(|(seq, _)| *seq).filter(|seq| *seq >= at_least);
        let seqs: BTreeSet<Seq> = newest.chain(older).collect();
        seqs.into_iter().rev().filter_map(offer).collect()
    }

    /// Panics with the name of an invariant that does not hold.
    pub fn invariants(&self) {
        let bounded = self.reports.values().all(|reports| reports.len() <= BORDERS_MAX);
        assert!(bounded && self.agreed.len() <= BORDERS_MAX, "INV-AGREE-2: bounded memory");
        let agreed = self.stable.iter().all(|seq| self.agreed.contains_key(seq));
        assert!(agreed, "INV-AGREE-2: what is stable is agreed on");
        let notes = self.reports.len() * (BORDERS_MAX + 1) + BORDERS_MAX;
        assert!(self.told.len() <= notes, "INV-AGREE-2: bounded notes");
    }
}

#[cfg(test)]
mod tests;
