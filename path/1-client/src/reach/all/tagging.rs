//! The keys with which a client puts tags under its requests. Each replica is told its keys when it connects; keys are replaced now and
//! then.
//!
//! All copies of a request are equal, with their tags, however often keys were replaced since: copies keep the keys of the first sending,
//! and the keys of any epoch can be made again. Tests: tests/first.rs.

use crate::config::{Config, Macs};
use quorate_types::{ReplicaId, Span, Time};
use quorate_wire::{RequestProof, RequestTags, SharedKey};

/// See the module.
#[derive(Debug)]
pub(super) struct Tagging {
    macs: Macs,
    proof: RequestProof,
    /// In the order of their ids.
    replicas: Vec<ReplicaId>,
    epoch: u64,
    /// When the first request of this epoch was sent.
    since: Option<Time>,
    present: Box<dyn RequestTags>,
    /// The keys of the epoch before, which requests under way may have.
    before: Option<Box<dyn RequestTags>>,
    /// The keys of an earlier epoch, for requests that are under way for long.
    older: Option<(u64, Box<dyn RequestTags>)>,
}

impl Tagging {
    /// For these replicas, in the order of their ids. None where requests are signed, or the client wants no tags.
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

    /// Makes the tags of requests that were first sent in this epoch.
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

    /// The keys that a replica must know: the present one, and the one before.
    pub(super) fn shared_with(&self, replica: ReplicaId) -> Vec<SharedKey> {
        let all = [Some(&self.present), self.before.as_ref()];
        all.into_iter().flatten().filter_map(|tags| tags.shared_with(replica)).collect()
    }

    /// A request is about to be sent. If the keys are too old, new ones follow. Returns whether they do.
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
