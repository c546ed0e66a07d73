//! What is on disk when a replica starts.

use std::collections::BTreeSet;
use std::{fmt, io};

use quorate_types::{Digest, Seq};

use super::file::{Footer, RECORD, is_unfinished, parse_name};
use super::files::{Files, delete_if_there};
use super::partial::{PARTIAL, PartialFile, PartialPiece};
use super::reader::{Catalog, Located, newer_format, read_footer, read_record};
use super::{Assembly, Image};

/// What was found at the start.
#[derive(Default)]
pub struct Opened {
    /// The newest checkpoint that is whole, loaded. Start from it, unless `damaged` can be completed.
    pub image: Option<Image>,
    /// The digest of `image`.
    pub digest: Option<Digest>,
    /// The newest checkpoint, if parts of it are rotten. Fetch the missing parts from peers, and repair the files with
    /// [`super::Job::Repair`].
    pub damaged: Option<Assembly>,
    /// All checkpoints with a sound footer, newest first, with their images' digests. Not all of them need be whole.
    pub found: Vec<(Seq, Digest)>,
    /// Files that can't be used at all, each with the reason. They stay until checkpoints of their age are deleted.
    pub lost: Vec<(String, String)>,
    /// What was fetched before the last stop and is sound.
    pub partial: Vec<PartialPiece>,
}

/// Why checkpoints can't be used at all.
#[derive(Debug)]
pub enum OpenError {
    /// A newer program wrote a file. Nothing was changed.
    Newer {
        /// The file.
        file: String,
        /// Its format.
        format: u16,
    },
    /// The directory can't be used.
    Io {
        /// What was being done.
        what: String,
        /// What the system said.
        error: io::Error,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Newer { file, format } => {
                write!(f, "the checkpoint file {file} has format {format}, which is newer than this program")
            }
            Self::Io { what, error } => write!(f, "can't {what}: {error}"),
        }
    }
}

impl std::error::Error for OpenError {}

fn failed(what: &str, name: &str) -> impl FnOnce(io::Error) -> OpenError {
    let what = format!("{what} {name}");
    move |error| OpenError::Io { what, error }
}

/// The state with which the keeper starts.
#[derive(Default)]
pub(crate) struct Start {
    pub(crate) opened: Opened,
    pub(crate) catalog: Catalog,
    pub(crate) lost: Vec<String>,
    pub(crate) partial: PartialFile,
    pub(crate) bad: Bad,
}

pub(crate) fn open(files: &mut dyn Files) -> Result<Start, OpenError> {
    let mut names = files.list().map_err(failed("list", "the checkpoints"))?;
    names.sort_unstable();
    refuse_newer(files, &names)?;
    let mut opened = Opened::default();
    let mut catalog = Catalog::default();
    for name in &names {
        if is_unfinished(name) {
            delete_if_there(files, name).map_err(failed("delete", name))?;
        } else if let Some((seq, kind)) = parse_name(name) {
            match read_footer(files, name) {
                Ok(footer) if (footer.seq, footer.kind) == (seq, kind) => {
                    // Of two files of one seq the full one counts, which sorts behind. A stop came between writing it
                    // and deleting the other.
                    if let Some(other) = catalog.footers.insert(seq, footer) {
                        opened.lost.push((other.name(), "there is a full file of the same seq".into()));
                    }
                }
                Ok(_) => opened.lost.push((name.clone(), "it is another checkpoint's file".into())),
                Err(why) => opened.lost.push((name.clone(), why.to_string())),
            }
        }
    }
    opened.found = catalog.footers.values().rev().map(|footer| (footer.seq, footer.digest)).collect();
    let bad = load_newest(files, &catalog, &mut opened);
    // A stop may have come between renaming a file and syncing the directory: then its name is merely seen. The log is about to
    // rely on it, so it has to be durable first; publishing it once more changes nothing else.
    if let Some(name) = catalog.footers.values().next_back().map(Footer::name) {
        files.publish(&name, &name).map_err(failed("publish", &name))?;
    }
    let (partial, pieces) = PartialFile::open(files).map_err(failed("read", PARTIAL))?;
    opened.partial = pieces;
    let lost = opened.lost.iter().map(|(name, _)| name.clone()).collect();
    Ok(Start { opened, catalog, lost, partial, bad })
}

fn refuse_newer(files: &mut dyn Files, names: &[String]) -> Result<(), OpenError> {
    for name in names {
        let format = if name == PARTIAL || is_unfinished(name) || parse_name(name).is_some() {
            newer_format(files, name).map_err(failed("read", name))?
        } else {
            None
        };
        if let Some(format) = format {
            return Err(OpenError::Newer { file: name.clone(), format });
        }
    }
    Ok(())
}

/// The result of loading a checkpoint.
pub enum Loaded {
    /// The whole image.
    Whole(Image),
    /// Parts of it are rotten; these are the others.
    Damaged(Box<Assembly>),
    /// Nothing of it can be read; the text says why.
    Lost(String),
}

/// Where rot is: in which checkpoint's file, and at which record; 0 stands for the manifest.
pub(crate) type Bad = BTreeSet<(Seq, u64)>;

/// Loads a checkpoint. Records that turn out to be rotten are added to `bad`; if a record that it needs is in there already, nothing is
/// read.
pub(crate) fn load(files: &mut dyn Files, catalog: &Catalog, seq: Seq, bad: &mut Bad) -> Loaded {
    let located = match Located::find(files, catalog, seq) {
        Ok(located) => located,
        Err(why) => {
            bad.insert((seq, 0));
            return Loaded::Lost(why.to_string());
        }
    };
    let mut assembly = Assembly::new(located.manifest.clone());
    let known = located.spots.iter().flatten().any(|spot| bad.contains(spot));
    for part in (0..located.manifest.parts()).take_while(|_| !known) {
        let read = read_record(files, catalog, &located, part);
        let body = read.map(|record| record.slice(RECORD as usize..));
        if !body.is_ok_and(|body| assembly.add(part, &body).is_ok()) {
            bad.insert(located.spots[part as usize].unwrap_or((seq, 0)));
        }
    }
    match assembly.image() {
        Some(image) => Loaded::Whole(image),
        None => Loaded::Damaged(Box::new(assembly)),
    }
}

/// Loads the newest checkpoint, and older ones until one is whole.
fn load_newest(files: &mut dyn Files, catalog: &Catalog, opened: &mut Opened) -> Bad {
    let mut bad = Bad::new();
    let mut first = true;
    for (seq, footer) in catalog.footers.iter().rev() {
        match load(files, catalog, *seq, &mut bad) {
            Loaded::Whole(image) => {
                opened.image = Some(image);
                opened.digest = Some(footer.digest);
                break;
            }
            Loaded::Damaged(assembly) if first => opened.damaged = Some(*assembly),
            Loaded::Damaged(_) => {}
            Loaded::Lost(why) => opened.lost.push((footer.name(), why)),
        }
        first = false;
    }
    bad
}
