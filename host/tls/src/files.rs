//! Writes files of keys and certificates: complete or not at all, and keys readable by their owner only.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Writes a private key, mode 0600, replacing what was there.
///
/// # Errors
/// The error of the system.
pub fn write_private(path: &Path, text: &str) -> io::Result<()> {
    replace(path, text, 0o600)
}

/// Writes a certificate, mode 0644, replacing what was there.
///
/// # Errors
/// The error of the system.
pub fn write_public(path: &Path, text: &str) -> io::Result<()> {
    replace(path, text, 0o644)
}

fn replace(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".unfinished");
    let unfinished = PathBuf::from(unfinished);
    // What a crash left may have another mode.
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&unfinished)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&unfinished, path)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}
