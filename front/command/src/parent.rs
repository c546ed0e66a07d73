//! Ends a process together with its parent.

use crate::failure::{Doing as _, Failure, Outcome};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

/// From now on the system kills this process when its parent ends, whose id is `parent`; 0 if that is not known.
///
/// The signal is SIGKILL: a paused replica would not see SIGTERM and would stay.
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
