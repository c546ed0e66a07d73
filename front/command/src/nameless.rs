//! Files without names, for measurements of a disk: they disappear with the process, however that ends.

use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// Files that had a name for a moment.
static MADE: AtomicU32 = AtomicU32::new(0);

/// Makes one in this directory.
///
/// # Errors
/// The error of the system.
pub fn file(directory: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::open(directory, flags, Mode::from_raw_mode(0o600)) {
        return Ok(File::from(file));
    }
    // Not every file system has these. This one has a name for a moment.
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let path = directory.join(format!("doctor-{}-{number}.unfinished", std::process::id()));
    let file = File::options().create_new(true).read(true).write(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}
