//! A proposal that the protocol asked about, and how far its requests are known here.

use quorate_types::{Digest, RequestNumber, SessionId, Slot};
use quorate_wire::{Batch, RequestHeader};
use std::collections::{BTreeMap, BTreeSet};

/// A proposal that waits for this replica's word.
#[derive(Debug)]
pub(super) struct HeldProposal {
    pub(super) slot: Slot,
    pub(super) digest: Digest,
    pub(super) batch: Batch,
    /// So many of its requests are known.
    pub(super) known: usize,
    /// Those that came from their clients when there was no room to keep them.
    pub(super) seen: BTreeSet<usize>,
    /// The signatures of those that were not heard here were checked together.
    pub(super) together: bool,
    /// The signature of the next one is wrong: it has to be heard.
    pub(super) wrong: Option<usize>,
    /// The tag of this one was wrong when so many keys were known.
    pub(super) wrong_tag: Option<(usize, u64)>,
    /// Where its requests stand, once that was needed.
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
