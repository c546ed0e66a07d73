//! The chain of memberships: who asks for membership links, and the answer. What a link proves, `base/auth` says.
//!
//! Drawing: docs/formats/wire.md. Tests: base/wire/tests.

use crate::{FrameKind, OutFrame, Put, Reader};
use bytes::Bytes;
use quorate_types::{MembershipId, Reject};

/// No membership link is longer than this: a change of 64 members with the longest addresses, and a signature of each.
pub const LINK_BYTES_MAX: usize = 48 << 10;
/// The links of one answer have at most this many bytes together.
pub const CHAIN_BYTES_MAX: usize = 64 << 10;
/// An answer has at most this many links.
const LINKS_MAX: usize = 512;

/// Membership links, as a replica answers who asks for those after a membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The membership that the replica has. Only its word: what it proves are the links.
    pub now: MembershipId,
    /// The link from the membership that was named, and those that follow it, as many as there are here and fit; none if the replica lacks
    /// the first one.
    pub links: Vec<Bytes>,
}

/// The frame that asks for the links after this membership. Whoever knows that membership can check them.
pub fn chain_request(after: MembershipId) -> OutFrame {
    OutFrame::new(FrameKind::ChainRequest, &after.number().to_le_bytes(), vec![])
}

/// Reads the payload of such a frame.
///
/// # Errors
/// When the bytes are no number of a membership.
pub fn read_chain_request(payload: Bytes) -> Result<MembershipId, Reject> {
    let mut r = Reader::new(payload, "chain request");
    let after = MembershipId::new(r.u64()?);
    r.end()?;
    Ok(after)
}

impl Chain {
    /// Those of these links, in order, that fit into one answer.
    pub fn of(now: MembershipId, links: impl IntoIterator<Item = Bytes>) -> Self {
        let mut bytes = 0;
        let fits = |link: &Bytes| {
            bytes += link.len();
            bytes <= CHAIN_BYTES_MAX
        };
        Self { now, links: links.into_iter().take(LINKS_MAX).take_while(fits).collect() }
    }

    /// The frame.
    ///
    /// # Panics
    /// When a link is longer than [`LINK_BYTES_MAX`].
    pub fn frame(&self) -> OutFrame {
        let mut out = Vec::new();
        out.put_u64(self.now.number());
        out.put_u16(self.links.len() as u16);
        for link in &self.links {
            assert!(link.len() <= LINK_BYTES_MAX, "a membership link is small");
            out.put_u16(link.len() as u16);
            out.extend_from_slice(link);
        }
        OutFrame::new(FrameKind::Chain, &out, vec![])
    }

    /// Reads the payload of such a frame.
    ///
    /// # Errors
    /// When the bytes are not links, one after the other, or are more than one answer may have.
    pub fn decode(payload: Bytes) -> Result<Self, Reject> {
        let too_large = |what, size: usize, max: usize| {
            Err(Reject::TooLarge { what, size: size as u64, max: max as u64 })
        };
        let mut r = Reader::new(payload, "chain");
        let (now, count) = (MembershipId::new(r.u64()?), usize::from(r.u16()?));
        if count > LINKS_MAX {
            return too_large("chain", count, LINKS_MAX);
        }
        let (mut links, mut bytes) = (Vec::new(), 0);
        for _ in 0..count {
            let len = usize::from(r.u16()?);
            bytes += len;
            if len > LINK_BYTES_MAX {
                return too_large("membership link", len, LINK_BYTES_MAX);
            }
            if bytes > CHAIN_BYTES_MAX {
                return too_large("chain", bytes, CHAIN_BYTES_MAX);
            }
            links.push(r.bytes(len)?);
        }
        r.end()?;
        Ok(Self { now, links })
    }
}
