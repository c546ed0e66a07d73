//! A disk in memory. A crash loses what was not synced (or keeps any beginning of it, with garbage behind), and names that were
//! not published; it can be full, fail, and rot.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use bytes::Bytes;
use quorate_state::checkpoint::Files;

use super::Rng;

#[derive(Clone, Default)]
struct Inode {
    data: Vec<u8>,
    synced: Vec<u8>,
}

#[derive(Clone, Default)]
pub(crate) struct Disk {
    inodes: BTreeMap<u64, Inode>,
    names: BTreeMap<String, u64>,
    /// The names that a crash leaves for certain.
    durable: BTreeMap<String, u64>,
    next: u64,
    /// So many bytes fit.
    pub(crate) capacity: Option<u64>,
    /// After so many operations everything fails: the machine is gone.
    pub(crate) crash_in: Option<u64>,
    /// The next sync fails.
    pub(crate) fail_sync: bool,
    /// Reading fails with this number of the system's.
    pub(crate) fail_read: Option<i32>,
    /// The next append fails, for another reason than room.
    pub(crate) fail_append: bool,
    /// How many bytes were appended to files.
    pub(crate) appended: u64,
}

fn gone() -> io::Error {
    io::Error::other("the machine crashed")
}

impl Disk {
    fn operation(&mut self) -> io::Result<()> {
        match &mut self.crash_in {
            Some(0) => Err(gone()),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
    pub(crate) fn crashed(&self) -> bool {
        self.crash_in == Some(0)
    }
    fn inode(&mut self, name: &str) -> io::Result<&mut Inode> {
        let id = self.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(self.inodes.get_mut(id).expect("an inode for each name"))
    }
    pub(crate) fn used(&self) -> u64 {
        self.names.values().map(|id| self.inodes[id].data.len() as u64).sum()
    }
    pub(crate) fn names(&self) -> Vec<String> {
        self.names.keys().cloned().collect()
    }
    pub(crate) fn content(&self, name: &str) -> Vec<u8> {
        self.inodes[&self.names[name]].data.clone()
    }
    /// Makes a durable file with these bytes.
    pub(crate) fn put(&mut self, name: &str, bytes: Vec<u8>) {
        self.next += 1;
        self.inodes.insert(self.next, Inode { data: bytes.clone(), synced: bytes });
        self.names.insert(name.into(), self.next);
        self.durable.insert(name.into(), self.next);
    }
    /// All files with their bytes.
    pub(crate) fn all(&self) -> BTreeMap<String, Vec<u8>> {
        self.names.iter().map(|(name, id)| (name.clone(), self.inodes[id].data.clone())).collect()
    }
    /// Turns one bit over, at rest.
    pub(crate) fn flip(&mut self, name: &str, at: usize, bit: u32) {
        let id = self.names[name];
        let inode = self.inodes.get_mut(&id).expect("an inode for each name");
        inode.data[at] ^= 1 << (bit % 8);
        if let Some(byte) = inode.synced.get_mut(at) {
            *byte ^= 1 << (bit % 8);
        }
    }

    pub(crate) fn crash(&mut self, rng: &mut Rng) {
        let mut names = BTreeMap::new();
        for name in self.names.keys().chain(self.durable.keys()) {
            let (now, durable) = (self.names.get(name), self.durable.get(name));
            let survives = if rng.one_in(2) { now } else { durable };
            if let Some(id) = survives {
                names.insert(name.clone(), *id);
            }
        }
        // A file that was published is not both at its old and its new place.
        let mut seen = BTreeSet::new();
        names.retain(|_, id| seen.insert(*id));
        for id in names.values() {
            let inode = self.inodes.get_mut(id).expect("an inode for each name");
            inode.data = after_crash(inode, rng);
            inode.synced = inode.data.clone();
        }
        self.names = names.clone();
        self.durable = names;
        (self.crash_in, self.fail_sync, self.fail_append) = (None, false, false);
    }
}

fn after_crash(inode: &Inode, rng: &mut Rng) -> Vec<u8> {
    let mut data = inode.synced.clone();
    for (at, byte) in data.iter_mut().enumerate().take(inode.data.len()) {
        if *byte != inode.data[at] && rng.one_in(2) {
            *byte = inode.data[at];
        }
    }
    if inode.data.len() > inode.synced.len() && !rng.one_in(3) {
        let most = (inode.data.len() - inode.synced.len()) as u64;
        let whole = inode.synced.len() + rng.below(most + 1) as usize;
        data.extend_from_slice(&inode.data[inode.synced.len()..whole]);
        if rng.one_in(2) {
            let torn = rng.below((inode.data.len() - whole) as u64 + 1) as usize;
            data.extend(rng.bytes(torn));
        }
    }
    data
}

impl Files for Disk {
    fn list(&mut self) -> io::Result<Vec<String>> {
        self.operation()?;
        Ok(self.names())
    }
    fn len(&mut self, name: &str) -> io::Result<u64> {
        self.operation()?;
        Ok(self.inode(name)?.data.len() as u64)
    }
    fn read(&mut self, name: &str, offset: u64, len: usize) -> io::Result<Bytes> {
        self.operation()?;
        if let Some(number) = self.fail_read {
            return Err(io::Error::from_raw_os_error(number));
        }
        let data = &self.inode(name)?.data;
        let found = data.get(offset as usize..).and_then(|rest| rest.get(..len));
        found.map(Bytes::copy_from_slice).ok_or(io::ErrorKind::UnexpectedEof.into())
    }
    fn create(&mut self, name: &str) -> io::Result<()> {
        self.operation()?;
        self.next += 1;
        self.inodes.insert(self.next, Inode::default());
        self.names.insert(name.into(), self.next);
        Ok(())
    }
    fn append(&mut self, name: &str, parts: &[Bytes]) -> io::Result<()> {
        self.operation()?;
        if std::mem::take(&mut self.fail_append) {
            return Err(io::Error::other("it does not want to"));
        }
        let mut bytes = parts.concat();
        let room = self.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(self.used()));
        let fits = bytes.len() as u64 <= room;
        bytes.truncate(room.min(bytes.len() as u64) as usize);
        self.appended += bytes.len() as u64;
        self.inode(name)?.data.extend(bytes);
        if fits { Ok(()) } else { Err(io::Error::from_raw_os_error(28)) }
    }
    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.operation()?;
        let data = &mut self.inode(name)?.data;
        let place = data.get_mut(offset as usize..).and_then(|rest| rest.get_mut(..bytes.len()));
        place.expect("only bytes that are there are written over").copy_from_slice(bytes);
        Ok(())
    }
    fn truncate(&mut self, name: &str, len: u64) -> io::Result<()> {
        self.operation()?;
        let inode = self.inode(name)?;
        inode.data.truncate(len as usize);
        inode.synced.truncate(len as usize);
        Ok(())
    }
    fn sync(&mut self, name: &str) -> io::Result<()> {
        self.operation()?;
        if std::mem::take(&mut self.fail_sync) {
            return Err(io::Error::other("who knows what is on the disk"));
        }
        let inode = self.inode(name)?;
        inode.synced = inode.data.clone();
        Ok(())
    }
    fn publish(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.operation()?;
        let id = self.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        self.names.insert(to.into(), id);
        // In between a crash finds either name.
        self.operation()?;
        self.durable = self.names.clone();
        Ok(())
    }
    fn delete(&mut self, name: &str) -> io::Result<()> {
        self.operation()?;
        self.names.remove(name).map(|_| ()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}
