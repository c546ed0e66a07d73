//! Reads everything at rest, file by file, and compares it: header, both footers, both copies of the manifest, then every record in the
//! manifest. What exists twice is repaired here; a rotten part of the image is reported, and peers have it.

use std::collections::VecDeque;

use bytes::Bytes;
use quorate_types::Seq;

use super::RotAt;
use super::file::{FOOTER, Footer, HEADER, RECORD, header};
use super::files::{Files, is_shortage};
use super::layout::Layout;
use super::reader::{Catalog, is_sound, read_copy, read_layout};
use super::writer::{STEP_BYTES, Trouble};

/// A run over all files that were there when it began.
pub(crate) struct Scrub {
    files: VecDeque<Seq>,
    current: Option<Current>,
    bytes: u64,
}

struct Current {
    footer: Footer,
    layout: Layout,
    next: u32,
}

/// The findings of a step.
pub(crate) enum Found {
    /// Damage in the file of a checkpoint, at a record; 0 stands for what belongs to no part.
    Rot { seq: Seq, at: u64, place: RotAt },
    /// Something that exists twice was repaired.
    Mended { seq: Seq, place: RotAt },
    /// A repair failed.
    Failed(Trouble),
}

impl Scrub {
    pub(crate) fn over(catalog: &Catalog) -> Self {
        Self { files: catalog.footers.keys().copied().collect(), current: None, bytes: 0 }
    }
    pub(crate) fn is_finished(&self) -> bool {
        self.files.is_empty() && self.current.is_none()
    }
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads about 1 MiB, or the manifest of one file. Returns how much was read, and the findings.
    pub(crate) fn step(&mut self, files: &mut dyn Files, catalog: &Catalog) -> (u64, Vec<Found>) {
        let mut found = Vec::new();
        let bytes = match self.current.take() {
            Some(current) if catalog.footers.get(&current.footer.seq) == Some(&current.footer) => {
                self.records(files, current, &mut found)
            }
            Some(_) => 0,
            None => self.next_file(files, catalog, &mut found),
        };
        self.bytes += bytes;
        (bytes, found)
    }

    fn next_file(&mut self, files: &mut dyn Files, catalog: &Catalog, found: &mut Vec<Found>) -> u64 {
        let Some(footer) = self.files.pop_front().and_then(|seq| catalog.footers.get(&seq)) else { return 0 };
        let seq = footer.seq;
        let layout = match read_layout(files, footer) {
            Ok(layout) => layout,
            Err(why) => {
                if why.is_rot() {
                    found.push(Found::Rot { seq, at: 0, place: RotAt::Whole });
                }
                return 2 * footer.layout_len;
            }
        };
        let bytes = copies(files, footer, &layout, found);
        self.current = Some(Current { footer: footer.clone(), layout, next: 0 });
        bytes
    }

    fn records(&mut self, files: &mut dyn Files, mut current: Current, found: &mut Vec<Found>) -> u64 {
        let Current { footer, layout, next } = &mut current;
        let (name, parts) = (footer.name(), layout.manifest.parts());
        let mut bytes = 0;
        while bytes < STEP_BYTES && *next < parts {
            let part = *next;
            *next += 1;
            let at = layout.places[part as usize];
            if at == 0 {
                continue;
            }
            let len = RECORD as usize + layout.manifest.part_len(part).unwrap_or(0);
            let record = files.read(&name, at, len);
            bytes += len as u64;
            let rotten = match record {
                Ok(record) => !is_sound(&layout.manifest, part, &record),
                Err(error) => !is_shortage(&error), // a later scrub looks again
            };
            if rotten {
                found.push(Found::Rot { seq: footer.seq, at, place: RotAt::Part(part) });
            }
        }
        self.current = (current.next < parts).then_some(current);
        bytes
    }
}

/// Compares everything in a file that exists twice, and repairs it.
fn copies(files: &mut dyn Files, footer: &Footer, layout: &Layout, found: &mut Vec<Found>) -> u64 {
    let (seq, name, len) = (footer.seq, footer.name(), footer.file_len());
    let (manifest, foot): (Bytes, _) =
        (Layout::encode(&layout.manifest, &layout.places).into(), footer.encode());
    if files.len(&name).is_ok_and(|there| there < len) {
        found.push(Found::Rot { seq, at: 0, place: RotAt::Copy });
        found.push(match lengthen(files, footer, [&manifest, &manifest, &foot, &foot]) {
            Ok(()) => Found::Mended { seq, place: RotAt::Copy },
            Err(trouble) => Found::Failed(trouble),
        });
    }
    let mut bytes = 0;
    let mut compare = |files: &mut dyn Files, at: u64, right: &Bytes| {
        bytes += right.len() as u64;
        match files.read(&name, at, right.len()) {
            Ok(there) if there == right => return,
            Err(error) if is_shortage(&error) => return,
            Ok(_) | Err(_) => {}
        }
        found.push(Found::Rot { seq, at: 0, place: RotAt::Copy });
        let written = files.write_at(&name, at, right).map_err(Trouble::write(&name));
        found.push(match written.and_then(|()| files.sync(&name).map_err(Trouble::sync(&name))) {
            Ok(()) => Found::Mended { seq, place: RotAt::Copy },
            Err(trouble) => Found::Failed(trouble),
        });
    };
    compare(files, 0, &Bytes::copy_from_slice(&header(footer.kind, footer.border)));
    debug_assert!(HEADER <= footer.layout_at);
    for copy in 0..2 {
        // Read as a whole only when it is not what its digest says: nothing is compared twice.
        match read_copy(files, &name, footer, copy) {
            Ok(Some(there)) => debug_assert!(there == manifest),
            _ => compare(files, footer.layout_at + copy * footer.layout_len, &manifest),
        }
    }
    for copy in [1, 2] {
        compare(files, len - copy * FOOTER, &foot);
    }
    bytes + 2 * footer.layout_len
}

/// Appends what a file lacks at its end: a part of what exists twice, since one copy of the manifest is there.
fn lengthen(files: &mut dyn Files, footer: &Footer, ends: [&Bytes; 4]) -> Result<(), Trouble> {
    let name = footer.name();
    let mut there = files.len(&name).map_err(Trouble::write(&name))?.saturating_sub(footer.layout_at);
    let mut missing = Vec::new();
    for end in ends {
        let len = end.len() as u64;
        if there < len {
            missing.push(end.slice(there as usize..));
        }
        there = there.saturating_sub(len);
    }
    files.append(&name, &missing).map_err(Trouble::write(&name))?;
    files.sync(&name).map_err(Trouble::sync(&name))
}
