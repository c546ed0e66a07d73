//! A checkpoint on its way to this replica: first it is fetched, then made durable, and only then execution goes on from it.
//!
//! INV-NODE-10: nothing is fetched while what was fetched is made durable. Tests: `transfer/tests.rs`.

use crate::recovered::Damaged;
use crate::status::TransferStatus;
use crate::system::System;
use quorate_state::checkpoint::{Digests, Image, SystemPart};
use quorate_state::store::{Store, Version};
use quorate_state::transfer::{Effect, Fetch, FetchLimits, Fetched, Input, Kept};
use quorate_types::{Digest, Halt, Seq, Span, Time, planted};

/// When to try again to write a checkpoint that was fetched.
const INSTALL_AGAIN: Span = Span::from_secs(2);

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

/// A checkpoint that this replica needs.
pub(crate) struct Need {
    /// It must reach this seq at least.
    pub(crate) at_least: Seq,
    pub(crate) why: Why,
    /// What is here already and likely the same. Without it, what the service has now.
    pub(crate) local: Option<Version>,
    /// What this replica had at the border where it diverged.
    pub(crate) own: Option<Wrong>,
    /// When a leader said that it does not have the log any more that this replica lacks.
    pub(crate) told: Option<Time>,
}

impl Need {
    /// A checkpoint of this seq or later.
    pub(crate) fn new(at_least: Seq, why: Why) -> Self {
        Self { at_least, why, local: None, own: None, told: None }
    }
}

/// What a replica had at the border where it diverged.
pub(crate) struct Wrong {
    pub(crate) seq: Seq,
    pub(crate) objects: Version,
    /// What stands for the state there, if that is known.
    pub(crate) state: Option<Digest>,
}

/// A whole, verified checkpoint. Nobody looked yet whether this replica can go on from it.
pub(crate) struct Found {
    pub(crate) seq: Seq,
    pub(crate) border: u64,
    pub(crate) digests: Digests,
    /// Its system part.
    pub(crate) system: SystemPart,
    /// Its objects.
    pub(crate) store: Store,
    /// Why it was fetched.
    pub(crate) why: Why,
    /// What this replica had at the border where it diverged.
    pub(crate) own: Option<Wrong>,
}

/// Why this replica does not go on from a checkpoint that was fetched.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// It can not be used, in words.
    Unusable(&'static str),
    /// It does not hold all that this replica may have acknowledged.
    TooEarly,
    /// This program is too old for it.
    Stops(Halt),
}

/// A checkpoint that was fetched and is being made durable.
pub(crate) struct Installing {
    pub(crate) image: Image,
    pub(crate) system: System,
    pub(crate) digests: Digests,
    pub(crate) why: Why,
}

impl Installing {
    /// Whether it is of no use any more, since the log brought this replica as far meanwhile. Of a wrong state that says nothing.
    fn is_late(&self, executed: Seq) -> bool {
        self.why == Why::Behind && executed >= self.image.seq && !planted("late-install")
    }
}

/// What is being fetched.
struct Fetching {
    /// When it began.
    since: Time,
    /// When a leader said last that it does not have the log any more that this replica lacks.
    told: Option<Time>,
    fetch: Fetch,
    why: Why,
    /// The checkpoint must reach this seq at least.
    at_least: Seq,
    /// What this replica had at the border where it diverged.
    own: Option<Wrong>,
}

/// How far that is.
#[derive(Default)]
pub(super) struct Transfer {
    fetching: Option<Fetching>,
    installing: Option<Installing>,
    /// When to try again to make durable what was fetched.
    install_at: Option<Time>,
    /// Parts of a transfer that an earlier run kept.
    partial: Vec<Kept>,
    /// A damaged checkpoint, until its repair begins.
    damaged: Option<Damaged>,
}

impl Transfer {
    /// As an earlier run left it.
    pub(super) fn new(partial: Vec<Kept>, damaged: Option<Damaged>) -> Self {
        Self { partial, damaged, ..Self::default() }
    }

    /// What the checkpoint needs that was found damaged at the start; once.
    pub(super) fn damaged(&mut self) -> Option<Need> {
        let Damaged { seq, objects, .. } = self.damaged.take()?;
        Some(Need { local: Some(objects), ..Need::new(seq, Why::Damaged) })
    }

    /// Begins to fetch. Gives what an earlier run kept of a transfer.
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

    /// Something happened that a fetch reacts to, if there is one.
    pub(super) fn step(&mut self, now: Time, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        if let Some(fetching) = &mut self.fetching {
            fetching.fetch.step(now, input, &mut effects);
        }
        effects
    }

    /// From which seq on a checkpoint would do, while one is fetched.
    pub(super) fn at_least(&self) -> Option<Seq> {
        self.fetching.as_ref().map(|fetching| fetching.at_least)
    }

    /// A leader said that it does not have the log any more from which this replica would come to `seq`. Whether an earlier
    /// checkpoint does from now on: another leader's log may begin earlier, and what the one before had may be lost.
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

    /// It is fetched. What came by in the log meanwhile is of no use any more.
    pub(super) fn fetched(&mut self, fetched: Fetched, executed: Seq) -> Option<Found> {
        let Fetching { why, own, .. } = self.fetching.take()?;
        let Fetched { manifest, system, store } = fetched;
        let (seq, border, digests) = (manifest.seq(), manifest.border(), manifest.digests());
        let late = why == Why::Behind && seq <= executed;
        (!late).then_some(Found { seq, border, digests, system, store, why, own })
    }

    /// What this replica lacked came by in the log after all, from another leader. Whether something is not fetched any more.
    ///
    /// Of many instances nobody knows which seq a record has, so that something was executed does not mean that nothing is lacking. But a
    /// leader says so again and again: it is over once none did for `long`.
    pub(super) fn drop_needless(&mut self, now: Time, executed: Seq, many: bool, long: Span) -> bool {
        let needless = |fetching: &mut Fetching| {
            let told = fetching.told.is_none_or(|told| now.since(told) > long);
            fetching.why == Why::Behind && executed >= fetching.at_least && (told || !many)
        };
        self.fetching.take_if(needless).is_some()
    }

    /// An earlier run kept parts of a transfer that this one, which has come to a border by the log, does not need. Whether it did.
    pub(super) fn drop_partial(&mut self) -> bool {
        let needless = !self.is_on() && !self.partial.is_empty();
        if needless {
            self.partial = Vec::new();
        }
        needless
    }

    /// What was fetched goes where the log brought this replica as far: to make it durable then would give up later checkpoints, after
    /// which the log may begin. Whether something went.
    pub(super) fn drop_late(&mut self, executed: Seq) -> bool {
        let late = self.installing.take_if(|installing| installing.is_late(executed)).is_some();
        if late {
            self.install_at = None;
        }
        late
    }

    /// It is to be made durable.
    pub(super) fn holds(&mut self, installing: Installing) {
        self.installing = Some(installing);
    }

    /// What is to be made durable.
    pub(super) fn installing(&self) -> Option<&Installing> {
        self.installing.as_ref()
    }

    /// Whether the checkpoint of this seq is the one that was fetched.
    pub(super) fn is_installing(&self, seq: Seq) -> bool {
        self.installing.as_ref().is_some_and(|installing| installing.image.seq == seq)
    }

    /// It is durable.
    pub(super) fn installed(&mut self) -> Option<Installing> {
        self.installing.take()
    }

    /// It is of no use: the state that it was for is wrong itself.
    pub(super) fn drop_installing(&mut self) {
        (self.installing, self.install_at) = (None, None);
    }

    /// What was fetched could not be made durable: there may be room later.
    pub(super) fn install_later(&mut self, now: Time) {
        if self.installing.is_some() {
            self.install_at = Some(now.plus(INSTALL_AGAIN));
        }
    }

    /// Whether it is time to try that again.
    pub(super) fn installs_again(&mut self, now: Time) -> bool {
        self.install_at.take_if(|at| *at <= now).is_some()
    }

    /// Since when something is fetched.
    pub(super) fn since(&self) -> Option<Time> {
        self.fetching.as_ref().map(|fetching| fetching.since)
    }

    /// Whether something is fetched, or made durable.
    pub(super) fn is_on(&self) -> bool {
        self.why().is_some()
    }

    /// Whether there is no state to execute on until it has ended.
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

    /// Panics with the name of an invariant that does not hold.
    pub(super) fn invariants(&self) {
        if let Some(Fetching { fetch, .. }) = &self.fetching {
            assert!(
                self.installing.is_none(),
                "INV-NODE-10: nothing is fetched while what was fetched is made durable"
            );
            fetch.invariants();
        }
    }

    /// What is wrong, with what to do.
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
