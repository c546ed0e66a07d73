//! The synchronization phase: members send STOP-DATA to the new leader, and the leader sends SYNC.
//!
//! Every member that enters a view tells the leader what it knows. The leader collects until the rules (`rules`) say what binds, and shows
//! all of it in SYNC, so that each follower comes to the same conclusion by itself. The view's first slot is the one after the last that is
//! shown to be decided; it is bound to a value, or free.
//!
//! INV-SMART-3. INV-SMART-8: no replica votes in a view before it knows what binds the view, except in the first view, which nothing can
//! bind. Tests: tests/parts.rs, tests/sync.rs, tests/liars.rs.

use super::core::Core;
use super::normal::Open;
use super::rules::{Binding, binding_of, judged};
use super::statements::digest_of;
use super::testimony::Testimony;
use super::{SLOT_MAX, reject};
use crate::Effects;
use crate::ledger::Proof;
use crate::mod_smart::message::{Collect, ModSmartBody as Body};
use crate::quorums::Quorums;
use quorate_auth::Signature;
use quorate_types::{Digest, Reject, ReplicaId, Slot, Time, planted};
use quorate_wire::Batch;
use std::collections::BTreeMap;

/// What a SYNC may lack, too, whose small quorum is not known here yet.
pub(super) const SHOWS_TOO_LITTLE: &str = "a SYNC that shows too little";
/// A STOP-DATA ends before the batch that would make it longer than this, unless that batch is its first.
const BATCH_BYTES: usize = 4 << 20;

/// What a leader knows of the view that it is about to begin, and how it began it.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    collects: BTreeMap<ReplicaId, Collect>,
    /// The proof of the highest slot that is shown to be decided.
    last: Option<Proof>,
    /// The values that each member named, with their batches.
    batches: BTreeMap<ReplicaId, Vec<(Digest, Batch)>>,
    /// The SYNC of this view, for members that lack it, and when each member was last sent it.
    sync: Option<Body>,
    resent: BTreeMap<ReplicaId, Time>,
    bound: Option<Digest>,
    /// The value whose batch comes first in the next STOP-DATA, if not all fitted into the one before.
    next_batch: Option<Digest>,
}

impl Gathered {
    /// The batch of this value, if a member that named the value sent it.
    pub(super) fn batch(&self, digest: Digest) -> Option<&Batch> {
        let all = self.batches.values().flatten();
        all.into_iter().find(|(value, _)| *value == digest).map(|(_, batch)| batch)
    }
    /// The value that the leader's view began with, if it was bound.
    pub(super) fn bound(&self) -> Option<Digest> {
        self.bound
    }
    /// Whether it keeps no more than one statement and its values for each member.
    pub(super) fn is_bounded(&self, members: usize) -> bool {
        self.collects.len() <= members && self.batches.len() <= members && self.resent.len() <= members
    }

    /// Sends this replica's statement to the leader. [mod_smart L45]
    pub(super) fn send_stop_data(&mut self, collect: Collect, open: &Open, core: &Core, out: &mut Effects) {
        let last = of_tenure(core.ledger.proof(core.decided()).cloned(), core);
        let body = Body::StopData { collect, last, batches: self.next_batches(open) };
        let after = (!planted("smart-stop-data-before-sync")).then_some(core.ledger.records().last());
        core.send(out, core.leader(), body, after);
    }

    /// As many batches as one message takes, and always one. The next call continues, so that the leader gets each of them. [mod_smart L45]
    pub(super) fn next_batches(&mut self, open: &Open) -> Vec<Batch> {
        let all = &open.batches;
        let begin = self.next_batch.filter(|_| !planted("smart-same-batches"));
        let begin = begin.or(open.lock.map(|lock| lock.1)).unwrap_or(Digest::new([0; 32]));
        let (mut list, mut bytes) = (Vec::new(), 0);
        self.next_batch = None;
        for (digest, (batch, _)) in all.range(begin..).chain(all.range(..begin)) {
            bytes += batch.bytes().len();
            if bytes > BATCH_BYTES && !list.is_empty() && !planted("smart-stop-data-without-end") {
                self.next_batch = Some(*digest);
                break;
            }
            list.push(batch.clone());
        }
        list
    }

    /// [mod_smart L46-L48]
    pub(super) fn on_stop_data(
        &mut self,
        from: ReplicaId,
        collect: Collect,
        last: Option<Proof>,
        (core, testimony): (&Core, &mut Testimony),
        out: &mut Effects,
    ) -> Option<(Collect, Option<Proof>)> {
        if !core.is_mine() {
            return None;
        }
        let view = core.office.view();
        if let Some(sync) = &self.sync {
            let lately = |at: &Time| core.now().since(*at) < core.config.repeat;
            if self.resent.get(&from).is_some_and(lately) && !planted("smart-answers-floods") {
                return None;
            }
            if collect.from != from || !core.collect_is_signed(view, &collect) {
                return refuse(out, from, "a statement that does not hold");
            }
            testimony.hear(view, &collect, core, out);
            // It did not get it, or restarted.
            self.resent.insert(from, core.now());
            core.tell_granted(Some(from), out);
            core.send(out, from, sync.clone(), None);
            return None;
        }
        let signed = collect.from == from && core.collect_is_signed(view, &collect);
        if signed {
            testimony.hear(view, &collect, core, out);
        }
        if collect.from != from
            || collect.decided > SLOT_MAX
            || !core.collect_holds_if(signed, view, &collect)
        {
            return refuse(out, from, "a statement that does not hold");
        }
        let last = match of_tenure(last, core) {
            Some(proof) if proof.slot != collect.decided || !core.proves(&proof) => {
                return refuse(out, from, "a decision without a proof");
            }
            last => last,
        };
        Some((collect, last))
    }

    /// Counts a statement, with the batches that it names. Returns the slot that it shows to be decided, if that is a higher one.
    pub(super) fn add(
        &mut self,
        collect: Collect,
        last: Option<Proof>,
        batches: Vec<Batch>,
    ) -> Option<Proof> {
        let shown = self.last.as_ref().map_or(Slot::ZERO, |proof| proof.slot);
        let news = last.filter(|proof| proof.slot > shown);
        if news.is_some() {
            self.last.clone_from(&news);
        }
        let named =
            |digest: &Digest| collect.writes.iter().chain(&collect.lock).any(|(_, value)| value == digest);
        let batches = batches.into_iter().map(|batch| (digest_of(&batch), batch));
        self.batches.insert(collect.from, batches.filter(|(digest, _)| named(digest)).collect());
        self.collects.insert(collect.from, collect);
        news
    }

    /// The proof of the last slot that is shown to be decided.
    pub(super) fn last(&self) -> Option<&Proof> {
        self.last.as_ref()
    }

    /// If the leader knows enough, it begins the view and tells all members. Returns the last slot before the view, and what binds the
    /// first one. [mod_smart L48-L53]
    pub(super) fn begin_view(&mut self, core: &Core, out: &mut Effects) -> Option<(Slot, Option<Batch>)> {
        let collects: Vec<_> = self.collects.values().cloned().collect();
        let last = self.last.clone();
        let decided = shown_by(core, &collects, last.as_ref());
        let value = match binding_of(core.quorums(), &collects, decided) {
            Binding::Unsound => return None,
            Binding::Free => None,
            // Somebody correct wrote it, and sends it along.
            Binding::Bound(digest) => Some(self.batch(digest)?.clone()),
        };
        self.bound = value.as_ref().map(digest_of);
        let stops = core.office.certificate().clone();
        core.tell_granted(None, out);
        let sync = Body::Sync { stops, collects, last, value: value.clone() };
        core.send_all(out, &sync, None);
        self.sync = Some(sync);
        Some((decided, value))
    }
}

/// The members on whose statements the view could begin if they were granted to be a quorum.
pub(super) fn supporters(gathered: &Gathered, core: &Core) -> Vec<ReplicaId> {
    let collects: Vec<_> = gathered.collects.values().cloned().collect();
    let decided = shown_by(core, &collects, gathered.last.as_ref());
    judged(Quorums::as_if_granted(core.members.trust()), &collects, decided).1
}

fn refuse<T>(out: &mut Effects, from: ReplicaId, why: &'static str) -> Option<T> {
    reject(out, from, Reject::NotAllowed(why));
    None
}

/// This replica's statement, signed for the present view. [mod_smart L45]
pub(super) fn collect(core: &Core, open: &Open) -> Collect {
    let mut collect = Collect {
        from: core.config.me,
        decided: core.decided(),
        lock: open.lock,
        writes: open.writes.clone(),
        signature: Signature::NONE,
    };
    collect.signature = core.auth.sign(&core.collect_statement(core.office.view(), &collect));
    collect
}

/// Drops a proof that only shows how the present tenure began: a member of the tenure learns nothing from it, and may not know the members
/// who signed it. [mod_smart L114]
pub(super) fn of_tenure(last: Option<Proof>, core: &Core) -> Option<Proof> {
    last.filter(|proof| proof.slot > core.members.tenures().now().since)
}

/// The last slot that all these statements together show to be decided. Where no replica lies, the word of one is enough. [mod_smart L47]
fn shown_by(core: &Core, collects: &[Collect], last: Option<&Proof>) -> Slot {
    // A replica in this tenure knows how it began. [mod_smart L114]
    let proven = last.map_or(Slot::ZERO, |proof| proof.slot).max(core.members.tenures().now().since);
    let claimed = collects.iter().map(|collect| collect.decided).max().unwrap_or(Slot::ZERO);
    let believed = !core.may_lie() || planted("smart-claims-believed");
    if believed { proven.max(claimed) } else { proven }
}

/// Whether a SYNC proves what it says. Returns the last slot that is shown to be decided. [mod_smart L55]
pub(super) fn check_sync(
    core: &Core,
    collects: &[Collect],
    last: Option<&Proof>,
    value: Option<&Batch>,
) -> Result<Slot, &'static str> {
    if planted("smart-sync-unchecked") {
        return Ok(shown_by(core, collects, last));
    }
    if !collects.is_sorted_by(|one, next| one.from < next.from)
        || !collects.iter().all(|collect| core.collect_holds(core.office.view(), collect))
    {
        return Err("a SYNC with a statement that does not hold");
    }
    if last.is_some_and(|proof| proof.slot > SLOT_MAX || !core.proves(proof)) {
        return Err("a SYNC with a decision without a proof");
    }
    let decided = shown_by(core, collects, last);
    match (binding_of(core.quorums(), collects, decided), value) {
        (Binding::Free, None) => Ok(decided),
        (Binding::Bound(digest), Some(batch)) if digest_of(batch) == digest => Ok(decided),
        (Binding::Unsound, _) => Err(SHOWS_TOO_LITTLE),
        _ => Err("a SYNC with another value than it is bound to"),
    }
}
