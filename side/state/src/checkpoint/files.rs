//! The disk, as the keeper uses it. The host and the simulator implement it.

use std::io;

use bytes::Bytes;

/// One directory of files, which are named. Every method may block, since the keeper has a thread of its own.
///
/// Errors are the operating system's. [`io::ErrorKind::StorageFull`], and the raw numbers 28 and 122 (no space, over quota), mean that
/// there is no room. A missing file is [`io::ErrorKind::NotFound`]. The numbers 12, 23 and 24 (no memory, no file descriptor) say nothing
/// about the file.
pub trait Files {
    /// The names of all files in the directory, in any order.
    fn list(&mut self) -> io::Result<Vec<String>>;
    /// How long a file is.
    fn len(&mut self, name: &str) -> io::Result<u64>;
    /// Exactly `len` bytes from `offset` on; [`io::ErrorKind::UnexpectedEof`] when there are fewer.
    fn read(&mut self, name: &str, offset: u64, len: usize) -> io::Result<Bytes>;
    /// Makes an empty file; if there is one with this name, it is emptied.
    fn create(&mut self, name: &str) -> io::Result<()>;
    /// Writes at the end of a file. After an error any part of it may be there.
    fn append(&mut self, name: &str, parts: &[Bytes]) -> io::Result<()>;
    /// Overwrites bytes that exist. Only for repairs.
    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Cuts a file to this length.
    fn truncate(&mut self, name: &str, len: u64) -> io::Result<()>;
    /// Returns when everything written to the file is durable. After an error it is never tried again.
    fn sync(&mut self, name: &str) -> io::Result<()>;
    /// Renames a synced file, replacing one that has the new name, and syncs the directory.
    fn publish(&mut self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file. The removal need not be durable.
    fn delete(&mut self, name: &str) -> io::Result<()>;
}

/// Whether an error says that the disk is full, rather than broken.
pub(crate) fn is_no_room(error: &io::Error) -> bool {
    const NO_SPACE: i32 = 28;
    const OVER_QUOTA: i32 = 122;
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
        || matches!(error.raw_os_error(), Some(NO_SPACE | OVER_QUOTA))
}

/// Whether an error says that the system lacks something now, such as file descriptors. The data at rest may be sound.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    const NO_MEMORY: i32 = 12;
    const NO_DESCRIPTOR: [i32; 2] = [23, 24];
    error.kind() == io::ErrorKind::OutOfMemory
        || error.raw_os_error().is_some_and(|number| number == NO_MEMORY || NO_DESCRIPTOR.contains(&number))
}

/// Deletes a file that may be gone already.
pub(crate) fn delete_if_there(files: &mut dyn Files, name: &str) -> io::Result<()> {
    match files.delete(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
