//! Evidence as bytes. Drawing: docs/formats/evidence.md.

use super::{Evidence, EvidenceKind, SignedAccept, Statement};
use crate::mod_smart::message::{MOD_SMART, put_collect, read_collect};
use bytes::Bytes;
use quorate_auth::{PublicKey, bounded, put_signature, read_signature};
use quorate_types::{ClusterId, Digest, InstanceId, MembershipId, Reject, ReplicaId, Slot, View};
use quorate_wire::{EVIDENCE_MAX, Put, Reader};

const MAGIC: &[u8; 8] = b"QEVIDENC";
const VERSION: u16 = 1;
const CHECKSUM: usize = 8;
const ACCEPT: u8 = 1;
const COLLECT: u8 = 2;

impl EvidenceKind {
    /// Its number in bytes.
    const fn number(self) -> u8 {
        match self {
            Self::TwoAccepts => 1,
            Self::TwoStatements => 2,
            Self::AcceptDenied => 3,
            Self::ImpossibleStatement => 4,
        }
    }
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM] {
    let mut sum = [0; CHECKSUM];
    sum.copy_from_slice(&blake3::hash(bytes).as_bytes()[..CHECKSUM]);
    sum
}

impl Evidence {
    /// Its bytes, as they lie in files.
    pub fn encode(&self) -> Bytes {
        let mut out = MAGIC.to_vec();
        out.put_u16(VERSION);
        out.put_u16(MOD_SMART);
        out.extend_from_slice(&self.cluster.bits().to_le_bytes());
        out.put_u64(self.membership.number());
        out.put_u16(self.instance.number());
        out.put_u16(self.accused.number());
        out.put_u8(self.kind.number());
        out.put_u8(u8::from(self.key.is_some()));
        self.key.iter().for_each(|key| out.extend_from_slice(key.bytes()));
        out.put_u8(self.statements.len() as u8);
        for statement in &self.statements {
            match statement {
                Statement::Accept(SignedAccept { view, slot, digest, signature }) => {
                    out.put_u8(ACCEPT);
                    out.put_u64(view.number());
                    out.put_u64(slot.number());
                    out.extend_from_slice(digest.bytes());
                    put_signature(&mut out, signature);
                }
                Statement::Collect(view, collect) => {
                    out.put_u8(COLLECT);
                    out.put_u64(view.number());
                    put_collect(&mut out, collect);
                }
            }
        }
        Self::sealed(out)
    }

    /// These bytes, with the checksum that belongs to them.
    pub fn sealed(mut content: Vec<u8>) -> Bytes {
        let sum = checksum(&content);
        content.extend_from_slice(&sum);
        content.into()
    }

    /// Reads what [`Self::encode`] wrote, and nothing more. That bytes can be read says nothing of whether they prove anything.
    ///
    /// # Errors
    /// When these are not the bytes of evidence, when they are damaged, or when a later version wrote them.
    pub fn decode(bytes: Bytes) -> Result<Self, Reject> {
        if !bytes.starts_with(MAGIC) {
            return Err(Reject::Malformed("evidence: it does not begin as evidence does"));
        }
        if bytes.len() > EVIDENCE_MAX {
            let (size, max) = (bytes.len() as u64, EVIDENCE_MAX as u64);
            return Err(Reject::TooLarge { what: "evidence", size, max });
        }
        let content = bytes.len().checked_sub(CHECKSUM).ok_or(Reject::Malformed("evidence: too short"))?;
        if checksum(&bytes[..content]) != bytes[content..] {
            return Err(Reject::Malformed("evidence: it is damaged, since its checksum is wrong"));
        }
        let mut r = Reader::new(bytes.slice(MAGIC.len()..content), "evidence");
        if r.u16()? != VERSION || r.u16()? != MOD_SMART {
            return Err(Reject::Malformed(
                "evidence: of a version or protocol that this program does not know",
            ));
        }
        let cluster = ClusterId::new(u128::from_le_bytes(r.array()?));
        let (membership, instance) = (MembershipId::new(r.u64()?), InstanceId::new(r.u16()?));
        let (accused, number) = (ReplicaId::new(r.u16()?), r.u8()?);
        let kind = EvidenceKind::ALL.into_iter().find(|kind| kind.number() == number);
        let kind = kind.ok_or(Reject::Malformed("evidence: kind"))?;
        let key = if r.bool()? { Some(PublicKey::new(r.array()?)?) } else { None };
        let count = bounded(usize::from(r.u8()?), 2, "statements")?;
        if count == 0 {
            return Err(Reject::Malformed("evidence: without a statement"));
        }
        let statements = (0..count).map(|_| read_statement(&mut r)).collect::<Result<_, _>>()?;
        r.end()?;
        Ok(Self { cluster, membership, instance, accused, kind, statements, key })
    }

    /// The name of its file: `r3-two-accepts-i1-v2-s17.proof`.
    pub fn file_name(&self) -> String {
        let (accused, kind, instance) = (self.accused.number(), self.kind.name(), self.instance.number());
        let (view, slot) = (self.last().view().number(), self.last().slot().number());
        format!("r{accused}-{kind}-i{instance}-v{view}-s{slot}.proof")
    }
}

fn read_statement(r: &mut Reader) -> Result<Statement, Reject> {
    let (kind, view) = (r.u8()?, View::new(r.u64()?));
    Ok(match kind {
        ACCEPT => {
            let (slot, digest) = (Slot::new(r.u64()?), Digest::new(r.array()?));
            Statement::Accept(SignedAccept { view, slot, digest, signature: read_signature(r)? })
        }
        COLLECT => Statement::Collect(view, read_collect(r)?),
        _ => return Err(Reject::Malformed("evidence: kind of a statement")),
    })
}
