//! Bit rot in the files of checkpoints (docs/formats/checkpoint.md) of a replica.

use crate::rig::cluster::Cluster;
use crate::rig::random::Random;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const HEADER: u64 = 24;
const FOOTER: u64 = 4096;
const MAGIC: &[u8] = b"QCKF";
const LAYOUT_AT: usize = 96;
const LAYOUT_LEN: usize = 104;

/// A checkpoint's file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Checkpoint {
    pub(crate) seq: u64,
    pub(crate) full: bool,
    pub(crate) path: PathBuf,
}

/// All of a replica, oldest first.
pub(crate) fn checkpoints(cluster: &Cluster, at: usize) -> Vec<Checkpoint> {
    let files = std::fs::read_dir(cluster.home(at).join("data/checkpoints")).unwrap();
    let checkpoint = |path: PathBuf| {
        let (seq, kind) = path.file_name()?.to_str()?.split_once('.')?;
        let full = kind == "full";
        (full || kind == "diff").then_some(())?;
        Some(Checkpoint { seq: seq.parse().ok()?, full, path: path.clone() })
    };
    let mut found: Vec<Checkpoint> = files.filter_map(|file| checkpoint(file.unwrap().path())).collect();
    found.sort();
    found
}

/// Whether all that a file has twice is there twice and alike. A file of which nothing is of use stays until its time comes; and one that
/// rotted before the replica knew it, just when it was written, is found only by the next scrub.
pub(crate) fn is_sound(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let end = file.metadata().unwrap().len();
    let Some(at) = end.checked_sub(2 * FOOTER) else { return false };
    let footer = read(&file, at, FOOTER);
    let footers = footer.starts_with(MAGIC) && footer == read(&file, at + FOOTER, FOOTER);
    footers && {
        let (at, len) = layout_in(&footer);
        read(&file, at, len) == read(&file, at + len, len)
    }
}

/// What rots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rot {
    /// A part of the state.
    Part,
    /// Many parts of it.
    Parts,
    Header,
    /// One copy of the manifest.
    Manifest,
    /// Both of them: nothing of the file is of use.
    Manifests,
    /// One of the two footers.
    Footer,
    /// Both of them, so that nothing of the file is of use at the next start.
    Footers,
    /// The file is gone.
    Gone,
    /// A part of its end is gone, which exists twice.
    End,
    /// Its end is gone, and all manifests with it.
    Cut,
}

impl Rot {
    pub(crate) const ALL: [Self; 10] = [
        Self::Part,
        Self::Parts,
        Self::Header,
        Self::Manifest,
        Self::Manifests,
        Self::Footer,
        Self::Footers,
        Self::Gone,
        Self::End,
        Self::Cut,
    ];

    /// Lets a file rot. Without a part of the state in it, its manifest rots.
    pub(crate) fn strike(self, path: &Path, random: &mut Random) {
        if self == Self::Gone {
            return std::fs::remove_file(path).unwrap();
        }
        let file = match OpenOptions::new().read(true).write(true).open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return, // a newer checkpoint replaced it just now
            file => file.unwrap(),
        };
        let len = file.metadata().unwrap().len();
        let layout = Layout::of(&file);
        let flip_in =
            |from: u64, len: u64, random: &mut Random| flip(&file, from + random.below(len), random);
        match self {
            Self::Part | Self::Parts => {
                let count = if self == Self::Part { 1 } else { layout.records.len().div_ceil(2) };
                if layout.records.is_empty() {
                    flip_in(layout.at, layout.len, random);
                }
                for _ in 0..count.min(layout.records.len()) {
                    let (from, len) = layout.records[random.below(layout.records.len() as u64) as usize];
                    flip_in(from, len, random);
                }
            }
            Self::Header => flip_in(0, HEADER, random),
            Self::Manifest => flip_in(layout.at + layout.len * random.below(2), layout.len, random),
            Self::Manifests => {
                (0..2).for_each(|copy| flip_in(layout.at + layout.len * copy, layout.len, random));
            }
            // Its checksum covers all of it.
            Self::Footer => flip_in(len - FOOTER * random.between(1, 2), FOOTER, random),
            Self::Footers => (1..=2).for_each(|footer| flip_in(len - FOOTER * footer, FOOTER, random)),
            Self::End => file.set_len(random.between(layout.at + layout.len, len - 1)).unwrap(),
            Self::Cut => file.set_len(random.between(len / 4, layout.at + layout.len - 1)).unwrap(),
            Self::Gone => {}
        }
    }
}

/// Where the layout is, and the bytes of the records that it places.
struct Layout {
    at: u64,
    len: u64,
    records: Vec<(u64, u64)>,
}

impl Layout {
    fn of(file: &File) -> Self {
        let end = file.metadata().unwrap().len();
        let (at, len) = layout_in(&read(file, end - FOOTER, FOOTER));
        let layout = read(file, at, len);
        let manifest = u32::from_le_bytes(*layout.first_chunk().unwrap()) as usize;
        let places = layout[4 + manifest..].chunks_exact(8);
        let places = places.map(|place| u64::from_le_bytes(*place.first_chunk().unwrap()));
        // The length in a record that rotted before reaches anywhere.
        let record = |from: u64| {
            let len = 8 + u64::from(u32::from_le_bytes(*read(file, from, 4).first_chunk().unwrap()));
            (from, len.min(at - from))
        };
        Self { at, len, records: places.filter(|at| *at != 0).map(record).collect() }
    }
}

/// Where the first copy of the layout is, and its length.
fn layout_in(footer: &[u8]) -> (u64, u64) {
    let number = |from: usize| u64::from_le_bytes(*footer[from..].first_chunk().unwrap());
    (number(LAYOUT_AT), number(LAYOUT_LEN))
}

fn read(file: &File, at: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, at).unwrap();
    bytes
}

fn flip(file: &File, at: u64, random: &mut Random) {
    let byte = read(file, at, 1)[0] ^ 1 << random.below(8);
    file.write_all_at(&[byte], at).unwrap();
}
