//! Which replicas have caught up in an instance: its leader tells the leader of the first instance, which checks changes of the membership.
//!
//! ```text
//! 0          2
//! | instance | replica u16 ...
//! ```

use crate::frame::{FrameKind, OutFrame};
use crate::membership::MEMBERS_MAX;
use quorate_types::{InstanceId, Reject, ReplicaId};

/// The frame that tells it.
pub fn caught_up_frame(instance: InstanceId, replicas: &[ReplicaId]) -> OutFrame {
    let mut head = instance.number().to_le_bytes().to_vec();
    replicas.iter().for_each(|replica| head.extend_from_slice(&replica.number().to_le_bytes()));
    OutFrame::new(FrameKind::CaughtUp, &head, vec![])
}

/// Reads what the leader of an instance tells.
///
/// # Errors
/// When it can not be read, or names more replicas than two memberships have.
pub fn read_caught_up(payload: &[u8]) -> Result<(InstanceId, Vec<ReplicaId>), Reject> {
    let (numbers, rest) = payload.as_chunks::<2>();
    let mut numbers = numbers.iter().map(|number| u16::from_le_bytes(*number));
    match numbers.next() {
        Some(instance) if rest.is_empty() && numbers.len() <= 2 * MEMBERS_MAX => {
            Ok((InstanceId::new(instance), numbers.map(ReplicaId::new).collect()))
        }
        _ => Err(Reject::Malformed("caught up: not an instance and a few replicas")),
    }
}
