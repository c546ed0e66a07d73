//! One checkpoint's file by itself, such as a backup: what it says, whether every byte is as it was written, and its image.
//!
//! It only reads. The file may have any name, and no other file is read: a differential checkpoint is not a backup. Tests:
//! `tests/all/checkpoint_single.rs`.

use std::{fmt, io};

use bytes::Bytes;
use quorate_types::{Digest, Seq};

use super::file::{Footer, HEADER, RECORD, header};
use super::files::Files;
use super::layout::Layout;
use super::note::read_note;
use super::reader::{
    Catalog, Located, Unreadable, newer_format, read_footer, read_layout, read_part, read_record,
};
use super::scrub::{Found, Scrub};
use super::{Assembly, Image, Kind, Manifest, RotAt, SystemPart};

/// Why a file can't be used by itself.
#[derive(Debug)]
pub enum Unusable {
    /// It is not a checkpoint.
    NoCheckpoint,
    /// A newer program wrote it, in this format.
    Newer(u16),
    /// It holds only the differences from the checkpoint of this seq.
    Differential(Seq),
    /// It is damaged; the text says where.
    Damaged(String),
    /// The system could not read it.
    Io(io::Error),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCheckpoint => f.write_str("it is no checkpoint"),
            Self::Newer(format) => write!(f, "it has format {format}, which is newer than this program"),
            Self::Differential(previous) => {
                write!(f, "it holds only what differs from the checkpoint of seq {previous:#}")
            }
            Self::Damaged(what) => write!(f, "it is damaged: {what}"),
            Self::Io(error) => write!(f, "it can't be read: {error}"),
        }
    }
}

impl std::error::Error for Unusable {}

impl From<Unreadable> for Unusable {
    fn from(why: Unreadable) -> Self {
        match why {
            Unreadable::Newer(format) => Self::Newer(format),
            Unreadable::Rotten(what) => Self::Damaged(what.to_owned()),
            Unreadable::Io(error) => Self::Io(error),
        }
    }
}

/// A file with a full checkpoint. Its end was read, so its manifest is known.
pub struct Single {
    name: String,
    footer: Footer,
    layout: Layout,
}

impl Single {
    /// Reads what the file says about itself, and none of its parts.
    ///
    /// # Errors
    /// When it is not a checkpoint, or its end is so damaged that nothing in it can be found.
    pub fn open(files: &mut dyn Files, name: &str) -> Result<Self, Unusable> {
        let only = &mut Only { files, name };
        if let Some(format) = newer_format(only, name).map_err(Unusable::Io)? {
            return Err(Unusable::Newer(format));
        }
        let footer = match read_footer(only, name) {
            Ok(footer) => footer,
            Err(Unreadable::Rotten(_)) if !begins_as_one(only) => return Err(Unusable::NoCheckpoint),
            Err(Unreadable::Rotten(_)) => {
                return Err(Unusable::Damaged("its end is gone, or both footers are damaged".into()));
            }
            Err(why) => return Err(why.into()),
        };
        if let Some(previous) = footer.previous {
            return Err(Unusable::Differential(previous.seq));
        }
        let layout = read_layout(only, &footer)?;
        Ok(Self { name: name.to_owned(), footer, layout })
    }

    /// The manifest of its image.
    pub fn manifest(&self) -> &Manifest {
        &self.layout.manifest
    }
    /// Its image's digest.
    pub fn digest(&self) -> Digest {
        self.footer.digest
    }
    /// How long the file is.
    pub fn bytes(&self) -> u64 {
        self.footer.file_len()
    }

    /// Reads and compares every byte. `progress` is called with the number of bytes read so far. Returns where there is damage.
    pub fn verify(&self, files: &mut dyn Files, progress: &mut dyn FnMut(u64)) -> Vec<RotAt> {
        let only = &mut Only { files, name: &self.name };
        let catalog = self.catalog();
        let mut scrub = Scrub::over(&catalog);
        let mut places = Vec::new();
        while !scrub.is_finished() {
            let (_, found) = scrub.step(only, &catalog);
            progress(scrub.bytes());
            places.extend(found.into_iter().filter_map(|found| match found {
                Found::Rot { place, .. } => Some(place),
                // Nothing is mended here: it is only looked at.
                Found::Mended { .. } | Found::Failed(_) => None,
            }));
        }
        places
    }

    /// The system part, verified.
    ///
    /// # Errors
    /// When it is damaged or can't be read.
    pub fn system(&self, files: &mut dyn Files) -> Result<SystemPart, Unusable> {
        let (only, catalog) = (&mut Only { files, name: &self.name }, self.catalog());
        let located = Located::find(only, &catalog, self.footer.seq)?;
        let parts = 0..self.manifest().system().len() as u32;
        let pieces: Result<Vec<Bytes>, Unreadable> =
            parts.map(|part| read_part(only, &catalog, &located, part)).collect();
        Ok(self.manifest().joined(pieces?.iter()))
    }

    /// The bytes that were added beside the image ([`add_note`](super::add_note)), if there are any.
    ///
    /// # Errors
    /// When they are damaged or can't be read.
    pub fn note(&self, files: &mut dyn Files) -> Result<Option<Bytes>, Unusable> {
        Ok(read_note(files, &self.name, &self.footer, &self.layout)?)
    }

    /// The image, with every part verified. `progress` is called with the number of bytes read so far.
    ///
    /// # Errors
    /// When a part is damaged or can't be read.
    pub fn load(&self, files: &mut dyn Files, progress: &mut dyn FnMut(u64)) -> Result<Image, Unusable> {
        let (only, catalog) = (&mut Only { files, name: &self.name }, self.catalog());
        let located = Located::find(only, &catalog, self.footer.seq)?;
        let mut assembly = Assembly::new(located.manifest.clone());
        let mut read = 0;
        for part in 0..located.manifest.parts() {
            let body = read_record(only, &catalog, &located, part)?.slice(RECORD as usize..);
            read += body.len() as u64;
            let added = assembly.add(part, &body);
            added.map_err(|why| Unusable::Damaged(format!("part {part} of its image: {why}")))?;
            progress(read);
        }
        assembly.image().ok_or_else(|| Unusable::Damaged("a part of its image is not there".into()))
    }

    fn catalog(&self) -> Catalog {
        let mut catalog = Catalog::default();
        catalog.footers.insert(self.footer.seq, self.footer.clone());
        catalog
    }
}

/// Whether the first bytes are those of a checkpoint, so that the file once was one.
fn begins_as_one(files: &mut dyn Files) -> bool {
    const MAGIC: usize = 4;
    let expected = &header(Kind::Full, 0)[..MAGIC];
    files.len("").is_ok_and(|len| len >= HEADER)
        && files.read("", 0, MAGIC).is_ok_and(|bytes| bytes == expected)
}

/// The one file, under whatever name it is asked for. It is only read.
struct Only<'a> {
    files: &'a mut dyn Files,
    name: &'a str,
}

fn refused() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "this file is only read")
}

impl Files for Only<'_> {
    fn list(&mut self) -> io::Result<Vec<String>> {
        Ok(vec![self.name.to_owned()])
    }
    fn len(&mut self, _: &str) -> io::Result<u64> {
        self.files.len(self.name)
    }
    fn read(&mut self, _: &str, offset: u64, len: usize) -> io::Result<Bytes> {
        self.files.read(self.name, offset, len)
    }
    fn create(&mut self, _: &str) -> io::Result<()> {
        Err(refused())
    }
    fn append(&mut self, _: &str, _: &[Bytes]) -> io::Result<()> {
        Err(refused())
    }
    fn write_at(&mut self, _: &str, _: u64, _: &[u8]) -> io::Result<()> {
        Err(refused())
    }
    fn truncate(&mut self, _: &str, _: u64) -> io::Result<()> {
        Err(refused())
    }
    fn sync(&mut self, _: &str) -> io::Result<()> {
        Err(refused())
    }
    fn publish(&mut self, _: &str, _: &str) -> io::Result<()> {
        Err(refused())
    }
    fn delete(&mut self, _: &str) -> io::Result<()> {
        Err(refused())
    }
}
