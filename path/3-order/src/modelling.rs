//! What models of the protocols need from the inside, so that they search the real rules and not a copy. `check/model` uses it.

use crate::mod_smart::message::Collect;
use crate::mod_smart::rules;
use crate::quorums::Quorums;
use quorate_types::{ReplicaId, Slot, Trust};

pub use crate::mod_smart::rules::Binding;

/// What the statements of distinct members bind the slot after `decided` to, in a view with these small quorums. `decided` is the last slot
/// that is shown to be decided. [mod_smart L46-L52]
pub fn binding_of(trust: Trust, granted: &[Vec<ReplicaId>], collects: &[Collect], decided: Slot) -> Binding {
    rules::binding_of(Quorums::new(trust, granted), collects, decided)
}
