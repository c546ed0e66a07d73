//! What a replica signs for an operator, and for whom that is proof.

use super::answer;
use crate::config::NodeConfig;
use crate::keeping::{Facts, In};
use crate::node::tests::{CLUSTER, Host, joins, r};
use crate::recovered::Recovered;
use crate::restoring::Restoring;
use quorate_admit::{KnownMember, Members};
use quorate_auth::{Authenticator, Keyed, Keys, Signature, checkpoint_statement};
use quorate_order::{OrderConfig, Protocol};
use quorate_state::checkpoint::{Digests, Report};
use quorate_types::{AgreedTime, Digest, FaultModel, Faults, Incarnation, MembershipId, Seq, Time};
use quorate_wire::{AttestAnswer, Attested, FRAME_HEADER, StateMessage};

const SEED: u64 = 7;
const OF: (Seq, Digest) = (Seq::new(10), Digest::new([1; 32]));

/// r4 of four replicas, of which one may lie.
fn config() -> NodeConfig {
    let known = |id: u16| KnownMember {
        replica: r(id),
        address: format!("r{id}"),
        incarnation: Incarnation::new(100 + u64::from(id)),
    };
    let mut order = OrderConfig::new(Protocol::MOD_SMART, r(4), (1..=4).map(r).collect(), 6);
    order.cluster = CLUSTER;
    order.faults = Faults::from(FaultModel::Byzantine);
    order.keys = Keys::Keyed(Keyed::new(r(4), SEED));
    let members = Members::new(CLUSTER, r(4), (1..=4).map(known).collect());
    NodeConfig { members, order, ..joins() }
}

fn start(config: NodeConfig) -> Host {
    let restoring = Restoring::new(config.clone(), Recovered::default()).expect("nothing was there");
    Host::restart(restoring, config)
}

/// This replica and two others computed this digest.
fn agree(host: &mut Host) {
    let (seq, digest) = OF;
    let facts = Facts {
        begun: true,
        leader: None,
        instances: 1,
        delivered: seq,
        time: AgreedTime::ZERO,
        merged: seq,
        log: (0, 0),
        first_segment: 0,
        disk_full: false,
    };
    let report = Report::Digest { seq, border: 1, digests: Digests { image: digest, state: digest } };
    let heard =
        |from| In::Heard { from: r(from), message: StateMessage::Digest { seq, digest, held: false } };
    for input in [In::Kept(report), heard(2), heard(3)] {
        host.node.keeping.step(Time::ZERO, &facts, input, &mut Vec::new());
    }
}

fn asked(host: &Host, of: (Seq, Digest)) -> AttestAnswer {
    let payload = answer(&host.node, of).to_vec().split_off(FRAME_HEADER);
    let attested = Attested::decode(payload.into()).expect("an answer");
    assert_eq!((attested.seq, attested.digest), of, "it says what it is about");
    attested.answer
}

fn refused(host: &Host, says: &str) {
    let answer = asked(host, OF);
    assert!(matches!(&answer, AttestAnswer::Refused(why) if why.contains(says)), "{answer:?}");
}

#[test]
fn a_voter_signs_what_is_agreed_on() {
    let mut host = start(config());
    refused(&host, "no agreement");
    agree(&mut host);
    let AttestAnswer::Signed { membership, signature } = asked(&host, OF) else { panic!("it signs") };
    assert_eq!(membership, MembershipId::FIRST);
    let signature = Signature::new(&signature).expect("a signature");
    let other = Keyed::new(r(1), SEED);
    let text = checkpoint_statement(CLUSTER, membership, OF);
    assert!(other.verify(r(4), &text, &signature));
    assert!(!other.verify(r(3), &text, &signature), "it is of r4");
    let (seq, digest) = OF;
    for of in [(seq.next(), digest), (seq, Digest::new([2; 32]))] {
        assert!(matches!(asked(&host, of), AttestAnswer::Refused(_)), "{of:?}");
    }
}

#[test]
fn who_may_not_or_can_not_sign_says_so() {
    let mut joins = config();
    joins.members = joins.members.joined(MembershipId::new(2), 3);
    let mut host = start(joins);
    agree(&mut host);
    refused(&host, "it does not know the present members yet");
    let mut without = config();
    let mut keyed = Keyed::new(r(4), SEED).that_must_hold();
    keyed.know(r(4), MembershipId::FIRST, &[9; 32]);
    without.order.keys = Keys::Keyed(keyed);
    let mut host = start(without);
    agree(&mut host);
    refused(&host, "it lacks the secret key");
    let mut crash = config();
    crash.order.faults = Faults::from(FaultModel::Crash);
    refused(&start(crash), "no replica lies");
}
