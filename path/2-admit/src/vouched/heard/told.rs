//! What members say that they heard from clients, where this replica did not hear it.

use super::COST;
use bytes::Bytes;
use quorate_types::{ReplicaId, Span, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// At most this many requests of each member are kept.
const TOLD_MAX: usize = 4096;
/// The most bytes of them; or as many as one client may have, if that is more.
pub(super) const TOLD_BYTES: usize = 64 << 10;

/// The requests, and the members that told of them. Each member has its own share, from which the oldest is dropped.
#[derive(Debug)]
pub(super) struct Told {
    by_request: BTreeMap<Bytes, BTreeSet<ReplicaId>>,
    by_member: BTreeMap<ReplicaId, Share>,
}

/// What one member told, oldest first.
#[derive(Debug, Default)]
struct Share {
    requests: VecDeque<(Time, Bytes)>,
    bytes: usize,
}

impl Told {
    pub(super) const fn new() -> Self {
        Self { by_request: BTreeMap::new(), by_member: BTreeMap::new() }
    }

    /// A member tells of this request. Returns how many members did so by now. A member may have this many bytes, one request excepted.
    pub(super) fn tell(&mut self, now: Time, by: ReplicaId, whole: &[u8], bytes_max: usize) -> usize {
        let share = self.by_member.entry(by).or_default();
        if !self.by_request.get(whole).is_some_and(|members| members.contains(&by)) {
            let whole = Bytes::copy_from_slice(whole);
            share.bytes += whole.len() + COST;
            share.requests.push_back((now, whole.clone()));
            self.by_request.entry(whole).or_default().insert(by);
        }
        while share.requests.len() > TOLD_MAX
            || (share.bytes > bytes_max.max(TOLD_BYTES) && share.requests.len() > 1)
        {
            Self::drop_oldest(&mut self.by_request, by, share);
        }
        self.count(whole)
    }

    fn drop_oldest(by_request: &mut BTreeMap<Bytes, BTreeSet<ReplicaId>>, by: ReplicaId, share: &mut Share) {
        let Some((_, oldest)) = share.requests.pop_front() else { return };
        share.bytes -= oldest.len() + COST;
        if let Some(members) = by_request.get_mut(&oldest) {
            members.remove(&by);
            if members.is_empty() {
                by_request.remove(&oldest);
            }
        }
    }

    /// Drops what was told long ago: it is done, or will be told again.
    pub(super) fn tidy(&mut self, now: Time, keep: Span) {
        for (by, share) in &mut self.by_member {
            while share.requests.front().is_some_and(|(at, _)| now.since(*at) > keep) {
                Self::drop_oldest(&mut self.by_request, *by, share);
            }
        }
    }

    /// The request was executed.
    pub(super) fn forget(&mut self, whole: &[u8]) {
        self.by_request.remove(whole);
    }

    pub(super) fn count(&self, whole: &[u8]) -> usize {
        self.by_request.get(whole).map_or(0, BTreeSet::len)
    }

    pub(super) fn members(&self, whole: &[u8]) -> Vec<ReplicaId> {
        self.by_request.get(whole).into_iter().flatten().copied().collect()
    }

    /// How many requests and bytes of a member are kept.
    #[cfg(test)]
    pub(super) fn share(&self, of: ReplicaId) -> (usize, usize) {
        self.by_member.get(&of).map_or((0, 0), |share| (share.requests.len(), share.bytes))
    }
}
