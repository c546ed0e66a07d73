//! The stream of a plain service as objects: pieces of [`PIECE`] bytes, the last one shorter. Their keys are their numbers from 0 (u64,
//! big-endian, so that key order is stream order). Equal streams give equal objects. Tests: `tests/all/kinds.rs`.

use crate::checkpoint::{CheckpointError, CheckpointSink, CheckpointSource};
use crate::service::Service;
use quorate_state::store::{Range, Store, Version};

/// Bytes in a piece: small compared with one transfer or write, large compared with the overhead of an object.
const PIECE: usize = 16 << 10;

/// Writes the service's stream into `store`; only the pieces that changed.
pub(crate) fn cut(service: &dyn Service, store: &mut Store) -> Result<(), CheckpointError> {
    let mut cutter = Cutter { store, piece: Vec::with_capacity(PIECE), number: 0 };
    service.checkpoint(&mut cutter)?;
    if !cutter.piece.is_empty() {
        cutter.put();
    }
    let Cutter { store, number, .. } = cutter;
    let end = number.to_be_bytes();
    let over: Vec<Vec<u8>> = store.range(&end, None).map(|(key, _)| key.to_vec()).collect();
    for key in over {
        store.remove(&key);
    }
    Ok(())
}

struct Cutter<'a> {
    store: &'a mut Store,
    piece: Vec<u8>,
    number: u64,
}

impl Cutter<'_> {
    fn put(&mut self) {
        let key = self.number.to_be_bytes();
        if self.store.get(&key) != Some(&self.piece) {
            self.store.put(&key, &self.piece);
        }
        self.piece.clear();
        self.number += 1;
    }
}

impl CheckpointSink for Cutter<'_> {
    fn write(&mut self, mut bytes: &[u8]) -> Result<(), CheckpointError> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PIECE - self.piece.len()));
            self.piece.extend_from_slice(now);
            bytes = later;
            if self.piece.len() == PIECE {
                self.put();
            }
        }
        Ok(())
    }
}

/// Whether these objects are the pieces of a stream. Call this before a service reads them.
pub(crate) fn check(objects: &Version) -> Result<(), CheckpointError> {
    let mut last = PIECE;
    for (number, (key, piece)) in (0_u64..).zip(objects.range(b"", None)) {
        if key != number.to_be_bytes() || last != PIECE || piece.is_empty() || piece.len() > PIECE {
            return Err(CheckpointError::Malformed("the pieces of a service's stream"));
        }
        last = piece.len();
    }
    Ok(())
}

/// The stream that the pieces make.
pub(crate) struct Joined<'a> {
    pieces: Range<'a>,
    piece: &'a [u8],
}

impl<'a> Joined<'a> {
    pub(crate) fn new(objects: &'a Version) -> Self {
        Self { pieces: objects.range(b"", None), piece: &[] }
    }
}

impl CheckpointSource for Joined<'_> {
    fn read(&mut self, into: &mut [u8]) -> Result<usize, CheckpointError> {
        if self.piece.is_empty()
            && let Some((_, piece)) = self.pieces.next()
        {
            self.piece = piece;
        }
        self.piece.read(into)
    }
}
