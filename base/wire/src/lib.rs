//! The bytes that are sent: frames, the handshake, the messages between replicas, and those between clients and replicas.
//!
//! docs/formats/wire.md draws the bytes, and fixtures in `tests/fixtures` pin them. Everything is little-endian. Decoders check every
//! length before they use it, allocate nothing that a peer merely announced, and never panic (the fuzz targets call `fuzzing`).

mod administration;
mod answers;
mod attest;
mod batch;
mod caught_up;
mod chain;
mod client;
mod codec;
mod crc;
mod era;
mod evidence;
mod fill;
mod frame;
pub mod fuzzing;
mod handshake;
mod keys;
mod letters;
mod members;
mod membership;
mod memos;
mod neighbours;
mod order;
mod reader;
mod room;
mod ruling;
mod sight;
mod state;
mod verified;

pub use administration::{ADMINISTRATORS_MAX, AdminCommand, Administrators, REASON_BYTES_MAX, SignedCommand};
pub use answers::{AnswerMode, DIGEST_ABOVE, reply_digest};
pub use attest::{AttestAnswer, Attested, attest_request, read_attest_request};
pub use batch::{
    Batch, BatchHeader, REQUEST_HEADER, RequestHeader, RequestKind, RequestProof, RequestSigner, Requests,
    SIGNATURE_BYTES, read_opening, write_opening,
};
pub use caught_up::{caught_up_frame, read_caught_up};
pub use chain::{CHAIN_BYTES_MAX, Chain, LINK_BYTES_MAX, chain_request, read_chain_request};
pub use client::{
    ClientMessage, LeaderNotice, ReadConsistency, ReadReply, ReadRequest, ReadStatus, ReplicaMessage, Reply,
    ReplyStatus, read_forwarded, read_reply_header, reply_header, write_position, write_read_request,
    write_request,
};
pub use codec::{Put, Reader};
pub use era::{ERA_BYTES_MAX, Era, EraFaults, EraNotice, FaultsRequest};
pub use evidence::{EVIDENCE_MAX, evidence_frame, read_evidence};
pub use fill::{fill_frame, read_fill};
pub use frame::{FRAME_HEADER, Frame, FrameHeader, FrameKind, OutFrame, Payload};
pub use handshake::{
    ERAS_LEVEL, FEATURE_LEVEL, FEATURE_LEVEL_MIN, FORMAT_MAX, FORMAT_MIN, Hello, LINKS_MAX, Link, Refusal,
    RefusalReason, Role, SERVICE_LEVELS, Welcome,
};
pub use keys::{KEY_ID_BYTES, RequestTagger, RequestTags, SharedKey, TAG_BYTES, keys_frame, read_keys};
pub use letters::{LETTER_BYTES_MAX, LISTENS_MAX, LetterFrame, Listen, listen_frame, read_listens};
pub use members::{
    Holds, LevelOf, MemberRequest, SystemCommand, instances_request, lanes_request, members_frame,
    read_instances_request, read_lanes_request, read_upgrade_request, upgrade_request,
};
pub use membership::{
    ADDRESS_MAX, MEMBERS_MAX, MEMBERSHIPS_BYTES_MAX, Member, MemberRole, Membership, Memberships,
};
pub use memos::{Memos, MemosWanted, STEPS_MAX, SentMemo};
pub use neighbours::{
    COPIES_MAX, MEMBER_OWN, NEIGHBOUR_SESSIONS_MAX, Neighbour, NeighbourCommand, Relation, copies_frame,
    member_client, member_name, read_copies, read_seen, seen_frame, split_answer, split_asked, split_nested,
    write_answer, write_asked, write_nested,
};
pub use order::{order_frame, read_order};
pub use reader::{FrameReader, Memory};
pub use room::{read_room, room_frame};
pub use ruling::{EarlyTokens, Ruling, TOKENS_MAX, Tokens};
pub use sight::Sight;
pub use state::{CHUNKS_MAX, MANIFEST_MAX, RefusedWhy, StateMessage};
pub use verified::Verified;
