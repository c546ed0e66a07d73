//! Which clients may read and write which keys. Asked where a request comes in, before it is ordered: so a refusal is one replica's
//! answer and never a part of what all of them execute.
//!
//! Keys are the service's business: it names those of a command ([`quorate_execute::Service::keys`]). Tests: access/tests.rs.

use quorate_execute::{Executor, KeyUse};
use quorate_types::{Holder, Identity, Items, Name};
use quorate_wire::{RequestHeader, RequestKind};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a client may do: keys that begin with one of these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Keys that it may read.
    pub read: Vec<Vec<u8>>,
    /// Keys that it may write.
    pub write: Vec<Vec<u8>>,
}

impl Permissions {
    /// Whether this is covered.
    pub fn cover(&self, used: &KeyUse<'_>) -> bool {
        match used {
            KeyUse::Read(key) => self.read.iter().any(|prefix| key.starts_with(prefix)),
            KeyUse::Write(key) => self.write.iter().any(|prefix| key.starts_with(prefix)),
            KeyUse::ReadRange { start, end } => self.read.iter().any(|prefix| within(prefix, start, *end)),
        }
    }

    /// Whether all commands of a request are covered. What is no list of commands is answered by execution.
    pub(crate) fn may_run(&self, executor: &Executor, body: &[u8]) -> bool {
        let Ok(commands) = Items::parse(body) else { return true };
        commands.iter().all(|command| executor.uses_only(command, false, |used| self.cover(used)))
    }

    /// Whether a question is covered.
    pub(crate) fn may_ask(&self, executor: &Executor, query: &[u8]) -> bool {
        executor.uses_only(query, true, |used| self.cover(used))
    }

    /// Whether a request of any kind is covered.
    pub(crate) fn permit(&self, executor: &Executor, header: &RequestHeader, body: &[u8]) -> bool {
        match header.kind {
            RequestKind::Commands => self.may_run(executor, body),
            RequestKind::Query => self.may_ask(executor, body),
            _ => true,
        }
    }
}

/// Whether all keys from `start` up to before `end` begin with this.
fn within(prefix: &[u8], start: &[u8], end: Option<&[u8]>) -> bool {
    if prefix.is_empty() {
        return true;
    }
    // What comes after all keys that begin with the prefix: nothing does if it is all 0xff.
    let last = prefix.iter().rposition(|byte| *byte != 0xff);
    let after = last.map(|at| [&prefix[..at], &[prefix[at] + 1]].concat());
    let ends = match (end, after) {
        (Some(end), Some(after)) => end <= &after[..],
        (_, None) => true,
        (None, Some(_)) => false,
    };
    start.starts_with(prefix) && ends
}

/// The permissions of all clients.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Clients that are named.
    pub named: BTreeMap<Name, Arc<Permissions>>,
    /// Those that are not; without it they may do everything.
    pub others: Option<Arc<Permissions>>,
}

impl Access {
    /// What somebody may do; everything if none is given. Operators may do everything, and replicas, which have everything: one that
    /// serves another protocol sees to the rights of those whom it serves.
    pub(crate) fn of(&self, identity: Option<&Arc<Identity>>) -> Option<&Arc<Permissions>> {
        match identity.map(|identity| &identity.holder) {
            Some(Holder::Admin(_) | Holder::Replica(_)) => None,
            Some(Holder::Client(name)) => self.named.get(name).or(self.others.as_ref()),
            None => self.others.as_ref(),
        }
    }
}

#[cfg(test)]
mod tests;
