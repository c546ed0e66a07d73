//! Who signed a command, and what else the signature is good for: nothing.

use super::{administration_statement, is_signed_by};
use crate::{ClientKey, KeyedClient, RequestChecks, StatementSigner};
use quorate_types::ClusterId;
use quorate_wire::{AdminCommand, Administrators, SignedCommand};

const CLUSTER: ClusterId = ClusterId::new(7);

fn signers(seed: u64) -> Vec<Box<dyn StatementSigner>> {
    match seed {
        0 => (1..4).map(|n| Box::new(ClientKey::new(CLUSTER, [n; 32])) as Box<dyn StatementSigner>).collect(),
        _ => (1..4).map(|n| Box::new(KeyedClient::new(CLUSTER, seed, n)) as _).collect(),
    }
}

fn sign(signed: &mut SignedCommand, cluster: ClusterId, by: &dyn StatementSigner) {
    let signature = by.sign_statement(&administration_statement(cluster, signed));
    signed.add(by.key(), signature).expect("few");
}

#[test]
fn as_many_as_are_needed_must_sign_this() {
    for (checks, seed) in [(RequestChecks::Ed25519, 0), (RequestChecks::Keyed(5), 5)] {
        let keys = signers(seed);
        let of = |threshold, count| {
            Administrators::new(threshold, keys[..count].iter().map(|key| key.key()).collect()).expect("few")
        };
        let mut signed = SignedCommand::new(3, AdminCommand::Raise(2));
        assert!(!is_signed_by(checks, CLUSTER, &signed, &of(1, 1)), "nobody did");
        sign(&mut signed, CLUSTER, &*keys[0]);
        assert!(is_signed_by(checks, CLUSTER, &signed, &of(1, 1)));
        assert!(!is_signed_by(checks, CLUSTER, &signed, &of(2, 2)), "one of two");
        sign(&mut signed, CLUSTER, &*keys[2]);
        assert!(!is_signed_by(checks, CLUSTER, &signed, &of(2, 2)), "one is no administrator");
        assert!(is_signed_by(checks, CLUSTER, &signed, &of(2, 3)));
        assert!(!is_signed_by(RequestChecks::Nothing, CLUSTER, &signed, &of(1, 1)));

        assert!(!is_signed_by(checks, ClusterId::new(8), &signed, &of(1, 3)), "for another cluster");
        let mut later = signed.clone();
        later.number = 4;
        assert!(!is_signed_by(checks, CLUSTER, &later, &of(1, 3)), "at another time");
        let mut other = signed.clone();
        other.command = AdminCommand::Raise(3);
        assert!(!is_signed_by(checks, CLUSTER, &other, &of(1, 3)), "another command");
        let (_, signature) = signed.signatures()[0];
        let mut forged = SignedCommand::new(3, AdminCommand::Raise(2));
        forged.add(keys[1].key(), signature).expect("few");
        assert!(!is_signed_by(checks, CLUSTER, &forged, &of(1, 3)), "another one's signature");
    }
}
