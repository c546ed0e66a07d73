//! The part of the log that some follower or the disk does not have yet, and the frame being filled.

use crate::frame::{self, Frame};
use std::collections::VecDeque;
use std::sync::Arc;

/// The most bytes of frames that are kept for slow followers and for the disk.
const LOG_BYTES_MAX: usize = 64 << 20;

pub(crate) struct Backlog {
    frames: VecDeque<Sealed>,
    /// Number of the first of `frames`; the log's first frame is number 0.
    first: u64,
    frames_max: usize,
    open: Frame,
    /// Bytes of an incomplete command at the start of `open`.
    carry: usize,
    free: Vec<Frame>,
    body_bytes: usize,
    /// Uncommitted frames: where they end, and how many commands lie before that.
    uncommitted: VecDeque<(u64, u64)>,
    /// Length of the log so far.
    pub(crate) end: u64,
    /// Commands in the log so far.
    pub(crate) commands: u64,
    /// Wrapping sum over the bytes of those commands.
    pub(crate) sum: u64,
}

struct Sealed {
    frame: Arc<Frame>,
    end: u64,
}

impl Backlog {
    pub(crate) fn new(body_bytes: usize) -> Backlog {
        Backlog {
            frames: VecDeque::new(),
            first: 0,
            frames_max: (LOG_BYTES_MAX / (body_bytes + frame::HEADER)).max(8),
            open: Frame::new(body_bytes),
            carry: 0,
            free: Vec::new(),
            body_bytes,
            uncommitted: VecDeque::new(),
            end: 0,
            commands: 0,
            sum: 0,
        }
    }

    /// Whether another frame may be begun.
    pub(crate) fn has_room(&self) -> bool {
        self.frames.len() < self.frames_max
    }

    /// Where the next bytes of commands go.
    pub(crate) fn unfilled(&mut self) -> &mut [u8] {
        &mut self.open.body()[self.carry..]
    }

    /// `n` more bytes of commands are in place: seals the frame if it holds a whole command.
    pub(crate) fn filled(&mut self, n: usize, command_bytes: usize) -> Option<Arc<Frame>> {
        let have = self.carry + n;
        let whole = have / command_bytes * command_bytes;
        if whole == 0 {
            self.carry = have;
            return None;
        }
        let mut next = self.free.pop().unwrap_or_else(|| Frame::new(self.body_bytes));
        self.carry = have - whole;
        let body = self.open.body();
        next.body()[..self.carry].copy_from_slice(&body[whole..have]);
        self.sum = self.sum.wrapping_add(frame::touch(&body[..whole]));
        let mut sealed = std::mem::replace(&mut self.open, next);
        sealed.seal(whole, self.commands);
        self.end += sealed.sealed().len() as u64;
        self.commands += (whole / command_bytes) as u64;
        self.uncommitted.push_back((self.end, self.commands));
        let frame = Arc::new(sealed);
        self.frames.push_back(Sealed { frame: frame.clone(), end: self.end });
        Some(frame)
    }

    /// The frames from number `number` on.
    pub(crate) fn from(&self, number: u64) -> impl Iterator<Item = &Frame> {
        let skip = number.saturating_sub(self.first) as usize;
        self.frames.range(skip.min(self.frames.len())..).map(|s| &*s.frame)
    }

    /// Commands in the frames that end at or below `committed`, if there are more than at the last call.
    pub(crate) fn commit(&mut self, committed: u64) -> Option<u64> {
        let mut news = None;
        while let Some(&(end, commands)) = self.uncommitted.front() {
            if end > committed {
                break;
            }
            news = Some(commands);
            self.uncommitted.pop_front();
        }
        news
    }

    /// Lets go of frames below number `number` that end at or below `durable`, to fill them again.
    pub(crate) fn forget(&mut self, number: u64, durable: u64) {
        while self.first < number && self.frames.front().is_some_and(|s| s.end <= durable) {
            let Some(old) = self.frames.pop_front() else { break };
            self.first += 1;
            // one that the disk thread still holds is freed by it
            self.free.extend(Arc::try_unwrap(old.frame));
        }
    }
}

#[cfg(test)]
mod tests;
