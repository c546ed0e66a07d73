//! Borders: the seqs at which all replicas capture the state. They follow from the log alone, so that checkpoints of different replicas can
//! be compared byte by byte (000, section 5.2).
//!
//! A border comes when the batches since the last border have filled the interval. A batch may ask for one earlier
//! ([`quorate_wire::BatchHeader::border`]), which then comes at once. Where little is written it comes by agreed time, too
//! ([`BorderConfig::every`]): so replicas whose states differ find that out soon, and a restart executes little. It waits until a part of the
//! state's bytes was written, so that a large state is not written again and again for a few commands.
//!
//! Where replicas may lie, it comes when a share of the interval is over: the interval divided by the number of members, where agreed time
//! counts as if bytes were written in it. So a leader that asks with each batch costs only a bounded part of the replicas' work, and a
//! leader that asks in an idle cluster waits a few seconds at most (decision 0029). A request that comes too early is not forgotten:
//! execution remembers it until the share is over.
//!
//! Capturing begins a part of the interval before the border, so that at the border it only has to be completed.
//!
//! A checkpoint costs by the size of the state, and the commands of one interval pay for it. So the interval follows the size of the state
//! at the last border ([`BorderConfig::state_percent`]): the cost of each command is bounded, however large the state grows.
//!
//! INV-BORDER-1: borders depend on the executed batches and nothing else. Tests: `borders/tests.rs`.

use quorate_types::{AgreedTime, Span, planted};

/// How checkpoints are made. All replicas of a cluster must agree on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointMode {
    /// Execution stops while the whole state is written: the usual way, for comparison.
    StopAndCopy,
    /// As stop-and-copy, but each replica writes at its own border, while all compute the digest at every border (Dura-SMaRt, 003).
    Staggered,
    /// The whole state is captured while execution goes on.
    Full,
    /// What differs from the border before is captured, and now and then the whole state.
    Differential,
}

impl CheckpointMode {
    /// The name in the configuration and in `status`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::StopAndCopy => "stop-and-copy",
            Self::Staggered => "staggered",
            Self::Full => "full",
            Self::Differential => "differential",
        }
    }
}

/// When borders come, and what is written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BorderConfig {
    /// How checkpoints are made.
    pub mode: CheckpointMode,
    /// The least bytes of batches between two borders. A batch counts a sector more than its bytes, as its record does.
    pub interval_bytes: u64,
    /// If it is more, the interval is this part, in percent, of the bytes of the state at the last border.
    pub state_percent: u64,
    /// The largest interval; the smallest is `interval_bytes`.
    pub interval_bytes_max: u64,
    /// Capturing begins this part of the interval before the border, in percent.
    pub ahead_percent: u64,
    /// With differences, the whole state is written at one border of this many.
    pub full_every: u64,
    /// A border comes with the first batch at which so much agreed time is over since the last one, if enough was written; `None`: by bytes only.
    pub every: Option<Span>,
}

/// The bytes that each batch counts beside its own.
const BATCH_COST: u64 = 512;

/// After a request for a border, each second of agreed time counts as this many bytes: an idle cluster may need a border, too.
const SECOND_BYTES: u64 = 8 << 20;

/// A border comes by time only if one part in so many of the state's bytes was written. With differences and [`BorderConfig::full_every`] of 8,
/// at most 50 / 8 bytes of full checkpoints are then written for each byte of the log.
const STATE_PARTS: u64 = 50;

/// The facts about an executed batch that count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Executed {
    /// Its size.
    pub(crate) bytes: u64,
    /// Whether it asks for a border.
    pub(crate) asks: bool,
    /// Whether requests for borders are limited: where replicas may lie.
    pub(crate) bounded: bool,
    /// The agreed time after it.
    pub(crate) time: AgreedTime,
    /// Whether a border may come here: the state at the one before is an image already. Where results are verified, batches lie between.
    pub(crate) settled: bool,
}

/// What must be done after a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// Begin to capture for the border with this number.
    Ahead(u64),
    /// The border with this number is reached.
    Border(u64),
}

/// What a replica writes at a border.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Writing {
    /// The whole state, or only what differs.
    pub(crate) full: bool,
    /// Whether execution waits until it is written.
    pub(crate) stops: bool,
}

/// Counts batches up to the next border.
#[derive(Clone, Debug)]
pub(crate) struct Borders {
    config: BorderConfig,
    members: u64,
    /// The position of this replica among the members, from 0.
    place: u64,
    /// The number of the last border.
    pub(crate) number: u64,
    /// Bytes since the last border.
    since: u64,
    /// The bytes of the state at the last border.
    state_bytes: u64,
    begun: bool,
    /// The agreed time of the last border.
    at: AgreedTime,
    /// Whether a border was asked for too early, and is still due.
    owed: bool,
}

impl Borders {
    /// The first interval begins at the agreed time `at`.
    pub(crate) fn new(config: BorderConfig, members: usize, place: usize, at: AgreedTime) -> Self {
        let (members, place) = (members.max(1) as u64, place as u64);
        Self { config, members, place, number: 0, since: 0, state_bytes: 0, begun: false, at, owed: false }
    }

    /// Sets the number of members, and this replica's position among them.
    pub(crate) fn set_members(&mut self, members: usize, place: usize) {
        (self.members, self.place) = (members.max(1) as u64, place as u64);
    }

    /// Goes on after the border with this number, with its agreed time and the bytes of the state there.
    pub(crate) fn resume(&mut self, number: u64, at: AgreedTime, state_bytes: u64) {
        self.begin(number, at);
        self.state_bytes = state_bytes;
    }

    fn begin(&mut self, number: u64, at: AgreedTime) {
        (self.number, self.at) = (number, at);
        (self.since, self.begun, self.owed) = (0, false, false);
    }

    /// Sets the bytes of the state at the border that was just reached.
    pub(crate) fn measured(&mut self, state_bytes: u64) {
        self.state_bytes = state_bytes;
    }

    /// The bytes in which each replica writes once.
    fn whole(&self) -> u64 {
        let wanted = u128::from(self.state_bytes) * u128::from(self.config.state_percent) / 100;
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX).min(self.config.interval_bytes_max);
        wanted.max(self.config.interval_bytes)
    }

    /// The least bytes between two borders, however often one is asked for.
    fn share(&self) -> u64 {
        (self.whole() / self.members).max(1)
    }

    /// The bytes from the last border to the next.
    fn interval(&self) -> u64 {
        // If every replica writes at its own border, there are as many borders as members in the time in which each writes once.
        match self.config.mode {
            CheckpointMode::Staggered => self.share(),
            _ => self.whole().max(1),
        }
    }

    /// Whether a border may come early because a batch asked for it.
    fn may_come_early(&self, batch: Executed) -> bool {
        let passed = u128::from(batch.time.since(self.at).nanos()) * u128::from(SECOND_BYTES);
        let passed = passed / u128::from(Span::from_secs(1).nanos());
        !batch.bounded
            || planted("border-whenever-asked")
            || u128::from(self.since) + passed >= u128::from(self.share())
    }

    /// Whether a border comes because time is over.
    fn is_time(&self, batch: Executed) -> bool {
        let passed = self.config.every.is_some_and(|every| batch.time.since(self.at) >= every);
        passed && self.since.saturating_mul(STATE_PARTS) >= self.state_bytes
    }

    /// Counts one executed batch.
    pub(crate) fn executed(&mut self, batch: Executed) -> Option<Point> {
        let interval = self.interval();
        self.since = self.since.saturating_add(batch.bytes).saturating_add(BATCH_COST);
        self.owed |= batch.asks;
        if !batch.settled {
            return None;
        }
        if (self.owed && self.may_come_early(batch)) || self.since >= interval || self.is_time(batch) {
            self.begin(self.number + 1, batch.time);
            return Some(Point::Border(self.number));
        }
        let ahead = interval / 100 * self.config.ahead_percent.min(100);
        let next = self.number + 1;
        let captures = self.writes(next).is_some_and(|writing| writing.full && !writing.stops);
        if captures && !self.begun && self.since.saturating_add(ahead) >= interval {
            self.begun = true;
            return Some(Point::Ahead(next));
        }
        None
    }

    /// Whether a border that was asked for has not come yet: it may come with the next batch.
    pub(crate) fn is_owed(&self) -> bool {
        self.owed
    }

    /// Whether capturing for the next border has begun.
    pub(crate) fn nears(&self) -> bool {
        self.begun
    }

    /// What this replica writes at a border.
    pub(crate) fn writes(&self, border: u64) -> Option<Writing> {
        match self.config.mode {
            CheckpointMode::StopAndCopy => Some(Writing { full: true, stops: true }),
            CheckpointMode::Staggered => {
                (border % self.members == self.place).then_some(Writing { full: true, stops: true })
            }
            CheckpointMode::Full => Some(Writing { full: true, stops: false }),
            CheckpointMode::Differential => {
                let full = border % self.config.full_every.max(1) == 1 % self.config.full_every.max(1);
                Some(Writing { full, stops: false })
            }
        }
    }
}

#[cfg(test)]
mod tests;
