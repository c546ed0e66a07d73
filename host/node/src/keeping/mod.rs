//! What a replica knows of checkpoints: its own, what the members agree on, what it fetches, what it sends, and how far the log may
//! be trimmed. What is done with all that stands in `state.rs`.
//!
//! INV-NODE-6: the log is trimmed only up to a checkpoint that is durable here, and never up to the newest one: with the one before it
//! and the log since, a rotten newest checkpoint costs time and no data.
//! INV-NODE-7: what a replica fetched is durable before ordering goes on from it.
//! INV-NODE-9: while the state is sound, no checkpoint is given up for an earlier one, after which the log may not begin any more.

pub(crate) mod borders;
pub(crate) mod holds;
pub(crate) mod repairs;
pub(crate) mod rot;
pub(crate) mod scrubs;

use crate::config::NodeConfig;
use crate::keeping::borders::{Borders, CheckpointMode};
use crate::keeping::holds::Holds;
use crate::keeping::repairs::Repairs;
use crate::keeping::rot::Rotten;
use crate::state::none_agree;
use crate::status::{CheckpointStatus, TransferStatus};
use crate::system::System;
use quorate_state::agreement::Agreement;
use quorate_state::checkpoint::Image;
use quorate_state::store::Version;
use quorate_state::transfer::{Fetch, Serve};
use quorate_types::{ConnId, Digest, MembershipId, RecordId, ReplicaId, Seq, Slot, Time, planted};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Versions at borders that are not agreed yet are kept up to this many: a replica that has diverged compares them.
const RECENT_MAX: usize = 2;
/// So many operators at once may fetch checkpoints.
const OPERATORS_MAX: usize = 16;

/// A checkpoint of this replica that is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Own {
    pub(crate) seq: Seq,
    pub(crate) digest: Digest,
    /// Where the log stood when it was written: what lies before is older.
    pub(crate) log_position: u64,
}

/// Why a checkpoint is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The others do not have the log any more that this replica lacks.
    Behind,
    /// The state differs from what the members agree on.
    Diverged,
    /// The checkpoint on this disk is damaged, and the log alone does not give the state.
    Damaged,
    /// The log on this disk is damaged, and what this replica acknowledged may be among what is lost.
    Lost,
}

impl Why {
    /// What `status` calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Behind => "behind",
            Self::Diverged => "diverged",
            Self::Damaged => "damaged",
            Self::Lost => "lost records",
        }
    }
}

/// A transfer to this replica.
pub(crate) struct Fetching {
    /// When it began.
    pub(crate) since: Time,
    /// When a leader said last that it does not have the log any more that this replica lacks.
    pub(crate) told: Option<Time>,
    pub(crate) fetch: Fetch,
    pub(crate) why: Why,
    /// The checkpoint must reach this seq at least.
    pub(crate) at_least: Seq,
    /// What this replica had at the border where it diverged.
    pub(crate) own: Option<Version>,
}

/// A checkpoint that was fetched and is being made durable.
pub(crate) struct Installing {
    pub(crate) image: Image,
    pub(crate) system: System,
    pub(crate) digest: Digest,
    pub(crate) why: Why,
}

impl Installing {
    /// Whether it is of no use any more, since the log brought this replica as far meanwhile. Of a wrong state that says nothing.
    fn is_late(&self, executed: Seq) -> bool {
        self.why == Why::Behind && executed >= self.image.seq && !planted("late-install")
    }
}

/// This replica's state is not what the members agree on.
#[derive(Clone, Debug)]
pub(crate) struct Diverged {
    pub(crate) seq: Seq,
    pub(crate) own: Digest,
    pub(crate) agreed: Digest,
}

/// Trimming under way: the records that say again what old ones said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trimming {
    /// The first of the node's own records that were written again.
    pub(crate) lives: Option<RecordId>,
    /// All of them.
    pub(crate) lives_end: RecordId,
}

/// Everything about checkpoints that a node keeps.
pub(crate) struct Checkpoints {
    pub(crate) borders: Borders,
    pub(crate) agreement: Agreement,
    pub(crate) fetching: Option<Fetching>,
    pub(crate) installing: Option<Installing>,
    /// When to try again to make durable what was fetched.
    pub(crate) install_at: Option<Time>,
    pub(crate) serve: Serve,
    pub(crate) repairs: Repairs,
    pub(crate) holds: Holds,
    /// Oldest first.
    pub(crate) own: VecDeque<Own>,
    recent: BTreeMap<Seq, Version>,
    pub(crate) diverged: Option<Diverged>,
    /// The border at which nobody agreed.
    pub(crate) none_agree: Option<(Seq, Vec<(ReplicaId, Digest)>)>,
    /// A checkpoint could not be written, in words; until one can.
    pub(crate) trouble: Option<String>,
    /// Rot that was found and is not mended.
    pub(crate) rotten: Rotten,
    /// The checkpoint that this replica's state came from, at the start or by a transfer.
    pub(crate) base: Seq,
    /// The log was trimmed up to this checkpoint, or needs not be.
    pub(crate) trimmed: Seq,
    /// The log begins after this checkpoint.
    pub(crate) gone: Seq,
    /// The last record of each instance that a checkpoint here holds, where that is known.
    pub(crate) records: BTreeMap<Seq, Vec<Slot>>,
    /// Files of checkpoints before this one were given up.
    pub(crate) forgotten: Seq,
    pub(crate) trimming: Option<Trimming>,
    /// The keeper was told to give up its checkpoints above these seqs, and did not say yet that it did.
    pub(crate) giving_up: VecDeque<Seq>,
    /// The borders that this replica's keeper is to write, or works at: their seqs. It skips those that come while it writes.
    pub(crate) writing: BTreeSet<Seq>,
    /// What was stable at those borders, and at those of the durable ones: a slow disk writes while many borders come, and what the members
    /// say is known of the newest only.
    stable: BTreeMap<Seq, Digest>,
    /// The last border executed here, and its digest once it is known.
    pub(crate) last: Option<(Seq, Option<Digest>)>,
    /// Somebody needs a border, and when one was asked for last.
    pub(crate) wanted: bool,
    pub(crate) asked_at: Option<Time>,
    /// Operators who make backups, by the numbers under which they are served.
    pub(crate) operators: BTreeMap<ReplicaId, ConnId>,
    /// Repaired since the start.
    pub(crate) repaired: u64,
    /// Scrubs that ended since the start.
    pub(crate) scrubs: u64,
    /// What the last scrub read, and when it ended.
    pub(crate) scrubbed: Option<(u64, Time)>,
}

impl Checkpoints {
    pub(crate) fn new(config: &NodeConfig) -> Self {
        let me = config.members.me();
        let ids: Vec<ReplicaId> = config.members.all().iter().map(|member| member.replica).collect();
        let place = ids.iter().filter(|id| **id < me).count();
        let mut agreement = Agreement::new(me, &ids, config.order.faults());
        if config.members.number() > MembershipId::FIRST {
            // Who joins later begins with a list of those who may have a checkpoint for it.
            let others: Vec<ReplicaId> = ids.iter().copied().filter(|id| *id != me).collect();
            let nothing = agreement.set_members(&others, &[me]);
            debug_assert!(nothing.is_empty(), "nothing was heard yet");
        }
        Self {
            borders: Borders::new(config.borders, config.members.created(), place, config.start_time),
            agreement,
            fetching: None,
            installing: None,
            install_at: None,
            serve: Serve::new(config.serve.clone()),
            repairs: Repairs::default(),
            holds: Holds::default(),
            own: VecDeque::new(),
            recent: BTreeMap::new(),
            diverged: None,
            none_agree: None,
            trouble: None,
            rotten: Rotten::default(),
            base: Seq::ZERO,
            trimmed: Seq::ZERO,
            gone: Seq::ZERO,
            records: BTreeMap::new(),
            forgotten: Seq::ZERO,
            trimming: None,
            giving_up: VecDeque::new(),
            writing: BTreeSet::new(),
            stable: BTreeMap::new(),
            last: None,
            wanted: false,
            asked_at: None,
            operators: BTreeMap::new(),
            repaired: 0,
            scrubs: 0,
            scrubbed: None,
        }
    }

    /// The number under which an operator is served: no member's.
    pub(crate) fn operator(
        &mut self,
        conn: ConnId,
        is_member: impl Fn(ReplicaId) -> bool,
    ) -> Option<ReplicaId> {
        if let Some((number, _)) = self.operators.iter().find(|(_, of)| **of == conn) {
            return Some(*number);
        }
        let free = free_number(&self.operators, is_member)?;
        self.operators.insert(free, conn);
        Some(free)
    }

    /// Keeps the version at a border until its digest is agreed on. Gives back one that is kept no longer.
    pub(crate) fn remember(&mut self, seq: Seq, version: Version) -> Option<Version> {
        self.recent.insert(seq, version);
        if self.recent.len() <= RECENT_MAX { None } else { self.recent.pop_first().map(|(_, old)| old) }
    }

    /// The version at a border, if it is still here.
    pub(crate) fn version_at(&self, seq: Seq) -> Option<Version> {
        self.recent.get(&seq).cloned()
    }

    /// Versions up to an agreed border are not needed any more.
    pub(crate) fn forget_recent(&mut self, up_to: Seq) -> Vec<Version> {
        let later = self.recent.split_off(&up_to.next());
        std::mem::replace(&mut self.recent, later).into_values().collect()
    }

    /// Versions above a seq, which another state took the place of.
    pub(crate) fn forget_recent_from(&mut self, from: Seq) -> Vec<Version> {
        self.recent.split_off(&from).into_values().collect()
    }

    /// What was fetched goes where the log brought this replica as far: to make it durable then would give up later checkpoints, after
    /// which the log may begin. Whether something went.
    pub(crate) fn drop_late(&mut self, executed: Seq) -> bool {
        let late = self.installing.take_if(|installing| installing.is_late(executed)).is_some();
        if late {
            self.install_at = None;
        }
        late
    }

    /// What is to be made durable in the place of all later checkpoints.
    pub(crate) fn next_install(&mut self) -> Option<Image> {
        let Installing { image, why, .. } = self.installing.as_ref()?;
        let newest = self.own.back().map_or(Seq::ZERO, |own| own.seq);
        assert!(
            *why == Why::Diverged || image.seq > newest,
            "INV-NODE-9: the checkpoint of {newest} is not given up for that of {}",
            image.seq
        );
        self.giving_up.push_back(image.seq);
        Some(image.clone())
    }

    /// A checkpoint of this replica became durable.
    pub(crate) fn written(&mut self, own: Own) {
        self.own.retain(|other| other.seq < own.seq);
        self.own.push_back(own);
    }

    /// After a start, which checkpoints others may have on this replica's word: what they need in the place of the log that was given up,
    /// `trimmed`, and `asleep`, the one in which instances fell asleep. The checkpoint before the oldest one here went for that one, which
    /// was agreed on then. A log that ended before the newest checkpoint begins after it now ([`Self::gone`]), and nobody needs that one: what
    /// this replica did not write down before it was executed, enough others did.
    pub(crate) fn stand_for(&mut self, trimmed: Seq, asleep: Option<Seq>) {
        let oldest = self.own.front().filter(|_| self.gone > Seq::ZERO).map(|own| own.seq);
        let upto = [Some(trimmed), asleep, oldest].into_iter().flatten().max();
        self.agreement.vouch(upto.unwrap_or_default());
    }

    /// A member said what it has. What is stable stays so.
    pub(crate) fn note_stable(&mut self) {
        let kept: Vec<Seq> = self.own.iter().map(|own| own.seq).chain(self.writing.iter().copied()).collect();
        self.stable.retain(|seq, _| kept.contains(seq));
        for seq in kept {
            if let Some(digest) =
                self.agreement.agreed(seq).filter(|digest| self.agreement.is_stable(seq, *digest))
            {
                self.stable.insert(seq, digest);
            }
        }
    }

    /// The first of them that the members agree on, as far as this replica knows. One that differs from what is agreed is of no use, and
    /// those before it may be all that there is to start from.
    fn vouched<'a>(&self, mut newest_first: impl Iterator<Item = &'a Own>) -> Option<Own> {
        let agreement = &self.agreement;
        if !agreement.trusts_one() {
            // Only what others can agree on without this replica; or could, if there is a later one for whoever is behind.
            let held = |own: &Own| agreement.own_report(own.seq).is_some_and(|said| said.held);
            let offers = self.own.iter().any(|own| held(own) && agreement.is_stable(own.seq, own.digest));
            let was = |own: &Own| offers && self.stable.get(&own.seq) == Some(&own.digest);
            return newest_first.find(|own| agreement.is_stable(own.seq, own.digest) || was(own)).copied();
        }
        let (agreed, _) = agreement.newest()?;
        let sound = |own: &&Own| agreement.agreed(own.seq).is_none_or(|digest| digest == own.digest);
        newest_first.find(|own| own.seq <= agreed && sound(own)).copied()
    }

    /// The checkpoint up to which the log may be trimmed: never the newest, and an agreed one, unless the log since the last
    /// agreed one is too long.
    ///
    /// With a damaged log the newest one counts, too: what lies before it is of no use. `log`: where the log begins and ends.
    pub(crate) fn trim_to(&self, log: (u64, u64), log_bytes_max: u64, damaged: bool) -> Option<Own> {
        let newest = self.own.back()?.seq;
        let older = |own: &&Own| damaged || own.seq < newest;
        let vouched = self.vouched(self.own.iter().rev().filter(older));
        // In bytes the log may not grow without end, agreed or not: with crash faults a replica may trust its own disk. With Byzantine faults
        // nobody could be told to trust it, too, and the disk fills up instead.
        if !self.agreement.trusts_one() {
            return vouched;
        }
        let kept_since = vouched.map_or(0, |own| own.log_position).max(log.0);
        if log.1.saturating_sub(kept_since) > log_bytes_max {
            return self.own.iter().rev().find(older).copied().or(vouched);
        }
        vouched
    }

    /// What a replica that diverged at this border gives up: its checkpoints above the result. Where its log begins only after the slot
    /// of a checkpoint, not all: if it stopped before the repair is durable, it would have a log that nothing leads to. It starts again
    /// from what it has, hears once more that it has diverged, and is repaired then.
    pub(crate) fn diverged_above(&self, seq: Seq) -> Seq {
        if self.gone == Seq::ZERO {
            return seq.previous();
        }
        let least = self.own.iter().map(|own| own.seq).find(|own| *own >= self.gone);
        seq.previous().max(least.unwrap_or(self.gone))
    }

    /// Whether what the keeper says of a checkpoint crossed the word that it goes.
    pub(crate) fn gives_up(&self, seq: Seq) -> bool {
        self.giving_up.iter().any(|above| seq > *above)
    }

    /// Whether reads may be answered: the state is what the members agree on, as far as this replica knows.
    pub(crate) fn sound(&self) -> bool {
        self.diverged.is_none() && !self.awaits_state()
    }

    /// There is no state to execute on until a transfer has ended.
    pub(crate) fn awaits_state(&self) -> bool {
        matches!(self.transferred_for(), Some(Why::Damaged | Why::Lost))
    }

    /// One is fetched, or made durable.
    pub(crate) fn transfers(&self) -> bool {
        self.transferred_for().is_some()
    }

    fn transferred_for(&self) -> Option<Why> {
        let fetching = self.fetching.as_ref().map(|fetching| fetching.why);
        fetching.or(self.installing.as_ref().map(|installing| installing.why))
    }

    /// What `status` shows.
    pub(crate) fn status(&self, now: Time, mode: CheckpointMode) -> CheckpointStatus {
        CheckpointStatus {
            mode: mode.name(),
            last_seq: self.last.map_or(0, |(seq, _)| seq.number()),
            last_digest: self.last.and_then(|(_, digest)| Some(digest?.to_string())),
            agreed_seq: self.agreement.newest().map_or(0, |(seq, _)| seq.number()),
            durable_seq: self.own.back().map_or(0, |own| own.seq.number()),
            writing: self.writing.first().map(|seq| seq.number()),
            trimmed: self.trimmed.number(),
            diverged: self.diverged.as_ref().map(|diverged| diverged.seq.number()),
            transfer: self.transfer(now),
            rotten: self.rotten.len(),
            repaired: self.repaired,
            scrubs: self.scrubs,
            scrubbed_bytes: self.scrubbed.map(|(bytes, _)| bytes),
            sent_bytes: self.serve.sent(),
        }
    }

    fn transfer(&self, now: Time) -> Option<TransferStatus> {
        if let Some(Installing { image, why, .. }) = &self.installing {
            let (seq, bytes) = (Some(image.seq.number()), image.objects.bytes());
            return Some(TransferStatus {
                why: why.name(),
                seq,
                bytes_done: bytes,
                bytes_total: bytes,
                chunks_done: 0,
                chunks_total: 0,
                sources: Vec::new(),
                bytes_per_second: 0,
                installing: true,
            });
        }
        let Fetching { fetch, why, .. } = self.fetching.as_ref()?;
        let progress = fetch.progress();
        Some(TransferStatus {
            why: why.name(),
            seq: progress.target.map(|(seq, _)| seq.number()),
            bytes_done: progress.bytes_done,
            bytes_total: progress.bytes_total,
            chunks_done: progress.chunks_done,
            chunks_total: progress.chunks_total,
            sources: progress.sources.iter().map(|source| source.number()).collect(),
            bytes_per_second: progress.rate(now),
            installing: false,
        })
    }

    /// What is wrong, with what to do.
    pub(crate) fn problems(&self, problems: &mut Vec<String>) {
        if let Some(Diverged { seq, own, agreed }) = &self.diverged {
            problems.push(format!(
                "the state of this replica at seq {seq} has digest {own:?}, the others agree on {agreed:?}: it is being repaired from \
                 them and answers no reads until then. Keep its log file: it names the keys that differed"
            ));
        }
        if let Some((seq, digests)) = &self.none_agree {
            problems.push(none_agree(*seq, digests));
        }
        if self.transferred_for() == Some(Why::Lost) {
            problems.push(
                "records in the log on this disk are damaged: a checkpoint that holds what this replica may have acknowledged is fetched \
                 from the other replicas, and this one takes no part until then. Look after the disk"
                    .into(),
            );
        }
        if self.transferred_for() == Some(Why::Damaged) {
            problems.push(
                "the newest checkpoint on this disk is damaged: what lacks is fetched from the other replicas, and this one takes no \
                 part until then"
                    .into(),
            );
        }
        problems.extend(self.trouble.clone());
        if self.rotten.len() > 0 {
            problems.push(format!(
                "{} places in the checkpoints on this disk are damaged and not mended yet: they are fetched from the other replicas. \
                 Look after the disk",
                self.rotten.len()
            ));
        }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        let fetch = self.fetching.as_ref().and_then(|fetching| fetching.fetch.deadline());
        [fetch, self.serve.deadline(), self.repairs.deadline(), self.install_at].into_iter().flatten().min()
    }
}

/// A number that is neither a member's nor an operator's, unless there are too many operators.
fn free_number(
    operators: &BTreeMap<ReplicaId, ConnId>,
    is_member: impl Fn(ReplicaId) -> bool,
) -> Option<ReplicaId> {
    let free = |number: &ReplicaId| !operators.contains_key(number) && !is_member(*number);
    if operators.len() < OPERATORS_MAX { (1..u16::MAX).rev().map(ReplicaId::new).find(free) } else { None }
}

#[cfg(test)]
mod tests;
