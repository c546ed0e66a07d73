//! False statements that replicas make beside the protocol: members that do not exist, wrong room, gaps that need not be filled.

use super::{Plays, Said, Saying, Voice};
use bytes::Bytes;
use quorate_types::{InstanceId, MembershipId, ReplicaId, Room, Slot};
use quorate_wire::{
    FRAME_HEADER, FrameKind, Member, Membership, Memberships, OutFrame, fill_frame, members_frame, room_frame,
};

/// See the module.
#[derive(Debug)]
pub(super) struct FalseMembers;

fn whole(frame: &OutFrame) -> Said {
    Said::Other(frame.kind(), Bytes::from(frame.to_vec()).slice(FRAME_HEADER..))
}

fn membership(me: &mut Voice) -> Option<Said> {
    let count = 1 + me.rng.below(me.replicas as u64) as u16;
    let first = 1 + me.rng.below(5) as u16;
    let member = |id| Member { address: format!("r{id}"), ..Member::voter(ReplicaId::new(id)) };
    let number = MembershipId::new(1 + me.rng.below(4) * me.rng.below(1 << 30));
    let membership = Membership::new(number, (first..first + count).map(member).collect()).ok()?;
    Some(whole(&members_frame(&Memberships::one(membership))))
}

impl Plays for FalseMembers {
    fn instead(&mut self, me: &mut Voice, to: usize, said: Said) -> Vec<Saying> {
        let mut list = vec![Saying::now(to, said)];
        let more = match me.rng.below(6) {
            // To clients, too.
            0 | 1 => membership(me),
            _ if to >= me.replicas => None,
            2 => {
                let slot = Slot::new(me.rng.number() >> me.rng.below(60));
                Some(whole(&fill_frame(slot, InstanceId::new(me.rng.below(4) as u16))))
            }
            3 => Some(whole(&room_frame(me.rng.pick(&[Room::Full, Room::Frees, Room::Data])))),
            4 => Some(Said::Other(FrameKind::Sight, Bytes::from(me.rng.number().to_le_bytes().repeat(4)))),
            _ => Some(Said::Other(FrameKind::CaughtUp, Bytes::from(me.rng.number().to_le_bytes().to_vec()))),
        };
        list.extend(more.map(|said| Saying::now(to, said)));
        list
    }
}
