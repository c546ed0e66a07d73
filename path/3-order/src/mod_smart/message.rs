//! Mod-SMaRt's messages, named as in the papers (Sousa and Bessani, "From Byzantine Consensus to BFT State Machine
//! Replication", EDCC 2012; Bessani, Sousa and Alchieri, DSN 2014).
//!
//! A message says in which membership and in which view its sender is. WRITE and ACCEPT carry digests; batches travel in PROPOSE, SYNC,
//! STOP-DATA and DECISION. Three things must convince replicas that did not receive them from their author, and are signed: ACCEPT, STOP,
//! and the COLLECT inside STOP-DATA. `statements` says what exactly is signed.
//!
//! Decoders bound every list by [`MEMBERS_MAX`] or [`WRITES_MAX`] before they make room for it, and lists of members name
//! each at most once, in the order of their ids.

use crate::ledger::{Proof, put_optional_proof, put_proof, read_optional_proof, read_proof};
use crate::visigoth::{put_ids, read_ids};
use crate::{Message, OrderMessage};
use bytes::Bytes;
use quorate_auth::{Signature, Signed, bounded, put_signature, put_signed, read_signature, read_signed};
use quorate_types::{Digest, MembershipId, Reject, ReplicaId, Slot, View};
use quorate_wire::{Batch, MEMBERS_MAX, Payload, Put, Reader};

/// The number of Mod-SMaRt on the wire.
pub const MOD_SMART: u16 = 2;

/// The most values in a [`Collect`] that its sender wrote.
pub const WRITES_MAX: usize = 16;
/// A question asks for at most this many decisions.
pub const FETCH_MAX: u16 = 64;

/// Why a replica asks for another view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Complaint {
    /// Nothing came from the leader for too long.
    Silence,
    /// This request, by the digest of its bytes, is not decided in time.
    Request(Digest),
    /// This slot is not decided in time.
    Slot(Slot),
    /// The leader is slower than the group could be, as measured here.
    Rate,
    /// The leader led as many slots as it may in a row.
    Rotation,
    /// No reason of its own: enough others complain, and one of them is right.
    Joined,
    /// No reason of its own: the sender leads and wants to be replaced.
    Leaves,
}

/// What a member knows when it enters a view: the last slot that it decided, and what it did in the one after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collect {
    /// The member.
    pub from: ReplicaId,
    /// The last slot that it decided. The other fields are about the next slot.
    pub decided: Slot,
    /// The value that it locked last, with the view in which it locked it.
    pub lock: Option<(View, Digest)>,
    /// The values that it wrote, each once, with the highest view in which it wrote it.
    pub writes: Vec<(View, Digest)>,
    /// The member's signature over all this and the view that is entered.
    pub signature: Signature,
}

/// A message of Mod-SMaRt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModSmartMessage {
    /// The membership in which its sender is.
    pub membership: MembershipId,
    /// The view in which its sender is.
    pub view: View,
    /// The contents of the message.
    pub body: ModSmartBody,
}

/// What a message of Mod-SMaRt says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModSmartBody {
    /// The leader proposes a batch.
    Propose {
        /// The slot.
        slot: Slot,
        /// The batch.
        batch: Batch,
    },
    /// The sender took the leader's proposal.
    Write {
        /// The slot.
        slot: Slot,
        /// The digest of the batch.
        digest: Digest,
    },
    /// The sender knows that a quorum wrote this value.
    Accept {
        /// The slot.
        slot: Slot,
        /// The digest of the batch.
        digest: Digest,
        /// The sender's signature over slot, digest and view.
        signature: Signature,
    },
    /// The sender wants a higher view.
    Stop {
        /// The view that it wants.
        asked: View,
        /// Why it wants another view.
        why: Complaint,
        /// The last slot that it decided, so that replicas which decided more can help.
        decided: Slot,
        /// The sender's signature over the view that it asks for.
        signature: Signature,
    },
    /// A quorum asked for the sender's view.
    Certificate {
        /// The STOPs of that quorum.
        stops: Signed,
    },
    /// To the leader of the sender's view: what the sender knows.
    StopData {
        /// The sender's statement.
        collect: Collect,
        /// The proof that the last slot of the statement is decided.
        last: Option<Proof>,
        /// The batches of the values in the statement, in any order.
        batches: Vec<Batch>,
    },
    /// The leader begins its view and shows what binds it.
    Sync {
        /// The STOPs of a quorum that asked for the view.
        stops: Signed,
        /// The members' statements, by id.
        collects: Vec<Collect>,
        /// The proof that the last slot before the view's first one is decided.
        last: Option<Proof>,
        /// The batch that the first slot is bound to, if it is.
        value: Option<Batch>,
    },
    /// Asks for decided slots.
    Fetch {
        /// The first one.
        slot: Slot,
        /// The most slots that are wanted.
        count: u16,
    },
    /// A decided slot.
    Decision {
        /// The proof that the slot is decided.
        proof: Proof,
        /// Its batch.
        batch: Batch,
    },
    /// The answer to [`Self::Fetch`] when the sender has the slots only in a checkpoint.
    Gone {
        /// The last slot of the checkpoint.
        slot: Slot,
        /// The proof that this slot is decided, if the sender has it.
        proof: Option<Proof>,
    },
    /// The leader's heartbeat.
    Alive {
        /// The last slot that it decided.
        decided: Slot,
        /// The number of the heartbeat. The answer repeats it, which confirms reads.
        round: u64,
    },
    /// The answer to [`Self::Alive`].
    AliveReply {
        /// The last slot that the sender decided.
        decided: Slot,
        /// The number in the heartbeat.
        round: u64,
    },
    /// Asks the leader for the slot up to which a strong read must wait; only where no replica lies.
    Read {
        /// The sender's number for its waiting reads.
        read: u64,
    },
    /// The leader says which small sets of members are quorums of its view; only where few members are slow.
    Granted {
        /// The members of each, by id.
        sets: Vec<Vec<ReplicaId>>,
        /// The last slot that said which members count in small quorums; 0 where an oracle grants them.
        since: Slot,
    },
    /// The leader asks whom the receiver misses; only where few members are slow, and some may lie.
    Ask {
        /// The number of the question.
        tag: u64,
    },
    /// Asks for a sign of life.
    Probe {
        /// The number of the leader's question.
        tag: u64,
    },
    /// The sign of life.
    Probed {
        /// The number in [`Self::Probe`].
        tag: u64,
    },
    /// The answer to [`Self::Ask`].
    Misses {
        /// The number of the question.
        tag: u64,
        /// The members that gave no sign of life, by id.
        ids: Vec<ReplicaId>,
        /// The sender's signature over the view, the tag, and these.
        signature: Signature,
    },
    /// The sender asks the leader that it counts in small quorums again; only where no oracle grants them.
    Back {
        /// What the log is to name.
        tag: u64,
    },
    /// The answer to [`Self::Read`].
    ReadReply {
        /// The number in the question.
        read: u64,
        /// The slot; none when the sender does not lead.
        slot: Option<Slot>,
    },
}

const PROPOSE: u8 = 1;
const WRITE: u8 = 2;
const ACCEPT: u8 = 3;
const STOP: u8 = 4;
const CERTIFICATE: u8 = 5;
const STOP_DATA: u8 = 6;
const SYNC: u8 = 7;
const FETCH: u8 = 8;
const DECISION: u8 = 9;
const GONE: u8 = 10;
const ALIVE: u8 = 11;
const ALIVE_REPLY: u8 = 12;
const READ: u8 = 13;
const READ_REPLY: u8 = 14;
const GRANTED: u8 = 15;
const ASK: u8 = 16;
const PROBE: u8 = 17;
const PROBED: u8 = 18;
const MISSES: u8 = 19;
const BACK: u8 = 20;
/// The most small quorums in a message.
pub const SETS_MAX: usize = 512;

impl ModSmartMessage {
    /// Reads a message. Batches in it share these bytes and are checked request by request.
    ///
    /// # Errors
    /// When the bytes are not a message.
    pub fn decode(bytes: Bytes) -> Result<Self, Reject> {
        let mut r = Reader::new(bytes, "ordering message");
        let kind = r.u8()?;
        let (membership, view) = (MembershipId::new(r.u64()?), View::new(r.u64()?));
        let body = match kind {
            PROPOSE => {
                let (slot, len) = (Slot::new(r.u64()?), r.u32()?);
                ModSmartBody::Propose { slot, batch: read_batch(&mut r, len)? }
            }
            WRITE => ModSmartBody::Write { slot: Slot::new(r.u64()?), digest: read_digest(&mut r)? },
            ACCEPT => {
                let (slot, digest) = (Slot::new(r.u64()?), read_digest(&mut r)?);
                ModSmartBody::Accept { slot, digest, signature: read_signature(&mut r)? }
            }
            STOP => {
                let (asked, why) = (View::new(r.u64()?), read_complaint(&mut r)?);
                let decided = Slot::new(r.u64()?);
                ModSmartBody::Stop { asked, why, decided, signature: read_signature(&mut r)? }
            }
            CERTIFICATE => ModSmartBody::Certificate { stops: read_signed(&mut r)? },
            STOP_DATA => read_stop_data(&mut r)?,
            SYNC => read_sync(&mut r)?,
            DECISION => {
                let (proof, len) = (read_proof(&mut r)?, r.u32()?);
                ModSmartBody::Decision { proof, batch: read_batch(&mut r, len)? }
            }
            _ => ModSmartBody::read_small(kind, &mut r)?,
        };
        r.end()?;
        Ok(Self { membership, view, body })
    }
}

impl Message for ModSmartMessage {
    fn protocol(&self) -> u16 {
        MOD_SMART
    }

    fn brings(&self) -> Vec<&Batch> {
        match &self.body {
            ModSmartBody::Propose { batch, .. } | ModSmartBody::Decision { batch, .. } => vec![batch],
            ModSmartBody::Sync { value, .. } => value.iter().collect(),
            _ => Vec::new(),
        }
    }

    fn copy(&self) -> OrderMessage {
        OrderMessage::of(self.clone())
    }

    fn equals(&self, other: &OrderMessage) -> bool {
        other.get() == Some(self)
    }

    fn encode(&self, out: &mut Vec<u8>) -> Vec<Payload> {
        out.put_u8(self.body.kind());
        out.put_u64(self.membership.number());
        out.put_u64(self.view.number());
        let mut payloads = Vec::new();
        match &self.body {
            ModSmartBody::Propose { slot, batch } => {
                out.put_u64(slot.number());
                put_batch(out, batch, &mut payloads);
            }
            ModSmartBody::Write { slot, digest } => {
                out.put_u64(slot.number());
                out.extend_from_slice(digest.bytes());
            }
            ModSmartBody::Accept { slot, digest, signature } => {
                out.put_u64(slot.number());
                out.extend_from_slice(digest.bytes());
                put_signature(out, signature);
            }
            ModSmartBody::Stop { asked, why, decided, signature } => {
                out.put_u64(asked.number());
                put_complaint(out, *why);
                out.put_u64(decided.number());
                put_signature(out, signature);
            }
            ModSmartBody::Certificate { stops } => put_signed(out, stops),
            ModSmartBody::StopData { collect, last, batches } => {
                assert!(batches.len() <= WRITES_MAX + 1, "a statement names few values");
                put_collect(out, collect);
                put_optional_proof(out, last.as_ref());
                out.put_u8(batches.len() as u8);
                batches.iter().for_each(|batch| put_batch(out, batch, &mut payloads));
            }
            ModSmartBody::Sync { stops, collects, last, value } => {
                assert!(collects.len() <= MEMBERS_MAX, "a member says what it knows once");
                put_signed(out, stops);
                out.put_u8(collects.len() as u8);
                collects.iter().for_each(|collect| put_collect(out, collect));
                put_optional_proof(out, last.as_ref());
                out.put_u8(u8::from(value.is_some()));
                value.iter().for_each(|batch| put_batch(out, batch, &mut payloads));
            }
            ModSmartBody::Decision { proof, batch } => {
                put_proof(out, proof);
                put_batch(out, batch, &mut payloads);
            }
            small => small.put_small(out),
        }
        payloads
    }
}

impl ModSmartBody {
    const fn kind(&self) -> u8 {
        match self {
            Self::Propose { .. } => PROPOSE,
            Self::Write { .. } => WRITE,
            Self::Accept { .. } => ACCEPT,
            Self::Stop { .. } => STOP,
            Self::Certificate { .. } => CERTIFICATE,
            Self::StopData { .. } => STOP_DATA,
            Self::Sync { .. } => SYNC,
            Self::Fetch { .. } => FETCH,
            Self::Decision { .. } => DECISION,
            Self::Gone { .. } => GONE,
            Self::Alive { .. } => ALIVE,
            Self::AliveReply { .. } => ALIVE_REPLY,
            Self::Read { .. } => READ,
            Self::ReadReply { .. } => READ_REPLY,
            Self::Granted { .. } => GRANTED,
            Self::Ask { .. } => ASK,
            Self::Probe { .. } => PROBE,
            Self::Probed { .. } => PROBED,
            Self::Misses { .. } => MISSES,
            Self::Back { .. } => BACK,
        }
    }

    fn put_small(&self, out: &mut Vec<u8>) {
        match self {
            Self::Fetch { slot, count } => {
                out.put_u64(slot.number());
                out.put_u16(*count);
            }
            Self::Gone { slot, proof } => {
                out.put_u64(slot.number());
                put_optional_proof(out, proof.as_ref());
            }
            Self::Alive { decided, round } | Self::AliveReply { decided, round } => {
                out.put_u64(decided.number());
                out.put_u64(*round);
            }
            Self::Read { read } => out.put_u64(*read),
            Self::Granted { sets, since } => {
                out.put_u16(sets.len() as u16);
                sets.iter().for_each(|set| put_ids(out, set));
                out.put_u64(since.number());
            }
            Self::Ask { tag } | Self::Probe { tag } | Self::Probed { tag } | Self::Back { tag } => {
                out.put_u64(*tag);
            }
            Self::Misses { tag, ids, signature } => {
                out.put_u64(*tag);
                put_ids(out, ids);
                put_signature(out, signature);
            }
            Self::ReadReply { read, slot } => {
                out.put_u64(*read);
                out.put_u8(u8::from(slot.is_some()));
                out.put_u64(slot.map_or(0, Slot::number));
            }
            _ => {}
        }
    }

    fn read_small(kind: u8, r: &mut Reader) -> Result<Self, Reject> {
        Ok(match kind {
            FETCH => {
                let (slot, count) = (Slot::new(r.u64()?), r.u16()?);
                if !(1..=FETCH_MAX).contains(&count) {
                    let (size, max) = (u64::from(count), u64::from(FETCH_MAX));
                    return Err(Reject::TooLarge { what: "slots asked for", size, max });
                }
                Self::Fetch { slot, count }
            }
            GONE => Self::Gone { slot: Slot::new(r.u64()?), proof: read_optional_proof(r)? },
            ALIVE => Self::Alive { decided: Slot::new(r.u64()?), round: r.u64()? },
            ALIVE_REPLY => Self::AliveReply { decided: Slot::new(r.u64()?), round: r.u64()? },
            READ => Self::Read { read: r.u64()? },
            GRANTED => {
                let count = bounded(usize::from(r.u16()?), SETS_MAX, "small quorums")?;
                let sets = (0..count).map(|_| read_ids(r)).collect::<Result<_, _>>()?;
                Self::Granted { sets, since: Slot::new(r.u64()?) }
            }
            ASK => Self::Ask { tag: r.u64()? },
            PROBE => Self::Probe { tag: r.u64()? },
            PROBED => Self::Probed { tag: r.u64()? },
            BACK => Self::Back { tag: r.u64()? },
            MISSES => Self::Misses { tag: r.u64()?, ids: read_ids(r)?, signature: read_signature(r)? },
            READ_REPLY => {
                let (read, known, slot) = (r.u64()?, r.bool()?, Slot::new(r.u64()?));
                Self::ReadReply { read, slot: known.then_some(slot) }
            }
            _ => return Err(Reject::Malformed("mod-smart message: kind")),
        })
    }
}

fn read_stop_data(r: &mut Reader) -> Result<ModSmartBody, Reject> {
    let (collect, last) = (read_collect(r)?, read_optional_proof(r)?);
    let count = bounded(usize::from(r.u8()?), WRITES_MAX + 1, "batches")?;
    let lens = (0..count).map(|_| r.u32()).collect::<Result<Vec<_>, _>>()?;
    let batches = lens.into_iter().map(|len| read_batch(r, len)).collect::<Result<_, _>>()?;
    Ok(ModSmartBody::StopData { collect, last, batches })
}

fn read_sync(r: &mut Reader) -> Result<ModSmartBody, Reject> {
    let stops = read_signed(r)?;
    let count = bounded(usize::from(r.u8()?), MEMBERS_MAX, "collects")?;
    let collects = (0..count).map(|_| read_collect(r)).collect::<Result<Vec<_>, _>>()?;
    if !collects.is_sorted_by(|one, next| one.from < next.from) {
        return Err(Reject::Malformed("collects: order"));
    }
    let last = read_optional_proof(r)?;
    let value = if r.bool()? {
        let len = r.u32()?;
        Some(read_batch(r, len)?)
    } else {
        None
    };
    Ok(ModSmartBody::Sync { stops, collects, last, value })
}

fn put_batch(out: &mut Vec<u8>, batch: &Batch, payloads: &mut Vec<Payload>) {
    out.put_u32(batch.bytes().len() as u32);
    payloads.push(batch.payload());
}

fn read_batch(r: &mut Reader, len: u32) -> Result<Batch, Reject> {
    Batch::decode(r.bytes(len as usize)?)
}

fn read_digest(r: &mut Reader) -> Result<Digest, Reject> {
    Ok(Digest::new(r.array()?))
}

fn put_value(out: &mut Vec<u8>, (view, digest): &(View, Digest)) {
    out.put_u64(view.number());
    out.extend_from_slice(digest.bytes());
}

fn read_value(r: &mut Reader) -> Result<(View, Digest), Reject> {
    Ok((View::new(r.u64()?), read_digest(r)?))
}

pub(super) fn put_collect(out: &mut Vec<u8>, collect: &Collect) {
    assert!(collect.writes.len() <= WRITES_MAX, "a statement names few values");
    out.put_u16(collect.from.number());
    out.put_u64(collect.decided.number());
    out.put_u8(u8::from(collect.lock.is_some()));
    collect.lock.iter().for_each(|value| put_value(out, value));
    out.put_u8(collect.writes.len() as u8);
    collect.writes.iter().for_each(|value| put_value(out, value));
    put_signature(out, &collect.signature);
}

pub(super) fn read_collect(r: &mut Reader) -> Result<Collect, Reject> {
    let (from, decided) = (ReplicaId::new(r.u16()?), Slot::new(r.u64()?));
    let lock = if r.bool()? { Some(read_value(r)?) } else { None };
    let count = bounded(usize::from(r.u8()?), WRITES_MAX, "values written")?;
    let writes = (0..count).map(|_| read_value(r)).collect::<Result<Vec<_>, _>>()?;
    Ok(Collect { from, decided, lock, writes, signature: read_signature(r)? })
}

fn put_complaint(out: &mut Vec<u8>, why: Complaint) {
    match why {
        Complaint::Silence => out.put_u8(1),
        Complaint::Request(digest) => {
            out.put_u8(2);
            out.extend_from_slice(digest.bytes());
        }
        Complaint::Slot(slot) => {
            out.put_u8(3);
            out.put_u64(slot.number());
        }
        Complaint::Joined => out.put_u8(4),
        Complaint::Leaves => out.put_u8(5),
        Complaint::Rate => out.put_u8(6),
        Complaint::Rotation => out.put_u8(7),
    }
}

fn read_complaint(r: &mut Reader) -> Result<Complaint, Reject> {
    Ok(match r.u8()? {
        1 => Complaint::Silence,
        2 => Complaint::Request(read_digest(r)?),
        3 => Complaint::Slot(Slot::new(r.u64()?)),
        4 => Complaint::Joined,
        5 => Complaint::Leaves,
        6 => Complaint::Rate,
        7 => Complaint::Rotation,
        _ => return Err(Reject::Malformed("complaint")),
    })
}
