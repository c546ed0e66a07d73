//! The bodies of the fuzz targets. Decoders return for any bytes. What they accept encodes to bytes that decode to the same message. Stable
//! tests run them over the corpus.

use crate::{
    Attested, Batch, Chain, ClientMessage, EarlyTokens, EraNotice, FaultsRequest, Frame, FrameKind,
    FrameReader, Hello, LetterFrame, MemberRequest, Memberships, Memos, MemosWanted, NeighbourCommand,
    Payload, Refusal, ReplicaMessage, Sight, SignedCommand, StateMessage, Tokens, Welcome, attest_request,
    caught_up_frame, copies_frame, evidence_frame, fill_frame, keys_frame, listen_frame, order_frame,
    read_attest_request, read_caught_up, read_copies, read_evidence, read_fill, read_instances_request,
    read_keys, read_lanes_request, read_listens, read_order, read_room, read_seen, read_upgrade_request,
    room_frame, seen_frame, split_answer, split_asked,
};
use bytes::Bytes;

/// A byte stream cut into frames, and each frame's payload through its decoder.
pub fn stream(data: &[u8]) {
    let mut reader = FrameReader::new(1 << 20);
    for piece in data.chunks(7) {
        reader.push(piece);
        loop {
            match reader.frame() {
                Ok(Some(frame)) => payload(frame),
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}

/// The first byte chooses the kind of frame, the rest is its payload, so that the checksums are bypassed.
pub fn any_payload(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let kind = FrameKind::ALL[*first as usize % FrameKind::ALL.len()];
    payload(Frame { kind, payload: Bytes::copy_from_slice(rest) });
}

/// Takes the bytes for a batch.
pub fn batch(data: &[u8]) {
    if let Ok(batch) = Batch::decode(Bytes::copy_from_slice(data)) {
        assert_eq!(batch.requests().count(), batch.header().count as usize);
    }
}

fn early_tokens(payload: Bytes) {
    if let Ok(tokens) = EarlyTokens::decode(payload) {
        assert_eq!(EarlyTokens::decode(reread(&tokens.frame().to_vec())), Ok(tokens));
    }
}

fn tokens(payload: Bytes) {
    if let Ok(tokens) = Tokens::decode(payload) {
        assert_eq!(Tokens::decode(reread(&tokens.frame().to_vec())), Ok(tokens));
    }
}

fn room(payload: &[u8]) {
    if let Ok(room) = read_room(payload) {
        assert_eq!(read_room(&reread(&room_frame(room).to_vec())), Ok(room));
    }
}

fn caught_up(payload: &[u8]) {
    if let Ok((instance, all)) = read_caught_up(payload) {
        let again = reread(&caught_up_frame(instance, &all).to_vec());
        assert_eq!(read_caught_up(&again), Ok((instance, all)));
    }
}

fn signed(payload: Bytes) {
    if let Ok((signed, reason)) = SignedCommand::decode_with_reason(payload) {
        let again = reread(&signed.frame_because(&reason).to_vec());
        assert_eq!(SignedCommand::decode_with_reason(again), Ok((signed, reason)));
    }
}

fn evidence(payload: Bytes) {
    if let Ok(all) = read_evidence(payload) {
        assert_eq!(read_evidence(reread(&evidence_frame(&all).to_vec())), Ok(all));
    }
}

fn attest(frame: Frame) {
    if frame.kind == FrameKind::Attested {
        if let Ok(attested) = Attested::decode(frame.payload) {
            assert_eq!(Attested::decode(reread(&attested.frame().to_vec())), Ok(attested));
        }
    } else if let Ok((seq, digest)) = read_attest_request(frame.payload) {
        let again = reread(&attest_request(seq, digest).to_vec());
        assert_eq!(read_attest_request(again), Ok((seq, digest)));
    }
}

fn wish(frame: Frame) {
    match frame.kind {
        FrameKind::InstancesRequest => drop(read_instances_request(frame.payload)),
        FrameKind::LanesRequest => drop(read_lanes_request(frame.payload)),
        _ => drop(read_upgrade_request(frame.payload)),
    }
}

fn kept(frame: Frame) {
    match frame.kind {
        FrameKind::SignedCommand => return signed(frame.payload),
        FrameKind::Evidence => return evidence(frame.payload),
        _ => {}
    }
    if let Ok(chain) = Chain::decode(frame.payload) {
        assert_eq!(Chain::decode(reread(&chain.frame().to_vec())), Ok(chain));
    }
}

fn memos(frame: Frame) {
    if frame.kind == FrameKind::Memos {
        if let Ok(memos) = Memos::decode(frame.payload) {
            assert_eq!(Memos::decode(reread(&memos.frame().to_vec())), Ok(memos));
        }
    } else if let Ok(wanted) = MemosWanted::decode(frame.payload) {
        assert_eq!(MemosWanted::decode(reread(&wanted.frame().to_vec())), Ok(wanted));
    }
}

fn payload(frame: Frame) {
    match frame.kind {
        FrameKind::Hello => {
            if let Ok(hello) = Hello::decode(frame.payload) {
                assert_eq!(Hello::decode(reread(&hello.frame().to_vec())), Ok(hello));
            }
        }
        FrameKind::Welcome => {
            if let Ok(welcome) = Welcome::decode(frame.payload) {
                assert_eq!(Welcome::decode(reread(&welcome.frame().to_vec())), Ok(welcome));
            }
        }
        FrameKind::Refusal => drop(Refusal::decode(frame.payload)),
        FrameKind::Order => order(frame.payload),
        FrameKind::State => {
            if let Ok(message) = StateMessage::decode(frame.payload) {
                assert_eq!(StateMessage::decode(reread(&message.frame().to_vec())), Ok(message));
            }
        }
        FrameKind::Fill => {
            if let Ok((slot, instance)) = read_fill(&frame.payload) {
                assert_eq!(read_fill(&reread(&fill_frame(slot, instance).to_vec())), Ok((slot, instance)));
            }
        }
        FrameKind::CaughtUp => caught_up(&frame.payload),
        FrameKind::Sight => {
            if let Ok(sight) = Sight::decode(&frame.payload) {
                assert_eq!(Sight::decode(&reread(&sight.frame().to_vec())), Ok(sight));
            }
        }
        FrameKind::Tokens => tokens(frame.payload),
        FrameKind::EarlyTokens => early_tokens(frame.payload),
        FrameKind::MemosWanted | FrameKind::Memos => memos(frame),
        FrameKind::Room => room(&frame.payload),
        FrameKind::Keys => {
            if let Ok(keys) = read_keys(frame.payload) {
                assert_eq!(read_keys(reread(&keys_frame(&keys).to_vec())), Ok(keys));
            }
        }
        FrameKind::Listen | FrameKind::Letters => letters(frame),
        FrameKind::Copies | FrameKind::Seen | FrameKind::NeighbourRequest => neighbours(frame),
        FrameKind::Requests | FrameKind::Reads | FrameKind::AnswerMode | FrameKind::ChainRequest => {
            drop(ClientMessage::decode(frame))
        }
        FrameKind::Replies | FrameKind::ReadReplies | FrameKind::Leader => {
            drop(ReplicaMessage::decode(frame))
        }
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
        | FrameKind::SignedReply => {}
        FrameKind::Era | FrameKind::FaultsRequest => era(frame),
        FrameKind::SignedCommand | FrameKind::Evidence | FrameKind::Chain => kept(frame),
        FrameKind::AttestRequest | FrameKind::Attested => attest(frame),
        FrameKind::InstancesRequest | FrameKind::LanesRequest | FrameKind::UpgradeRequest => wish(frame),
        FrameKind::Members => drop(Memberships::decode(frame.payload)),
        FrameKind::MemberRequest => drop(MemberRequest::decode(frame.payload)),
    }
}

fn era(frame: Frame) {
    if frame.kind == FrameKind::FaultsRequest {
        if let Ok(request) = FaultsRequest::decode(frame.payload) {
            assert_eq!(FaultsRequest::decode(reread(&request.frame().to_vec())), Ok(request));
        }
    } else if let Ok(notice) = EraNotice::decode(frame.payload) {
        assert_eq!(EraNotice::decode(reread(&notice.frame().to_vec())), Ok(notice));
    }
}

fn neighbours(frame: Frame) {
    match frame.kind {
        FrameKind::Copies => {
            if let Ok(list) = read_copies(frame.payload) {
                list.iter().for_each(|(_, message)| {
                    let _ = (split_asked(message), split_answer(message));
                });
                assert_eq!(read_copies(reread(&copies_frame(&list).to_vec())), Ok(list));
            }
        }
        FrameKind::Seen => {
            if let Ok(next) = read_seen(frame.payload) {
                assert_eq!(read_seen(reread(&seen_frame(next).to_vec())), Ok(next));
            }
        }
        _ => {
            if let Ok(command) = NeighbourCommand::decode(frame.payload) {
                assert_eq!(NeighbourCommand::decode(reread(&command.frame().to_vec())), Ok(command));
            }
        }
    }
}

fn letters(frame: Frame) {
    if frame.kind == FrameKind::Listen {
        if let Ok(sessions) = read_listens(frame.payload) {
            assert_eq!(read_listens(reread(&listen_frame(&sessions).to_vec())), Ok(sessions));
        }
    } else if let Ok(ReplicaMessage::Letters(bytes)) = ReplicaMessage::decode(frame) {
        let mut again = Vec::new();
        LetterFrame::walk(&bytes).flatten().for_each(|letter| letter.write_to(&mut again));
        assert_eq!(again, bytes, "what is read is written alike");
    }
}

/// Only the frame: a protocol's bytes are fuzzed with the protocol (path/3-order).
fn order(payload: Bytes) {
    if let Ok((instance, protocol, bytes)) = read_order(payload) {
        let frame = order_frame(instance, protocol, |_| vec![Payload::from(bytes.clone())]);
        assert_eq!(read_order(reread(&frame.to_vec())), Ok((instance, protocol, bytes)));
    }
}

fn reread(encoded: &[u8]) -> Bytes {
    let mut reader = FrameReader::new(u32::MAX);
    reader.push(encoded);
    reader.frame().expect("what we encode decodes").expect("it is whole").payload
}
