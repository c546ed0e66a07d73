//! Processes that end with the one that started them.

use crate::failure::{Doing as _, Failure, Outcome};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

/// From here on this process ends with the one that started it, whose id is `parent`; 0 where that is not known.
///
/// SIGKILL and not SIGTERM: a replica that is paused would not see the latter, and stay.
///
/// # Errors
/// When the system refuses, or the parent has ended already.
pub fn die_with_parent(parent: u32) -> Outcome<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).doing("bind this process to its parent")?;
    // From here on a parent that ends takes us along; if it ended before, nobody would tell us.
    let now = getppid();
    let expected = i32::try_from(parent).ok().and_then(Pid::from_raw);
    let gone = match expected {
        Some(expected) => now != Some(expected),
        None => now.is_none_or(Pid::is_init),
    };
    if gone {
        return Err(Failure::new("the process that started this one has ended, so this one ends, too"));
    }
    Ok(())
}
