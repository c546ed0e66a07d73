//! Which service asks which: names of services, and the chain of those that led to a request.

use std::fmt;

/// The number by which services name each other. The same on all replicas of both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceId(pub u32);

impl fmt::Display for ServiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "service {}", self.0)
    }
}

/// The services that led to a request, from the first that asked to the one that asks now. Empty where a client asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chain(Vec<ServiceId>);

impl Chain {
    /// These services, the first one first.
    pub fn of(services: Vec<ServiceId>) -> Self {
        Self(services)
    }

    /// Of a request that a client sent.
    pub const fn client() -> Self {
        Self(Vec::new())
    }

    /// The services in order.
    pub fn services(&self) -> &[ServiceId] {
        &self.0
    }

    /// The chain of what `asker` asks for a request with this chain.
    pub(super) fn then(&self, asker: ServiceId) -> Self {
        Self(self.0.iter().copied().chain([asker]).collect())
    }

    /// Why a request with this chain does not enter a service, if it does not: a chain is at most so long, and never enters a service twice.
    /// Otherwise a request could wait for itself.
    pub fn refusal(&self, service: ServiceId, chain_max: usize) -> Option<Refusal> {
        if self.0.contains(&service) {
            Some(Refusal::ComesBack)
        } else if self.0.len() > chain_max {
            Some(Refusal::TooDeep)
        } else {
            None
        }
    }
}

/// Why a nested request is not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The chain of services would enter one of them again.
    ComesBack,
    /// Too many services led to it.
    TooDeep,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ComesBack => "the request comes back to a service that waits for it",
            Self::TooDeep => "too many services ask each other for this request",
        })
    }
}
