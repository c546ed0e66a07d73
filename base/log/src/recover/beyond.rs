//! What lies beyond the end of the chain of blocks: nothing, a torn tail, or the rest of the log after damage.
//!
//! Blocks that fit together form an *island*. An island belongs to the log if a block header says that data after the island's start was
//! synced, and if the island is not stale, that is, cut off by an earlier recovery. Stale blocks are told by their life: a cut begins with
//! an opening block of a higher life than theirs. Two things follow (docs/formats/log.md, "Beyond damage"). After a header of some life,
//! everything of a lower life is stale. And if a higher life begins in a later segment, and nothing connects it with the island before it,
//! the cut may have been made before that island. Only the unused rest of a segment, which later blocks leave as it is, can hold stale
//! blocks in front of later ones. So an island counts at once if it begins with its segment or reaches into another one; any other island
//! is dropped when such a life is found.
//!
//! Tests: tests.rs beside `recover.rs`, `tests/all/rot.rs`.

use super::{Chain, KeptSegment, Recovery, check_continues, keep_block};
use crate::block::take_apart;
use crate::format::{BlockHeader, Record, SECTOR};
use bytes::Bytes;
use quorate_types::RecordId;
use std::collections::VecDeque;

/// A stretch of the log that is damaged, although it had been synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where the damage begins.
    pub position: u64,
    /// Where the log continues.
    pub end: u64,
    /// The first record that is missing.
    pub missing: RecordId,
    /// The first record after the damage; equal to `missing` if no record is missing.
    pub present: RecordId,
}

impl Damage {
    /// How many records are missing.
    pub fn records(&self) -> u64 {
        self.present.since(self.missing)
    }
}

/// Blocks that fit together.
pub(super) struct Island {
    start: u64,
    end: u64,
    /// The number of its first record.
    first: u64,
    chain: Chain,
    kept: VecDeque<KeptSegment>,
    records: Vec<(RecordId, Record)>,
    /// For each record: the segment, the offset and the length.
    places: Vec<(u64, u32, u32)>,
}

impl Island {
    /// Whether it can't be a left-over in the unused end of a segment.
    fn is_firm(&self, segment_bytes: u64) -> bool {
        self.start.is_multiple_of(segment_bytes)
            || self.start / segment_bytes != (self.end - 1) / segment_bytes
    }
}

/// Everything seen since the chain ended.
#[derive(Default)]
pub(super) struct Beyond {
    islands: VecDeque<Island>,
    /// The highest synced mark in a header there, and where that header lies.
    pub(super) synced_to: u64,
    pub(super) witness: u64,
    /// The highest life in a header there.
    life: u32,
}

impl Recovery {
    /// A header of this log lies at `offset`, beyond the end of the chain. Returns how far to move on.
    pub(super) fn take_beyond(
        &mut self,
        (start, offset): (u64, usize),
        bytes: &Bytes,
        (header, crc): (BlockHeader, u32),
    ) -> usize {
        let Some(chain) = self.chain else { return SECTOR };
        self.life_beyond = self.life_beyond.max(header.life);
        if header.synced_to > self.beyond.synced_to {
            (self.beyond.synced_to, self.beyond.witness) = (header.synced_to, header.position);
        }
        let newest = self.beyond.life.max(chain.life);
        if header.life < newest {
            return SECTOR;
        }
        self.beyond.life = header.life;
        let segment_bytes = self.config.segment_bytes;
        let last = self.beyond.islands.back();
        let connects = last.is_some_and(|last| {
            let rolled = offset == 0 && last.end < start && last.end + segment_bytes > start;
            (last.end == header.position || rolled) && check_continues(&last.chain, &header).is_ok()
        });
        if !connects && last.is_some_and(|last| header.life > last.chain.life) {
            self.drop_doubtful(start / segment_bytes);
        }
        let before = self.beyond.islands.back().map_or(&chain, |last| &last.chain);
        let (opens, later) = (header.count == 0, header.life > before.life);
        let plausible = header.first >= before.next && header.synced_to >= before.synced_to;
        // A reader of the records notices a gap as a jump of their numbers, so there must be a record before it.
        let known = self.index.first().is_some();
        if !connects && !(known && plausible && (later || !opens)) {
            return SECTOR;
        }
        let segment = start / segment_bytes;
        let (mut records, mut places) = (Vec::new(), Vec::new());
        let taken = take_apart(bytes, offset, &header, |id, record, at, len| {
            records.push((id, record));
            places.push((segment, at, len));
        });
        if taken.is_err() {
            return SECTOR;
        }
        if !connects {
            self.beyond.islands.push_back(Island {
                start: header.position,
                end: header.position,
                first: header.first,
                chain,
                kept: VecDeque::new(),
                records: Vec::new(),
                places: Vec::new(),
            });
        }
        if let Some(island) = self.beyond.islands.back_mut() {
            island.end = header.position + u64::from(header.len);
            island.chain = Chain::after(&header, crc);
            island.records.append(&mut records);
            island.places.append(&mut places);
            let used = (island.end - start) as usize;
            keep_block(&mut island.kept, segment_bytes, (segment, bytes, used), island.chain.synced_to);
        }
        header.len as usize
    }

    /// Where to search next: after the chain and all islands.
    pub(super) fn looked_to(&self) -> u64 {
        self.beyond.islands.back().map_or(self.position, |last| last.end)
    }

    /// A higher life begins in this segment, not directly after what was found before.
    fn drop_doubtful(&mut self, segment: u64) {
        let segment_bytes = self.config.segment_bytes;
        let islands = &mut self.beyond.islands;
        let firm = islands.iter().rposition(|island| island.is_firm(segment_bytes)).map_or(0, |at| at + 1);
        let mut at = 0;
        islands.retain(|island| {
            at += 1;
            at <= firm || island.start / segment_bytes == segment
        });
    }

    /// Takes the islands that belong to the log as its continuation. At the end of the log it also takes those that nothing speaks against.
    pub(super) fn settle(&mut self, at_end: bool, out: &mut Vec<(RecordId, Record)>) {
        let segment_bytes = self.config.segment_bytes;
        let islands = &self.beyond.islands;
        let firm = islands.iter().rposition(|island| island.is_firm(segment_bytes)).map_or(0, |at| at + 1);
        let count = if at_end { islands.len() } else { firm };
        for _ in 0..count {
            let vouched = |island: &Island| island.start < self.beyond.synced_to;
            if !self.beyond.islands.front().is_some_and(vouched) {
                return;
            }
            if let Some(island) = self.beyond.islands.pop_front() {
                self.go_on_with(island, out);
            }
        }
    }

    fn go_on_with(&mut self, island: Island, out: &mut Vec<(RecordId, Record)>) {
        let missing = self.chain.map_or(island.first, |chain| chain.next);
        self.damage.push(Damage {
            position: self.position,
            end: island.start,
            missing: RecordId::new(missing),
            present: RecordId::new(island.first),
        });
        for ((id, _), (segment, at, len)) in island.records.iter().zip(island.places) {
            self.index.push(*id, segment, at, len);
        }
        out.extend(island.records);
        (self.chain, self.position, self.kept) = (Some(island.chain), island.end, island.kept);
        (self.broken, self.cut) = (None, false);
        self.testified = self.testified.max(self.beyond.synced_to);
    }
}
