//! The host's part in checkpoints: they are durable at once, a replica starts from its newest one, and records that the protocol no longer
//! needs are deleted.

use super::{Event, World};
use quorate_order::Input;
use quorate_types::{ReplicaId, Slot};

impl World {
    /// Makes a durable checkpoint of the last slot that the replica decided, or of an earlier one. Says whether it could.
    pub fn checkpoint(&mut self, id: ReplicaId, slot: Option<Slot>) -> bool {
        let slot = slot.unwrap_or(self.replicas[&id].decided);
        let anchor = self.order(id).and_then(|order| order.anchor(slot));
        let Some(anchor) = anchor.filter(|_| slot > Slot::ZERO) else { return false };
        let first = self.anchors.entry(slot).or_insert_with(|| anchor.clone());
        assert_eq!(*first, anchor, "INV-SCRIPT-8: {id} says something else of {slot}");
        if let Some(replica) = self.replicas.get_mut(&id) {
            replica.checkpoints.insert(slot, anchor);
        }
        true
    }

    /// The protocol forgets what the newest checkpoint, or that of `slot`, holds; older checkpoints and the records that are not needed are
    /// deleted. Says whether there is such a checkpoint, of a slot that the replica decided.
    pub fn trim(&mut self, id: ReplicaId, slot: Option<Slot>) -> bool {
        let replica = self.replicas.get_mut(&id).expect("a member");
        let slot = slot.or_else(|| replica.checkpoints.last_key_value().map(|(slot, _)| *slot));
        let slot = slot.filter(|slot| replica.checkpoints.contains_key(slot) && *slot <= replica.decided);
        let Some(slot) = slot.filter(|_| replica.order.is_some()) else { return false };
        replica.checkpoints.retain(|kept, _| *kept >= slot);
        self.step(id, Input::Trim { slot });
        self.delete_records(id);
        true
    }

    /// Deletes the records that the protocol does not need.
    pub fn delete_records(&mut self, id: ReplicaId) {
        let Some(keep) = self.order(id).and_then(quorate_order::Order::keep_from) else { return };
        let replica = self.replicas.get_mut(&id).expect("a member");
        let count = keep.number().saturating_sub(replica.gone + 1);
        assert!(count as usize <= replica.disk().durable, "INV-SCRIPT-9: {id} gives up what is not durable");
        if count > 0 {
            replica.disk.drain(..count as usize);
            replica.gone += count;
            self.events.push(Event::Trimmed(id, keep));
        }
    }

    /// Removes the checkpoints after this slot, which turned out to be wrong.
    pub fn discard(&mut self, id: ReplicaId, slot: Slot) {
        if let Some(replica) = self.replicas.get_mut(&id) {
            replica.checkpoints.retain(|kept, _| *kept <= slot);
        }
    }

    /// Makes the newest checkpoint of another replica the only one of this replica. Says whether there is one.
    pub fn fetch(&mut self, id: ReplicaId, from: ReplicaId) -> bool {
        let newest = self.replicas[&from].checkpoints.last_key_value();
        let Some((slot, anchor)) = newest.map(|(slot, anchor)| (*slot, anchor.clone())) else { return false };
        if let Some(replica) = self.replicas.get_mut(&id) {
            replica.checkpoints.clear();
            replica.checkpoints.insert(slot, anchor);
        }
        true
    }

    /// The service takes over the state of the newest checkpoint. Says whether there is one.
    pub fn install(&mut self, id: ReplicaId) -> bool {
        let replica = self.replicas.get_mut(&id).expect("a member");
        let newest = replica.checkpoints.last_key_value().filter(|_| replica.order.is_some());
        let Some((slot, anchor)) = newest.map(|(slot, anchor)| (*slot, anchor.clone())) else { return false };
        (replica.decided, replica.behind) = (slot, None);
        self.step(id, Input::Installed { slot, anchor });
        true
    }

    /// Whether a replica that is told to fetch a checkpoint does so at once, and others make one for it.
    pub fn set_autofetch(&mut self, autofetch: bool) {
        self.autofetch = autofetch;
    }

    /// Installs the checkpoint that the replica needs, if another replica can make it. Says whether that was done.
    pub(super) fn fetch_from_anybody(&mut self, id: ReplicaId) -> bool {
        let replica = self.replicas.get_mut(&id).expect("a member");
        let Some(slot) = replica.behind.take() else { return false };
        let slot = slot.max(replica.decided.next());
        for from in self.members.clone() {
            if from != id && self.order(from).is_some() {
                self.checkpoint(from, None);
            }
            let newest = self.replicas[&from].checkpoints.keys().next_back();
            if from != id && newest.is_some_and(|newest| *newest >= slot) {
                return self.fetch(id, from) && self.install(id);
            }
        }
        false
    }
}
