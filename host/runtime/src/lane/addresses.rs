//! Where the other replicas are: an address each, and where they have them, others for the links of further lanes.
//! Tests: `addresses/tests.rs`.

use quorate_types::ReplicaId;
use std::collections::BTreeMap;

/// Of one replica.
struct ReplicaAddresses {
    address: String,
    /// Of the further links, in turn; all go to `address` where there is none.
    links: Vec<String>,
}

/// Of all of them.
#[derive(Default)]
pub(crate) struct Addresses(BTreeMap<ReplicaId, ReplicaAddresses>);

impl Addresses {
    /// A replica is there, by the configuration.
    pub(crate) fn configure(&mut self, replica: ReplicaId, address: String, links: Vec<String>) {
        self.0.insert(replica, ReplicaAddresses { address, links });
    }

    /// A replica is there, by the membership. One that moved has its links nowhere that is known.
    pub(crate) fn learn(&mut self, replica: ReplicaId, address: String) {
        let known = self
            .0
            .entry(replica)
            .or_insert_with(|| ReplicaAddresses { address: String::new(), links: Vec::new() });
        if known.address != address {
            *known = ReplicaAddresses { address, links: Vec::new() };
        }
    }

    pub(crate) fn forget(&mut self, replica: ReplicaId) {
        self.0.remove(&replica);
    }

    /// Where one of the links to it goes; the first is number 0.
    pub(crate) fn of(&self, replica: ReplicaId, link: u16) -> Option<&str> {
        let ReplicaAddresses { address, links } = self.0.get(&replica)?;
        let further = usize::from(link).checked_sub(1);
        let own = further.and_then(|number| links.get(number.checked_rem(links.len())?));
        Some(own.unwrap_or(address))
    }
}

#[cfg(test)]
mod tests;
