//! Where each record lies. Costs 8 bytes per record (16 while a segment's list doubles); a trimmed segment takes its
//! part of the index with it.

use crate::format::{Record, decode_record};
use bytes::Bytes;
use quorate_types::{Halt, InstanceId, RecordId};
use std::collections::VecDeque;
use std::ops::Range;

/// Where a record's bytes lie, for reading it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The record that lies there.
    pub id: RecordId,
    /// The segment's number.
    pub segment: u64,
    /// First byte within the segment.
    pub offset: u64,
    /// How many bytes to read.
    pub len: u32,
    /// The same place as a position in the log, for messages.
    pub position: u64,
}

impl Place {
    /// Reads the record from the bytes that the host read at this place. Copies nothing.
    ///
    /// # Errors
    /// [`Halt::LogCorrupt`] when they are not this record of this instance. Whoever has the record from peers, too, may
    /// repair it instead.
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

struct SegmentIndex {
    number: u64,
    /// The first record in this segment, or the next one to come.
    first: u64,
    places: Vec<(u32, u32)>,
}

/// Places of consecutive records, by segment.
#[derive(Default)]
pub(crate) struct Index {
    segments: VecDeque<SegmentIndex>,
}

impl Index {
    /// Adds the record after the last one.
    pub(crate) fn push(&mut self, id: RecordId, segment: u64, offset: u32, len: u32) {
        if self.segments.back().is_none_or(|last| last.number != segment) {
            self.segments.push_back(SegmentIndex { number: segment, first: id.number(), places: Vec::new() });
        }
        if let Some(last) = self.segments.back_mut() {
            assert!(
                last.first + last.places.len() as u64 == id.number(),
                "INV-LOG-1 index has no gap at {id}"
            );
            last.places.push((offset, len));
        }
    }

    pub(crate) fn find(&self, id: RecordId, segment_bytes: u64) -> Option<Place> {
        let after = self.segments.partition_point(|segment| segment.first <= id.number());
        let segment = self.segments.get(after.checked_sub(1)?)?;
        let (offset, len) = *segment.places.get((id.number() - segment.first) as usize)?;
        let offset = u64::from(offset);
        let position = segment.number * segment_bytes + offset;
        Some(Place { id, segment: segment.number, offset, len, position })
    }

    /// The records in a segment: the first, and the one after the last.
    pub(crate) fn records(&self, segment: u64) -> Option<Range<RecordId>> {
        let at = self.segments.binary_search_by_key(&segment, |segment| segment.number).ok()?;
        let segment = self.segments.get(at)?;
        Some(RecordId::new(segment.first)..RecordId::new(segment.first + segment.places.len() as u64))
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

    /// Takes back everything from record `id` on: the block that held it turned out to be bad.
    pub(crate) fn truncate(&mut self, id: u64) {
        while self.segments.back().is_some_and(|segment| segment.first >= id) {
            self.segments.pop_back();
        }
        if let Some(last) = self.segments.back_mut() {
            last.places.truncate((id - last.first) as usize);
        }
    }
}
