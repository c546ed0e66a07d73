//! The keys with which a client puts tags under its requests: told to each replica when it is there, replaced now and then.
//!
//! All copies of a request are the same, tags among them, however often keys were replaced since: what a request was sent with first is
//! what its copies have, and keys of any epoch can be made again. Tests: tests/first.rs.

use crate::config::{Config, Macs};
use quorate_types::{ReplicaId, Span, Time};
use quorate_wire::{RequestProof, RequestTags, SharedKey};

/// See the module.
#[derive(Debug)]
pub(super) struct Tagging {
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
    /// For these replicas, by growing ids; none where requests are signed, or their client wants no tags.
    pub(super) fn of(config: &Config, replicas: &[ReplicaId]) -> Option<Self> {
        let macs = config.macs.clone().filter(|_| config.signer.is_none())?;
        let proof = RequestProof::macs(replicas.len())?;
        let (epoch, present) = (0, macs.0.keys(0, replicas));
        let replicas = replicas.to_vec();
        Some(Self { macs, proof, replicas, epoch, since: None, present, before: None, older: None })
    }

    pub(super) const fn proof(&self) -> RequestProof {
        self.proof
    }
    pub(super) const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What makes the tags of requests that were sent first in this epoch.
    pub(super) fn tags(&mut self, epoch: u64) -> &dyn RequestTags {
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
    pub(super) fn shared_with(&self, replica: ReplicaId) -> Vec<SharedKey> {
        let all = [Some(&self.present), self.before.as_ref()];
        all.into_iter().flatten().filter_map(|tags| tags.shared_with(replica)).collect()
    }

    /// Something is about to be sent: when the keys are too old for it, others follow. Whether they did.
    pub(super) fn renew(&mut self, now: Time, keys_last: Span) -> bool {
        let since = *self.since.get_or_insert(now);
        if now.since(since) < keys_last {
            return false;
        }
        self.epoch += 1;
        self.since = Some(now);
        let present = self.macs.0.keys(self.epoch, &self.replicas);
        self.before = Some(std::mem::replace(&mut self.present, present));
        true
    }
}
