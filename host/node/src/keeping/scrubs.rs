//! Scrubbing: everything at rest is read now and then, beside all other work, so that rot is found while others still have what it took.
//! The keeper reads the checkpoints; the log is read here, one full segment after the other, by the thread that reads old records.
//!
//! A rotten segment costs nothing as long as this process lives: its state is in memory. So a border is asked for, and once its checkpoint
//! is durable the log is trimmed beyond the damage. Tests: host/runtime/tests/all/rot.rs, check/sim.

use super::inout::Out;
use quorate_log::{LogConfig, Rot, ScrubOk};
use quorate_state::checkpoint::Job;
use quorate_types::{RecordId, Span, Time};
use std::ops::Range;

/// A segment to be read and checked with [`quorate_log::scrub`].
#[derive(Clone, Debug)]
pub struct SegmentScrub {
    /// Whose blocks must be in it.
    pub log_id: u64,
    /// The log's sizes.
    pub config: LogConfig,
    /// Its number.
    pub segment: u64,
}

/// How far scrubbing is.
#[derive(Debug, Default)]
pub(super) struct Scrubs {
    /// The segment that is being read, and the records that must be in it.
    reading: Option<(u64, Range<RecordId>)>,
    /// The highest segment in which rot was found.
    rotten: Option<u64>,
    /// When the next one begins by itself.
    next: Option<Time>,
}

impl Scrubs {
    /// With the damage that was found at the start.
    pub(super) fn knowing(rotten: Option<u64>) -> Self {
        Self { rotten, ..Self::default() }
    }

    /// Begins to read everything. The log begins with the segment `first`.
    pub(super) fn begin(&mut self, first: u64, out: &mut Vec<Out>) {
        out.push(Out::job(Job::Scrub));
        if self.reading.is_none() {
            out.push(Out::ReadSegment(first));
        }
    }

    /// A segment is being read, which must have these records.
    pub(super) fn reads(&mut self, segment: u64, records: Range<RecordId>) {
        self.reading = Some((segment, records));
    }

    /// A segment was read; the next one follows. Whether it is damaged, as far as the log begins with the segment `first` or before.
    pub(super) fn read(
        &mut self,
        segment: u64,
        result: Result<ScrubOk, Rot>,
        first: u64,
        out: &mut Vec<Out>,
    ) -> Read {
        let Some((_, expected)) = self.reading.take().filter(|(reading, _)| *reading == segment) else {
            return Read::Another;
        };
        let found = match result {
            Ok(ok) if ok.records == expected => None,
            Ok(_) => Some("other records than were written".to_owned()),
            Err(rot) => Some(rot.to_string()),
        };
        // What was trimmed meanwhile may be gone.
        let Some(why) = found.filter(|_| segment >= first) else { return Read::Sound };
        let text = format!(
            "segment {segment} of the log is damaged on this disk ({why}): a checkpoint is made, and the log trimmed beyond it"
        );
        out.push(Out::alarm(text));
        self.rotten = self.rotten.max(Some(segment));
        Read::Damaged
    }

    /// Whether it is time to begin by itself, once in this time.
    pub(super) fn is_due(&mut self, now: Time, every: Span) -> bool {
        if self.next.is_some_and(|at| at > now) {
            return false;
        }
        self.next.replace(now.plus(every)).is_some()
    }

    /// The log begins with this segment: rot before it is gone.
    pub(super) fn begins_with(&mut self, first: u64) {
        self.rotten = self.rotten.filter(|rotten| *rotten >= first);
    }

    /// The segment that is being read.
    pub(super) fn reading(&self) -> Option<u64> {
        self.reading.as_ref().map(|(segment, _)| *segment)
    }

    /// The highest segment in which rot was found.
    pub(super) fn rotten(&self) -> Option<u64> {
        self.rotten
    }

    /// When one begins by itself.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.next
    }
}

/// What came of reading a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// It is as it was written, or gone meanwhile.
    Sound,
    /// It is not.
    Damaged,
    /// Nobody waits for it.
    Another,
}
