//! The watches of a server's clients: which events go to which connection.
//!
//! A path can have up to four kinds of watch of one connection at once. What is delivered once ends with its event; the lasting kinds stay
//! until they are removed. A connection hears of an event once, however many of its watches it fits.
//! Source: `DataTree`, `WatchManager` and `WatcherMode` of Apache ZooKeeper 3.9.4. Tests: tests/all/watches.rs.

use super::ConnId;
use crate::records::EventKind;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A set of kinds of watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds(u8);

impl Kinds {
    /// For the next change of the data, or of whether the node exists.
    pub const DATA: Self = Self(1);
    /// For the next change of the children.
    pub const CHILDREN: Self = Self(2);
    /// For all of these.
    pub const LASTING: Self = Self(4);
    /// For data and existence of the node, and of all nodes below it.
    pub const BELOW: Self = Self(8);
    /// All kinds.
    pub const ALL: Self = Self(15);

    const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
    pub(super) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    pub(super) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
    const fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// Whether they have one in common.
    pub const fn meets(self, other: Self) -> bool {
        !self.and(other).is_empty()
    }

    /// The kinds for one event that end with this one.
    pub(super) const fn once_of(event: EventKind) -> Self {
        match event {
            EventKind::Created | EventKind::DataChanged => Self::DATA,
            EventKind::Deleted => Self::DATA.or(Self::CHILDREN),
            EventKind::ChildrenChanged => Self::CHILDREN,
        }
    }

    /// The kinds that a client means by a number when it checks or removes watches.
    pub const fn of_watcher_type(number: i32) -> Option<Self> {
        Some(match number {
            1 => Self::CHILDREN,
            2 => Self::DATA,
            3 => Self::ALL,
            4 => Self::LASTING,
            5 => Self::BELOW,
            _ => return None,
        })
    }

    /// The kind that a client adds by a number.
    pub const fn of_add_mode(number: i32) -> Option<Self> {
        Some(match number {
            0 => Self::LASTING,
            1 => Self::BELOW,
            _ => return None,
        })
    }
}

/// All watches of a server.
#[derive(Debug, Default)]
pub struct Watches {
    paths: HashMap<Box<str>, BTreeMap<ConnId, Kinds>>,
    of: HashMap<ConnId, HashSet<Box<str>>>,
    /// How many watches of the kind [`Kinds::BELOW`] there are.
    below: usize,
    /// About how much memory the watches of each connection take.
    bytes: HashMap<ConnId, usize>,
}

/// What a watch takes beside its path.
const WATCH_BYTES: usize = 200;

impl Watches {
    /// Adds a watch.
    pub fn add(&mut self, conn: ConnId, path: &str, kinds: Kinds) {
        let at = self.paths.entry(path.into()).or_default().entry(conn).or_default();
        let is_new = at.is_empty();
        self.below += usize::from(kinds.meets(Kinds::BELOW) && !at.meets(Kinds::BELOW));
        *at = at.or(kinds);
        if is_new {
            *self.bytes.entry(conn).or_default() += 2 * path.len() + WATCH_BYTES;
            self.of.entry(conn).or_default().insert(path.into());
        }
    }

    /// The watches of a connection at a path.
    pub fn at(&self, conn: ConnId, path: &str) -> Kinds {
        self.paths.get(path).and_then(|conns| conns.get(&conn)).copied().unwrap_or_default()
    }

    /// Removes watches. Whether there was one of these kinds.
    pub fn remove(&mut self, conn: ConnId, path: &str, kinds: Kinds) -> bool {
        let Some(conns) = self.paths.get_mut(path) else { return false };
        let Some(at) = conns.get_mut(&conn) else { return false };
        let had = at.meets(kinds);
        self.below -= usize::from(kinds.meets(Kinds::BELOW) && at.meets(Kinds::BELOW));
        *at = at.without(kinds);
        if at.is_empty() {
            conns.remove(&conn);
            if let Some(bytes) = self.bytes.get_mut(&conn) {
                *bytes -= 2 * path.len() + WATCH_BYTES;
            }
            if let Some(paths) = self.of.get_mut(&conn) {
                paths.remove(path);
            }
        }
        if conns.is_empty() {
            self.paths.remove(path);
        }
        had
    }

    /// Removes all watches of a connection.
    pub fn remove_all(&mut self, conn: ConnId) {
        for path in self.of.get(&conn).cloned().into_iter().flatten() {
            self.remove(conn, &path, Kinds::ALL);
        }
        self.of.remove(&conn);
        self.bytes.remove(&conn);
    }

    /// The watches of a connection, by their paths.
    pub fn of(&self, conn: ConnId) -> impl Iterator<Item = (&str, Kinds)> {
        self.of.get(&conn).into_iter().flatten().map(move |path| (&**path, self.at(conn, path)))
    }

    /// How many there are; those of one connection at one path count once.
    pub fn count(&self) -> usize {
        self.of.values().map(HashSet::len).sum()
    }

    /// About how much memory the watches of a connection take.
    pub fn bytes(&self, conn: ConnId) -> usize {
        self.bytes.get(&conn).copied().unwrap_or(0)
    }

    /// All watched paths, and who watches them.
    pub fn by_path(&self) -> impl Iterator<Item = (&str, impl Iterator<Item = ConnId>)> {
        self.paths.iter().map(|(path, conns)| (&**path, conns.keys().copied()))
    }

    /// Who hears of an event, each connection once. Watches for one event end with it, whoever may hear of it.
    pub fn happened(&mut self, kind: EventKind, path: &str) -> Vec<ConnId> {
        let once = Kinds::once_of(kind);
        let lasting = match kind {
            EventKind::ChildrenChanged => Kinds::LASTING,
            EventKind::Created | EventKind::DataChanged | EventKind::Deleted => {
                Kinds::LASTING.or(Kinds::BELOW)
            }
        };
        let all = once.or(lasting);
        let here = self.paths.get(path).into_iter().flatten();
        let mut hear: Vec<ConnId> = here.filter(|(_, at)| at.meets(all)).map(|(conn, _)| *conn).collect();
        for conn in &hear {
            if self.at(*conn, path).meets(once) {
                self.remove(*conn, path, once);
            }
        }
        if kind != EventKind::ChildrenChanged && self.below > 0 {
            self.above(path, &mut hear);
        }
        hear
    }

    /// Adds those who watch everything below a node above.
    fn above(&self, path: &str, hear: &mut Vec<ConnId>) {
        let mut rest = path;
        while rest.len() > 1 {
            rest = match rest.rfind('/') {
                Some(0) | None => "/",
                Some(at) => &rest[..at],
            };
            let here = self.paths.get(rest).into_iter().flatten();
            hear.extend(here.filter(|(_, at)| at.meets(Kinds::BELOW)).map(|(conn, _)| *conn));
        }
        hear.sort_unstable();
        hear.dedup();
    }
}
