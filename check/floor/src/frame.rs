//! The bytes between leader and follower, which are the log.
//!
//! A frame is a header of 16 bytes and whole commands. Header, little-endian: `u32` length of the commands,
//! `u32` zero, `u64` number of commands before this frame.

/// Size of the header.
pub(crate) const HEADER: usize = 16;
/// The most command bytes in one frame.
pub(crate) const BODY_BYTES_MAX: usize = 1 << 20;

/// One frame being filled, or a full one that is shared by the followers' sockets and the disk thread.
pub(crate) struct Frame {
    bytes: Vec<u8>,
    len: usize,
}

impl Frame {
    /// An empty frame with room for `body` command bytes.
    pub(crate) fn new(body: usize) -> Frame {
        Frame { bytes: vec![0; HEADER + body], len: 0 }
    }

    /// Where command bytes go.
    pub(crate) fn body(&mut self) -> &mut [u8] {
        &mut self.bytes[HEADER..]
    }

    /// Closes the frame over the first `body` command bytes.
    pub(crate) fn seal(&mut self, body: usize, commands_before: u64) {
        self.bytes[..4].copy_from_slice(&(body as u32).to_le_bytes());
        self.bytes[4..8].fill(0);
        self.bytes[8..HEADER].copy_from_slice(&commands_before.to_le_bytes());
        self.len = HEADER + body;
    }

    /// The sealed frame as it is sent and written.
    pub(crate) fn sealed(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The commands of one frame, and the bytes behind it.
type Parts<'a> = (&'a [u8], &'a [u8]);

/// Splits the first frame off `bytes`: its commands and what follows. `Ok(None)`: it is not all there yet.
/// `Err`: this is no frame of at most `body_max` bytes after `commands` commands.
pub(crate) fn split(bytes: &[u8], body_max: usize, commands: u64) -> Result<Option<Parts<'_>>, &'static str> {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() else { return Ok(None) };
    let [a, b, c, d, _, _, _, _, before @ ..] = *header;
    let len = u32::from_le_bytes([a, b, c, d]) as usize;
    if len > body_max {
        return Err("a frame longer than the batch limit");
    }
    if u64::from_le_bytes(before) != commands {
        return Err("a gap between frames");
    }
    Ok(rest.split_at_checked(len))
}

/// Wrapping sum of the 8-byte words: it touches every byte, so that "received" means received.
#[inline]
pub(crate) fn touch(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let whole = words.iter().fold(0u64, |sum, w| sum.wrapping_add(u64::from_le_bytes(*w)));
    rest.iter().fold(whole, |sum, b| sum.wrapping_add(u64::from(*b)))
}

#[cfg(test)]
mod tests;
