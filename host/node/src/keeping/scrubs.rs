//! Scrubbing: everything at rest is read now and then, beside all other work, so that rot is found while other replicas still have what was
//! lost. The keeper reads the checkpoints. The thread that reads old records reads the log, one full segment after the other.
//!
//! A rotten segment does no harm while this process lives, since its state is in memory. So a border is asked for, and once its checkpoint
//! is durable the log is trimmed beyond the damage. Tests: host/runtime/tests/all/rot.rs, check/sim.

use super::inout::Out;
use quorate_log::{LogConfig, Rot, ScrubOk};
use quorate_state::checkpoint::Job;
use quorate_types::{RecordId, Span, Time};
use std::ops::Range;

/// A segment to be read and checked with [`quorate_log::scrub`].
#[derive(Clone, Debug)]
pub struct SegmentScrub {
    /// The log whose blocks must be in it.
    pub log_id: u64,
    /// The log's sizes.
    pub config: LogConfig,
    /// The segment's number.
    pub segment: u64,
}

/// The progress of scrubbing.
#[derive(Debug, Default)]
pub(super) struct Scrubs {
    /// The segment that is being read, and the records that must be in it.
    reading: Option<(u64, Range<RecordId>)>,
    /// The highest segment in which rot was found.
    rotten: Option<u64>,
    /// When the next scrub begins without a request.
    next: Option<Time>,
}

impl Scrubs {
    /// Starts with the damage that was found at the start.
    pub(super) fn knowing(rotten: Option<u64>) -> Self {
        Self { rotten, ..Self::default() }
    }

    /// Begins to read everything. `first`: the log's first segment.
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

    /// A segment was read; the next one follows. Gives what was found, if the log's first segment is still `first` or earlier.
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
        // A segment that was trimmed meanwhile may be gone.
        let Some(why) = found.filter(|_| segment >= first) else { return Read::Sound };
        let text = format!(
            "segment {segment} of the log is damaged on this disk ({why}): a checkpoint is made, and the log trimmed beyond it"
        );
        out.push(Out::alarm(text));
        self.rotten = self.rotten.max(Some(segment));
        Read::Damaged
    }

    /// Whether it is time for a scrub without a request, once in this time.
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

    /// When a scrub begins without a request.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.next
    }
}

/// The result of reading a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// The segment is sound, or was trimmed meanwhile.
    Sound,
    /// The segment is damaged.
    Damaged,
    /// Another segment was asked for.
    Another,
}
