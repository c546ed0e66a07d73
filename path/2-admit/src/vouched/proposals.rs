//! A proposal about which the protocol asked, and how many of its requests are known here.

use quorate_types::{Digest, RequestNumber, SessionId, Slot};
use quorate_wire::{Batch, RequestHeader};
use std::collections::{BTreeMap, BTreeSet};

/// A proposal that waits until this replica vouches for it.
#[derive(Debug)]
pub(super) struct HeldProposal {
    pub(super) slot: Slot,
    pub(super) digest: Digest,
    pub(super) batch: Batch,
    /// How many of its requests are known here, from the first on.
    pub(super) known: usize,
    /// Requests that came from their clients when there was no room to keep them, by index.
    pub(super) seen: BTreeSet<usize>,
    /// Whether the signatures of the requests that were not heard here were checked together.
    pub(super) together: bool,
    /// The request with this index has a wrong signature, so it has to be heard.
    pub(super) wrong: Option<usize>,
    /// The request with this index had a wrong tag when this many keys had come.
    pub(super) wrong_tag: Option<(usize, u64)>,
    /// The indexes of its requests, once they were needed.
    places: BTreeMap<(SessionId, RequestNumber), usize>,
}

impl HeldProposal {
    pub(super) fn new(slot: Slot, digest: Digest, batch: Batch) -> Self {
        let (seen, places) = (BTreeSet::new(), BTreeMap::new());
        Self { slot, digest, batch, known: 0, seen, together: false, wrong: None, wrong_tag: None, places }
    }

    /// A client sends this, and there is no room to keep it.
    pub(super) fn see(&mut self, header: &RequestHeader, whole: &[u8]) {
        if self.places.is_empty() {
            let headers = self.batch.requests().flatten().map(|(header, ..)| (header.session, header.number));
            self.places = headers.enumerate().map(|(at, key)| (key, at)).collect();
        }
        if let Some(at) = self.places.get(&(header.session, header.number))
            && self.batch.requests().flatten().nth(*at).is_some_and(|(.., own)| own == whole)
        {
            self.seen.insert(*at);
        }
    }
}
