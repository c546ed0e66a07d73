//! One checkpoint's file, from the capture ahead of its border to its publication, a bounded piece at a time.
//!
//! Its bytes depend only on the version captured ahead, the image, the kind, and the manifest of the border before; they do not depend on
//! when a piece is written. (Distler, habilitation, section 5.2: state capture, then completion.)

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use quorate_types::{Digest, planted};

use super::file::{self, Footer, HEADER, Previous, RECORD};
use super::files::{Files, is_no_room};
use super::layout::Layout;
use super::manifest::{ChunkEntry, Manifest, Part};
use super::partial::{PARTIAL, Written};
use super::reader::same_part;
use super::{Image, Instead, Kind, chunk};
use crate::store::{self, Version};

/// About how much one step reads or writes.
pub(crate) const STEP_BYTES: u64 = 1 << 20;
/// The file is synced after this many bytes, so that little is left to sync in the end.
const SYNC_BYTES: u64 = 8 << 20;
/// About how much of the objects one step computes digests of.
const DIGEST_BYTES: u64 = 1 << 20;

/// The parts of a version whose digests are not known, each small enough for one step.
pub(crate) fn digest_parts(version: &Version) -> std::vec::IntoIter<store::Part> {
    version.parts((version.bytes() / DIGEST_BYTES) as usize + 1).into_iter()
}

/// Why a write did not succeed.
#[derive(Debug)]
pub(crate) enum Trouble {
    NoRoom,
    Failed { what: String, sync: bool },
}

impl Trouble {
    pub(crate) fn write(name: &str) -> impl FnOnce(io::Error) -> Self {
        Self::of(format!("write {name}"), false)
    }
    pub(crate) fn sync(name: &str) -> impl FnOnce(io::Error) -> Self {
        Self::of(format!("sync {name}"), true)
    }
    fn of(what: String, sync: bool) -> impl FnOnce(io::Error) -> Self {
        move |error| match is_no_room(&error) {
            true => Self::NoRoom,
            false => Self::Failed { what: format!("{what}: {error}"), sync },
        }
    }
}

/// A border that was reached, and its digest.
pub(crate) struct Target {
    pub(crate) image: Image,
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) digest: Digest,
    pub(crate) asked: Kind,
    pub(crate) install: bool,
}

/// The base of a differential checkpoint.
pub(crate) struct Base {
    pub(crate) previous: Previous,
    pub(crate) manifest: Arc<Manifest>,
}

pub(crate) struct Writer {
    pub(crate) name: String,
    pub(crate) border: u64,
    pub(crate) kind: Kind,
    pub(crate) instead: Option<Instead>,
    pub(crate) target: Option<Target>,
    pub(crate) base: Option<Base>,
    ahead: Option<Version>,
    /// The manifest of the border before the captured one: its chunks that did not change since are likely to stay.
    before: Option<Arc<Manifest>>,
    stage: Stage,
    /// How much of the file is written, and how much of that since the last sync.
    len: u64,
    unsynced: u64,
    /// The captured chunks in key order, and where their records are.
    captured: Vec<(ChunkEntry, u64)>,
    /// The offset of each part of the image; 0: in the file of an earlier border.
    places: Vec<u64>,
    /// Memory for what is written at once.
    memory: Vec<u8>,
    /// Only with a planted bug: it was already reported as durable.
    pub(crate) said: bool,
}

enum Stage {
    Create,
    /// Computes digests of the version ahead; most are known already.
    Digest(std::vec::IntoIter<store::Part>),
    Capture {
        chunks: Vec<ChunkEntry>,
    },
    /// Waits for the border.
    Wait,
    Compare,
    Parts {
        todo: std::vec::IntoIter<u32>,
    },
    Tail {
        tail: std::vec::IntoIter<Bytes>,
        footer: Footer,
    },
    Publish {
        footer: Footer,
    },
    /// There was no room for the capture; it starts over when the border is reached.
    Parked,
}

/// The result of a writer's step.
pub(crate) enum Outcome {
    Worked(u64),
    /// Nothing can be done before the border is reached.
    Waiting,
    /// The file is durable under its name.
    Published(Footer),
}

impl Writer {
    /// A full checkpoint whose border is not reached yet. Chunks that changed since the border before are not captured, since chunks that
    /// change often would be written in vain.
    pub(crate) fn ahead(border: u64, version: Version, before: Option<Arc<Manifest>>) -> Self {
        Self {
            name: file::unfinished_name(border),
            border,
            kind: Kind::Full,
            instead: None,
            target: None,
            base: None,
            ahead: Some(version),
            before,
            stage: Stage::Create,
            len: 0,
            unsynced: 0,
            captured: Vec::new(),
            places: Vec::new(),
            memory: Vec::new(),
            said: false,
        }
    }

    /// A checkpoint of an image, without a capture.
    pub(crate) fn of(target: Target, kind: Kind, base: Option<Base>, instead: Option<Instead>) -> Self {
        let border = target.image.border;
        let name = file::unfinished_name(border);
        let empty = Self::ahead(border, Version::default(), None);
        Self { name, kind, base, instead, ahead: None, target: Some(target), ..empty }
    }

    /// A fetched image whose first parts were written while the others came. The file is as if it had been written at once.
    pub(crate) fn of_fetched(target: Target, written: Written) -> Self {
        let manifest = &target.manifest;
        let mut places = vec![0; manifest.parts() as usize];
        let mut len = HEADER;
        for (part, place) in (0..written.parts).zip(&mut places) {
            *place = len;
            len += RECORD + manifest.part_len(part).unwrap_or(0) as u64;
        }
        assert!(len == written.len, "INV-KEEP-3 a file's bytes follow from the image");
        let todo: Vec<u32> = (written.parts..manifest.parts()).collect();
        let stage = Stage::Parts { todo: todo.into_iter() };
        Self { name: PARTIAL.into(), places, len, stage, ..Self::of(target, Kind::Full, None, None) }
    }

    /// The border of the capture was reached.
    pub(crate) fn complete(&mut self, target: Target) {
        assert!(
            self.target.is_none() && self.border == target.image.border && target.asked == Kind::Full,
            "INV-KEEP-2 a capture is completed once, by the border that it was made for"
        );
        self.target = Some(target);
        if matches!(self.stage, Stage::Parked) {
            self.stage = Stage::Create;
        }
    }

    /// There is no room: start over when the border is reached.
    pub(crate) fn park(&mut self) {
        self.captured.clear();
        self.stage = Stage::Parked;
    }

    /// Whether a file was begun.
    pub(crate) fn has_file(&self) -> bool {
        !matches!(self.stage, Stage::Parked)
    }

    /// How much of the file is written.
    pub(crate) fn written(&self) -> u64 {
        self.len
    }

    pub(crate) fn step(&mut self, files: &mut dyn Files) -> Result<Outcome, Trouble> {
        let (stage, bytes) = match std::mem::replace(&mut self.stage, Stage::Parked) {
            Stage::Create => self.create(files)?,
            Stage::Digest(parts) => (self.digest(parts), 0),
            Stage::Capture { chunks } => self.capture(files, chunks)?,
            Stage::Wait if self.target.is_some() => (Stage::Compare, 0),
            stage @ (Stage::Wait | Stage::Parked) => {
                self.stage = stage;
                return Ok(Outcome::Waiting);
            }
            Stage::Compare => (self.compare(), 0),
            Stage::Parts { todo } => self.parts(files, todo)?,
            Stage::Tail { tail, footer } => self.tail(files, tail, footer)?,
            Stage::Publish { footer } => {
                files.sync(&self.name).map_err(Trouble::sync(&self.name))?;
                files.publish(&self.name, &footer.name()).map_err(Trouble::sync(&self.name))?;
                return Ok(Outcome::Published(footer));
            }
        };
        self.stage = stage;
        Ok(Outcome::Worked(bytes))
    }

    /// Whether everything is written, but not durable yet. For a planted bug.
    pub(crate) fn is_only_written(&self) -> bool {
        matches!(self.stage, Stage::Publish { .. })
    }

    fn create(&mut self, files: &mut dyn Files) -> Result<(Stage, u64), Trouble> {
        files.create(&self.name).map_err(Trouble::write(&self.name))?;
        (self.len, self.unsynced) = (0, 0);
        let header = Bytes::copy_from_slice(&file::header(self.kind, self.border));
        let bytes = self.append(files, &[header])?;
        let stage = match &self.ahead {
            Some(version) => Stage::Digest(digest_parts(version)),
            None => Stage::Wait,
        };
        Ok((stage, bytes))
    }

    fn digest(&self, mut parts: std::vec::IntoIter<store::Part>) -> Stage {
        if let Some(part) = parts.next() {
            part.digest();
            return Stage::Digest(parts);
        }
        let chunks = self.ahead.iter().flat_map(Version::chunks).map(|chunk| ChunkEntry::of(&chunk));
        let stays = |chunk: &ChunkEntry| self.before.as_ref().is_none_or(|before| before.has(chunk));
        Stage::Capture { chunks: chunks.filter(stays).collect() }
    }

    /// Writes chunks of the version ahead. The version is released as soon as they are all written.
    fn capture(&mut self, files: &mut dyn Files, chunks: Vec<ChunkEntry>) -> Result<(Stage, u64), Trouble> {
        let mut batch = Batch::new(self.len, std::mem::take(&mut self.memory));
        if let Some(version) = &self.ahead {
            for entry in &chunks[self.captured.len()..] {
                if batch.is_full() {
                    break;
                }
                let place = batch.add(|out| chunk::append_chunk(version, entry, out));
                self.captured.push((entry.clone(), place));
            }
        }
        let bytes = self.append_batch(files, batch)?;
        if self.captured.len() < chunks.len() {
            return Ok((Stage::Capture { chunks }, bytes));
        }
        self.ahead = None;
        Ok((Stage::Wait, bytes))
    }

    /// Finds the parts of the image that are in no file yet.
    fn compare(&mut self) -> Stage {
        let Some(target) = &self.target else { return Stage::Wait };
        let manifest = &target.manifest;
        self.places = vec![0; manifest.parts() as usize];
        let mut todo = Vec::new();
        for part in 0..manifest.parts() {
            let in_base = self
                .base
                .as_ref()
                .is_some_and(|base| same_part(manifest, part, &base.manifest, false).is_some());
            match self.captured_at(manifest, part) {
                Some(place) => self.places[part as usize] = place,
                None if in_base => {}
                None => todo.push(part),
            }
        }
        self.captured = Vec::new();
        Stage::Parts { todo: todo.into_iter() }
    }

    /// Where the same chunk was captured.
    fn captured_at(&self, manifest: &Manifest, part: u32) -> Option<u64> {
        let Part::Chunk(chunk) = manifest.split(part)? else { return None };
        let at = self.captured.binary_search_by(|(found, _)| found.path.cmp(&chunk.path)).ok()?;
        let (found, place) = &self.captured[at];
        (found.digest == chunk.digest || planted("change-lost-after-copy")).then_some(*place)
    }

    fn parts(
        &mut self,
        files: &mut dyn Files,
        mut todo: std::vec::IntoIter<u32>,
    ) -> Result<(Stage, u64), Trouble> {
        let Some(target) = &self.target else { return Ok((Stage::Wait, 0)) };
        let mut batch = Batch::new(self.len, std::mem::take(&mut self.memory));
        while !batch.is_full()
            && let Some(part) = todo.next()
        {
            self.places[part as usize] = batch.add_part(&target.image, &target.manifest, part);
        }
        let bytes = self.append_batch(files, batch)?;
        let stage = if todo.len() > 0 { Stage::Parts { todo } } else { self.close() };
        Ok((stage, bytes))
    }

    /// The stage after all parts are written.
    fn close(&self) -> Stage {
        let Some(target) = &self.target else { return Stage::Wait };
        let layout: Bytes = Layout::encode(&target.manifest, &self.places).into();
        let footer = Footer {
            kind: self.kind,
            seq: target.image.seq,
            border: self.border,
            previous: self.base.as_ref().map(|base| base.previous),
            digest: target.digest,
            layout_at: self.len,
            layout_len: layout.len() as u64,
            layout_digest: Digest::new(*blake3::hash(&layout).as_bytes()),
        };
        let cut = |from: usize| layout.slice(from..layout.len().min(from + STEP_BYTES as usize));
        let copy = (0..layout.len()).step_by(STEP_BYTES as usize).map(cut);
        let mut tail: Vec<Bytes> = copy.clone().chain(copy).collect();
        tail.extend([footer.encode(), footer.encode()]);
        Stage::Tail { tail: tail.into_iter(), footer }
    }

    fn tail(
        &mut self,
        files: &mut dyn Files,
        mut tail: std::vec::IntoIter<Bytes>,
        footer: Footer,
    ) -> Result<(Stage, u64), Trouble> {
        let mut parts = Vec::new();
        let mut len = 0;
        while len < STEP_BYTES as usize
            && let Some(part) = tail.next()
        {
            len += part.len();
            parts.push(part);
        }
        let bytes = self.append(files, &parts)?;
        if tail.len() > 0 {
            return Ok((Stage::Tail { tail, footer }, bytes));
        }
        assert!(self.len == footer.file_len(), "INV-KEEP-3 a file is as long as its footer says");
        Ok((Stage::Publish { footer }, bytes))
    }

    fn append_batch(&mut self, files: &mut dyn Files, batch: Batch) -> Result<u64, Trouble> {
        let parts = [batch.bytes.into()];
        let bytes = self.append(files, &parts)?;
        self.memory = reused(parts);
        Ok(bytes)
    }

    fn append(&mut self, files: &mut dyn Files, parts: &[Bytes]) -> Result<u64, Trouble> {
        let bytes: u64 = parts.iter().map(|part| part.len() as u64).sum();
        if bytes == 0 {
            return Ok(0);
        }
        files.append(&self.name, parts).map_err(Trouble::write(&self.name))?;
        self.len += bytes;
        self.unsynced += bytes;
        if self.unsynced >= SYNC_BYTES {
            files.sync(&self.name).map_err(Trouble::sync(&self.name))?;
            self.unsynced = 0;
        }
        Ok(bytes)
    }
}

/// Records that are written at once. A byte of the state is copied once on its way to the disk: into here.
pub(crate) struct Batch {
    pub(crate) bytes: Vec<u8>,
    /// Where in the file they begin.
    at: u64,
}

/// Takes back the memory of bytes that were written, so that it is not cleared again for the next ones.
pub(crate) fn reused([mut bytes]: [Bytes; 1]) -> Vec<u8> {
    // What is left is moved to the beginning of the memory.
    bytes.clear();
    bytes.into()
}

impl Batch {
    pub(crate) fn new(at: u64, memory: Vec<u8>) -> Self {
        let mut bytes = memory;
        bytes.reserve(STEP_BYTES as usize + (STEP_BYTES / 8) as usize);
        Self { bytes, at }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() as u64 >= STEP_BYTES
    }

    /// Adds the record of a part of an image. Returns its offset.
    pub(crate) fn add_part(&mut self, image: &Image, manifest: &Manifest, part: u32) -> u64 {
        self.add(|out| append_part(image, manifest, part, out))
    }

    /// Adds a record with the bytes that `body` appends. Returns its offset.
    fn add(&mut self, body: impl FnOnce(&mut Vec<u8>)) -> u64 {
        let (from, body_from) = (self.bytes.len(), self.bytes.len() + RECORD as usize);
        self.bytes.resize(body_from, 0);
        body(&mut self.bytes);
        let head = file::record_head(&self.bytes[body_from..]);
        self.bytes[from..body_from].copy_from_slice(&head);
        self.at + from as u64
    }
}

/// The bytes of a part of an image whose manifest this is.
pub(crate) fn part_bytes(image: &Image, manifest: &Manifest, part: u32) -> Bytes {
    let mut out = Vec::with_capacity(manifest.part_len(part).unwrap_or(0));
    append_part(image, manifest, part, &mut out);
    out.into()
}

fn append_part(image: &Image, manifest: &Manifest, part: u32, out: &mut Vec<u8>) {
    match manifest.split(part) {
        Some(Part::Chunk(entry)) => chunk::append_chunk(&image.objects, entry, out),
        Some(Part::Piece(_)) => {
            let piece = image.system.piece(part as usize);
            piece.iter().for_each(|piece| out.extend_from_slice(piece));
        }
        None => {}
    }
}
