//! Clusters with a guest.

use super::{Fault, Plan, Profile};
use crate::guest::Guest;
use crate::service::{Kind, ServiceConfig};

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

    /// The plan of this seed for a cluster that runs nothing but a guest's service. All clients carry its commands; `workload` says how many
    /// each should ask for. Nothing gets into a state that the guest did not put there.
    pub fn alone(seed: u64, profile: &Profile) -> Self {
        let mut plan = Self::new(seed, profile);
        plan.lying_clients.clear();
        plan.faults.retain(|(_, fault)| !matches!(fault, Fault::Corrupt { .. }));
        (plan.carriers, plan.restored, plan.service) = (plan.clients, false, ServiceConfig::default());
        plan
    }

    /// Which of the carriers a client is, if it is one.
    pub fn carrier(&self, client: usize) -> Option<usize> {
        client.checked_sub(self.clients - self.carriers).filter(|_| client < self.clients)
    }
}
