//! The clusters that these figures compare.

use crate::bench::options::Measurement;
use crate::bench::report::oracle;
use crate::bench::temporary::{Settings, TOP};
use quorate_command::ordering::{AuthenticationWord, OrderArgs};
use quorate_order::{Feature, Protocol};
use quorate_types::{FaultModel, Faults, Visigoth};
use serde::Serialize;

/// A kind of cluster.
#[derive(Clone, Debug)]
pub(in crate::bench::figure) struct Kind {
    /// Its name beside others, which is the same for each number of faults.
    pub(in crate::bench::figure) family: String,
    pub(in crate::bench::figure) model: FaultModel,
    pub(in crate::bench::figure) protocol: Protocol,
    /// How many replicas it needs, and has.
    pub(in crate::bench::figure) replicas: u16,
    /// How many of them may be faulty.
    pub(in crate::bench::figure) faults: u32,
    /// With how many workers each replica checks the signatures of clients, 0 for none; `None`: clients do not sign.
    pub(in crate::bench::figure) signed: Option<u16>,
}

impl Kind {
    /// Replicas that only crash.
    pub(in crate::bench::figure) fn crash(faults: u32, protocol: Protocol) -> Self {
        let family = format!("crash, {}", protocol.name());
        Self {
            family,
            model: FaultModel::Crash,
            protocol,
            replicas: members(2 * faults + 1),
            faults,
            signed: None,
        }
    }

    /// Replicas that may do anything.
    pub(in crate::bench::figure) fn byzantine(faults: u32) -> Self {
        let (model, protocol) = (FaultModel::Byzantine, Feature::SurviveLies.protocol());
        Self {
            family: "byzantine".into(),
            model,
            protocol,
            replicas: members(3 * faults + 1),
            faults,
            signed: None,
        }
    }

    /// Replicas of which few are slow. After `t_ms` milliseconds one that is not slow has answered. With s = u nothing is known of how fast
    /// replicas are.
    pub(in crate::bench::figure) fn visigoth(u: u32, s: u32, o: u32, t_ms: u32) -> Self {
        let numbers = Visigoth { u, s, o, t_ms: if s < u { t_ms } else { 0 } };
        let replicas = members(numbers.members_min());
        let (model, protocol) = (FaultModel::Visigoth(numbers), Feature::CountOnFast.protocol());
        Self { family: format!("visigoth, s={s}, o={o}"), model, protocol, replicas, faults: u, signed: None }
    }

    /// The same under another name.
    pub(in crate::bench::figure) fn named(self, family: impl Into<String>) -> Self {
        Self { family: family.into(), ..self }
    }

    /// The same; clients sign their requests, and each replica checks them with so many workers.
    pub(in crate::bench::figure) fn signed(self, workers: u16) -> Self {
        Self { signed: Some(workers), ..self }
    }

    fn order(&self) -> OrderArgs {
        let order = OrderArgs::surviving_by(self.model, self.protocol);
        if self.signed.is_some() { order.authenticated(AuthenticationWord::Signatures) } else { order }
    }

    /// The measurement of this kind.
    pub(in crate::bench::figure) fn measurement(&self, base: &Measurement) -> Measurement {
        Measurement { order: self.order(), replicas: Some(self.replicas), ..base.clone() }
    }

    /// Keys of its replicas' configuration that are not the default.
    pub(in crate::bench::figure) fn settings(&self) -> Settings {
        let workers = self.signed.filter(|workers| *workers > 0);
        workers.map(|workers| (TOP, "workers", toml::Value::Integer(workers.into()))).into_iter().collect()
    }

    /// Why this program runs no such cluster.
    pub(in crate::bench::figure) fn refusal(&self) -> Option<String> {
        let refused = self.order().choice().err()?;
        Some(format!("refused by this program: {refused}"))
    }

    /// Everything that distinguishes it.
    pub(in crate::bench::figure) fn shown(&self) -> Shown {
        let few = self.model.few_are_slow();
        Shown {
            family: self.family.clone(),
            fault_model: self.model.to_string(),
            faults: self.faults,
            protocol: self.protocol.name(),
            replicas: self.replicas,
            quorum: Faults::of(self.model).among(u32::from(self.replicas)).agreement(),
            signed_workers: self.signed,
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
pub(in crate::bench::figure) struct Shown {
    pub(in crate::bench::figure) family: String,
    pub(in crate::bench::figure) fault_model: String,
    pub(in crate::bench::figure) faults: u32,
    pub(in crate::bench::figure) protocol: &'static str,
    pub(in crate::bench::figure) replicas: u16,
    /// The usual quorum.
    pub(in crate::bench::figure) quorum: u32,
    /// With how many workers each replica checks signatures of clients; null: clients do not sign.
    pub(in crate::bench::figure) signed_workers: Option<u16>,
    /// The oracle beside it; null: none is needed.
    pub(in crate::bench::figure) oracle: Option<String>,
    /// Why it was not measured; null: it was.
    pub(in crate::bench::figure) refused: Option<String>,
}

impl Shown {
    /// Its name, also among other numbers of faults.
    pub(in crate::bench::figure) fn name(&self) -> String {
        let Self { fault_model, protocol, replicas, .. } = self;
        let signed = match self.signed_workers {
            None => String::new(),
            Some(1) => ", signed, 1 worker".into(),
            Some(workers) => format!(", signed, {workers} workers"),
        };
        format!("{fault_model}, {protocol}, {replicas} replicas{signed}")
    }

    /// Its name beside a curve, which is empty if it was refused.
    pub(in crate::bench::figure) fn legend(&self) -> String {
        let refused = if self.refused.is_some() { " (refused)" } else { "" };
        format!("{}{refused}", self.family)
    }
}
