//! The services that this one asks, and those that ask it: a part of the replicated state.
//!
//! A neighbour owns sessions here, which do not expire. A nested request is a request of a caller's session; an answer is one of a backend's,
//! so it counts once, in its place, as any request does. The so many-th message of a neighbour has its session and number from its position
//! alone ([`Neighbour::place`]), and positions have no gaps. A neighbour that is forgotten keeps its sessions until what is under way in them
//! has ended, and is answered no more.
//!
//! ```text
//! part of a checkpoint   magic (8, the last one is the version) | count u16 | neighbour ...
//! neighbour              leaves u8 | sessions: the ids, u64 each | `quorate_wire::Neighbour`
//! ```
//! INV-NEIGHBOUR-1: a neighbour's sessions live, are its own, and are as many as it has. Tests: `neighbours/tests.rs`, `tests/all/nested/neighbours.rs`.

use crate::checkpoint::CheckpointError;
use crate::sessions::SessionTable;
use bytes::Bytes;
use quorate_types::{AgreedTime, RequestNumber, SessionId};
use quorate_wire::{Neighbour, NeighbourCommand, Reader, Relation};
use std::collections::BTreeMap;

const MAGIC: [u8; 8] = *b"quoneig\x01";
/// The most neighbours, so that they fit into memory whatever is ordered.
const NEIGHBOURS_MAX: usize = 256;

/// A neighbour, with what it has here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownNeighbour {
    /// Who it is.
    pub neighbour: Neighbour,
    /// Its sessions.
    pub sessions: Vec<SessionId>,
    /// It is forgotten once nothing of it is under way.
    pub leaves: bool,
}

impl KnownNeighbour {
    /// The session and the number of the message at a position.
    pub fn place(&self, position: u64) -> Option<(SessionId, RequestNumber)> {
        let (session, number) = self.neighbour.place(position);
        Some((*self.sessions.get(usize::from(session))?, RequestNumber::new(number)))
    }
}

/// All neighbours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbours {
    all: BTreeMap<(Relation, u32), KnownNeighbour>,
    /// Grows with each change, in this process.
    changes: u64,
}

impl Neighbours {
    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &KnownNeighbour> {
        self.all.values()
    }

    /// One of them, if it is one.
    pub fn get(&self, relation: Relation, service: u32) -> Option<&KnownNeighbour> {
        self.all.get(&(relation, service))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Grows with each change.
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// The neighbour that owns this session, and which of its sessions that is.
    pub(crate) fn of_session(&self, session: SessionId) -> Option<(&KnownNeighbour, u16)> {
        self.all.values().find_map(|known| {
            let at = known.sessions.iter().position(|id| *id == session)?;
            Some((known, at as u16))
        })
    }

    /// Carries out a command. The same on all replicas.
    ///
    /// # Errors
    /// The reason why nothing changes.
    pub(crate) fn carry_out(
        &mut self,
        command: &NeighbourCommand,
        sessions: &mut SessionTable,
        now: AgreedTime,
    ) -> Result<(), String> {
        match command {
            NeighbourCommand::Allow(neighbour) => self.allow(neighbour.clone(), sessions, now)?,
            NeighbourCommand::Forget(relation, service) => {
                let known = self.all.get_mut(&(*relation, *service));
                known.ok_or_else(|| format!("service {service} is no such neighbour"))?.leaves = true;
            }
        }
        self.changes += 1;
        self.tidy(sessions);
        Ok(())
    }

    fn allow(
        &mut self,
        mut neighbour: Neighbour,
        sessions: &mut SessionTable,
        now: AgreedTime,
    ) -> Result<(), String> {
        let key = (neighbour.relation, neighbour.service);
        if let Some(known) = self.all.get_mut(&key) {
            if known.leaves {
                return Err("it was forgotten, and requests of it are under way: wait for them".into());
            }
            // Which message goes where must not change.
            neighbour.sessions = known.neighbour.sessions;
            known.neighbour = neighbour;
            return Ok(());
        }
        if self.all.len() >= NEIGHBOURS_MAX {
            return Err(format!("there are at most {NEIGHBOURS_MAX} neighbours"));
        }
        let client = neighbour.relation.client(neighbour.service);
        let mut own = Vec::new();
        for nonce in 1..=u64::from(neighbour.sessions) {
            let Some(session) = sessions.open(client, nonce, None, now) else {
                for session in own {
                    sessions.remove(session);
                }
                return Err("the limits have no room for its sessions".into());
            };
            own.push(session);
        }
        self.all.insert(key, KnownNeighbour { neighbour, sessions: own, leaves: false });
        Ok(())
    }

    /// Ends the sessions of forgotten neighbours in which nothing is under way.
    pub(crate) fn tidy(&mut self, sessions: &mut SessionTable) {
        let before = self.all.len();
        self.all.retain(|_, known| {
            if known.leaves {
                known.sessions.retain(|session| {
                    let stays = sessions.under_way(*session) > 0;
                    if !stays {
                        sessions.remove(*session);
                    }
                    stays
                });
            }
            !known.leaves || !known.sessions.is_empty()
        });
        self.changes += u64::from(self.all.len() != before);
    }

    /// Appends its part of a checkpoint; nothing if there is no neighbour.
    pub(crate) fn write_to(&self, out: &mut Vec<u8>) {
        if self.all.is_empty() {
            return;
        }
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&(self.all.len() as u16).to_le_bytes());
        for known in self.all.values() {
            out.push(u8::from(known.leaves));
            out.push(known.sessions.len() as u8);
            known.sessions.iter().for_each(|id| out.extend_from_slice(&id.number().to_le_bytes()));
            known.neighbour.write_to(out);
        }
    }

    /// Reads its part of a checkpoint, if that comes next, and goes on behind it.
    pub(crate) fn read(bytes: &mut &[u8]) -> Result<Self, CheckpointError> {
        let Some(rest) = bytes.strip_prefix(&MAGIC) else { return Ok(Self::default()) };
        let mut r = Reader::new(Bytes::copy_from_slice(rest), "neighbours");
        let wrong = |_| CheckpointError::Malformed("neighbours");
        let mut all = BTreeMap::new();
        let count = r.u16().map_err(wrong)?;
        for _ in 0..count {
            let leaves = r.bool().map_err(wrong)?;
            let len = r.u8().map_err(wrong)?;
            let id = |_| r.u64().map(SessionId::from_number);
            let sessions: Vec<SessionId> = (0..len).map(id).collect::<Result<_, _>>().map_err(wrong)?;
            let neighbour = Neighbour::read(&mut r).map_err(wrong)?;
            let key = (neighbour.relation, neighbour.service);
            let last = all.last_key_value().map(|(last, _)| *last);
            let fits = if leaves { 1..=neighbour.sessions } else { neighbour.sessions..=neighbour.sessions };
            if last >= Some(key) || !fits.contains(&u16::from(len)) {
                return Err(CheckpointError::Malformed("neighbours"));
            }
            all.insert(key, KnownNeighbour { neighbour, sessions, leaves });
        }
        if count == 0 || all.len() > NEIGHBOURS_MAX {
            return Err(CheckpointError::Malformed("neighbours"));
        }
        *bytes = &rest[rest.len() - r.remaining()..];
        Ok(Self { all, changes: 0 })
    }

    /// Whether the sessions of a checkpoint are those of its neighbours.
    pub(crate) fn fit(&self, sessions: &SessionTable) -> bool {
        self.all.values().all(|known| {
            let client = known.neighbour.relation.client(known.neighbour.service);
            known.sessions.iter().all(|session| sessions.client(*session) == Some(client))
        })
    }

    /// Another state took the place of that one.
    pub(crate) fn go_on_from(&mut self, before: &Self) {
        self.changes = before.changes + 1;
    }

    /// Panics with the name of an invariant that does not hold.
    pub(crate) fn invariants(&self, sessions: &SessionTable) {
        assert!(self.fit(sessions), "INV-NEIGHBOUR-1: the sessions of neighbours live and are theirs");
        for known in self.all.values().filter(|known| !known.leaves) {
            let count = usize::from(known.neighbour.sessions);
            assert_eq!(known.sessions.len(), count, "INV-NEIGHBOUR-1: a neighbour has all its sessions");
        }
    }
}

#[cfg(test)]
mod tests;
