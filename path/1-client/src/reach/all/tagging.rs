//! The keys with which a client puts tags under its requests. Each replica is told its keys when it connects; keys are replaced now and
//! then, and when the members change.
//!
//! All copies of a request are equal, with their tags, however often keys were replaced since: copies keep the keys of the first sending,
//! and the keys of any epoch can be made again. That holds over changes of the membership, too: a request that was first sent to other
//! members keeps the tags for those. Replicas that compare copies byte for byte find them equal, and it goes to all members anyway.
//! Tests: tests/first.rs, tests/members.rs.

use crate::config::{Config, Macs};
use quorate_types::{ReplicaId, Span, Time};
use quorate_wire::{RequestProof, RequestTags, SharedKey};

/// Who gets tags from an epoch on, until other members follow.
#[derive(Debug)]
struct Receivers {
    first_epoch: u64,
    /// In the order of their ids.
    replicas: Vec<ReplicaId>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Tagging {
    macs: Macs,
    /// The members now, and before them those for whom requests under way have tags.
    receivers: Vec<Receivers>,
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
        let (epoch, present) = (0, macs.0.keys(0, replicas));
        let receivers = vec![Receivers { first_epoch: 0, replicas: replicas.to_vec() }];
        Some(Self { macs, receivers, epoch, since: None, present, before: None, older: None })
    }

    /// The members changed: requests that are sent for the first time from now on have tags for these replicas, with new keys. `oldest`:
    /// the oldest epoch of a request under way.
    pub(super) fn follow(&mut self, replicas: &[ReplicaId], oldest: Option<u64>) {
        self.epoch += 1;
        self.since = None;
        let present = self.macs.0.keys(self.epoch, replicas);
        self.before = Some(std::mem::replace(&mut self.present, present));
        self.receivers.push(Receivers { first_epoch: self.epoch, replicas: replicas.to_vec() });
        let oldest = oldest.unwrap_or(self.epoch);
        let needed = self.receivers.iter().rposition(|receivers| receivers.first_epoch <= oldest);
        self.receivers.drain(..needed.unwrap_or(0));
    }

    /// Who has tags under the requests of an epoch.
    fn receivers(&self, epoch: u64) -> &[ReplicaId] {
        let receivers = self.receivers.iter().rfind(|receivers| receivers.first_epoch <= epoch);
        receivers.map_or(&[], |receivers| &receivers.replicas)
    }

    /// What stands behind the requests that were first sent in this epoch. Nothing, where there are too few members for tags.
    pub(super) fn proof(&self, epoch: u64) -> RequestProof {
        RequestProof::macs(self.receivers(epoch).len()).unwrap_or_default()
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
        if self.older.as_ref().is_none_or(|(of, _)| *of != epoch) {
            self.older = Some((epoch, self.macs.0.keys(epoch, self.receivers(epoch))));
        }
        self.older.as_ref().map_or(&*self.present, |(_, older)| &**older)
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
        let present = self.macs.0.keys(self.epoch, self.receivers(self.epoch));
        self.before = Some(std::mem::replace(&mut self.present, present));
        true
    }
}
