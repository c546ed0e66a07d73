//! How replicas execute commands, as an option of commands that make clusters.

use crate::arguments::name;
use crate::failure::{Failure, Outcome};
use crate::layout::ServiceChoice;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// How commands run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExecutorChoice {
    /// One after the other
    #[default]
    Sequential,
    /// At the same time, with the effect of one after the other
    Ordered,
    /// At the same time and in one memory, as far as they name different keys; replicas compare the results
    Speculative,
}

/// The options.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ExecutionArgs {
    /// How replicas execute commands; others than `sequential` with the services kv, work and shop [default: sequential]
    #[arg(long, value_enum)]
    pub executor: Option<ExecutorChoice>,
    /// With another executor than `sequential`: how many threads of each replica execute commands [default: one for each core]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub workers: Option<u16>,
    /// Replicas compare what commands did before a client sees it; with the services kv, work and shop. `--executor speculative` does so anyway
    #[arg(long)]
    pub verify: bool,
    /// With --verify, where replicas only crash: whether batches run before they are decided, while there is one instance [default: true]
    #[arg(long, value_name = "true|false")]
    pub early: Option<bool>,
}

/// How the replicas of a cluster execute commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionChoice {
    /// How commands run.
    pub executor: ExecutorChoice,
    /// How many threads run them; `None`: one for each core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u16>,
    /// Whether results are compared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub verify: bool,
    /// Whether batches wait until they are decided, although results are compared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
}

impl ExecutionArgs {
    /// What was chosen for replicas with this service.
    ///
    /// # Errors
    /// When they can not run so.
    pub fn choice(&self, service: ServiceChoice) -> Outcome<ExecutionChoice> {
        let executor = self.executor.unwrap_or_default();
        if executor == ExecutorChoice::Sequential && self.workers.is_some() {
            return Err(Failure::usage(
                "--workers needs --executor ordered or speculative: otherwise one command runs after the other",
            ));
        }
        let is_parallel = matches!(service, ServiceChoice::Kv | ServiceChoice::Work | ServiceChoice::Shop);
        if self.verify && !is_parallel {
            let service = name(service);
            return Err(Failure::usage(format!(
                "--verify: a replica can not have the service {service} twice, one that runs ahead and one with what is final; add --service \
                 kv, or leave --verify out"
            )));
        }
        if executor != ExecutorChoice::Sequential && !is_parallel {
            let (service, executor) = (name(service), name(executor));
            return Err(Failure::usage(format!(
                "--executor {executor}: the service {service} runs one command after the other; kv, work and shop can run several at the same time, \
                 so add --service kv, or leave --executor out"
            )));
        }
        let verify = self.verify || executor == ExecutorChoice::Speculative;
        if self.early.is_some() && !verify {
            return Err(Failure::usage(
                "--early needs --verify: without it replicas have no state apart from the final one, on which batches could run early",
            ));
        }
        Ok(ExecutionChoice { executor, workers: self.workers, verify, late: self.early == Some(false) })
    }
}

impl ExecutionChoice {
    /// Its part of a replica's configuration; empty if it is the default.
    pub fn to_toml(&self) -> String {
        if *self == Self::default() {
            return String::new();
        }
        let workers = self.workers.map_or_else(String::new, |count| format!("workers = {count}\n"));
        let verify = if self.verify { "verify = true\n" } else { "" };
        let early = if self.late { "early = false\n" } else { "" };
        format!("\n[execution]\nexecutor = \"{}\"\n{workers}{verify}{early}", name(self.executor))
    }
}

impl std::fmt::Display for ExecutionChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", name(self.executor))?;
        self.workers.map_or(Ok(()), |count| write!(f, " with {count} workers"))?;
        f.write_str(if self.verify { ", verified" } else { "" })?;
        f.write_str(if self.late { ", not early" } else { "" })
    }
}
