//! Borders: the seqs at which all replicas capture the state. They follow from the log alone, so that checkpoints of different
//! replicas can be compared byte by byte (000, section 5.2).
//!
//! A border comes when the batches since the last one have taken the interval. A batch may ask for one before
//! ([`quorate_wire::BatchHeader::border`]), and that one comes at once. Where replicas may lie it comes when a share of the interval is over, one
//! divided by the number of members, where agreed time counts as if bytes were written in it. So a leader that asks with each batch costs a bounded
//! part of what replicas do, and one that asks in an idle cluster waits for seconds at most (decision 0029). What was asked for too early is
//! not forgotten: execution remembers it until the share is over.
//!
//! A part of the interval before the border is the point at which capturing begins, so that at the border only completion is left.
//!
//! A checkpoint costs by the size of the state, and is paid for by the commands of one interval. So the interval follows the size
//! that the state had at the last border ([`BorderConfig::state_percent`]): what each command pays is bounded, however large it grows.
//!
//! INV-BORDER-1: borders depend on the executed batches and nothing else. Tests: `borders/tests.rs`.

use quorate_types::{AgreedTime, Span, planted};

/// How checkpoints are made; part of what the replicas of a cluster must agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointMode {
    /// Execution stops while the whole state is written. The usual way, to compare with.
    StopAndCopy,
    /// Like that, but each replica writes at its own border, while all compute the digest at every border (Dura-SMaRt, 003).
    Staggered,
    /// The whole state, captured while execution goes on.
    Full,
    /// What differs from the border before, and now and then the whole state.
    Differential,
}

impl CheckpointMode {
    /// What configuration and `status` call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::StopAndCopy => "stop-and-copy",
            Self::Staggered => "staggered",
            Self::Full => "full",
            Self::Differential => "differential",
        }
    }
}

/// When the borders are, and what is written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BorderConfig {
    /// How checkpoints are made.
    pub mode: CheckpointMode,
    /// Bytes of batches from one border to the next, at least. A batch counts with a sector more, as its record does.
    pub interval_bytes: u64,
    /// The interval is this part of what the state's keys and values took at the last border, where that is more.
    pub state_percent: u64,
    /// And never more than this, nor less than `interval_bytes`.
    pub interval_bytes_max: u64,
    /// How much of the interval before the border capturing begins, in percent.
    pub ahead_percent: u64,
    /// Every so many borders the whole state is written, where otherwise differences are.
    pub full_every: u64,
}

/// What a batch counts beside its own bytes.
const BATCH_COST: u64 = 512;

/// Where a border was asked for, a second of agreed time counts like so many bytes of batches: an idle cluster may need one, too.
const SECOND_BYTES: u64 = 8 << 20;

/// What counts of one executed batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Executed {
    /// Its bytes.
    pub(crate) bytes: u64,
    /// It asks for a border.
    pub(crate) asks: bool,
    /// Whether asking has bounds: where replicas may lie.
    pub(crate) bounded: bool,
    /// The agreed time after it.
    pub(crate) time: AgreedTime,
}

/// What is to be done after a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// Begin to capture for this border.
    Ahead(u64),
    /// This border is here.
    Border(u64),
}

/// What to write at a border.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Writing {
    /// The whole state, as opposed to what differs.
    pub(crate) full: bool,
    /// Execution waits until it is written.
    pub(crate) stops: bool,
}

/// Counts batches up to the next border.
#[derive(Clone, Debug)]
pub(crate) struct Borders {
    config: BorderConfig,
    members: u64,
    /// How many members come before this one.
    place: u64,
    /// Borders so far.
    pub(crate) number: u64,
    /// Bytes since the last one.
    since: u64,
    /// What the state took at the last one.
    state_bytes: u64,
    begun: bool,
    /// When the last one was.
    at: AgreedTime,
    /// One was asked for, too early.
    owed: bool,
}

impl Borders {
    /// The first interval begins at the agreed time `at`.
    pub(crate) fn new(config: BorderConfig, members: usize, place: usize, at: AgreedTime) -> Self {
        let (members, place) = (members.max(1) as u64, place as u64);
        Self { config, members, place, number: 0, since: 0, state_bytes: 0, begun: false, at, owed: false }
    }

    /// There are so many members from now on, and so many of them come before this one.
    pub(crate) fn set_members(&mut self, members: usize, place: usize) {
        (self.members, self.place) = (members.max(1) as u64, place as u64);
    }

    /// Goes on after the border with this number, which was at this agreed time, and where the state took so many bytes.
    pub(crate) fn resume(&mut self, number: u64, at: AgreedTime, state_bytes: u64) {
        self.begin(number, at);
        self.state_bytes = state_bytes;
    }

    fn begin(&mut self, number: u64, at: AgreedTime) {
        (self.number, self.at) = (number, at);
        (self.since, self.begun, self.owed) = (0, false, false);
    }

    /// At the border that was just reached the state takes so many bytes.
    pub(crate) fn measured(&mut self, state_bytes: u64) {
        self.state_bytes = state_bytes;
    }

    /// What is written while each replica writes once.
    fn whole(&self) -> u64 {
        let wanted = u128::from(self.state_bytes) * u128::from(self.config.state_percent) / 100;
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX).min(self.config.interval_bytes_max);
        wanted.max(self.config.interval_bytes)
    }

    /// The least from one border to the next, whoever asks.
    fn share(&self) -> u64 {
        (self.whole() / self.members).max(1)
    }

    /// From the last border to the next.
    fn interval(&self) -> u64 {
        // With every replica writing at its own border, there are as many borders in the time in which each writes once.
        match self.config.mode {
            CheckpointMode::Staggered => self.share(),
            _ => self.whole().max(1),
        }
    }

    /// Whether one may come because somebody asked for it.
    fn may_come_early(&self, batch: Executed) -> bool {
        let passed = u128::from(batch.time.since(self.at).nanos()) * u128::from(SECOND_BYTES);
        let passed = passed / u128::from(Span::from_secs(1).nanos());
        !batch.bounded
            || planted("border-whenever-asked")
            || u128::from(self.since) + passed >= u128::from(self.share())
    }

    /// Counts one executed batch.
    pub(crate) fn executed(&mut self, batch: Executed) -> Option<Point> {
        let interval = self.interval();
        self.since = self.since.saturating_add(batch.bytes).saturating_add(BATCH_COST);
        self.owed |= batch.asks;
        if (self.owed && self.may_come_early(batch)) || self.since >= interval {
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

    /// Whether one was asked for that did not come yet: with the next batch it may.
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
