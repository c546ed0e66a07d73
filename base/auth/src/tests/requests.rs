//! Signatures under requests.

use super::super::{ClientKey, KeyedClient, RequestChecks, RequestClaim, request_statement};
use super::*;
use quorate_types::{ClusterId, SessionId, SessionKey};
use quorate_wire::{RequestHeader, RequestKind, RequestProof, RequestSigner};

const CLUSTER: ClusterId = ClusterId::new(7);

fn header(number: u64, body: &[u8]) -> RequestHeader {
    RequestHeader {
        session: SessionId { index: 3, generation: 1 },
        number: quorate_types::RequestNumber::new(number),
        lowest_unanswered: quorate_types::RequestNumber::FIRST,
        kind: RequestKind::Query,
        len: body.len() as u32,
        proof: RequestProof::Signature,
    }
}

fn claim(signer: &dyn RequestSigner, number: u64, body: &[u8]) -> RequestClaim {
    let header = header(number, body).bytes();
    RequestClaim {
        key: signer.key(),
        statement: request_statement(CLUSTER, &header, body),
        signature: signer.sign(&header, body),
    }
}

/// What checks, and two clients.
type Two = (RequestChecks, Box<dyn RequestSigner>, Box<dyn RequestSigner>);

fn pairs() -> [Two; 2] {
    [
        (
            RequestChecks::Ed25519,
            Box::new(ClientKey::new(CLUSTER, secret(1))),
            Box::new(ClientKey::new(CLUSTER, secret(2))),
        ),
        (
            RequestChecks::Keyed(5),
            Box::new(KeyedClient::new(CLUSTER, 5, 1)),
            Box::new(KeyedClient::new(CLUSTER, 5, 2)),
        ),
    ]
}

/// It serves one session, number, body, kind and cluster, and no other.
#[test]
fn a_signature_is_of_one_request() {
    for (checks, one, other) in pairs() {
        let right = claim(&*one, 4, b"pay bob 5");
        assert!(checks.one(&right), "{checks:?}");
        assert!(!checks.one(&RequestClaim { key: other.key(), ..right }), "another's");
        let of = |header: RequestHeader, body: &[u8]| RequestClaim {
            key: right.key,
            statement: request_statement(CLUSTER, &header.bytes(), body),
            signature: right.signature,
        };
        let own = header(4, b"pay bob 5");
        assert!(checks.one(&of(own, b"pay bob 5")));
        assert!(!checks.one(&of(own, b"pay bob 6")));
        let session = SessionId { index: 3, generation: 2 };
        let lowest_unanswered = quorate_types::RequestNumber::new(2);
        for wrong in [
            header(5, b"pay bob 5"),
            RequestHeader { session, ..own },
            RequestHeader { lowest_unanswered, ..own },
            RequestHeader { kind: RequestKind::Commands, ..own },
        ] {
            assert!(!checks.one(&of(wrong, b"pay bob 5")), "{wrong:?}");
        }
        let statement = request_statement(ClusterId::new(8), &own.bytes(), b"pay bob 5");
        assert!(!checks.one(&RequestClaim { statement, ..right }), "another cluster's");
    }
}

/// Many checked at once are right if each is, and which one is wrong is found.
#[test]
fn many_have_the_result_of_each() {
    for (checks, one, other) in pairs() {
        for count in [0, 1, 3, 4, 9] {
            let mut claims: Vec<RequestClaim> =
                (0..count).map(|n| claim(if n % 2 == 0 { &*one } else { &*other }, n, b"x")).collect();
            assert!(checks.all(&claims) && checks.each(&claims).iter().all(|right| *right));
            if let Some(last) = claims.last_mut() {
                last.signature[40] ^= 1;
                assert!(!checks.all(&claims), "{checks:?}");
                let results = checks.each(&claims);
                assert_eq!(results.iter().filter(|right| **right).count() as u64, count - 1);
                assert_eq!(results.last(), Some(&false));
            }
        }
    }
}

/// For a point of small order anybody signs anything; and where nothing is checked, nothing is right.
#[test]
fn keys_that_are_none_are_refused() {
    let small = SessionKey::new({
        let mut one = [0; 32];
        one[0] = 1;
        one
    });
    assert!(!RequestChecks::Ed25519.is_key(&small));
    let mut signature = [0; 64];
    signature[0] = 1;
    let statement = request_statement(CLUSTER, b"", b"whatever");
    assert!(RequestChecks::Ed25519.one(&RequestClaim { key: small, statement, signature }), "it is forged");
    let outside =
        (0..=255).map(|first| SessionKey::new([first; 32])).find(|key| !RequestChecks::Ed25519.is_key(key));
    assert!(outside.is_some(), "half of all bytes are no point");
    let real = ClientKey::new(CLUSTER, secret(1));
    assert!(RequestChecks::Ed25519.is_key(&real.key()));
    assert!(!RequestChecks::Nothing.is_key(&real.key()));
    assert!(!RequestChecks::Nothing.one(&claim(&real, 1, b"x")));
    assert!(!RequestChecks::Nothing.all(&[claim(&real, 1, b"x")]));
}

/// Replicas check clients as they check each other, and the secret is not shown.
#[test]
fn checks_follow_the_replicas_keys() {
    assert_eq!(RequestChecks::of(&Keys::Trusting), RequestChecks::Nothing);
    assert_eq!(RequestChecks::of(&Keys::Keyed(Keyed::new(id(1), 5))), RequestChecks::Keyed(5));
    assert_eq!(RequestChecks::of(&Keys::Ed25519(Box::new(real(1)))), RequestChecks::Ed25519);
    let shown = format!("{:?}", ClientKey::new(CLUSTER, secret(1)));
    let hex: String = secret(1).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    assert!(!shown.contains(&hex), "{shown}");
}
