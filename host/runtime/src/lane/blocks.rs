//! Memory into which a lane reads, to be used again: clearing it and getting it from the system would cost as much as copying what arrives.
//! A block comes back when the last payload in it is dropped, on whichever thread. Tests: blocks/tests.rs.

use quorate_wire::Memory;
use std::sync::{Mutex, PoisonError};

/// The most bytes of free blocks that a lane keeps.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// Free blocks.
#[derive(Default)]
pub(super) struct Blocks(Mutex<Free>);

#[derive(Default)]
struct Free {
    list: Vec<Vec<u8>>,
    bytes: usize,
}

impl Memory for Blocks {
    fn take(&self, len: usize) -> Option<Vec<u8>> {
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = free.list.iter().rposition(|block| (len..=2 * len).contains(&block.len()))?;
        let block = free.list.remove(at);
        free.bytes -= block.len();
        Some(block)
    }

    fn give(&self, block: Vec<u8>) {
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if block.len() > KEPT_BYTES_MAX / 4 {
            return;
        }
        free.bytes += block.len();
        free.list.push(block);
        // The blocks that nobody wanted for longest go.
        let over = free.bytes.saturating_sub(KEPT_BYTES_MAX);
        let (mut gone, mut count) = (0, 0);
        while gone < over {
            gone += free.list[count].len();
            count += 1;
        }
        free.bytes -= gone;
        free.list.drain(..count);
    }
}

#[cfg(test)]
mod tests;
