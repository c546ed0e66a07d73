//! Where each record lies. Costs 8 bytes per record (16 while a segment's list doubles). When a segment is trimmed, its part of the index
//! goes, too.

use crate::format::{Record, decode_record};
use bytes::Bytes;
use quorate_types::{Halt, InstanceId, RecordId};
use std::collections::VecDeque;
use std::ops::Range;

/// Where a record's bytes lie, for reading it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The record that lies there.
    pub id: RecordId,
    /// The segment's number.
    pub segment: u64,
    /// First byte within the segment.
    pub offset: u64,
    /// How many bytes to read.
    pub len: u32,
    /// The same extent as a position in the log, for messages.
    pub position: u64,
}

impl Extent {
    /// Reads the record from the bytes that the host read from this extent. Copies nothing.
    ///
    /// # Errors
    /// [`Halt::LogCorrupt`] when the bytes are not this record of this instance. A caller that can get the record from peers may repair it
    /// instead.
    pub fn parse(&self, bytes: &Bytes, instance: InstanceId) -> Result<Record, Halt> {
        let corrupt = |why: &str| Halt::LogCorrupt {
            position: self.position,
            why: format!("record {} was read back, but {why}", self.id.number()),
        };
        let decoded = decode_record(bytes).map_err(corrupt)?;
        if decoded.id != self.id || decoded.len != bytes.len() || decoded.len != self.len as usize {
            return Err(corrupt("another record lies there"));
        }
        if decoded.record.instance != instance {
            return Err(corrupt("it belongs to another instance"));
        }
        Ok(decoded.record)
    }
}

/// Consecutive records in one segment: all its records, unless some of them are lost.
struct SegmentIndex {
    number: u64,
    /// The first record.
    first: u64,
    extents: Vec<(u32, u32)>,
}

impl SegmentIndex {
    fn next(&self) -> u64 {
        self.first + self.extents.len() as u64
    }
}

/// Extents of records, by segment. Record numbers are consecutive, except after damage.
#[derive(Default)]
pub(crate) struct Index {
    segments: VecDeque<SegmentIndex>,
}

impl Index {
    /// Adds the next record.
    pub(crate) fn push(&mut self, id: RecordId, segment: u64, offset: u32, len: u32) {
        let next = self.segments.back().map_or(0, SegmentIndex::next);
        assert!(next <= id.number(), "INV-LOG-1 records are numbered upwards: {id} comes before {next}");
        if self.segments.back().is_none_or(|last| last.number != segment || next != id.number()) {
            self.segments.push_back(SegmentIndex {
                number: segment,
                first: id.number(),
                extents: Vec::new(),
            });
        }
        if let Some(last) = self.segments.back_mut() {
            last.extents.push((offset, len));
        }
    }

    pub(crate) fn find(&self, id: RecordId, segment_bytes: u64) -> Option<Extent> {
        let after = self.segments.partition_point(|segment| segment.first <= id.number());
        let segment = self.segments.get(after.checked_sub(1)?)?;
        let (offset, len) = *segment.extents.get((id.number() - segment.first) as usize)?;
        let offset = u64::from(offset);
        let position = segment.number * segment_bytes + offset;
        Some(Extent { id, segment: segment.number, offset, len, position })
    }

    /// The segment of this record, or, if the record is lost, of the next one that is there.
    pub(crate) fn segment_from(&self, id: RecordId) -> Option<u64> {
        let at = self.segments.partition_point(|segment| segment.next() <= id.number());
        self.segments.get(at).map(|segment| segment.number)
    }

    /// The records in a segment: the first, and the one after the last.
    pub(crate) fn records(&self, segment: u64) -> Option<Range<RecordId>> {
        let from = self.segments.partition_point(|run| run.number < segment);
        let to = self.segments.partition_point(|run| run.number <= segment);
        let (first, last) = (self.segments.get(from)?, self.segments.get(to.checked_sub(1)?)?);
        (from < to).then(|| RecordId::new(first.first)..RecordId::new(last.next()))
    }

    /// Forgets the segments below `number`.
    pub(crate) fn forget_below(&mut self, number: u64) {
        while self.segments.front().is_some_and(|segment| segment.number < number) {
            self.segments.pop_front();
        }
    }

    /// The oldest record that is still known.
    pub(crate) fn first(&self) -> Option<RecordId> {
        self.segments.front().map(|segment| RecordId::new(segment.first))
    }

    /// Removes everything from record `id` on, since the block that held it turned out to be bad.
    pub(crate) fn truncate(&mut self, id: u64) {
        while self.segments.back().is_some_and(|segment| segment.first >= id) {
            self.segments.pop_back();
        }
        if let Some(last) = self.segments.back_mut() {
            last.extents.truncate((id - last.first) as usize);
        }
    }
}
