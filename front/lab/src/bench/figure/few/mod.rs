//! The figures `visigoth-3` to `visigoth-6`: clusters with few members, of which few are slow, beside those that survive crashes or lies with
//! the usual number of members.
//!
//! After figures 3 to 6 of "Visigoth Fault Tolerance" (EuroSys 2015), section 6. The paper has a machine for each replica; here all replicas
//! share one, so that processor time for each request says more than rates. Files: `kinds` (the clusters that are compared), `closed` (clusters
//! under load), `worth` (visigoth-3), `curves` (visigoth-4 and -5), `trace` (visigoth-6). Tests: `tests`.

mod closed;
pub(super) mod curves;
mod kinds;
#[cfg(test)]
mod tests;
pub(super) mod trace;
pub(super) mod worth;

use super::{Drawn, FigureArgs, refuse, shares};
use crate::bench::bft::BYTES_MAX;
use crate::bench::draw::Page;
use crate::bench::report::{self, Durability};
use closed::{Curve, Floor, Load};
use quorate_command::failure::Outcome;
use quorate_command::machine::Machine;
use quorate_command::print::amount;
use quorate_runtime::TimingConfig;
use serde::Serialize;

/// The options of these figures alone.
#[derive(Debug, clap::Args)]
pub(crate) struct FewArgs {
    /// For visigoth-3: how many faults are survived; visigoth-4 takes the largest number
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_values_t = [1, 2, 3])]
    faults: Vec<u32>,
    /// For visigoth-4 and -5: how many clients, one after the other, each with one request outstanding; visigoth-3 and -6 take the largest number
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_values_t = [1, 4, 16, 64, 128])]
    clients: Vec<usize>,
    /// For visigoth-3: sizes of requests; visigoth-4, -5 and -6 take the largest
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_values_t = [0, 1024])]
    request_bytes: Vec<usize>,
    /// For visigoth-3 to -6, and the pair of eve-3 and eve-8 to eve-11: after how many milliseconds a replica that is not slow has answered
    #[arg(long, value_name = "MS", default_value_t = 50)]
    t_ms: u32,
    /// For visigoth-3 to -6: clients share connections, as callers in one program do; otherwise each has its own
    #[arg(long)]
    shared: bool,
    /// For visigoth-6 and eve-8: all times of the paper are divided by this; 1: five minutes for each run
    #[arg(long, value_name = "NUMBER", default_value_t = 10.0)]
    divide: f64,
}

impl FewArgs {
    /// Refuses options that can not be, and says why.
    fn check(&self) -> Outcome<()> {
        if self.faults.is_empty() || self.faults.iter().any(|faults| !(1..=3).contains(faults)) {
            return refuse("--faults is a list of numbers from 1 to 3");
        }
        if self.clients.is_empty() || self.clients.iter().any(|clients| !(1..=10_000).contains(clients)) {
            return refuse("--clients is a list of numbers from 1 to 10000");
        }
        if self.request_bytes.is_empty() || self.request_bytes.iter().any(|bytes| *bytes > BYTES_MAX) {
            return refuse("--request-bytes is a list of numbers up to 262144");
        }
        // Where replicas complain about their leader sooner than that, they refuse it.
        let most = TimingConfig::default().election_min_ms.div_ceil(2) - 1;
        if !(1..=most).contains(&u64::from(self.t_ms)) {
            return refuse(&format!("--t-ms is 1 to {most}"));
        }
        if !(1.0..=60.0).contains(&self.divide) {
            return refuse("--divide is 1 to 60");
        }
        Ok(())
    }

    /// For a pair: T in milliseconds, and by what times are divided.
    pub(super) fn pair(&self) -> Outcome<(u32, f64)> {
        self.check()?;
        Ok((self.t_ms, self.divide))
    }

    fn clients_most(&self) -> usize {
        self.clients.iter().copied().max().unwrap_or(1)
    }

    /// The largest request.
    fn request_bytes_most(&self) -> usize {
        self.request_bytes.iter().copied().max().unwrap_or(0)
    }

    /// Every number of clients, with the largest request.
    fn growing(&self) -> Vec<Load> {
        let request_bytes = self.request_bytes_most();
        self.clients.iter().map(|clients| Load { clients: *clients, request_bytes }).collect()
    }
}

/// What all of these figures depend on.
#[derive(Serialize)]
struct Head {
    figure: &'static str,
    version: &'static str,
    #[serde(flatten)]
    durability: Durability,
    tls: bool,
    payload: String,
    load: String,
    t_ms: u32,
    rounds: u32,
    /// How long each load was measured.
    seconds: f64,
    valid: bool,
    machine: Machine,
}

impl Head {
    /// Of a figure that is about to be measured; `bytes` and `clients` are words.
    fn new(args: &FigureArgs, figure: &'static str, bytes: &str, clients: &str) -> Self {
        let measurement = args.measurement();
        let own =
            if args.few.shared { "which share connections" } else { "each with connections of its own" };
        Self {
            figure,
            version: env!("CARGO_PKG_VERSION"),
            durability: Durability::planned(&measurement),
            tls: !measurement.plain,
            payload: format!("requests of {bytes} B, which the service does not keep, and replies of 0 B"),
            load: format!("{clients} clients, {own}, one request outstanding each"),
            t_ms: args.few.t_ms,
            rounds: args.rounds,
            seconds: args.secs,
            valid: true,
            machine: Machine::ask(&measurement.scratch),
        }
    }

    fn facts(&self) -> Vec<String> {
        let tls = if self.tls { "TLS" } else { "without TLS" };
        vec![
            format!("durability {}, {tls}; quorate {}", self.durability, self.version),
            format!("{}; {}", self.payload, self.load),
            format!(
                "where few are slow (s below u): T is {} ms, and there is an {}",
                self.t_ms,
                report::oracle()
            ),
            format!(
                "all replicas, the oracle and the load generator share {} cores, so rates and latencies are those of this machine; \
                 processor time is what each replica costs anywhere",
                self.machine.cores
            ),
        ]
    }

    fn machine(&self) -> Vec<String> {
        report::machine_lines(&self.machine).lines().map(|line| line.trim().to_owned()).collect()
    }
}

/// Lines about curves: what was refused or failed, and the null program.
fn lines_about<'a>(curves: impl Iterator<Item = &'a Curve> + Clone) -> Vec<String> {
    let refused = curves.clone().filter_map(Curve::refusal);
    let trouble = curves.clone().filter_map(Curve::trouble);
    let floors = curves.flat_map(|curve| curve.floors.iter().map(floor));
    refused.chain(trouble).chain(floors).collect()
}

/// The null program, for readers.
fn floor(floor: &Floor) -> String {
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
fn drawn(head: &Head, page: &Page, document: &impl Serialize) -> Outcome<Drawn> {
    Drawn::of((head.figure, head.valid), page, document)
}

/// Several numbers, for readers.
fn listed<T: ToString>(numbers: &[T]) -> String {
    numbers.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}
