//! A service of somebody else's in a simulated cluster, with a front at each replica.
//!
//! The replicas execute the guest's commands beside those of the usual workload, on one state, or alone. What the guest has outside of the replicas
//! (its fronts, their clients, its own checks) is the guest's: the world tells it when a replica had a turn, and it says what its fronts want
//! ordered and read. Carriers bring that to the cluster: simulated clients with the real core, one call at a time each. A guest panics
//! when one of its own checks fails, and the run reports that like any other failure.
//!
//! What the guest does must follow from the calls and from randomness of its own seed.

use bytes::Bytes;
use quorate_execute::{Context, ParallelService, Published, Publisher, Service};
use quorate_types::{Seq, Time};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A service with its fronts. Replicas and carriers are numbered from 0.
pub trait Guest: Send {
    /// Its service for a new life of this replica. In a plan of [`Plan::alone`](crate::Plan::alone) it is one that is alone, and else not.
    fn service(&mut self, who: usize) -> Hosted;

    /// How many carriers it needs, in a cluster of so many replicas. Where it is alone the plan decides that.
    fn carriers(&self, replicas: usize) -> usize {
        replicas
    }

    /// The process of a replica ends, and its front with it.
    fn dies(&mut self, who: usize) {
        let _ = who;
    }

    /// Some time passed: fronts of replicas that run may act, and everything that is at no replica. `now` is in virtual nanoseconds.
    fn acts(&mut self, now: u64, fronts: &[Front]) {
        let _ = (now, fronts);
    }

    /// What a carrier that has no call under way shall send as its next call. Nothing: it sends none.
    fn commands(&mut self, carrier: usize) -> Vec<Bytes>;

    /// What a carrier shall ask with strong reads, each with a name of its own.
    fn queries(&mut self, carrier: usize) -> Vec<(u64, Bytes)> {
        let _ = carrier;
        Vec::new()
    }

    /// The replies to the commands of a carrier's call. Without one it is not known whether the command was or will be executed.
    fn replied(&mut self, carrier: usize, replies: Vec<Option<Bytes>>);

    /// The answer to a strong read, if there was one.
    fn answered(&mut self, carrier: usize, name: u64, answer: Option<Bytes>) {
        let _ = (carrier, name, answer);
    }

    /// No fault begins any more.
    fn calms_down(&mut self) {}

    /// Whether it wants nothing more. The run does not end before.
    fn is_over(&self) -> bool;
}

/// A guest's service.
pub enum Hosted {
    /// The replicas execute its commands beside those of the usual workload, on one state. It uses no key that begins with a letter, or with a
    /// byte and a star. What commands tell goes to its observer.
    Beside(Arc<dyn ParallelService>),
    /// The replicas run nothing else. What must hold of its state is asked after each command.
    Alone(Box<dyn Service>, Option<Holds>),
}

/// What must hold of a service's state, or why it does not.
pub type Holds = Box<dyn Fn(&dyn Service, &Context) -> Result<(), String> + Send>;

/// What a front sees of its replica.
pub struct Front {
    /// The replica's clock. None: its process is down, or does nothing for now.
    pub local: Option<Time>,
    /// The state that the replica published last, unless it answers no reads.
    pub newest: Option<Published>,
}

/// Holds the newest published state of one life of a replica.
#[derive(Clone, Default)]
pub struct Newest(Arc<Mutex<Option<Published>>>);

impl Newest {
    fn lock(&self) -> MutexGuard<'_, Option<Published>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state.
    pub fn get(&self) -> Option<Published> {
        self.lock().clone()
    }
}

impl Publisher for Newest {
    fn wants(&self, seq: Seq) -> bool {
        self.lock().as_ref().is_none_or(|held| held.seq != seq)
    }

    fn publish(&mut self, state: Published) {
        *self.lock() = Some(state);
    }

    fn withdraw(&mut self) {
        *self.lock() = None;
    }
}
