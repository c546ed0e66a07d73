//! Ids, numbers, time, the fault model with every quorum size, and the three kinds of failure.
//!
//! Every stage uses these words (see GLOSSARY.md). Nothing here depends on another package of this project.

mod digest;
mod durations;
mod error;
mod identity;
mod ids;
mod items;
mod key;
mod planted;
mod random;
mod room;
mod service;
mod time;
mod trust;
mod waited;

pub use digest::Digest;
pub use durations::Durations;
pub use error::{Halt, Reject};
pub use identity::{Holder, Identity, Name};
pub use ids::{
    ClientId, ClusterId, ConnId, Incarnation, InstanceId, MembershipId, RecordId, ReplicaId, RequestNumber,
    Seq, SessionId, Slot, View,
};
pub use items::{ItemError, Items, ItemsBuilder, ItemsIter};
pub use key::SessionKey;
pub use planted::{HAS_PLANTED, plant, planted};
pub use random::Random;
pub use room::Room;
pub use service::{ServiceName, ServiceVersion};
pub use time::{AgreedTime, Span, Time};
pub use trust::{FaultModel, Faults, Mismatch, Trust, Visigoth};
pub use waited::Waited;
