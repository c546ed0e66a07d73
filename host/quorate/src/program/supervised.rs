//! What `quorate dev` wants of a replica's process that it started: to end with it, and to be hurt on request.

use super::{hurt, slow};
use quorate_runtime::{MonotonicClock, Options};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use std::io;
use std::path::PathBuf;
use std::process::Command;

/// The variables of the environment by which a program of one's own hears of it.
const PARENT: &str = "QUORATE_DEV_PARENT";
const SLOW: &str = "QUORATE_DEV_SLOW";
const HURT: &str = "QUORATE_DEV_HURT";

/// What the process that started this one wants of it. By itself a replica is never slow, and never hurt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Supervised {
    /// The process with which this one ends; 0: the one that started it, whichever that is.
    pub parent: Option<u32>,
    /// The file that says how slow to be.
    pub slow: Option<PathBuf>,
    /// The file that says what else is done to the replica.
    pub hurt: Option<PathBuf>,
}

impl Supervised {
    /// What the environment says. Files count only together with a parent: whoever runs a replica for good has none.
    #[must_use]
    pub fn by_environment() -> Self {
        let parent = std::env::var(PARENT).ok().and_then(|id| id.parse().ok());
        let file = |name| std::env::var_os(name).filter(|_| parent.is_some()).map(PathBuf::from);
        Self { parent, slow: file(SLOW), hurt: file(HURT) }
    }

    /// Says so in the environment of a command.
    pub fn tell<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.envs(self.parent.map(|id| (PARENT, id.to_string())));
        command.envs(self.slow.as_ref().map(|file| (SLOW, file)));
        command.envs(self.hurt.as_ref().map(|file| (HURT, file)))
    }

    /// Binds this process to its parent, if it is to end with it.
    ///
    /// # Errors
    /// When the system refuses, or the parent has ended already.
    pub fn bind(&self) -> io::Result<()> {
        self.parent.map_or(Ok(()), die_with_parent)
    }

    /// Options of a replica that hears what the files say.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn options(&self) -> io::Result<Options> {
        let hurt = self.hurt.clone().map(hurt::told).transpose()?;
        Ok(Options {
            lateness: self.slow.clone().map(slow::told).transpose()?,
            clock: hurt.as_ref().map(|hurt| hurt.jumps.clone().over(MonotonicClock::new())),
            partition: hurt.as_ref().map(|hurt| hurt.partition.clone()),
            quota: hurt.map(|hurt| hurt.quota),
            ..Options::default()
        })
    }
}

/// From now on the system kills this process when its parent ends, whose id is `parent`; 0 if that is not known.
///
/// The signal is SIGKILL: a paused replica would not see SIGTERM and would stay.
///
/// # Errors
/// When the system refuses, or the parent has ended already.
pub fn die_with_parent(parent: u32) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // From here on a parent that ends takes us along; if it ended before, nobody would tell us.
    let now = getppid();
    let expected = i32::try_from(parent).ok().and_then(Pid::from_raw);
    let gone = match expected {
        Some(expected) => now != Some(expected),
        None => now.is_none_or(Pid::is_init),
    };
    if gone {
        return Err(io::Error::other("the process that started this one has ended, so this one ends, too"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
