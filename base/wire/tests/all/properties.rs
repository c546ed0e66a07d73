//! Properties of the codecs over random messages: what is encoded decodes to the same, damage is found, nothing that a
//! peer sends panics, and nothing is allocated because a peer announced it.

use crate::common::{batch, read_whole, request, samples, signed, signed_opening, tagged};
use bytes::Bytes;
use proptest::prelude::*;
use quorate_types::{
    ClientId, ClusterId, Digest, Incarnation, MembershipId, Reject, ReplicaId, RequestNumber, Seq,
    ServiceName, ServiceVersion, SessionId, View,
};
use quorate_wire::{
    AttestAnswer, Attested, Batch, CHUNKS_MAX, ClientMessage, Frame, FrameKind, FrameReader, Hello,
    KEY_ID_BYTES, LETTER_BYTES_MAX, LINKS_MAX, LISTENS_MAX, LetterFrame, Link, Listen, MANIFEST_MAX,
    OutFrame, REQUEST_HEADER, ReadConsistency, ReadReply, ReadRequest, ReadStatus, Refusal, RefusalReason,
    RefusedWhy, Reply, ReplyStatus, RequestHeader, RequestKind, RequestProof, Requests, Role,
    SIGNATURE_BYTES, SharedKey, StateMessage, TAG_BYTES, Welcome, attest_request, fuzzing, keys_frame,
    listen_frame, read_attest_request, read_keys, read_listens, read_opening, read_reply_header,
    write_opening, write_read_request,
};

const LIMIT: u32 = 1 << 20;

fn replica() -> impl Strategy<Value = ReplicaId> {
    (1..=u16::MAX).prop_map(ReplicaId::new)
}

fn a_batch() -> impl Strategy<Value = Batch> {
    let command = "[a-z]{0,12}";
    let requests =
        prop::collection::vec((any::<u64>(), prop::collection::vec(command, 0..4), any::<u8>()), 0..4);
    requests.prop_map(|requests| {
        let requests: Vec<Vec<u8>> = requests
            .iter()
            .map(|(number, commands, proof)| {
                let plain = request(*number, &commands.iter().map(String::as_str).collect::<Vec<_>>());
                match proof % 3 {
                    0 => plain,
                    1 => signed(&plain),
                    _ => tagged(&plain, 4 + usize::from(*proof) % 61),
                }
            })
            .collect();
        batch(&requests)
    })
}

fn refused() -> impl Strategy<Value = RefusedWhy> {
    prop_oneof![Just(RefusedWhy::NotHeld), Just(RefusedWhy::Busy), Just(RefusedWhy::Rotten)]
}

fn state() -> impl Strategy<Value = StateMessage> {
    let about = || (any::<u64>().prop_map(Seq::new), any::<[u8; 32]>().prop_map(Digest::new));
    let chunks = || prop::collection::vec(any::<u32>(), 0..20);
    let bytes = || any::<Vec<u8>>().prop_map(Bytes::from);
    prop_oneof![
        (about(), any::<bool>()).prop_map(|((seq, digest), held)| StateMessage::Digest { seq, digest, held }),
        (about(), any::<u64>()).prop_map(|((seq, digest), offset)| StateMessage::FetchManifest {
            seq,
            digest,
            offset
        }),
        (about(), 0u64..1 << 20, any::<u16>(), bytes()).prop_map(|((seq, digest), offset, after, bytes)| {
            let after = if bytes.is_empty() { 0 } else { u64::from(after) };
            StateMessage::Manifest { seq, digest, offset, total: offset + bytes.len() as u64 + after, bytes }
        }),
        (about(), chunks()).prop_map(|((seq, digest), chunks)| StateMessage::FetchChunks {
            seq,
            digest,
            chunks
        }),
        (about(), any::<u32>(), bytes()).prop_map(|((seq, digest), chunk, bytes)| StateMessage::Chunk {
            seq,
            digest,
            chunk,
            bytes
        }),
        (about(), refused(), chunks()).prop_map(|((seq, digest), why, chunks)| StateMessage::Refused {
            seq,
            digest,
            why,
            chunks
        }),
        about().prop_map(|(seq, digest)| StateMessage::WantBorder { seq, digest }),
    ]
}

/// The first connection of a member, or a further one.
fn link() -> impl Strategy<Value = Link> {
    let further = (2..=LINKS_MAX).prop_flat_map(|of| (1..of).prop_map(move |number| Link { number, of }));
    prop_oneof![Just(Link::FIRST), further]
}

fn role() -> impl Strategy<Value = Role> {
    prop_oneof![
        (replica(), any::<u64>())
            .prop_map(|(replica, life)| Role::Peer { replica, incarnation: Incarnation::new(life) }),
        any::<u64>().prop_map(|id| Role::Client(ClientId::new(id))),
        Just(Role::Admin),
    ]
}

fn service() -> impl Strategy<Value = ServiceVersion> {
    let name = "[a-zA-Z0-9_-]{0,64}".prop_map(|text| ServiceName::new(&text).expect("a name"));
    (name, 1..=u32::MAX).prop_map(|(name, version)| ServiceVersion { name, version })
}

fn payload_of(frame: &OutFrame) -> Bytes {
    read_whole(&frame.to_vec(), LIMIT).expect("what we encode is intact").expect("and whole").payload
}

fn session(number: u64) -> SessionId {
    SessionId::from_number(number)
}

proptest! {
    #[test]
    fn state_messages_survive_the_wire(message in state()) {
        prop_assert_eq!(StateMessage::decode(payload_of(&message.frame())), Ok(message));
    }

    #[test]
    fn hellos_survive_the_wire(
        formats in any::<(u16, u16)>(), feature_level in any::<u32>(), cluster in any::<u128>(),
        to in prop::option::of(replica()), role in role(), link in link(), own in any::<u64>(), service in service(),
    ) {
        let own = ClientId::new(if matches!(role, Role::Client(_)) { own } else { 0 });
        let link = if matches!(role, Role::Peer { .. }) { link } else { Link::FIRST };
        let (format_min, format_max) = formats;
        let cluster = ClusterId::new(cluster);
        let parameters = u64::from(feature_level) << 7;
        let hello = Hello { format_min, format_max, feature_level, cluster, to, role, parameters, life: parameters ^ 1, membership: MembershipId::new(parameters ^ 2), own, link, era: 1 + (parameters & 3) * u64::from(matches!(role, Role::Peer { .. })), service };
        prop_assert_eq!(Hello::decode(payload_of(&hello.frame())), Ok(hello));
    }

    #[test]
    fn welcomes_survive_the_wire(
        format in 0..0x4000_u16, service in service(), feature_level in any::<u32>(), cluster in any::<u128>(), replica in replica(),
        life in any::<u64>(), view in any::<u64>(), leader in prop::option::of(replica()), era in 1..5_u64,
    ) {
        let (cluster, incarnation) = (ClusterId::new(cluster), Incarnation::new(life));
        let view = View::new(view);
        let welcome = Welcome { format, feature_level, cluster, replica, incarnation, view, leader, era, service };
        prop_assert_eq!(Welcome::decode(payload_of(&welcome.frame())), Ok(welcome));
    }

    #[test]
    fn attestations_survive_the_wire(
        seq in any::<u64>(), digest in any::<[u8; 32]>(), membership in any::<u64>(), of in 0..=64usize, text in "\\PC{0,600}",
    ) {
        let (seq, digest) = (Seq::new(seq), Digest::new(digest));
        prop_assert_eq!(read_attest_request(payload_of(&attest_request(seq, digest))), Ok((seq, digest)));
        let signature = vec![7; of].into();
        let signed = AttestAnswer::Signed { membership: MembershipId::new(membership), signature };
        let signed = Attested { seq, digest, answer: signed };
        let payload = payload_of(&signed.frame());
        prop_assert!((0..payload.len()).all(|end| Attested::decode(payload.slice(..end)).is_err()));
        prop_assert_eq!(Attested::decode(payload), Ok(signed));
        let refused = Attested { seq, digest, answer: AttestAnswer::Refused(text.clone()) };
        let read = Attested::decode(payload_of(&refused.frame())).expect("a refusal");
        let AttestAnswer::Refused(read) = read.answer else { panic!("it was refused") };
        prop_assert!(text.starts_with(&read) && (read == text || read.len() > 500));
    }

    /// Whatever the text, also one that is cut in the middle of a letter, the other side reads the reason.
    #[test]
    fn refusals_survive_the_wire(text in "\\PC{0,600}") {
        let refusal = Refusal { reason: RefusalReason::Format, text };
        let read = Refusal::decode(payload_of(&refusal.frame())).expect("a refusal");
        prop_assert_eq!(read.reason, refusal.reason);
        if refusal.text.len() <= 1024 {
            prop_assert_eq!(read.text, refusal.text);
        }
    }

    #[test]
    fn batches_survive_the_wire(batch in a_batch()) {
        prop_assert_eq!(Batch::decode(batch.bytes().clone()), Ok(batch.clone()));
        let whole: Vec<u8> = batch.requests().flat_map(|r| r.expect("checked").2.to_vec()).collect();
        prop_assert_eq!(&whole[..], &batch.bytes()[Batch::HEADER..]);
    }

    #[test]
    fn replies_survive_the_wire(
        list in prop::collection::vec((any::<u64>(), any::<u64>(), 1u8..=9, any::<Vec<u8>>()), 0..6)
    ) {
        let replies: Vec<Reply<'_>> = list.iter().map(|(owner, number, status, body)| Reply {
            session: session(*owner),
            number: RequestNumber::new(*number),
            status: ReplyStatus::from_number(*status).expect("1 to 9"),
            body,
        }).collect();
        let mut bytes = Vec::new();
        replies.iter().for_each(|reply| reply.write_to(&mut bytes));
        prop_assert_eq!(Reply::walk(&bytes).collect::<Result<Vec<_>, _>>(), Ok(replies));
    }

    #[test]
    fn reads_and_their_replies_survive_the_wire(
        list in prop::collection::vec((any::<u64>(), any::<u64>(), any::<bool>(), any::<Vec<u8>>()), 0..6)
    ) {
        let (mut asked, mut answered) = (Vec::new(), Vec::new());
        let (mut reads, mut replies) = (Vec::new(), Vec::new());
        for (read, seq, flag, body) in &list {
            let (read, seq) = (*read, Seq::new(*seq));
            let consistency = if *flag { ReadConsistency::Strong } else { ReadConsistency::Weak };
            let status = if *flag { ReadStatus::Done } else { ReadStatus::Overloaded };
            let request = ReadRequest { read, seen: seq, consistency, query: body };
            write_read_request(&mut asked, &request);
            reads.push(request);
            read_reply_header(&mut answered, read, seq, status, body.len());
            answered.extend_from_slice(body);
            replies.push(ReadReply { read, seq, status, body });
        }
        prop_assert_eq!(ReadRequest::walk(&asked).collect::<Result<Vec<_>, _>>(), Ok(reads));
        prop_assert_eq!(ReadReply::walk(&answered).collect::<Result<Vec<_>, _>>(), Ok(replies));
    }

    #[test]
    fn letters_and_who_listens_survive_the_wire(
        letters in prop::collection::vec((1u64.., 1u64.., prop::collection::vec(any::<u8>(), 0..30)), 0..8),
        listens in prop::collection::vec((1u64.., any::<u64>()), 0..40),
    ) {
        let letters: Vec<LetterFrame<'_>> = letters
            .iter()
            .map(|(id, number, body)| LetterFrame { session: session(*id), number: *number, body })
            .collect();
        let mut sent = vec![];
        letters.iter().for_each(|letter| letter.write_to(&mut sent));
        prop_assert_eq!(LetterFrame::walk(&sent).collect::<Result<Vec<_>, _>>(), Ok(letters));
        let listens: Vec<Listen> =
            listens.into_iter().map(|(id, after)| Listen { session: session(id), after }).collect();
        prop_assert_eq!(read_listens(payload_of(&listen_frame(&listens))), Ok(listens));
    }

    /// However the network cuts the stream, the same frames come out.
    #[test]
    fn frames_do_not_depend_on_how_the_stream_is_cut(
        picks in prop::collection::vec(any::<prop::sample::Index>(), 1..8),
        cuts in prop::collection::vec(1usize..40, 1..64),
    ) {
        let samples = samples();
        let sent: Vec<&OutFrame> = picks.iter().map(|pick| &pick.get(&samples).frame).collect();
        let mut stream: &[u8] = &sent.iter().flat_map(|frame| frame.to_vec()).collect::<Vec<u8>>();
        let (mut reader, mut got, mut cuts) = (FrameReader::new(LIMIT), Vec::new(), cuts.iter().cycle());
        while !stream.is_empty() {
            let (piece, rest) = stream.split_at((*cuts.next().expect("endless")).min(stream.len()));
            reader.push(piece);
            stream = rest;
            while let Some(frame) = reader.frame().expect("intact") {
                got.push(frame);
            }
        }
        let want: Vec<Frame> =
            sent.iter().map(|f| Frame { kind: f.kind(), payload: payload_of(f) }).collect();
        prop_assert_eq!(got, want);
        prop_assert_eq!(reader.pending(), 0);
    }

    /// crc32c finds up to three flipped bits in any frame of ours: whatever was damaged, no frame comes out.
    #[test]
    fn flipped_bits_are_found(
        pick in any::<prop::sample::Index>(),
        flips in prop::collection::vec(any::<prop::sample::Index>(), 1..=3),
    ) {
        let samples = samples();
        let intact = pick.get(&samples).frame.to_vec();
        let mut bytes = intact.clone();
        for flip in &flips {
            let bit = flip.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        // Two flips may hit the same bit and undo each other.
        prop_assume!(bytes != intact);
        prop_assert!(read_whole(&bytes, LIMIT).is_err());
    }

    /// The start of a frame is no frame, and no error either: the rest may still come.
    #[test]
    fn a_cut_frame_waits_for_its_rest(pick in any::<prop::sample::Index>(), cut in any::<prop::sample::Index>()) {
        let samples = samples();
        let bytes = pick.get(&samples).frame.to_vec();
        prop_assert_eq!(read_whole(&bytes[..cut.index(bytes.len())], LIMIT), Ok(None));
    }

    /// Payloads whose checksums are right and whose content is cut off or damaged: decoders refuse or accept, and what
    /// they accept encodes to the same again (`fuzzing` asserts it).
    #[test]
    fn damaged_payloads_never_panic(
        pick in any::<prop::sample::Index>(), cut in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let samples = samples();
        let frame = &pick.get(&samples).frame;
        let kind = FrameKind::ALL.iter().position(|kind| *kind == frame.kind()).expect("a kind");
        let mut bytes = vec![kind as u8];
        let payload = payload_of(frame);
        bytes.extend_from_slice(&payload[..cut.index(payload.len() + 1)]);
        for (at, byte) in &damage {
            let at = at.index(bytes.len());
            bytes[at] = if at == 0 { bytes[0] } else { *byte };
        }
        fuzzing::any_payload(&bytes);
        fuzzing::batch(&bytes[1..]);
    }

    #[test]
    fn noise_never_panics(bytes in any::<Vec<u8>>()) {
        fuzzing::stream(&bytes);
        fuzzing::any_payload(&bytes);
        fuzzing::batch(&bytes);
    }
}

/// Every strict prefix of every message is refused: no length is taken on trust, and nothing is optional at the end.
/// (Lists of requests, replies and reads may end after any whole item, texts anywhere.)
#[test]
fn a_message_that_is_cut_off_is_refused() {
    for sample in samples() {
        let payload = payload_of(&sample.frame);
        for end in 0..payload.len() {
            let cut = payload.slice(..end);
            let refused = match sample.frame.kind() {
                FrameKind::Hello => Hello::decode(cut).is_err(),
                FrameKind::Welcome => Welcome::decode(cut).is_err(),
                FrameKind::Leader => {
                    let frame = Frame { kind: FrameKind::Leader, payload: cut };
                    quorate_wire::ReplicaMessage::decode(frame).is_err()
                }
                _ => continue,
            };
            assert!(refused, "{} cut after {end} bytes", sample.name);
        }
    }
}

/// A frame header as a peer would make it: its checksum is right.
/// Letters and sessions that no replica and no client sends.
#[test]
fn letters_without_a_session_or_a_number_are_refused() {
    let letter = |session: u64, number: u64, body: &[u8]| {
        let mut sent = vec![];
        LetterFrame { session: SessionId::from_number(session), number, body }.write_to(&mut sent);
        LetterFrame::walk(&sent).all(|letter| letter.is_ok())
    };
    assert!(letter(1, 1, b"x") && letter(1, 1, &vec![0; LETTER_BYTES_MAX]));
    assert!(!letter(0, 1, b"x") && !letter(1, 0, b"x") && !letter(1, 1, &vec![0; LETTER_BYTES_MAX + 1]));
    let listens = |count: usize| {
        let one = [1u64.to_le_bytes(), 0u64.to_le_bytes()].concat();
        read_listens(one.repeat(count).into()).map(|sessions| sessions.len())
    };
    assert_eq!((listens(0), listens(LISTENS_MAX)), (Ok(0), Ok(LISTENS_MAX)));
    assert!(listens(LISTENS_MAX + 1).is_err());
    assert!(read_listens(vec![0; 16].into()).is_err(), "no session");
    assert!(read_listens(vec![1; 15].into()).is_err(), "a byte is missing");
}

fn header(len: u32, kind: u32) -> Vec<u8> {
    let mut bytes = [len.to_le_bytes(), kind.to_le_bytes(), [0; 4]].concat();
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// A peer announces 4 GiB: refused from the header alone, and no room was made.
#[test]
fn a_frame_over_the_limit_is_refused_before_room_is_made_for_it() {
    for len in [LIMIT + 1, u32::MAX] {
        let mut reader = FrameReader::new(LIMIT);
        reader.push(&header(len, 16));
        let refused = Reject::TooLarge { what: "frame", size: u64::from(len), max: u64::from(LIMIT) };
        assert_eq!(reader.frame(), Err(refused));
        assert!(reader.space(64).len() < 4096, "room was made for what a peer announced");
    }
}

/// The largest frame that is accepted is waited for, and room for it grows with what arrives of it.
#[test]
fn a_frame_at_the_limit_is_waited_for() {
    const GROWTH: usize = 256 << 10;
    let limit = 8u32 << 20;
    let mut reader = FrameReader::new(limit);
    reader.push(&header(limit, 16));
    let mut arrived = 0;
    while arrived < limit as usize {
        assert_eq!(reader.frame(), Ok(None));
        let room = reader.space(64).len();
        assert!(room <= arrived.max(GROWTH), "room for {room} after {arrived}");
        let piece = room.min(limit as usize - arrived);
        reader.push(&vec![0; piece]);
        arrived += piece;
    }
    assert!(reader.frame().is_err_and(|why| why == Reject::Malformed("frame payload checksum")));
}

#[test]
fn unknown_kinds_and_reserved_bits_are_refused() {
    for kind in [0, 4, 15, 28, 0xffff, 1 << 16 | 16] {
        assert!(read_whole(&header(0, kind), LIMIT).is_err(), "kind {kind:#x}");
    }
    assert!(matches!(read_whole(&header(0, 48), LIMIT), Ok(Some(_))));
}

/// A stranger's limit holds for the first frame, another from then on.
#[test]
fn the_limit_can_be_raised_after_the_handshake() {
    let hello = samples().remove(0).frame.to_vec();
    let mut reader = FrameReader::new(128);
    reader.push(&hello);
    assert!(matches!(reader.frame(), Ok(Some(_))));
    reader.set_limit(LIMIT);
    reader.push(&header(LIMIT, 16));
    assert_eq!(reader.frame(), Ok(None));
}

/// A request that announces a longer body than the frame has, up to the largest length.
#[test]
fn announced_bodies_are_compared_with_what_is_there() {
    let intact = request(7, &["put a 1"]);
    for len in [intact.len() as u32, u32::MAX] {
        let mut bytes = intact.clone();
        bytes[24..28].copy_from_slice(&len.to_le_bytes());
        let walked: Vec<_> = Requests::new(&bytes).collect();
        assert_eq!(walked, [Err(Reject::Malformed("request: cut off"))], "an error ends the walk");
    }
}

/// A signature that is cut off, a proof of no known kind, a key without a signature or the other way round: refused, wherever it ends.
#[test]
fn proofs_are_compared_with_what_is_there() {
    let walk =
        |bytes: &[u8]| Requests::new(bytes).map(|request| request.map(drop)).collect::<Result<Vec<_>, _>>();
    let plain = request(7, &["put a 1"]);
    for intact in [signed(&plain), signed_opening(), tagged(&plain, 4), tagged(&plain, 64)] {
        assert!(walk(&intact).is_ok());
        for len in 1..intact.len() {
            assert_eq!(walk(&intact[..len]), Err(Reject::Malformed("request: cut off")), "{len} bytes");
        }
        for proof in (2..20).chain(81..=u8::MAX) {
            let mut bytes = intact.clone();
            bytes[29] = proof;
            assert_eq!(walk(&bytes), Err(Reject::Malformed("request: proof")));
        }
        let mut bytes = intact.clone();
        bytes[24..28].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(walk(&bytes), Err(Reject::Malformed("request: cut off")));
    }
    let (header, body, _) =
        Requests::new(&signed_opening()).next().unwrap().map(|(h, b, _)| (h, b.to_vec(), ())).unwrap();
    for (proof, len, fits) in [
        (RequestProof::None, 8, true),
        (RequestProof::None, 40, false),
        (RequestProof::Signature, 8, false),
        (RequestProof::Signature, 39, false),
        (RequestProof::Signature, 40, true),
        (RequestProof::Macs { members: 4 }, 8, true),
        (RequestProof::Macs { members: 4 }, 40, false),
    ] {
        let mut bytes = Vec::new();
        RequestHeader { proof, len, ..header }.write_to(&mut bytes);
        bytes.extend_from_slice(&body[..len as usize]);
        bytes.extend(std::iter::repeat_n(7, proof.byte_len()));
        assert_eq!(walk(&bytes).is_ok(), fits, "{proof:?} of {len} bytes");
    }
}

/// A request says for how many members it has tags, and a number that is no cluster's is none.
#[test]
fn tags_are_counted() {
    for members in 0..=300 {
        let proof = RequestProof::macs(members);
        assert_eq!(proof.is_some(), (4..=64).contains(&members), "{members}");
        let Some(proof) = proof else { continue };
        assert_eq!(proof.byte_len(), KEY_ID_BYTES + members * TAG_BYTES);
        assert_eq!(RequestProof::from_number(proof.number()), Some(proof));
    }
    let known: Vec<u8> =
        (0..=u8::MAX).filter(|number| RequestProof::from_number(*number).is_some()).collect();
    assert_eq!(known, [0, 1].into_iter().chain(20..=80).collect::<Vec<u8>>());
}

/// Keys come as they were sent: one to four, whole, and never shown.
#[test]
fn keys_come_whole() {
    let key = |id: u64| SharedKey { id, secret: [id as u8 ^ 0x5a; 32] };
    for count in 0..=5 {
        let keys: Vec<SharedKey> = (0..count).map(key).collect();
        let payload = payload_of(&keys_frame(&keys));
        assert_eq!(
            read_keys(payload.clone()).ok(),
            Some(keys).filter(|_| (1..=4).contains(&count)),
            "{count}"
        );
        for len in (0..payload.len()).filter(|len| len % 40 != 0) {
            assert!(read_keys(payload.slice(..len)).is_err(), "{len} bytes");
        }
    }
    assert_eq!(format!("{:?}", key(7)), "SharedKey(0000000000000007)");
}

/// What is signed is the header and the body; and who opens a session, with which key, is read as it was written.
#[test]
fn requests_come_apart_as_they_were_put_together() {
    let plain = request(7, &["put a 1"]);
    let whole = signed(&plain);
    let (header, body, all) = Requests::new(&whole).next().unwrap().unwrap();
    let (about, signature) = header.split(all);
    assert_eq!((about.len(), signature.len()), (plain.len(), SIGNATURE_BYTES));
    assert!(about.ends_with(body) && about[..REQUEST_HEADER] == header.bytes());
    let opening = signed_opening();
    let (_, body, _) = Requests::new(&opening).next().unwrap().unwrap();
    let (client, key) = read_opening(body);
    assert_eq!(write_opening(client, key), body);
    assert_eq!((client, key.map(|key| key.bytes()[31])), (ClientId::new(77), Some(31)));
    assert_eq!(read_opening(&write_opening(client, None)), (client, None));
}

#[test]
fn a_batch_that_counts_wrong_is_refused() {
    let intact = batch(&[request(7, &["a"]), request(8, &["b"])]).bytes().to_vec();
    for (at, byte) in [(16, 1), (16, 3), (19, 1), (20, 2), (21, 1)] {
        let mut bytes = intact.clone();
        bytes[at] = byte;
        assert!(Batch::decode(bytes.into()).is_err(), "byte {at} = {byte}");
    }
    assert!(Batch::decode(Bytes::from_static(&[0; 23])).is_err());
}

/// A list of a billion empty commands takes eight bytes; it must not become a billion steps on every replica.
#[test]
fn empty_commands_can_not_multiply() {
    for (count, fits) in [(3u32, true), (8, true), (9, false), (u32::MAX, false)] {
        let mut bytes = Vec::new();
        let len = 8;
        let (number, kind) = (RequestNumber::FIRST, RequestKind::Commands);
        let session = SessionId { index: 1, generation: 1 };
        RequestHeader { session, number, lowest_unanswered: number, kind, len, proof: RequestProof::None }
            .write_to(&mut bytes);
        bytes.extend_from_slice(&[count.to_le_bytes(), [0; 4]].concat());
        let frame = Frame { kind: FrameKind::Requests, payload: Bytes::from(bytes) };
        assert_eq!(ClientMessage::decode(frame).is_ok(), fits, "{count} commands of no bytes");
    }
}

/// Pieces of a manifest lie inside it and make progress; a manifest over the limit is refused before there is room for it.
#[test]
fn pieces_of_a_manifest_are_measured() {
    let decode = |offset, total, bytes: &'static [u8]| {
        let (seq, digest) = (Seq::new(1), Digest::new([7; 32]));
        let bytes = Bytes::from_static(bytes);
        StateMessage::decode(payload_of(
            &StateMessage::Manifest { seq, digest, offset, total, bytes }.frame(),
        ))
    };
    assert!(decode(0, 3, b"abc").is_ok());
    assert!(decode(3, 3, b"").is_ok(), "nothing is left at the end");
    assert!(decode(1, 3, b"abc").is_err(), "beyond the end");
    assert!(decode(1, 3, b"").is_err(), "no progress");
    assert!(decode(u64::MAX, 3, b"abc").is_err(), "overflow");
    assert!(decode(0, MANIFEST_MAX, b"abc").is_ok());
    assert!(matches!(decode(0, MANIFEST_MAX + 1, b"abc"), Err(Reject::TooLarge { .. })));
}

/// Chunks that a message announces and does not have, or too many of them, are refused.
#[test]
fn announced_chunks_are_counted_before_room_is_made() {
    let chunks = (0..CHUNKS_MAX as u32).collect();
    let fetch = StateMessage::FetchChunks { seq: Seq::new(1), digest: Digest::new([7; 32]), chunks };
    let whole = payload_of(&fetch.frame());
    assert_eq!(StateMessage::decode(whole.clone()), Ok(fetch));
    let at = whole.len() - 4 * CHUNKS_MAX - 4;
    for count in [0, CHUNKS_MAX as u32 - 1, CHUNKS_MAX as u32 + 1, u32::MAX] {
        let mut bytes = whole.to_vec();
        bytes[at..at + 4].copy_from_slice(&count.to_le_bytes());
        assert!(StateMessage::decode(bytes.clone().into()).is_err(), "{count} chunks");
        bytes.extend_from_slice(&[0; 4]);
        assert!(StateMessage::decode(bytes.into()).is_err(), "{count} chunks, and one more than at first");
    }
}

/// However bytes that lie elsewhere are cut, and whatever memory is provided for them, the same frames come out.
#[test]
fn parts_of_a_stream_give_the_frames_of_the_whole() {
    let frames: Vec<Vec<u8>> = [0, 1, 4_095, 70_000, 300_000]
        .map(|len| OutFrame::new(FrameKind::Order, &vec![len as u8; len], vec![]).to_vec())
        .to_vec();
    let stream = frames.concat();
    for (piece, chunk) in [(16_384, 1), (16_384, 262_144), (1_000, 4_096), (stream.len(), 65_536)] {
        let mut reader = FrameReader::new(1 << 20);
        let mut found = Vec::new();
        for part in stream.chunks(piece) {
            reader.push_part(part, chunk);
            while let Some(frame) = reader.frame().expect("the stream is sound") {
                found.push(OutFrame::new(frame.kind, &frame.payload, vec![]).to_vec());
            }
        }
        assert!(found == frames, "pieces of {piece}, chunks of {chunk}");
        assert_eq!(reader.pending(), 0);
    }
}

/// The beginning of a frame keeps the block in which it came, together with frames before it.
#[test]
fn what_a_begun_frame_keeps_is_counted() {
    let mut reader = FrameReader::new(1 << 20);
    let mut bytes = OutFrame::new(FrameKind::Requests, &vec![7; 70_000], vec![]).to_vec();
    bytes.push(0);
    let space = reader.space(256 << 10);
    let room = space.len();
    space[..bytes.len()].copy_from_slice(&bytes);
    reader.filled(bytes.len());
    drop(reader.frame().expect("the stream is sound").expect("it is there"));
    assert_eq!(reader.frame(), Ok(None));
    assert_eq!(reader.pending(), 1);
    reader.relax();
    assert!(reader.held() >= room, "it holds {room} bytes and says {}", reader.held());
}
