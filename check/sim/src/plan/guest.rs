//! Clusters with a guest.

use super::{Plan, Profile};
use crate::guest::Guest;
use crate::service::Kind;

impl Plan {
    /// The plan of this seed for a cluster with a guest, whose state lies in the engine's store.
    pub fn with_guest(seed: u64, profile: &Profile, guest: &dyn Guest) -> Self {
        let mut plan = Self::new(seed, profile);
        plan.carriers = guest.carriers(plan.replicas);
        plan.clients += plan.carriers;
        plan.lying_clients.clear();
        plan.restored = false;
        (plan.service.kind, plan.service.watched) = (Kind::InStore, false);
        plan
    }

    /// Which of the carriers a client is, if it is one.
    pub fn carrier(&self, client: usize) -> Option<usize> {
        client.checked_sub(self.clients - self.carriers).filter(|_| client < self.clients)
    }
}
