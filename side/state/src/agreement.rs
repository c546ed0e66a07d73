//! Agreement on digests: which digest the members agree on at each border, which member's differs, and which members hold a checkpoint that
//! others may fetch.
//!
//! Beside the path. Every replica computes the digest of its state at every border and tells the others. A digest that enough members
//! report is agreed: it vouches for transferred bytes, and a replica with another digest has diverged. With crash faults enough is a
//! majority of the members, and at least 2 if there is more than one; with Byzantine faults f+1. Where few members are slow, a set of fewer
//! members is enough for as long as the order takes it for a quorum: the others have stopped, and the log must not grow until they come
//! back. When no digest can be agreed on any more,
//! the service is not deterministic (or more replicas are faulty than the fault model allows), and nothing is repaired.
//!
//! A report is about one border by one member. Each member's newest borders are kept in bounded memory, so no member pushes out another's
//! reports. One older report of each member is kept as well. While one member has diverged and others are far behind, no newer border may
//! be agreed on for long. Members that are behind must then hear of the last agreed border that this member holds (or else of the last
//! agreed one), however many borders came since and whatever was agreed on at those. With crash faults the checkpoint that it holds may be
//! the only one left.
//!
//! With Byzantine faults a digest that is not agreed on is only its sender's word: nothing is fetched by it, and the log is not trimmed by
//! it. f+1 reports are enough to believe, but too few to trim: f of them may come from liars, which may fall silent once the log is gone. A
//! border is stable when a quorum, with f+1 honest members in it, reported its agreed digest; the log is trimmed only to stable borders.
//! Then the remaining members can always agree on something for a member that is behind. For no honest replica gave up slots beyond what
//! f+1 honest ones had executed, so these bring each other as far as the furthest of them. All of them then say the same of the last
//! borders there. And one of those borders, or the last stable one that they keep a report of, is in some honest member's file.
//!
//! Invariants: INV-AGREE-1 (a digest is agreed only when enough distinct members reported it for that border), INV-AGREE-2 (at
//! most [`BORDERS_MAX`] borders per member, one more, and agreed ones are kept), INV-AGREE-3 (a border never has two agreed digests).
//! Tests: `agreement/tests.rs`, against brute force.

use quorate_types::{Digest, Faults, ReplicaId, Seq, Trust, planted};
use std::collections::{BTreeMap, BTreeSet};

/// This many of the newest borders of each member are kept.
pub const BORDERS_MAX: usize = 16;

/// How many equal digests make an agreed one. Crash faults: a majority. Byzantine faults: f+1. At least 2 when there is more than one
/// member. `members`: at least 1.
pub fn needed(faults: Faults, members: usize) -> usize {
    let trust = trust(faults, members);
    let needed = if faults.may_lie() { trust.truth() } else { trust.smallest() };
    (needed as usize).max(members.min(2))
}

/// How many equal digests make a border stable.
fn needed_for_stable(faults: Faults, members: usize) -> usize {
    needed(faults, members).max(trust(faults, members).agreement() as usize)
}

fn trust(faults: Faults, members: usize) -> Trust {
    faults.among(members.clamp(1, usize::from(u16::MAX)) as u32)
}

/// Something that became known about a border. Each event is returned once, and again only when it changed.
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
        /// The members that reported the agreed one.
        by: Vec<ReplicaId>,
    },
    /// Another member has diverged.
    OtherDiffers {
        /// The border.
        seq: Seq,
        /// The member.
        member: ReplicaId,
        /// Its digest.
        digest: Digest,
        /// The agreed one.
        agreed: Digest,
    },
    /// No digest can become agreed any more, whatever the silent members say. Nothing is repaired; it is an alarm.
    NoneAgree {
        /// The border.
        seq: Seq,
        /// The members' digests.
        digests: Vec<(ReplicaId, Digest)>,
    },
    /// A member reports another digest of this border than before: it was repaired, or it lies.
    Restated {
        /// The border.
        seq: Seq,
        /// The member.
        member: ReplicaId,
        /// The digest that it reported before.
        was: Digest,
        /// The digest that it reports now, which counts.
        now: Digest,
    },
}

/// An agreed checkpoint, and the members that can send it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Its seq.
    pub seq: Seq,
    /// Its agreed digest.
    pub digest: Digest,
    /// The other members that said they hold it in a durable file, by id.
    pub holders: Vec<ReplicaId>,
}

/// A member's report on a border.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestReport {
    /// The digest of its state.
    pub digest: Digest,
    /// Whether the member has it in a durable file.
    pub held: bool,
}

/// What was returned about a border, so that nothing is returned twice.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    own: Option<Digest>,
    none: Vec<(ReplicaId, Digest)>,
}

/// Why an older report is kept, in ascending order of importance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Worth {
    /// It is the member's last report.
    Little,
    /// It is on the newest agreed border.
    Agreed,
    /// It can be fetched, and is known to be agreed on. When members write in turns, no member may hold the newest agreed one.
    Held,
    /// This replica gave up its log for it, and others believe it.
    Stands,
}

/// Compares digests; see the module.
#[derive(Debug)]
pub struct Agreement {
    me: ReplicaId,
    faults: Faults,
    needed: usize,
    needed_for_stable: usize,
    /// Sets of members that are enough for now, however many others there are (Visigoth, s < u).
    few: Vec<Vec<ReplicaId>>,
    /// The members whose reports count.
    counting: BTreeSet<ReplicaId>,
    /// This replica gave up its log up to here, so it stands by its checkpoints up to there as if they were agreed on.
    vouched: Seq,
    /// For every member, this replica included, its reports.
    reports: BTreeMap<ReplicaId, BTreeMap<Seq, DigestReport>>,
    /// For each member at most one older report: the most important one.
    older: BTreeMap<ReplicaId, (Seq, DigestReport)>,
    /// The newest borders with an agreed digest.
    agreed: BTreeMap<Seq, Digest>,
    /// Those whose digest a quorum reported; with crash faults all of them.
    stable: BTreeSet<Seq>,
    /// The newest border that was agreed and was dropped from `agreed`: nothing up to here is judged again.
    floor: Seq,
    /// For borders of which some member has a report.
    told: BTreeMap<Seq, Told>,
}

impl Agreement {
    /// With no reports. `members` includes `me`.
    ///
    /// # Panics
    /// When `me` is not a member.
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
            few: Vec::new(),
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

    /// Sets the members: reports of `voters` count; reports of `others` are kept, too. This replica need not be in either list. Earlier
    /// reports are judged again, since they are not sent again and may be enough now.
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

    /// Each of these sets of members is enough for now. Earlier reports are judged again.
    #[must_use]
    pub fn set_few(&mut self, few: Vec<Vec<ReplicaId>>) -> Vec<DigestEvent> {
        let mut events = Vec::new();
        if self.few == few {
            return events;
        }
        self.few = few;
        self.judge_again(&mut events);
        let stable = self
            .agreed
            .iter()
            .filter(|(seq, digest)| self.is_enough(**seq, **digest, self.needed_for_stable));
        let stable: Vec<Seq> = stable.map(|(seq, _)| *seq).collect();
        self.stable.extend(stable);
        self.forget();
        events
    }

    /// Judges every border that is not agreed, oldest first, as if its reports came now.
    fn judge_again(&mut self, out: &mut Vec<DigestEvent>) {
        let said = self.reports.values().flat_map(BTreeMap::keys);
        let seqs: BTreeSet<Seq> = said.chain(self.older.values().map(|(seq, _)| seq)).copied().collect();
        for seq in seqs {
            if seq <= self.floor || self.agreed.contains_key(&seq) {
                continue;
            }
            match self.said(seq).into_iter().find(|(_, digest)| self.is_enough(seq, *digest, self.needed)) {
                Some((from, digest)) => self.judge(from, seq, digest, out),
                None => self.judge_none(seq, out),
            }
        }
    }

    /// This replica's digest at a border, as its keeper computed it; `held` once it is in a durable file. Called again after a repair.
    #[must_use]
    pub fn own(&mut self, seq: Seq, digest: Digest, held: bool) -> Vec<DigestEvent> {
        self.report(self.me, seq, DigestReport { digest, held })
    }

    /// Another member's report. Reports of strangers, and in this replica's own name, are ignored. At most one report is kept that is older
    /// than the member's newest ones.
    #[must_use]
    pub fn heard(&mut self, from: ReplicaId, seq: Seq, digest: Digest, held: bool) -> Vec<DigestEvent> {
        if from == self.me {
            return Vec::new();
        }
        self.report(from, seq, DigestReport { digest, held })
    }

    /// A member does not hold a checkpoint that it reported as held.
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

    /// A report on a border that is too old to be judged. Its member may hold no later checkpoint; then this one is what a replica that is
    /// behind can get, whatever was agreed on since.
    fn report_past(&mut self, from: ReplicaId, seq: Seq, report: DigestReport) {
        if let Some((kept, known)) = self.older.get_mut(&from)
            && *kept == seq
        {
            *known = report;
        } else if report.held && self.trusts_one() && self.reports.contains_key(&from) {
            self.keep_older(from, seq, report, true);
        }
    }

    /// A report on a border before the member's newest ones: it was pushed out, or came just now (`said`). Returns whether something may
    /// have become known.
    fn keep_older(&mut self, from: ReplicaId, seq: Seq, report: DigestReport, said: bool) -> bool {
        let worth = self.worth(from, seq, &report);
        let newer = |(seq, report): (&Seq, &DigestReport)| self.worth(from, *seq, report) >= worth;
        let worth = match worth {
            // There is a newer one to fetch.
            Worth::Held | Worth::Stands if self.reports[&from].iter().any(newer) => Worth::Little,
            worth => worth,
        };
        let keeps = match self.older.get(&from).filter(|(kept, _)| *kept != seq) {
            None => said || worth > Worth::Little,
            Some((kept, old)) => match self.worth(from, *kept, old) {
                Worth::Little => said || worth > Worth::Little,
                // A member that is behind can not know that it is agreed; this replica chose to report it.
                _ if said && report.held && seq > *kept && from != self.me => true,
                most => (worth, seq) > (most, *kept),
            },
        };
        if keeps {
            self.older.insert(from, (seq, report));
        }
        keeps || !said
    }

    /// How important an older report of a member is. Another member says that it holds a checkpoint only if that can be trusted; a liar
    /// wastes only its own room. A replica that has not been at the border can not know that it is agreed on, and may find nothing else to
    /// fetch.
    fn worth(&self, from: ReplicaId, seq: Seq, report: &DigestReport) -> Worth {
        let agreed = self.agreed(seq);
        let behind = self.newest_of(self.me).is_none_or(|(own, _)| own < seq);
        let told = from != self.me && agreed.is_none() && behind;
        // What this replica stands for.
        let own = from == self.me && seq <= self.vouched;
        if report.held && own && self.trusts_one() {
            Worth::Stands
        } else if report.held && (told || own || self.is_stable(seq, report.digest)) {
            Worth::Held
        } else if self.stable.last() == Some(&seq) {
            Worth::Agreed
        } else {
            Worth::Little
        }
    }

    /// A member's report on a border, if it is still known.
    fn of(&self, member: ReplicaId, seq: Seq) -> Option<&DigestReport> {
        let older = || self.older.get(&member).filter(|(of, _)| *of == seq).map(|(_, report)| report);
        self.reports.get(&member)?.get(&seq).or_else(older)
    }

    /// All reports on a border, by member.
    fn all_of(&self, seq: Seq) -> impl Iterator<Item = (ReplicaId, &DigestReport)> {
        self.reports.keys().filter_map(move |member| Some((*member, self.of(*member, seq)?)))
    }

    /// Judges a border after a new digest was reported.
    fn judge(&mut self, from: ReplicaId, seq: Seq, digest: Digest, out: &mut Vec<DigestEvent>) {
        match self.agreed.get(&seq) {
            Some(agreed) if from != self.me && *agreed != digest => {
                out.push(DigestEvent::OtherDiffers { seq, member: from, digest, agreed: *agreed });
            }
            Some(_) => {}
            None if self.is_enough(seq, digest, self.needed) || planted("digest-of-one") => {
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
            && self.is_enough(seq, agreed, self.needed_for_stable)
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

    /// Tells if no digest can become agreed any more, even with the votes of all silent members.
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

    /// Whether so many members reported this digest, or all of a set that is enough for now, and no member reported another one.
    fn is_enough(&self, seq: Seq, digest: Digest, needed: usize) -> bool {
        let says = |who: &ReplicaId| {
            self.counting.contains(who) && self.of(*who, seq).is_some_and(|report| report.digest == digest)
        };
        // Who is outside, and was there, is asked as well.
        let alone =
            || self.said(seq).iter().all(|(who, said)| *said == digest || !self.counting.contains(who));
        self.count(seq, digest) >= needed
            || self.few.iter().any(|set| !set.is_empty() && set.iter().all(says)) && alone()
    }

    fn count(&self, seq: Seq, digest: Digest) -> usize {
        let counts = |who: &ReplicaId| self.counting.contains(who);
        self.all_of(seq).filter(|(who, report)| counts(who) && report.digest == digest).count()
    }

    /// Drops what is outside the window: agreed digests beyond the newest, and notes on borders without a report.
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

    /// The agreed digest of this border, if it is still known.
    pub fn agreed(&self, seq: Seq) -> Option<Digest> {
        self.agreed.get(&seq).copied()
    }

    /// Whether this border is stable with this digest, so that earlier slots may be given up.
    pub fn is_stable(&self, seq: Seq, digest: Digest) -> bool {
        self.stable.contains(&seq) && self.agreed(seq) == Some(digest)
    }

    /// Whether a replica may give up its log for a checkpoint that only it has, and others may fetch that on its word.
    pub fn trusts_one(&self) -> bool {
        !self.faults.may_lie()
    }

    /// The digests reported for this border, by member.
    pub fn said(&self, seq: Seq) -> Vec<(ReplicaId, Digest)> {
        self.all_of(seq).map(|(member, report)| (member, report.digest)).collect()
    }

    /// This replica's reports, for a member that just connected: the newest ones, oldest first, then the older one, which the receiver
    /// keeps only if it comes last. A checkpoint is reported as held only when it is also agreed on.
    pub fn own_reports(&self) -> impl Iterator<Item = (Seq, DigestReport)> {
        let older = self.older.get(&self.me).copied();
        let all = self.reports[&self.me].iter().map(|(seq, report)| (*seq, *report)).chain(older);
        all.map(|(seq, report)| {
            (seq, DigestReport { held: report.held && self.is_vouched(seq, report.digest), ..report })
        })
    }

    /// This replica's report on a border, if it has been there.
    pub fn own_report(&self, seq: Seq) -> Option<DigestReport> {
        let report = self.of(self.me, seq)?;
        Some(DigestReport { held: report.held && self.is_vouched(seq, report.digest), ..*report })
    }

    fn is_vouched(&self, seq: Seq, digest: Digest) -> bool {
        seq <= self.vouched || self.agreed(seq) == Some(digest)
    }

    /// This replica gives up its state from this border on. Its reports on those borders are dropped: otherwise, once the others agree on
    /// them, it would look as if this replica had diverged again.
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

    /// This replica is about to give up its log up to a durable checkpoint of its own. A slow disk may have written it while so many borders
    /// came that its report was pushed out.
    pub fn stand_by(&mut self, seq: Seq, digest: Digest) {
        self.vouch(seq);
        if self.trusts_one() && self.of(self.me, seq).is_none() {
            self.keep_older(self.me, seq, DigestReport { digest, held: true }, true);
        }
    }

    /// The newest border that a member reported.
    pub fn newest_of(&self, member: ReplicaId) -> Option<(Seq, DigestReport)> {
        let (seq, report) = self.reports.get(&member)?.last_key_value()?;
        Some((*seq, *report))
    }

    /// The digest at a border that a replica which lacks the state may trust: the agreed one; or, with crash faults, the one that others
    /// hold, if they all hold the same. A member that says it holds a checkpoint knows that it is agreed on ([`Self::own_reports`]). That
    /// must be enough: when as many replicas are lost as may be, the remaining ones that have been there may be too few to agree on it
    /// again, and a replica that is behind may be needed for progress.
    fn trusted(&self, seq: Seq) -> Option<Digest> {
        let others = self.all_of(seq).filter(|(who, report)| *who != self.me && report.held);
        let mut held = others.map(|(_, report)| report.digest);
        let mut only = || held.next().filter(|first| held.all(|other| other == *first));
        self.agreed(seq).or_else(|| if self.trusts_one() { only() } else { None })
    }

    /// Every trusted checkpoint from `at_least` on that another member holds, newest first: what to fetch, and from which members.
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

    /// Panics with the name of the invariant that does not hold.
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
