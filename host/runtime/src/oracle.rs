//! The oracle of a cluster in which few members are slow: a register for each instance and membership, at a service elsewhere
//! (docs/protocols/visigoth.md).
//!
//! A thread asks it, since that takes as long as it takes: a lane goes on meanwhile. A question that is not answered is asked again by the
//! protocol. So a full queue drops it, and a failure is only told. Tests: `oracle/tests.rs`.

use crate::disk_thread::{Completion, Mailbox};
use bytes::Bytes;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use quorate_node::OracleWork;
use quorate_order::mod_smart::Group;
use quorate_order::visigoth::{OracleAnswer, OracleRequest, Wish};
use quorate_types::{ClusterId, InstanceId, MembershipId};
use serde::Serialize;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io};

#[cfg(test)]
mod tests;

/// Questions that wait.
const QUESTIONS_MAX: usize = 64;
/// How often the oracle is read where nobody asks, to know whether it answers.
const LOOK_EVERY: Duration = Duration::from_secs(10);
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

    /// Where members may lie: grants what a claim shows, by the rule, and says what the register of this instance holds then. Without a claim
    /// it is read. The first call for a cluster says who its members are; later ones that say something else are refused.
    ///
    /// # Errors
    /// Why the service did not answer, or that it does not know the rule.
    fn judge(&mut self, group: &Group, instance: InstanceId, claim: Option<Bytes>) -> Result<Held, String> {
        let _ = (group, instance, claim);
        Err(NOT_A_JUDGE.to_owned())
    }

    /// Whether [`Self::judge`] works.
    fn is_a_judge(&self) -> bool {
        false
    }

    /// The service, for people: as `etcd at 10.0.0.1:2379`.
    fn name(&self) -> String;
}

/// What an oracle says that takes whatever it is told.
pub(crate) const NOT_A_JUDGE: &str = "where replicas may lie, the oracle has to know the rule: only another Quorate cluster does, which runs the service \"oracle\"";

/// Registers in the memory of this process, for clusters whose replicas all end with it, as in tests. Clones are the same oracle.
///
/// It forgets when the process ends: replicas that keep data and start again with another one could each follow a half.
#[derive(Clone, Debug, Default)]
pub struct MemoryOracle(Arc<Mutex<Memory>>);

#[derive(Debug, Default)]
struct Memory {
    registers: BTreeMap<String, Held>,
    groups: BTreeMap<ClusterId, Group>,
}

impl Oracle for MemoryOracle {
    fn serve(&mut self, register: &str, swap: Option<Held>) -> Result<Held, String> {
        let mut memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let held = memory.registers.entry(register.to_owned()).or_default();
        if let Some((version, value)) = swap.filter(|(version, _)| *version == held.0) {
            *held = (version + 1, value);
        }
        Ok(held.clone())
    }

    fn judge(&mut self, group: &Group, instance: InstanceId, claim: Option<Bytes>) -> Result<Held, String> {
        let mut memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if memory.groups.entry(group.cluster).or_insert_with(|| group.clone()) != group {
            return Err("it knows other members of this cluster".to_owned());
        }
        let register = register_of(group.cluster, instance, MembershipId::FIRST);
        let held = memory.registers.entry(register).or_default();
        // What is refused leaves it as it is.
        if let Some(Ok(Some(next))) = claim.map(|claim| group.judge(instance, held.1.clone(), claim)) {
            *held = (held.0 + 1, next);
        }
        Ok(held.clone())
    }

    fn is_a_judge(&self) -> bool {
        true
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
                "the oracle, {}, does not answer, so this cluster stops once fewer replicas answer than all but the slow ones: {why}",
                self.name
            )
        })
    }
}

/// The thread that asks the oracle. Dropping this ends the thread after its present question.
pub(crate) struct Oracles {
    questions: Sender<OracleWork>,
    stop: Arc<AtomicBool>,
    status: Arc<Mutex<OracleStatus>>,
}

impl fmt::Debug for Oracles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.status())
    }
}

impl Oracles {
    /// Starts the thread. `group`: the members, if some of them may lie.
    pub(crate) fn start(
        oracle: Box<dyn Oracle>,
        cluster: ClusterId,
        group: Option<Group>,
        mailbox: Mailbox,
    ) -> io::Result<Self> {
        let (questions, receiver) = bounded(QUESTIONS_MAX);
        let name = oracle.name();
        let status = Arc::new(Mutex::new(OracleStatus { name, answered: 0, failed: 0, failing: None }));
        let shared = status.clone();
        let stop = Arc::<AtomicBool>::default();
        let asker =
            Asker { oracle, cluster, group, mailbox, status: shared, stop: stop.clone(), logged: None };
        // Nobody waits for its end: it may be in the middle of a question.
        std::thread::Builder::new().name("oracle".into()).spawn(move || asker.run(&receiver))?;
        Ok(Self { questions, stop, status })
    }

    pub(crate) fn ask(&self, work: OracleWork) {
        // The protocol asks again for what is dropped here.
        let _ = self.questions.try_send(work);
    }

    pub(crate) fn status(&self) -> OracleStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Oracles {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

/// The name of a register. Clusters that share an oracle have registers of their own.
fn register_of(cluster: ClusterId, instance: InstanceId, membership: MembershipId) -> String {
    format!("quorate/{cluster}/{}/{}", instance.number(), membership.number())
}

/// What the thread has.
struct Asker {
    oracle: Box<dyn Oracle>,
    cluster: ClusterId,
    /// The members, if some of them may lie.
    group: Option<Group>,
    mailbox: Mailbox,
    status: Arc<Mutex<OracleStatus>>,
    stop: Arc<AtomicBool>,
    /// When a failure was last logged.
    logged: Option<Instant>,
}

impl Asker {
    /// The life of the thread.
    fn run(mut self, questions: &Receiver<OracleWork>) {
        // An oracle that knows the rule learns who the members are, and the status whether there is one.
        self.ask(InstanceId::new(1), MembershipId::FIRST, Wish::Read);
        loop {
            let question = questions.recv_timeout(LOOK_EVERY);
            if self.stop.load(Ordering::Acquire) {
                return;
            }
            match question {
                Ok(OracleWork { instance, request: OracleRequest { membership, wish } }) => {
                    if let Some((version, value)) = self.ask(instance, membership, wish) {
                        let answer = OracleAnswer { membership, version, value };
                        self.mailbox.send(Completion::Oracle { instance, answer });
                    }
                }
                // Whether it would answer must be known before it is needed.
                Err(RecvTimeoutError::Timeout) => {
                    self.ask(InstanceId::new(1), MembershipId::FIRST, Wish::Read);
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn ask(&mut self, instance: InstanceId, membership: MembershipId, wish: Wish) -> Option<Held> {
        let register = register_of(self.cluster, instance, membership);
        let (oracle, group) = (&mut self.oracle, self.group.as_ref());
        let serve = AssertUnwindSafe(|| match (group, wish) {
            (Some(group), Wish::Claim(claim)) => oracle.judge(group, instance, Some(claim)),
            (Some(group), _) => oracle.judge(group, instance, None),
            (None, Wish::Swap(version, value)) => oracle.serve(&register, Some((version, value))),
            (None, _) => oracle.serve(&register, None),
        });
        let served = catch_unwind(serve).unwrap_or_else(|_| Err("its client panicked".to_owned()));
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        match served {
            Ok(held) => {
                status.answered += 1;
                if status.failing.take().is_some() {
                    tracing::info!("the oracle, {}, answers again", status.name);
                    self.logged = None;
                }
                Some(held)
            }
            Err(why) => {
                status.failed += 1;
                if self.logged.is_none_or(|at| at.elapsed() >= LOG_EVERY) {
                    tracing::warn!("the oracle, {}, does not answer: {why}", status.name);
                    self.logged = Some(Instant::now());
                }
                status.failing = Some(why);
                None
            }
        }
    }
}
