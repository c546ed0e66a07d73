//! Each trick says something else than the node did, in frames that decode, and signs as nobody but itself.

use super::voice::rebuilt;
use super::*;
use crate::plan::Profile;
use quorate_auth::Signature;
use quorate_auth::{Authenticator, Keyed};
use quorate_order::ledger::Proof;
use quorate_order::mod_smart::message::{Collect, ModSmartBody as Body};
use quorate_order::mod_smart::{Statements, digest_of};
use quorate_types::{
    AgreedTime, FaultModel, ItemsBuilder, MembershipId, ReplicaId, RequestNumber, Seq, SessionId, Slot, View,
};
use quorate_wire::{
    Batch, BatchHeader, ReadConsistency, ReadReply, ReadRequest, ReadStatus, Reply, ReplyStatus,
    read_reply_header, write_read_request, write_request,
};

const FIRST: InstanceId = InstanceId::new(1);

fn plan() -> Plan {
    let profile = Profile {
        fault_model: Some(FaultModel::Byzantine),
        replicas: Some(4),
        faults: false,
        liars: Some(0),
        ..Profile::default()
    };
    Plan::new(1, &profile)
}

fn liar(trick: Trick) -> Liar {
    let of = plan::Liar { who: 0, tricks: vec![trick], often: 1000, since: 0 };
    Liar::new(&plan(), &of)
}

fn batch() -> Batch {
    let mut requests = Vec::new();
    for number in 1..=2 {
        let mut items = ItemsBuilder::new();
        items.push(b"twelve bytes and a value");
        let mut bytes = Vec::new();
        let session = SessionId::from_number(number);
        write_request(&mut bytes, session, RequestNumber::new(1), RequestNumber::new(1), &items);
        requests.push(bytes);
    }
    let header = BatchHeader {
        time: AgreedTime::from_nanos(5),
        seed: 7,
        count: 2,
        border: false,
        base: None,
        ruling: None,
    };
    rebuilt(header, &requests)
}

fn order(body: Body) -> OutFrame {
    let message = ModSmartMessage { membership: MembershipId::FIRST, view: View::new(3), body };
    OrderMessage::of(message).frame(FIRST)
}

/// What a node may say.
fn frames() -> Vec<OutFrame> {
    let (slot, digest) = (Slot::new(5), digest_of(&batch()));
    let signature = Signature::NONE;
    let value = Some((View::new(2), digest));
    let collect = Collect {
        from: ReplicaId::new(1),
        decided: slot,
        lock: value,
        writes: value.into_iter().collect(),
        signature,
    };
    let last =
        Some(Proof { slot, view: View::new(2), digest, accepts: vec![(ReplicaId::new(2), signature)] });
    let collects = vec![collect.clone()];
    let mut replies = Vec::new();
    let (session, number) = (SessionId::from_number(9), RequestNumber::new(4));
    Reply { session, number, status: ReplyStatus::Done, body: b"reply" }.write_to(&mut replies);
    vec![
        order(Body::Propose { slot, batch: batch() }),
        order(Body::Write { slot, digest }),
        order(Body::Accept { slot, digest, signature }),
        order(Body::StopData { collect, last: last.clone(), batches: vec![batch()] }),
        order(Body::Sync { stops: vec![], collects, last, value: Some(batch()) }),
        order(Body::Alive { decided: slot, round: 1 }),
        StateMessage::Digest { seq: Seq::new(9), digest, held: true }.frame(),
        StateMessage::Chunk { seq: Seq::new(9), digest, chunk: 3, bytes: Bytes::from_static(b"chunk") }
            .frame(),
        OutFrame::new(FrameKind::Replies, &replies, vec![]),
    ]
}

fn said(frame: &OutFrame) -> Said {
    Said::of(frame.kind(), Bytes::from(frame.to_vec()).slice(FRAME_HEADER..))
}

/// What leaves in place of all these, for the members and a client.
fn all(liar: &mut Liar) -> Vec<(usize, Said, Vec<Saying>)> {
    let mut list = Vec::new();
    for frame in frames() {
        for to in 1..5 {
            let instead = liar.instead((1, false), (to, ConnId::new(to as u64)), &frame);
            list.push((to, said(&frame), instead));
        }
    }
    list
}

/// A trick that changes nothing would find nothing.
#[test]
fn every_trick_says_something_else() {
    for trick in TRICKS.into_iter().chain(KEEPERS) {
        let mut liar = liar(trick);
        let list = all(&mut liar);
        let honest = |(to, said, instead): &(usize, Said, Vec<Saying>)| matches!(&instead[..], [one] if one.to == *to && one.after == 0 && one.said == *said);
        assert!(!list.iter().all(honest), "{trick:?} is honest");
        let to: Vec<usize> = list.iter().flat_map(|(.., instead)| instead).map(|saying| saying.to).collect();
        assert!(to.iter().all(|to| *to < 5), "{trick:?}");
        if trick != Trick::Silent {
            assert!(to.contains(&4), "{trick:?} leaves clients without an answer");
        }
    }
}

/// What is said has the form that the receiver expects, but for what is garbled on purpose.
#[test]
fn what_liars_say_can_be_read() {
    for trick in TRICKS.into_iter().filter(|trick| *trick != Trick::Mutate) {
        let mut liar = liar(trick);
        for saying in all(&mut liar).into_iter().flat_map(|(.., instead)| instead) {
            let read = said(&saying.said.frame());
            assert_eq!(read, saying.said, "{trick:?}");
        }
    }
}

/// Whoever reads again after a change gets what was before it.
#[test]
fn old_reads_are_from_before_the_last_change() {
    let mut liar = liar(Trick::OldReads);
    let mut ask = |read: u64, body: &[u8]| {
        let mut asked = Vec::new();
        let request =
            ReadRequest { read, seen: Seq::ZERO, consistency: ReadConsistency::Strong, query: b"key" };
        write_read_request(&mut asked, &request);
        liar.hears(1, 4, &Frame { kind: FrameKind::Reads, payload: asked.into() });
        let mut answer = Vec::new();
        read_reply_header(&mut answer, read, Seq::new(read), ReadStatus::Done, body.len());
        answer.extend_from_slice(body);
        let frame = OutFrame::new(FrameKind::ReadReplies, &answer, vec![]);
        let said = liar.instead((1, false), (4, ConnId::new(4)), &frame).remove(0).said;
        let Said::Other(FrameKind::ReadReplies, payload) = said else { panic!("{said:?}") };
        let reply = ReadReply::walk(&payload).next().unwrap().unwrap();
        (reply.read, reply.body.to_vec())
    };
    assert_eq!(ask(1, b"one"), (1, b"one".to_vec()));
    assert_eq!(ask(2, b"two"), (2, b"one".to_vec()));
    assert_eq!(ask(3, b"two"), (3, b"one".to_vec()));
    assert_eq!(ask(4, b"three"), (4, b"two".to_vec()));
}

/// One member hears the accepts of who keeps them, and the others hear all else.
#[test]
fn accepts_are_kept_from_all_but_one() {
    let mut liar = liar(Trick::KeepsAccepts);
    let list = all(&mut liar);
    let is_accept = |said: &Said| matches!(said, Said::ModSmart(_, message) if matches!(message.body, Body::Accept { .. }));
    let (accepts, rest): (Vec<_>, Vec<_>) = list.iter().partition(|(_, said, _)| is_accept(said));
    let members = |(to, ..): &&&(usize, Said, Vec<Saying>)| *to < 4;
    assert_eq!(accepts.iter().filter(members).filter(|(.., instead)| !instead.is_empty()).count(), 1);
    assert!(rest.iter().all(|(.., instead)| instead.len() == 1));
}

/// No signature is another member's.
#[test]
fn a_liar_signs_as_itself_only() {
    let plan = plan();
    for trick in TRICKS.into_iter().chain(KEEPERS) {
        let mut liar = liar(trick);
        for saying in all(&mut liar).into_iter().flat_map(|(.., instead)| instead) {
            let Said::ModSmart(instance, message) = saying.said else { continue };
            let of =
                Statements { cluster: crate::replica::CLUSTER, membership: message.membership, instance };
            let signed = match &message.body {
                Body::Accept { slot, digest, signature } => {
                    (of.accept(message.view, *slot, *digest), *signature)
                }
                Body::Stop { asked, signature, .. } => (of.stop(*asked), *signature),
                Body::StopData { collect, .. } => (of.collect(message.view, collect), collect.signature),
                _ => continue,
            };
            for other in 2..=4 {
                let auth = Keyed::new(ReplicaId::new(1), plan.seed);
                assert!(!auth.verify(ReplicaId::new(other), &signed.0, &signed.1), "{trick:?}");
            }
        }
    }
}

/// Whoever was shown another proposal than the node made finds the liar's votes for that.
#[test]
fn votes_follow_what_was_shown() {
    let mut liar = liar(Trick::Equivocate);
    let (slot, digest) = (Slot::new(5), digest_of(&batch()));
    let mut votes = Vec::new();
    for to in 1..4 {
        let conn = ConnId::new(to as u64);
        let shown = liar.instead((1, false), (to, conn), &order(Body::Propose { slot, batch: batch() }));
        let write = liar.instead((1, false), (to, conn), &order(Body::Write { slot, digest }));
        let (Said::ModSmart(_, shown), Said::ModSmart(_, write)) = (&shown[0].said, &write[0].said) else {
            panic!()
        };
        let (Body::Propose { batch, .. }, Body::Write { digest, .. }) = (&shown.body, &write.body) else {
            panic!()
        };
        assert_eq!(digest_of(batch), *digest);
        votes.push(*digest);
    }
    assert!(votes.iter().any(|vote| *vote != votes[0]), "all were shown the same");
}

/// What a client that lies sends is not the same for all, and no other operation.
#[test]
fn clients_lie_by_replica() {
    use super::clients::{ClientTrick, instead};
    let mut bytes = Vec::new();
    let mut items = ItemsBuilder::new();
    items.push(b"the operation and then a value");
    let (session, one) = (SessionId::from_number(3), RequestNumber::new(1));
    write_request(&mut bytes, session, one, one, &items);
    let frame = OutFrame::new(FrameKind::Requests, &bytes, vec![]);
    let mut rng = Rng::of(1, 1);
    let mut to = |trick, to| instead(trick, &mut rng, to, &[SessionId::from_number(8)], frame.clone());
    assert_eq!(to(ClientTrick::Some(0b01), 0), vec![frame.clone()]);
    assert_eq!(to(ClientTrick::Some(0b01), 1), vec![]);
    let differs = to(ClientTrick::Differs(0b01), 0);
    assert_ne!(differs, to(ClientTrick::Differs(0b01), 1));
    assert_eq!(differs[0].to_vec().len(), frame.len());
    assert_eq!(to(ClientTrick::Both(0b01), 0), differs);
    assert_eq!(to(ClientTrick::Both(0b01), 1), vec![frame.clone(), differs[0].clone()]);
    let stolen = to(ClientTrick::Others, 0);
    assert_eq!(
        (clients::session_of(&stolen[0]), stolen[1].clone()),
        (Some(SessionId::from_number(8)), frame.clone())
    );
    assert_eq!(to(ClientTrick::Again, 0).len(), 3);
}
