//! A file with one word, by which `quorate dev` tells a running replica something (`chaos slow`, `chaos lie`).

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often the file is read.
const LOOK: Duration = Duration::from_millis(20);

/// Writes the word into the file; never half of it.
///
/// # Errors
/// When the system refuses.
pub fn write(file: &Path, word: &str) -> io::Result<()> {
    let new = file.with_extension("new");
    let written = std::fs::write(&new, word).and_then(|()| std::fs::rename(&new, file));
    written.map_err(|why| io::Error::new(why.kind(), format!("can not write {}: {why}", file.display())))
}

/// Hears the file's word now and from time to time, for as long as the process lives. A file that is not there has an empty word. `name` is
/// that of the thread.
///
/// # Errors
/// When the system gives no thread.
pub fn listen(name: &str, file: PathBuf, mut hear: impl FnMut(&str) + Send + 'static) -> io::Result<()> {
    let mut look = move || hear(std::fs::read_to_string(&file).unwrap_or_default().trim());
    look();
    let listen = move || {
        loop {
            std::thread::sleep(LOOK);
            look();
        }
    };
    std::thread::Builder::new().name(name.into()).spawn(listen).map(drop)
}
