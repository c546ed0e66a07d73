//! What an operator does to the members of a benchmark's own cluster while it is measured, by commands of this program in processes of their
//! own. Nothing here waits: what is under way is looked at when the cluster is ([`Target::check`]).

use super::temporary::{self, addresses};
use quorate_command::cluster::CLIENT_FILE;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_types::ReplicaId;
use std::collections::VecDeque;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long to wait before a command that failed is given again.
const AGAIN: Duration = Duration::from_millis(100);
/// How often a command may fail: a learner that has not caught up is not promoted, and nothing is changed while nobody leads.
const TRIES: u32 = 600;

/// A step.
enum Step {
    /// Give this command, until it succeeds.
    Give(Vec<String>),
    /// Start the replica, whose directory is there.
    Start,
    /// Stop the replica, which is no member any more.
    Stop,
}

/// What is to be done to the processes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Start this replica, which listens there.
    Start(ReplicaId, String),
    /// Stop this one.
    Stop(ReplicaId),
}

/// A change of the members that is under way.
pub(super) struct Change {
    /// The replica that joins or leaves.
    pub(super) replica: ReplicaId,
    address: String,
    steps: VecDeque<Step>,
    given: Option<Child>,
    failed: u32,
    /// When the next command is given.
    next: Instant,
}

impl Change {
    /// This replica joins, and votes once it has caught up.
    ///
    /// # Errors
    /// When no port is free.
    pub(super) fn joins(replica: ReplicaId, now: Instant) -> Outcome<Self> {
        let address = addresses(1)?.remove(0);
        let id = replica.number().to_string();
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let steps = [
            Step::Give(words(&["member", "add", &id, "--address", &address])),
            Step::Start,
            Step::Give(words(&["member", "promote", &id])),
        ];
        Ok(Self { replica, address, steps: steps.into(), given: None, failed: 0, next: now })
    }

    /// This replica is removed, and stopped.
    pub(super) fn leaves(replica: ReplicaId, now: Instant) -> Self {
        let words = ["member".to_owned(), "remove".to_owned(), replica.number().to_string()];
        let steps = [Step::Give(words.into()), Step::Stop];
        Self { replica, address: String::new(), steps: steps.into(), given: None, failed: 0, next: now }
    }

    /// Whether everything is done.
    pub(super) fn is_over(&self) -> bool {
        self.steps.is_empty()
    }

    /// Goes on as far as it can. Gives what is to be done to the processes before it goes on further.
    ///
    /// # Errors
    /// When a command can not be given, or failed too often.
    pub(super) fn step(&mut self, cluster: &Path, now: Instant) -> Outcome<Option<Act>> {
        let act = match self.steps.front() {
            None => return Ok(None),
            Some(Step::Give(_)) => {
                self.give(cluster, now)?;
                return Ok(None);
            }
            Some(Step::Start) => Act::Start(self.replica, self.address.clone()),
            Some(Step::Stop) => Act::Stop(self.replica),
        };
        self.steps.pop_front();
        Ok(Some(act))
    }

    fn give(&mut self, cluster: &Path, now: Instant) -> Outcome<()> {
        let Some(Step::Give(words)) = self.steps.front() else { return Ok(()) };
        let shown = || format!("quorate {}", words.join(" "));
        if let Some(child) = &mut self.given {
            let Some(status) = child.try_wait().doing(format_args!("wait for `{}`", shown()))? else {
                return Ok(());
            };
            let said = self.given.take().map(Child::wait_with_output);
            if status.success() {
                self.failed = 0;
                self.steps.pop_front();
                return Ok(());
            }
            (self.failed, self.next) = (self.failed + 1, now + AGAIN);
            if self.failed >= TRIES {
                let said = said.and_then(Result::ok).map(|output| output.stderr).unwrap_or_default();
                let said = String::from_utf8_lossy(&said);
                return Err(Failure::new(format!("`{}` fails again and again: {}", shown(), said.trim())));
            }
        } else if now >= self.next {
            let mut command = Command::new(temporary::program()?);
            command.args(words).arg("--config").arg(cluster.join(CLIENT_FILE));
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
            self.given = Some(command.spawn().doing(format_args!("give `{}`", shown()))?);
        }
        Ok(())
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        // A benchmark that ends leaves no process.
        if let Some(mut child) = self.given.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests;
