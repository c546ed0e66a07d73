//! Signatures and tags: what is taken, what is refused, and that checking many gives the result of checking each.

mod keys;
mod macs;
mod requests;

use super::*;
use quorate_types::{MembershipId, Random};

fn id(number: u16) -> ReplicaId {
    ReplicaId::new(number)
}

fn secret(number: u16) -> [u8; 32] {
    std::array::from_fn(|at| (at as u8).wrapping_mul(7) ^ number as u8)
}

fn real(me: u16) -> Ed25519 {
    let members = (1..=7).map(|number| (id(number), Ed25519::public(secret(number))));
    Ed25519::new(id(me), secret(me), members).expect("keys of ours")
}

/// In the first membership.
fn text(bytes: &[u8]) -> Text {
    Text { membership: MembershipId::FIRST, bytes: bytes.to_vec() }
}

fn each(auth: &dyn Authenticator, claims: &[Claim<'_>]) -> bool {
    claims.iter().all(|(signer, text, signature)| auth.verify(*signer, text, signature))
}

#[test]
fn a_signature_is_its_signers_and_its_statements() {
    let all: [(&dyn Authenticator, &dyn Authenticator); 2] =
        [(&real(1), &real(2)), (&Keyed::new(id(1), 5), &Keyed::new(id(2), 5))];
    for (one, other) in all {
        let signature = one.sign(&text(b"a statement"));
        assert!(other.verify(id(1), &text(b"a statement"), &signature));
        assert!(!other.verify(id(2), &text(b"a statement"), &signature), "another's");
        assert!(!other.verify(id(1), &text(b"a statement."), &signature), "of something else");
        assert!(!other.verify(id(9), &text(b"a statement"), &signature), "a stranger's");
        assert!(!other.verify(id(1), &text(b"a statement"), &Signature::NONE), "none");
        for at in 0..signature.bytes().len() {
            let mut bytes = signature.bytes().to_vec();
            bytes[at] ^= 4;
            let changed = Signature::new(&bytes).expect("as long as before");
            assert!(!other.verify(id(1), &text(b"a statement"), &changed), "byte {at} changed");
        }
    }
}

/// What is made of keys signs and checks as they do, and says nothing of what is secret.
#[test]
fn keys_make_what_signs_with_them() {
    let pairs = [
        (Keys::Ed25519(Box::new(real(1))), Keys::Ed25519(Box::new(real(2)))),
        (Keys::Keyed(Keyed::new(id(1), 5)), Keys::Keyed(Keyed::new(id(2), 5))),
    ];
    for (one, other) in pairs {
        let signature = one.build().sign(&text(b"a statement"));
        assert!(other.clone().build().verify(id(1), &text(b"a statement"), &signature), "{one:?}");
        assert!(!other.build().verify(id(2), &text(b"a statement"), &signature), "{one:?}");
    }
    let trusting = Keys::Trusting.build();
    assert!(
        trusting.sign(&text(b"x")) == Signature::NONE
            && trusting.verify(id(9), &text(b"x"), &Signature::NONE)
    );
    let shown = format!("{:?}", Keys::Ed25519(Box::new(real(1))));
    let hex: String = secret(1).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let list = format!("{:?}", &secret(1)[..4]);
    assert!(!shown.contains(&hex) && !shown.contains(list.trim_matches(['[', ']'])), "{shown}");
}

#[test]
fn many_at_once_get_the_result_of_each() {
    let auth = real(1);
    let mut random = Random::new(3);
    let (mut right, mut wrong) = (0, 0);
    for _ in 0..60 {
        let count = 1 + random.below(7) as u16;
        let statements: Vec<_> = (0..count).map(|n| text(&[n as u8, random.next() as u8])).collect();
        let mut signatures: Vec<_> =
            statements.iter().zip(1..).map(|(statement, me)| real(me).sign(statement)).collect();
        if random.below(2) == 0 {
            let which = random.below(u64::from(count)) as usize;
            let mut bytes = signatures[which].bytes().to_vec();
            bytes[random.below(64) as usize] ^= 1 << random.below(8);
            signatures[which] = Signature::new(&bytes).expect("as long as before");
        }
        let claims: Vec<Claim<'_>> =
            (1..).zip(&statements).zip(&signatures).map(|((n, m), s)| (id(n), m, s)).collect();
        let result = auth.verify_all(&claims);
        assert_eq!(result, each(&auth, &claims));
        *(if result { &mut right } else { &mut wrong }) += 1;
    }
    assert!(right > 10 && wrong > 10, "{right} right, {wrong} wrong");
}

/// The identity, and the point of order 2 (y = -1), in the encodings that decoders take.
fn small_order() -> Vec<[u8; 32]> {
    let mut list = Vec::new();
    let mut one = [0; 32];
    one[0] = 1;
    list.push(one);
    let mut minus_one = [0xff; 32];
    (minus_one[0], minus_one[31]) = (0xec, 0x7f);
    list.push(minus_one);
    list.push([0; 32]);
    let mut zero_signed = [0; 32];
    zero_signed[31] = 0x80;
    list.push(zero_signed);
    // y = p, which is 0, and y = p + 1, which is 1: not canonical.
    let mut p = [0xff; 32];
    (p[0], p[31]) = (0xed, 0x7f);
    list.push(p);
    p[0] = 0xee;
    list.push(p);
    list
}

#[test]
fn keys_of_small_order_are_refused() {
    for bytes in small_order() {
        assert!(PublicKey::new(bytes).is_err(), "{bytes:02x?}");
    }
    assert!(
        PublicKey::new([2; 32]).is_err() || PublicKey::new([3; 32]).is_err(),
        "half of all are no points"
    );
    assert_eq!(PublicKey::new(*Ed25519::public(secret(1)).bytes()), Ok(Ed25519::public(secret(1))));
}

/// A signer that knows its own key can make signatures on which sloppy checks differ: R off by a point of small order is valid with the
/// cofactor and not without. Under ZIP-215 alone and together must agree: each way to check says yes to these.
#[test]
fn signatures_at_the_edge_get_one_result() {
    use super::ed25519::PublicKey as Key;
    let auth_of = |keys: Vec<Key>| {
        let members = (1..).zip(keys).map(|(number, key)| (id(number), key));
        Ed25519::new(id(1), secret(1), members).expect("points of the curve")
    };
    // For a key of small order A, R of small order and s = 0 is valid for every message. Such keys never become members' keys
    // (see above); here they show that the two checks agree where it is most delicate.
    let odd: Vec<Key> = small_order().into_iter().map(Key::unchecked).collect();
    let auth = auth_of(odd);
    let count = small_order().len() as u16;
    let mut taken = 0;
    for (at, r) in small_order().iter().enumerate() {
        let mut bytes = [0; 64];
        bytes[..32].copy_from_slice(r);
        let signature = Signature::new(&bytes).expect("64 bytes");
        let statement = text(&[at as u8]);
        let claims: Vec<Claim<'_>> = (1..=count).map(|n| (id(n), &statement, &signature)).collect();
        assert_eq!(auth.verify_all(&claims), each(&auth, &claims), "R {at}");
        taken += usize::from(auth.verify_all(&claims));
    }
    assert!(taken > 0, "the edge is reached");
    // s must be canonical: s + l is another encoding of the same number, and refused alone and together.
    let good = real(1).sign(&text(b"x"));
    let mut bytes: [u8; 64] = good.bytes().try_into().expect("64 bytes");
    let order: [u8; 32] = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ];
    let mut carry = 0;
    for (byte, add) in bytes[32..].iter_mut().zip(order) {
        let sum = u16::from(*byte) + u16::from(add) + carry;
        (*byte, carry) = (sum as u8, sum >> 8);
    }
    let doubled = Signature::new(&bytes).expect("64 bytes");
    let statement = text(b"x");
    let claims: Vec<Claim<'_>> = (0..5).map(|_| (id(1), &statement, &doubled)).collect();
    assert!(!each(&real(2), &claims) && !real(2).verify_all(&claims));
    let claims: Vec<Claim<'_>> = (0..5).map(|_| (id(1), &statement, &good)).collect();
    assert!(each(&real(2), &claims) && real(2).verify_all(&claims));
}
