//! The clusters that these figures compare.

use crate::bench::options::Measurement;
use crate::bench::report::oracle;
use quorate_command::ordering::OrderArgs;
use quorate_order::{Feature, Protocol};
use quorate_types::{FaultModel, Faults, Visigoth};
use serde::Serialize;

/// A kind of cluster.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    /// Its name beside others, which is the same for each number of faults.
    pub(super) family: String,
    pub(super) model: FaultModel,
    pub(super) protocol: Protocol,
    /// How many replicas it needs, and has.
    pub(super) replicas: u16,
    /// How many of them may be faulty.
    pub(super) faults: u32,
}

impl Kind {
    /// Replicas that only crash.
    pub(super) fn crash(faults: u32, protocol: Protocol) -> Self {
        let family = format!("crash, {}", protocol.name());
        Self { family, model: FaultModel::Crash, protocol, replicas: members(2 * faults + 1), faults }
    }

    /// Replicas that may do anything.
    pub(super) fn byzantine(faults: u32) -> Self {
        let (model, protocol) = (FaultModel::Byzantine, Feature::SurviveLies.protocol());
        Self { family: "byzantine".into(), model, protocol, replicas: members(3 * faults + 1), faults }
    }

    /// Replicas of which few are slow. After `t_ms` milliseconds one that is not slow has answered. With s = u nothing is known of how fast
    /// replicas are.
    pub(super) fn visigoth(u: u32, s: u32, o: u32, t_ms: u32) -> Self {
        let numbers = Visigoth { u, s, o, t_ms: if s < u { t_ms } else { 0 } };
        let replicas = members(numbers.members_min());
        let (model, protocol) = (FaultModel::Visigoth(numbers), Feature::CountOnFast.protocol());
        Self { family: format!("visigoth, s={s}, o={o}"), model, protocol, replicas, faults: u }
    }

    /// The same under another name.
    pub(super) fn named(self, family: impl Into<String>) -> Self {
        Self { family: family.into(), ..self }
    }

    /// The measurement of this kind.
    pub(super) fn measurement(&self, base: &Measurement) -> Measurement {
        let order = OrderArgs::surviving_by(self.model, self.protocol);
        Measurement { order, replicas: Some(self.replicas), ..base.clone() }
    }

    /// Why this program runs no such cluster.
    pub(super) fn refusal(&self) -> Option<String> {
        let refused = OrderArgs::surviving_by(self.model, self.protocol).choice().err()?;
        Some(format!("refused by this program: {refused}"))
    }

    /// Everything that distinguishes it.
    pub(super) fn shown(&self) -> Shown {
        let few = self.model.few_are_slow();
        Shown {
            family: self.family.clone(),
            fault_model: self.model.to_string(),
            faults: self.faults,
            protocol: self.protocol.name(),
            replicas: self.replicas,
            quorum: Faults::of(self.model).among(u32::from(self.replicas)).agreement(),
            oracle: few.then(oracle),
            refused: self.refusal(),
        }
    }
}

/// No figure asks for more faults than fit.
fn members(count: u32) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

/// A kind of cluster, for readers.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Shown {
    pub(super) family: String,
    pub(super) fault_model: String,
    pub(super) faults: u32,
    pub(super) protocol: &'static str,
    pub(super) replicas: u16,
    /// The usual quorum.
    pub(super) quorum: u32,
    /// The oracle beside it; null: none is needed.
    pub(super) oracle: Option<String>,
    /// Why it was not measured; null: it was.
    pub(super) refused: Option<String>,
}

impl Shown {
    /// Its name, also among other numbers of faults.
    pub(super) fn name(&self) -> String {
        let Self { fault_model, protocol, replicas, .. } = self;
        format!("{fault_model}, {protocol}, {replicas} replicas")
    }

    /// Its name beside a curve, which is empty if it was refused.
    pub(super) fn legend(&self) -> String {
        let refused = if self.refused.is_some() { " (refused)" } else { "" };
        format!("{}{refused}", self.family)
    }
}
