//! The synchronization phase: STOP-DATA to the new leader, SYNC from it.
//!
//! Everybody who enters a view tells its leader what it knows. The leader collects until the rules (`rules`) give a verdict, and shows
//! all of it in SYNC, so that each follower comes to the same verdict by itself. The first slot of the view is the one after the last
//! that is shown to be decided; it is bound to a value, or free.
//!
//! INV-SMART-3, INV-SMART-8: nobody votes in a view before it knows what binds it, except in the first, which nothing can.
//! Tests: tests/sync.rs, tests/liars.rs.

use super::normal::Own;
use super::rules::{Verdict, judge};
use super::statements::digest_of;
use super::{ModSmart, Phase, SLOT_MAX, reject};
use crate::Effects;
use crate::ledger::Proof;
use crate::mod_smart::message::{Collect, ModSmartBody as Body};
use quorate_auth::{Signature, Signed};
use quorate_types::{Digest, Reject, ReplicaId, Slot, Time, View, planted};
use quorate_wire::Batch;
use std::collections::BTreeMap;

/// A STOP-DATA ends before the batch that would bring it over so many bytes, unless that is the first.
const BATCH_BYTES: usize = 4 << 20;

/// What a leader knows of the view that it is to begin, and how it began it.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    collects: BTreeMap<ReplicaId, Collect>,
    /// The highest slot that is shown to be decided, with what shows it.
    last: Option<Proof>,
    /// The values that each of them named.
    batches: BTreeMap<ReplicaId, Vec<(Digest, Batch)>>,
    /// The SYNC of this view, for who lacks it, and when each member got it again.
    sync: Option<Body>,
    resent: BTreeMap<ReplicaId, Time>,
    bound: Option<Digest>,
    /// The value with whose batch the next STOP-DATA begins, where not all fit into the one before.
    next_batch: Option<Digest>,
}

impl Gathered {
    fn batch(&self, digest: Digest) -> Option<&Batch> {
        let all = self.batches.values().flatten();
        all.into_iter().find(|(value, _)| *value == digest).map(|(_, batch)| batch)
    }
    /// The value that the leader's view began with.
    pub(super) fn bound(&self) -> Option<Digest> {
        self.bound
    }
    /// No more is kept than for each member a statement and its values.
    pub(super) fn is_bounded(&self, members: usize) -> bool {
        self.collects.len() <= members && self.batches.len() <= members && self.resent.len() <= members
    }
}

impl ModSmart {
    /// With what a view begins here that is not the first one of its tenure. Who does not vote need not know what binds it.
    pub(super) fn first_phase(&self) -> Phase {
        if self.votes() {
            return Phase::Syncing;
        }
        let decided = self.decided();
        Phase::Normal { base: decided.next(), forced: None, settled: decided }
    }

    /// The view was entered, or a life begins in it. [mod_smart L45]
    pub(super) fn enter_synchronization(&mut self, out: &mut Effects) {
        self.gathered = Gathered::default();
        if !self.votes() {
            return;
        }
        let collect = self.collect();
        if self.is_mine() {
            self.voting.own.push_back((self.ledger.records().last(), Own::Collect(collect)));
        } else if self.leader() != self.config.me {
            self.send_stop_data(collect, out);
        }
        if self.ledger.records().pending(self.ledger.records().last()).is_none() {
            self.count_own(out);
        }
    }

    /// What this replica knows, signed for the present view. [mod_smart L45]
    fn collect(&self) -> Collect {
        let mut collect = Collect {
            from: self.config.me,
            decided: self.decided(),
            lock: self.voting.open.lock,
            writes: self.voting.open.writes.clone(),
            signature: Signature::NONE,
        };
        collect.signature = self.auth.sign(&self.collect_statement(self.office.view, &collect));
        collect
    }

    fn own_batches(&self) -> Vec<Batch> {
        self.voting.open.batches.values().map(|(batch, _)| batch.clone()).collect()
    }

    /// As many of them as one message takes, and always one: the next ones the next time, so that the leader gets each. [mod_smart L45]
    pub(super) fn next_batches(&mut self) -> Vec<Batch> {
        let all = &self.voting.open.batches;
        let begin = self.gathered.next_batch.filter(|_| !planted("smart-same-batches"));
        let begin = begin.or(self.voting.open.lock.map(|lock| lock.1)).unwrap_or(Digest::new([0; 32]));
        let (mut list, mut bytes) = (Vec::new(), 0);
        self.gathered.next_batch = None;
        for (digest, (batch, _)) in all.range(begin..).chain(all.range(..begin)) {
            bytes += batch.bytes().len();
            if bytes > BATCH_BYTES && !list.is_empty() && !planted("smart-stop-data-without-end") {
                self.gathered.next_batch = Some(*digest);
                break;
            }
            list.push(batch.clone());
        }
        list
    }

    fn send_stop_data(&mut self, collect: Collect, out: &mut Effects) {
        let last = self.of_tenure(self.ledger.proof(self.decided()).cloned());
        let body = Body::StopData { collect, last, batches: self.next_batches() };
        let after = (!planted("smart-stop-data-before-sync")).then_some(self.ledger.records().last());
        self.send(out, self.leader(), body, after);
    }

    pub(super) fn add_own_collect(&mut self, collect: Collect, out: &mut Effects) {
        if self.is_mine() && matches!(self.office.phase, Phase::Syncing) {
            let last = self.of_tenure(self.ledger.proof(self.decided()).cloned());
            let batches = self.own_batches();
            self.add_collect(collect, last, batches, out);
        }
    }

    /// [mod_smart L46-L48]
    pub(super) fn on_stop_data(
        &mut self,
        from: ReplicaId,
        collect: Collect,
        last: Option<Proof>,
        batches: Vec<Batch>,
        out: &mut Effects,
    ) {
        if !self.is_mine() {
            return;
        }
        if let Some(sync) = &self.gathered.sync {
            let lately = |at: &Time| self.life.now.since(*at) < self.config.repeat;
            if self.gathered.resent.get(&from).is_some_and(lately) && !planted("smart-answers-floods") {
                return;
            }
            if collect.from != from || !self.collect_is_signed(self.office.view, &collect) {
                return reject(out, from, Reject::NotAllowed("a statement that does not hold"));
            }
            // It did not get it, or restarted.
            self.gathered.resent.insert(from, self.life.now);
            return self.send(out, from, sync.clone(), None);
        }
        if collect.from != from
            || collect.decided > SLOT_MAX
            || !self.collect_holds(self.office.view, &collect)
        {
            return reject(out, from, Reject::NotAllowed("a statement that does not hold"));
        }
        let last = match self.of_tenure(last) {
            Some(proof) if proof.slot != collect.decided || !self.proves(&proof) => {
                return reject(out, from, Reject::NotAllowed("a decision without a proof"));
            }
            last => last,
        };
        self.add_collect(collect, last, batches, out);
    }

    /// What shows that the present tenure began shows nothing to who is in it, and may be of members that it does not know.
    /// [mod_smart L114]
    fn of_tenure(&self, last: Option<Proof>) -> Option<Proof> {
        last.filter(|proof| proof.slot > self.members.tenures.now().since)
    }

    fn add_collect(&mut self, collect: Collect, last: Option<Proof>, batches: Vec<Batch>, out: &mut Effects) {
        if !matches!(self.office.phase, Phase::Syncing) {
            return;
        }
        let gathered = &mut self.gathered;
        let shown = gathered.last.as_ref().map_or(Slot::ZERO, |proof| proof.slot);
        if let Some(proof) = last.filter(|proof| proof.slot > shown) {
            self.fetching.hint(collect.from, proof.slot, self.ledger.last());
            gathered.last = Some(proof.clone());
            self.learn_who_has(&proof);
        }
        let gathered = &mut self.gathered;
        let named =
            |digest: &Digest| collect.writes.iter().chain(&collect.lock).any(|(_, value)| value == digest);
        let batches = batches.into_iter().map(|batch| (digest_of(&batch), batch));
        gathered.batches.insert(collect.from, batches.filter(|(digest, _)| named(digest)).collect());
        gathered.collects.insert(collect.from, collect);
        if let Some(proof) = self.gathered.last.clone()
            && self.decide_shown(&proof, out)
        {
            return;
        }
        self.begin_view(out);
    }

    /// A view begins after what is shown to be decided: so whoever has its batch decides it at once, and the others get it from
    /// there. Who showed it may keep it, or be dead. Whether that ended our view. [mod_smart L154]
    fn decide_shown(&mut self, proof: &Proof, out: &mut Effects) -> bool {
        // Where replicas crash at most either bug alone stops nobody: the second one brings the first.
        if proof.slot != self.decided().next()
            || planted("smart-shown-is-not-had")
            || planted("smart-nothing-to-wait-for")
        {
            return false;
        }
        let own = self.voting.open.batches.get(&proof.digest).map(|(batch, _)| batch);
        let Some(batch) = own.or_else(|| self.gathered.batch(proof.digest)).cloned() else { return false };
        let view = self.office.view;
        self.decide(proof.clone(), batch, out);
        self.office.view != view
    }

    /// Whoever accepted what is shown to be decided has it, once it hears of that. [mod_smart L154]
    fn learn_who_has(&mut self, proof: &Proof) {
        let decided = self.decided();
        for (id, _) in &proof.accepts {
            if *id != self.config.me {
                self.fetching.hint(*id, proof.slot, decided);
            }
        }
    }

    /// The last slot that all these together show to be decided. Where nobody lies, saying so shows it. [mod_smart L47]
    fn shown_by(&self, collects: &[Collect], last: Option<&Proof>) -> Slot {
        // Whoever is in this tenure knows what began it. [mod_smart L114]
        let proven = last.map_or(Slot::ZERO, |proof| proof.slot).max(self.members.tenures.now().since);
        let claimed = collects.iter().map(|collect| collect.decided).max().unwrap_or(Slot::ZERO);
        let believed = !self.may_lie() || planted("smart-claims-believed");
        if believed { proven.max(claimed) } else { proven }
    }

    /// The leader knows enough, or waits for more. [mod_smart L48-L53]
    fn begin_view(&mut self, out: &mut Effects) {
        let collects: Vec<_> = self.gathered.collects.values().cloned().collect();
        let last = self.gathered.last.clone();
        let decided = self.shown_by(&collects, last.as_ref());
        let value = match judge(self.members.trust, &collects, decided) {
            Verdict::Unsound => return,
            Verdict::Free => None,
            Verdict::Bound(digest) => match self.gathered.batch(digest) {
                Some(batch) => Some(batch.clone()),
                // Somebody correct wrote it, and sends it along.
                None => return,
            },
        };
        self.gathered.bound = value.as_ref().map(digest_of);
        let sync =
            Body::Sync { stops: self.office.certificate.clone(), collects, last, value: value.clone() };
        self.send_all(out, &sync, None);
        self.gathered.sync = Some(sync);
        self.adopt(decided, value, out);
    }

    /// [mod_smart L54-L56]
    #[allow(clippy::too_many_arguments, reason = "the parts of one message")]
    pub(super) fn on_sync(
        &mut self,
        from: ReplicaId,
        view: View,
        stops: Signed,
        collects: Vec<Collect>,
        last: Option<Proof>,
        value: Option<Batch>,
        out: &mut Effects,
    ) {
        if view < self.office.view || from != self.leader_of(view) {
            return;
        }
        if view > self.office.view {
            if !self.certifies(view, &stops) {
                return reject(out, from, Reject::NotAllowed("a SYNC without a certificate"));
            }
            self.install(view, stops, out);
        }
        if !matches!(self.office.phase, Phase::Syncing) {
            return;
        }
        let last = self.of_tenure(last);
        match self.check_sync(&collects, last.as_ref(), value.as_ref()) {
            Ok(decided) => {
                if let Some(proof) = last {
                    if self.decide_shown(&proof, out) {
                        return;
                    }
                    self.fetching.hint(from, proof.slot, self.decided());
                    self.learn_who_has(&proof);
                }
                self.fetching.hint(from, decided, self.decided());
                self.adopt(decided, value, out);
            }
            Err(why) => reject(out, from, Reject::NotAllowed(why)),
        }
    }

    /// Whether a SYNC shows what it says. Gives the last slot that is shown to be decided. [mod_smart L55]
    fn check_sync(
        &self,
        collects: &[Collect],
        last: Option<&Proof>,
        value: Option<&Batch>,
    ) -> Result<Slot, &'static str> {
        if planted("smart-sync-unchecked") {
            return Ok(self.shown_by(collects, last));
        }
        if !collects.is_sorted_by(|one, next| one.from < next.from)
            || !collects.iter().all(|collect| self.collect_holds(self.office.view, collect))
        {
            return Err("a SYNC with a statement that does not hold");
        }
        if last.is_some_and(|proof| proof.slot > SLOT_MAX || !self.proves(proof)) {
            return Err("a SYNC with a decision without a proof");
        }
        let decided = self.shown_by(collects, last);
        match (judge(self.members.trust, collects, decided), value) {
            (Verdict::Free, None) => Ok(decided),
            (Verdict::Bound(digest), Some(batch)) if digest_of(batch) == digest => Ok(decided),
            (Verdict::Unsound, _) => Err("a SYNC that shows too little"),
            _ => Err("a SYNC with another value than it is bound to"),
        }
    }

    /// The view begins: `decided` is the last slot before it. [mod_smart L56-L57]
    fn adopt(&mut self, decided: Slot, value: Option<Batch>, out: &mut Effects) {
        let base = decided.next();
        let settled = if value.is_some() { base } else { decided };
        let forced = value.map(|batch| (digest_of(&batch), batch)).filter(|_| self.decided() < base);
        self.office.phase = Phase::Normal { base, forced, settled };
        let leader = self.leader();
        self.heard_leader(leader);
        self.begin_rates();
        self.begin_rounds(out);
        self.progress(out);
    }

    /// What had no effect is sent again. [mod_smart L27, L58]
    pub(super) fn repeat(&mut self, out: &mut Effects) {
        // Before it is durable it has not left the first time.
        if self.ledger.records().pending(self.ledger.records().last()).is_some()
            || self.life.now.since(self.pace.repeated) < self.config.repeat
        {
            return;
        }
        self.pace.repeated = self.life.now;
        match &self.office.phase {
            Phase::Syncing => {
                if self.leader() != self.config.me {
                    let collect = self.collect();
                    self.send_stop_data(collect, out);
                }
            }
            Phase::Normal { .. } => {
                let late = |since| self.life.now.since(since) >= self.config.repeat;
                if self.watch.open_since().is_some_and(late) {
                    self.repeat_votes(out);
                }
            }
        }
    }

    /// A connection came up: what was lost on the one before is sent again.
    pub(super) fn repeat_to(&mut self, peer: ReplicaId, out: &mut Effects) {
        if matches!(self.office.phase, Phase::Syncing) && peer == self.leader() {
            let collect = self.collect();
            self.send_stop_data(collect, out);
        }
    }
}
