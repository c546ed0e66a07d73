//! The oracle of a cluster in which few members are slow: a register for each instance and membership, at a service elsewhere
//! (docs/protocols/visigoth.md).
//!
//! A thread asks it, since that takes as long as it takes: a lane goes on meanwhile. A question that is not answered is asked again by the
//! protocol. So a full queue drops it, and a failure is only told. Tests: `oracle/tests.rs`.

use crate::disk_thread::{Completion, Mailbox};
use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, bounded};
use quorate_node::OracleWork;
use quorate_order::visigoth::OracleAnswer;
use quorate_types::ClusterId;
use serde::Serialize;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io};

#[cfg(test)]
mod tests;

/// Questions that wait.
const QUESTIONS_MAX: usize = 64;
/// How often a failure that lasts is logged.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// What a register holds: its version, which grows with each swap, and its value. One that nobody wrote has version 0 and no bytes.
pub type Held = (u64, Bytes);

/// A service with registers that never forgets, and never answers two swaps of one version with yes.
///
/// It may be slow, and it may be away; then a call ends with an error after a short time.
pub trait Oracle: Send {
    /// Swaps the value of this register if its version is still the given one, and says what the register holds then. Without a swap it is
    /// read. What is read need not be the newest: an older version is no harm.
    ///
    /// # Errors
    /// Why the service did not answer. A swap may then have happened.
    fn serve(&mut self, register: &str, swap: Option<Held>) -> Result<Held, String>;

    /// The service, for people: as `etcd at 10.0.0.1:2379`.
    fn name(&self) -> String;
}

/// Registers in the memory of this process, for clusters whose replicas all end with it, as in tests. Clones are the same oracle.
///
/// It forgets when the process ends: replicas that keep data and start again with another one could each follow a half.
#[derive(Clone, Debug, Default)]
pub struct MemoryOracle(Arc<Mutex<BTreeMap<String, Held>>>);

impl Oracle for MemoryOracle {
    fn serve(&mut self, register: &str, swap: Option<Held>) -> Result<Held, String> {
        let mut registers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let held = registers.entry(register.to_owned()).or_default();
        if let Some((version, value)) = swap.filter(|(version, _)| *version == held.0) {
            *held = (version + 1, value);
        }
        Ok(held.clone())
    }

    fn name(&self) -> String {
        "the memory of this process".to_owned()
    }
}

/// How it is with the oracle, for the status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct OracleStatus {
    /// What it is.
    pub(crate) name: String,
    /// How many questions it answered.
    pub(crate) answered: u64,
    /// How many it did not.
    pub(crate) failed: u64,
    /// Why it did not answer the last question; `None` if it did.
    pub(crate) failing: Option<String>,
}

impl OracleStatus {
    /// The problem to report.
    pub(crate) fn problem(&self) -> Option<String> {
        self.failing.as_ref().map(|why| {
            format!(
                "the oracle, {}, does not answer, so this cluster stops once fewer replicas answer than it may have slow ones: {why}",
                self.name
            )
        })
    }
}

/// The thread that asks the oracle. Dropping this ends the thread after its present question.
pub(crate) struct Oracles {
    questions: Sender<OracleWork>,
    status: Arc<Mutex<OracleStatus>>,
}

impl fmt::Debug for Oracles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.status())
    }
}

impl Oracles {
    /// Starts the thread.
    pub(crate) fn start(oracle: Box<dyn Oracle>, cluster: ClusterId, mailbox: Mailbox) -> io::Result<Self> {
        let (questions, receiver) = bounded(QUESTIONS_MAX);
        let name = oracle.name();
        let status = Arc::new(Mutex::new(OracleStatus { name, answered: 0, failed: 0, failing: None }));
        let shared = status.clone();
        // Nobody waits for its end: it may be in the middle of a question, and what it still swaps is asked for by nobody.
        let run = move || ask(oracle, cluster, &receiver, &mailbox, &shared);
        std::thread::Builder::new().name("oracle".into()).spawn(run)?;
        Ok(Self { questions, status })
    }

    pub(crate) fn ask(&self, work: OracleWork) {
        // The protocol asks again for what is dropped here.
        let _ = self.questions.try_send(work);
    }

    pub(crate) fn status(&self) -> OracleStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The name of a register. Clusters that share an oracle have registers of their own.
fn register_of(cluster: ClusterId, work: &OracleWork) -> String {
    format!("quorate/{cluster}/{}/{}", work.instance.number(), work.request.membership.number())
}

/// The life of the thread.
fn ask(
    mut oracle: Box<dyn Oracle>,
    cluster: ClusterId,
    questions: &Receiver<OracleWork>,
    mailbox: &Mailbox,
    status: &Mutex<OracleStatus>,
) {
    let mut logged: Option<Instant> = None;
    for work in questions {
        let register = register_of(cluster, &work);
        let (instance, membership) = (work.instance, work.request.membership);
        let serve = AssertUnwindSafe(|| oracle.serve(&register, work.request.swap));
        let served = catch_unwind(serve).unwrap_or_else(|_| Err("its client panicked".to_owned()));
        let mut status = status.lock().unwrap_or_else(PoisonError::into_inner);
        match served {
            Ok((version, value)) => {
                status.answered += 1;
                if status.failing.take().is_some() {
                    tracing::info!("the oracle, {}, answers again", status.name);
                    logged = None;
                }
                let answer = OracleAnswer { membership, version, value };
                mailbox.send(Completion::Oracle { instance, answer });
            }
            Err(why) => {
                status.failed += 1;
                if logged.is_none_or(|at| at.elapsed() >= LOG_EVERY) {
                    tracing::warn!("the oracle, {}, does not answer: {why}", status.name);
                    logged = Some(Instant::now());
                }
                status.failing = Some(why);
            }
        }
    }
}
