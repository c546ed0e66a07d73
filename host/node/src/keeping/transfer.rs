//! A checkpoint on its way to this replica: it is fetched, then made durable, and only then execution goes on from it.
//!
//! INV-NODE-10: nothing is fetched while a fetched checkpoint is made durable. Tests: `transfer/tests.rs`.

use crate::recovered::Damaged;
use crate::status::TransferStatus;
use crate::system::System;
use quorate_state::checkpoint::{Digests, Image, SystemPart};
use quorate_state::store::{Store, Version};
use quorate_state::transfer::{Effect, Fetch, FetchLimits, Fetched, Input, Kept};
use quorate_types::{Digest, Halt, Seq, Span, Time, planted};

/// When to try again to write a fetched checkpoint.
const INSTALL_AGAIN: Span = Span::from_secs(2);

/// Why a checkpoint is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The other replicas' logs do not go back to what this replica lacks.
    Behind,
    /// The state differs from the agreed one.
    Diverged,
    /// The checkpoint on this disk is damaged, and the log alone does not give the state.
    Damaged,
    /// The log on this disk is damaged, and records that this replica acknowledged may be lost.
    Lost,
}

impl Why {
    /// The name in `status`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Behind => "behind",
            Self::Diverged => "diverged",
            Self::Damaged => "damaged",
            Self::Lost => "lost records",
        }
    }
}

/// A checkpoint that this replica needs.
pub(crate) struct Need {
    /// The lowest seq that will do.
    pub(crate) at_least: Seq,
    pub(crate) why: Why,
    /// Objects that are here already and are likely the same. If there are none, the service's present ones are used.
    pub(crate) local: Option<Version>,
    /// The state that this replica had at the border where it diverged.
    pub(crate) own: Option<Wrong>,
    /// When a leader said that its log does not go back to what this replica lacks.
    pub(crate) told: Option<Time>,
}

impl Need {
    /// The need for a checkpoint of this seq or later.
    pub(crate) fn new(at_least: Seq, why: Why) -> Self {
        Self { at_least, why, local: None, own: None, told: None }
    }
}

/// The state that a replica had at the border where it diverged.
pub(crate) struct Wrong {
    pub(crate) seq: Seq,
    pub(crate) objects: Version,
    /// The digest of the state there, if it is known.
    pub(crate) state: Option<Digest>,
}

/// A whole, verified checkpoint, which is not yet checked for whether this replica can go on from it.
pub(crate) struct Found {
    pub(crate) seq: Seq,
    pub(crate) border: u64,
    pub(crate) digests: Digests,
    /// Its system part.
    pub(crate) system: SystemPart,
    /// Its objects.
    pub(crate) store: Store,
    /// Why the checkpoint was fetched.
    pub(crate) why: Why,
    /// The state that this replica had at the border where it diverged.
    pub(crate) own: Option<Wrong>,
}

/// Why this replica can not go on from a fetched checkpoint.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// The checkpoint can not be used, for the reason in words.
    Unusable(&'static str),
    /// The checkpoint may lack something that this replica has acknowledged.
    TooEarly,
    /// This program is too old for the checkpoint.
    Stops(Halt),
}

/// A fetched checkpoint that is being made durable.
pub(crate) struct Installing {
    pub(crate) image: Image,
    pub(crate) system: System,
    pub(crate) digests: Digests,
    pub(crate) why: Why,
}

impl Installing {
    /// Whether it is of no use any more, since the log has brought this replica as far meanwhile. With a wrong state that does not count.
    fn is_late(&self, executed: Seq) -> bool {
        self.why == Why::Behind && executed >= self.image.seq && !planted("late-install")
    }
}

/// The fetch under way.
struct Fetching {
    /// When it began.
    since: Time,
    /// When a leader last said that its log does not go back to what this replica lacks.
    told: Option<Time>,
    fetch: Fetch,
    why: Why,
    /// The lowest seq that will do.
    at_least: Seq,
    /// The state that this replica had at the border where it diverged.
    own: Option<Wrong>,
}

/// The progress of a transfer.
#[derive(Default)]
pub(super) struct Transfer {
    fetching: Option<Fetching>,
    installing: Option<Installing>,
    /// When to try again to make the fetched checkpoint durable.
    install_at: Option<Time>,
    /// Parts of a transfer that an earlier run kept.
    partial: Vec<Kept>,
    /// A damaged checkpoint, until its repair begins.
    damaged: Option<Damaged>,
}

impl Transfer {
    /// Starts with what an earlier run has left.
    pub(super) fn new(partial: Vec<Kept>, damaged: Option<Damaged>) -> Self {
        Self { partial, damaged, ..Self::default() }
    }

    /// Takes the need of the checkpoint that was found damaged at the start.
    pub(super) fn damaged(&mut self) -> Option<Need> {
        let Damaged { seq, objects, .. } = self.damaged.take()?;
        Some(Need { local: Some(objects), ..Need::new(seq, Why::Damaged) })
    }

    /// Begins to fetch. Gives the parts that an earlier run kept.
    pub(super) fn begin(&mut self, now: Time, need: Need, limits: FetchLimits) -> Vec<Kept> {
        assert!(
            self.installing.is_none(),
            "INV-NODE-10: nothing is fetched while what was fetched is made durable"
        );
        let Need { at_least, why, local, own, told } = need;
        let local = local.unwrap_or_else(|| Store::new().version());
        let fetch = Fetch::new(now, at_least, local, limits);
        self.fetching = Some(Fetching { since: now, told, fetch, why, at_least, own });
        std::mem::take(&mut self.partial)
    }

    /// Gives an input to the fetch under way, if there is one.
    pub(super) fn step(&mut self, now: Time, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        if let Some(fetching) = &mut self.fetching {
            fetching.fetch.step(now, input, &mut effects);
        }
        effects
    }

    /// The lowest seq that will do, while a checkpoint is being fetched.
    pub(super) fn at_least(&self) -> Option<Seq> {
        self.fetching.as_ref().map(|fetching| fetching.at_least)
    }

    /// A leader said that its log does not go back far enough to bring this replica to `seq`. Whether an earlier checkpoint will do from
    /// now on: another leader's log may begin earlier, and the log of the leader before may be lost.
    pub(super) fn is_behind(&mut self, now: Time, seq: Seq) -> bool {
        let Some(fetching) = &mut self.fetching else { return false };
        fetching.told = Some(now);
        let earlier = fetching.why == Why::Behind && seq < fetching.at_least;
        if earlier {
            fetching.at_least = seq;
            fetching.fetch.takes_from(seq);
        }
        earlier
    }

    /// The checkpoint is fetched. It is dropped if its batches came in the log meanwhile.
    pub(super) fn fetched(&mut self, fetched: Fetched, executed: Seq) -> Option<Found> {
        let Fetching { why, own, .. } = self.fetching.take()?;
        let Fetched { manifest, system, store } = fetched;
        let (seq, border, digests) = (manifest.seq(), manifest.border(), manifest.digests());
        let late = why == Why::Behind && seq <= executed;
        (!late).then_some(Found { seq, border, digests, system, store, why, own })
    }

    /// Drops a fetch whose batches came in the log after all, from another leader. Whether it was dropped.
    ///
    /// With several instances (`many`) the seq of a record is unknown, so progress of execution does not prove that nothing is missing. But
    /// a leader repeats what it said: the fetch is over once none has said it for `long`.
    pub(super) fn drop_needless(&mut self, now: Time, executed: Seq, many: bool, long: Span) -> bool {
        let needless = |fetching: &mut Fetching| {
            let told = fetching.told.is_none_or(|told| now.since(told) > long);
            fetching.why == Why::Behind && executed >= fetching.at_least && (told || !many)
        };
        self.fetching.take_if(needless).is_some()
    }

    /// Drops the kept parts of a transfer that this run does not need, since the log has brought it to a border. Whether there were any.
    pub(super) fn drop_partial(&mut self) -> bool {
        let needless = !self.is_on() && !self.partial.is_empty();
        if needless {
            self.partial = Vec::new();
        }
        needless
    }

    /// Drops a fetched checkpoint if the log has brought this replica as far. To make it durable then would give up later checkpoints,
    /// after which the log may begin. Whether it was dropped.
    pub(super) fn drop_late(&mut self, executed: Seq) -> bool {
        let late = self.installing.take_if(|installing| installing.is_late(executed)).is_some();
        if late {
            self.install_at = None;
        }
        late
    }

    /// Holds the checkpoint that is to be made durable.
    pub(super) fn holds(&mut self, installing: Installing) {
        self.installing = Some(installing);
    }

    /// The checkpoint that is being made durable.
    pub(super) fn installing(&self) -> Option<&Installing> {
        self.installing.as_ref()
    }

    /// Whether the checkpoint of this seq is the fetched one.
    pub(super) fn is_installing(&self, seq: Seq) -> bool {
        self.installing.as_ref().is_some_and(|installing| installing.image.seq == seq)
    }

    /// The checkpoint is durable.
    pub(super) fn installed(&mut self) -> Option<Installing> {
        self.installing.take()
    }

    /// Drops it: the state that it was fetched for is wrong itself.
    pub(super) fn drop_installing(&mut self) {
        (self.installing, self.install_at) = (None, None);
    }

    /// The fetched checkpoint could not be made durable: there may be room later.
    pub(super) fn install_later(&mut self, now: Time) {
        if self.installing.is_some() {
            self.install_at = Some(now.plus(INSTALL_AGAIN));
        }
    }

    /// Whether it is time to try again.
    pub(super) fn installs_again(&mut self, now: Time) -> bool {
        self.install_at.take_if(|at| *at <= now).is_some()
    }

    /// Since when a checkpoint is being fetched.
    pub(super) fn since(&self) -> Option<Time> {
        self.fetching.as_ref().map(|fetching| fetching.since)
    }

    /// Whether a checkpoint is being fetched or made durable.
    pub(super) fn is_on(&self) -> bool {
        self.why().is_some()
    }

    /// Whether there is no state to execute on until the transfer has ended.
    pub(super) fn brings_the_state(&self) -> bool {
        matches!(self.why(), Some(Why::Damaged | Why::Lost))
    }

    fn why(&self) -> Option<Why> {
        let fetching = self.fetching.as_ref().map(|fetching| fetching.why);
        fetching.or(self.installing.as_ref().map(|installing| installing.why))
    }

    /// When there is something to do, if nothing arrives first.
    pub(super) fn deadline(&self) -> Option<Time> {
        let fetch = self.fetching.as_ref().and_then(|fetching| fetching.fetch.deadline());
        [fetch, self.install_at].into_iter().flatten().min()
    }

    /// Panics with the name of a broken invariant.
    pub(super) fn invariants(&self) {
        if let Some(Fetching { fetch, .. }) = &self.fetching {
            assert!(
                self.installing.is_none(),
                "INV-NODE-10: nothing is fetched while what was fetched is made durable"
            );
            fetch.invariants();
        }
    }

    /// Adds what is wrong, and what to do.
    pub(super) fn problems(&self, problems: &mut Vec<String>) {
        let text = match self.why() {
            Some(Why::Lost) => {
                "records in the log on this disk are damaged: a checkpoint that holds what this replica may have acknowledged is fetched \
                 from the other replicas, and this one takes no part until then. Look after the disk"
            }
            Some(Why::Damaged) => {
                "the newest checkpoint on this disk is damaged: what lacks is fetched from the other replicas, and this one takes no \
                 part until then"
            }
            Some(Why::Behind | Why::Diverged) | None => return,
        };
        problems.push(text.into());
    }

    /// What `status` shows.
    pub(super) fn status(&self, now: Time) -> Option<TransferStatus> {
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
}

#[cfg(test)]
mod tests;
