//! The checkers, one file each. Some look after every step, some once at the end.
//!
//! | checker | promise |
//! | --- | --- |
//! | `agreement` | INV-SIM-AGREE: all replicas execute the same commands in the same order, with the same replies |
//! | `states` | INV-SIM-STATE: at equal seq, sessions, agreed time and service state are equal, byte for byte |
//! | `once` | INV-SIM-ONCE: an operation runs at most once; an acknowledged one once, a failed one never |
//! | `acked` | INV-SIM-ACKED: what was acknowledged is executed somewhere at that moment, and everywhere in the end |
//! | `linear` | INV-SIM-LINEAR: what clients saw is linearizable, list by list and key by key |
//! | `reads` | INV-SIM-READS: a read's answer is the state at the seq that it names, and one reader never goes back |
//! | `leases` | INV-SIM-LEASE: while a leader answers reads by its lease, no replica leads a higher view |
//! | `borders` | INV-SIM-BORDERS: borders keep their distance, whichever replica asks for them |
//! | `bounded` | INV-SIM-BOUNDED: queues stay under their limits |
//! | `checkpoints` | INV-SIM-CHECKPOINT: digests and files at equal borders are equal, what is at rest is agreed on, logs are trimmed |
//! | `members` | INV-SIM-MEMBERS: a membership's number means the same to all replicas, no change stays open, and only members lead in the end |
//! | `instances` | INV-SIM-INSTANCES: a generation border is the same for all, and none stays open |
//! | `levels` | INV-SIM-LEVELS: the feature level follows from the seq, and is raised only when every member can do it |
//! | `eras` | INV-SIM-ERA: an era has one beginning, the same for all replicas that enter it |
//! | `answers` | INV-SIM-ANSWERS: once faults are over, and while a client waits, the time from one answer to the next is bounded |
//! | `time` | INV-SIM-TIME: agreed time never catches up with virtual time, and falls back by a bounded amount only |
//! | `watches` | INV-SIM-WATCH: a watch gets the store's events from its start on, in order, once, and none late |
//! | `progress` | INV-SIM-PROGRESS: once faults are over, everything that was asked ends in time |

pub mod acked;
pub mod agreement;
pub mod alarm;
pub mod answers;
pub mod asked;
pub mod borders;
pub mod bounded;
pub mod checkpoints;
pub mod eras;
pub mod instances;
pub mod leases;
pub mod levels;
pub mod linear;
pub mod members;
pub mod once;
pub mod progress;
pub mod reads;
pub mod states;
pub mod suspects;
pub mod time;
pub mod watches;

/// A finding of a checker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The checker's name, or `panic`.
    pub checker: &'static str,
    /// What is wrong.
    pub text: String,
}

impl Failure {
    /// A finding of this checker.
    pub fn new(checker: &'static str, text: impl Into<String>) -> Self {
        Self { checker, text: text.into() }
    }
}
