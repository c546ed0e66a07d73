//! The keys with which a client puts tags under its requests: told to each replica when it is there, replaced now and then.
//!
//! All copies of a request are the same, tags among them, however often keys were replaced since: what a request was sent with first is
//! what its copies have, and keys of any epoch can be made again. Tests: tests/first.rs.

use crate::config::{Config, Macs};
use crate::core::ClientCore;
use crate::effects::Effects;
use quorate_types::{ReplicaId, Time};
use quorate_wire::{RequestProof, RequestTags, SharedKey, keys_frame};

/// See the module.
#[derive(Debug)]
pub(crate) struct Tagging {
    macs: Macs,
    proof: RequestProof,
    /// By growing ids.
    replicas: Vec<ReplicaId>,
    epoch: u64,
    /// When the first request of this epoch was sent.
    since: Option<Time>,
    present: Box<dyn RequestTags>,
    /// Those of the epoch before, which requests under way may have.
    before: Option<Box<dyn RequestTags>>,
    /// Those of an earlier one, of what is under way for long.
    older: Option<(u64, Box<dyn RequestTags>)>,
}

impl Tagging {
    /// For these replicas, by growing ids; none where nobody looks at tags.
    pub(crate) fn of(config: &Config, replicas: &[ReplicaId]) -> Option<Self> {
        let macs = config.macs.clone().filter(|_| config.signer.is_none())?;
        let proof = RequestProof::macs(replicas.len()).filter(|_| config.faults.may_lie())?;
        let (epoch, present) = (0, macs.0.keys(0, replicas));
        let replicas = replicas.to_vec();
        Some(Self { macs, proof, replicas, epoch, since: None, present, before: None, older: None })
    }

    pub(crate) const fn proof(&self) -> RequestProof {
        self.proof
    }
    pub(crate) const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What makes the tags of requests that were sent first in this epoch.
    pub(crate) fn tags(&mut self, epoch: u64) -> &dyn RequestTags {
        if epoch == self.epoch {
            return &*self.present;
        }
        if epoch + 1 == self.epoch
            && let Some(before) = &self.before
        {
            return &**before;
        }
        if let Some((of, _)) = &self.older
            && *of != epoch
        {
            self.older = None;
        }
        let made = || (epoch, self.macs.0.keys(epoch, &self.replicas));
        &*self.older.get_or_insert_with(made).1
    }

    /// What a replica is to know: the present key, and the one before.
    fn shared_with(&self, replica: ReplicaId) -> Vec<SharedKey> {
        let all = [Some(&self.present), self.before.as_ref()];
        all.into_iter().flatten().filter_map(|tags| tags.shared_with(replica)).collect()
    }
}

impl ClientCore {
    /// Something is about to be sent: are the keys too old for it?
    pub(crate) fn renew_keys(&mut self, now: Time, out: &mut Effects) {
        let Some(tagging) = &mut self.tagging else { return };
        let since = *tagging.since.get_or_insert(now);
        if now.since(since) < self.config.keys_last {
            return;
        }
        tagging.epoch += 1;
        tagging.since = Some(now);
        let present = tagging.macs.0.keys(tagging.epoch, &tagging.replicas);
        tagging.before = Some(std::mem::replace(&mut tagging.present, present));
        for link in 0..self.links.len() {
            self.send_keys(link, out);
        }
    }

    /// Tells a member that is there the keys that it shares with this client.
    pub(crate) fn send_keys(&mut self, link: usize, out: &mut Effects) {
        let Some(tagging) = &self.tagging else { return };
        let keys = tagging.shared_with(self.links[link].replica);
        if !keys.is_empty() {
            self.send(link, keys_frame(&keys), out);
        }
    }
}
