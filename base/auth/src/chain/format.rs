//! Membership links as bytes. Drawing: docs/formats/chain.md.

use super::{MembershipLink, NUMBER_MAX};
use crate::{put_signed, read_signed};
use bytes::Bytes;
use quorate_types::{ClusterId, InstanceId, MembershipId, Reject, Slot, View};
use quorate_wire::{Batch, LINK_BYTES_MAX, Put, Reader};

const MAGIC: &[u8; 8] = b"QMEMLINK";
const VERSION: u16 = 1;
const CHECKSUM: usize = 8;

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM] {
    let mut sum = [0; CHECKSUM];
    sum.copy_from_slice(&blake3::hash(bytes).as_bytes()[..CHECKSUM]);
    sum
}

impl MembershipLink {
    /// Its bytes, as they are sent and as they lie in files; at most [`LINK_BYTES_MAX`].
    pub fn encode(&self) -> Bytes {
        let batch = self.batch();
        let mut out = MAGIC.to_vec();
        out.put_u16(VERSION);
        out.extend_from_slice(&self.cluster.bits().to_le_bytes());
        out.put_u16(self.instance.number());
        out.put_u64(self.number().number());
        out.put_u64(self.view.number());
        out.put_u64(self.slot.number());
        out.put_u32(batch.bytes().len() as u32);
        out.extend_from_slice(batch.bytes());
        put_signed(&mut out, &self.accepts);
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
    /// When these are not the bytes of a link, when they are damaged, or when a later version wrote them.
    pub fn decode(bytes: &Bytes) -> Result<Self, Reject> {
        if !bytes.starts_with(MAGIC) {
            return Err(Reject::Malformed("membership link: it does not begin as one does"));
        }
        if bytes.len() > LINK_BYTES_MAX {
            let (size, max) = (bytes.len() as u64, LINK_BYTES_MAX as u64);
            return Err(Reject::TooLarge { what: "membership link", size, max });
        }
        let content = bytes.len().saturating_sub(CHECKSUM).max(MAGIC.len());
        if checksum(&bytes[..content]) != bytes[content..] {
            return Err(Reject::Malformed("membership link: it is damaged, since its checksum is wrong"));
        }
        let mut r = Reader::new(bytes.slice(MAGIC.len()..content), "membership link");
        if r.u16()? != VERSION {
            return Err(Reject::Malformed("membership link: of a version that this program does not know"));
        }
        let (cluster, instance) = (ClusterId::new(r.u128()?), InstanceId::new(r.u16()?));
        let number = MembershipId::new(r.u64()?);
        let (view, slot) = (View::new(r.u64()?), Slot::new(r.u64()?));
        let len = r.u32()? as usize;
        let batch = Batch::decode(r.bytes(len)?)?;
        let accepts = read_signed(&mut r)?;
        r.end()?;
        let link = Self::of(cluster, instance, (view, slot), &batch, &accepts);
        let link = link.filter(|link| link.number() == number && number.number() <= NUMBER_MAX);
        link.ok_or(Reject::Malformed("membership link: its batch holds no change, or something beside one"))
    }

    /// The name of its file: `membership-7.link`.
    pub fn file_name(&self) -> String {
        format!("membership-{}.link", self.number().number())
    }
}
