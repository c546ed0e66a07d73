//! Where the cluster of a tour lives: a directory of its own, which is removed in the end.

use crate::dev::LOCK;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::print::size;
use rustix::fs::{FlockOperation, flock, statvfs};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What four replicas write at most: two files of 20 MiB each for their logs, some more, and checkpoints.
const BYTES: u64 = 400 << 20;
/// So many directories of former tours may lie around.
const TRIES: u32 = 1000;

/// When to try again to remove it.
const AGAIN: Duration = Duration::from_millis(500);

/// A directory that nobody used before.
pub(super) struct Place {
    /// The directory.
    pub(super) path: PathBuf,
    /// What was found beside it, in words.
    pub(super) left: Vec<String>,
    /// The directories above it.
    base: PathBuf,
}

impl Place {
    /// Makes a directory in `base`.
    ///
    /// # Errors
    /// When it can not be made, or the disk has too little room.
    pub(super) fn make(base: &Path) -> Outcome<Self> {
        let shown = base.display();
        fs::create_dir_all(base).doing(format_args!("make {shown}"))?;
        let place = |path, left| Self { path, left, base: base.to_owned() };
        let facts = statvfs(base).doing(format_args!("look at the disk of {shown}"))?;
        let free = facts.f_bavail.saturating_mul(facts.f_frsize);
        if free < BYTES {
            place(base.to_owned(), Vec::new()).remove_above();
            return Err(Failure::new(format!(
                "the disk of {shown} has {} of room, and four replicas want {}: choose a directory on another disk with --dir",
                size(free),
                size(BYTES)
            )));
        }
        let mut left = Vec::new();
        for number in 1..=TRIES {
            let path = base.join(number.to_string());
            match fs::create_dir(&path) {
                Ok(()) => return Ok(place(path, left)),
                Err(why) if why.kind() == ErrorKind::AlreadyExists => left.push(former(&path)),
                Err(why) => return Err(why).doing(format_args!("make {}", path.display())),
            }
        }
        Err(Failure::new(format!(
            "{shown} is full of former tours: remove it, or choose another directory with --dir"
        )))
    }

    /// Removes the directory, and those above it if they are empty now.
    ///
    /// # Errors
    /// When something in it can not be removed.
    pub(super) fn remove(&self) -> Outcome<()> {
        // The story may be making a file just now, when it is ended in the middle.
        let remove = || fs::remove_dir_all(&self.path);
        let removed = remove().or_else(|_| {
            std::thread::sleep(AGAIN);
            remove()
        });
        removed.doing(format_args!("remove {}", self.path.display()))?;
        self.remove_above();
        Ok(())
    }

    fn remove_above(&self) {
        // Those with something else in them stay.
        let _ = fs::remove_dir(&self.base);
        if let Some(above) = self.base.parent().filter(|above| above.ends_with(".quorate")) {
            let _ = fs::remove_dir(above);
        }
    }
}

/// What a directory is that was there already.
fn former(path: &Path) -> String {
    let shown = path.display();
    let runs = File::open(path.join(LOCK))
        .is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err());
    if runs {
        format!("Another cluster runs in {shown}; it has nothing to do with this one.")
    } else {
        format!(
            "{shown} is left from a tour that was interrupted or kept; nothing needs it (`rm -r {shown}`)."
        )
    }
}
