//! Keeping: the state beside the path. At borders it captures the state and compares digests with the other replicas. It fetches
//! checkpoints that this replica needs, sends those that others need, finds and mends rot, and trims the log.
//!
//! Keeping is a part of its own: it takes inputs ([`In`]), knows a few facts about the rest of the replica ([`Facts`]), and gives effects
//! ([`Out`]) in order. The pipeline carries them out. What depends on their result comes back as an input: an image, an installed
//! checkpoint, or the rest of an input ([`Out::Then`]).
//!
//! This file has the part and what others may ask of it. `agreeing.rs` goes from a border to a trimmed log; `moving.rs` has what goes to
//! other replicas and comes from them. Each of the other files has one thing, and knows nothing of the others.
//!
//! INV-NODE-7: what a replica fetched is durable before ordering goes on from it.
//! INV-NODE-9: while the state is sound, no checkpoint is given up for an earlier one, since the log may begin after it.
//!
//! Sources: deterministic fuzzy checkpoints (000, section 5.2), state transfer (003, section 2.3.2). Docs: docs/protocols/state.md.
//! Tests: `tests/`, each of the files, check/sim.

mod agreeing;
mod asking;
mod borders;
mod divergence;
mod holds;
mod inout;
mod moving;
mod own;
mod parts;
mod repairs;
mod rot;
mod scrubs;
mod serving;
mod transfer;
mod trims;

use crate::config::NodeConfig;
use crate::recovered::Damaged;
use crate::status::CheckpointStatus;
use asking::Asking;
use borders::Borders;
pub use borders::{BorderConfig, CheckpointMode};
use divergence::Divergence;
pub(crate) use inout::{Facts, In, Installed, Look, Out, Rest};
use own::{Own, OwnCheckpoints};
pub(crate) use parts::{captured, describe, examine};
use quorate_log::SyncMode;
use quorate_state::agreement::Agreement;
use quorate_state::checkpoint::Digests;
use quorate_state::transfer::{FetchLimits, Input as FetchInput, Kept};
use quorate_types::{AgreedTime, Digest, MembershipId, RecordId, ReplicaId, Seq, Slot, Span, Time};
use rot::Rot;
use scrubs::Scrubs;
pub use scrubs::SegmentScrub;
use serving::Serving;
use std::collections::BTreeSet;
use std::ops::Range;
use transfer::Transfer;
pub(crate) use transfer::{Found, Installing, Need, Unfit, Why};
use trims::Trims;

/// The configuration of keeping.
struct Config {
    me: ReplicaId,
    mode: CheckpointMode,
    /// Whether a member may lie.
    may_lie: bool,
    /// How long a leader may be silent before the others want another one.
    patience: Span,
    /// Limits of a transfer to this replica.
    fetch: FetchLimits,
    /// The most bytes of log to keep since the last agreed checkpoint, even if this replica has newer ones of its own.
    log_bytes_max: u64,
    /// How often everything at rest is read and checked.
    scrub_every: Option<Span>,
    /// Whether anything is at rest.
    at_rest: bool,
    /// See [`Left::varies`].
    varies: bool,
}

/// What an earlier run has left.
pub(crate) struct Left {
    /// Checkpoints that are durable here, oldest first.
    pub(crate) durable: Vec<(Seq, Digest)>,
    /// The checkpoint that execution goes on from, if its state could be read.
    pub(crate) from: Option<Origin>,
    /// The seq that the log goes on from.
    pub(crate) base: Seq,
    /// The last record of each instance in that checkpoint.
    pub(crate) records: Option<Vec<Slot>>,
    /// The seq up to which the log was trimmed.
    pub(crate) gone: Seq,
    /// The seqs of checkpoints that others may need: the one up to which the log was trimmed, and the one in which instances fell asleep.
    pub(crate) needed: (Seq, Option<Seq>),
    /// Whether results may come out differently when batches run again: the log alone does not give the state then.
    pub(crate) varies: bool,
    /// A damaged checkpoint.
    pub(crate) damaged: Option<Damaged>,
    /// Parts of a transfer.
    pub(crate) partial: Vec<Kept>,
    /// The last segment of the log in which there is damage.
    pub(crate) rotten_segment: Option<u64>,
}

/// A checkpoint that execution goes on from at the start.
pub(crate) struct Origin {
    pub(crate) seq: Seq,
    pub(crate) border: u64,
    /// The bytes of its objects.
    pub(crate) bytes: u64,
    /// The agreed time in it.
    pub(crate) time: AgreedTime,
}

/// Keeping; see the module.
pub(crate) struct Keeping {
    config: Config,
    borders: Borders,
    asking: Asking,
    agreement: Agreement,
    own: OwnCheckpoints,
    transfer: Transfer,
    serving: Serving,
    trims: Trims,
    divergence: Divergence,
    rot: Rot,
    scrubs: Scrubs,
    /// The last border whose state was captured or installed, and the digests of the image there once they are known.
    last: Option<(Seq, Option<Digests>)>,
    /// Sets of few members that are enough for now to agree on a state, before that was looked at.
    few: Option<Vec<Vec<ReplicaId>>>,
    /// Why a checkpoint could not be written, in words, until one can.
    trouble: Option<String>,
}

impl Keeping {
    /// Goes on from what an earlier run has left.
    pub(crate) fn new(config: &NodeConfig, left: Left) -> Self {
        let me = config.members.me();
        let ids: Vec<ReplicaId> = config.members.all().iter().map(|member| member.replica).collect();
        let place = ids.iter().filter(|id| **id < me).count();
        let mut agreement = Agreement::new(me, &ids, config.order.faults);
        if config.members.number() > MembershipId::FIRST {
            // A replica that joins later begins with a list of members that may have a checkpoint for it.
            let others: Vec<ReplicaId> = ids.iter().copied().filter(|id| *id != me).collect();
            let nothing = agreement.set_members(&others, &[me]);
            debug_assert!(nothing.is_empty(), "nothing was heard yet");
        }
        let mut keeping = Self {
            borders: Borders::new(config.borders, config.members.created(), place, config.start_time),
            config: Config {
                me,
                mode: config.borders.mode,
                may_lie: config.order.faults.may_lie(),
                patience: config.order.patience(),
                fetch: config.fetch.clone(),
                log_bytes_max: config.log_bytes_max,
                scrub_every: config.scrub_every,
                at_rest: config.log.sync != SyncMode::Memory,
                varies: left.varies,
            },
            asking: Asking::default(),
            agreement,
            own: OwnCheckpoints::default(),
            transfer: Transfer::new(left.partial, left.damaged),
            serving: Serving::new(config.serve.clone()),
            trims: Trims::new(left.base, left.gone),
            divergence: Divergence::default(),
            rot: Rot::default(),
            scrubs: Scrubs::knowing(left.rotten_segment),
            last: None,
            few: None,
            trouble: None,
        };
        for (seq, digest) in left.durable {
            keeping.own.written(Own { seq, digest, log_position: 0 });
            drop(keeping.agreement.own(seq, digest, true));
        }
        if let Some(Origin { seq, border, bytes, time }) = left.from {
            keeping.borders.resume(border, time, bytes);
            keeping.divergence.based_on(seq);
        }
        keeping.stand_for(left.needed);
        if left.varies {
            // This replica can tell others only what batches behind the checkpoint did, so they may have that on its word: what it has was ruled.
            keeping.agreement.vouch(left.base);
        }
        if let Some(records) = left.records {
            keeping.trims.holds(left.base, records);
        }
        keeping
    }

    /// After a start, vouches for checkpoints that others need in place of the trimmed log: `trimmed`, and `asleep`, in which instances
    /// fell asleep. The checkpoint before the oldest one here was deleted for that one, which was agreed on then.
    ///
    /// If a log ended before the newest checkpoint, it begins after it now. No replica needs that checkpoint: what this replica had not
    /// written down before it was executed, enough others had.
    fn stand_for(&mut self, (trimmed, asleep): (Seq, Option<Seq>)) {
        let gave_up = self.trims.gone() > Seq::ZERO;
        let oldest = self.own.durable().next().filter(|_| gave_up).map(|own| own.seq);
        let upto = [Some(trimmed), asleep, oldest].into_iter().flatten().max();
        self.agreement.vouch(upto.unwrap_or_default());
    }

    /// Sets the ordered number of replicas, `count`, and this one's position, `before`. The distance of borders may depend on them, and
    /// borders follow from the log alone.
    pub(crate) fn meet_replicas(&mut self, count: usize, before: usize) {
        self.borders.set_members(count, before);
    }

    /// A border is needed, and the replica that asked for it was told that this one orders it.
    pub(crate) fn order_border(&mut self) {
        self.asking.order();
    }

    /// The batch that asks for the border was proposed here.
    pub(crate) fn border_ordered(&mut self) {
        self.asking.ordered();
    }

    /// The log was trimmed up to this checkpoint, as [`Out::Trim`] asked. Replicas that lack what was trimmed now get this checkpoint: this
    /// replica vouched for it when earlier ones were deleted.
    pub(crate) fn trimmed(&mut self, seq: Seq) {
        self.trims.trimmed_to(seq);
        self.own.drop_before(seq);
    }

    /// The log begins with this segment.
    pub(crate) fn log_begins(&mut self, segment: u64) {
        self.scrubs.begins_with(segment);
    }

    /// Each of these sets of members is enough for now to agree on a state. Step with [`In::Few`] soon.
    pub(crate) fn few_are_enough(&mut self, sets: Vec<Vec<ReplicaId>>) {
        self.few = Some(sets);
    }

    /// Whether to step with [`In::Few`].
    pub(crate) const fn has_news_of_few(&self) -> bool {
        self.few.is_some()
    }

    /// A segment of the log is being read, as [`Out::ReadSegment`] asked. It must have these records.
    pub(crate) fn reads(&mut self, segment: u64, records: Range<RecordId>) {
        self.scrubs.reads(segment, records);
    }

    /// Takes an input and gives effects.
    pub(crate) fn step(&mut self, now: Time, facts: &Facts, input: In, out: &mut Vec<Out>) {
        let batch = if let In::Delivered { asks, .. } = input { Some(asks) } else { None };
        self.asking.look(facts.disk_full, batch, self.trouble.is_some());
        match input {
            In::Begin => out.extend(self.transfer.damaged().map(Out::Fetch)),
            In::Delivered { seq, bytes, asks, settled, ends } => {
                self.on_delivered(now, facts, seq, (bytes, asks, settled, ends), out);
            }
            In::Differs(differs) => self.on_differs(differs, out),
            In::Captured { image, records } => self.on_captured(*image, records, out),
            In::NotCaptured { seq, why } => {
                self.in_trouble(format!("the service can not give its state at seq {seq:#}: {why}"), out);
            }
            In::Kept(report) => self.on_kept(now, facts, report, out),
            In::Heard { from, message } => self.on_heard(now, facts, from, message, out),
            In::Asked { conn, members, message } => {
                if let Err(why) = self.on_asked(now, facts, (conn, &members), message, out) {
                    out.push(Out::Reject { conn, why });
                }
            }
            In::Left(conn) => self.serving.operator_left(now, conn, out),
            In::Connected(member) => self.on_connected(now, facts, member, out),
            In::Disconnected(member) => self.on_disconnected(now, facts, member, out),
            In::Members { voters, others } => {
                let verdicts = self.agreement.set_members(&voters, &others);
                self.on_verdicts(now, facts, verdicts, out);
                out.push(Out::Then(Rest::Trim));
            }
            In::Few => {
                let verdicts = self.agreement.set_few(self.few.take().unwrap_or_default());
                self.on_verdicts(now, facts, verdicts, out);
                out.push(Out::Then(Rest::Trim));
            }
            In::Behind(seq) => self.on_behind(now, facts, seq, out),
            In::LeftBehind(seq) => self.on_left_behind(now, facts, seq, out),
            In::Lacks { at_least, why } => {
                if self.fetches_since().is_none() {
                    out.push(Out::Fetch(Need::new(at_least, why)));
                }
            }
            In::Fetch { need, connected } => self.begin_fetch(now, facts, need, &connected, out),
            In::Examined { found, verdict } => self.on_examined(facts, *found, verdict, out),
            In::Installed(installed) => self.on_installed(facts, installed, out),
            In::Scrub => self.scrubs.begin(facts.first_segment, out),
            In::ScrubInTurn => self.scrub_in_turn(now, facts, out),
            In::Scrubbed { segment, result } => self.on_scrubbed(now, facts, segment, result, out),
            In::Deadline => {
                self.serving.on_deadline(now, out);
                self.fetch(now, facts, FetchInput::Deadline, out);
                out.push(Out::Then(Rest::Deadline));
            }
            In::Rest(rest) => self.go_on(now, facts, rest, out),
        }
    }

    fn go_on(&mut self, now: Time, facts: &Facts, rest: Rest, out: &mut Vec<Out>) {
        match rest {
            Rest::Deadline => self.on_deadline(now, facts, out),
            Rest::Behind(seq) => self.fetch_behind(now, seq, out),
            Rest::Verdicts(verdicts) => self.judge(now, facts, verdicts, out),
            Rest::Written { seq, digest } => {
                self.rot.replaced(seq, out);
                self.on_digest(now, facts, (seq, digest), true, out);
                out.push(Out::Then(Rest::Trim));
            }
            Rest::Trim => self.trim(facts, out),
        }
    }

    /// Whether reads may be answered: the state is the agreed one, as far as this replica knows.
    pub(crate) fn sound(&self) -> bool {
        !self.has_diverged() && !self.awaits_state()
    }

    /// Whether this replica's state is not the agreed one.
    pub(crate) fn has_diverged(&self) -> bool {
        self.divergence.at().is_some()
    }

    /// Whether there is no state to execute on until a transfer has ended.
    pub(crate) fn awaits_state(&self) -> bool {
        self.transfer.brings_the_state()
    }

    /// Whether a checkpoint is being fetched, or being made durable.
    pub(crate) fn transfers(&self) -> bool {
        self.transfer.is_on()
    }

    /// Since when a checkpoint is being fetched.
    pub(crate) fn fetches_since(&self) -> Option<Time> {
        self.transfer.since()
    }

    /// Whether this replica must order a border as soon as it may.
    pub(crate) fn wants_border(&self) -> bool {
        self.asking.is_wanted()
    }

    /// The replicas that have a durable checkpoint of this seq or later, as far as this one knows; it may be among them.
    pub(crate) fn holders(&self, seq: Seq) -> BTreeSet<ReplicaId> {
        let own = self.own.newest() >= seq && self.own.newest() > Seq::ZERO;
        let offers = self.agreement.offers(seq);
        offers.into_iter().flat_map(|offer| offer.holders).chain(own.then_some(self.config.me)).collect()
    }

    /// Whether this replica can say that the image of this seq has this digest: it has been there, and enough members agree on it.
    pub(crate) fn attests(&self, (seq, digest): (Seq, Digest)) -> Result<(), &'static str> {
        if self.has_diverged() || self.awaits_state() {
            return Err("its own state is not the agreed one: it is being repaired");
        }
        let Some(agreed) = self.agreement.agreed(seq) else {
            return Err(
                "it knows of no agreement on a checkpoint of this seq: there may be none yet, or it is too long ago",
            );
        };
        if agreed != digest {
            return Err("another digest is agreed on at this seq");
        }
        match self.agreement.own_report(seq) {
            Some(own) if own.digest == digest => Ok(()),
            Some(_) => Err("its own state at this seq has another digest"),
            None => {
                Err("it has not been at this seq itself, or not computed the digest yet: ask again later")
            }
        }
    }

    /// The digest that a quorum reported at this border, if one did.
    pub(crate) fn stable(&self, seq: Seq) -> Option<Digest> {
        self.agreement.agreed(seq).filter(|digest| self.agreement.is_stable(seq, *digest))
    }

    /// The digest of this replica's own state at this border, if it is known and not known to be wrong.
    pub(crate) fn own_digest(&self, seq: Seq) -> Option<Digest> {
        let own = self.agreement.own_report(seq).filter(|_| !self.has_diverged());
        own.map(|report| report.digest)
    }

    /// What this replica says of borders to who has not heard it: the seq, the digest, and whether it is in a durable file.
    pub(crate) fn reported(&self) -> impl Iterator<Item = (Seq, Digest, bool)> {
        self.agreement.own_reports().map(|(seq, report)| (seq, report.digest, report.held))
    }

    /// The replicas for which the log is held back.
    pub(crate) fn holds_back_for(&self) -> impl Iterator<Item = ReplicaId> {
        self.serving.held_for()
    }

    /// The segment of the log that is being read to find rot.
    pub(crate) fn scrubbing(&self) -> Option<u64> {
        self.scrubs.reading()
    }

    /// The highest segment of the log in which there is rot.
    pub(crate) fn rotten_segment(&self) -> Option<u64> {
        self.scrubs.rotten()
    }

    /// When to step with [`In::Deadline`], if nothing arrives first, or with [`In::ScrubInTurn`].
    pub(crate) fn deadline(&self) -> Option<Time> {
        [
            self.transfer.deadline(),
            self.serving.deadline(),
            self.rot.deadline(),
            self.ask_due(),
            self.scrubs.deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// What `status` shows.
    pub(crate) fn status(&self, now: Time) -> CheckpointStatus {
        let newest = self.own.newest();
        let digests = self.last.and_then(|(_, digests)| digests);
        let (scrubs, scrubbed_bytes) = self.rot.scrubs();
        CheckpointStatus {
            mode: self.config.mode.name(),
            last_seq: self.last.map_or(0, |(seq, _)| seq.number()),
            last_digest: digests.map(|digests| digests.image.to_string()),
            last_state_digest: digests.map(|digests| digests.state.to_string()),
            agreed_seq: self.agreement.newest().map_or(0, |(seq, _)| seq.number()),
            durable_seq: newest.number(),
            writing: self.own.writing().map(Seq::number),
            trimmed: self.trims.trimmed().number(),
            diverged: self.divergence.at().map(Seq::number),
            divergences: self.divergence.count(),
            transfer: self.transfer.status(now),
            rotten: self.rot.places(),
            repaired: self.rot.mended(),
            scrubs,
            scrubbed_bytes,
            sent_bytes: self.serving.sent(),
        }
    }

    /// Adds what is wrong, and what to do.
    pub(crate) fn problems(&self, problems: &mut Vec<String>) {
        self.divergence.problems(problems);
        self.transfer.problems(problems);
        problems.extend(self.trouble.clone());
        self.rot.problems(problems);
    }

    /// Panics with the name of a broken invariant. Scans everything.
    pub(crate) fn invariants(&self) {
        self.agreement.invariants();
        self.transfer.invariants();
    }
}

#[cfg(test)]
mod tests;
