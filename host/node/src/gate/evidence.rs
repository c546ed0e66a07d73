//! Evidence that can be carried, as this replica keeps it: one proof of each kind for each member. The host writes each to a file, and gives
//! them back at the next start.
//!
//! Tests: gate/evidence/tests.rs.

use crate::config::NodeConfig;
use crate::effects::{Effect, Effects};
use crate::status::EvidenceStatus;
use quorate_order::mod_smart::evidence::{Evidence, EvidenceKind};
use quorate_types::{AgreedTime, ReplicaId};
use quorate_wire::{OutFrame, evidence_frame};
use std::collections::BTreeMap;

/// Evidence with the cluster's time at which this replica found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The evidence.
    pub evidence: Evidence,
    /// When it was found.
    pub at: AgreedTime,
}

/// What is kept of a member and a kind.
#[derive(Debug)]
struct Held {
    found: Found,
    /// How often it was found since the start of the process.
    times: u64,
}

/// All that is kept.
#[derive(Debug, Default)]
pub(crate) struct Proofs {
    held: BTreeMap<(ReplicaId, EvidenceKind), Held>,
}

impl Proofs {
    /// What earlier lives found, as far as it proves something against members of this cluster.
    pub(crate) fn new(config: &NodeConfig) -> Self {
        let (auth, mut held) = (config.order.keys.build(), BTreeMap::new());
        let mut found = config.evidence.clone();
        found.sort_by_key(|found| found.at);
        for found in found {
            let Found { evidence, .. } = &found;
            let ours = evidence.cluster == config.order.cluster && config.order.faults.may_lie();
            // The configuration has the keys of its own membership. Those of later ones this replica knew when it found the evidence, and
            // named them there.
            let named = evidence.key.filter(|_| evidence.membership > config.members.number());
            let right = match named {
                Some(key) => evidence.verify(&key),
                None => evidence.verify_as_member(&*auth),
            };
            if ours && right.is_ok() {
                let of = (evidence.accused, evidence.kind);
                held.entry(of).or_insert(Held { found, times: 0 });
            }
        }
        Self { held }
    }

    /// The protocol proved this. The first of its kind against its member is kept. [mod_smart L167]
    pub(crate) fn prove(&mut self, at: AgreedTime, evidence: Evidence, out: &mut Effects) {
        let of = (evidence.accused, evidence.kind);
        let held = self.held.entry(of).or_insert_with(|| {
            out.push(Effect::Proved {
                text: evidence.to_string(),
                name: evidence.file_name(),
                bytes: evidence.encode(),
            });
            Held { found: Found { evidence, at }, times: 0 }
        });
        held.times += 1;
    }

    /// All of it, for an operator.
    pub(crate) fn frame(&self) -> OutFrame {
        let all: Vec<_> = self.all().map(|evidence| evidence.encode()).collect();
        evidence_frame(&all)
    }

    /// All of it, by member and kind.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Evidence> {
        self.held.values().map(|held| &held.found.evidence)
    }

    /// What the status says.
    pub(crate) fn status(&self) -> Vec<EvidenceStatus> {
        let status = |Held { found: Found { evidence, at }, times }: &Held| EvidenceStatus {
            replica: evidence.accused.number(),
            kind: evidence.kind.name(),
            instance: evidence.instance.number(),
            view: evidence.last().view().number(),
            slot: evidence.last().slot().number(),
            file: evidence.file_name(),
            at: at.nanos() / 1_000_000_000,
            times: *times,
            what: evidence.to_string(),
        };
        self.held.values().map(status).collect()
    }
}

#[cfg(test)]
mod tests;
