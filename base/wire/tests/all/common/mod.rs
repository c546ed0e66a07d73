//! One sample of every kind of frame and every message, used by the golden fixtures, the properties and the corpus.

use bytes::Bytes;
use quorate_types::{
    AgreedTime, ClientId, ClusterId, Digest, FaultModel, Incarnation, InstanceId, ItemsBuilder, MembershipId,
    Reject, ReplicaId, RequestNumber, Room, Seq, ServiceName, ServiceVersion, SessionId, SessionKey, Slot,
    View,
};
use quorate_wire::{
    AdminCommand, AnswerMode, AttestAnswer, Attested, Batch, BatchHeader, Chain, ClientMessage, EarlyTokens,
    Era, EraFaults, EraNotice, FaultsRequest, Frame, FrameKind, Hello, LeaderNotice, LetterFrame, Link,
    Listen, Member, MemberRequest, MemberRole, Membership, Memberships, Memos, MemosWanted, NeighbourCommand,
    OutFrame, ReadConsistency, ReadReply, ReadRequest, ReadStatus, Refusal, RefusalReason, RefusedWhy,
    ReplicaMessage, Reply, ReplyStatus, RequestHeader, RequestKind, RequestProof, Requests, Role,
    SIGNATURE_BYTES, SentMemo, SharedKey, Sight, SignedCommand, StateMessage, Tokens, Welcome,
    attest_request, caught_up_frame, chain_request, evidence_frame, fill_frame, keys_frame, lanes_request,
    listen_frame, order_frame, read_attest_request, read_caught_up, read_evidence, read_fill,
    read_instances_request, read_lanes_request, read_order, read_reply_header, read_room,
    read_upgrade_request, room_frame, write_opening, write_read_request, write_request,
};
use std::path::PathBuf;

/// A frame whose bytes are pinned.
pub(crate) struct Sample {
    /// Name of the fixture, without `.hex`.
    pub(crate) name: String,
    /// What it is, in a sentence.
    pub(crate) story: &'static str,
    /// The frame.
    pub(crate) frame: OutFrame,
}

/// Where the pinned bytes are.
pub(crate) fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// The corpus of a fuzz target.
pub(crate) fn corpus(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

/// Whether the person who runs the tests approves of bytes that changed.
pub(crate) fn approved() -> bool {
    std::env::var_os("QUORATE_APPROVE").is_some_and(|value| value == "1")
}

const CLUSTER: ClusterId = ClusterId::new(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff);
const LIFE: Incarnation = Incarnation::new(0x1020_3040_5060_7080);

/// A session that is told apart from its number by its bytes.
pub(crate) fn session() -> SessionId {
    SessionId { index: 5, generation: 2 }
}

fn items(strings: &[&str]) -> ItemsBuilder {
    let mut list = ItemsBuilder::new();
    strings.iter().for_each(|s| list.push(s.as_bytes()));
    list
}

/// A request with these commands.
pub(crate) fn request(number: u64, commands: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    let lowest = RequestNumber::new(number.saturating_sub(1));
    write_request(&mut out, session(), RequestNumber::new(number), lowest, &items(commands));
    out
}

pub(crate) fn request_of(kind: RequestKind, session: SessionId, number: u64, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let header = RequestHeader {
        session,
        number: RequestNumber::new(number),
        lowest_unanswered: RequestNumber::FIRST,
        kind,
        len: body.len() as u32,
        proof: RequestProof::None,
    };
    header.write_to(&mut out);
    out.extend_from_slice(body);
    out
}

/// The same request, signed: with bytes that stand for a signature.
pub(crate) fn signed(request: &[u8]) -> Vec<u8> {
    let (header, body, _) = Requests::new(request).next().expect("one").expect("a sound one");
    let mut out = Vec::new();
    RequestHeader { proof: RequestProof::Signature, ..header }.write_to(&mut out);
    out.extend_from_slice(body);
    out.extend((0..SIGNATURE_BYTES).map(|at| at as u8 ^ 0xa0));
    out
}

/// The same request with tags for so many members: with bytes that stand for them.
pub(crate) fn tagged(request: &[u8], members: usize) -> Vec<u8> {
    let (header, body, _) = Requests::new(request).next().expect("one").expect("a sound one");
    let proof = RequestProof::macs(members).expect("so many have tags");
    let mut out = Vec::new();
    RequestHeader { proof, ..header }.write_to(&mut out);
    out.extend_from_slice(body);
    out.extend((0..proof.byte_len()).map(|at| at as u8 ^ 0x70));
    out
}

/// A session is opened with a key.
pub(crate) fn signed_opening() -> Vec<u8> {
    let key = SessionKey::new(std::array::from_fn(|at| at as u8));
    let body = write_opening(ClientId::new(77), Some(key));
    let mut out = request_of(RequestKind::OpenSession, SessionId::NONE, 0xabce, &body);
    out[29] = RequestProof::Signature.number();
    out.extend([7; SIGNATURE_BYTES]);
    out
}

/// A batch with these requests.
pub(crate) fn batch(requests: &[Vec<u8>]) -> Batch {
    let mut bytes = Vec::new();
    Batch::begin(&mut bytes);
    requests.iter().for_each(|request| bytes.extend_from_slice(request));
    let header = BatchHeader {
        time: AgreedTime::from_nanos(1_700_000_000_000_000_000),
        base: None,
        ruling: None,
        seed: 0x5eed,
        count: requests.len() as u32,
        border: false,
    };
    Batch::seal(bytes, header)
}

/// Requests of all kinds that clients could always send, with command lists of equal and of mixed lengths.
pub(crate) fn all_requests() -> Vec<Vec<u8>> {
    vec![
        request_of(RequestKind::OpenSession, SessionId::NONE, 0xabcd, &77u64.to_le_bytes()),
        request(7, &["put a 1", "put b 2"]),
        request(8, &["a", "longer", ""]),
        request(9, &[]),
        request_of(RequestKind::Empty, session(), 10, &[]),
        request_of(RequestKind::CloseSession, session(), 11, &[]),
    ]
}

/// The batches that seed the corpus.
pub(crate) fn batches() -> Vec<(&'static str, Batch)> {
    vec![
        ("empty", batch(&[])),
        ("one_request", batch(&[request(7, &["put a 1"])])),
        ("all_kinds_of_requests", batch(&all_requests())),
        ("between_services", batch(&crate::neighbours::ordered())),
        ("signed_requests", batch(&[signed_opening(), request(7, &["a"]), signed(&request(8, &["b", "c"]))])),
    ]
}

fn handshakes(list: &mut Vec<Sample>) {
    let mut hello = |name: &str, story, to: Option<u16>, cluster, role| {
        let is_peer = matches!(role, Role::Peer { .. });
        let (parameters, life) =
            if is_peer { (0x0102_0304_0506_0708, 0x1112_1314_1516_1718) } else { (0, 0) };
        let hello = Hello::new(cluster, to.map(ReplicaId::new), role).of_member(parameters, life);
        let frame = hello.knowing(MembershipId::new(if is_peer { 7 } else { 0 })).frame();
        list.push(Sample { name: format!("hello_{name}"), story, frame });
    };
    let peer = Role::Peer { replica: ReplicaId::new(2), incarnation: LIFE };
    hello("peer", "Replica r2 dials r1.", Some(1), CLUSTER, peer);
    let again = Hello::new(CLUSTER, Some(ReplicaId::new(1)), peer).of_member(1, 2);
    let frame = again.knowing(MembershipId::new(7)).on_link(Link { number: 3, of: 8 }).frame();
    let client = Role::Client(ClientId::new(77));
    hello("client", "A client that knows no cluster id yet.", None, ClusterId::new(0), client);
    hello("admin", "An operator dials r3.", Some(3), CLUSTER, Role::Admin);
    let story = "Replica r2 dials r1 once more, for the instances of the third lane after its first one.";
    list.push(Sample { name: "hello_peer_again".into(), story, frame });
    let later = Hello::new(CLUSTER, Some(ReplicaId::new(1)), peer).of_member(1, 2).in_era(3);
    let story = "Replica r2, which is in the third era, dials r1.";
    list.push(Sample { name: "hello_peer_era".into(), story, frame: later.frame() });
    let bank = ServiceVersion { name: ServiceName::new("bank").expect("a name"), version: 3 };
    let serves = Hello::new(CLUSTER, Some(ReplicaId::new(1)), peer).of_member(1, 2).of_service(bank);
    let story = "Replica r2 dials r1, with a program that has version 3 of the service bank.";
    list.push(Sample { name: "hello_peer_service".into(), story, frame: serves.frame() });

    let mut welcome = |name: &str, story, leader: Option<u16>| {
        let welcome = Welcome {
            format: 1,
            feature_level: quorate_wire::FEATURE_LEVEL,
            cluster: CLUSTER,
            replica: ReplicaId::new(1),
            incarnation: LIFE,
            view: View::new(9),
            leader: leader.map(ReplicaId::new),
            era: 1,
            service: ServiceVersion::UNNAMED,
        };
        list.push(Sample { name: format!("welcome_{name}"), story, frame: welcome.frame() });
    };
    welcome("with_leader", "r1 takes the connection and knows that r3 leads view 9.", Some(3));
    welcome("without_leader", "r1 takes the connection and knows no leader.", None);
    for reason in [
        RefusalReason::ForeignCluster,
        RefusalReason::Format,
        RefusalReason::UnknownReplica,
        RefusalReason::Incarnation,
        RefusalReason::Doubled,
        RefusalReason::WrongReplica,
        RefusalReason::TooMany,
        RefusalReason::NoHello,
        RefusalReason::Parameters,
        RefusalReason::Service,
    ] {
        let refusal = Refusal { reason, text: "what to do".into() };
        let name = format!("refusal_{}", snake(&format!("{reason:?}")));
        list.push(Sample { name, story: "The connection is not taken.", frame: refusal.frame() });
    }
}

/// The second era of a cluster of four, one of which may lie.
fn an_era() -> Era {
    let member =
        |id: u16| Member { key: Some([id as u8; 32]), life: 0x11, ..Member::voter(ReplicaId::new(id)) };
    let members = Membership::new(MembershipId::FIRST, (1..=4).map(member).collect());
    Era {
        number: 2,
        protocol: 2,
        faults: EraFaults { model: FaultModel::Byzantine, most: Some(1) },
        members: members.expect("a membership"),
        administrators: None,
    }
}

fn eras(list: &mut Vec<Sample>) {
    let welcome = Welcome {
        format: 1,
        feature_level: quorate_wire::FEATURE_LEVEL,
        cluster: CLUSTER,
        replica: ReplicaId::new(1),
        incarnation: LIFE,
        view: View::new(9),
        leader: None,
        era: 2,
        service: ServiceVersion::UNNAMED,
    };
    let bank = ServiceVersion { name: ServiceName::new("bank").expect("a name"), version: 3 };
    let story = "r1, whose program has version 3 of the service bank, takes the connection.";
    let of_bank = Welcome { era: 1, service: bank, ..welcome };
    list.push(Sample { name: "welcome_service".into(), story, frame: of_bank.frame() });
    let story = "r1, which is in the second era, takes the connection.";
    list.push(Sample { name: "welcome_era".into(), story, frame: welcome.frame() });
    let notice = EraNotice { began: Seq::new(70), before: Digest::new([1; 32]), era: an_era() };
    let story = "The sender is in the second era, which began at seq 70.";
    list.push(Sample { name: "era".into(), story, frame: notice.frame() });
    let request = FaultsRequest { protocol: None, faults: an_era().faults };
    let story = "An operator wants the cluster to survive a replica that lies from now on.";
    list.push(Sample { name: "faults_request".into(), story, frame: request.frame() });
    let frame = OutFrame::new(FrameKind::FaultsReply, b"begun 2", vec![]);
    list.push(Sample { name: "faults_reply".into(), story: "The leader ordered the end of the era.", frame });
}

/// `ForeignCluster` as `foreign_cluster`.
fn snake(camel: &str) -> String {
    let mut out = String::new();
    for letter in camel.chars() {
        if letter.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

/// The fifth command of administrators, with two signatures.
fn a_signed_command() -> SignedCommand {
    let mut signed = SignedCommand::new(5, AdminCommand::Raise(2));
    for key in [3, 8] {
        signed.add(SessionKey::new([key; 32]), [key + 1; SIGNATURE_BYTES]).expect("two");
    }
    signed
}

/// Replica 4, so far a learner, takes the place of replica 3.
pub(crate) fn a_change() -> Memberships {
    let member = |replica, role| Member {
        replica: ReplicaId::new(replica),
        role,
        address: format!("r{replica}.example:7400"),
        incarnation: Incarnation::new(0x100 + u64::from(replica)),
        life: 0x11,
        key: None,
    };
    let (voter, learner) = (MemberRole::Voter, MemberRole::Learner);
    let before = [(1, voter), (2, voter), (3, voter), (4, learner)];
    let now = [(1, voter), (2, voter), (4, voter)];
    let of = |number, members: &[(u16, MemberRole)]| {
        let members = members.iter().map(|(id, role)| member(*id, *role)).collect();
        Membership::new(MembershipId::new(number), members).expect("a membership")
    };
    Memberships::change(of(2, &before), of(3, &now)).expect("the next one")
}

/// Every message about the state.
pub(crate) fn state_messages() -> Vec<(&'static str, &'static str, StateMessage)> {
    let (seq, digest) = (Seq::new(4096), Digest::new(std::array::from_fn(|at| at as u8)));
    let refused = |why, chunks| StateMessage::Refused { seq, digest, why, chunks };
    let bytes = Bytes::from_static(b"of 40 bytes");
    vec![
        ("digest", "The state after a border.", StateMessage::Digest { seq, digest, held: false }),
        ("digest_held", "The same, in a durable file.", StateMessage::Digest { seq, digest, held: true }),
        (
            "fetch_manifest",
            "Asks for the manifest from a byte on.",
            StateMessage::FetchManifest { seq, digest, offset: 9 },
        ),
        (
            "manifest",
            "A piece of it.",
            StateMessage::Manifest { seq, digest, offset: 9, total: 40, bytes: bytes.clone() },
        ),
        (
            "fetch_chunks",
            "Asks for three chunks.",
            StateMessage::FetchChunks { seq, digest, chunks: vec![7, 8, 12] },
        ),
        ("chunk", "One of them.", StateMessage::Chunk { seq, digest, chunk: 8, bytes }),
        ("refused_not_held", "No such checkpoint.", refused(RefusedWhy::NotHeld, vec![])),
        ("refused_busy", "Too much to send already.", refused(RefusedWhy::Busy, vec![7, 8])),
        ("refused_rotten", "A chunk is damaged there.", refused(RefusedWhy::Rotten, vec![12])),
        (
            "want_border",
            "A newer checkpoint than this one is needed.",
            StateMessage::WantBorder { seq, digest },
        ),
    ]
}

/// Every status that the first programs knew.
fn replies_of_each_status() -> Vec<u8> {
    let mut replies = Vec::new();
    for number in 1..=9 {
        let status = ReplyStatus::from_number(number).expect("there are nine");
        let mut body = Vec::new();
        match status {
            ReplyStatus::Done => items(&["ok", "ok"]).write_to(&mut body),
            ReplyStatus::ExpectedNumber => body.extend_from_slice(&8u64.to_le_bytes()),
            ReplyStatus::TooLarge => body.extend_from_slice(b"request of 5 MiB"),
            _ => {}
        }
        let number = RequestNumber::new(u64::from(number));
        Reply { session: session(), number, status, body: &body }.write_to(&mut replies);
    }
    replies
}

fn requests(list: &mut Vec<Sample>) {
    let mut add = |name: &str, story, kind, body: &[u8]| {
        let frame = OutFrame::new(kind, body, vec![]);
        list.push(Sample { name: name.into(), story, frame });
    };
    add(
        "requests",
        "Six requests, one of each kind and list.",
        FrameKind::Requests,
        &all_requests().concat(),
    );

    add(
        "requests_query",
        "A query that is to be ordered, and one of no bytes.",
        FrameKind::Requests,
        &[
            request_of(RequestKind::Query, session(), 12, b"get a"),
            request_of(RequestKind::Query, session(), 13, b""),
        ]
        .concat(),
    );

    add(
        "requests_signed",
        "A session is opened with a key; then what is asked in it is signed.",
        FrameKind::Requests,
        &[signed_opening(), signed(&request(1, &["put a 1"]))].concat(),
    );
    let opening = request_of(RequestKind::OpenSession, SessionId::NONE, 0xabcf, &77u64.to_le_bytes());
    add(
        "requests_tagged",
        "A session is opened; then what is asked in it has tags for four members.",
        FrameKind::Requests,
        &[tagged(&opening, 4), tagged(&request(1, &["put a 1"]), 4)].concat(),
    );
    let key = |id: u64| SharedKey { id, secret: std::array::from_fn(|at| at as u8 ^ id as u8) };
    let frame = keys_frame(&[key(0x0102_0304_0506_0708), key(9)]);
    list.push(Sample {
        name: "keys".into(),
        story: "A client's keys for this replica, the one before among them.",
        frame,
    });
}

fn tokens(list: &mut Vec<Sample>) {
    list.push(Sample {
        name: "tokens".into(),
        story: "What the batches 7 and 9 did in the second attempt.",
        frame: Tokens {
            attempt: 1,
            last: Seq::new(6),
            list: [7, 9].map(|seq| (Seq::new(seq), Digest::new([seq as u8; 32]))).to_vec(),
        }
        .frame(),
    });
    list.push(Sample {
        name: "early_tokens".into(),
        story: "What the batch 7 did in the second attempt, which was proposed in view 3.",
        frame: EarlyTokens {
            attempt: 1,
            view: View::new(3),
            list: vec![(Seq::new(7), Digest::new([7; 32]))],
        }
        .frame(),
    });
}

fn memos(list: &mut Vec<Sample>) {
    let seqs = |all: [u64; 3]| all.map(Seq::new);
    let [after, up_to, from] = seqs([6, 9, 7]);
    let wanted = MemosWanted { after, up_to, from };
    list.push(Sample {
        name: "memos_wanted".into(),
        story: "What the batches behind 6 did is wanted, up to 9.",
        frame: wanted.frame(),
    });
    let digest = |byte: u8| Digest::new([byte; 32]);
    list.push(Sample {
        name: "memos".into(),
        story: "The batches 7 and 9 did this, and batch 8 none; batch 9 may do something else when it runs again.",
        frame: Memos {
            wanted,
            steps: vec![(after.next(), digest(7)), (up_to, digest(9))],
            through: up_to,
            list: vec![SentMemo { seq: up_to, before: digest(8), body: Bytes::from_static(b"what") }],
        }
        .frame(),
    });
}

fn clients(list: &mut Vec<Sample>) {
    requests(list);
    let mut add = |name: &str, story, kind, body: &[u8]| {
        let frame = OutFrame::new(kind, body, vec![]);
        list.push(Sample { name: name.into(), story, frame });
    };
    let replies = replies_of_each_status();
    add("replies", "One reply of each status.", FrameKind::Replies, &replies);

    let mut reads = Vec::new();
    for (read, consistency) in [(1, ReadConsistency::Strong), (2, ReadConsistency::Weak)] {
        write_read_request(
            &mut reads,
            &ReadRequest { read, seen: Seq::new(6), consistency, query: b"get a" },
        );
    }
    add("reads", "A strong and a weak read.", FrameKind::Reads, &reads);

    let mut answers = Vec::new();
    let done: &[u8] = b"1";
    for (read, status, body) in
        [(1, ReadStatus::Done, done), (2, ReadStatus::NoLeader, &[]), (3, ReadStatus::Overloaded, &[])]
    {
        read_reply_header(&mut answers, read, Seq::new(7), status, body.len());
        answers.extend_from_slice(body);
    }
    add("read_replies", "One read reply of each status.", FrameKind::ReadReplies, &answers);
    let names = [AnswerMode::Full, AnswerMode::Digests, AnswerMode::Silent];
    for (name, mode) in ["answers_full", "answers_digests", "answers_silent"].into_iter().zip(names) {
        let story = "How a replica is to answer a client.";
        add(name, story, FrameKind::AnswerMode, &mode.frame().to_vec()[16..]);
    }
    let other = SessionId { index: 9, generation: 2 };
    let listens = [Listen { session: session(), after: 0 }, Listen { session: other, after: 9 }];
    let story = "A client listens in two sessions; of one it has nine letters.";
    add("listen", story, FrameKind::Listen, &listen_frame(&listens).to_vec()[16..]);
    let mut letters = vec![];
    LetterFrame { session: session(), number: 1, body: b"news" }.write_to(&mut letters);
    LetterFrame { session: session(), number: 2, body: b"" }.write_to(&mut letters);
    add("letters", "Two letters to one session.", FrameKind::Letters, &letters);
    add("status_request", "An operator asks.", FrameKind::StatusRequest, b"");
    add("status", "The answer is a JSON document.", FrameKind::Status, br#"{"replica":1}"#);
    add("transfer_request", "An operator asks the leader to hand over.", FrameKind::TransferRequest, b"");
    add("transfer_reply", "The answer is a line of text.", FrameKind::TransferReply, b"r1 hands over to r2");
    add("scrub_request", "An operator asks for a scrub.", FrameKind::ScrubRequest, b"");
    add("scrub_reply", "The answer is a line of text.", FrameKind::ScrubReply, b"begun");
    add("signed_reply", "The answer is a line of text.", FrameKind::SignedReply, b"begun 5");
    add("member_reply", "The answer is a line of text.", FrameKind::MemberReply, b"begun m4");
    list.extend(of_members());
    for (name, leader) in [("leader_known", Some(ReplicaId::new(3))), ("leader_unknown", None)] {
        let frame = LeaderNotice { view: View::new(9), leader }.frame();
        list.push(Sample { name: name.into(), story: "Who leads view 9.", frame });
    }
}

fn of_members() -> impl Iterator<Item = Sample> {
    let replace = MemberRequest::Replace { old: ReplicaId::new(3), new: ReplicaId::new(4) };
    let add_one = MemberRequest::Add {
        replica: ReplicaId::new(4),
        address: "r4.example:7400".into(),
        incarnation: Incarnation::new(0x104),
        key: None,
    };
    let frames = [
        ("members", "Who the members are.", quorate_wire::members_frame(&a_change())),
        ("member_request_add", "A replica is to join.", add_one.frame()),
        ("member_request_replace", "One takes the place of another.", replace.frame()),
        ("signed_command", "Two administrators raise the level.", a_signed_command().frame()),
        (
            "signed_command_because",
            "The same, from an operator who says why.",
            a_signed_command().frame_because("all members run the new program"),
        ),
    ];
    frames.into_iter().map(|(name, story, frame)| Sample { name: name.into(), story, frame })
}

/// Every sample; their names are unique.
pub(crate) fn samples() -> Vec<Sample> {
    let mut list = Vec::new();
    handshakes(&mut list);
    eras(&mut list);
    list.extend(crate::neighbours::samples());
    list.push(Sample {
        name: "order".into(),
        story: "What protocol 1 says in instance 1, with a batch.",
        frame: order_frame(InstanceId::new(1), 1, |head| {
            head.extend_from_slice(b"head");
            vec![batch(&[request(7, &["put a 1"])]).payload()]
        }),
    });
    for (name, story, message) in state_messages() {
        list.push(Sample { name: format!("state_{name}"), story, frame: message.frame() });
    }
    let rooms = [("room_full", Room::Full), ("room_frees", Room::Frees), ("room_data", Room::Data)];
    list.extend(rooms.map(|(name, room)| Sample {
        name: name.into(),
        story: "What there is room for on the sender's disk.",
        frame: room_frame(room),
    }));
    list.push(Sample {
        name: "fill".into(),
        story: "Everything up to slot 7 of instance 2 is to be decided.",
        frame: fill_frame(Slot::new(7), InstanceId::new(2)),
    });
    let mut sight = Sight::default();
    [1, 2, 9, 256].map(InstanceId::new).iter().for_each(|instance| sight.add(*instance));
    list.push(Sample {
        name: "sight".into(),
        story: "The leaders of the instances 1, 2, 9 and 256 are heard.",
        frame: sight.frame(),
    });
    tokens(&mut list);
    memos(&mut list);
    list.push(Sample {
        name: "caught_up".into(),
        story: "In instance 2 the replicas 3 and 5 have caught up.",
        frame: caught_up_frame(InstanceId::new(2), &[ReplicaId::new(3), ReplicaId::new(5)]),
    });
    clients(&mut list);
    let (level, count) = (2u32.to_le_bytes(), 4u16.to_le_bytes());
    for (name, story, kind, body) in [
        ("upgrade_reply", "The answer is a line of text.", FrameKind::UpgradeReply, &b"begun 2"[..]),
        ("upgrade_request", "An operator asks for a level.", FrameKind::UpgradeRequest, &level),
        ("instances_reply", "The answer is a line of text.", FrameKind::InstancesReply, &b"begun 4"[..]),
        ("instances_request", "An operator asks for 4 instances.", FrameKind::InstancesRequest, &count),
        ("lanes_reply", "The answer is a line of text.", FrameKind::LanesReply, &b"begun"[..]),
        ("evidence_request", "An operator asks for evidence.", FrameKind::EvidenceRequest, &[]),
    ] {
        list.push(Sample { name: name.into(), story, frame: OutFrame::new(kind, body, vec![]) });
    }
    list.push(Sample {
        name: "lanes_request".into(),
        story: "An operator wants instance 2 on lane 3, and instance 4 on lane 1.",
        frame: lanes_request(&[(InstanceId::new(2), 3), (InstanceId::new(4), 1)]),
    });
    list.extend(kept());
    list
}

fn attested(name: &str, story: &'static str, answer: AttestAnswer) -> Sample {
    let attested = Attested { seq: Seq::new(90), digest: Digest::new([7; 32]), answer };
    Sample { name: name.into(), story, frame: attested.frame() }
}

/// What replicas keep and show.
fn kept() -> Vec<Sample> {
    vec![
        Sample {
            name: "evidence".into(),
            story: "A replica keeps two pieces of evidence.",
            frame: evidence_frame(&["first".into(), "second".into()]),
        },
        Sample {
            name: "chain_request".into(),
            story: "A client that knows membership 3 asks for the links after it.",
            frame: chain_request(MembershipId::new(3)),
        },
        Sample {
            name: "chain".into(),
            story: "A replica that has membership 5 shows two links.",
            frame: Chain::of(MembershipId::new(5), ["fourth".into(), "fifth".into()]).frame(),
        },
        Sample {
            name: "attest_request".into(),
            story: "An operator asks for a signature under the digest of the checkpoint of seq 90.",
            frame: attest_request(Seq::new(90), Digest::new([7; 32])),
        },
        attested(
            "attested_signed",
            "A replica signs it, in membership 2.",
            AttestAnswer::Signed { membership: MembershipId::new(2), signature: "signature".into() },
        ),
        attested(
            "attested_refused",
            "A replica does not sign it.",
            AttestAnswer::Refused("nothing is agreed there".into()),
        ),
    ]
}

/// Decodes a payload and says what is in it, one line per thing.
pub(crate) fn describe(frame: Frame) -> Result<Vec<String>, Reject> {
    let kind = frame.kind;
    Ok(match kind {
        FrameKind::Hello => vec![format!("{:?}", Hello::decode(frame.payload)?)],
        FrameKind::Welcome => vec![format!("{:?}", Welcome::decode(frame.payload)?)],
        FrameKind::Refusal => vec![format!("{:?}", Refusal::decode(frame.payload)?)],
        FrameKind::Order => {
            let (instance, protocol, bytes) = read_order(frame.payload)?;
            vec![format!("{instance} protocol {protocol} {} bytes", bytes.len())]
        }
        FrameKind::State => vec![format!("{:?}", StateMessage::decode(frame.payload)?)],
        FrameKind::Requests
        | FrameKind::Reads
        | FrameKind::Keys
        | FrameKind::AnswerMode
        | FrameKind::ChainRequest
        | FrameKind::Copies
        | FrameKind::Seen
        | FrameKind::Listen => client_lines(frame)?,
        FrameKind::Replies
        | FrameKind::ReadReplies
        | FrameKind::Leader
        | FrameKind::Letters
        | FrameKind::Chain => replica_lines(frame)?,
        FrameKind::Fill => vec![format!("{:?}", read_fill(&frame.payload)?)],
        FrameKind::Room => vec![format!("{:?}", read_room(&frame.payload)?)],
        FrameKind::StatusRequest
        | FrameKind::Status
        | FrameKind::TransferRequest
        | FrameKind::TransferReply
        | FrameKind::ScrubRequest
        | FrameKind::ScrubReply
        | FrameKind::MemberReply
        | FrameKind::UpgradeReply
        | FrameKind::InstancesReply
        | FrameKind::EvidenceRequest
        | FrameKind::LanesReply
        | FrameKind::FaultsReply
        | FrameKind::NeighbourReply
        | FrameKind::SignedReply => {
            vec![text(&frame.payload)]
        }
        FrameKind::Evidence => read_evidence(frame.payload)?.iter().map(|piece| text(piece)).collect(),
        FrameKind::CaughtUp => vec![format!("{:?}", read_caught_up(&frame.payload)?)],
        FrameKind::AttestRequest | FrameKind::Attested => vec![attest_line(frame)?],
        FrameKind::Sight => vec![sight_line(&frame)?],
        FrameKind::Tokens | FrameKind::EarlyTokens => describe_tokens(frame)?,
        FrameKind::MemosWanted => vec![format!("{:?}", MemosWanted::decode(frame.payload)?)],
        FrameKind::Memos => {
            let Memos { wanted, steps, through, list } = Memos::decode(frame.payload)?;
            vec![format!("{wanted:?} through {through}"), format!("{steps:?}"), format!("{list:?}")]
        }
        FrameKind::InstancesRequest => {
            vec![format!("{} instances", read_instances_request(frame.payload)?)]
        }
        FrameKind::LanesRequest => {
            let wish = read_lanes_request(frame.payload)?;
            wish.iter().map(|(id, lane)| format!("instance {} on lane {lane}", id.number())).collect()
        }
        FrameKind::UpgradeRequest => vec![format!("level {:?}", read_upgrade_request(frame.payload)?)],
        FrameKind::Members
        | FrameKind::MemberRequest
        | FrameKind::Era
        | FrameKind::FaultsRequest
        | FrameKind::NeighbourRequest
        | FrameKind::SignedCommand => change_lines(frame)?,
    })
}

/// The instances whose leaders a replica hears.
fn sight_line(frame: &Frame) -> Result<String, Reject> {
    let sight = Sight::decode(&frame.payload)?;
    let heard = (1..=256).filter(|instance| sight.has(InstanceId::new(*instance)));
    Ok(format!("{:?}", heard.collect::<Vec<_>>()))
}

/// Members, eras, and who asks for others.
fn change_lines(frame: Frame) -> Result<Vec<String>, Reject> {
    Ok(match frame.kind {
        FrameKind::Members => vec![format!("{:?}", Memberships::decode(frame.payload)?)],
        FrameKind::MemberRequest => vec![format!("{:?}", MemberRequest::decode(frame.payload)?)],
        FrameKind::Era => vec![format!("{:?}", EraNotice::decode(frame.payload)?)],
        FrameKind::FaultsRequest => vec![format!("{:?}", FaultsRequest::decode(frame.payload)?)],
        FrameKind::NeighbourRequest => vec![format!("{:?}", NeighbourCommand::decode(frame.payload)?)],
        _ => {
            let (signed, reason) = SignedCommand::decode_with_reason(frame.payload)?;
            let reason = (!reason.is_empty()).then(|| format!("reason: {reason}"));
            [format!("{signed:?}")].into_iter().chain(reason).collect()
        }
    })
}

/// Who asks for a signature, and the answer.
fn attest_line(frame: Frame) -> Result<String, Reject> {
    Ok(match frame.kind {
        FrameKind::Attested => format!("{:?}", Attested::decode(frame.payload)?),
        _ => format!("{:?}", read_attest_request(frame.payload)?),
    })
}

/// What a client says to a replica.
fn client_lines(frame: Frame) -> Result<Vec<String>, Reject> {
    Ok(match ClientMessage::decode(frame)? {
        ClientMessage::Requests(bytes) => Requests::new(&bytes)
            .map(|r| r.map(|(h, body, _)| format!("{h:?} {}", text(body))))
            .collect::<Result<_, _>>()?,
        ClientMessage::Reads(bytes) => {
            ReadRequest::walk(&bytes).map(|r| r.map(|r| format!("{r:?}"))).collect::<Result<_, _>>()?
        }
        ClientMessage::Keys(keys) => {
            keys.iter().map(|key| format!("{key:?} {}", text(&key.secret))).collect()
        }
        ClientMessage::AnswerMode(mode) => vec![format!("{mode:?}")],
        ClientMessage::Chain(after) => vec![format!("after {after}")],
        ClientMessage::Listen(sessions) => sessions.iter().map(|listen| format!("{listen:?}")).collect(),
        ClientMessage::Seen(next) => vec![format!("done before {next}")],
        ClientMessage::Copies(list) => {
            list.iter().map(|(position, message)| format!("{position} {}", text(message))).collect()
        }
    })
}

/// What a replica says to a client.
fn replica_lines(frame: Frame) -> Result<Vec<String>, Reject> {
    Ok(match ReplicaMessage::decode(frame)? {
        ReplicaMessage::Members(members) => vec![format!("{members:?}")],
        ReplicaMessage::Era(notice) => vec![format!("{notice:?}")],
        ReplicaMessage::Chain(chain) => {
            let links = chain.links.iter().map(|link| text(link));
            std::iter::once(format!("membership {}", chain.now)).chain(links).collect()
        }
        ReplicaMessage::Replies(bytes) => Reply::walk(&bytes)
            .map(|r| r.map(|r| format!("{:?} {:?} {:?} {}", r.session, r.number, r.status, text(r.body))))
            .collect::<Result<_, _>>()?,
        ReplicaMessage::ReadReplies(bytes) => ReadReply::walk(&bytes)
            .map(|r| r.map(|r| format!("read {} {:?} {:?} {}", r.read, r.seq, r.status, text(r.body))))
            .collect::<Result<_, _>>()?,
        ReplicaMessage::Leader(notice) => vec![format!("{notice:?}")],
        ReplicaMessage::Letters(bytes) => LetterFrame::walk(&bytes)
            .map(|letter| letter.map(|l| format!("{:?} letter {} {}", l.session, l.number, text(l.body))))
            .collect::<Result<_, _>>()?,
    })
}

fn text(bytes: &[u8]) -> String {
    format!("b\"{}\"", bytes.escape_ascii())
}

/// What a reader with this limit makes of bytes that arrive at once.
pub(crate) fn read_whole(bytes: &[u8], limit: u32) -> Result<Option<Frame>, Reject> {
    let mut reader = quorate_wire::FrameReader::new(limit);
    reader.push(bytes);
    reader.frame()
}

fn describe_tokens(frame: Frame) -> Result<Vec<String>, Reject> {
    let (of, list) = if frame.kind == FrameKind::Tokens {
        let Tokens { attempt, last, list } = Tokens::decode(frame.payload)?;
        (format!("attempt {attempt}, final up to {last}"), list)
    } else {
        let EarlyTokens { attempt, view, list } = EarlyTokens::decode(frame.payload)?;
        (format!("attempt {attempt}, proposed in view {view}"), list)
    };
    let tokens = list.iter().map(|(seq, token)| format!("{seq}: {token}"));
    Ok([of].into_iter().chain(tokens).collect())
}
