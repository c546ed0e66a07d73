//! Checkpoints of a replica that keeps nothing on disk. Other replicas can still fetch them.

use super::check;
use bytes::{Bytes, BytesMut};
use quorate_state::checkpoint::Files;
use std::collections::BTreeMap;
use std::io;

/// A piece of a file, and its offset.
struct Piece {
    offset: u64,
    bytes: Bytes,
}

/// The appended pieces as they came, without copies.
#[derive(Default)]
struct Contents {
    pieces: Vec<Piece>,
    len: u64,
}

impl Contents {
    /// The index of the first piece with bytes behind `offset`.
    fn at(&self, offset: u64) -> usize {
        self.pieces.partition_point(|piece| piece.offset + piece.bytes.len() as u64 <= offset)
    }

    fn append(&mut self, bytes: &Bytes) {
        if !bytes.is_empty() {
            self.pieces.push(Piece { offset: self.len, bytes: bytes.clone() });
            self.len += bytes.len() as u64;
        }
    }

    /// The end of a range, which must lie within the file.
    fn end(&self, offset: u64, len: usize) -> io::Result<u64> {
        let end = offset.checked_add(len as u64).filter(|end| *end <= self.len);
        end.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    fn read(&self, offset: u64, len: usize) -> io::Result<Bytes> {
        let end = self.end(offset, len)?;
        let mut read = BytesMut::new();
        for piece in &self.pieces[self.at(offset)..] {
            if piece.offset >= end {
                break;
            }
            let from = offset.saturating_sub(piece.offset) as usize;
            let to = (end - piece.offset).min(piece.bytes.len() as u64) as usize;
            if to - from == len {
                return Ok(piece.bytes.slice(from..to));
            }
            read.extend_from_slice(&piece.bytes[from..to]);
        }
        Ok(read.freeze())
    }

    fn truncate(&mut self, len: u64) {
        if len >= self.len {
            return;
        }
        self.pieces.retain(|piece| piece.offset < len);
        if let Some(last) = self.pieces.last_mut() {
            let left = (len - last.offset).min(last.bytes.len() as u64);
            last.bytes.truncate(left as usize);
        }
        self.len = len;
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let end = self.end(offset, bytes.len())?;
        let first = self.at(offset);
        for piece in &mut self.pieces[first..] {
            if piece.offset >= end {
                break;
            }
            // Somebody may hold the piece: a new one takes its place.
            let mut whole = piece.bytes.to_vec();
            let from = offset.saturating_sub(piece.offset) as usize;
            let to = (end - piece.offset).min(whole.len() as u64) as usize;
            let source = (piece.offset + from as u64 - offset) as usize;
            whole[from..to].copy_from_slice(&bytes[source..source + (to - from)]);
            piece.bytes = Bytes::from(whole);
        }
        Ok(())
    }
}

/// Files in memory; they end with the process.
#[derive(Default)]
pub struct MemoryFiles {
    files: BTreeMap<String, Contents>,
}

impl MemoryFiles {
    /// An empty directory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of all files together.
    pub fn bytes(&self) -> u64 {
        self.files.values().map(|contents| contents.len).sum()
    }

    fn file(&mut self, name: &str) -> io::Result<&mut Contents> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, format!("there is no file {name}"));
        self.files.get_mut(name).ok_or_else(missing)
    }
}

impl Files for MemoryFiles {
    fn list(&mut self) -> io::Result<Vec<String>> {
        Ok(self.files.keys().cloned().collect())
    }

    fn len(&mut self, name: &str) -> io::Result<u64> {
        self.file(name).map(|contents| contents.len)
    }

    fn read(&mut self, name: &str, offset: u64, len: usize) -> io::Result<Bytes> {
        self.file(name)?.read(offset, len)
    }

    fn create(&mut self, name: &str) -> io::Result<()> {
        check(name)?;
        self.files.insert(name.to_owned(), Contents::default());
        Ok(())
    }

    fn append(&mut self, name: &str, parts: &[Bytes]) -> io::Result<()> {
        let file = self.file(name)?;
        parts.iter().for_each(|part| file.append(part));
        Ok(())
    }

    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file(name)?.write_at(offset, bytes)
    }

    fn truncate(&mut self, name: &str, len: u64) -> io::Result<()> {
        self.file(name).map(|contents| contents.truncate(len))
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        self.file(name).map(drop)
    }

    fn publish(&mut self, from: &str, to: &str) -> io::Result<()> {
        check(to)?;
        self.file(from)?;
        if let Some(contents) = self.files.remove(from) {
            self.files.insert(to.to_owned(), contents);
        }
        Ok(())
    }

    fn delete(&mut self, name: &str) -> io::Result<()> {
        self.file(name)?;
        self.files.remove(name);
        Ok(())
    }
}
