//! Requests with tags: a tag that is right for this replica counts as much as having heard the request.
//!
//! Clients that trust their own machine send requests to the leader first (docs/decisions/0021). In the leader's proposal, a tag shows each
//! replica which client made the request; the key for the tag came over the client's own connection. A replica that lacks the key, or finds
//! its tag wrong, waits until it hears the request or f+1 others vote. As with signatures, tags count for nothing where clients have
//! limited rights. Tests: tags/tests.rs.

use quorate_auth::{is_tag, request_statement, tag_at};
use quorate_types::{ClientId, ClusterId, ReplicaId, planted};
use quorate_wire::{RequestHeader, RequestProof, SharedKey};
use std::collections::BTreeMap;

/// At most this many keys of one client are known; several processes may use one name.
const OF_CLIENT_MAX: usize = 256;
/// At most this many keys are known in all.
const KEYS_MAX: usize = 1 << 16;

/// The keys that clients share with this replica.
#[derive(Debug)]
pub(super) struct Tags {
    cluster: ClusterId,
    me: ReplicaId,
    /// This replica's index among the tags of a request.
    place: usize,
    members: usize,
    /// By client and number: the key, and how many keys came before it.
    keys: BTreeMap<(ClientId, u64), (SharedKey, u64)>,
    by_age: BTreeMap<u64, (ClientId, u64)>,
    /// How many keys came so far.
    came: u64,
}

impl Tags {
    /// For the member `me` among these members.
    pub(super) fn new(cluster: ClusterId, me: ReplicaId, members: impl Iterator<Item = ReplicaId>) -> Self {
        let (keys, by_age) = (BTreeMap::new(), BTreeMap::new());
        let mut tags = Self { cluster, me, place: 0, members: 0, keys, by_age, came: 0 };
        tags.meet(me, members);
        tags
    }

    /// These are the members from now on: clients make a tag for each of them, in the order of their ids.
    pub(super) fn meet(&mut self, me: ReplicaId, members: impl Iterator<Item = ReplicaId>) {
        (self.place, self.members) = (0, 0);
        for member in members {
            self.members += 1;
            self.place += usize::from(member < me);
        }
        // Tags that were wrong may be right now.
        self.came += 1;
    }

    /// A client tells keys over its own connection. The oldest make room for them.
    pub(super) fn learn(&mut self, client: ClientId, keys: &[SharedKey]) {
        for key in keys {
            let name = (client, key.id);
            if let Some((_, age)) = self.keys.insert(name, (*key, self.came)) {
                self.by_age.remove(&age);
            }
            self.by_age.insert(self.came, name);
            self.came += 1;
        }
        let own = |tags: &Self| -> Vec<u64> {
            let of_client = tags.keys.range((client, 0)..=(client, u64::MAX));
            of_client.map(|(_, (_, age))| *age).collect()
        };
        let mut ages = own(self);
        if ages.len() > OF_CLIENT_MAX {
            ages.sort_unstable();
            ages[..ages.len() - OF_CLIENT_MAX].iter().for_each(|age| self.forget(*age));
        }
        while self.keys.len() > KEYS_MAX
            && let Some((age, _)) = self.by_age.first_key_value()
        {
            self.forget(*age);
        }
    }

    fn forget(&mut self, age: u64) {
        if let Some(name) = self.by_age.remove(&age) {
            self.keys.remove(&name);
        }
    }

    pub(super) fn invariants(&self) {
        let bounded = self.keys.len() <= KEYS_MAX && self.keys.len() == self.by_age.len();
        assert!(bounded, "INV-HEARD-4 {} keys of tags are known", self.keys.len());
    }

    /// How many keys came so far. A tag that was wrong may be right once more keys came.
    pub(super) const fn came(&self) -> u64 {
        self.came
    }

    /// Whether this client made the tag for this replica.
    pub(super) fn is_right(&self, client: ClientId, header: &RequestHeader, whole: &[u8]) -> bool {
        let RequestProof::Macs { members } = header.proof else { return false };
        let (about, proof) = header.split(whole);
        let Some((id, tag)) = tag_at(proof, self.place) else { return false };
        if usize::from(members) != self.members {
            return false;
        }
        let Some((key, _)) = self.keys.get(&(client, id)) else { return false };
        if planted("tag-unchecked") {
            return true;
        }
        is_tag(&key.secret, self.me, &request_statement(self.cluster, about, b""), &tag)
    }
}

#[cfg(test)]
mod tests;
