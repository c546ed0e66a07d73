//! What is kept, given to the host, and taken back.

use super::{Found, Proofs};
use crate::config::NodeConfig;
use crate::effects::{Effect, Effects};
use crate::node::tests::joins;
use bytes::Bytes;
use quorate_auth::{Authenticator, Keyed, Keys, Signature};
use quorate_order::mod_smart::evidence::{Evidence, EvidenceKind, SignedAccept, Statement};
use quorate_order::{OrderConfig, Protocol};
use quorate_types::{
    AgreedTime, ClusterId, Digest, FaultModel, Faults, InstanceId, MembershipId, ReplicaId, Slot, View,
};
use quorate_wire::{FRAME_HEADER, read_evidence};

const SEED: u64 = 7;
const LIAR: ReplicaId = ReplicaId::new(3);

fn config() -> NodeConfig {
    let mut config = joins();
    let members = (1..=4).map(ReplicaId::new).collect();
    config.order = OrderConfig::new(Protocol::MOD_SMART, ReplicaId::new(1), members, 6);
    config.order.faults = Faults::from(FaultModel::Byzantine);
    config.order.keys = Keys::Keyed(Keyed::new(ReplicaId::new(1), SEED));
    config
}

/// The liar accepts two values for this slot.
fn lie(config: &NodeConfig, slot: u64) -> Evidence {
    let accept = |value: u8| {
        Statement::Accept(SignedAccept {
            view: View::new(2),
            slot: Slot::new(slot),
            digest: Digest::new([value; 32]),
            signature: Signature::NONE,
        })
    };
    let mut evidence = Evidence {
        cluster: config.order.cluster,
        membership: MembershipId::FIRST,
        instance: InstanceId::new(1),
        accused: LIAR,
        kind: EvidenceKind::TwoAccepts,
        statements: vec![accept(1), accept(2)],
        key: None,
    };
    let key = Keyed::new(LIAR, SEED);
    for at in 0..2 {
        let signature = key.sign(&evidence.signed_text(&evidence.statements[at]));
        let Statement::Accept(accept) = &mut evidence.statements[at] else { continue };
        accept.signature = signature;
    }
    evidence
}

fn at(seconds: u64) -> AgreedTime {
    AgreedTime::from_nanos(seconds * 1_000_000_000)
}

/// The first of a kind is given to the host, once; the others are counted.
#[test]
fn one_of_each_kind_is_kept() {
    let (config, mut out) = (config(), Effects::new());
    let mut proofs = Proofs::new(&config);
    for slot in [17, 18, 17] {
        proofs.prove(at(slot), lie(&config, slot), &mut out);
    }
    let given: Vec<Effect> = out.drain().collect();
    let [Effect::Proved { text, name, bytes }] = &given[..] else { panic!("{given:?}") };
    assert_eq!(name, "r3-two-accepts-i1-v2-s17.proof");
    assert_eq!(text, "r3 signed two different accepts for slot 17 in view 2");
    assert_eq!(Evidence::decode(bytes.clone()), Ok(lie(&config, 17)));
    let status = proofs.status();
    assert_eq!((status.len(), status[0].times, status[0].slot, status[0].at), (1, 3, 17, 17));
    let payload = Bytes::from(proofs.frame().to_vec()).slice(FRAME_HEADER..);
    assert_eq!(read_evidence(payload), Ok(vec![bytes.clone()]));
}

/// What an earlier life found is listed and not given to the host again; of what does not prove anything nothing is said.
#[test]
fn what_was_found_before_is_kept() {
    let mut config = config();
    let ours = lie(&config, 17);
    let found = |evidence: &Evidence, seconds| Found { evidence: evidence.clone(), at: at(seconds) };
    let foreign = Evidence { cluster: ClusterId::new(99), ..ours.clone() };
    let another = Evidence { accused: ReplicaId::new(2), ..ours.clone() };
    config.evidence =
        vec![found(&foreign, 1), found(&another, 2), found(&lie(&config, 19), 9), found(&ours, 8)];
    let (mut proofs, mut out) = (Proofs::new(&config), Effects::new());
    assert_eq!(proofs.all().collect::<Vec<_>>(), [&ours], "the oldest that proves something");
    assert_eq!((proofs.status()[0].times, proofs.status()[0].at), (0, 8));
    proofs.prove(at(20), lie(&config, 20), &mut out);
    assert_eq!((proofs.status()[0].times, proofs.status()[0].slot), (1, 17));
    assert!(out.is_empty());
    config.order.faults = Faults::from(FaultModel::Crash);
    assert_eq!(Proofs::new(&config).all().count(), 0, "where nobody signs nothing is proved");
}
