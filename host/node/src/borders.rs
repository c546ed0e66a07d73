//! Borders: the seqs at which all replicas capture the state. They follow from the log alone, so that checkpoints of different
//! replicas can be compared byte by byte (000, section 5.2).
//!
//! A border comes when the batches since the last one have taken the interval, or when a batch asks for one
//! ([`quorate_wire::BatchHeader::border`]). A part of the interval before that is the point at which capturing begins, so that at
//! the border only completion is left.
//!
//! A checkpoint costs by the size of the state, and is paid for by the commands of one interval. So the interval follows the size
//! that the state had at the last border ([`BorderConfig::state_percent`]): what each command pays is bounded, however large it grows.
//!
//! INV-BORDER-1: borders depend on the executed batches and nothing else. Tests: `borders/tests.rs`.

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
}

impl Borders {
    pub(crate) fn new(config: BorderConfig, members: usize, place: usize) -> Self {
        let (members, place) = (members.max(1) as u64, place as u64);
        Self { config, members, place, number: 0, since: 0, state_bytes: 0, begun: false }
    }

    /// There are so many members from now on, and so many of them come before this one.
    pub(crate) fn set_members(&mut self, members: usize, place: usize) {
        (self.members, self.place) = (members.max(1) as u64, place as u64);
    }

    /// Goes on after the border with this number, where the state took so many bytes.
    pub(crate) fn resume(&mut self, number: u64, state_bytes: u64) {
        (self.number, self.since, self.begun) = (number, 0, false);
        self.state_bytes = state_bytes;
    }

    /// At the border that was just reached the state takes so many bytes.
    pub(crate) fn measured(&mut self, state_bytes: u64) {
        self.state_bytes = state_bytes;
    }

    /// From the last border to the next.
    fn interval(&self) -> u64 {
        let wanted = u128::from(self.state_bytes) * u128::from(self.config.state_percent) / 100;
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX).min(self.config.interval_bytes_max);
        let interval = wanted.max(self.config.interval_bytes);
        // With every replica writing at its own border, there are as many borders in the time in which each writes once.
        match self.config.mode {
            CheckpointMode::Staggered => (interval / self.members).max(1),
            _ => interval.max(1),
        }
    }

    /// Counts one executed batch.
    pub(crate) fn executed(&mut self, batch_bytes: u64, asked: bool) -> Option<Point> {
        let interval = self.interval();
        self.since = self.since.saturating_add(batch_bytes).saturating_add(BATCH_COST);
        if asked || self.since >= interval {
            self.number += 1;
            (self.since, self.begun) = (0, false);
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
