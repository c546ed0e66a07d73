//! A service of one's own in the simulator: whole clusters and their clients in one thread on virtual time, in which everything goes wrong.
//!
//! All code that decides something is the real one: the replicas with their log, checkpoints and transfers, and the core of the clients. A
//! seed decides everything else: the size of the cluster and all its settings, when which machine stops, which messages are late, lost or
//! damaged, which disks are full or rot, who joins and leaves. So a run that fails can be repeated, and made smaller.
//!
//! ```
//! use quorate::sim::{Random, Simulation};
//! # use quorate::{Context, TypedService};
//! # #[derive(Default, serde::Serialize, serde::Deserialize)]
//! # struct Counter(u64);
//! # impl TypedService for Counter {
//! #     type Command = u64;
//! #     type Reply = u64;
//! #     type Query = ();
//! #     type Answer = u64;
//! #     fn execute(&mut self, amount: u64, _: &Context) -> u64 { self.0 += amount; self.0 }
//! #     fn query(&self, (): (), _: &Context) -> u64 { self.0 }
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! Simulation::typed(Counter::default, |_client| |random: &mut Random| random.range(1, 9))
//!     .invariant::<Counter>((), |count| if count < 1 << 40 { Ok(()) } else { Err(format!("{count}")) })?
//!     .seeds(1..=5)
//!     .run()?;
//! # Ok(())
//! # }
//! ```
//!
//! Checked is what must hold of any service: replicas execute the same commands in the same order with the same replies, and have the same
//! state after each; what was acknowledged is never lost and was done once; once the faults are over all clients are answered, and all
//! replicas get to the same state. Besides, what the service's author says: an invariant of each state, and what a client makes of its
//! replies. In debug builds each replica executes everything [twice](crate::twice()).
//!
//! Commands run one after the other, also those of a [`ParallelService`](crate::ParallelService); services that ask other services are not
//! simulated. docs/services.md has more. Tests: `tests/all/simulated.rs`.

mod failed;
mod guest;

use crate::{Service, Typed, TypedError, TypedService, decode_reply, encode_command_since, twice};
pub use failed::{Failed, Passed};
use guest::{Encoding, InBytes, Make, Query, Users};
use quorate_sim::campaign::run_guest;
use quorate_sim::world::Report;
use quorate_sim::{Level, Plan, Profile, Trace};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use quorate_sim::random::Rng as Random;
pub use quorate_types::FaultModel;

/// Seeds that run if nobody chooses.
const SEEDS: RangeInclusive<u64> = 1..=100;

/// What one client of a run asks for, and what it makes of the replies. A closure that gives the next command is one that makes nothing of
/// them. `Command` and `Reply` are those of the service; bytes where it has no types.
pub trait Client<Command, Reply>: Send {
    /// The next command. Whatever is drawn comes from `random`, so that a run can be repeated.
    fn command(&mut self, random: &mut Random) -> Command;

    /// A command was executed, and this is its reply. A command has none if its session expired, so that nobody knows whether it was executed.
    ///
    /// # Errors
    /// Why this reply is wrong; then the run has failed.
    fn replied(&mut self, command: &Command, reply: Reply) -> Result<(), String> {
        let _ = (command, reply);
        Ok(())
    }
}

impl<Command, Reply, F: FnMut(&mut Random) -> Command + Send> Client<Command, Reply> for F {
    fn command(&mut self, random: &mut Random) -> Command {
        self(random)
    }
}

/// Runs of a service and its clients.
pub struct Simulation {
    make: Make,
    clients: Box<dyn Fn(usize) -> InBytes + Send + Sync>,
    invariants: Vec<Query>,
    profile: Profile,
    seeds: RangeInclusive<u64>,
    page: Option<PathBuf>,
}

impl Simulation {
    /// Of a service over bytes. `make` gives a new one for each life of a replica; all must be alike and share nothing. `clients` gives the
    /// client with this number, from 0; the seed decides how many there are.
    pub fn new<S: Service + 'static, C: Client<Vec<u8>, Vec<u8>> + 'static>(
        make: impl Fn() -> S + Send + Sync + 'static,
        clients: impl Fn(usize) -> C + Send + Sync + 'static,
    ) -> Self {
        Self {
            make: Arc::new(twice(make)),
            clients: Box::new(move |number| Box::new(clients(number))),
            invariants: Vec::new(),
            profile: Profile::default(),
            seeds: SEEDS,
            page: None,
        }
    }

    /// Of a service with types, and clients that use them.
    pub fn typed<S, C>(
        make: impl Fn() -> S + Send + Sync + 'static,
        clients: impl Fn(usize) -> C + Send + Sync + 'static,
    ) -> Self
    where
        S: TypedService<Command: Serialize + Send, Reply: DeserializeOwned> + 'static,
        C: Client<S::Command, S::Reply> + 'static,
    {
        Self::new(move || Typed(make()), move |number| Encoding::<S, C>::new(clients(number)))
    }

    /// What must hold of each replica's state, after each command: a service with types is asked `query`, and `holds` judges the answer.
    ///
    /// # Errors
    /// When the query can not be encoded.
    pub fn invariant<S: TypedService<Query: Serialize, Answer: DeserializeOwned>>(
        self,
        query: S::Query,
        holds: impl Fn(S::Answer) -> Result<(), String> + Send + Sync + 'static,
    ) -> Result<Self, TypedError> {
        let bytes = encode_command_since(&query, S::query_since(&query))?;
        Ok(self.invariant_in_bytes(bytes, move |answer| {
            holds(decode_reply(answer).map_err(|why| format!("the query of the invariant: {why}"))?)
        }))
    }

    /// The same for a service over bytes.
    #[must_use]
    pub fn invariant_in_bytes(
        mut self,
        query: Vec<u8>,
        holds: impl Fn(&[u8]) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.invariants.push(Query { query, holds: Arc::new(holds) });
        self
    }

    /// These seeds; 1 to 100 otherwise. The variable `QUORATE_SEEDS` says how many instead, and `QUORATE_SEED` names a single one.
    #[must_use]
    pub fn seeds(mut self, seeds: RangeInclusive<u64>) -> Self {
        self.seeds = seeds;
        self
    }

    /// With so many replicas, at most 7; otherwise the seed decides, and replicas come and go in some runs.
    #[must_use]
    pub fn replicas(mut self, count: usize) -> Self {
        self.profile.replicas = Some(count);
        self
    }

    /// With so many instances that order commands; otherwise the seed decides.
    #[must_use]
    pub fn instances(mut self, count: u16) -> Self {
        self.profile.instances = Some(count);
        self
    }

    /// With these faults; otherwise crashes. Where replicas may lie, some do.
    #[must_use]
    pub fn fault_model(mut self, model: FaultModel) -> Self {
        self.profile.fault_model = Some(model);
        self
    }

    /// Nothing fails. For the first minutes of a new service.
    #[must_use]
    pub fn without_faults(mut self) -> Self {
        self.profile.faults = false;
        self
    }

    /// Draws a run that failed, as a page of its own: processes as lines, messages between them, faults, and below what happened. The
    /// variable `QUORATE_PAGE` names the file, too.
    #[must_use]
    pub fn page(mut self, file: impl Into<PathBuf>) -> Self {
        self.page = Some(file.into());
        self
    }

    /// Runs all seeds, on all processors.
    ///
    /// # Errors
    /// The failed run with the lowest seed of those that ended, made smaller.
    ///
    /// # Panics
    /// When `QUORATE_SEED` or `QUORATE_SEEDS` is no number.
    pub fn run(mut self) -> Result<Passed, Box<Failed>> {
        if let Some(file) = std::env::var_os("QUORATE_PAGE") {
            self.page = Some(file.into());
        }
        let seeds = chosen(self.seeds.clone());
        let next = AtomicU64::new(*seeds.start());
        let (passed, failed) = (Mutex::new(Passed::default()), Mutex::new(BTreeSet::new()));
        let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    while lock(&failed).is_empty() {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if !seeds.contains(&seed) {
                            return;
                        }
                        let (report, _) = self.once(Plan::alone(seed, &self.profile), Level::Hash);
                        lock(&passed).add(&report);
                        if report.failure.is_some() {
                            lock(&failed).insert(seed);
                        }
                    }
                });
            }
        });
        match lock(&failed).first() {
            Some(seed) => Err(Box::new(failed::explain(&self, Plan::alone(*seed, &self.profile)))),
            None => Ok(*lock(&passed)),
        }
    }

    /// One run.
    fn once(&self, plan: Plan, level: Level) -> (Report, Trace) {
        let clients = (0..plan.clients).map(|number| (self.clients)(number)).collect();
        let users = Users::new(&plan, self.make.clone(), clients, self.invariants.clone());
        run_guest(plan, Box::new(users), level)
    }
}

/// The seeds that the variables choose, or else these.
fn chosen(seeds: RangeInclusive<u64>) -> RangeInclusive<u64> {
    let number = |name: &str| {
        let text = std::env::var(name).ok()?;
        Some(text.parse::<u64>().unwrap_or_else(|_| panic!("{name}={text}: a number is wanted")))
    };
    match (number("QUORATE_SEED"), number("QUORATE_SEEDS")) {
        (Some(seed), _) => seed..=seed,
        (None, Some(count)) => *seeds.start()..=seeds.start().saturating_add(count.saturating_sub(1)),
        (None, None) => seeds,
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
