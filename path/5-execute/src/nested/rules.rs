//! What all replicas of a service that asks others agree on.

use super::chain::ServiceId;
use quorate_types::Span;

/// In which order legs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// What is answered goes on, where the answer stands in the order.
    Answered,
    /// This many slots, at most 65,536, of which one is active. The next one becomes active when a request halts, or when the batch has no request left for
    /// the active slot. While the active slot waits for an answer all others wait, so it changes nothing when answers come.
    /// Source: Kapritsos (Adam), section 4.3.1, deterministic pipelining.
    Ring(u32),
}

/// The most slots of a ring; with more it has as many.
pub(super) const SLOTS_MAX: u32 = 1 << 16;

impl Schedule {
    /// How many slots a ring has.
    pub(super) fn slots(self) -> Option<u32> {
        match self {
            Self::Answered => None,
            Self::Ring(slots) => Some(slots.clamp(1, SLOTS_MAX)),
        }
    }
}

/// The schedule and the limits of nested requests. All replicas of a service must begin with the same ones, since these affect what becomes
/// of requests. Afterwards checkpoints carry them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NestedRules {
    /// This service, as others name it.
    pub service: ServiceId,
    /// In which order legs run.
    pub schedule: Schedule,
    /// The most reads, writes, locks and questions of a command between two halts. 100,000 by default.
    pub operations_per_leg_max: u64,
    /// How often a command may ask. 1,000 by default.
    pub asks_per_command_max: u32,
    /// The most bytes of one question, and of one answer; a longer answer counts as one that is too large. 1 MiB by default.
    pub message_bytes_max: u64,
    /// The most bytes of the commands in one nested request; what is more leaves in another one. 4 MiB by default.
    pub request_bytes_max: u64,
    /// The most bytes of a command's journal, with what it asks. 4 MiB by default.
    pub journal_bytes_per_command_max: u64,
    /// The most bytes of all journals and nested requests under way. Once half of it is used, no request begins; an answer for which it has no room
    /// counts as one that is too large. 256 MiB by default.
    pub journal_bytes_max: u64,
    /// The most requests under way; while there are so many, none begins. 10,000 by default.
    pub requests_max: u32,
    /// After so much agreed time without an answer, the outcome of a nested request counts as unknown. 30 s by default.
    pub patience: Span,
    /// The most services that lead to a request. 4 by default.
    pub chain_max: u32,
}

impl NestedRules {
    /// The rules of a service with this number, with all limits as they are by default.
    pub const fn of(service: ServiceId, schedule: Schedule) -> Self {
        Self {
            service,
            schedule,
            operations_per_leg_max: 100_000,
            asks_per_command_max: 1000,
            message_bytes_max: 1 << 20,
            request_bytes_max: 4 << 20,
            journal_bytes_per_command_max: 4 << 20,
            journal_bytes_max: 256 << 20,
            requests_max: 10_000,
            patience: Span::from_secs(30),
            chain_max: 4,
        }
    }
}
