//! The addresses of the other replicas: one each, and, if configured, further ones for the links of other lanes.
//! Tests: `addresses/tests.rs`.

use quorate_types::ReplicaId;
use std::collections::BTreeMap;

/// The addresses of one replica.
struct ReplicaAddresses {
    address: String,
    /// The addresses of further links, in turn; if empty all links go to `address`.
    links: Vec<String>,
}

/// The addresses of all replicas.
#[derive(Default)]
pub(crate) struct Addresses(BTreeMap<ReplicaId, ReplicaAddresses>);

impl Addresses {
    /// Sets the address of a replica by the configuration.
    pub(crate) fn configure(&mut self, replica: ReplicaId, address: String, links: Vec<String>) {
        self.0.insert(replica, ReplicaAddresses { address, links });
    }

    /// Sets the address of a replica by the membership. If it differs from the configured one, its further addresses are unknown.
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

    /// The address of a link to a replica; the first link is number 0.
    pub(crate) fn of(&self, replica: ReplicaId, link: u16) -> Option<&str> {
        let ReplicaAddresses { address, links } = self.0.get(&replica)?;
        let further = usize::from(link).checked_sub(1);
        let own = further.and_then(|number| links.get(number.checked_rem(links.len())?));
        Some(own.unwrap_or(address))
    }
}

#[cfg(test)]
mod tests;
