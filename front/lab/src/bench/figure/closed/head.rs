//! What figures in a closed loop say of themselves: on what their numbers depend, what failed, and the null program.

use super::{Curve, Floor, How};
use crate::bench::draw::Page;
use crate::bench::figure::{Drawn, shares};
use crate::bench::report::{self, Durability};
use quorate_command::failure::Outcome;
use quorate_command::machine::Machine;
use quorate_command::print::amount;
use serde::Serialize;

/// What all of these figures depend on.
#[derive(Serialize)]
pub(in crate::bench::figure) struct Head {
    pub(in crate::bench::figure) figure: &'static str,
    version: &'static str,
    #[serde(flatten)]
    durability: Durability,
    tls: bool,
    pub(in crate::bench::figure) payload: String,
    pub(in crate::bench::figure) load: String,
    /// After how many milliseconds a replica that is not slow has answered; null where no cluster depends on it.
    pub(in crate::bench::figure) t_ms: Option<u32>,
    pub(in crate::bench::figure) rounds: u32,
    /// How long each load was measured.
    pub(in crate::bench::figure) seconds: f64,
    pub(in crate::bench::figure) valid: bool,
    machine: Machine,
}

impl Head {
    /// Of a figure that is about to be measured. `payload` says what requests and replies are, `clients` how many there are.
    pub(in crate::bench::figure) fn new(
        how: &How,
        figure: &'static str,
        payload: String,
        clients: &str,
    ) -> Self {
        let own = if how.shared { "which share connections" } else { "each with connections of its own" };
        Self {
            figure,
            version: env!("CARGO_PKG_VERSION"),
            durability: Durability::planned(&how.base),
            tls: !how.base.plain,
            payload,
            load: format!("{clients} clients, {own}, one request outstanding each"),
            t_ms: None,
            rounds: how.rounds,
            seconds: how.base.secs,
            valid: true,
            machine: Machine::ask(&how.base.scratch),
        }
    }

    /// Of clusters in which few replicas are slow.
    pub(in crate::bench::figure) fn with_t(self, t_ms: u32) -> Self {
        Self { t_ms: Some(t_ms), ..self }
    }

    pub(in crate::bench::figure) fn facts(&self) -> Vec<String> {
        let tls = if self.tls { "TLS" } else { "without TLS" };
        let few = self.t_ms.map(|t_ms| {
            format!("where few are slow (s below u): T is {t_ms} ms, and there is an {}", report::oracle())
        });
        let oracle = if self.t_ms.is_some() { ", the oracle" } else { "" };
        let shared = format!(
            "all replicas{oracle} and the load generator share {} cores, so rates and latencies are those of this machine; \
             processor time is what each replica costs anywhere",
            self.machine.cores
        );
        let first = [
            format!("durability {}, {tls}; quorate {}", self.durability, self.version),
            format!("{}; {}", self.payload, self.load),
        ];
        first.into_iter().chain(few).chain([shared]).collect()
    }

    pub(in crate::bench::figure) fn machine(&self) -> Vec<String> {
        report::machine_lines(&self.machine).lines().map(|line| line.trim().to_owned()).collect()
    }
}

/// Lines about curves: what was refused or failed, and the null program.
pub(in crate::bench::figure) fn lines_about<'a>(
    curves: impl Iterator<Item = &'a Curve> + Clone,
) -> Vec<String> {
    let refused = curves.clone().filter_map(Curve::refusal);
    let trouble = curves.clone().filter_map(Curve::trouble);
    let floors = curves.flat_map(|curve| curve.floors.iter().map(floor_text));
    refused.chain(trouble).chain(floors).collect()
}

/// The null program, for readers.
pub(in crate::bench::figure) fn floor_text(floor: &Floor) -> String {
    let cpu = floor.per_replica_cpu_s.map_or("-".into(), |per| shares::cell(&per, amount));
    let disagree = if floor.replicas_agree { "" } else { "; NOT VALID: its replicas disagree" };
    format!(
        "the null program ({}), commands of {} B, {} outstanding: {}/s, p50 {:.0} us, {cpu} per replica CPU second{disagree}",
        floor.which,
        floor.request_bytes.max(16),
        floor.clients,
        shares::cell(&floor.per_s, amount),
        floor.p50_us.median,
    )
}

/// The page and the document as what `bench figure` writes.
pub(in crate::bench::figure) fn drawn(head: &Head, page: &Page, document: &impl Serialize) -> Outcome<Drawn> {
    Drawn::of((head.figure, head.valid), page, document)
}

/// Several numbers, for readers.
pub(in crate::bench::figure) fn listed<T: ToString>(numbers: &[T]) -> String {
    numbers.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}
