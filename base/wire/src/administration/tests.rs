//! Signed commands as bytes.

use super::{ADMINISTRATORS_MAX, AdminCommand, Administrators, REASON_BYTES_MAX, SignedCommand};
use crate::membership::{Member, Membership, Memberships};
use crate::{FRAME_HEADER, FrameKind, SystemCommand};
use bytes::Bytes;
use quorate_types::{MembershipId, Random, ReplicaId, SessionKey};

fn key(number: u8) -> SessionKey {
    SessionKey::new([number; 32])
}

fn membership(number: u64, voters: &[u16]) -> Membership {
    let voters = voters.iter().map(|id| Member::voter(ReplicaId::new(*id))).collect();
    Membership::new(MembershipId::new(number), voters).expect("a membership")
}

fn commands() -> Vec<AdminCommand> {
    let change = Memberships::change(membership(1, &[1, 2, 3, 4]), membership(2, &[1, 2, 3, 5]));
    vec![
        AdminCommand::Change(change.expect("the next one")),
        AdminCommand::Raise(7),
        AdminCommand::RaiseService(2),
        AdminCommand::Administrators(Administrators::new(2, vec![key(3), key(1), key(2)]).expect("three")),
    ]
}

fn signed(command: AdminCommand) -> SignedCommand {
    let mut signed = SignedCommand::new(5, command);
    for number in [9, 2, 9] {
        signed.add(key(number), [number; 64]).expect("few");
    }
    signed
}

#[test]
fn what_is_written_is_read() {
    for command in commands() {
        let signed = signed(command);
        assert_eq!(signed.signatures().iter().map(|(key, _)| *key).collect::<Vec<_>>(), [key(2), key(9)]);
        assert_eq!(SignedCommand::decode(signed.encode().into()), Ok(signed.clone()));
        assert_eq!(signed.frame().kind(), FrameKind::SignedCommand);
        let batch = SystemCommand::Signed(signed.clone()).batch(Default::default());
        assert_eq!(SystemCommand::of(&batch), Some(SystemCommand::Signed(signed)));
    }
}

/// A reason is for who records it: the command is the same with and without it, and no part of what is ordered.
#[test]
fn an_operator_says_why() {
    for command in commands() {
        let signed = signed(command);
        for reason in ["", "r5 takes the place of r3", &"é".repeat(REASON_BYTES_MAX / 2)] {
            let payload = Bytes::from(signed.frame_because(reason).to_vec()).slice(FRAME_HEADER..);
            let read = SignedCommand::decode_with_reason(payload.clone());
            assert_eq!(read, Ok((signed.clone(), reason.to_owned())));
            assert_eq!(SignedCommand::decode(payload).is_ok(), reason.is_empty(), "members tell no reasons");
        }
        let with =
            |reason: &[u8]| SignedCommand::decode_with_reason([&signed.encode(), reason].concat().into());
        for wrong in [&b"two\nlines"[..], &[0xff], &[b'x'; REASON_BYTES_MAX + 1]] {
            assert!(with(wrong).is_err(), "{wrong:?}");
        }
    }
}

/// There is one form for each command, so that all replicas mean the same by its digest.
#[test]
fn every_other_form_is_refused() {
    let mut random = Random::new(7);
    for command in commands() {
        let bytes = signed(command).encode();
        for cut in 0..bytes.len() {
            assert!(SignedCommand::decode(Bytes::copy_from_slice(&bytes[..cut])).is_err(), "cut at {cut}");
        }
        assert!(SignedCommand::decode([&bytes[..], &[0]].concat().into()).is_err(), "too long");
        for _ in 0..2000 {
            let mut other = bytes.clone();
            let at = random.below(other.len() as u64) as usize;
            other[at] ^= 1 << random.below(8);
            if let Ok(read) = SignedCommand::decode(other.clone().into()) {
                assert_eq!(read.encode(), other);
            }
        }
    }
    let membership = Memberships::one(membership(1, &[1])).encode();
    let alone = [&[1][..], &membership].concat();
    assert!(AdminCommand::decode(alone.into()).is_err(), "it does not say what it changes");
    let twice = [&[1, 2][..], &[4; 64]].concat();
    assert!(AdminCommand::decode([&[3][..], &twice].concat().into()).is_err(), "a key twice");
}

#[test]
fn as_many_sign_as_there_are() {
    assert!(Administrators::new(0, vec![key(1)]).is_err());
    assert!(Administrators::new(2, vec![key(1)]).is_err());
    assert!(Administrators::new(1, vec![key(1), key(1)]).is_err());
    assert!(Administrators::new(1, Vec::new()).is_err());
    let many: Vec<SessionKey> = (0..=ADMINISTRATORS_MAX as u8).map(key).collect();
    assert!(Administrators::new(1, many.clone()).is_err());
    let mut signed = SignedCommand::new(1, AdminCommand::Raise(1));
    let added: Vec<bool> = many.into_iter().map(|key| signed.add(key, [0; 64]).is_ok()).collect();
    assert_eq!(added.iter().filter(|added| **added).count(), ADMINISTRATORS_MAX);
}
