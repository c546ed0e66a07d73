//! A message whose sender was authenticated.

use quorate_types::ReplicaId;

/// A message that stage 2 (admit) vouches for: it was decoded, and it comes from this member. Order takes nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified<M> {
    from: ReplicaId,
    message: M,
}

impl<M> Verified<M> {
    /// Only the admit stage calls this, after it authenticated the sender.
    pub fn vouch(from: ReplicaId, message: M) -> Self {
        Self { from, message }
    }
    /// The sender.
    pub fn from(&self) -> ReplicaId {
        self.from
    }
    /// The message.
    pub fn message(&self) -> &M {
        &self.message
    }
    /// Sender and message.
    pub fn into_parts(self) -> (ReplicaId, M) {
        (self.from, self.message)
    }
}
