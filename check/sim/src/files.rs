//! The directory of a replica's checkpoints: what a process sees there, what would be left if the machine stopped now, and traps that stop
//! the process between any two operations.
//!
//! A write reaches the page cache; a sync of the file makes it durable. A name is durable once the directory was synced, which
//! [`Files::publish`] does; until then a file that was made, renamed or deleted may be there or not. When the process dies the
//! page cache stays; when the machine stops, each 512-byte sector that was not synced is as before, as written, or zeros.

use crate::plan::Phase;
use crate::random::Rng;
use bytes::Bytes;
use quorate_state::checkpoint::Files;
use std::collections::BTreeMap;
use std::io;

const SECTOR: usize = 512;
const UNFINISHED: &str = ".unfinished";
const PARTIAL: &str = ".partial";
/// What is kept of a transfer has names that begin with this.
const TRANSFER: &str = "transfer.";

/// One file's bytes.
#[derive(Clone, Debug, Default)]
struct Content {
    /// What a process reads.
    seen: Vec<u8>,
    /// What certainly remains after the machine stopped.
    synced: Vec<u8>,
}

/// A change of the directory that is not durable yet.
#[derive(Clone, Debug)]
enum Change {
    Made(String, u64),
    Renamed(String, String, u64),
    Gone(String),
}

/// The kinds of operations, for traps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Append,
    WriteAt,
    Publish,
    Delete,
    Other,
}

/// Where the process will die.
#[derive(Clone, Copy, Debug)]
struct Trap {
    phase: Phase,
    /// This many such operations pass first.
    skip: u32,
}

/// A file that became durable under its name.
#[derive(Clone, Debug)]
pub struct Published {
    /// The name.
    pub name: String,
    /// A checksum of all of it.
    pub crc: u32,
    /// Its length in bytes.
    pub bytes: usize,
}

/// The directory.
#[derive(Clone, Debug)]
pub struct SimFiles {
    contents: BTreeMap<u64, Content>,
    next: u64,
    /// What a process sees.
    names: BTreeMap<String, u64>,
    /// What of it is durable.
    durable: BTreeMap<String, u64>,
    changes: Vec<Change>,
    /// There is no room for more.
    pub full: bool,
    /// Whether a checkpoint is captured ahead of its border. Set by the caller that gives the keeper its work.
    pub capturing: bool,
    /// Whether a fetched checkpoint is being written.
    pub installing: bool,
    trap: Option<Trap>,
    /// After this many more operations the process is dead.
    dies_in: Option<u64>,
    dead: bool,
    published: Vec<Published>,
    rng: Rng,
}

impl SimFiles {
    /// An empty directory.
    pub fn new(rng: Rng) -> Self {
        Self {
            contents: BTreeMap::new(),
            next: 1,
            names: BTreeMap::new(),
            durable: BTreeMap::new(),
            changes: Vec::new(),
            full: false,
            capturing: false,
            installing: false,
            trap: None,
            dies_in: None,
            dead: false,
            published: Vec::new(),
            rng,
        }
    }

    /// Whether there is no file.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// What was published since the last time.
    pub fn take_published(&mut self) -> Vec<Published> {
        std::mem::take(&mut self.published)
    }

    /// The process dies in this phase, after it was in it `skip` times.
    pub fn set_trap(&mut self, phase: Phase, skip: u32) {
        self.trap = Some(Trap { phase, skip });
    }

    /// Removes the trap, if there is one.
    pub fn disarm(&mut self) {
        self.trap = None;
    }

    /// Whether the process died in here; the next process may begin.
    pub fn take_death(&mut self) -> bool {
        self.dies_in = None;
        std::mem::take(&mut self.dead)
    }

    /// The process dies within the next few operations, or right after them.
    pub fn die_soon(&mut self) {
        self.dies_in = Some(self.rng.below(4));
    }

    /// The machine stops.
    pub fn power_loss(&mut self) {
        let style = self.rng.below(4);
        let whole = self.rng.below(self.changes.len() as u64 + 1) as usize;
        for (number, change) in std::mem::take(&mut self.changes).into_iter().enumerate() {
            let kept = match style {
                0 => false,
                1 => true,
                2 => number < whole,
                _ => self.rng.chance(500),
            };
            match change {
                Change::Made(name, file) if kept => _ = self.durable.insert(name, file),
                Change::Gone(name) if kept => _ = self.durable.remove(&name),
                Change::Renamed(from, to, file) if kept => {
                    self.durable.remove(&from);
                    self.durable.insert(to, file);
                }
                _ => {}
            }
        }
        self.names.clone_from(&self.durable);
        let mut contents = std::mem::take(&mut self.contents);
        contents.retain(|file, _| self.names.values().any(|named| named == file));
        for content in contents.values_mut() {
            if content.seen != content.synced {
                content.synced = torn(content, &mut self.rng);
                content.seen.clone_from(&content.synced);
            }
        }
        self.contents = contents;
    }

    /// Flips bits of synced data at a position, in parts of 65,536 of all of it: one bit, or many in one sector. Returns the file's name.
    pub fn rot(&mut self, part: u16, sector: bool) -> Option<String> {
        let total: u64 = self.names.values().map(|file| self.contents[file].synced.len() as u64).sum();
        let mut at = total * u64::from(part) / 65_536;
        let (name, file) = self.names.iter().find(|(_, file)| {
            let len = self.contents[file].synced.len() as u64;
            let here = at < len;
            at -= if here { 0 } else { len };
            here
        })?;
        let content = self.contents.get_mut(file)?;
        let first = at as usize;
        let flips = if sector { SECTOR } else { 1 };
        let begin = if sector { first - first % SECTOR } else { first };
        let end = (begin + flips).min(content.synced.len());
        for offset in begin..end {
            let bit = 1 << self.rng.below(8);
            content.synced[offset] ^= bit;
            if let Some(byte) = content.seen.get_mut(offset) {
                *byte ^= bit;
            }
        }
        Some(name.clone())
    }

    fn content(&mut self, name: &str) -> io::Result<&mut Content> {
        let file = self.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        self.contents.get_mut(file).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Whether this operation is done in full, or in part and then nothing more, or not at all.
    fn begin(&mut self, act: Act, name: &str) -> io::Result<Done> {
        if self.dead {
            return Err(io::Error::other("the process is dead"));
        }
        if let Some(left) = &mut self.dies_in {
            if *left == 0 {
                self.dead = true;
                return Ok(Done::Partly);
            }
            *left -= 1;
        }
        let Some(trap) = &mut self.trap else { return Ok(Done::Whole) };
        let unfinished = name.ends_with(UNFINISHED);
        let hit = match (trap.phase, act) {
            (Phase::Capture, Act::Append) => unfinished && self.capturing,
            (Phase::Write, Act::Append) => unfinished && !self.capturing,
            (Phase::BeforePublish | Phase::InPublish | Phase::AfterPublish, Act::Publish) => true,
            (Phase::Trim, Act::Delete) => !unfinished && !name.starts_with(TRANSFER),
            (Phase::Install, Act::Append | Act::Publish) => {
                (unfinished || name.ends_with(PARTIAL)) && self.installing
            }
            (Phase::Partial, Act::Append) => name.ends_with(PARTIAL),
            (Phase::Repair, Act::WriteAt) => true,
            _ => false,
        };
        if !hit {
            return Ok(Done::Whole);
        }
        if trap.skip > 0 {
            trap.skip -= 1;
            return Ok(Done::Whole);
        }
        let phase = trap.phase;
        self.trap = None;
        self.dead = true;
        Ok(match phase {
            Phase::BeforePublish => Done::Not,
            Phase::AfterPublish => Done::Whole,
            _ => Done::Partly,
        })
    }

    /// How much of this many bytes is done.
    fn part(&mut self, len: usize) -> usize {
        self.rng.below(len as u64 + 1) as usize
    }
}

/// How far an operation gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    Whole,
    Partly,
    Not,
}

fn dead<T>() -> io::Result<T> {
    Err(io::Error::other("the process dies"))
}

/// What remains of a file whose last writes were not synced.
fn torn(content: &Content, rng: &mut Rng) -> Vec<u8> {
    let Content { seen, synced } = content;
    let (short, long) = (seen.len().min(synced.len()), seen.len().max(synced.len()));
    let style = rng.below(4);
    let len = match style {
        0 => return synced.clone(),
        1 => return seen.clone(),
        _ => rng.range(short as u64, long as u64) as usize,
    };
    let mut left = vec![0; len];
    for at in (0..len).step_by(SECTOR) {
        let end = (at + SECTOR).min(len);
        let new = style == 2 || rng.chance(500);
        let from = if new { seen } else { synced };
        let upto = end.min(from.len()).max(at);
        if upto > at {
            left[at..upto].copy_from_slice(&from[at..upto]);
        }
    }
    left
}

impl Files for SimFiles {
    fn list(&mut self) -> io::Result<Vec<String>> {
        Ok(self.names.keys().cloned().collect())
    }

    fn len(&mut self, name: &str) -> io::Result<u64> {
        Ok(self.content(name)?.seen.len() as u64)
    }

    fn read(&mut self, name: &str, offset: u64, len: usize) -> io::Result<Bytes> {
        let content = self.content(name)?;
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let end = start.checked_add(len).ok_or(io::ErrorKind::UnexpectedEof)?;
        let bytes = content.seen.get(start..end).ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(Bytes::copy_from_slice(bytes))
    }

    fn create(&mut self, name: &str) -> io::Result<()> {
        let done = self.begin(Act::Other, name)?;
        if self.full && self.rng.chance(500) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if done == Done::Not || (done == Done::Partly && self.rng.chance(500)) {
            return dead();
        }
        if let Some(file) = self.names.get(name) {
            self.contents.entry(*file).or_default().seen.clear();
            return Ok(());
        }
        let file = self.next;
        self.next += 1;
        self.contents.insert(file, Content::default());
        self.names.insert(name.to_owned(), file);
        self.changes.push(Change::Made(name.to_owned(), file));
        Ok(())
    }

    fn append(&mut self, name: &str, parts: &[Bytes]) -> io::Result<()> {
        let done = self.begin(Act::Append, name)?;
        let full = self.full;
        let bytes = parts.concat();
        let len = match done {
            Done::Whole if full => self.part(bytes.len()),
            Done::Whole => bytes.len(),
            Done::Partly => self.part(bytes.len()),
            Done::Not => 0,
        };
        self.content(name)?.seen.extend_from_slice(&bytes[..len]);
        match done {
            Done::Whole if full => Err(io::ErrorKind::StorageFull.into()),
            Done::Whole => Ok(()),
            _ => dead(),
        }
    }

    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let done = self.begin(Act::WriteAt, name)?;
        let len = if done == Done::Whole { bytes.len() } else { self.part(bytes.len()) };
        let start = offset as usize;
        let end = start.checked_add(len).ok_or(io::ErrorKind::UnexpectedEof)?;
        let content = self.content(name)?;
        let place = content.seen.get_mut(start..end).ok_or(io::ErrorKind::UnexpectedEof)?;
        place.copy_from_slice(&bytes[..len]);
        if done == Done::Whole { Ok(()) } else { dead() }
    }

    fn truncate(&mut self, name: &str, len: u64) -> io::Result<()> {
        let done = self.begin(Act::Other, name)?;
        if done != Done::Whole {
            return dead();
        }
        self.content(name)?.seen.truncate(len as usize);
        Ok(())
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        let done = self.begin(Act::Other, name)?;
        if done != Done::Whole {
            return dead();
        }
        let content = self.content(name)?;
        content.synced.clone_from(&content.seen);
        Ok(())
    }

    fn publish(&mut self, from: &str, to: &str) -> io::Result<()> {
        let done = self.begin(Act::Publish, from)?;
        if done == Done::Not {
            return dead();
        }
        let file = self.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        self.names.insert(to.to_owned(), file);
        self.changes.push(Change::Renamed(from.to_owned(), to.to_owned(), file));
        if done == Done::Partly {
            return dead();
        }
        self.changes.clear();
        self.durable.clone_from(&self.names);
        let Self { contents, names, .. } = self;
        contents.retain(|file, _| names.values().any(|named| named == file));
        let seen = &contents[&file].seen;
        self.published.push(Published { name: to.to_owned(), crc: crc32c::crc32c(seen), bytes: seen.len() });
        if self.dead { dead() } else { Ok(()) }
    }

    fn delete(&mut self, name: &str) -> io::Result<()> {
        let done = self.begin(Act::Delete, name)?;
        if !self.names.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if done != Done::Partly || self.rng.chance(500) {
            self.names.remove(name);
            self.changes.push(Change::Gone(name.to_owned()));
        }
        if self.dead { dead() } else { Ok(()) }
    }
}
