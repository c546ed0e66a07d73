//! The file of a backup under way, as the only file that the keeper sees. It gets its name only when it is whole and durable.

use bytes::Bytes;
use quorate_state::checkpoint::{Files, add_note};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// A backup under way. Until it is published it has a temporary name in the same directory. It is removed if it is dropped before.
pub struct NewFile {
    path: PathBuf,
    unfinished: PathBuf,
    file: File,
    len: u64,
    /// The keeper's name for it, once the keeper has begun to write it.
    name: Option<String>,
    /// What is to stand beside the image in it.
    note: Option<Bytes>,
}

impl NewFile {
    /// Begins a file whose name will be `path`.
    ///
    /// # Errors
    /// When something has that name already, or no file can be made there.
    pub fn begin(path: &Path) -> io::Result<Self> {
        if fs::symlink_metadata(path).is_ok() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
        // A path that ends like a directory's could not become the file's name in the end.
        if !path.as_os_str().as_encoded_bytes().ends_with(name.as_encoded_bytes()) {
            return Err(ErrorKind::IsADirectory.into());
        }
        let name = name.to_string_lossy();
        let unfinished = path.with_file_name(format!(".{name}.{}.unfinished", std::process::id()));
        let mut options = OpenOptions::new();
        // It holds everything, hashes of passwords among it.
        options.create(true).truncate(true).read(true).write(true).mode(0o600);
        let file = options.open(&unfinished)?;
        Ok(Self { path: path.to_owned(), unfinished, file, len: 0, name: None, note: None })
    }

    /// These bytes are to stand beside the image, as a note. The file has them before it has its name.
    pub fn note(&mut self, note: Bytes) {
        self.note = Some(note);
    }

    /// The bytes that are written.
    pub(super) fn bytes(&self) -> u64 {
        self.len
    }

    /// Refuses all names but this file's: the keeper asks for other files as well, which do not exist here.
    fn check(&self, name: &str) -> io::Result<()> {
        if self.name.as_deref() == Some(name) { Ok(()) } else { Err(ErrorKind::NotFound.into()) }
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // Nothing has this name any more once the file was published.
        let _ = fs::remove_file(&self.unfinished);
    }
}

/// Gives a file its name, unless another file has that name.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // This file system can not check and rename in one step.
        Err(Errno::INVAL | Errno::NOSYS) if fs::symlink_metadata(to).is_ok() => {
            Err(ErrorKind::AlreadyExists.into())
        }
        Err(Errno::INVAL | Errno::NOSYS) => fs::rename(from, to),
        other => other.map_err(io::Error::from),
    }
}

/// Makes the names in this path's directory durable.
///
/// # Errors
/// Those of the operating system.
pub fn sync_directory_of(path: &Path) -> io::Result<()> {
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    File::open(above.unwrap_or(Path::new(".")))?.sync_all()
}

impl Files for NewFile {
    fn list(&mut self) -> io::Result<Vec<String>> {
        Ok(self.name.iter().cloned().collect())
    }
    fn len(&mut self, name: &str) -> io::Result<u64> {
        self.check(name).map(|()| self.len)
    }
    fn read(&mut self, name: &str, offset: u64, len: usize) -> io::Result<Bytes> {
        self.check(name)?;
        read_within(&self.file, self.len, offset, len)
    }
    fn create(&mut self, name: &str) -> io::Result<()> {
        (self.name, self.len) = (Some(name.to_owned()), 0);
        self.file.set_len(0)
    }
    fn append(&mut self, name: &str, parts: &[Bytes]) -> io::Result<()> {
        self.check(name)?;
        for part in parts {
            self.file.write_all_at(part, self.len)?;
            self.len += part.len() as u64;
        }
        Ok(())
    }
    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.check(name)?;
        self.file.write_all_at(bytes, offset)
    }
    fn truncate(&mut self, name: &str, len: u64) -> io::Result<()> {
        self.check(name)?;
        self.len = self.len.min(len);
        self.file.set_len(self.len)
    }
    fn sync(&mut self, name: &str) -> io::Result<()> {
        self.check(name)?;
        self.file.sync_all()
    }
    fn publish(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.check(from)?;
        if let Some(note) = self.note.take() {
            add_note(self, from, &note)?;
            self.file.sync_all()?;
        }
        rename_new(&self.unfinished, &self.path)?;
        self.name = Some(to.to_owned());
        sync_directory_of(&self.path)
    }
    fn delete(&mut self, name: &str) -> io::Result<()> {
        self.check(name)?;
        self.name = None;
        fs::remove_file(&self.unfinished)
    }
}

/// Reads a part of a file of this length. Offset and length may come from damaged bytes, so they are compared with the file's length
/// before memory is allocated.
///
/// # Errors
/// When the part is not within the file, and those of the operating system.
pub fn read_within(file: &File, file_len: u64, offset: u64, len: usize) -> io::Result<Bytes> {
    if offset.checked_add(len as u64).is_none_or(|end| end > file_len) {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes.into())
}

#[cfg(test)]
mod tests;
