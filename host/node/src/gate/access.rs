//! Which clients may read and write which keys. This is checked where a request comes in, before it is ordered: a refusal is the answer of
//! one replica, and never a part of what all execute.
//!
//! The service names the keys of a command ([`quorate_execute::Service::keys`]). Tests: access/tests.rs.

use quorate_execute::{Executor, KeyUse};
use quorate_types::{Holder, Identity, Items, Name};
use quorate_wire::{RequestHeader, RequestKind};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The rights of a client: keys that begin with one of these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Keys that the client may read.
    pub read: Vec<Vec<u8>>,
    /// Keys that the client may write.
    pub write: Vec<Vec<u8>>,
}

impl Permissions {
    /// Whether these rights cover a use of keys.
    pub fn cover(&self, used: &KeyUse<'_>) -> bool {
        match used {
            KeyUse::Read(key) => self.read.iter().any(|prefix| key.starts_with(prefix)),
            KeyUse::Write(key) => self.write.iter().any(|prefix| key.starts_with(prefix)),
            KeyUse::ReadRange { start, end } => self.read.iter().any(|prefix| within(prefix, start, *end)),
        }
    }

    /// Whether these rights cover all commands of a request. A body that is no list of commands is left to execution to answer.
    pub(crate) fn may_run(&self, executor: &Executor, body: &[u8]) -> bool {
        let Ok(commands) = Items::parse(body) else { return true };
        commands.iter().all(|command| executor.uses_only(command, false, |used| self.cover(used)))
    }

    /// Whether these rights cover a query.
    pub(crate) fn may_ask(&self, executor: &Executor, query: &[u8]) -> bool {
        executor.uses_only(query, true, |used| self.cover(used))
    }

    /// Whether these rights cover a request of any kind.
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
    // The end of the keys with this prefix; there is none if the prefix is all 0xff.
    let last = prefix.iter().rposition(|byte| *byte != 0xff);
    let after = last.map(|at| [&prefix[..at], &[prefix[at] + 1]].concat());
    let ends = match (end, after) {
        (Some(end), Some(after)) => end <= &after[..],
        (_, None) => true,
        (None, Some(_)) => false,
    };
    start.starts_with(prefix) && ends
}

/// The rights of all clients.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Clients with rights of their own.
    pub named: BTreeMap<Name, Arc<Permissions>>,
    /// The rights of all other clients; without it they may do everything.
    pub others: Option<Arc<Permissions>>,
}

impl Access {
    /// The rights of a peer; it may do everything if there are none. Operators may do everything. So may replicas, which have everything: a
    /// replica that serves another protocol checks the rights of its own clients.
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
