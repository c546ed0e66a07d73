//! Keys that change: each counts in its own memberships, and nobody signs with another than his own.

use super::{id, real, secret};
use crate::{Authenticator, Ed25519, Keyed, Secret, Signature, Text};
use quorate_types::MembershipId;

fn said(membership: u64) -> Text {
    Text { membership: MembershipId::new(membership), bytes: b"a statement".to_vec() }
}

fn known(auth: &mut dyn Authenticator, membership: u64, key: [u8; 32]) {
    auth.know(id(1), MembershipId::new(membership), &key);
}

/// Member 1, and one who checks; from membership 5 on its key is another one: the public half, and the secret one.
struct Pair(Box<dyn Authenticator>, Box<dyn Authenticator>, [u8; 32], Secret);

fn pairs() -> [Pair; 2] {
    let new = Secret::new([9; 32]);
    let keyed = |me| Box::new(Keyed::new(id(me), 5).that_must_hold());
    [
        Pair(Box::new(real(1)), Box::new(real(2)), *new.public().bytes(), new.clone()),
        Pair(keyed(1), keyed(2), [9; 32], new),
    ]
}

#[test]
fn an_old_key_counts_in_its_own_memberships_only() {
    for Pair(mut signer, mut other, public, new) in pairs() {
        let (early, late) = (signer.sign(&said(4)), signer.sign(&said(5)));
        assert!(other.verify(id(1), &said(4), &early) && other.verify(id(1), &said(5), &late));
        known(&mut *other, 5, public);
        assert!(other.verify(id(1), &said(4), &early), "of then");
        assert!(!other.verify(id(1), &said(5), &late), "the old key, in the new membership");
        assert!(!other.verify(id(1), &said(9), &signer.sign(&said(9))), "nor later");
        signer.hold(&new);
        known(&mut *signer, 5, public);
        let late = signer.sign(&said(5));
        assert!(other.verify(id(1), &said(5), &late));
        let claims = [said(4), said(5), said(5), said(7)];
        let signatures: Vec<_> = claims.iter().map(|text| signer.sign(text)).collect();
        let claims: Vec<_> = claims.iter().zip(&signatures).map(|(text, sig)| (id(1), text, sig)).collect();
        assert!(other.verify_all(&claims), "each with the key of then");
        let mixed: Vec<_> = claims.iter().map(|claim| (claim.0, claim.1, &late)).collect();
        assert!(!other.verify_all(&mixed), "the new key, in the old membership");
    }
}

#[test]
fn who_lacks_its_key_signs_nothing() {
    for Pair(mut signer, _, public, new) in pairs() {
        known(&mut *signer, 5, public);
        assert!(signer.can_sign(MembershipId::new(4)) && !signer.can_sign(MembershipId::new(5)));
        assert!(signer.sign(&said(4)) != Signature::NONE && signer.sign(&said(5)) == Signature::NONE);
        signer.hold(&new);
        assert!(signer.can_sign(MembershipId::new(5)) && signer.sign(&said(5)) != Signature::NONE);
    }
}

/// Memberships come to be known in any order: after a restart from a checkpoint the later one is known first.
#[test]
fn the_order_in_which_keys_are_told_is_no_matter() {
    let keys: Vec<[u8; 32]> = (1..4).map(|n| *Secret::new([n; 32]).public().bytes()).collect();
    let told = [(3, 0), (4, 0), (5, 1), (6, 1), (8, 2), (9, 2)];
    for turn in 0..told.len() {
        let members = [(id(1), Ed25519::public(secret(1)))];
        let mut auth = Ed25519::new(id(1), secret(1), members).expect("a key of ours");
        let mut order = told;
        order.rotate_left(turn);
        if turn % 2 == 1 {
            order.reverse();
        }
        for (membership, at) in order {
            known(&mut auth, membership, keys[at]);
        }
        for (membership, at) in told {
            let key = auth.key(id(1), MembershipId::new(membership)).expect("known");
            assert_eq!(key.bytes(), &keys[at], "{membership} after {turn}");
        }
        let first = auth.key(id(1), MembershipId::new(2)).expect("known");
        assert_eq!(first, Ed25519::public(secret(1)), "what was known first");
        known(&mut auth, 5, keys[0]);
        let stays = auth.key(id(1), MembershipId::new(5)).expect("known");
        assert_eq!(stays.bytes(), &keys[1], "what was said of a membership stays");
    }
}
