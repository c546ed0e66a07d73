//! The bytes of a checkpoint. The service and the session table write and read them through these two traits, whether the other end is a
//! file, a peer or a test.

use std::fmt;

/// Why a checkpoint could not be written or read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The bytes end too early.
    CutOff,
    /// The bytes are no checkpoint. Names the part that is wrong.
    Malformed(&'static str),
    /// The storage behind the sink or source failed.
    Storage(String),
    /// The state is that of a version of the service that this program does not have.
    ServiceTooOld {
        /// The level of the service in the state.
        level: u32,
        /// The highest version of this program.
        version: u32,
    },
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CutOff => f.write_str("the checkpoint is cut off"),
            Self::Malformed(what) => write!(f, "the checkpoint is malformed: {what}"),
            Self::ServiceTooOld { level, version } => {
                write!(
                    f,
                    "the service is at version {level} there, and this program has version {version} at most"
                )
            }
            Self::Storage(why) => write!(f, "the checkpoint could not be written or read: {why}"),
        }
    }
}

impl std::error::Error for CheckpointError {}

/// Takes a checkpoint's bytes, in order.
pub trait CheckpointSink {
    /// Takes all of `bytes`.
    ///
    /// # Errors
    /// When the storage failed; the checkpoint is then given up.
    fn write(&mut self, bytes: &[u8]) -> Result<(), CheckpointError>;
}

impl CheckpointSink for Vec<u8> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), CheckpointError> {
        self.extend_from_slice(bytes);
        Ok(())
    }
}

/// Gives a checkpoint's bytes, in order.
pub trait CheckpointSource {
    /// Fills the front of `into` and gives the number of bytes. It is 0 only at the end, or when `into` is empty.
    ///
    /// # Errors
    /// When the storage failed.
    fn read(&mut self, into: &mut [u8]) -> Result<usize, CheckpointError>;
}

impl CheckpointSource for &[u8] {
    fn read(&mut self, into: &mut [u8]) -> Result<usize, CheckpointError> {
        let (now, later) = self.split_at(into.len().min(self.len()));
        into[..now.len()].copy_from_slice(now);
        *self = later;
        Ok(now.len())
    }
}

/// Fills all of `into`.
///
/// # Errors
/// When the source ends before that, or fails.
pub fn read_exact(from: &mut dyn CheckpointSource, mut into: &mut [u8]) -> Result<(), CheckpointError> {
    while !into.is_empty() {
        match from.read(into)? {
            0 => return Err(CheckpointError::CutOff),
            count => into = into.get_mut(count..).ok_or(CheckpointError::Malformed("source"))?,
        }
    }
    Ok(())
}

/// The rest of the source, up to `max` bytes.
///
/// # Errors
/// When there is more, or the source fails.
pub fn read_all(from: &mut dyn CheckpointSource, max: usize) -> Result<Vec<u8>, CheckpointError> {
    let mut all = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let count = from.read(&mut piece)?;
        if count == 0 {
            return Ok(all);
        }
        if count > max - all.len() {
            return Err(CheckpointError::Malformed("more bytes than expected"));
        }
        all.extend_from_slice(piece.get(..count).ok_or(CheckpointError::Malformed("source"))?);
    }
}

/// Appends the next `len` bytes to `out`, piece by piece: a false length in a damaged checkpoint reserves no memory.
///
/// # Errors
/// When the source ends before that, or fails.
pub fn read_append(
    from: &mut dyn CheckpointSource,
    len: usize,
    out: &mut Vec<u8>,
) -> Result<(), CheckpointError> {
    let end = out.len() + len;
    while out.len() < end {
        let at = out.len();
        out.resize(end.min(at + 4096), 0);
        read_exact(from, &mut out[at..])?;
    }
    Ok(())
}

/// Stands where the next key's length would be, behind the last object of a stream.
pub(crate) const NO_MORE_OBJECTS: u32 = u32::MAX;

/// Writes an object into a stream of objects, which are in key order: `key length u32 | value length u32 | key | value`.
pub(crate) fn write_object(
    out: &mut dyn CheckpointSink,
    key: &[u8],
    value: &[u8],
) -> Result<(), CheckpointError> {
    for len in [key.len(), value.len()] {
        let len = u32::try_from(len).ok().filter(|len| *len != NO_MORE_OBJECTS);
        out.write(&len.ok_or(CheckpointError::Malformed("an object's length"))?.to_le_bytes())?;
    }
    out.write(key)?;
    out.write(value)
}

pub(crate) fn read_u8(from: &mut dyn CheckpointSource) -> Result<u8, CheckpointError> {
    let mut byte = [0];
    read_exact(from, &mut byte)?;
    Ok(byte[0])
}

pub(crate) fn read_u32(from: &mut dyn CheckpointSource) -> Result<u32, CheckpointError> {
    let mut bytes = [0; 4];
    read_exact(from, &mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

pub(crate) fn read_u64(from: &mut dyn CheckpointSource) -> Result<u64, CheckpointError> {
    let mut bytes = [0; 8];
    read_exact(from, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}
