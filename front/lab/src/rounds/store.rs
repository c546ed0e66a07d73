//! Stable storage of a member: what other members ask it to store is written and synced by one thread, all that waits at once, as a replica's
//! log does it.
//!
//! The file has no name, so it disappears with this process, however that ends. It is filled before, so that a sync changes no metadata.

use super::wire::MESSAGE_MAX;
use crossbeam_channel::{Receiver, Sender, bounded};
use quorate_command::failure::{Doing as _, Outcome};
use quorate_command::nameless;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// The size of the file; what is stored later overwrites what was stored first.
const FILE_BYTES: u64 = 16 << 20;

/// Something to store.
pub(super) struct Work {
    bytes: Vec<u8>,
    /// Dropped without a word if it could not be stored.
    done: Sender<Vec<u8>>,
}

/// The way to the thread that stores. When all of these are gone, it ends.
#[derive(Clone)]
pub(super) struct Storing(Sender<Work>);

impl Storing {
    /// Stores these bytes, and gives their memory back when they are on disk; `None` if the disk failed.
    pub(super) fn store(&self, bytes: Vec<u8>) -> Option<Vec<u8>> {
        let (done, stored) = bounded(1);
        self.0.send(Work { bytes, done }).ok()?;
        stored.recv().ok()
    }
}

/// The file, and what waits for it.
pub(super) struct Store {
    file: File,
    waiting: Receiver<Work>,
    at: u64,
}

impl Store {
    /// Makes the file in this directory, for so many members that store at once.
    pub(super) fn open(directory: &Path, members: usize) -> Outcome<(Self, Storing)> {
        let doing = format!("write a file in {}", directory.display());
        let file = nameless::file(directory).doing(&doing)?;
        // No zeros: a disk that compresses would be too good.
        let piece: Vec<u8> =
            (0..1_u32 << 20).map(|at| at.wrapping_mul(0x9e37_79b9).to_le_bytes()[3]).collect();
        let mut at = 0;
        while at < FILE_BYTES {
            file.write_all_at(&piece, at).doing(&doing)?;
            at += piece.len() as u64;
        }
        file.sync_all().doing(&doing)?;
        let (sender, waiting) = bounded(members.max(1));
        Ok((Self { file, waiting, at: 0 }, Storing(sender)))
    }

    /// Stores until nobody wants to any more.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn run(mut self) -> io::Result<()> {
        while let Ok(first) = self.waiting.recv() {
            let batch: Vec<Work> = std::iter::once(first).chain(self.waiting.try_iter()).collect();
            for work in &batch {
                if self.at + MESSAGE_MAX as u64 > FILE_BYTES {
                    self.at = 0;
                }
                self.file.write_all_at(&work.bytes, self.at)?;
                self.at += work.bytes.len() as u64;
            }
            self.file.sync_data()?;
            for Work { bytes, done } in batch {
                // Whoever asked may be gone.
                let _ = done.send(bytes);
            }
        }
        Ok(())
    }
}
