//! Changes of the number of instances. docs/protocols/merge.md L3, L4.
//!
//! A command changes the number. The present generation then ends, in all instances, with the slot `window` after the command's own slot:
//! the generation border, in this crate the border for short. No leader has proposed anything after it before it knows of it, since a
//! leader proposes at most a window ahead of what its replica executed. A change may begin only after the border of the one before
//! (INV-MERGE-4).
//! Tests: tests/merge/changes.rs.

use crate::local::{Local, Stay};
use crate::refused::Refused;

/// Only the first `stay` of these instances stay after slot `border`. Refused, and nothing changes, when a no-op reaches across the border.
pub(crate) fn leave<T>(locals: &mut [Local<T>], stay: usize, border: u64) -> Result<(), Refused> {
    if locals.iter().take(stay).any(|local| local.crosses(border)) {
        return Err(Refused::AcrossBorder);
    }
    locals.iter_mut().skip(stay).try_for_each(|local| local.leave(border))
}

/// The instance at this index of the list takes part after slot `border`, for the first time or again. Returns the slots of the batches
/// that it has already handed in.
pub(crate) fn bring_in<T>(locals: &mut Vec<Local<T>>, at: usize, border: u64) -> Vec<u64> {
    if at == locals.len() {
        locals.push(Local::new(0, border, Stay::Here));
        return Vec::new();
    }
    locals[at].come_back(border)
}
