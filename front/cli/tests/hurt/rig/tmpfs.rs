//! A small disk that is really full when it is full.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A mounted tmpfs; unmounted when dropped.
pub(crate) struct Tmpfs {
    place: PathBuf,
}

impl Tmpfs {
    /// # Errors
    /// When the system does not let us.
    pub(crate) fn mount(place: &Path, mib: u64) -> Result<Self, String> {
        let size = format!("size={mib}m");
        run(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(place))?;
        Ok(Self { place: place.to_owned() })
    }
}

/// Gives a mounted one another size.
pub(crate) fn resize(place: &Path, mib: u64) {
    run(Command::new("mount").args(["-o", &format!("remount,size={mib}m")]).arg(place)).unwrap();
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        // Lazily: whoever still has a file open there keeps the memory, not the mount.
        if let Err(why) = run(Command::new("umount").arg("-l").arg(&self.place)) {
            println!("{} stays mounted: {why}", self.place.display());
        }
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(why) => Err(why.to_string()),
    }
}
