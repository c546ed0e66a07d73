//! Samples of Mod-SMaRt's messages.

use super::{batch, request};
use quorate_auth::{Signature, Signed};
use quorate_order::ledger::Proof;
use quorate_order::mod_smart::message::{Collect, Complaint, ModSmartBody as Body, ModSmartMessage};
use quorate_types::{Digest, MembershipId, ReplicaId, Slot, View};

fn signature(byte: u8) -> Signature {
    Signature::new(&[byte; 64]).expect("as long as any")
}

fn signed(members: &[u16]) -> Signed {
    members.iter().map(|id| (ReplicaId::new(*id), signature(*id as u8))).collect()
}

fn digest(byte: u8) -> Digest {
    Digest::new([byte; 32])
}

/// A member that locked a value in view 3, and wrote another one in view 4.
fn collect(from: u16) -> Collect {
    Collect {
        from: ReplicaId::new(from),
        decided: Slot::new(41),
        lock: Some((View::new(3), digest(7))),
        writes: vec![(View::new(3), digest(7)), (View::new(4), digest(8))],
        signature: signature(0x40 + from as u8),
    }
}

/// A member that knows nothing.
fn fresh(from: u16) -> Collect {
    let signature = Signature::new(&[9; 8]).expect("a short one");
    Collect { from: ReplicaId::new(from), decided: Slot::ZERO, lock: None, writes: vec![], signature }
}

fn proof() -> Proof {
    Proof { slot: Slot::new(41), view: View::new(2), digest: digest(6), accepts: signed(&[1, 2, 4]) }
}

/// Those where few members are slow.
fn of_few() -> Vec<(&'static str, &'static str, Body)> {
    vec![
        (
            "granted",
            "Two sets of two members are quorums of view 5.",
            Body::Granted {
                sets: [[1, 2], [2, 3]].map(|set| set.into_iter().map(ReplicaId::new).collect()).to_vec(),
                since: Slot::new(9),
            },
        ),
        ("ask", "Whom do you miss?", Body::Ask { tag: 7 }),
        ("probe", "Are you there?", Body::Probe { tag: 7 }),
        ("probed", "I am.", Body::Probed { tag: 7 }),
        ("back", "I was away; count me again.", Body::Back { tag: 7 }),
        (
            "misses",
            "Two members gave no sign of life.",
            Body::Misses {
                tag: 7,
                ids: [3, 4].into_iter().map(ReplicaId::new).collect(),
                signature: Signature::new(&[5; 64]).expect("as long as one is"),
            },
        ),
    ]
}

/// Every message, some of them in more than one form.
pub(crate) fn messages() -> Vec<(&'static str, &'static str, ModSmartMessage)> {
    let slot = Slot::new(42);
    let value = || batch(&[request(7, &["put a 1"])]);
    let stop = |why| Body::Stop { asked: View::new(6), why, decided: Slot::new(41), signature: signature(3) };
    let sync = |last, value| Body::Sync {
        stops: signed(&[1, 2, 3]),
        collects: vec![collect(1), fresh(2), collect(4)],
        last,
        value,
    };
    let list = vec![
        ("propose", "The leader proposes a batch.", Body::Propose { slot, batch: value() }),
        ("write", "Its proposal was taken.", Body::Write { slot, digest: digest(7) }),
        ("accept", "A quorum wrote it.", Body::Accept { slot, digest: digest(7), signature: signature(5) }),
        ("stop_silence", "The leader is silent.", stop(Complaint::Silence)),
        ("stop_request", "A request is not decided.", stop(Complaint::Request(digest(9)))),
        ("stop_slot", "A slot is not decided.", stop(Complaint::Slot(slot))),
        ("stop_joined", "Others complain.", stop(Complaint::Joined)),
        ("stop_leaves", "The leader gives up.", stop(Complaint::Leaves)),
        ("stop_rate", "The leader is slow.", stop(Complaint::Rate)),
        ("stop_rotation", "The leader's shift is over.", stop(Complaint::Rotation)),
        ("certificate", "Why there is a view 5.", Body::Certificate { stops: signed(&[1, 2, 3]) }),
        (
            "stop_data",
            "What a member knows.",
            Body::StopData { collect: collect(2), last: Some(proof()), batches: vec![value(), batch(&[])] },
        ),
        (
            "stop_data_fresh",
            "It knows nothing.",
            Body::StopData { collect: fresh(2), last: None, batches: vec![] },
        ),
        ("sync_bound", "View 5 begins with a value of before.", sync(Some(proof()), Some(value()))),
        ("sync_free", "View 5 begins with nothing.", sync(None, None)),
        ("fetch", "Asks for two slots.", Body::Fetch { slot, count: 2 }),
        ("decision", "One of them.", Body::Decision { proof: proof(), batch: value() }),
        ("gone", "It is in a checkpoint only.", Body::Gone { slot, proof: None }),
        (
            "gone_proven",
            "The same, and it is shown to be decided.",
            Body::Gone { slot: proof().slot, proof: Some(proof()) },
        ),
        ("alive", "The leader lives.", Body::Alive { decided: slot, round: 3 }),
        ("alive_reply", "The answer.", Body::AliveReply { decided: slot, round: 3 }),
        ("read", "Asks on behalf of reads.", Body::Read { read: 12 }),
        ("read_reply", "Wait for slot 42.", Body::ReadReply { read: 12, slot: Some(slot) }),
        ("read_reply_not_leading", "Ask somebody else.", Body::ReadReply { read: 12, slot: None }),
    ];
    let whole = |body| ModSmartMessage { membership: MembershipId::FIRST, view: View::new(5), body };
    list.into_iter().chain(of_few()).map(|(name, story, body)| (name, story, whole(body))).collect()
}

/// A message without the bytes of its batches.
pub(crate) fn line(message: &ModSmartMessage) -> String {
    let (membership, view) = (message.membership, message.view);
    let rest = match &message.body {
        Body::Propose { slot, batch } => format!("Propose {slot:?} {:?}", batch.header()),
        Body::StopData { collect, last, batches } => {
            let batches: Vec<_> = batches.iter().map(|batch| batch.header()).collect();
            format!("StopData {collect:?} {last:?} {batches:?}")
        }
        Body::Sync { stops, collects, last, value } => {
            let value = value.as_ref().map(|batch| batch.header());
            format!("Sync {stops:?} {collects:?} {last:?} {value:?}")
        }
        Body::Decision { proof, batch } => format!("Decision {proof:?} {:?}", batch.header()),
        other => format!("{other:?}"),
    };
    format!("{membership:?} {view:?} {rest}")
}
