//! Another number of instances. docs/protocols/merge.md L3, L4.
//!
//! A command changes it; its generation ends with the slot `window` after the command's own, in all instances. Nobody has proposed
//! anything behind that border before it knows of it, since no leader proposes more than a window ahead of what its replica executed.
//! One change at a time: the next may begin when the border is behind (INV-MERGE-4).
//! Tests: tests/merge/changes.rs.

use crate::local::{Local, Stay};
use crate::refused::Refused;

/// Of these instances only the first `stay` stay after slot `border`. Nothing changes when a no-op reaches across it.
pub(crate) fn leave<T>(locals: &mut [Local<T>], stay: usize, border: u64) -> Result<(), Refused> {
    if locals.iter().take(stay).any(|local| local.crosses(border)) {
        return Err(Refused::AcrossBorder);
    }
    locals.iter_mut().skip(stay).try_for_each(|local| local.leave(border))
}

/// The instance at this place in the list takes part after slot `border`, for the first time or again. Gives the slots of the batches
/// that it said already.
pub(crate) fn bring_in<T>(locals: &mut Vec<Local<T>>, at: usize, border: u64) -> Vec<u64> {
    if at == locals.len() {
        locals.push(Local::new(0, border, Stay::Here));
        return Vec::new();
    }
    locals[at].come_back(border)
}
