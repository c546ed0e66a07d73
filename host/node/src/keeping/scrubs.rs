//! Scrubbing: everything at rest is read now and then, beside all other work, so that rot is found while others still have what it took.
//! The keeper reads the checkpoints; the log is read here, one full segment after the other, by the thread that reads old records.
//!
//! A rotten segment costs nothing as long as this process lives: its state is in memory. So a border is asked for, and once its checkpoint
//! is durable the log is trimmed beyond the damage. Tests: host/runtime/tests/rot.rs, check/sim.

use crate::effects::{Effect, Effects, Event, KeeperWork};
use crate::node::Node;
use quorate_log::{Log, LogConfig, Rot, ScrubOk, SyncMode};
use quorate_state::checkpoint::Job;
use quorate_types::{RecordId, Time};
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
pub(crate) struct Scrubs {
    /// The segment that is being read, and the records that must be in it.
    reading: Option<(u64, Range<RecordId>)>,
    /// The highest segment in which rot was found.
    pub(crate) rotten: Option<u64>,
    /// When the next one begins by itself.
    pub(crate) next: Option<Time>,
}

impl Scrubs {
    /// With the damage that was found at the start.
    pub(crate) fn knowing(log: &Log) -> Self {
        let rotten =
            log.damage().iter().map(|damage| damage.end.saturating_sub(1) / log.segment_bytes()).max();
        Self { rotten, ..Self::default() }
    }

    /// The segment that is being read.
    pub(crate) fn reading(&self) -> Option<u64> {
        self.reading.as_ref().map(|(segment, _)| *segment)
    }
}

impl Node {
    /// Begins to read everything; what is found and mended shows in the status.
    pub(crate) fn scrub(&mut self, out: &mut Effects) -> &'static str {
        if self.config.log.sync == SyncMode::Memory {
            return "error: with durability memory nothing is at rest";
        }
        out.push(Effect::Keep(KeeperWork { job: Job::Scrub, stops: false }));
        if self.scrubs.reading.is_none() {
            self.scrub_segment(self.log.first_segment(), out);
        }
        "begun"
    }

    fn scrub_segment(&mut self, segment: u64, out: &mut Effects) {
        let segment = segment.max(self.log.first_segment());
        self.scrubs.reading = self.log.sealed_records(segment).map(|records| (segment, records));
        if self.scrubs.reading.is_some() {
            let (log_id, config) = (self.config.log_id, self.config.log.clone());
            out.push(Effect::Scrub(SegmentScrub { log_id, config, segment }));
        }
    }

    pub(crate) fn on_scrubbed(
        &mut self,
        now: Time,
        segment: u64,
        result: Result<ScrubOk, Rot>,
        out: &mut Effects,
    ) {
        let Some((_, expected)) = self.scrubs.reading.take().filter(|(reading, _)| *reading == segment)
        else {
            return;
        };
        let found = match result {
            Ok(ok) if ok.records == expected => None,
            Ok(_) => Some("other records than were written".to_owned()),
            Err(rot) => Some(rot.to_string()),
        };
        // What was trimmed meanwhile may be gone.
        if let Some(why) = found.filter(|_| segment >= self.log.first_segment()) {
            let text = format!(
                "segment {segment} of the log is damaged on this disk ({why}): a checkpoint is made, and the log trimmed beyond it"
            );
            out.event(Event::State { text, bad: true });
            self.scrubs.rotten = self.scrubs.rotten.max(Some(segment));
            self.want_border(now, out);
        }
        self.scrub_segment(segment + 1, out);
    }

    /// Begins by itself, so often.
    pub(crate) fn scrub_in_turn(&mut self, now: Time, out: &mut Effects) {
        let Some(every) = self.config.scrub_every else { return };
        match self.scrubs.next {
            Some(at) if at > now => {}
            due => {
                self.scrubs.next = Some(now.plus(every));
                if due.is_some() {
                    self.scrub(out);
                }
            }
        }
    }
}
