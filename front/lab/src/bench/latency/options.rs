//! The command line of `bench latency`.

use super::during::Event;
use crate::bench::figure;
use crate::bench::options::Measurement;
use crate::bench::temporary::Settings;
use quorate_command::arguments::seconds;
use quorate_command::failure::{Failure, Outcome};
use std::time::Duration;

/// How long puts take that come at a given rate, whether or not earlier ones were answered.
///
/// A latency counts from the moment at which a put was due, and every put that was due counts. Without --rates the command finds out how
/// many puts per second the cluster answers at most, and measures at 10, 25, 50, 75, 90, 150 and 200 % of that. Past 100 % the cluster
/// must refuse what it can not do (`Overloaded`), go on as fast as before, and keep the latency bounded.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate bench latency
  quorate bench latency --rates 1000,10000,50000 --secs 20
  quorate bench latency --during none,checkpoint,scrub,transfer,leader,hand-over --secs 20
  quorate bench latency --quota 10 --queue-bytes 4MiB
  quorate bench latency --during none,leader --rate 20000 --state-bytes 1GiB")]
pub(in crate::bench) struct LatencyArgs {
    #[command(flatten)]
    pub(in crate::bench) measurement: Measurement,
    /// Puts per second, one measurement each [default: shares of the most that the cluster answers]
    #[arg(long, value_name = "PER_SECOND", value_delimiter = ',', conflicts_with = "during")]
    pub(in crate::bench) rates: Vec<f64>,
    /// What happens in the measured time, one cluster and one measurement each
    #[arg(long, value_enum, value_name = "EVENTS", value_delimiter = ',', conflicts_with_all = ["dir", "config"])]
    pub(in crate::bench) during: Vec<Event>,
    /// With --during: puts per second [default: half of the most that the cluster answers]
    #[arg(long, value_name = "PER_SECOND", requires = "during")]
    pub(in crate::bench) rate: Option<f64>,
    /// With --during: the state that is put there before, in values of 1 KiB
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = figure::parse_bytes)]
    pub(in crate::bench) state_bytes: u64,
    /// Sessions that take the puts in turn
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    pub(in crate::bench) callers: usize,
    /// Clients that share the sessions; each has a connection of its own, and the room for waiting calls that a client has by default
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    pub(in crate::bench) clients: usize,
    /// Bytes of requests that a replica lets wait, beyond which it answers `Overloaded` [default: the replicas' own]
    #[arg(long, value_name = "BYTES", value_parser = figure::parse_bytes, conflicts_with_all = ["dir", "config"])]
    pub(in crate::bench) queue_bytes: Option<u64>,
    /// Percent of a core that each lane of each replica gets, 0 for no limit: so that the cluster is the limit, not the load generator
    #[arg(long, value_name = "PERCENT", default_value_t = 0, conflicts_with_all = ["dir", "config", "during"])]
    pub(in crate::bench) quota: u32,
    /// How long a put waits for its answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub(in crate::bench) timeout: f64,
    /// Keys of 16 random bytes to choose from
    #[arg(long, value_name = "COUNT", default_value_t = 100_000)]
    pub(in crate::bench) keys: u64,
    /// Size of a value in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 16)]
    pub(in crate::bench) value_bytes: usize,
}

impl LatencyArgs {
    /// Refuses what can not run, and says why.
    pub(super) fn check(&self) -> Outcome<()> {
        self.measurement.check()?;
        let refuse = |why: &str| Err(Failure::usage(why));
        if self.rates.iter().chain(&self.rate).any(|rate| !(1.0..=1e8).contains(rate)) {
            return refuse("--rates and --rate are 1 to 100000000 puts per second");
        }
        if !(1..=10_000).contains(&self.callers) || !(1..=self.callers.min(1000)).contains(&self.clients) {
            return refuse("--callers is 1 to 10000, --clients 1 to 1000 and no more than the callers");
        }
        if self.keys == 0 || self.value_bytes > 64 << 10 {
            return refuse("--keys is at least 1, --value-bytes at most 65536");
        }
        if self.queue_bytes.is_some_and(|bytes| !(1 << 20..=64 << 30).contains(&bytes)) {
            return refuse("--queue-bytes is 1MiB to 64GiB");
        }
        if !(1 << 20..=1 << 40).contains(&self.state_bytes) {
            return refuse("--state-bytes is 1MiB to 1TiB");
        }
        if !self.measurement.own_cluster() && self.clients > 1 {
            return refuse("a cluster that runs already gets one client: say --clients 1");
        }
        self.timeout().map(|_| ())
    }

    /// The replicas' settings that are not the default.
    pub(super) fn settings(&self) -> Settings {
        let number = |bytes: u64| toml::Value::Integer(i64::try_from(bytes).unwrap_or(i64::MAX));
        self.queue_bytes.map(|bytes| ("limits", "queue_bytes", number(bytes))).into_iter().collect()
    }

    pub(super) fn timeout(&self) -> Outcome<Duration> {
        seconds("--timeout", self.timeout)
    }
}
