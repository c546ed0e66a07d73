//! Reads a log back after a restart, and tells a torn tail (cut) from rot below synced data (a gap, or halt).
//!
//! The host feeds the segments in order to [`Recovery::segment`], then calls [`Recovery::finish`], writes and syncs [`Recovered::rewrite`],
//! and only then takes the log with [`Recovered::rewritten`]. So data that is merely readable never counts as durable.
//!
//! The damage rule (docs/formats/log.md argues it): the chain of blocks ends at the first position P where no block continues it. If any
//! block header of this log at or after P says that a sync had reached beyond P, synced data is missing: rot. Otherwise the rest was never
//! synced, and is cut. After rot the log continues with the sound blocks that follow (`recover/beyond.rs`): record numbers jump there, and
//! [`Recovered::damage`] says where.
//!
//! Invariants:
//! - INV-LOG-7: recovery finds every durable record, and finds exactly a prefix of those appended, unless the disk rots.
//! - INV-LOG-8: a crash alone never makes recovery halt.
//! - INV-LOG-9: damage below the highest synced mark halts, or leaves a gap in the records and is told, or hits bytes that
//!   mean nothing; no wrong record comes out.
//! - INV-LOG-10: a block beyond a cut never comes back.
//!
//! Tests: `recover/tests.rs` case by case, `tests/all/crash.rs` (7, 8, 10), `tests/all/rot.rs` (9), `tests/all/fuzz.rs`.

mod beyond;

pub use beyond::Damage;

use crate::block::{self, take_apart};
use crate::config::{LogConfig, SyncMode};
use crate::format::{Bad, BlockHeader, FORMAT_VERSION, Record, SECTOR};
use crate::index::Index;
use crate::writer::{Log, Resume};
use beyond::Beyond;
use bytes::Bytes;
use quorate_types::{Halt, RecordId, planted};
use std::collections::VecDeque;
use std::fmt;

/// Segment numbers stay below this, so that no position overflows (2^32 segments of at most 2^30 bytes).
const SEGMENT_NUMBER_MAX: u64 = u32::MAX as u64;

/// Why a log can't be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoverError {
    /// The storage can't be trusted.
    Halt(Halt),
    /// A newer program wrote this log. Nothing is wrong with it.
    NewerFormat {
        /// The format's version in the log.
        found: u16,
        /// The position of the block.
        position: u64,
    },
    /// A segment does not have the configured size.
    SegmentSize {
        /// The segment.
        segment: u64,
        /// Its size in bytes.
        found: u64,
        /// The configured size.
        configured: u64,
    },
}

impl From<Halt> for RecoverError {
    fn from(halt: Halt) -> Self {
        Self::Halt(halt)
    }
}

impl fmt::Display for RecoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Halt(halt) => halt.fmt(f),
            Self::NewerFormat { found, position } => write!(
                f,
                "the log has format version {found} at byte {position}, and this program reads versions up to \
                 {FORMAT_VERSION}. The log is sound: start the newer program that wrote it"
            ),
            Self::SegmentSize { segment, found, configured } => write!(
                f,
                "log segment {segment} has {found} bytes, and the configuration says {configured}. The size of \
                 segments can't be changed after the log was created: set it back"
            ),
        }
    }
}

impl std::error::Error for RecoverError {}

/// Bytes that must be written into a segment before the first message leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewrite {
    /// The segment.
    pub segment: u64,
    /// First byte within the segment.
    pub offset: u64,
    /// The bytes.
    pub data: Bytes,
}

/// The end of the chain so far.
#[derive(Clone, Copy)]
pub(crate) struct Chain {
    previous: u32,
    life: u32,
    /// The number of the next record.
    pub(crate) next: u64,
    synced_to: u64,
}

impl Chain {
    /// The chain that ends with the block of this header, whose checksum is `crc`.
    pub(crate) fn after(header: &BlockHeader, crc: u32) -> Self {
        Self {
            previous: crc,
            life: header.life,
            next: header.first + u64::from(header.count),
            synced_to: header.synced_to,
        }
    }
}

/// A segment that may have to be written again.
struct KeptSegment {
    number: u64,
    bytes: Bytes,
    /// Where its last block ends.
    used: usize,
}

/// Reads a log, segment by segment.
pub struct Recovery {
    config: LogConfig,
    log_id: u64,
    first_segment: u64,
    next_segment: u64,
    /// None before the first block of a log whose first segments were trimmed.
    chain: Option<Chain>,
    /// Where the chain ends.
    position: u64,
    /// Why the chain ended, if it ended before the end of a segment.
    broken: Option<&'static str>,
    cut: bool,
    /// The highest life of any block seen beyond the chain's end. The next life is above it: see `opening_block`.
    life_beyond: u32,
    kept: VecDeque<KeptSegment>,
    index: Index,
    /// What lies beyond the chain's end.
    beyond: Beyond,
    /// The damage found so far, and the highest synced mark that proves it.
    damage: Vec<Damage>,
    testified: u64,
}

impl Recovery {
    /// Begins at `first_segment`: the lowest number that exists; 0 unless the log was trimmed. The first block of a trimmed log is
    /// believed, since the block before it is gone.
    ///
    /// # Panics
    /// When the configuration's sizes contradict each other, or it keeps the log in memory, so that there is nothing to read.
    pub fn new(log_id: u64, config: LogConfig, first_segment: u64) -> Self {
        assert!(config.check_shape().is_ok(), "the log's configuration was checked before it is used");
        assert!(config.sync != SyncMode::Memory, "a log in memory leaves nothing to recover");
        let start = Chain { previous: 0, life: 1, next: 1, synced_to: 0 };
        Self {
            position: first_segment.saturating_mul(config.segment_bytes),
            config,
            log_id,
            first_segment,
            next_segment: first_segment,
            chain: (first_segment == 0).then_some(start),
            broken: None,
            cut: false,
            life_beyond: 0,
            kept: VecDeque::new(),
            index: Index::default(),
            beyond: Beyond::default(),
            damage: Vec::new(),
            testified: 0,
        }
    }

    /// Takes the next segment. Appends the records found to `out`; records of earlier segments are among them if only this segment proves
    /// that they count. Record numbers jump where records are missing. The records hold on to `bytes`.
    ///
    /// # Errors
    /// [`Halt::LogCorrupt`] when the log's first block is damaged, [`Halt::LogInconsistent`] when the segment is not the next one; see
    /// [`RecoverError`] for the others.
    pub fn segment(
        &mut self,
        number: u64,
        bytes: &Bytes,
        out: &mut Vec<(RecordId, Record)>,
    ) -> Result<(), RecoverError> {
        if number != self.next_segment || number > SEGMENT_NUMBER_MAX {
            let why = format!("log segment {} is missing; the next one is {number}", self.next_segment);
            return Err(Halt::LogInconsistent { why }.into());
        }
        let configured = self.config.segment_bytes;
        if bytes.len() as u64 != configured {
            return Err(RecoverError::SegmentSize { segment: number, found: bytes.len() as u64, configured });
        }
        self.next_segment += 1;
        let start = number * configured;
        // A chain that ended at the end of the segment before, or inside it, may go on here: the next block did not fit
        // there. It never skips a segment that holds no block at all.
        let follows = self.position + configured > start && self.beyond.synced_to <= self.position;
        if follows && self.read_chain(start, bytes, out)? {
            return Ok(());
        }
        self.look_ahead(start, bytes)?;
        self.settle(false, out);
        Ok(())
    }

    /// Reads blocks as long as they continue the chain. Returns whether the chain reaches the end of this segment.
    fn read_chain(
        &mut self,
        start: u64,
        bytes: &Bytes,
        out: &mut Vec<(RecordId, Record)>,
    ) -> Result<bool, RecoverError> {
        let mut offset = 0;
        while offset < bytes.len() {
            match self.read_block(start, offset, bytes, out) {
                Ok(len) => {
                    offset += len;
                    self.position = start + offset as u64;
                    self.broken = None;
                    self.cut = false;
                    self.beyond = Beyond::default();
                    self.keep(start, bytes, offset);
                }
                Err(Bad::Newer(found)) => {
                    return Err(RecoverError::NewerFormat { found, position: start + offset as u64 });
                }
                Err(Bad::Because(why)) => {
                    // When the chain did not get into this segment, the reason in the segment before stays.
                    self.broken.get_or_insert(why);
                    let there = bytes[offset..].iter().take(SECTOR);
                    self.cut |= there.copied().any(|byte| byte != 0);
                    if self.chain.is_none() {
                        return Err(Halt::LogCorrupt { position: self.position, why: why.into() }.into());
                    }
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Checks the block at `offset`, which must continue the chain, and takes its records. Returns its length.
    fn read_block(
        &mut self,
        start: u64,
        offset: usize,
        bytes: &Bytes,
        out: &mut Vec<(RecordId, Record)>,
    ) -> Result<usize, Bad> {
        let (header, crc) = BlockHeader::decode(&bytes[offset..], self.log_id, start + offset as u64)?;
        if let Some(chain) = self.chain {
            check_continues(&chain, &header).map_err(Bad::Because)?;
        }
        let before = out.len();
        let segment = start / self.config.segment_bytes;
        let index = &mut self.index;
        let taken = take_apart(bytes, offset, &header, |id, record, at, len| {
            index.push(id, segment, at, len);
            out.push((id, record));
        });
        if let Err(why) = taken {
            out.truncate(before);
            self.index.truncate(header.first);
            return Err(Bad::Because(why));
        }
        self.chain = Some(Chain::after(&header, crc));
        Ok(header.len as usize)
    }

    /// Keeps the segments from the highest synced mark on, since they must be written again.
    fn keep(&mut self, start: u64, bytes: &Bytes, used: usize) {
        let segment_bytes = self.config.segment_bytes;
        let mark = self.chain.map_or(0, |chain| chain.synced_to);
        keep_block(&mut self.kept, segment_bytes, (start / segment_bytes, bytes, used), mark);
    }

    /// Looks in this segment, beyond the end of the chain, for blocks of this log: for one whose synced mark lies further on, and for those
    /// with which the log continues. For the first, its header is enough: a header fits into one sector, so it is whole even if its block
    /// is torn.
    fn look_ahead(&mut self, start: u64, bytes: &Bytes) -> Result<(), RecoverError> {
        let mut offset = self.looked_to().saturating_sub(start) as usize;
        while offset < bytes.len() {
            let position = start + offset as u64;
            offset += match BlockHeader::decode(&bytes[offset..], self.log_id, position) {
                Ok(found) => self.take_beyond((start, offset), bytes, found),
                Err(Bad::Newer(found)) => return Err(RecoverError::NewerFormat { found, position }),
                Err(Bad::Because(_)) => SECTOR,
            };
        }
        Ok(())
    }

    /// All segments were given. Appends to `out` the records that are known to count only now.
    ///
    /// # Errors
    /// [`Halt::LogCorrupt`] for rot after which nothing sound follows; [`Halt::LogInconsistent`] when there was no segment, since a log is
    /// created with its first one.
    pub fn finish(mut self, out: &mut Vec<(RecordId, Record)>) -> Result<Recovered, RecoverError> {
        self.settle(true, out);
        let Beyond { synced_to, witness, .. } = self.beyond;
        if synced_to > self.position {
            let broken = self.broken.unwrap_or("the blocks end here");
            let why = format!(
                "{broken}, but the block at {witness} was written after everything up to {synced_to} was synced"
            );
            return Err(Halt::LogCorrupt { position: self.position, why }.into());
        }
        let chain = self.chain.filter(|_| self.next_segment > self.first_segment);
        let Some(chain) = chain else {
            let why = "there is no log segment, and a log has at least one from the start".into();
            return Err(Halt::LogInconsistent { why }.into());
        };
        let Some(life) = chain.life.max(self.life_beyond).checked_add(1) else {
            let why = "the log was opened more often than can be counted".into();
            return Err(Halt::LogInconsistent { why }.into());
        };
        let segment_bytes = self.config.segment_bytes;
        // The evidence of the damage must survive, though its bytes are overwritten now.
        let mark = chain.synced_to.max(self.testified);
        let mark = if planted("recovery-trusts-unsynced") { self.position } else { mark };
        let chain = Chain { synced_to: mark, ..chain };
        let mut rewrite: Vec<Rewrite> = self
            .kept
            .iter()
            .filter(|kept| kept.number * segment_bytes + kept.used as u64 > mark)
            .map(|kept| {
                let from = mark.saturating_sub(kept.number * segment_bytes) as usize;
                Rewrite { segment: kept.number, offset: from as u64, data: kept.bytes.slice(from..kept.used) }
            })
            .collect();
        let (opening, crc) = opening_block(self.log_id, self.position, life, &chain);
        let segment = self.position / segment_bytes;
        let end = self.position + opening.len() as u64;
        rewrite.push(Rewrite { segment, offset: self.position % segment_bytes, data: opening });
        let prepare = (segment >= self.next_segment).then_some(segment);
        let last = RecordId::new(chain.next - 1);
        let resume = Resume {
            life,
            previous: crc,
            position: end,
            last,
            first_segment: self.first_segment,
            ready_end: self.next_segment.max(segment + 1),
            index: self.index,
            damage: self.damage.clone(),
        };
        let first_record = resume.index.first();
        let log = Log::resume(self.log_id, self.config, resume);
        let cut_at = self.cut.then_some(self.position);
        let damage = self.damage;
        Ok(Recovered {
            rewrite,
            prepare,
            first_record,
            last_record: last,
            synced_to: mark,
            cut_at,
            damage,
            log,
        })
    }
}

/// A block of this segment that ends at `used` belongs to the log. Keeps what lies after the synced mark.
fn keep_block(
    kept: &mut VecDeque<KeptSegment>,
    segment_bytes: u64,
    (number, bytes, used): (u64, &Bytes, usize),
    mark: u64,
) {
    match kept.back_mut().filter(|last| last.number == number) {
        Some(last) => last.used = used,
        None => kept.push_back(KeptSegment { number, bytes: bytes.clone(), used }),
    }
    while kept.front().is_some_and(|kept| kept.number * segment_bytes + kept.used as u64 <= mark) {
        kept.pop_front();
    }
}

/// The first block of a life: no records, one sector. Once it is synced, no older block at or beyond this position continues the chain,
/// since its life is higher than that of all blocks there. A life higher than the chain's would not be enough: a recovery that did not
/// finish may have left an opening block with the next life.
fn opening_block(log_id: u64, position: u64, life: u32, chain: &Chain) -> (Bytes, u32) {
    let header = BlockHeader {
        log_id,
        position,
        len: 0,
        count: 0,
        first: chain.next,
        // Blocks that are written again together with this one are not synced before it.
        synced_to: chain.synced_to,
        life,
        previous: chain.previous,
        body: 0,
    };
    let (_, built) = block::build(header, &[], |_, _| {});
    (built.pieces.concat().into(), built.crc)
}

pub(crate) fn check_continues(chain: &Chain, header: &BlockHeader) -> Result<(), &'static str> {
    if header.previous != chain.previous {
        return Err("the block there does not continue the one before");
    }
    if header.first != chain.next {
        return Err("the block there skips or repeats records");
    }
    if header.synced_to < chain.synced_to {
        return Err("the block there knows of less synced data than the one before");
    }
    let opens = header.count == 0 && header.life > chain.life;
    let goes_on = header.count > 0 && chain.life == header.life;
    if opens || goes_on { Ok(()) } else { Err("the block there is from another life of the log") }
}

/// A log that was read back.
#[derive(Debug)]
pub struct Recovered {
    /// Everything that must be written and then synced. The rest of the log needs nothing.
    pub rewrite: Vec<Rewrite>,
    /// A segment that does not exist yet and that `rewrite` writes to: prepare it first, as for `LogEffect::Prepare`.
    pub prepare: Option<u64>,
    /// The oldest record, if there is one: 1, unless the log was trimmed.
    pub first_record: Option<RecordId>,
    /// The last record that was read.
    pub last_record: RecordId,
    /// The highest position that a block of the log says was synced.
    pub synced_to: u64,
    /// Where unsynced data, or remains of an earlier cut, were cut off; for the operator.
    pub cut_at: Option<u64>,
    /// Where synced data is damaged, lowest first. The log was read on after it.
    pub damage: Vec<Damage>,
    log: Log,
}

impl Recovered {
    /// The log, ready to append. Call this only when everything in `rewrite` was written and synced: from then on all recovered records
    /// count as durable, and messages that depend on them may leave.
    pub fn rewritten(self) -> Log {
        self.log
    }
}

#[cfg(test)]
mod tests;
