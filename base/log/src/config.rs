//! The operator's choices about the log, and their limits.

use crate::format::SECTOR;
use std::fmt;

/// The smallest segment that [`LogConfig::check`] lets an operator choose.
const SEGMENT_BYTES_MIN: u64 = 1 << 20;
/// The largest such segment: offsets within a segment are kept in 32 bits, with a wide margin.
const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// When a record counts as durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// Written and synced; one sync serves everything in a block.
    Group,
    /// Written; synced later. What was not synced is lost when the machine (not only the process) stops.
    Async,
    /// At once: nothing is written, and nothing can be recovered.
    Memory,
}

/// Which records may use the space that is kept back for a full disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Batches: refused before the second half of the reserve is touched. When no new work is taken ([`Log::room`](crate::Log::room)), work
    /// that is under way finds room in the first half, also on followers. So no entry of a leader blocks those after it.
    Data,
    /// Votes, views, locks: small, and without them no leader can be elected. They may use the whole reserve.
    Vital,
}

/// The log's sizes and its durability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// The size of every segment. Positions are computed from it, so it can't change during a log's life.
    pub segment_bytes: u64,
    /// The largest block, and with it the largest record.
    pub block_bytes_max: usize,
    /// The space that is left when work is refused; the second half of it is only for [`Class::Vital`] records.
    pub reserve_bytes: u64,
    /// How many writes may be at the disk at once.
    pub in_flight_max: usize,
    /// How many empty segments are kept ready beyond the one that is being filled.
    pub segments_ahead: u64,
    /// Only [`SyncMode::Async`]: when this many written bytes are not synced, the log asks for a sync by itself.
    pub unsynced_bytes_max: u64,
    /// When a record counts as durable.
    pub sync: SyncMode,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            segment_bytes: 32 << 20,
            block_bytes_max: 8 << 20,
            reserve_bytes: 4 << 20,
            in_flight_max: 2,
            segments_ahead: 1,
            unsynced_bytes_max: 16 << 20,
            sync: SyncMode::Group,
        }
    }
}

/// Sizes that can not work together. The text says which, and what would work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigError(&'static str);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for ConfigError {}

impl LogConfig {
    /// Checks what an operator chose.
    ///
    /// # Errors
    /// Says which size is out of its limits.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.segment_bytes < SEGMENT_BYTES_MIN {
            return Err(ConfigError("a log segment has at least 1 MiB"));
        }
        self.check_shape()
    }

    /// What the logic itself needs. Tests and the simulator use segments far smaller than an operator may.
    pub(crate) fn check_shape(&self) -> Result<(), ConfigError> {
        let sector = SECTOR as u64;
        if !self.segment_bytes.is_multiple_of(sector) || self.segment_bytes > SEGMENT_BYTES_MAX {
            return Err(ConfigError("a log segment is a multiple of 512 bytes and has at most 1 GiB"));
        }
        if self.block_bytes_max < SECTOR || !self.block_bytes_max.is_multiple_of(SECTOR) {
            return Err(ConfigError("the largest log block is a multiple of 512 bytes and not 0"));
        }
        // Even when the segment in use is full up to its last sector, the one after it takes a block of data and then
        // the reserve. Otherwise nothing could be appended, no segment would ever be rolled, and none asked for.
        let block = self.block_bytes_max as u64;
        let least = block.saturating_mul(2).saturating_add(self.reserve_bytes);
        if least > self.segment_bytes {
            return Err(ConfigError("a log segment has room for two of the largest blocks and the reserve"));
        }
        if self.in_flight_max == 0 || self.segments_ahead == 0 {
            return Err(ConfigError("the log needs at least one write in flight and one segment ahead"));
        }
        Ok(())
    }
}
