//! The figures `visigoth-3` to `visigoth-6`: clusters with few members, of which few are slow, beside those that survive crashes or lies with
//! the usual number of members.
//!
//! After figures 3 to 6 of "Visigoth Fault Tolerance" (EuroSys 2015), section 6. The paper has a machine for each replica; here all replicas
//! share one, so that processor time for each request says more than rates. Files: `worth` (visigoth-3), `curves` (visigoth-4 and -5), `trace`
//! (visigoth-6). Tests: `tests`.

pub(super) mod curves;
#[cfg(test)]
mod tests;
pub(super) mod trace;
pub(super) mod worth;

use super::closed::{CLIENTS, Head, Load};
use super::{FigureArgs, refuse};
use crate::bench::bft::BYTES_MAX;
use quorate_command::failure::Outcome;
use quorate_runtime::TimingConfig;

/// The options of these figures alone.
#[derive(Debug, clap::Args)]
pub(crate) struct FewArgs {
    /// For visigoth-3 and bft-smart-5: how many faults are survived; visigoth-4 takes the largest number
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_values_t = [1, 2, 3])]
    pub(super) faults: Vec<u32>,
    /// For visigoth-3: sizes of requests; visigoth-4, -5 and -6 take the largest
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_values_t = [0, 1024])]
    request_bytes: Vec<usize>,
    /// For visigoth-3 to -6, and the pair of eve-3 and eve-8 to eve-11: after how many milliseconds a replica that is not slow has answered
    #[arg(long, value_name = "MS", default_value_t = 50)]
    t_ms: u32,
    /// For visigoth-6, eve-8 and bft-smart-8: all times of the paper are divided by this; 1: up to ten minutes for each run
    #[arg(long, value_name = "NUMBER", default_value_t = 10.0)]
    divide: f64,
}

impl FewArgs {
    /// Refuses options that can not be, and says why.
    fn check(&self) -> Outcome<()> {
        self.check_faults()?;
        if self.request_bytes.is_empty() || self.request_bytes.iter().any(|bytes| *bytes > BYTES_MAX) {
            return refuse("--request-bytes is a list of numbers up to 262144");
        }
        // Where replicas complain about their leader sooner than that, they refuse it.
        let most = TimingConfig::default().election_min_ms.div_ceil(2) - 1;
        if !(1..=most).contains(&u64::from(self.t_ms)) {
            return refuse(&format!("--t-ms is 1 to {most}"));
        }
        self.divided().map(drop)
    }

    /// By what the paper's times are divided.
    pub(super) fn divided(&self) -> Outcome<f64> {
        if !(1.0..=60.0).contains(&self.divide) {
            return refuse("--divide is 1 to 60");
        }
        Ok(self.divide)
    }

    /// For a pair: T in milliseconds, and by what times are divided.
    pub(super) fn pair(&self) -> Outcome<(u32, f64)> {
        self.check()?;
        Ok((self.t_ms, self.divide))
    }

    pub(super) fn check_faults(&self) -> Outcome<()> {
        if self.faults.is_empty() || self.faults.iter().any(|faults| !(1..=3).contains(faults)) {
            return refuse("--faults is a list of numbers from 1 to 3");
        }
        Ok(())
    }

    /// The largest request.
    fn request_bytes_most(&self) -> usize {
        self.request_bytes.iter().copied().max().unwrap_or(0)
    }
}

/// Refuses options that can not be, and says why.
fn check(args: &FigureArgs) -> Outcome<()> {
    args.closed.check()?;
    args.few.check()
}

/// Every number of clients, with the largest request.
fn growing(args: &FigureArgs) -> Vec<Load> {
    let clients = args.closed.clients(&CLIENTS).into_iter();
    clients.map(|clients| Load::commands(clients, args.few.request_bytes_most())).collect()
}

/// What a figure says of itself; `bytes` and `clients` are words.
fn head(args: &FigureArgs, figure: &'static str, bytes: &str, clients: &str) -> Head {
    let payload = format!("requests of {bytes} B, which the service does not keep, and replies of 0 B");
    Head::new(&args.how(), figure, payload, clients).with_t(args.few.t_ms)
}
