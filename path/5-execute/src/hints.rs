//! Requests that run away from the lane, and the keys that they will probably use.

use crate::context::Context;
use crate::parallel::ParallelService;
use crate::service::KeyUse;
use bytes::Bytes;
use quorate_types::Items;
use quorate_wire::RequestKind;
use std::ops::Bound;

/// The most keys of one request that are looked at.
const HINTS_MAX: usize = 256;

/// A key or a range that a request will probably use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hint {
    Read(Box<[u8]>),
    Write(Box<[u8]>),
    Range(Box<[u8]>, Option<Box<[u8]>>),
}

impl From<KeyUse<'_>> for Hint {
    fn from(used: KeyUse<'_>) -> Self {
        match used {
            KeyUse::Read(key) => Self::Read(key.into()),
            KeyUse::Write(key) => Self::Write(key.into()),
            KeyUse::ReadRange { start, end } => Self::Range(start.into(), end.map(Into::into)),
        }
    }
}

/// A request that runs away from the lane.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) kind: RequestKind,
    pub(crate) body: Bytes,
    pub(crate) ctx: Context,
    pub(crate) hints: Vec<Hint>,
    /// Whether the service named all keys that it can name.
    pub(crate) is_known: bool,
}

/// The first keys that a request will probably use, and whether the service named all that it can name.
pub(crate) fn hints(service: &dyn ParallelService, kind: RequestKind, body: &[u8]) -> (Vec<Hint>, bool) {
    let (mut hints, mut is_known) = (Vec::new(), true);
    let mut more = 0;
    let mut add = |used: KeyUse<'_>| {
        if hints.len() < HINTS_MAX {
            hints.push(used.into());
        } else {
            more += 1;
        }
    };
    match (kind, Items::parse(body)) {
        (RequestKind::Query, _) => is_known = service.keys(body, true, &mut add),
        (_, Ok(commands)) => {
            for command in commands.iter() {
                is_known &= service.hints(command, &mut add);
            }
        }
        _ => is_known = false,
    }
    (hints, is_known && more == 0)
}

/// The keys between two, in a map.
pub(crate) fn within<'a>(start: &'a [u8], end: Option<&'a [u8]>) -> (Bound<&'a [u8]>, Bound<&'a [u8]>) {
    // A map takes no range that ends before it starts.
    (Bound::Included(start), end.map_or(Bound::Unbounded, |end| Bound::Excluded(end.max(start))))
}
